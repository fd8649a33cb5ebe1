//! The service's own rules, on the reference store and on one that loses races, forgets to answer
//! and delays.

use std::sync::Arc;

use crate::common::{Fixture, entity_key, name, new_entity, on_every_store, pass};
use tavola_core::cors::CorsRule;
use tavola_core::filter::plan::AccessClass;
use tavola_core::properties::ServicePropertiesChange;
use tavola_core::request::Continuation;
use tavola_core::{
    AccessPolicy, DomainError, EdmRef, EntityGroupTransaction, EntityOperation, EntityView,
    Precondition, TableId, TableReply, TableRequest,
};
use tavola_store::MemoryStore;

on_every_store!(
    tables_are_created_once_whatever_their_case,
    tables_are_listed_sorted_filtered_and_paged,
    a_dropped_name_is_free_at_once_and_empty,
    policies_belong_to_one_incarnation_of_a_table,
    operations_on_entities,
    operations_on_missing_tables,
    a_transaction_is_whole_or_nothing,
    pages_are_exact,
    plans_read_only_what_they_must,
    a_page_may_be_empty_and_have_a_successor,
    properties_keep_what_is_not_changed,
    dropped_tables_are_reclaimed,
    dropped_tables_are_reclaimed_whatever_the_clock_does,
);

async fn tables_are_created_once_whatever_their_case(fixture: Fixture) {
    assert_eq!(fixture.create("MyTable").await, Ok(()));
    assert_eq!(fixture.insert("mytable", "p/r", 1).await, Ok(()));
    assert_eq!(fixture.get("MYTABLE", "p/r").await.map(|(value, _)| value), Ok(1));
    let reply = fixture.ask(TableRequest::GetTable(name("mytable"))).await.unwrap();
    assert!(matches!(reply, TableReply::Table(table) if table.as_str() == "MyTable"));
    assert_eq!(fixture.tables("", None, None).await, (vec!["MyTable".to_owned()], None));
    // On the faulty store an unknown first attempt makes "already exists" a success, so this is
    // asked of a name that certainly exists and with another case.
    let again =
        fixture.service.execute(&fixture.owner(), TableRequest::CreateTable(name("mytable"))).await;
    assert!(again.is_err());
    assert_eq!(fixture.tables("", None, None).await.0, ["MyTable"]);
}

async fn tables_are_listed_sorted_filtered_and_paged(fixture: Fixture) {
    for table in ["delta", "Alpha", "charlie", "Bravo", "alpha2"] {
        fixture.create(table).await.unwrap();
    }
    let all = fixture.tables("", None, None).await.0;
    assert_eq!(all, ["Alpha", "alpha2", "Bravo", "charlie", "delta"]);
    let (first, next) = fixture.tables("", Some(2), None).await;
    assert_eq!(
        (first.as_slice(), next.as_deref()),
        (["Alpha".to_owned(), "alpha2".to_owned()].as_slice(), Some("bravo"))
    );
    let (rest, next) = fixture.tables("", Some(3), next).await;
    assert_eq!((rest.len(), next), (3, None));
    for (filter, expected) in [
        ("TableName eq 'delta'", vec!["delta"]),
        ("TableName ge 'alpha' and TableName lt 'alphb'", vec!["Alpha", "alpha2"]),
        ("TableName eq 'bravo' or TableName eq 'charlie'", vec!["Bravo", "charlie"]),
        ("not (TableName lt 'charlie')", vec!["charlie", "delta"]),
        ("Name eq 'delta'", vec![]),
        ("RowKey eq 't:delta'", vec![]),
    ] {
        assert_eq!(fixture.tables(filter, None, None).await.0, expected, "{filter}");
    }
}

async fn a_dropped_name_is_free_at_once_and_empty(fixture: Fixture) {
    fixture.create("table").await.unwrap();
    fixture.insert("table", "p/r", 1).await.unwrap();
    assert_eq!(fixture.drop_table("TABLE").await, Ok(()));
    assert_eq!(fixture.get("table", "p/r").await.unwrap_err(), DomainError::TableNotFound);
    assert_eq!(fixture.drop_table("table").await, Err(DomainError::ResourceNotFound));
    fixture.create("table").await.unwrap();
    assert_eq!(fixture.get("table", "p/r").await.unwrap_err(), DomainError::EntityNotFound);
}

