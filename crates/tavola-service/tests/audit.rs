//! The catalogue held against the rows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tavola_core::properties::ServicePropertiesChange;
use tavola_core::{
    AccessPolicy, AccountName, Cut, EdmValue, EntityGroupTransaction, EntityKey, EntityOperation, Grant, KeyRange,
    NewEntity, PartitionKey, Precondition, Properties, PropertyName, RowKey, TableId, TableName, TableRequest,
};
use tavola_service::{Audit, SystemClock, TableService};
use tavola_store::{MemoryStore, Scan, Store};

const SYSTEM: [TableId; 3] = [TableId::CATALOG, TableId::SERVICE_PROPERTIES, TableId::SEQUENCES];

/// A living table with policies, a dropped one, and service properties.
async fn written() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let service = TableService::new(Arc::clone(&store) as Arc<dyn Store>, Arc::new(SystemClock));
    let account = AccountName::parse("shop").unwrap();
    let policy = AccessPolicy { id: "p1".to_owned(), start: None, expiry: None, permission: Some("r".to_owned()) };
    for request in [
        TableRequest::CreateTable(table("Orders")),
        TableRequest::CreateTable(table("Old")),
        TableRequest::SetPolicies(table("orders"), vec![policy]),
        TableRequest::DeleteTable(table("old")),
        TableRequest::SetServiceProperties(ServicePropertiesChange::default()),
    ] {
        service.execute(&Grant::owner(account.clone()), request).await.unwrap();
    }
    store
}

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

async fn audit(store: &MemoryStore, with_rows: &[u64]) -> (usize, Vec<String>) {
    let mut audit = Audit::default();
    for table in SYSTEM {
        let range = KeyRange { start: Cut::Start, end: Cut::End };
        let scan = Scan { table, range, residual: None, rows_max: 100, bytes_max: usize::MAX, read_max: 100 };
        for row in store.scan(&scan).await.unwrap().rows {
            audit.offer(table, &row.as_row_ref());
        }
    }
    let (tables, findings) = audit.finish(with_rows.iter().copied().map(TableId::new));
    (tables.len(), findings)
}

/// Writes a system row as a defect would.
async fn put(store: &MemoryStore, table: TableId, row_key: &str, values: &[(&str, EdmValue)]) {
    let partition_key = PartitionKey::new(if table == TableId::SEQUENCES { "table" } else { "shop" }).unwrap();
    let named = |(name, value): &(&str, EdmValue)| (PropertyName::new(*name).unwrap(), value.clone());
    let properties = Properties::new(values.iter().map(named).collect()).unwrap();
    let key = EntityKey::new(partition_key.clone(), RowKey::new(row_key).unwrap());
    let (_, entity) = NewEntity::new(key, properties).unwrap();
    let write = EntityGroupTransaction::single(partition_key, EntityOperation::Replace(entity, Precondition::None));
    store.commit(table, &write, tavola_core::Timestamp::MIN).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_the_service_writes_fits() {
    let store = written().await;
    assert_eq!(audit(&store, &[256, 257]).await, (2, Vec::new()));
}

#[tokio::test]
async fn rows_of_an_unknown_table() {
    let (_, findings) = audit(&*written().await, &[256, 300]).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("table 300 has rows"), "{findings:?}");
}

#[tokio::test]
async fn what_does_not_fit_is_named() {
    use EdmValue::{Int64, String as Text};
    let name = |text: &str| ("Name", Text(text.to_owned()));
    let cases: [(TableId, &str, Vec<(&str, EdmValue)>, &str); 7] = [
        (TableId::CATALOG, "t:second", vec![name("Second"), ("Id", Int64(256))], "its id 256 is also that of"),
        (TableId::CATALOG, "t:second", vec![name("Other"), ("Id", Int64(258))], "under another name"),
        (TableId::CATALOG, "t:second", vec![name("Second"), ("Id", Int64(99_999))], "not below 1280"),
        (TableId::CATALOG, "t:second", vec![name("Second")], "no usable property Id"),
        (TableId::CATALOG, "t:second", vec![name("Second"), ("Id", Int64(258)), ("Policy1", Int64(1))], "Policy1"),
        (TableId::SERVICE_PROPERTIES, "table", vec![], "the service properties of shop"),
        (TableId::SEQUENCES, "id", vec![("Next", Int64(256))], "table 256 of shop is not below 256"),
    ];
    for (table, row_key, values, expected) in cases {
        let store = written().await;
        put(&store, table, row_key, &values).await;
        let (_, findings) = audit(&store, &[]).await;
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{expected}: {findings:?}");
    }
}
