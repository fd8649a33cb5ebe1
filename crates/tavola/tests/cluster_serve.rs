//! `tavola serve` on the cluster that `TAVOLA_CASSANDRA` names, one node: what clients get when
//! that does not answer, and what the log tells of a write.
//!
//! ```sh
//! cargo xtask cassandra up
//! cargo test -p tavola --test cluster_serve
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "it/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use bytes::Bytes;
use common::RunningServer;
use common::client::{Client, entity_key, insert, name};
use common::cluster::Home;
use common::relay::{Path, Relay};
use http::{Request, StatusCode};
use serde_json::Value;
use tavola_core::{EntityGroupTransaction, TableRequest};
use tavola_protocol::table::decode::{DecodeError, Decoded};

const TABLE: &str = "Things";

/// `store.answer_ms` of these servers is four seconds. The bound says that somebody looks at it,
/// not how exactly.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// A driver waits longer and longer between its tries to connect.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(120);

/// A server, and the path to the node behind it.
struct Scene {
    server: RunningServer,
    relay: Relay,
    _home: Home,
}

impl Scene {
    fn new(what: &str) -> Self {
        let mut home = Home::new(what);
        home.init().text();
        let relay = Relay::to(home.nodes.parse().unwrap());
        home.nodes = relay.address.to_string();
        let mut command = home.serve(&["--accept-risks", "replication"]);
        command.env("TAVOLA_STORE__STATEMENT_MS", "1000").env("TAVOLA_STORE__ANSWER_MS", "4000");
        // What is known of the table lasts for the whole test: to look for it is not what shall
        // fail.
        command.env("TAVOLA_STORE__LEASE_MS", "60000");
        let scene = Self { server: RunningServer::spawn(&mut command), relay, _home: home };
        scene.client().create_table(TABLE);
        scene
    }

    fn client(&self) -> Client {
        Client::connect(&self.server.table).unwrap()
    }

    /// `done`, or `503 ServerBusy`; in time.
    fn ask(&self, request: &TableRequest) -> String {
        let asked = Instant::now();
        let answer = match self.client().ask(request).expect("there is an answer") {
            Ok(_) => "done".to_owned(),
            Err(DecodeError::Service(error)) => format!("{} {}", error.status.as_u16(), error.code),
            Err(other) => panic!("{other}"),
        };
        println!("{answer} after {:?}", asked.elapsed());
        assert!(asked.elapsed() < ANSWER_TIME_MAX, "{request:?} took {:?}", asked.elapsed());
        answer
    }

    fn insert(&self, key: &str) -> String {
        let (partition_key, operation) = insert(key, 1);
        self.ask(&TableRequest::Write(name(TABLE), partition_key, operation))
    }

    fn insert_together(&self, keys: [&str; 2]) -> String {
        let transaction =
            EntityGroupTransaction::new(keys.map(|key| insert(key, 1)).to_vec()).unwrap();
        self.ask(&TableRequest::Transaction(name(TABLE), transaction))
    }

    fn has(&self, key: &str) -> bool {
        match self.client().ask(&TableRequest::GetEntity(name(TABLE), entity_key(key))).unwrap() {
            Ok(Decoded::Entity(_)) => true,
            Err(DecodeError::Service(error)) if error.code == "ResourceNotFound" => false,
            other => panic!("{other:?}"),
        }
    }

    fn keys(&self) -> Vec<String> {
        self.client().read_all(TABLE).into_iter().map(|(key, _)| key).collect()
    }

