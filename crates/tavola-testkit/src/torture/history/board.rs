//! What the clients of one seed share: the clock, the numbers of writes, and where the server is.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::record::{Moment, NEVER};
use crate::torture::Violation;

/// A server that was killed is back after this time, on a machine that does much else.
const RESTART_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Board {
    begun: Instant,
    numbers: AtomicU32,
    calls: AtomicU64,
    server: Mutex<Server>,
    restarted: Condvar,
}

#[derive(Debug)]
struct Server {
    authority: String,
    /// When each life of the server had ended.
    deaths: Vec<Moment>,
    is_alive: bool,
}

/// Which of its lives a server is in, counted from zero.
pub(super) type Life = usize;

impl Board {
    pub(super) fn new(authority: &str) -> Self {
        let server = Server { authority: authority.to_owned(), deaths: Vec::new(), is_alive: true };
        Self {
            begun: Instant::now(),
            numbers: AtomicU32::new(0),
            calls: AtomicU64::new(0),
            server: Mutex::new(server),
            restarted: Condvar::new(),
        }
    }

    pub(super) fn now(&self) -> Moment {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(NEVER)
    }

    /// A number that no write has had.
    pub(super) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The server's process has ended: what it was asked and did not answer is done by now, or never.
    pub(super) fn server_died(&self) {
        let now = self.now();
        let mut server = self.lock();
        server.deaths.push(now);
        server.is_alive = false;
    }

    pub(super) fn server_lives(&self, authority: &str) {
        let mut server = self.lock();
        (server.authority, server.is_alive) = (authority.to_owned(), true);
        self.restarted.notify_all();
    }

    /// Where the server is in this life or a later one; waits until it is there.
    ///
    /// # Errors
    /// If it does not come back.
    pub(super) fn server(&self, from: Life) -> Result<(String, Life), Violation> {
        let gone = |server: &mut Server| !server.is_alive || server.deaths.len() < from;
        let waited = self.restarted.wait_timeout_while(self.lock(), RESTART_TIME_MAX, gone);
        let (server, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Violation::new("a call got no answer, and yet the server was not killed"));
        }
        Ok((server.authority.clone(), server.deaths.len()))
    }

    /// When a life had ended.
    pub(super) fn death(&self, life: Life) -> Moment {
        self.lock().deaths.get(life).copied().unwrap_or(NEVER)
    }

    // Nothing under this lock can panic half-way: poisoning would say nothing.
    fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
