//! The store to read first: a map in memory behind a lock. It forgets everything with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tavola_core::{
    Change, Cut, EntityAddress, EntityGroupTransaction, EntityOperation, EntityView, TableId,
    Timestamp,
};

use crate::backend::Backend;
use crate::blocking::Blocking;
use crate::decision::{decide_all, next_version};
use crate::encoding::{Row, encode_value};
use crate::error::StoreError;
use crate::import::{Import, ImportError, is_missing};
use crate::keys::{encode_address, encode_cut, encode_key};
use crate::page::PageBuilder;
use crate::store::{CommitResult, Scan, ScanPage, Store};

/// Rows removed by a purge before others get the lock.
const PURGE_ROWS_MAX: usize = 1024;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: RwLock<State>,
}

struct State {
    /// Encoded values by key bytes, whose order is the order of entities.
    rows: BTreeMap<Vec<u8>, Box<[u8]>>,
    /// One for the whole store is above those of every partition.
    last_version: Timestamp,
}

impl Default for State {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), last_version: Timestamp::MIN }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("rows", &self.rows.len())
            .field("last_version", &self.last_version)
            .finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    // A panic under the lock leaves no half-written state: changes are applied only after all were
    // decided and encoded.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn get(&self, address: &EntityAddress) -> Result<Option<Row>, StoreError> {
        let (partition_key, row_key) =
            (address.key.partition_key.as_str(), address.key.row_key.as_str());
        let value = self.rows.get(&encode_address(address));
        value.map(|value| Row::new(partition_key, row_key, value)).transpose()
    }

    fn range(
        &self,
        table: TableId,
        start: &Cut,
        end: &Cut,
    ) -> impl Iterator<Item = (&Vec<u8>, &Box<[u8]>)> {
        let (start, end) = (encode_cut(table, start), encode_cut(table, end));
        // BTreeMap panics on a range that ends before it starts; to a caller it is merely empty.
        let end = end.max(start.clone());
        self.rows.range((Bound::Included(start), Bound::Excluded(end)))
    }

    fn commit(
        &mut self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        let partition_key = transaction.partition_key();
        let version = next_version(now, self.last_version)?;
        let current = |_, operation: &EntityOperation| {
            let row_key = operation.row_key();
            let value = self.rows.get(&encode_key(table, partition_key, row_key));
            value.map(|value| Row::new(partition_key.as_str(), row_key.as_str(), value)).transpose()
        };
        let changes = match decide_all(transaction, version, current)? {
            Ok(changes) => changes,
            Err(failed) => return Ok(Err(failed)),
        };
        self.last_version = version;
        for (operation, change) in transaction.operations().iter().zip(&changes) {
            let key = encode_key(table, partition_key, operation.row_key());
            match change {
                Change::Put { properties, timestamp } => {
                    self.rows.insert(key, encode_value(properties, *timestamp).into_boxed_slice());
                }
                Change::Delete => {
                    self.rows.remove(&key);
                }
            }
        }
        Ok(Ok(changes.iter().map(Change::outcome).collect()))
    }

    fn import(&mut self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        for row in rows {
            let key = row.key()?;
            let key = encode_key(table, &key.partition_key, &key.row_key);
            if is_missing(row, self.rows.get(&key).map(AsRef::as_ref))? {
                self.rows.insert(key, row.value().into());
                self.last_version = self.last_version.max(row.timestamp());
            }
        }
        Ok(())
    }

    /// Removes some rows of a table; true if more may be left.
    fn purge_some(&mut self, table: TableId) -> bool {
        let keys: Vec<Vec<u8>> = self
            .range(table, &Cut::Start, &Cut::End)
            .take(PURGE_ROWS_MAX)
            .map(|(key, _)| key.clone())
            .collect();
        for key in &keys {
            self.rows.remove(key);
        }
        keys.len() == PURGE_ROWS_MAX
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, address: &EntityAddress, _: Blocking) -> Result<Option<Row>, StoreError> {
        self.read().get(address)
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        let state = self.read();
        let mut page = PageBuilder::new(scan);
        for (key, value) in state.range(scan.table, &scan.range.start, &scan.range.end) {
            if page.is_full() {
                return page.continued_at(key);
            }
            page.offer(key, value)?;
        }
        Ok(page.exhausted())
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.write().commit(table, transaction, now)
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        while self.write().purge_some(table) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl Backend for MemoryStore {
    fn store(self: Arc<Self>) -> Arc<dyn Store> {
        self
    }

    fn import(self: Arc<Self>) -> Option<Arc<dyn Import>> {
        Some(self)
    }
}

/// It counts nothing.
impl Collector for MemoryStore {
    fn encode(&self, _encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        Ok(())
    }
}

#[async_trait]
impl Import for MemoryStore {
    async fn import(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        self.write().import(table, rows)
    }
}
