//! Everything from one store into another, also when it is cut short.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tavola_core::properties::ServicePropertiesChange;
use tavola_core::{
    AccessPolicy, AccountName, EdmValue, EntityGroupTransaction, EntityKey, EntityOperation,
    EntityView, Grant, KeyRange, NewEntity, PartitionKey, Precondition, Properties, PropertyName,
    RowKey, TableId, TableName, TableReply, TableRequest, Timestamp,
};
use tavola_service::migration::{
    Digest, MoveError, Moved, Resumption, Watch, copy, unfinished_copy,
};
use tavola_service::{Clock, SystemClock, TableService};
use tavola_store::{Import, ImportError, MemoryStore, Row, Scan, Store, StoreError, StoreLayer};

/// Of the table that has more than one page.
const MANY: i32 = 2_300;

fn account() -> AccountName {
    AccountName::parse("shop").unwrap()
}

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

fn service(store: &Arc<MemoryStore>) -> TableService {
    TableService::new(Arc::clone(store) as Arc<dyn Store>, Arc::new(SystemClock))
}

async fn ask(service: &TableService, request: TableRequest) -> TableReply {
    service.execute(&Grant::owner(account()), request).await.unwrap().reply
}

fn write(name: &str, partition_key: &str, row_key: &str, value: i32) -> TableRequest {
    let partition_key = PartitionKey::new(partition_key).unwrap();
    let key = EntityKey::new(partition_key.clone(), RowKey::new(row_key).unwrap());
    let value = (PropertyName::new("N").unwrap(), EdmValue::Int32(value));
    let (_, entity) = NewEntity::new(key, Properties::new(vec![value]).unwrap()).unwrap();
    TableRequest::Write(
        table(name),
        partition_key,
        EntityOperation::Replace(entity, Precondition::None),
    )
}

/// Three living tables, one of them with policies and one empty, a dropped one with rows, and
/// service properties.
async fn source() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let service = service(&store);
    for name in ["Orders", "Gone", "Empty", "Many"] {
        ask(&service, TableRequest::CreateTable(table(name))).await;
    }
    for n in 0..20 {
        ask(&service, write("Orders", &format!("p{}", n / 3), &format!("r{n}"), n)).await;
        ask(&service, write("Gone", "p", &format!("r{n}"), n)).await;
    }
    for n in 0..MANY {
        ask(&service, write("Many", &format!("p{}", n % 7), &format!("r{n:05}"), n)).await;
    }
    let policy = AccessPolicy {
        id: "p1".to_owned(),
        start: None,
        expiry: None,
        permission: Some("r".to_owned()),
    };
    ask(&service, TableRequest::SetPolicies(table("Orders"), vec![policy])).await;
    ask(&service, TableRequest::SetServiceProperties(ServicePropertiesChange::default())).await;
    ask(&service, TableRequest::DeleteTable(table("Gone"))).await;
    store
}

#[derive(Default)]
struct Seen {
    parts: Vec<(&'static str, Option<u64>)>,
    rows: Vec<u64>,
}

impl Watch for Seen {
    fn begin(&mut self, what: &'static str, rows: Option<u64>) {
        self.parts.push((what, rows));
        self.rows.push(0);
    }

