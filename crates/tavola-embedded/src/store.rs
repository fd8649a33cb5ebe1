//! The four methods on the engine, and where each of them runs.
//!
//! A point read tries the caches on the caller's thread. On a miss it goes on there as long as the
//! page cache has the files (`inline_reads`), and moves to a blocking thread otherwise. A scan of a
//! few rows does the same; other scans move unless they are on a blocking thread already. Commits
//! go through the group commit.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, EntityOperation, TableId, Timestamp};
use tavola_store::keys::{encode_address, encode_cut, encode_key};
use tavola_store::page::PageBuilder;
use tavola_store::{
    Blocking, CommitResult, Import, ImportError, Row, Scan, ScanPage, Store, StoreError,
};

use crate::engine::{Engine, ReadError};
use crate::error::OpenError;
use crate::group_commit::GroupCommit;
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};
use crate::options::{Options, Walk};
use crate::reclaim;
use crate::scans::Scans;
use crate::stats::{Counters, Stats, count};

/// A store in a folder of one machine.
pub struct EmbeddedStore {
    // Before the engine: its threads end before the engine does.
    commits: Arc<GroupCommit<Engine>>,
    engine: Arc<Engine>,
    scans: Arc<Scans>,
    counters: Arc<Counters>,
    /// One purge at a time: each may rewrite files.
    purges: tokio::sync::Mutex<()>,
}

impl EmbeddedStore {
    /// Opens the data folder at `path`, which is created if it does not exist. Blocks for the time
    /// of a recovery.
    ///
    /// # Errors
    /// If the folder is in use, not ours, of a newer format, or damaged. Then nothing in it was
    /// changed.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let engine = Arc::new(Engine::open(path, &options)?);
        let last_version = engine.last_version(path)?;
        let counters = Arc::new(Counters::default());
        let commits =
            GroupCommit::start(Arc::clone(&engine), Arc::clone(&counters), last_version, &options)
                .map_err(OpenError::io("start threads for", path))?;
        Ok(Self {
            commits: Arc::new(commits),
            engine,
            scans: Arc::new(Scans::new(options.scans_max)),
            counters,
            purges: tokio::sync::Mutex::new(()),
        })
    }

    /// Whether writes are taken. Asking also looks whether the engine has recovered from a full
    /// disk.
    ///
    /// # Errors
    /// The reason why not, for people.
    pub fn health(&self) -> Result<(), String> {
        self.commits.health()
    }

    /// What is wrong although the store serves, and what to do about it, for people.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        self.engine.damage()
    }

    /// What the store has done and what it holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            row_cache_bytes: self.engine.rows.bytes(),
            block_cache_bytes: self.engine.block_cache_bytes(),
            memtable_bytes: self.engine.memtable_bytes(),
            table_file_bytes: self.engine.table_file_bytes(),
            ..self.counters.read()
        }
    }

    /// Reads the rows of a transaction into memory, on a thread of its caller: all other commits
    /// wait for the leader, which then need not wait for the disk to read these rows.
    async fn warm(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
    ) -> Result<(), StoreError> {
        if self.engine.inline_reads.is_inline() {
            return Ok(());
        }
        let key = |operation: &EntityOperation| {
            encode_key(table, transaction.partition_key(), operation.row_key())
        };
        let is_cold =
            |key: &Vec<u8>| matches!(self.engine.get_cached(key), Err(ReadError::TakesLonger));
        let cold: Vec<Vec<u8>> = transaction.operations().iter().map(key).filter(is_cold).collect();
        if cold.is_empty() {
            return Ok(());
        }
        let engine = Arc::clone(&self.engine);
        on_blocking_thread(move || {
            cold.iter().try_for_each(|key| engine.get_blocking(key).map(|_| ()))
        })
        .await
    }

    /// Finishes what waits, refuses further commits, and leaves nothing for the next open to
    /// recover. Blocks. Reads are served until the store is dropped.
    ///
    /// # Errors
    /// If the engine cannot write its files; what was acknowledged is safe in its log all the same.
    pub fn close(&self) -> Result<(), StoreError> {
        self.commits.close();
        self.scans.wait_for_running();
        self.engine.flush()
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError> {
        let key = encode_address(address);
        if let Some(row) = self.engine.rows.get(&key) {
            count(&self.counters.gets_cached, 1);
            return Ok(Some(row));
        }
        if blocking == Blocking::Allowed || self.engine.inline_reads.is_inline() {
            count(&self.counters.gets_in_place, 1);
            let read = || self.engine.get(&key)?.map(|value| row(address, &value)).transpose();
            return self.engine.rows.fill(&key, read);
        }
        let read =
            || Ok(self.engine.get_cached(&key)?.map(|value| row(address, &value)).transpose()?);
        match self.engine.rows.fill(&key, read) {
            Ok(row) => {
                count(&self.counters.gets_cached, 1);
                Ok(row)
            }
            Err(ReadError::Failed(error)) => Err(error),
            Err(ReadError::TakesLonger) => {
                count(&self.counters.gets_from_disk, 1);
                let (engine, address) = (Arc::clone(&self.engine), address.clone());
                on_blocking_thread(move || {
                    let read = || {
                        engine.get_blocking(&key)?.map(|value| row(&address, &value)).transpose()
                    };
                    engine.rows.fill(&key, read)
                })
                .await
            }
        }
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        let running = self.scans.begin().await?;
        if scan.blocking == Blocking::Allowed {
            return Ok(page(&self.engine, &self.counters, scan, walk(scan))?);
        }
        if scan.is_short() && self.engine.inline_reads.is_inline() {
            match self
                .engine
                .inline_reads
                .watch(|| page(&self.engine, &self.counters, scan, walk(scan).nearby()))
            {
                Err(ReadError::TakesLonger) => {}
                Ok(page) => {
                    count(&self.counters.scans_in_place, 1);
                    return Ok(page);
                }
                Err(ReadError::Failed(error)) => return Err(error),
            }
        }
        let (engine, counters, scan) =
            (Arc::clone(&self.engine), Arc::clone(&self.counters), scan.clone());
        on_blocking_thread(move || {
            // The scan ends with its work, also if its caller has gone.
            let _running = running;
            Ok(page(&engine, &counters, &scan, walk(&scan))?)
        })
        .await
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.warm(table, transaction).await?;
        #[cfg(feature = "mutants")]
        if mutants::is(Mutant::EtagOutsideCommit) {
            return match mutants::check_early(&self.engine, table, transaction)? {
                Ok(unconditional) => self.commits.commit(table, unconditional, now).await,
                Err(failed) => Ok(Err(failed)),
            };
        }
        self.commits.commit(table, transaction.clone(), now).await
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        let _one_at_a_time = self.purges.lock().await;
        let (engine, commits, scans) =
            (Arc::clone(&self.engine), Arc::clone(&self.commits), Arc::clone(&self.scans));
        on_blocking_thread(move || reclaim::purge(&engine, &commits, &scans, table)).await
    }
}

