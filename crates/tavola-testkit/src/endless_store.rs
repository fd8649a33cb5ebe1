//! A table without an end: only a bound or a deadline ends a query of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tavola_core::{
    Cut, EdmValue, EntityKey, PartitionKey, Properties, PropertyName, RowKey, Timestamp,
};
use tavola_store::encoding::encode_value;
use tavola_store::page::PageBuilder;
use tavola_store::{MemoryStore, Scan, ScanPage, Store, StoreError, StoreLayer};

use crate::wide;

/// Ids below it are the service's own.
const FIRST_USER_TABLE: u64 = 256;
/// The one partition of every table.
const PARTITION: &str = "p";

/// A store in which every table of a client has endless rows, all with the same properties. What is
/// written is kept for point reads, and the service's own tables are as they should be.
#[derive(Debug)]
pub struct EndlessStore {
    written: MemoryStore,
    value: Vec<u8>,
    rows_read: Arc<AtomicU64>,
}

impl EndlessStore {
    /// Rows with [`wide_properties`].
    #[must_use]
    pub fn new(properties: usize) -> Self {
        let value = encode_value(&wide_properties(properties), Timestamp::MIN);
        Self { written: MemoryStore::new(), value, rows_read: Arc::default() }
    }

    /// How many rows of clients' tables scans have looked at, also while they run.
    #[must_use]
    pub fn rows_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rows_read)
    }
}

/// What [`wide::entity_json`] has beside its keys.
///
/// # Panics
/// If no row can have so many.
#[must_use]
pub fn wide_properties(count: usize) -> Properties {
    let property = |number| {
        (PropertyName::new(wide::property_name(number)).expect("an identifier"), EdmValue::Int32(0))
    };
    Properties::new((0..count).map(property).collect()).expect("a row may have so many")
}

fn row_key(number: u64) -> String {
    format!("{number:012}")
}

/// The number of the first row behind a cut.
fn first_row(cut: &Cut) -> u64 {
    let number = |key: &EntityKey| key.row_key.as_str().parse().unwrap_or(0);
    match cut {
        Cut::Before(key) => number(key),
        Cut::After(key) => number(key) + 1,
        _ => 0,
    }
}

#[async_trait]
impl StoreLayer for EndlessStore {
    fn below(&self) -> &dyn Store {
        &self.written
    }

    async fn on_scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        if scan.table.number() < FIRST_USER_TABLE {
            return self.written.scan(scan).await;
        }
        let mut page = PageBuilder::new(scan);
        for number in first_row(&scan.range.start).. {
            let row_key = row_key(number);
            if page.is_full() {
                let (partition_key, row_key) = (PartitionKey::new(PARTITION), RowKey::new(row_key));
                let key = EntityKey::new(partition_key.expect("legal"), row_key.expect("legal"));
                return Ok(page.next_is(Cut::Before(key)));
            }
            page.offer_row(PARTITION, &row_key, &self.value)?;
            self.rows_read.fetch_add(1, Ordering::Relaxed);
        }
        Ok(page.exhausted())
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::filter::eval::matches;
    use tavola_core::filter::parse::parse;
    use tavola_core::limits::{FILTER_COMPARISONS_MAX, PROPERTIES_MAX};
    use tavola_core::{Entity, EntityKey, Timestamp};

    use super::wide_properties;
    use crate::wide;

    #[test]
    fn the_widest_filter_is_legal_and_finds_nothing() {
        let filter = parse(&wide::filter(FILTER_COMPARISONS_MAX, PROPERTIES_MAX))
            .expect("legal")
            .expect("a filter");
        let properties = wide_properties(PROPERTIES_MAX);
        let entity = Entity { key: EntityKey::default(), timestamp: Timestamp::MIN, properties };
        assert!(!matches(&filter, &entity));
    }
}