    fn advance(&mut self, rows: u64) {
        *self.rows.last_mut().unwrap() += rows;
    }
}

async fn moved(from: &dyn Store, to: &dyn Import) -> Result<Moved, MoveError> {
    copy(from, to, "the source", None, &SystemClock, &mut Seen::default()).await
}

async fn rows(store: &dyn Store, table: TableId) -> Vec<Row> {
    let (rows_max, bytes_max, read_max) = (usize::MAX, usize::MAX, usize::MAX);
    let scan = Scan { rows_max, bytes_max, read_max, ..Scan::all(table, KeyRange::ALL) };
    store.scan(&scan).await.unwrap().rows
}

/// The system tables and all that user tables can be: of dropped ones nothing is left.
async fn assert_same(from: &dyn Store, to: &dyn Store, moved: &Moved) {
    assert!(moved.different().next().is_none(), "{moved:?}");
    assert_eq!(unfinished_copy(to).await.unwrap(), None);
    for table in &moved.tables {
        let expected = rows(from, table.id).await;
        assert_eq!(table.source.rows, expected.len() as u64, "{table}");
        assert_eq!(rows(to, table.id).await, expected, "{table}");
    }
}

#[tokio::test]
async fn everything_is_moved_as_it_is() {
    let (from, to) = (source().await, Arc::new(MemoryStore::new()));
    let mut seen = Seen::default();
    let moved = copy(&*from, &*to, "the source", None, &SystemClock, &mut seen).await.unwrap();
    assert_same(&*from, &*to, &moved).await;
    let names: Vec<&str> = moved.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(
        names,
        ["Orders", "Empty", "Many", "counter of table ids", "service properties", "catalogue"]
    );
    let all: u64 = moved.tables.iter().map(|table| table.source.rows).sum();
    assert_eq!(
        seen.parts,
        [("reading the source", None), ("copying", Some(all)), ("verifying", Some(all))]
    );
    assert_eq!(seen.rows, [all; 3]);

    let (before, after) = (service(&from), service(&to));
    for request in [
        TableRequest::QueryTables(Default::default()),
        TableRequest::GetPolicies(table("orders")),
        TableRequest::GetServiceProperties,
        TableRequest::QueryEntities(table("orders"), Default::default()),
    ] {
        let (before, after) = (ask(&before, request.clone()).await, ask(&after, request).await);
        assert_eq!(format!("{before:?}"), format!("{after:?}"));
    }
    // A new table has an id that none had, so that no row of another shows in it.
    ask(&after, TableRequest::CreateTable(table("New"))).await;
    let TableReply::Entities { entities, .. } =
        ask(&after, TableRequest::QueryEntities(table("New"), Default::default())).await
    else {
        panic!("a page")
    };
    assert!(entities.is_empty(), "{entities:?}");
}

/// The way back after a clock that was in the far future for a moment.
#[tokio::test]
async fn versions_of_the_future_are_rewritten() {
    let (from, to) = (source().await, Arc::new(MemoryStore::new()));
    let future = Timestamp::new(tavola_core::DateTime::parse("9991-01-01T00:00:00Z").unwrap());
    let rows_before = rows(&*from, only(&from, "Orders").await).await;
    let TableRequest::Write(_, partition_key, operation) = write("Orders", "p0", "r0", 7) else {
        panic!("a write")
    };
    let transaction = EntityGroupTransaction::single(partition_key, operation);
    from.commit(only(&from, "Orders").await, &transaction, future).await.unwrap().unwrap();
    let now = SystemClock.now();
    let moved = copy(&*from, &*to, "the source", Some(now), &SystemClock, &mut Seen::default())
        .await
        .unwrap();
    assert!(moved.different().next().is_none(), "{moved:?}");
    let copied = rows(&*to, only(&to, "Orders").await).await;
    assert_eq!(copied.len(), rows_before.len());
    for (row, before) in copied.iter().zip(&rows_before) {
        if before.row_key().as_str() == "r0" {
            assert_eq!(row.timestamp(), now, "as late as the copy");
        } else {
            assert_eq!(row, before, "others are as they were");
        }
    }
    // New versions are those of today, and above all that were copied.
    ask(&service(&to), write("Orders", "p0", "r0", 8)).await;
    let version = rows(&*to, only(&to, "Orders").await).await[0].timestamp();
    assert!(now < version && version < future, "{version}");
}

/// The id of a table.
async fn only(store: &Arc<MemoryStore>, name: &str) -> TableId {
    let catalogue = rows(&**store, TableId::CATALOG).await;
    let row =
        catalogue.iter().find(|row| row.row_key().as_str() == format!("t:{}", name.to_lowercase()));
    match row.and_then(|row| row.property("Id")) {
        Some(tavola_core::EdmRef::Int64(id)) => TableId::new(id as u64),
        other => panic!("{other:?}"),
    }
}

/// A store that stops taking rows after so many imports, the last of them half done.
#[derive(Debug)]
struct CutShort {
    store: MemoryStore,
    imports_left: AtomicUsize,
    rows_written: AtomicUsize,
}

impl CutShort {
    fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            imports_left: AtomicUsize::new(0),
            rows_written: AtomicUsize::new(0),
        }
    }
}

impl StoreLayer for CutShort {
    fn below(&self) -> &dyn Store {
        &self.store
    }
}

