//! Ids of tables, which are never given out twice: of all accounts and all kinds of resources.

use std::ops::Range;
use std::sync::Arc;

use tavola_core::{
    EdmValue, EntityKey, EntityOperation, NewEntity, PartitionKey, Precondition, TableId, Timestamp,
};
use tavola_store::{Row, Store, StoreError};
use tokio::sync::Mutex;

use crate::clock::Clock;
use crate::error::ServiceError;
use crate::record::{Record, int64, require, row_key};
use crate::system_rows::{Decision, SystemRows, put, write_over};

/// Ids are taken from the store in blocks, so that creating a table costs one commit. Ids of a
/// block that is not used up when the process ends are never given out.
const IDS_PER_BLOCK: u64 = 1024;
const COUNTER_PROPERTY: &str = "Next";

/// The counter of ids.
#[derive(Debug)]
pub(crate) struct TableIds {
    rows: SystemRows,
    /// Ids reserved and not given out yet.
    free: Mutex<Range<u64>>,
}

impl TableIds {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let rows = SystemRows::new(store, clock, TableId::SEQUENCES);
        Self { rows, free: Mutex::new(0..0) }
    }

    /// An id that nobody ever had.
    pub(crate) async fn next(&self) -> Result<TableId, ServiceError> {
        let mut free = self.free.lock().await;
        if free.is_empty() {
            *free = self.reserve().await?;
        }
        let number = free.start;
        free.start += 1;
        Ok(TableId::new(number))
    }

    /// Takes the next block from the store's counter. Any number of processes may do so at once:
    /// only one of them can change the counter from the version that it read.
    async fn reserve(&self) -> Result<Range<u64>, ServiceError> {
        let decide = |row: Option<&Row>| {
            let start = row.map_or(Ok(TableId::FIRST_USER), read_counter)?;
            let end = start + IDS_PER_BLOCK;
            let operations = vec![write_over(row, counter(end)?)];
            Ok::<_, ServiceError>(Decision { operations, answer: start..end })
        };
        Ok(self.rows.change(&counter_key(), || (), decide).await?.answer)
    }
}

/// Lets ids go on at `next`, whatever was there.
pub(crate) async fn set_counter(
    store: &dyn Store,
    next: u64,
    now: Timestamp,
) -> Result<(), ServiceError> {
    let operation = EntityOperation::Replace(counter(next)?, Precondition::None);
    put(store, TableId::SEQUENCES, operation, counter_key(), now).await
}

/// The first table id that was never given out.
pub(crate) fn read_counter(row: &Row) -> Result<u64, StoreError> {
    Ok(require(row, COUNTER_PROPERTY, int64)? as u64)
}

fn counter(next: u64) -> Result<NewEntity, ServiceError> {
    let mut record = Record::default();
    record.set(COUNTER_PROPERTY, EdmValue::Int64(next as i64));
    Ok(record.into_entity(counter_key())?)
}

fn counter_key() -> EntityKey {
    EntityKey::new(PartitionKey::new("table").expect("a legal key"), row_key("id"))
}
