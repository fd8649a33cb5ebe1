//! Leadership: the threads that take groups from the queue, and callers that lead a solo commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tavola_core::Timestamp;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::decided::Decided;
use super::job::Job;
use super::journal::Journal;
use crate::disk_space::FreeSpace;
use crate::queue::{LeaderGuard, Queue};
use crate::stats::Counters;
use crate::write_halt::HaltState;

/// A leader with more answers than these to send gives up leadership first. Sending fewer takes
/// less time than waking the other thread.
const ANSWERED_WHILE_LEADING_MAX: usize = 4;

/// How often the engine is asked for its background errors, unless a probe wants to know.
const ERRORS_INTERVAL: Duration = Duration::from_millis(100);

/// How often the free space of a disk that has enough is looked at.
pub(super) const FREE_SPACE_INTERVAL: Duration = Duration::from_millis(10);

/// What the threads and callers share.
pub(super) struct Shared<J> {
    pub(super) journal: Arc<J>,
    pub(super) counters: Arc<Counters>,
    pub(super) queue: Queue<Job>,
    pub(super) leader: Mutex<Leader>,
    pub(super) halt: HaltState,
    /// A probe waits in the queue.
    pub(super) is_probing: AtomicBool,
    /// The number of background errors after which the engine still wrote.
    pub(super) background_errors_survived: AtomicU64,
}

/// State that only the leader touches.
pub(super) struct Leader {
    /// The highest version ever assigned, over all partitions.
    pub(super) last_version: Timestamp,
    /// Since when an engine that ran out of space has had enough of it again.
    pub(super) space_since: Option<Instant>,
    /// When the log last said that writes are refused because the disk is full.
    pub(super) full_logged: Option<Instant>,
    errors_asked: Option<Instant>,
    /// When the disk was last seen with enough space.
    space_seen: Option<Instant>,
}

impl Leader {
    pub(super) fn new(last_version: Timestamp) -> Self {
        Self {
            last_version,
            space_since: None,
            full_logged: None,
            errors_asked: None,
            space_seen: None,
        }
    }

    /// A disk that had space a moment ago still has: far less than the reserve can be written
    /// within the interval.
    pub(super) fn free_space(&mut self, ask: impl FnOnce() -> FreeSpace) -> FreeSpace {
        if self.space_seen.is_some_and(|seen| seen.elapsed() < FREE_SPACE_INTERVAL) {
            return FreeSpace::Enough;
        }
        let free_space = ask();
        self.space_seen = (free_space == FreeSpace::Enough).then(Instant::now);
        free_space
    }

    /// The engine takes its central mutex to report background errors, so not every group asks. A
    /// probe always does.
    pub(super) fn is_to_ask(&mut self, is_probe: bool) -> bool {
        let is_due = self.errors_asked.is_none_or(|asked| asked.elapsed() > ERRORS_INTERVAL);
        if is_due || is_probe {
            self.errors_asked = Some(Instant::now());
        }
        is_due || is_probe
    }

    /// Versions are spent as soon as they may be on disk.
    pub(super) fn spend_versions(&mut self, up_to: Timestamp) {
        assert!(up_to >= self.last_version, "versions never go back");
        self.last_version = up_to;
    }
}

impl<J: Journal> Shared<J> {
    /// The life of one thread. A panic outside of a commit is a defect of the queue; without this
    /// thread nothing would drain it, and its callers would wait for ever.
    pub(super) fn run(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.lead_groups())).is_err() {
            self.halt.broken("a thread of the group commit panicked");
            self.queue.abandon();
        }
    }

    fn lead_groups(&self) {
        while let Some((leadership, group)) = self.queue.lead() {
            let decided = self.commit_catching_panics(group);
            let is_quiet = decided.len() <= ANSWERED_WHILE_LEADING_MAX && self.queue.is_empty();
            let kept = is_quiet.then_some(leadership);
            // Before the answers: a log that loses one of these writes must not look like a log
            // that never had it.
            self.journal.note_synced();
            decided.into_iter().for_each(Decided::answer);
            drop(kept);
        }
    }

    /// Commits one transaction on its caller's thread: handing it over and its answer back would
    /// take longer than everything but the sync. The thread may serve sockets, so tokio moves those
    /// to another one meanwhile.
    pub(super) fn commit_solo(&self, leadership: LeaderGuard<'_, Job>, job: Job) {
        tokio::task::block_in_place(|| {
            let decided = self.commit_catching_panics(vec![job]);
            drop(leadership);
            self.journal.note_synced();
            decided.into_iter().for_each(Decided::answer);
        });
    }

    /// Unwinding drops the senders of the group, so that each caller gets `UnknownOutcome`.
    fn commit_catching_panics(&self, group: Vec<Job>) -> Vec<Decided> {
        // Never contended: only the leader takes it.
        let mut leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        let decided = catch_unwind(AssertUnwindSafe(|| self.commit_group(&mut leader, group)));
        if decided.is_err() {
            self.halt.broken("a commit panicked");
        }
        decided.unwrap_or_default()
    }
}

/// True on a thread whose sockets tokio can move to another one while it waits for the disk.
pub(super) fn can_block_in_place() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

impl<J> std::fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("halt", &self.halt).finish_non_exhaustive()
    }
}
