//! G176: the same calls without an async runtime.

use tavola_client::testing::counting;
use tavola_client::{
    Blocking, ClientOptions, DynEntity, ErrorKind, Mode, Outcome, TableClient, TableServiceClient,
    prop,
};

use super::common::person;
use super::http::{client, not_found, server};

fn table() -> TableClient {
    let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("people");
    table.create().wait().unwrap();
    table
}

/// G176: reads, writes, transactions, bulk, deletions; each call as in an async program.
#[test]
fn every_call_can_be_waited_for() {
    let table = table();
    assert_eq!(table.insert(&person("1", 5)).wait().unwrap().status, 204);
    let mut stored = table.get::<DynEntity>(("Smith", "1")).wait().unwrap().unwrap();
    stored.set("Age", 6);
    table.replace(&mut stored).wait().unwrap();
    table.modify::<DynEntity>(("Smith", "1"), |one| drop(one.set("Age", 7))).wait().unwrap();
    let mut transaction = table.transaction("Smith");
    transaction.upsert(&person("2", 2), Mode::Replace).unwrap().delete_row("1").unwrap();
    assert_eq!(transaction.commit().wait().unwrap().len(), 2);
    let error = table.insert(&person("2", 5)).wait().unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let people = (10..40).map(|row| person(&row.to_string(), row));
    assert_eq!(table.bulk().insert_all(people).wait().unwrap().written, 30);
    let old = table.delete_where::<DynEntity>(prop("Age").ge(30));
    assert_eq!(old.run().wait().unwrap().deleted, 10);
    let names: Vec<_> = Blocking::new(table.service().tables()).map(Result::unwrap).collect();
    assert_eq!(names, ["people"]);
}

/// G176: pages and entities as iterators, also from several threads.
#[test]
fn queries_are_iterators() {
    let table = table();
    let people = (0..25).map(|row| person(&format!("{row:02}"), row));
    table.bulk().insert_all(people).wait().unwrap();
    let smiths = || table.filter::<DynEntity>(prop("PartitionKey").eq("Smith")).page_size(10);
    let rows: Vec<_> = smiths().iter().map(|one| one.unwrap().row().to_owned()).collect();
    assert_eq!((rows.len(), rows[24].as_str()), (25, "24"));
    let pages: Vec<_> = smiths().iter_pages().map(|page| page.unwrap().items.len()).collect();
    assert_eq!(pages, [10, 10, 5]);
    let counts = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| smiths().iter().count())).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(counts, [25; 4]);
    let gone = TableServiceClient::on(tavola_local::in_memory(), None).table_client("gone");
    let mut none = gone.scan::<DynEntity>().iter();
    assert!(none.next().unwrap().unwrap_err().is_not_found());
    assert!(none.next().is_none(), "nothing comes after an error");
}

/// G176: over HTTP the connection outlives the call.
#[test]
fn connections_are_kept_between_calls() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (address, heads) = runtime.block_on(server(vec![not_found(), not_found()]));
    let client = client(&address, ClientOptions::default());
    for _ in 0..2 {
        assert!(client.get::<DynEntity>(("p", "r")).wait().unwrap().is_none());
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [0, 0]);
}

/// G176: inside a runtime it is an error that says so, and nothing is sent.
#[tokio::test]
async fn inside_a_runtime_it_is_an_error() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("people");
    let error = table.create().wait().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid { .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert!(error.to_string().contains("inside an async runtime"), "{error}");
    let mut rows = table.scan::<DynEntity>().iter();
    assert!(rows.next().unwrap().unwrap_err().to_string().contains("`.stream()`"));
    assert!(rows.next().is_none());
    assert!(counted.take().is_empty());
}