#[async_trait]
impl Import for EmbeddedStore {
    async fn import(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        self.commits.import(table, rows.to_vec()).await
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("engine", &self.engine).finish_non_exhaustive()
    }
}

fn row(address: &EntityAddress, value: &[u8]) -> Result<Row, StoreError> {
    Row::new(address.key.partition_key.as_str(), address.key.row_key.as_str(), value)
}

/// Reads a page. The residual is evaluated on the bytes in place; rows that it leaves out are never
/// copied.
fn page(
    engine: &Engine,
    counters: &Counters,
    scan: &Scan,
    walk: Walk,
) -> Result<ScanPage, ReadError> {
    let start = encode_cut(scan.table, &scan.range.start);
    let end = encode_cut(scan.table, &scan.range.end);
    let mut page = PageBuilder::new(scan);
    let mut next = None;
    engine.for_each(&start, end, walk, |key, value| {
        if page.is_full() {
            next = Some(key.to_vec());
            return Ok(false);
        }
        page.offer(key, value)?;
        Ok(true)
    })?;
    let page = match next {
        Some(next) => page.continued_at(&next)?,
        None => page.exhausted(),
    };
    count(&counters.rows_scanned, page.rows_read);
    Ok(page)
}

/// A row is a few hundred bytes. How many rows a scan with a residual reads is unknown.
fn walk(scan: &Scan) -> Walk {
    const ROW_BYTES_USUAL: usize = 400;
    let rows =
        if scan.residual.is_some() { scan.read_max } else { scan.rows_max.min(scan.read_max) };
    let fills_cache = scan.range.sole_partition().is_some();
    Walk {
        bytes: rows.saturating_mul(ROW_BYTES_USUAL).min(scan.bytes_max),
        fills_cache,
        steps_over_max: None,
    }
}

/// Runs work that may wait for the disk on a blocking thread.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|ended| {
        Err(StoreError::unavailable("a read of the store was cut short", ended))
    })
}
