//! Our commands on a cluster that demands TLS and a password, and whose settings are dangerous: one
//! Cassandra node at `TAVOLA_CASSANDRA`, with the certificate of its authority at
//! `TAVOLA_CASSANDRA_CA_FILE`.
//!
//! ```sh
//! cargo xtask cassandra up --password --tls --setting commitlog_sync=periodic --setting paxos_variant=v1
//! TAVOLA_CASSANDRA_CA_FILE=... cargo test --workspace --test guarded_cluster
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "it/common/mod.rs"]
mod common;

use common::RunningServer;
use common::cli::{Done, check, run};
use common::client::{Client, insert, name};
use common::cluster::Home;
use rcgen::{CertificateParams, KeyPair};
use tavola_core::TableRequest;

const TRUST: [&str; 2] = ["--store-ca-file", "ca.pem"];
const LOGIN: [&str; 4] = ["--store-user", "cassandra", "--store-password-file", "password"];

/// A home in which the files of these flags are right.
fn home(what: &str) -> Home {
    let home = Home::new(what);
    let authority =
        std::env::var("TAVOLA_CASSANDRA_CA_FILE").expect("TAVOLA_CASSANDRA_CA_FILE names a file");
    std::fs::copy(authority, home.folder.path().join("ca.pem")).unwrap();
    std::fs::write(home.folder.path().join("password"), "cassandra\n").unwrap();
    home
}

fn init(home: &Home, with: &[&[&str]]) -> Done {
    home.on_cluster(&[&["store", "init", "--replication", "1"], &with.concat()[..]].concat())
}

#[track_caller]
fn assert_refused(done: &Done, home: &Home, code: i32, words: &str) {
    assert_eq!(done.code, Some(code), "{done:?}");
    assert!(done.stderr.contains(words), "no «{words}»: {}", done.stderr);
    assert!(done.stderr.contains(&home.nodes), "the node is named: {}", done.stderr);
    assert!(!done.stderr.contains("not-the-password"), "{}", done.stderr);
}

#[test]
fn strangers_are_told_which_setting_keeps_them_out() {
    let home = home("strangers");
    assert_refused(&init(&home, &[&LOGIN]), &home, 1, "set store.tls");
    let untrusted = "(settings store.tls, store.ca_file): invalid peer certificate";
    assert_refused(&init(&home, &[&LOGIN, &["--store-tls", "true"]]), &home, 3, untrusted);
    let somebody = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let other = somebody.self_signed(&KeyPair::generate().unwrap()).unwrap();
    std::fs::write(home.folder.path().join("other.pem"), other.pem()).unwrap();
    assert_refused(&init(&home, &[&LOGIN, &["--store-ca-file", "other.pem"]]), &home, 3, untrusted);

    assert_refused(
        &init(&home, &[&TRUST]),
        &home,
        3,
        "(settings store.user, store.password_file), and none is set",
    );
    std::fs::write(home.folder.path().join("other"), "not-the-password\n").unwrap();
    let login = ["--store-user", "cassandra", "--store-password-file", "other"];
    let wrong = "refuses user \"cassandra\" (settings store.user, store.password)";
    assert_refused(&init(&home, &[&TRUST, &login]), &home, 3, wrong);
    let mut serve = home.serve(&[&TRUST[..], &login[..]].concat());
    assert_refused(&run(&mut serve), &home, 3, wrong);
    let doctor =
        home.on_cluster(&[&["doctor", "--store", "cassandra"], &TRUST[..], &login[..]].concat());
    assert!(doctor.code == Some(1) && doctor.stdout.contains(wrong), "{doctor:?}");
}

#[test]
fn who_trusts_and_is_trusted_reads_and_writes() {
    let home = home("friends");
    init(&home, &[&TRUST, &LOGIN]).text();
    let all = ["--accept-risks", "replication,commitlog,paxos"];
    let server =
        RunningServer::spawn(&mut home.serve(&[&TRUST[..], &LOGIN[..], &all[..]].concat()));
    let mut client = Client::connect(&server.table).unwrap();
    client.create_table("Things");
    let (partition_key, operation) = insert("p/1", 7);
    client.ask(&TableRequest::Write(name("Things"), partition_key, operation)).unwrap().unwrap();
    assert_eq!(client.read_all("Things"), [("p/1".to_owned(), 7)]);
    assert!(server.terminate().success());
}

#[test]
fn doctor_and_server_name_what_the_cluster_would_lose() {
    let home = home("dangers");
    let ports = "table.port = 0\nserver.admin_port = 0\n";
    std::fs::write(home.folder.path().join("tavola.toml"), ports).unwrap();
    init(&home, &[&TRUST, &LOGIN]).text();
    let doctor = |accepted: &str| {
        let flags = ["doctor", "--store", "cassandra", "--accept-risks", accepted];
        home.on_cluster(&[&flags[..], &TRUST[..], &LOGIN[..]].concat())
    };
    let serve = |accepted: &str| {
        let flags = ["--accept-risks", accepted];
        run(&mut home.serve(&[&flags[..], &TRUST[..], &LOGIN[..]].concat()))
    };
    let of_node =
        |risk: &str, setting: &str| format!("{risk}: node {} has {setting}: ", home.nodes);
    let log = of_node("commitlog", "commitlog_sync: periodic");
    let paxos = of_node("paxos", "paxos_variant: v1");
    let copies = format!("replication: keyspace {} has 1 copy of each row", home.keyspace);
    let dangers = [("commitlog", &log), ("paxos", &paxos), ("replication", &copies)];
    let all: Vec<String> =
        dangers.iter().map(|(_, words)| format!("fail cluster {words}")).collect();
    check(&doctor(""), &all.iter().map(String::as_str).collect::<Vec<_>>());
    for (left, words) in dangers {
        let others: Vec<&str> =
            dangers.iter().map(|(name, _)| *name).filter(|name| *name != left).collect();
        let refused = serve(&others.join(","));
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
        // What is accepted is told too, as a warning.
        let named = refused.stderr.split("the cluster is not safe to use").nth(1).unwrap();
        assert_eq!(
            named.matches("accept it with store.accept_risks").count(),
            1,
            "only this: {named}"
        );
        check(&doctor(&others.join(",")), &[&format!("fail cluster {words}"), "warn cluster "]);
    }
}
