//! `tavola store`, `tavola doctor` and `tavola serve` on the cluster that `TAVOLA_CASSANDRA` names:
//! one node, set up well.
//!
//! ```sh
//! cargo xtask cassandra up
//! cargo test -p tavola --test cluster_store
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "it/common/mod.rs"]
mod common;
#[path = "it/old_data_content/mod.rs"]
mod old_data_content;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::RunningServer;
use common::cli::{check, in_folder, run};
use common::client::{Client, insert, name};
use common::cluster::Home;
use common::stores::{MANY, with_store, write_many};
use old_data_content::{read_all, write_log_tail, write_table_files};
use serde_json::Value;
use tavola_core::TableRequest;

#[test]
fn a_keyspace_is_made_once() {
    let home = Home::new("init");
    let too_many = home.on_cluster(&["store", "init"]);
    assert_eq!(too_many.code, Some(3), "{too_many:?}");
    assert!(
        too_many.stderr.contains("3 copies of each row (setting store.replication)"),
        "{}",
        too_many.stderr
    );
    let refused = run(&mut home.serve(&[]));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("create it with `tavola store init`"), "{}", refused.stderr);

    let made = home.init().text();
    assert!(made.starts_with(&format!("created the keyspace {}", home.keyspace)), "{made}");
    assert!(
        made.contains("entity, pdir, front_end, meta") && made.contains("\nok    keyspace: "),
        "{made}"
    );
    let again = home.init().text();
    assert!(again.contains("exist: nothing to do"), "{again}");
    let slots =
        home.on_cluster(&["store", "init", "--replication", "1", "--slots", "64", "-o", "json"]);
    let json: Value = serde_json::from_str(&slots.text()).unwrap();
    assert_eq!((&json["keyspace_made"], &json["slots"]), (&false.into(), &16.into()), "{json}");
    assert!(json["note"].as_str().unwrap().contains("--slots 64"), "{json}");
    let other = home.on_cluster(&["store", "init", "--data-centre", "mars"]);
    assert!(other.code == Some(3) && other.stderr.contains("store.data_centre"), "{other:?}");
}

#[test]
fn doctor_and_server_agree_about_danger() {
    let home = Home::new("doctor");
    let doctor = ["doctor", "--store", "cassandra"];
    let ports = "table.port = 0\nserver.admin_port = 0\n";
    std::fs::write(home.folder.path().join("tavola.toml"), ports).unwrap();
    check(&home.on_cluster(&doctor), &["ok node: ", "fail keyspace: the cluster has no keyspace"]);
    home.init().text();
    let dangerous = home.on_cluster(&doctor);
    check(&dangerous, &["ok node: ", "fail cluster replication: keyspace", "ok keyspace: "]);
    assert!(
        dangerous.stdout.contains("commitlog_sync: batch, paxos_variant: v2"),
        "{}",
        dangerous.stdout
    );
    let refused = run(&mut home.serve(&[]));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    for words in [
        "the cluster is not safe to use",
        "has 1 copy of each row",
        "store.accept_risks = \"replication\"",
    ] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
    let accepted = home.on_cluster(&[&doctor[..], &["--accept-risks", "replication"]].concat());
    check(&accepted, &["warn cluster replication: ", "ok keyspace: "]);
    let server = RunningServer::spawn(&mut home.serve(&["--accept-risks", "replication"]));
    assert!(server.terminate().success());
}

#[test]
fn there_and_back() {
    let home = Home::new("copy");
    home.init().text();
    with_store(&home.folder.path().join("source"), write_table_files);
    with_store(&home.folder.path().join("source"), write_log_tail);
    let there = home.copy("embedded:source", &home.place());
    let back = home.copy(&home.place(), "embedded:target");
    assert_eq!(there["tables"], back["tables"]);
    assert_eq!(home.copy("embedded:source", &home.place())["course"], "was there");
    let read = |folder: &str| with_store(&home.folder.path().join(folder), read_all);
    assert_eq!(read("source"), read("target"));
    assert_eq!(home.run(&["check", "target"]).code, Some(0));
}

