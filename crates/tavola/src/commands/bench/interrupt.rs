//! Ctrl-C: the first asks for an end in order, in which the table is dropped; the second does not
//! wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tavola_load::source::Source;
use tavola_load::{Reply, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Set by the first Ctrl-C.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM from now on. `table` is what the second one would leave
    /// behind.
    pub(super) fn listen(runtime: &Runtime, table: &str) -> std::result::Result<Self, Failure> {
        let cannot_listen = |error| Failure::System(format!("cannot listen for signals: {error}"));
        let _context = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot_listen)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(cannot_listen)?;
        let (asked, table) = (Self::default(), table.to_owned());
        let to_set = asked.clone();
        runtime.spawn(async move {
            either(&mut interrupt, &mut terminate).await;
            to_set.0.store(true, Ordering::Relaxed);
            eprintln!(
                "stopping: finishing open requests and dropping the table; press again to end at \
                 once"
            );
            either(&mut interrupt, &mut terminate).await;
            eprintln!("tavola: stopped; the table {table} remains: delete it with any client");
            std::process::exit(1);
        });
        Ok(asked)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// A source that ends after Ctrl-C, or when its time is up.
pub(super) struct Interruptible<'a> {
    pub(super) source: &'a mut dyn Source,
    pub(super) interrupt: &'a Interrupt,
    pub(super) until: Option<Instant>,
}

impl Source for Interruptible<'_> {
    fn next(&mut self, previous: Option<Reply<'_>>, is_over: bool, out: &mut Vec<u8>) -> bool {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        !is_late && !self.interrupt.is_asked() && self.source.next(previous, is_over, out)
    }

    fn check(&self, reply: Reply<'_>) -> Result<u64> {
        self.source.check(reply)
    }
}
