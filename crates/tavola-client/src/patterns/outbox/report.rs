//! What a worker did.

use std::time::Duration;

use time::OffsetDateTime;

/// What a worker did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkReport {
    /// Pieces of work that were done.
    pub done: usize,
    /// Pieces of work for which there was nothing to do; the reason is in the log.
    pub skipped: usize,
    /// Attempts that failed.
    pub failed: usize,
    /// Pieces of work that were parked.
    pub poisoned: usize,
    /// Pieces of work that another worker took at the same moment.
    pub contended: usize,
    /// Pieces of work that are left for later.
    pub waiting: usize,
    /// Pieces of work whose step this worker does not have.
    pub foreign: usize,
    /// Hints that were deleted because nothing is left where they point.
    pub swept: usize,
    /// The age of the oldest piece of work that it saw.
    pub lag: Duration,
    /// How often the most tried piece of work was begun.
    pub attempts_max: u32,
    /// When the first of those that are left is due.
    pub(super) next_due: Option<OffsetDateTime>,
}

impl WorkReport {
    pub(super) fn add(&mut self, other: Self) {
        self.done += other.done;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.poisoned += other.poisoned;
        self.contended += other.contended;
        self.waiting += other.waiting;
        self.foreign += other.foreign;
        self.swept += other.swept;
        self.lag = self.lag.max(other.lag);
        self.attempts_max = self.attempts_max.max(other.attempts_max);
        self.next_due = [self.next_due, other.next_due].into_iter().flatten().min();
    }

    /// Work that is left until then.
    pub(super) fn leave(&mut self, due: OffsetDateTime) {
        self.waiting += 1;
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
    }

    pub(super) fn has_moved(&self) -> bool {
        self.done + self.skipped + self.poisoned > 0
    }
}
