//! Counters of what the store has done since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper edges of the latency buckets, in milliseconds; one more bucket takes all above.
pub const LATENCY_EDGES_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
/// Upper edges of the buckets of batch widths: how many transactions shared a conditional batch.
pub const WIDTH_EDGES: [u64; 7] = [1, 2, 5, 10, 25, 50, 100];

/// The kinds of statements, each with a latency of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    Fence,
    Get,
    Rows,
    Slice,
    Register,
    Directory,
    Retire,
    Purge,
    Heartbeat,
}

const KINDS: [(Kind, &str); 10] = [
    (Kind::Write, "write"),
    (Kind::Fence, "fence"),
    (Kind::Get, "get"),
    (Kind::Rows, "rows"),
    (Kind::Slice, "slice"),
    (Kind::Register, "register"),
    (Kind::Directory, "directory"),
    (Kind::Retire, "retire"),
    (Kind::Purge, "purge"),
    (Kind::Heartbeat, "heartbeat"),
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        KINDS[self as usize].1
    }
}

/// How long statements of one kind took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    /// The kind, as metrics name it.
    pub statement: &'static str,
    /// How many took so long; the edges are [`LATENCY_EDGES_MS`].
    pub buckets: [u64; LATENCY_EDGES_MS.len() + 1],
    /// The sum of all times.
    pub total: Duration,
    /// How many failed.
    pub failed: u64,
}

/// Counters since the store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Transactions that were written.
    pub commits: u64,
    /// Transactions that the domain refused.
    pub refusals: u64,
    /// Transactions that found their partition's queue full.
    pub contended: u64,
    /// Conditional batches that were sent.
    pub attempts: u64,
    /// Conditional batches that were refused.
    pub attempts_refused: u64,
    /// Conditional batches that were repeated, whatever the reason.
    pub retries: u64,
    /// Conditional batches whose outcome was unknown at first.
    pub unknown: u64,
    /// Fences that were written to find out.
    pub fences: u64,
    /// Transactions that were answered with "unknown".
    pub unresolved: u64,
    /// Partitions that were entered into the directory.
    pub registrations: u64,
    /// Empty partitions that were removed from it.
    pub retirements: u64,
    /// Transactions that wait now.
    pub waiting: u64,
    /// How many batches carried so many transactions; the edges are [`WIDTH_EDGES`].
    pub widths: [u64; WIDTH_EDGES.len() + 1],
    /// The sum over those batches of how many they carried.
    pub width_total: u64,
    /// By kind of statement.
    pub latencies: Vec<Latency>,
}

/// The counters themselves. Each is exact; together they are not a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) contended: AtomicU64,
    pub(crate) attempts: AtomicU64,
    pub(crate) attempts_refused: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) fences: AtomicU64,
    pub(crate) unresolved: AtomicU64,
    pub(crate) registrations: AtomicU64,
    pub(crate) retirements: AtomicU64,
    pub(crate) waiting: AtomicU64,
    widths: [AtomicU64; WIDTH_EDGES.len() + 1],
    width_total: AtomicU64,
    latencies: [Timed; KINDS.len()],
}

#[derive(Debug, Default)]
struct Timed {
    buckets: [AtomicU64; LATENCY_EDGES_MS.len() + 1],
    total_us: AtomicU64,
    failed: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Of a counter that says how many there are now.
pub(crate) fn uncount(counter: &AtomicU64, fewer: u64) {
    counter.fetch_sub(fewer, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn timed(&self, kind: Kind, took: Duration, failed: bool) {
        let timed = &self.latencies[kind as usize];
        let bucket = LATENCY_EDGES_MS.partition_point(|edge| Duration::from_millis(*edge) < took);
        count(&timed.buckets[bucket], 1);
        count(&timed.total_us, took.as_micros() as u64);
        count(&timed.failed, u64::from(failed));
    }

    pub(crate) fn width(&self, transactions: usize) {
        count(&self.widths[WIDTH_EDGES.partition_point(|edge| *edge < transactions as u64)], 1);
        count(&self.width_total, transactions as u64);
    }

    pub(crate) fn read(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            commits: get(&self.commits),
            refusals: get(&self.refusals),
            contended: get(&self.contended),
            attempts: get(&self.attempts),
            attempts_refused: get(&self.attempts_refused),
            retries: get(&self.retries),
            unknown: get(&self.unknown),
            fences: get(&self.fences),
            unresolved: get(&self.unresolved),
            registrations: get(&self.registrations),
            retirements: get(&self.retirements),
            waiting: get(&self.waiting),
            widths: self.widths.each_ref().map(get),
            width_total: get(&self.width_total),
            latencies: KINDS
                .iter()
                .zip(&self.latencies)
                .map(|((_, statement), timed)| Latency {
                    statement,
                    buckets: timed.buckets.each_ref().map(get),
                    total: Duration::from_micros(get(&timed.total_us)),
                    failed: get(&timed.failed),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Counters, KINDS, Kind};

    #[test]
    fn a_kind_is_the_index_of_its_name() {
        for (index, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }

    #[test]
    fn buckets_have_upper_edges() {
        let counters = Counters::default();
        for millis in [0, 1, 2, 3, 9000] {
            counters.timed(Kind::Get, Duration::from_millis(millis), millis == 9000);
        }
        let stats = counters.read();
        let get = stats.latencies.iter().find(|latency| latency.statement == "get").unwrap();
        assert_eq!(get.buckets, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((get.total, get.failed), (Duration::from_millis(9006), 1));
        for width in [1, 3, 5, 100, 101] {
            counters.width(width);
        }
        assert_eq!(counters.read().widths, [1, 0, 2, 0, 0, 0, 1, 1]);
    }
}
