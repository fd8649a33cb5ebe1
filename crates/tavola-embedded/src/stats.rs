//! What the store has done since it was opened. `backend` exports it as metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of group sizes: 1, 2–3, 4–7, … transactions; the last takes all above.
pub(crate) const GROUP_SIZE_BUCKETS: usize = 11;

/// Counters since the store was opened, and what its engine holds now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Transactions that were written.
    pub commits: u64,
    /// Transactions that the domain refused.
    pub refusals: u64,
    /// Transactions that found the queue full.
    pub contended: u64,
    /// Groups that were written, each with one sync.
    pub syncs: u64,
    /// Bytes of those groups.
    pub bytes_written: u64,
    /// How many groups had 1, 2–3, 4–7, … transactions; the last bucket takes all above.
    pub group_sizes: [u64; GROUP_SIZE_BUCKETS],
    /// Point reads that the memory answered.
    pub gets_cached: u64,
    /// Point reads on a blocking thread, from the disk or the page cache.
    pub gets_from_disk: u64,
    /// Point reads that ran inline, because the page cache answered fast or the thread may block.
    pub gets_in_place: u64,
    /// Scans of a few rows that ran inline.
    pub scans_in_place: u64,
    /// Rows that scans looked at, also for clients that had gone.
    pub rows_scanned: u64,
    /// Bytes in the cache of rows.
    pub row_cache_bytes: u64,
    /// Bytes in the block cache.
    pub block_cache_bytes: u64,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Bytes of the engine's table files.
    pub table_file_bytes: u64,
}

/// The counters themselves. Each is exact; together they are not a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) contended: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) gets_cached: AtomicU64,
    pub(crate) gets_from_disk: AtomicU64,
    pub(crate) gets_in_place: AtomicU64,
    pub(crate) scans_in_place: AtomicU64,
    pub(crate) rows_scanned: AtomicU64,
    group_sizes: [AtomicU64; GROUP_SIZE_BUCKETS],
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn group_written(&self, transactions: u64, bytes: usize) {
        count(&self.syncs, 1);
        count(&self.bytes_written, bytes as u64);
        assert!(bytes > 0, "a group that was written has bytes");
        let bucket = transactions.max(1).ilog2() as usize;
        count(&self.group_sizes[bucket.min(GROUP_SIZE_BUCKETS - 1)], 1);
    }

    pub(crate) fn read(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            commits: get(&self.commits),
            refusals: get(&self.refusals),
            contended: get(&self.contended),
            syncs: get(&self.syncs),
            bytes_written: get(&self.bytes_written),
            group_sizes: std::array::from_fn(|bucket| get(&self.group_sizes[bucket])),
            gets_cached: get(&self.gets_cached),
            gets_from_disk: get(&self.gets_from_disk),
            gets_in_place: get(&self.gets_in_place),
            scans_in_place: get(&self.scans_in_place),
            rows_scanned: get(&self.rows_scanned),
            ..Stats::default()
        }
    }
}
