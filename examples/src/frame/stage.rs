//! A program while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use tavola_client::{Account, TableClient, TableServiceClient};
use tokio::time::Instant;

use super::checks::Checks;
use super::meter::{self, Cost};
use super::options::{Options, client_options};
use super::server::Server;
use super::show::number;
use super::{Checked, Failure};

/// The server is killed so often in a run, at least.
const KILLS_PER_RUN: u32 = 3;
const BETWEEN_KILLS_MAX: Duration = Duration::from_secs(3);

/// A program while it runs: its service, its time, its invariants. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Stage(Arc<Inner>);

struct Inner {
    program: &'static str,
    options: Options,
    service: TableServiceClient,
    /// None if the tables are in this process.
    account: Option<Account>,
    /// One of our own.
    server: Option<Arc<Server>>,
    /// Part of the names of the tables, so that runs do not meet.
    run: String,
    checks: Checks,
    bar: ProgressBar,
    ends: Mutex<Instant>,
    killed: AtomicU64,
    server_killed: AtomicU64,
    begun_anew: AtomicU64,
    done: AtomicU64,
}

impl Stage {
    /// Connects, and starts a server if none was named.
    pub(crate) async fn open(
        program: &'static str,
        invariants: &[&'static str],
        options: Options,
    ) -> Checked<Self> {
        let server = match (&options.endpoint, options.in_memory) {
            (None, false) => Some(Arc::new(Server::start(options.server.as_deref())?)),
            _ => None,
        };
        let endpoint = match &server {
            Some(server) => Some(server.endpoint()),
            None => options.endpoint.clone(),
        };
        let account = endpoint.map(|endpoint| options.account(&endpoint)).transpose()?;
        let service = match &account {
            Some(account) => account.tables()?,
            None => TableServiceClient::on(tavola_local::in_memory(), Some(client_options())),
        };
        let place = match (&server, &account) {
            (Some(_), Some(account)) => format!("a server of its own at {}", account.endpoint()),
            (None, Some(account)) => account.endpoint().to_owned(),
            (_, None) => "tables in this process".to_owned(),
        };
        println!("{program}: {} s on {place}", options.seconds);
        let ends = Mutex::new(Instant::now() + options.duration());
        let bar = bar(options.duration());
        Ok(Self(Arc::new(Inner {
            program,
            options,
            service,
            account,
            server,
            run: format!("{:06x}", fastrand::u32(..) & 0xff_ffff),
            checks: Checks::new(invariants),
            bar,
            ends,
            killed: AtomicU64::new(0),
            server_killed: AtomicU64::new(0),
            begun_anew: AtomicU64::new(0),
            done: AtomicU64::new(0),
        })))
    }

    /// The service that the program uses.
    pub(crate) fn service(&self) -> &TableServiceClient {
        &self.0.service
    }

    /// The account with its key, unless the tables are in this process.
    pub(crate) fn account(&self) -> Option<&Account> {
        self.0.account.as_ref()
    }

    /// How long the program works.
    pub(crate) fn duration(&self) -> Duration {
        self.0.options.duration()
    }

    pub(crate) fn has_chaos(&self) -> bool {
        self.0.options.chaos
    }

    /// A new table of this run.
    pub(crate) async fn table(&self, name: &str) -> Checked<TableClient> {
        let table = self.0.service.table_client(self.table_name(name));
        table.create_table_if_missing().await?;
        Ok(table)
    }

    /// The name of a table of this run, which is deleted with `--clean`.
    pub(crate) fn table_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }

    fn prefix(&self) -> String {
        format!("{}{}", self.0.program.replace('-', ""), self.0.run)
    }

    /// Counts an invariant that was looked at; `found` says what was there instead.
    pub(crate) fn check(
        &self,
        invariant: &'static str,
        holds: bool,
        found: impl FnOnce() -> String,
    ) {
        self.0.checks.count(invariant, if holds { Ok(()) } else { Err(found()) });
    }

    /// Prints above the bar.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        self.0.bar.suspend(|| println!("{}", text.as_ref()));
    }

    /// Does something, and says what it took from the server, where the server is our own. Nothing
    /// else should run meanwhile.
    pub(crate) async fn measure<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Checked<(T, Option<Cost>)> {
        let Some(server) = &self.0.server else { return Ok((work.await, None)) };
        let before = meter::read(&server.admin()).await?;
        let begun = Instant::now();
        let done = work.await;
        let time = begun.elapsed();
        let cost = meter::read(&server.admin()).await? - before;
        Ok((done, Some(Cost { time, ..cost })))
    }

    /// The time of the workers begins now.
    pub(super) fn begin(&self) {
        *self.0.ends.lock().unwrap_or_else(PoisonError::into_inner) =
            Instant::now() + self.duration();
    }

    /// Whether the time of the program has passed.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.ends()
    }

    pub(super) fn ends(&self) -> Instant {
        *self.0.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tick(&self) {
        let left = self.ends().saturating_duration_since(Instant::now());
        let passed = self.duration().saturating_sub(left);
        self.0.bar.set_position(passed.as_millis() as u64);
        self.0.bar.set_message(format!("{} steps", number(self.0.done.load(Ordering::Relaxed))));
    }

    pub(super) fn note_done(&self) {
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_killed(&self) {
        self.0.killed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_begun_anew(&self) {
        self.0.begun_anew.fetch_add(1, Ordering::Relaxed);
    }

    /// Kills the server again and again, if it is our own. It is back when the time is over.
    pub(super) async fn kill_server_until_the_end(&self) -> Checked {
        let Some(server) = self.0.server.clone() else { return Ok(()) };
        let pause = (self.duration() / (KILLS_PER_RUN + 1)).min(BETWEEN_KILLS_MAX);
        while self.ends().saturating_duration_since(Instant::now()) > pause {
            tokio::time::sleep(pause).await;
            let server = Arc::clone(&server);
            let restarted = tokio::task::spawn_blocking(move || {
                server.kill();
                server.restart()
            });
            restarted.await??;
            self.0.server_killed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends the run: cleans up if asked to, and prints the last line. True if all invariants held.
    pub(crate) async fn close(self, played: Checked) -> Result<bool, Failure> {
        self.0.bar.finish_and_clear();
        let cleaned = self.clean().await;
        let count = |counter: &AtomicU64| number(counter.load(Ordering::Relaxed));
        println!(
            "{} steps; {} workers and {} servers killed; {} steps failed and were begun anew",
            count(&self.0.done),
            count(&self.0.killed),
            count(&self.0.server_killed),
            count(&self.0.begun_anew)
        );
        let (all_held, broken, line) = self.0.checks.verdict(self.0.program);
        for broken in broken {
            println!("{broken}");
        }
        played.and(cleaned)?;
        println!("{line}");
        Ok(all_held)
    }

    async fn clean(&self) -> Checked {
        if !self.0.options.clean {
            return Ok(());
        }
        let (prefix, mut deleted) = (self.prefix(), 0);
        let names: Vec<_> = self.0.service.tables().try_collect().await?;
        for name in names.iter().filter(|name| name.starts_with(&prefix)) {
            deleted += usize::from(self.0.service.delete_table_if_exists(name).await?);
        }
        println!("deleted {deleted} tables");
        Ok(())
    }
}

fn bar(time: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("  [{bar:40}] {elapsed} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(time.as_millis() as u64).with_style(style)
}
