//! Short words for what the cases need.

use std::sync::Arc;

use tavola_core::{
    Cut, DomainError, ETag, EdmValue, Entity, EntityAddress, EntityGroupTransaction, EntityKey,
    EntityOperation, EntityView, KeyRange, NewEntity, Outcome, PartitionKey, Precondition,
    Properties, PropertyName, RowKey, TableId, Timestamp,
};
use tavola_store::{Blocking, CommitResult, Row, Scan, ScanPage, Store};

/// The table that most cases use.
pub const TABLE: TableId = TableId::new(1000);

/// A clock that does not move.
pub fn now() -> Timestamp {
    at(130_000_000_000_000_000)
}

/// A point on the clock.
pub fn at(ticks: u64) -> Timestamp {
    Timestamp::from_ticks(ticks).expect("the ticks of a case are in range")
}

/// A PartitionKey.
pub fn partition(text: &str) -> PartitionKey {
    PartitionKey::stored(text).expect("the keys of a case are legal")
}

/// Both keys.
pub fn key(partition_key: &str, row_key: &str) -> EntityKey {
    EntityKey::new(
        partition(partition_key),
        RowKey::stored(row_key).expect("the keys of a case are legal"),
    )
}

/// Properties from names and values.
pub fn properties<const N: usize>(list: [(&str, EdmValue); N]) -> Properties {
    let named =
        |(name, value)| (PropertyName::new(name).expect("the names of a case are legal"), value);
    Properties::new(list.into_iter().map(named).collect())
        .expect("the properties of a case are legal")
}

/// One property `N` with this number.
pub fn number(value: i32) -> Properties {
    properties([("N", EdmValue::Int32(value))])
}

fn new_entity(row_key: &str, properties: Properties) -> NewEntity {
    NewEntity::new(key("", row_key), properties).expect("the entities of a case are small enough").1
}

/// The entity must not exist.
pub fn insert(row_key: &str, properties: Properties) -> EntityOperation {
    EntityOperation::Insert(new_entity(row_key, properties))
}

/// The whole property set.
pub fn replace(row_key: &str, properties: Properties, wanted: Precondition) -> EntityOperation {
    EntityOperation::Replace(new_entity(row_key, properties), wanted)
}

/// Some properties.
pub fn merge(row_key: &str, properties: Properties, wanted: Precondition) -> EntityOperation {
    EntityOperation::Merge(new_entity(row_key, properties), wanted)
}

/// The entity goes.
pub fn delete(row_key: &str, wanted: Precondition) -> EntityOperation {
    EntityOperation::Delete(key("", row_key).row_key, wanted)
}

/// `If-Match` with the tag of this version.
pub fn version(timestamp: Timestamp) -> Precondition {
    Precondition::Version(ETag::of(timestamp))
}

/// A group of operations on one partition.
pub fn group(partition_key: &str, operations: Vec<EntityOperation>) -> EntityGroupTransaction {
    let partition_key = partition(partition_key);
    let operations =
        operations.into_iter().map(|operation| (partition_key.clone(), operation)).collect();
    EntityGroupTransaction::new(operations).expect("the groups of a case are legal")
}

/// A store under test, with calls that expect it to answer.
#[derive(Debug, Clone)]
pub struct Subject(pub Arc<dyn Store>);

impl Subject {
    /// What the store says to a group on the usual table.
    pub async fn commit(
        &self,
        partition_key: &str,
        operations: Vec<EntityOperation>,
    ) -> CommitResult {
        self.commit_at(TABLE, partition_key, operations, now()).await
    }

    /// What the store says to a group.
    pub async fn commit_at(
        &self,
        table: TableId,
        partition_key: &str,
        operations: Vec<EntityOperation>,
        now: Timestamp,
    ) -> CommitResult {
        self.0
            .commit(table, &group(partition_key, operations), now)
            .await
            .expect("the store commits")
    }

    /// Writes one entity and returns its version.
    pub async fn put(
        &self,
        partition_key: &str,
        row_key: &str,
        properties: Properties,
    ) -> Timestamp {
        self.put_in(TABLE, partition_key, row_key, properties).await
    }

    /// Writes one entity of a table and returns its version.
    pub async fn put_in(
        &self,
        table: TableId,
        partition_key: &str,
        row_key: &str,
        new: Properties,
    ) -> Timestamp {
        let written = self
            .commit_at(table, partition_key, vec![replace(row_key, new, Precondition::None)], now())
            .await;
        written_at(&written)
    }

    /// The refusal of a single operation.
    pub async fn domain_error(
        &self,
        partition_key: &str,
        operation: EntityOperation,
    ) -> DomainError {
        let failed = self
            .commit(partition_key, vec![operation])
            .await
            .expect_err("the operation is refused");
        assert_eq!(failed.index, 0);
        failed.domain_error
    }

    /// A row of the usual table.
    pub async fn row(&self, partition_key: &str, row_key: &str) -> Option<Row> {
        self.row_in(TABLE, partition_key, row_key).await
    }

    /// A row.
    pub async fn row_in(&self, table: TableId, partition_key: &str, row_key: &str) -> Option<Row> {
        self.0
            .get(&EntityAddress { table, key: key(partition_key, row_key) }, Blocking::Forbidden)
            .await
            .expect("the store reads")
    }

    /// The property `N` of a row; `None` if there is no row.
    pub async fn number(&self, partition_key: &str, row_key: &str) -> Option<i32> {
        self.row(partition_key, row_key).await.map(|row| number_of(&row))
    }

    /// One page.
    pub async fn page(&self, scan: &Scan) -> ScanPage {
        self.0.scan(scan).await.expect("the store scans")
    }

    /// All rows of a range, in one page.
    pub async fn rows(&self, table: TableId, range: KeyRange) -> Vec<Row> {
        let page = self.page(&Scan { table, range, ..scan_all() }).await;
        assert_eq!(page.next, None, "a page without bounds has no next");
        page.rows
    }

    /// The keys of all rows of a range of the usual table.
    pub async fn keys(&self, range: KeyRange) -> Vec<EntityKey> {
        self.rows(TABLE, range).await.iter().map(key_of).collect()
    }
}

/// Every row of the usual table.
pub fn scan_all() -> Scan {
    Scan::all(TABLE, KeyRange::ALL)
}

/// What is left of a range behind a cut.
pub fn rest(range: &KeyRange, next: Cut) -> KeyRange {
    assert!(next >= range.start, "a scan never goes back");
    KeyRange { start: next, end: range.end.clone() }
}

/// The keys of a row.
pub fn key_of(row: &Row) -> EntityKey {
    row.key().expect("a stored key is legal")
}

/// The property `N` of a row.
pub fn number_of(row: &Row) -> i32 {
    match row.property("N").map(|value| value.to_owned()) {
        Some(EdmValue::Int32(value)) => value,
        other => panic!("the row has a number N, not {other:?}"),
    }
}

/// The row as a value, for comparing.
pub fn entity_of(row: &Row) -> Entity {
    Entity::from_view(row).expect("a stored entity is legal")
}

/// The version of a transaction's first operation, which wrote.
pub fn written_at(result: &CommitResult) -> Timestamp {
    match result.as_deref() {
        Ok([Outcome::Written(timestamp), ..]) => *timestamp,
        other => panic!("the operation was carried out, not {other:?}"),
    }
}
