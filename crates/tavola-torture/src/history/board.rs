//! What the clients of one seed share: the clock, the numbers of writes, and where the servers are.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::record::{Moment, NEVER};
use crate::Violation;

/// A server that was killed is back after this time, on a machine that does much else.
const RESTART_TIME_MAX: Duration = Duration::from_secs(60);

/// A partition with so many calls without an answer, or so many calls, has been raced on enough:
/// with more of them the search for an order takes for ever.
const OPEN_MAX: u32 = 10;
const CALLS_MAX: u32 = 600;

#[derive(Debug)]
pub(super) struct Board {
    begun: Instant,
    numbers: AtomicU32,
    calls: AtomicU64,
    has_ended: AtomicBool,
    /// For each partition how many calls it has had, and how many of them without an answer.
    wear: Vec<(AtomicU32, AtomicU32)>,
    /// The table that the clients race on.
    pub(super) table: String,
    data: Data,
    servers: Mutex<Vec<Server>>,
    restarted: Condvar,
}

/// Where the data lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// In the one server: what it was asked is done when it is dead, or never.
    InTheServer,
    /// In a cluster behind any number of servers: what one of them was asked may be done at any
    /// later time, by nodes that outlive it. And a cluster with faults may have to say so.
    BehindTheServers,
}

#[derive(Debug)]
struct Server {
    authority: String,
    /// When each life of the server had ended.
    deaths: Vec<Moment>,
    is_alive: bool,
}

impl Server {
    fn new(authority: &str) -> Self {
        Self { authority: authority.to_owned(), deaths: Vec::new(), is_alive: true }
    }
}

/// Which server, and in which of its lives, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    server: usize,
    number: usize,
}

impl Board {
    pub(super) fn new(table: &str, data: Data, authorities: &[&str]) -> Self {
        Self {
            begun: Instant::now(),
            numbers: AtomicU32::new(0),
            calls: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            wear: (0..=u8::MAX).map(|_| Default::default()).collect(),
            table: table.to_owned(),
            data,
            servers: Mutex::new(
                authorities.iter().map(|authority| Server::new(authority)).collect(),
            ),
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

    pub(super) fn count_call_of(&self, partition: u8, is_open: bool) {
        self.count_call();
        let (calls, open) = &self.wear[usize::from(partition)];
        calls.fetch_add(1, Ordering::Relaxed);
        open.fetch_add(u32::from(is_open), Ordering::Relaxed);
    }

    /// Whether a partition has been raced on enough. The calls of one server end with it, and so
    /// does the wear.
    pub(super) fn is_worn_out(&self, partition: u8) -> bool {
        let (calls, open) = &self.wear[usize::from(partition)];
        let is_worn_out =
            calls.load(Ordering::Relaxed) >= CALLS_MAX || open.load(Ordering::Relaxed) >= OPEN_MAX;
        self.may_fail() && is_worn_out
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// No client begins another call.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Whether a server may say that it cannot serve, or does not know what became of a write.
    pub(super) fn may_fail(&self) -> bool {
        self.data == Data::BehindTheServers
    }

    /// A server's process has ended.
    pub(super) fn server_died(&self, index: usize) {
        let now = self.now();
        let server = &mut self.lock()[index];
        server.deaths.push(now);
        server.is_alive = false;
    }

    pub(super) fn server_lives(&self, index: usize, authority: &str) {
        let server = &mut self.lock()[index];
        (server.authority, server.is_alive) = (authority.to_owned(), true);
        self.restarted.notify_all();
    }

    /// Where to connect to: a server that lives, and not the life that failed, if there is another;
    /// waits until there is. Which of several is the caller's choice.
    ///
    /// # Errors
    /// If none comes back.
    pub(super) fn server(
        &self,
        failed: Option<Life>,
        choice: usize,
    ) -> Result<(String, Life), Violation> {
        let find = |servers: &[Server]| {
            let alive: Vec<Life> = lives(servers).collect();
            let others: Vec<Life> =
                alive.iter().copied().filter(|life| Some(*life) != failed).collect();
            // If the data is in the server, a life that gave no answer is over.
            let candidates = if others.is_empty() && self.may_fail() { alive } else { others };
            (!candidates.is_empty()).then(|| candidates[choice % candidates.len()])
        };
        let wait = self
            .restarted
            .wait_timeout_while(self.lock(), RESTART_TIME_MAX, |servers| find(servers).is_none());
        let (servers, _) = wait.unwrap_or_else(PoisonError::into_inner);
        match find(&servers) {
            Some(life) => Ok((servers[life.server].authority.clone(), life)),
            None => Err(Violation::new("a call got no answer, and yet the server was not killed")),
        }
    }

    /// True while a life has not ended.
    pub(super) fn is_alive(&self, life: Life) -> bool {
        lives(&self.lock()).any(|alive| alive == life)
    }

    /// When what was asked in a life, and not answered, was done or would never be.
    pub(super) fn end_of(&self, life: Life) -> Moment {
        match self.data {
            Data::InTheServer => {
                self.lock()[life.server].deaths.get(life.number).copied().unwrap_or(NEVER)
            }
            Data::BehindTheServers => NEVER,
        }
    }

    // Nothing under this lock can panic half-way: poisoning would say nothing.
    fn lock(&self) -> MutexGuard<'_, Vec<Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lives(servers: &[Server]) -> impl Iterator<Item = Life> {
    let alive = servers.iter().enumerate().filter(|(_, server)| server.is_alive);
    alive.map(|(index, server)| Life { server: index, number: server.deaths.len() })
}