async fn policies_belong_to_one_incarnation_of_a_table(fixture: Fixture) {
    let policy = |id: &str, permission: Option<&str>| AccessPolicy {
        id: id.to_owned(),
        start: permission.map(|_| tavola_core::DateTime::MIN),
        expiry: None,
        permission: permission.map(str::to_owned),
    };
    let policies = vec![policy("one", Some("raud")), policy("two", None)];
    fixture.create("table").await.unwrap();
    fixture.ask(TableRequest::SetPolicies(name("table"), policies.clone())).await.unwrap();
    let read = || fixture.ask(TableRequest::GetPolicies(name("table")));
    assert!(matches!(read().await.unwrap(), TableReply::Policies(stored) if stored == policies));
    fixture.drop_table("table").await.unwrap();
    assert_eq!(read().await.unwrap_err(), DomainError::ResourceNotFound);
    fixture.create("table").await.unwrap();
    assert!(matches!(read().await.unwrap(), TableReply::Policies(stored) if stored.is_empty()));
}

async fn operations_on_entities(fixture: Fixture) {
    fixture.create("table").await.unwrap();
    fixture.insert("table", "p/r", 1).await.unwrap();
    let (_, first) = fixture.get("table", "p/r").await.unwrap();
    let replace = |wanted: Precondition| move |new| EntityOperation::Replace(new, wanted);
    fixture.write("table", "p/r", replace(Precondition::Version(first.clone())), 2).await.unwrap();
    let (value, second) = fixture.get("table", "p/r").await.unwrap();
    assert_eq!(value, 2);
    assert_ne!(first, second);
    let stale = fixture
        .service
        .execute(
            &fixture.owner(),
            TableRequest::Write(
                name("table"),
                entity_key("p/r").partition_key,
                EntityOperation::Replace(new_entity("p/r", 3).1, Precondition::Version(first)),
            ),
        )
        .await;
    assert!(stale.is_err());
    assert_eq!(fixture.get("table", "p/r").await.unwrap().0, 2);
    assert_eq!(
        fixture.write("table", "p/x", replace(Precondition::Exists), 1).await,
        Err(DomainError::EntityNotFound)
    );
    fixture.write("table", "p/x", replace(Precondition::None), 7).await.unwrap();
    assert_eq!(fixture.get("table", "p/x").await.unwrap().0, 7);
    fixture.delete("table", "p/x", Precondition::Exists).await.unwrap();
    assert_eq!(fixture.get("table", "p/x").await.unwrap_err(), DomainError::EntityNotFound);
}

async fn operations_on_missing_tables(fixture: Fixture) {
    assert_eq!(fixture.insert("nothing", "p/r", 1).await, Err(DomainError::TableNotFound));
    assert_eq!(fixture.get("nothing", "p/r").await.unwrap_err(), DomainError::TableNotFound);
    assert_eq!(
        fixture.query("nothing", "", None, None).await.unwrap_err(),
        DomainError::TableNotFound
    );
    let policies = TableRequest::GetPolicies(name("nothing"));
    assert_eq!(fixture.ask(policies).await.unwrap_err(), DomainError::ResourceNotFound);
}

async fn a_transaction_is_whole_or_nothing(fixture: Fixture) {
    fixture.create("table").await.unwrap();
    fixture.insert("table", "p/2", 1).await.unwrap();
    let operations = ["p/1", "p/2", "p/3"].map(|key| {
        let (partition_key, new) = new_entity(key, 5);
        (partition_key, EntityOperation::Insert(new))
    });
    let transaction = EntityGroupTransaction::new(operations.to_vec()).unwrap();
    let refused = fixture.ask(TableRequest::Transaction(name("table"), transaction)).await;
    assert_eq!(refused.unwrap_err(), DomainError::EntityAlreadyExists);
    assert_eq!(fixture.query_all("table", "", None).await.0, ["p/2"]);
}

async fn fill(fixture: &Fixture, partitions: usize, rows: usize) -> Vec<String> {
    fixture.create("table").await.unwrap();
    let mut keys = Vec::new();
    for partition in 0..partitions {
        for row in 0..rows {
            let key = format!("p{partition:02}/r{row:03}");
            fixture.insert("table", &key, row as i32).await.unwrap();
            keys.push(key);
        }
    }
    keys
}

