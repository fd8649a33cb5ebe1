//! The contract of a store.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use tavola_core::{
    CompiledFilter, Cut, EntityAddress, EntityGroupTransaction, FailedOperation, KeyRange, Outcome,
    TableId, Timestamp,
};

use crate::blocking::Blocking;
use crate::encoding::Row;
use crate::error::StoreError;
use crate::stop::StopToken;

/// What a commit came to: every operation's outcome, or the refusal of the first that failed. A
/// refusal is an answer, not trouble: nothing was written, and asking again would give the same.
pub type CommitResult = Result<Vec<Outcome>, FailedOperation>;

/// A commit that is under way.
pub type CommitFuture<'a> =
    Pin<Box<dyn Future<Output = Result<CommitResult, StoreError>> + Send + 'a>>;

/// Where entities are kept. Four methods, so that a new backend is one small crate.
///
/// # What a store guarantees
///
/// - **Atomic.** A commit is applied whole or not at all, and no reader sees a part of one within a
///   partition's `get`s and within one page of a `scan`.
/// - **Isolated.** Commits of one partition take effect one after another. Each is decided
///   ([`tavola_core::decide`]) on exactly the rows that it changes; if they moved meanwhile, it is
///   decided again.
/// - **Durable.** When `commit` returns `Ok(Ok(_))` the change survives the loss of the process and
///   of the machine. A verdict that was reached by reading another writer's change is returned only
///   after that change is durable too.
/// - **Linearizable per partition.** A `get` or `scan` that begins after a commit returned sees it.
/// - **Ordered.** `scan` returns entities by PartitionKey, then RowKey, both by UTF-16 code unit.
/// - **Versions never repeat.** The version given to a commit is above every version that the
///   partition ever had, deleted rows included, whatever the clock does and across restarts. All
///   operations of a commit share it.
/// - **Honest.** Damage is [`StoreError::Corrupt`], never a wrong or missing row. After a failed
///   sync nothing more is acknowledged.
///
/// # Unknown outcomes
///
/// [`StoreError::UnknownOutcome`] says that the commit may or may not have been applied, now or
/// later until the store's own deadline; it is neither success nor failure. A caller may read, and
/// may tell its client that it does not know. It must not repeat the commit as if it had failed: an
/// insert could meet itself, an upsert could overwrite a later write of another. A store that
/// can find out must do so itself before it gives this answer.
///
/// # Tables
///
/// A store knows tables only by their ids, which are never used again, and needs no call to create
/// one. Id 0 is the store's own. `purge` removes all rows of an id to which no new request will
/// write.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// One entity, or `None`. `blocking` says whether the calling thread may wait for a disk.
    async fn get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError>;

    /// Entities of one key range in order, as far as the scan's bounds allow. The cost depends on
    /// the rows that are read, never on the size of the table.
    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError>;

    /// Carries out one transaction on one partition, or nothing of it. The version is above `now`
    /// or equal to it, unless the partition has seen a later one.
    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError>;

    /// The same for a tenant, whose name means nothing to a store: one that shares out places
    /// between those who write needs to know whose write it is. Others leave this method alone.
    fn commit_for<'a>(
        &'a self,
        _tenant: &'a str,
        table: TableId,
        transaction: &'a EntityGroupTransaction,
        now: Timestamp,
    ) -> CommitFuture<'a> {
        self.commit(table, transaction, now)
    }

    /// Removes all rows of a table, while the store serves. Repeating it is harmless.
    async fn purge(&self, table: TableId) -> Result<(), StoreError>;
}

/// What a scan reads.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The table.
    pub table: TableId,
    /// Which keys.
    pub range: KeyRange,
    /// Rows that do not satisfy it are left out, where their bytes lie ([`crate::RowFilter`]), so
    /// that rows that it leaves out are never copied.
    pub residual: Option<Arc<CompiledFilter>>,
    /// Return at most so many rows; at least one.
    pub rows_max: usize,
    /// Stop once the returned rows' bytes reach this; a single row may exceed it.
    pub bytes_max: usize,
    /// Look at no more than so many rows.
    pub read_max: usize,
    /// Once it is due, end after the row at hand: the page has what was found so far and says where
    /// to go on, as one that looked at `read_max` rows. It may then be empty, but it has looked at
    /// one row, so that scans get on.
    pub stop: StopToken,
    /// The same, so that others get the thread: the caller goes on at once. A store that waits for
    /// answers from elsewhere holds no thread and need not heed it.
    pub yield_at: Option<Instant>,
    /// Whether the calling thread may wait for a disk.
    pub blocking: Blocking,
}

/// To look at so many rows takes hardly longer than to look at one.
pub const SHORT_SCAN_ROWS: usize = 20;

impl Scan {
    /// All rows of a range, without any bound.
    #[must_use]
    pub fn all(table: TableId, range: KeyRange) -> Self {
        let (rows_max, bytes_max, read_max) = (usize::MAX, usize::MAX, usize::MAX);
        Self {
            table,
            range,
            residual: None,
            rows_max,
            bytes_max,
            read_max,
            stop: StopToken::default(),
            yield_at: None,
            blocking: Blocking::Forbidden,
        }
    }

    /// True if it looks at a few rows only, however many there are.
    #[must_use]
    pub fn is_short(&self) -> bool {
        let rows =
            if self.residual.is_some() { self.read_max } else { self.rows_max.min(self.read_max) };
        rows <= SHORT_SCAN_ROWS
    }
}

/// What a scan found.
#[derive(Debug, Default)]
pub struct ScanPage {
    /// In the order of keys.
    pub rows: Vec<Row>,
    /// How many rows were looked at.
    pub rows_read: u64,
    /// Where to go on; `None` if the range is exhausted. [`Cut::Before`] names the row that was not
    /// looked at any more; behind any other cut there may be nothing left.
    pub next: Option<Cut>,
}