    fn wait_until_ready_says(&self, status: StatusCode, words: &str) {
        let begun = Instant::now();
        loop {
            let request = Request::get("/ready").body(Bytes::new()).unwrap();
            let response = Client::connect(&self.server.admin).unwrap().exchange(&request).unwrap();
            let text = String::from_utf8_lossy(response.body());
            if response.status() == status && text.contains(words) {
                return;
            }
            assert!(
                begun.elapsed() < CHANGE_TIME_MAX,
                "/ready still says {} {text}",
                response.status()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The node is there again, and nobody has touched the server.
    fn come_back(&self) {
        self.relay.set(Path::Open);
        self.wait_until_ready_says(StatusCode::OK, "ready");
    }
}

#[test]
fn a_cluster_that_is_away_is_busy_and_served_again_when_it_is_back() {
    let scene = Scene::new("away");
    assert_eq!(scene.insert("known/1"), "done");
    for path in [Path::Cut, Path::LosesRequests, Path::LosesReplies] {
        scene.relay.set(path);
        let not_ready = match path {
            Path::Cut => {
                format!("not ready: 0 of 1 replicas can be reached; not {}", scene.relay.address)
            }
            _ => "not ready: ".to_owned(),
        };
        scene.wait_until_ready_says(StatusCode::SERVICE_UNAVAILABLE, &not_ready);
        // By now the driver has given up the connections, so whatever is asked is known not to
        // begin.
        scene.wait_until_ready_says(
            StatusCode::SERVICE_UNAVAILABLE,
            "0 of 1 replicas can be reached",
        );
        let busy = "503 ServerBusy";
        assert_eq!(scene.insert("known/2"), busy, "{path:?}");
        assert_eq!(scene.insert("new/1"), busy, "{path:?}");
        assert_eq!(scene.insert_together(["known/3", "known/4"]), busy, "{path:?}");
        assert_eq!(
            scene.ask(&TableRequest::GetEntity(name(TABLE), entity_key("known/1"))),
            busy,
            "{path:?}"
        );
        assert_eq!(
            scene.ask(&TableRequest::QueryEntities(name(TABLE), Default::default())),
            busy,
            "{path:?}"
        );
        assert_eq!(scene.ask(&TableRequest::CreateTable(name("Others"))), busy, "{path:?}");
        assert_eq!(scene.ask(&TableRequest::DeleteTable(name(TABLE))), busy, "{path:?}");
        scene.come_back();
        assert_eq!(scene.keys(), ["known/1"], "nothing was done: {path:?}");
        assert_eq!(
            scene.ask(&TableRequest::GetTable(name("Others"))),
            "404 ResourceNotFound",
            "{path:?}"
        );
    }
    assert_eq!(scene.insert_together(["known/3", "known/4"]), "done");
    assert_eq!(scene.insert("new/1"), "done");
    assert_eq!(scene.keys(), ["known/1", "known/3", "known/4", "new/1"]);
    assert!(scene.server.terminate().success());
}

#[test]
fn an_outcome_that_nobody_tells_is_told_as_such_and_is_one_of_two() {
    let scene = Scene::new("untold");
    assert_eq!(scene.insert("p/first"), "done");
    // The node never hears of this one.
    scene.relay.set(Path::LosesRequests);
    assert_eq!(scene.insert_together(["p/1", "p/2"]), "500 OperationTimedOut");
    let read = TableRequest::GetEntity(name(TABLE), entity_key("p/1"));
    assert_eq!(scene.ask(&read), "503 ServerBusy", "a read has no outcome that could be unknown");
    scene.come_back();
    assert_eq!(scene.keys(), ["p/first"]);
    assert_eq!(
        scene.insert_together(["p/1", "p/2"]),
        "done",
        "it did not happen, nor does it happen now"
    );

    // This one it carries out, and says so; or it was slow, and our fence came before it.
    scene.relay.set(Path::LosesReplies);
    assert_eq!(scene.insert_together(["p/3", "p/4"]), "500 OperationTimedOut");
    scene.come_back();
    let is_there = scene.has("p/3");
    println!("the write whose reply was lost was {}", if is_there { "done" } else { "fenced off" });
    for _ in 0..20 {
        assert_eq!(
            (scene.has("p/3"), scene.has("p/4")),
            (is_there, is_there),
            "whole, and for ever"
        );
    }
    let again = scene.insert_together(["p/3", "p/4"]);
    assert_eq!(again, if is_there { "409 EntityAlreadyExists" } else { "done" });
    assert_eq!(scene.keys(), ["p/1", "p/2", "p/3", "p/4", "p/first"]);
    assert!(scene.server.terminate().success());
}

/// One of them is on the way when replies are lost; the others wait for it, and some for longer
/// than they have.
#[test]
fn all_who_wait_for_a_silent_partition_are_answered_with_the_truth() {
    let scene = Scene::new("many");
    assert_eq!(scene.insert("p/first"), "done");
    let keys: Vec<String> = (0..16).map(|number| format!("p/{number:02}")).collect();
    scene.relay.set(Path::LosesReplies);
    let answers: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = keys.iter().map(|key| scope.spawn(|| scene.insert(key))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    scene.come_back();
    let there = scene.keys();
    for (key, answer) in keys.iter().zip(&answers) {
        match answer.as_str() {
            "500 OperationTimedOut" => assert_eq!(scene.has(key), there.contains(key), "{key}"),
            "503 ServerBusy" => {
                assert!(!there.contains(key) && !scene.has(key), "{key} was not to be begun")
            }
            other => panic!("{key}: {other}"),
        }
    }
    assert!(
        answers.iter().any(|answer| answer.starts_with("500")),
        "one was on the way: {answers:?}"
    );
    assert_eq!(scene.keys(), there);
    assert!(scene.server.terminate().success());
}

/// Nothing is known of the table yet, so the first thing that fails is a read.
#[test]
fn a_write_whose_table_cannot_be_looked_up_is_not_begun() {
    let scene = Scene::new("lookup");
    scene.relay.set(Path::LosesReplies);
    assert_eq!(scene.insert("p/1"), "503 ServerBusy");
    scene.come_back();
    assert_eq!(scene.keys(), [""; 0]);
    assert_eq!(scene.insert("p/1"), "done");
    assert!(scene.server.terminate().success());
}

/// What the log tells inside of the writes of a partition, line by line.
fn told(log: &str, partition_key: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_wanted = |line: &Value| {
        let (span, partition) = (&line["span"]["name"], line["span"]["partition"].as_str());
        span == "write" && partition.is_some_and(|partition| partition.contains(partition_key))
    };
    lines.filter(is_wanted).map(|line| line["fields"].clone()).collect()
}

#[test]
fn a_trace_shows_the_statements_of_a_write() {
    let home = Home::new("trace");
    home.init().text();
    let mut command = home.serve(&["--accept-risks", "replication"]);
    command
        .env("TAVOLA_LOG__LEVEL", "info,tavola_cassandra=debug")
        .env("TAVOLA_LOG__FORMAT", "json");
    command.env("TAVOLA_LOG__FILE", home.folder.path().join("log"));
    let server = RunningServer::spawn(&mut command);
    let mut client = Client::connect(&server.table).unwrap();
    client.create_table(TABLE);
    let transaction =
        EntityGroupTransaction::new(vec![insert("followed/1", 1), insert("followed/2", 1)])
            .unwrap();
    let request = TableRequest::Transaction(name(TABLE), transaction);
    client.ask(&request).unwrap().unwrap();
    let again = client.ask(&request).unwrap();
    assert!(
        matches!(again, Err(DecodeError::Service(error)) if error.code == "EntityAlreadyExists")
    );
    assert!(server.terminate().success());

    let log = std::fs::read_to_string(home.folder.path().join("log")).unwrap();
    let mut lines = told(&log, "followed");
    // Before that the server may find out that the partition is new to it.
    lines.drain(..lines.iter().position(|line| line["statement"] == "register").unwrap());
    let [enter, first, applied, second, refused] = &lines[..] else { panic!("{lines:#?}") };
    let put = format!(
        "UPDATE {}.entity SET ver=?, doc=? WHERE tid=? AND pk=? AND rk=? IF ver=null",
        home.keyspace
    );
    for (line, statement, begins, ends) in [
        (enter, "register", "INSERT INTO ", "VALUES (?, ?, ?, ?)".to_owned()),
        (first, "write", "UPDATE ", format!(" IF gen=null; {put} (2 times)")),
        (second, "write", "UPDATE ", format!(" IF gen=? AND pts<?; {put} (2 times)")),
    ] {
        let cql = line["cql"].as_str().unwrap();
        assert!(cql.starts_with(begins) && cql.ends_with(&ends), "{line:#}");
        assert_eq!(
            (&line["statement"], &line["message"]),
            (&statement.into(), &"answered".into()),
            "{line:#}"
        );
        assert_eq!(line["node"], *home.nodes, "{line:#}");
        assert!(line["micros"].is_u64(), "{line:#}");
    }
    assert_eq!(applied["message"], "applied");
    assert_eq!(refused["message"], "refused");
    assert_eq!((&refused["generation"], &refused["rows"]), (&1.into(), &2.into()), "{refused:#}");
}