async fn pages_are_exact(fixture: Fixture) {
    let keys = fill(&fixture, 5, 25).await;
    let (all, sizes) = fixture.query_all("table", "", None).await;
    assert_eq!((all, sizes), (keys.clone(), vec![125]));
    for top in [1, 7, 25, 124, 125, 126] {
        let (all, sizes) = fixture.query_all("table", "", Some(top)).await;
        assert_eq!(all, keys, "$top={top}");
        // No empty page at the end: a page that ends where nothing is left has no continuation.
        assert_eq!(sizes.len(), 125_usize.div_ceil(top), "$top={top}");
    }
    let (even, _) = fixture.query_all("table", "Value eq 3 or Value eq 24", Some(2)).await;
    assert_eq!(even.len(), 10);
    assert_eq!(fixture.query("table", "", Some(0), None).await.unwrap().0.len(), 0);
    let from = Continuation { partition_key: entity_key("p03/").partition_key, row_key: None };
    assert_eq!(fixture.query("table", "", Some(1), Some(from)).await.unwrap().0, ["p03/r000"]);
}

async fn plans_read_only_what_they_must(fixture: Fixture) {
    fill(&fixture, 5, 25).await;
    for (filter, class, read, returned) in [
        ("PartitionKey eq 'p01' and RowKey eq 'r003'", AccessClass::Point, 1, 1),
        ("PartitionKey eq 'p01' and RowKey eq 'nope'", AccessClass::Point, 0, 0),
        (
            "PartitionKey eq 'p01' and RowKey ge 'r003' and RowKey lt 'r006'",
            AccessClass::RowRange,
            3,
            3,
        ),
        ("PartitionKey eq 'p01' and Value eq 7", AccessClass::PartitionScan, 25, 1),
        ("PartitionKey ge 'p03'", AccessClass::PartitionRange, 50, 50),
        (
            "(PartitionKey eq 'p01' and RowKey eq 'r003') or (PartitionKey eq 'p04' and RowKey eq 'r004')",
            AccessClass::Point,
            2,
            2,
        ),
        ("Value eq 7", AccessClass::TableScan, 125, 5),
    ] {
        let (keys, next, cost) = fixture.query("table", filter, None, None).await.unwrap();
        assert_eq!((keys.len(), next), (returned, None), "{filter}");
        assert_eq!(
            (cost.class, cost.rows_read, cost.rows_returned),
            (Some(class), read, returned as u64),
            "{filter}"
        );
    }
}

async fn a_page_may_be_empty_and_have_a_successor(fixture: Fixture) {
    fill(&fixture, 1, 3).await;
    let from = Continuation { partition_key: entity_key("zz/").partition_key, row_key: None };
    let (keys, next, _) = fixture.query("table", "", None, Some(from)).await.unwrap();
    assert_eq!((keys.len(), next), (0, None));
    let (keys, next, _) = fixture.query("table", "Value eq 0", Some(1), None).await.unwrap();
    assert_eq!(keys.len(), 1);
    let (keys, next, _) = fixture.query("table", "Value eq 0", Some(1), next).await.unwrap();
    assert_eq!((keys.len(), next), (0, None));
}

async fn properties_keep_what_is_not_changed(fixture: Fixture) {
    let read = || fixture.service.properties(&fixture.account);
    let rule = CorsRule {
        allowed_origins: vec!["http://a".to_owned(), "http://b".to_owned()],
        allowed_methods: vec!["GET".to_owned()],
        max_age_seconds: 5,
        ..CorsRule::default()
    };
    let change = ServicePropertiesChange { cors: Some(vec![rule.clone()]), ..Default::default() };
    fixture.ask(TableRequest::SetServiceProperties(change)).await.unwrap();
    let logging = tavola_core::properties::Logging {
        version: "1.0".into(),
        read: true,
        ..Default::default()
    };
    let change = ServicePropertiesChange { logging: Some(logging.clone()), ..Default::default() };
    fixture.ask(TableRequest::SetServiceProperties(change)).await.unwrap();
    let mut stored = read().await;
    while stored.is_err() {
        stored = read().await;
    }
    let stored = stored.unwrap();
    assert_eq!((&stored.cors, &stored.logging), (&vec![rule], &logging));
    let none = ServicePropertiesChange { cors: Some(vec![]), ..Default::default() };
    fixture.ask(TableRequest::SetServiceProperties(none)).await.unwrap();
    let reply = fixture.ask(TableRequest::GetServiceProperties).await.unwrap();
    assert!(
        matches!(reply, TableReply::ServiceProperties(now) if now.cors.is_empty() && now.logging.read)
    );
}

