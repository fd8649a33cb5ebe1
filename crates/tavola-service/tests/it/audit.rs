//! The catalogue held against the rows.

use std::sync::Arc;

use tavola_core::properties::ServicePropertiesChange;
use tavola_core::{
    AccessPolicy, AccountName, Cut, EdmValue, EntityGroupTransaction, EntityKey, EntityOperation,
    EntityView, Grant, KeyRange, NewEntity, PartitionKey, Precondition, Properties, PropertyName,
    RowKey, TableId, TableName, TableRequest,
};
use tavola_service::{Audit, Audited, SystemClock, TableService};
use tavola_store::{Blocking, MemoryStore, Scan, Store};

const SYSTEM: [TableId; 3] = [TableId::CATALOG, TableId::SERVICE_PROPERTIES, TableId::SEQUENCES];

/// A living table with policies, a dropped one, and service properties.
async fn written() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let service = TableService::new(Arc::clone(&store) as Arc<dyn Store>, Arc::new(SystemClock));
    let account = AccountName::parse("shop").unwrap();
    let policy = AccessPolicy {
        id: "p1".to_owned(),
        start: None,
        expiry: None,
        permission: Some("r".to_owned()),
    };
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
    let audited = audited(store, with_rows).await;
    (audited.tables.len(), audited.findings)
}

async fn audited(store: &MemoryStore, with_rows: &[u64]) -> Audited {
    let mut audit = Audit::default();
    for table in SYSTEM {
        let range = KeyRange { start: Cut::Start, end: Cut::End };
        let scan = Scan { rows_max: 100, read_max: 100, ..Scan::all(table, range) };
        for row in store.scan(&scan).await.unwrap().rows {
            audit.offer(table, &row.as_row_ref());
        }
    }
    audit.finish(with_rows.iter().copied().map(TableId::new))
}

/// Writes a system row as a defect would.
async fn put(store: &MemoryStore, table: TableId, row_key: &str, values: &[(&str, EdmValue)]) {
    let partition_key =
        PartitionKey::new(if table == TableId::SEQUENCES { "table" } else { "shop" }).unwrap();
    let named =
        |(name, value): &(&str, EdmValue)| (PropertyName::new(*name).unwrap(), value.clone());
    let properties = Properties::new(values.iter().map(named).collect()).unwrap();
    let key = EntityKey::new(partition_key.clone(), RowKey::new(row_key).unwrap());
    let (_, entity) = NewEntity::new(key, properties).unwrap();
    let write = EntityGroupTransaction::single(
        partition_key,
        EntityOperation::Replace(entity, Precondition::None),
    );
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
    for (table, row_key, values, expected) in [
        (
            TableId::CATALOG,
            "t:second",
            vec![name("Second"), ("Id", Int64(256))],
            "its id 256 is also that of",
        ),
        (
            TableId::CATALOG,
            "t:second",
            vec![name("Other"), ("Id", Int64(258))],
            "under another name",
        ),
        (
            TableId::CATALOG,
            "t:second",
            vec![name("Second"), ("Id", Int64(99_999))],
            "not below 1280",
        ),
        (TableId::CATALOG, "t:second", vec![name("Second")], "no usable property Id"),
        (
            TableId::CATALOG,
            "t:second",
            vec![name("Second"), ("Id", Int64(258)), ("Policy1", Int64(1))],
            "Policy1",
        ),
        (TableId::SERVICE_PROPERTIES, "table", vec![], "the service properties of shop"),
        (TableId::SERVICE_PROPERTIES, "tables", vec![], "\"tables\" is no service"),
        (
            TableId::SEQUENCES,
            "id",
            vec![("Next", Int64(256))],
            "table 256 of shop is not below 256",
        ),
    ] {
        let store = written().await;
        put(&store, table, row_key, &values).await;
        let (_, findings) = audit(&store, &[]).await;
        assert!(
            findings.iter().any(|finding| finding.contains(expected)),
            "{expected}: {findings:?}"
        );
    }
}

/// Rows without a table are reachable again, and their id is never given out a second time.
#[tokio::test]
async fn rows_without_a_table_get_one() {
    let store = MemoryStore::new();
    let found = audited(&store, &[256, 5000]).await;
    assert_eq!(found.amendments().len(), 3, "{:?}", found.amendments());
    assert!(
        found.amendments()[1].contains("Recovered5000 of devstoreaccount1"),
        "{:?}",
        found.amendments()
    );
    found.amend(&store, tavola_core::Timestamp::MIN).await.unwrap();
    let again = audited(&store, &[256, 5000]).await;
    assert_eq!((again.tables.len(), &again.findings), (2, &Vec::new()));
    assert!(again.amendments().is_empty());
    let store: Arc<dyn Store> = Arc::new(store);
    let service = TableService::new(Arc::clone(&store), Arc::new(SystemClock));
    let grant = Grant::owner(AccountName::parse("devstoreaccount1").unwrap());
    service.execute(&grant, TableRequest::CreateTable(table("Next"))).await.unwrap();
    let key = EntityKey::new(
        PartitionKey::new("devstoreaccount1").unwrap(),
        RowKey::new("t:next").unwrap(),
    );
    let address = tavola_core::EntityAddress { table: TableId::CATALOG, key };
    let row = store.get(&address, Blocking::Forbidden).await.unwrap().unwrap();
    assert_eq!(row.property("Id"), Some(tavola_core::EdmRef::Int64(5001)));
}
