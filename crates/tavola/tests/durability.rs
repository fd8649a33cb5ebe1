//! What was acknowledged is there, whatever happens to the process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::RunningServer;
use common::client::{Client, insert, name, new_entity};
use tavola_core::request::EntityQuery;
use tavola_core::{EntityGroupTransaction, EntityOperation, Precondition, RowKey, TableRequest};
use tavola_protocol::table::decode::Decoded;

const CLIENTS: usize = 16;
const KILLS: usize = 20;
const BATCH_ROWS: usize = 10;
const TABLE: &str = "ledger";

/// What clients were told, and what they asked without hearing an answer.
#[derive(Debug, Default)]
struct Ledger {
    /// Inserted rows by key.
    inserted: HashMap<String, i32>,
    /// Rows whose insert got no answer: there or not.
    in_doubt: HashMap<String, i32>,
    /// Batches by the prefix of their rows; true if acknowledged.
    batches: HashMap<String, bool>,
    /// Per client: the last acknowledged and the last attempted value of its counter row.
    counters: HashMap<usize, (i32, i32)>,
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Mutex::new(Ledger::default());
    for round in 0..KILLS {
        let server = RunningServer::start(folder.path());
        Client::connect(&server.table).unwrap().create_table(TABLE);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (authority, ledger, stop) = (server.table.clone(), &ledger, &stop);
                scope.spawn(move || write_until_cut(&authority, client, round, ledger, stop));
            }
            // Different moments of the write path; the seed is the round.
            std::thread::sleep(Duration::from_millis(60 + 37 * (round as u64 % 9)));
            server.kill();
            stop.store(true, Ordering::SeqCst);
        });
        let server = RunningServer::start(folder.path());
        check(&server, &ledger.lock().unwrap(), round);
        server.kill();
    }
    let ledger = ledger.into_inner().unwrap();
    let batches = ledger.batches.values().filter(|acknowledged| **acknowledged).count();
    println!("{} inserts and {batches} batches acknowledged over {KILLS} kills, none lost", ledger.inserted.len());
    assert!(ledger.inserted.len() > KILLS * CLIENTS, "the clients hardly wrote: {}", ledger.inserted.len());
}

fn write_until_cut(authority: &str, client: usize, round: usize, ledger: &Mutex<Ledger>, stop: &AtomicBool) {
    let Ok(mut connection) = Client::connect(authority) else { return };
    for step in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let going_on = match step % 3 {
            0 => write_one(&mut connection, client, round, step, ledger),
            1 => write_batch(&mut connection, client, round, step, ledger),
            _ => count_up(&mut connection, client, ledger),
        };
        if !going_on {
            return;
        }
    }
}

fn write_one(connection: &mut Client, client: usize, round: usize, step: i32, ledger: &Mutex<Ledger>) -> bool {
    let key = format!("c{client:02}/{round:02}-{step:05}");
    ledger.lock().unwrap().in_doubt.insert(key.clone(), step);
    let (partition_key, operation) = insert(&key, step);
    let Ok(answer) = connection.ask(&TableRequest::Write(name(TABLE), partition_key, operation)) else { return false };
    answer.expect("an insert of a new row is taken");
    let mut ledger = ledger.lock().unwrap();
    ledger.in_doubt.remove(&key);
    ledger.inserted.insert(key, step);
    true
}

fn write_batch(connection: &mut Client, client: usize, round: usize, step: i32, ledger: &Mutex<Ledger>) -> bool {
    let prefix = format!("b{client:02}/{round:02}-{step:05}-");
    ledger.lock().unwrap().batches.insert(prefix.clone(), false);
    let operations = (0..BATCH_ROWS).map(|row| insert(&format!("{prefix}{row}"), step)).collect();
    let transaction = EntityGroupTransaction::new(operations).unwrap();
    let Ok(answer) = connection.ask(&TableRequest::Transaction(name(TABLE), transaction)) else { return false };
    answer.expect("a batch of new rows is taken");
    ledger.lock().unwrap().batches.insert(prefix, true);
    true
}

fn count_up(connection: &mut Client, client: usize, ledger: &Mutex<Ledger>) -> bool {
    let next = {
        let mut ledger = ledger.lock().unwrap();
        let counter = ledger.counters.entry(client).or_default();
        counter.1 += 1;
        counter.1
    };
    let (partition_key, new) = new_entity(&format!("c{client:02}/counter"), next);
    let upsert = EntityOperation::Replace(new, Precondition::None);
    let Ok(answer) = connection.ask(&TableRequest::Write(name(TABLE), partition_key, upsert)) else { return false };
    answer.expect("an upsert is taken");
    ledger.lock().unwrap().counters.entry(client).or_default().0 = next;
    true
}

fn check(server: &RunningServer, ledger: &Ledger, round: usize) {
    let rows: HashMap<String, i32> = Client::connect(&server.table).unwrap().read_all(TABLE).into_iter().collect();
    for (key, value) in &ledger.inserted {
        assert_eq!(rows.get(key), Some(value), "round {round}: acknowledged insert of {key}");
    }
    for (prefix, acknowledged) in &ledger.batches {
        let present = (0..BATCH_ROWS).filter(|row| rows.contains_key(&format!("{prefix}{row}"))).count();
        let whole = present == BATCH_ROWS || (present == 0 && !acknowledged);
        assert!(whole, "round {round}: batch {prefix} (acknowledged: {acknowledged}) has {present} rows");
    }
    for (client, (acknowledged, attempted)) in &ledger.counters {
        let value = rows.get(&format!("c{client:02}/counter")).copied().unwrap_or(0);
        assert!((*acknowledged..=*attempted).contains(&value), "round {round}: counter of client {client} is {value}");
    }
    let batch_rows = |key: &String| ledger.batches.keys().any(|prefix| key.starts_with(prefix));
    for key in rows.keys().filter(|key| !key.ends_with("/counter") && !batch_rows(key)) {
        let known = ledger.inserted.contains_key(key) || ledger.in_doubt.contains_key(key);
        assert!(known, "round {round}: {key} was never asked for");
    }
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
    let Ok(Decoded::Entities(first, Some(next))) = client.ask(&request).unwrap() else { panic!("a page of two") };
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