#[test]
fn a_copy_into_a_cluster_that_is_killed_goes_on() {
    let home = Home::new("killed");
    home.init().text();
    write_many(&home.folder.path().join("source"), 6_000);
    let accept = ["--accept-risks", "replication"];
    let mut killed = 0;
    loop {
        let mut command = in_folder(home.folder.path());
        command
            .args(["store", "copy", "--from", "embedded:source", "--to", &home.place()])
            .args(accept);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let begun = lines.any(|line| line.starts_with("copying: "));
        // Shorter ones first; in the end it is let through.
        if begun && killed < 5 {
            std::thread::sleep(Duration::from_millis(100 * killed));
            let _gone = child.kill();
        }
        if child.wait().unwrap().success() {
            break;
        }
        assert!(begun, "it fails by being killed only");
        killed += 1;
        if killed == 1 {
            let refused = run(&mut home.serve(&accept));
            assert!(
                refused.code == Some(3) && refused.stderr.contains("unfinished copy"),
                "{refused:?}"
            );
        }
    }
    println!("killed {killed} times");
    let back = home.copy(&home.place(), "embedded:target");
    assert_eq!(back["tables"][0]["source"]["rows"], 6_000);
    assert_eq!(home.copy("embedded:source", "embedded:target")["course"], "was there");
    // What was moved is written on, above what it was.
    let server = RunningServer::spawn(&mut home.serve(&accept));
    let mut client = Client::connect(&server.table).unwrap();
    let (partition_key, operation) = insert("new/1", 1);
    client.ask(&TableRequest::Write(name(MANY), partition_key, operation)).unwrap().unwrap();
    client.create_table("Another");
    assert_eq!(client.read_all("Another"), []);
    assert!(server.terminate().success());
}

/// A figure of a server's metrics; none if it is missing.
fn figure(server: &RunningServer, name: &str) -> u64 {
    let answer = Client::connect(&server.admin).unwrap().get("/metrics").unwrap();
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in:\n{text}"))
}

/// Longer than any of it takes on a busy machine.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(120);

/// Waits for a state.
fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < CHANGE_TIME_MAX, "it does not come to that");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Nodes that write one partition notice it, and one of them writes for both; when it is gone, the
/// other goes on.
#[test]
fn nodes_write_for_each_other() {
    let home = Home::new("peers");
    home.init().text();
    let serve = || {
        let with = ["--accept-risks", "replication", "--peers", "127.0.0.1:0"];
        RunningServer::spawn(&mut home.serve(&with))
    };
    let servers = [serve(), serve()];
    Client::connect(&servers[0].table).unwrap().create_table("Shared");
    until(|| servers.iter().all(|server| figure(server, "tavola_peers") == 1));
    let sent =
        || servers.iter().map(|server| figure(server, "tavola_peers_sent_total")).sum::<u64>();
    let written = AtomicU64::new(0);
    let write = |server: &RunningServer, row: &str| {
        let (partition_key, operation) = insert(&format!("hot/{row}"), 1);
        let mut client = Client::connect(&server.table).unwrap();
        client
            .ask(&TableRequest::Write(name("Shared"), partition_key, operation))
            .unwrap()
            .unwrap();
        written.fetch_add(1, Ordering::Relaxed);
    };
    let is_enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (index, server) in servers.iter().enumerate() {
            let (write, is_enough) = (&write, &is_enough);
            for writer in 0..4 {
                scope.spawn(move || {
                    for row in 0.. {
                        if is_enough.load(Ordering::Relaxed) {
                            return;
                        }
                        write(server, &format!("{index}-{writer}-{row:06}"));
                    }
                });
            }
        }
        until(|| sent() >= 20);
        is_enough.store(true, Ordering::Relaxed);
    });
    let received =
        servers.iter().map(|server| figure(server, "tavola_peers_received_total")).sum::<u64>();
    assert!(received >= sent(), "{received} received, {} sent", sent());
    let rows = Client::connect(&servers[1].table).unwrap().read_all("Shared");
    assert_eq!(rows.len() as u64, written.load(Ordering::Relaxed));

    let [gone, left] = servers;
    gone.kill();
    until(|| figure(&left, "tavola_peers") == 0);
    write(&left, "after");
    assert!(left.terminate().success());
}
