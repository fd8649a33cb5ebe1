//! Killed in the middle of writing, again and again: all that was acknowledged is there.
//!
//! This program starts itself as the victim, with the folder in its environment. So it is a binary
//! of its own: the victim must not load, and a kill must not hit, anything of other tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "it/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{open, runtime};
use tavola_conformance::store_conformance::fixture::{
    TABLE, group, insert, key, now, number, number_of,
};
use tavola_core::{EntityAddress, EntityView};
use tavola_store::{Blocking, Store};
use tempfile::TempDir;

const FOLDER: &str = "TAVOLA_TEST_VICTIM_FOLDER";
const ROUND: &str = "TAVOLA_TEST_VICTIM_ROUND";
const WRITERS: usize = 8;

/// Writes pairs of rows until it is killed, and says so after each acknowledgement.
#[test]
fn victim() {
    let (Ok(folder), Ok(round)) = (std::env::var(FOLDER), std::env::var(ROUND)) else {
        return; // Called as a test of its own, there is nothing to do.
    };
    let store = Arc::new(open(folder.as_ref()));
    runtime().block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let (store, partition) = (Arc::clone(&store), format!("{round}-{writer}"));
            writers.spawn(async move {
                for count in 0.. {
                    let pair = vec![
                        insert(&format!("{count}a"), number(count)),
                        insert(&format!("{count}b"), number(count)),
                    ];
                    store.commit(TABLE, &group(&partition, pair), now()).await.unwrap().unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "acknowledged {partition} {count}").unwrap();
                }
            });
        }
        writers.join_next().await;
    });
}

/// Runs the victim until it has acknowledged some writes, kills it, and returns all that it
/// acknowledged.
fn run_and_kill(folder: &std::path::Path, round: usize) -> Vec<(String, i32)> {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let parse = |line: String| {
        let mut words = line.strip_prefix("acknowledged ")?.split(' ');
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    let mut acknowledged = Vec::new();
    while acknowledged.len() < 50 + 37 * round {
        acknowledged.extend(
            lines.next().expect("the victim writes until it is killed").ok().and_then(parse),
        );
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    // What it had said before it died counts too, a last half line excepted.
    let mut rest: Vec<String> = lines.map_while(Result::ok).collect();
    rest.pop();
    acknowledged.extend(rest.into_iter().filter_map(parse));
    acknowledged
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let folder = TempDir::new().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        acknowledged.extend(run_and_kill(folder.path(), round));
        let store = open(folder.path());
        runtime().block_on(async {
            for (partition, count) in &acknowledged {
                let mut versions = Vec::new();
                for half in ["a", "b"] {
                    let address = EntityAddress {
                        table: TABLE,
                        key: key(partition, &format!("{count}{half}")),
                    };
                    let row = store
                        .get(&address, Blocking::Forbidden)
                        .await
                        .unwrap()
                        .expect("what was acknowledged is there");
                    assert_eq!(number_of(&row), *count);
                    versions.push(row.timestamp());
                }
                assert_eq!(versions[0], versions[1]);
            }
        });
    }
}
