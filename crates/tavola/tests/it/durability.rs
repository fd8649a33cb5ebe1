//! What was acknowledged is there, whatever happens to the process.

use crate::common::client::{Client, insert, name};
use crate::common::{BINARY, RunningServer};
use tavola_core::request::EntityQuery;
use tavola_core::{RowKey, TableRequest};
use tavola_protocol::table::decode::Decoded;
use tavola_torture::{CAMPAIGNS, Plan};

const TABLE: &str = "ledger";

/// One seed of the campaign that `cargo xtask torture kill` runs with many.
#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == "kill").unwrap();
    let plan = Plan {
        seeds: vec![1],
        time_max: None,
        is_short: true,
        server: BINARY.into(),
        mutants: None,
        cluster: None,
        scratch: folder.path().to_owned(),
    };
    let outcome = tavola_torture::run(campaign, &plan).unwrap();
    assert!(outcome.found.is_empty(), "see what was printed above");
    assert!(
        outcome.tally.get("kills") >= 10 && outcome.tally.get("writes") > 50,
        "{}",
        outcome.tally
    );
}

/// Statement G54: a token is complete in itself.
#[test]
fn continuation_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let mut client = Client::connect(&server.table).unwrap();
    client.create_table(TABLE);
    for row in 0..5 {
        let (partition_key, operation) = insert(&format!("p/{row}"), row);
        client.ask(&TableRequest::Write(name(TABLE), partition_key, operation)).unwrap().unwrap();
    }
    let query = EntityQuery { top: Some(2), ..EntityQuery::default() };
    let request = TableRequest::QueryEntities(name(TABLE), query);
    let Ok(Decoded::Entities(first, Some(next))) = client.ask(&request).unwrap() else {
        panic!("a page of two")
    };
    assert_eq!(first.len(), 2);
    assert!(server.terminate().success());
    let server = RunningServer::start(folder.path());
    let mut client = Client::connect(&server.table).unwrap();
    let answer = client.ask_page(&request, Some(&next)).unwrap();
    let Ok(Decoded::Entities(second, Some(_))) = answer else { panic!("{answer:?}") };
    assert_eq!(second[0].row_key.as_ref().map(RowKey::as_str), Some("2"));
}

#[test]
fn a_graceful_stop_answers_what_is_open_and_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let mut client = Client::connect(&server.table).unwrap();
    client.create_table(TABLE);
    let (partition_key, operation) = insert("p/r", 7);
    client.ask(&TableRequest::Write(name(TABLE), partition_key, operation)).unwrap().unwrap();
    assert!(server.terminate().success());
    let server = RunningServer::start(folder.path());
    assert_eq!(Client::connect(&server.table).unwrap().read_all(TABLE), [("p/r".to_owned(), 7)]);
}