async fn dropped_tables_are_reclaimed(fixture: Fixture) {
    fill(&fixture, 1, 10).await;
    let first_table = only_table(&fixture).await;
    assert_eq!(fixture.rows_of(first_table).await, 10);
    let before = fixture.rows_of(TableId::CATALOG).await;
    fixture.drop_table("table").await.unwrap();
    assert_eq!(
        fixture.rows_of(TableId::CATALOG).await,
        before,
        "the living row gave way to a dropped one"
    );
    let mut reclaimer = fixture.service.reclaimer();
    assert_eq!(pass(&mut reclaimer).await, 1, "the last writer may still come");
    assert_eq!(fixture.rows_of(first_table).await, 0);
    fixture.clock.advance_seconds(3600);
    assert_eq!(pass(&mut reclaimer).await, 0);
    assert_eq!(fixture.rows_of(TableId::CATALOG).await, before - 1);
}

/// The wait for the last writers was once measured by the time of day: a clock that was set back by
/// a day kept a dropped table for a day, and one that was set forward left what the last writers
/// wrote for ever.
async fn dropped_tables_are_reclaimed_whatever_the_clock_does(fixture: Fixture) {
    for jump_seconds in [-86_400, 86_400] {
        fill(&fixture, 1, 10).await;
        let before = fixture.rows_of(TableId::CATALOG).await;
        fixture.drop_table("table").await.unwrap();
        let mut reclaimer = fixture.service.reclaimer();
        assert_eq!(pass(&mut reclaimer).await, 1);
        fixture.clock.jump_seconds(jump_seconds);
        assert_eq!(
            pass(&mut reclaimer).await,
            1,
            "after a jump of {jump_seconds} s the last writer may still come"
        );
        fixture.clock.advance_seconds(61);
        assert_eq!(
            pass(&mut reclaimer).await,
            0,
            "after a jump of {jump_seconds} s the last writer is gone"
        );
        assert_eq!(fixture.rows_of(TableId::CATALOG).await, before - 1);
    }
}

/// Once only the first hundred were looked at, and with all of them gone nobody came back for the
/// rest.
#[tokio::test]
async fn ten_thousand_dropped_tables_are_reclaimed() {
    const TABLES: usize = 10_000;
    let fixture = Fixture::new(Arc::new(MemoryStore::new()));
    fixture.create("living").await.unwrap();
    let before = fixture.rows_of(TableId::CATALOG).await;
    for number in 0..TABLES {
        let table = format!("table{number}");
        fixture.create(&table).await.unwrap();
        fixture.insert(&table, "p/r", 1).await.unwrap();
        fixture.drop_table(&table).await.unwrap();
    }
    let mut reclaimer = fixture.service.reclaimer();
    assert_eq!(
        pass(&mut reclaimer).await,
        TABLES,
        "each is purged, and its last writers may still come"
    );
    fixture.clock.advance_seconds(61);
    assert_eq!(pass(&mut reclaimer).await, 0);
    assert_eq!(fixture.rows_of(TableId::CATALOG).await, before, "each is forgotten");
    let first = TableId::FIRST_USER;
    for id in first..first + TABLES as u64 + 1 {
        assert_eq!(fixture.rows_of(TableId::new(id)).await, 0, "table {id}");
    }
}

/// The id of the one table that the catalogue knows.
async fn only_table(fixture: &Fixture) -> TableId {
    let rows = fixture.all_rows(TableId::CATALOG).await;
    let ids: Vec<_> = rows.iter().filter_map(|row| row.property("Id")).collect();
    let [EdmRef::Int64(id)] = ids[..] else { panic!("{ids:?}") };
    TableId::new(id as u64)
}