#[async_trait]
impl Import for CutShort {
    async fn import(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        let left = self.imports_left.fetch_sub(1, Ordering::SeqCst);
        let some = if left == 0 { &rows[..rows.len() / 2] } else { rows };
        self.rows_written.fetch_add(some.len(), Ordering::SeqCst);
        self.store.import(table, some).await?;
        if left == 0 { Err(StoreError::UnknownOutcome.into()) } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_copy_that_is_cut_short_anywhere_goes_on() {
    let from = source().await;
    let mut finished = false;
    for imports in 0..20 {
        let to = CutShort::new();
        to.imports_left.store(imports, Ordering::SeqCst);
        let first = moved(&*from, &to).await;
        let Err(error) = first else {
            finished = true;
            break;
        };
        assert!(matches!(error, MoveError::Service(_)), "{error}");
        assert_eq!(unfinished_copy(&to).await.unwrap().as_deref(), Some("the source"));
        let before = to.rows_written.swap(0, Ordering::SeqCst);
        to.imports_left.store(usize::MAX, Ordering::SeqCst);
        let second = moved(&*from, &to).await.unwrap();
        assert_eq!(second.course, Resumption::Resumed);
        assert_same(&*from, &to, &second).await;
        // It went on: only what was under way is written twice.
        let all: u64 = second.tables.iter().map(|table| table.source.rows).sum();
        let twice = before + to.rows_written.load(Ordering::SeqCst) - all as usize;
        assert!(twice <= 1000, "{twice} rows were written twice after {imports} imports");
    }
    assert!(finished, "a copy has an end");
}

#[tokio::test]
async fn what_was_moved_can_be_moved_back_and_again() {
    let from = source().await;
    let (to, back) = (MemoryStore::new(), MemoryStore::new());
    let there = moved(&*from, &to).await.unwrap();
    let and_back = moved(&to, &back).await.unwrap();
    assert_same(&*from, &back, &and_back).await;
    assert_eq!(there.tables, and_back.tables);
    let again = moved(&*from, &to).await.unwrap();
    assert_eq!((again.course, again.tables), (Resumption::WasThere, there.tables));
}

#[tokio::test]
async fn nothing_else_is_touched() {
    let from = source().await;
    // A store with a catalogue of its own.
    let other = source().await;
    let error = moved(&*from, &*other).await.unwrap_err();
    assert!(
        matches!(&error, MoveError::NotEmpty(what) if what == "table Orders of shop"),
        "{error}"
    );
    assert_eq!(unfinished_copy(&*other).await.unwrap(), None);

    // A copy that was begun from another store.
    let to = CutShort::new();
    moved(&*from, &to).await.unwrap_err();
    let error = moved(&*other, &to).await.unwrap_err();
    assert!(matches!(&error, MoveError::OtherCopy(source) if source == "the source"), "{error}");
    // Nor may a copy go on when its source has changed.
    ask(&service(&from), write("Orders", "p0", "r0", 77)).await;
    assert!(matches!(moved(&*from, &to).await, Err(MoveError::OtherCopy(_))));
    // And nobody copies from half of a store.
    let error = moved(&to, &MemoryStore::new()).await.unwrap_err();
    assert!(
        matches!(&error, MoveError::SourceUnfinished(source) if source == "the source"),
        "{error}"
    );
}

#[tokio::test]
async fn a_difference_is_found_and_keeps_the_mark() {
    let from = source().await;
    let to = CutShort::new();
    to.imports_left.store(1, Ordering::SeqCst);
    moved(&*from, &to).await.unwrap_err();
    to.imports_left.store(usize::MAX, Ordering::SeqCst);
    // Somebody wrote into the target meanwhile.
    let stranger = Row::encode(
        &PartitionKey::new("z").unwrap(),
        &RowKey::new("z").unwrap(),
        &Properties::new(Vec::new()).unwrap(),
        SystemClock.now(),
    );
    to.import(TableId::new(TableId::FIRST_USER), &[stranger]).await.unwrap();
    let result = moved(&*from, &to).await.unwrap();
    let different: Vec<String> = result.different().map(ToString::to_string).collect();
    assert_eq!(different, ["table Orders of shop"]);
    let orders = &result.tables[0];
    assert_eq!(
        (orders.source.rows, orders.target.map(|digest: Digest| digest.rows)),
        (20, Some(21))
    );
    assert!(unfinished_copy(&to).await.unwrap().is_some(), "nobody may serve it");
}

#[tokio::test]
async fn a_row_in_the_way_ends_the_copy() {
    let from = source().await;
    let to = CutShort::new();
    moved(&*from, &to).await.unwrap_err();
    to.imports_left.store(usize::MAX, Ordering::SeqCst);
    let last = rows(&*from, TableId::new(TableId::FIRST_USER)).await.pop().unwrap();
    let key = last.key().unwrap();
    let other = Row::encode(
        &key.partition_key,
        &key.row_key,
        &Properties::new(Vec::new()).unwrap(),
        SystemClock.now(),
    );
    to.import(TableId::new(TableId::FIRST_USER), &[other]).await.unwrap();
    let error = moved(&*from, &to).await.unwrap_err();
    assert!(
        matches!(&error, MoveError::Occupied { table, .. } if table == "table Orders of shop"),
        "{error}"
    );
}
