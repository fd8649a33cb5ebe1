//! `tavola store copy` between data folders.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::common::cli::{Done, examples, in_folder, in_shell, run};
use crate::common::stores::{MANY, with_store, write_many};
use crate::common::{RunningServer, client, tavola};
use crate::old_data_content::{read_all, write_log_tail, write_table_files};

/// A home with a data folder `source` that has a bit of everything: accounts, policies, properties,
/// a dropped table.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        with_store(&home.path("source"), write_table_files);
        with_store(&home.path("source"), write_log_tail);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn copy(&self, from: &str, to: &str) -> Done {
        self.run(&["store", "copy", "--from", from, "--to", to])
    }

    fn run(&self, arguments: &[&str]) -> Done {
        run(in_folder(self.0.path()).args(arguments))
    }
}

#[test]
fn everything_comes_along() {
    let home = Home::new();
    let before = with_store(&home.path("source"), read_all);
    let done = home.copy("embedded:source", "embedded:target");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout.contains("the same") && !done.stdout.contains("DIFFERENT"),
        "{}",
        done.stdout
    );
    for part in ["reading the source: all rows", "copying: ", "verifying: "] {
        assert!(done.stderr.contains(part), "progress goes to standard error: {}", done.stderr);
    }
    let check = home.run(&["check", "target"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    assert_eq!(with_store(&home.path("target"), read_all), before);
    // Again, for whoever did not see how it ended.
    let again = home.run(&[
        "store",
        "copy",
        "--from",
        "embedded:source",
        "--to",
        "embedded:target",
        "-o",
        "json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&again.text()).unwrap();
    assert_eq!((&json["ok"], &json["course"]), (&true.into(), &"was there".into()), "{json}");
    for table in json["tables"].as_array().unwrap() {
        assert_eq!(table["source"], table["target"], "{json}");
        assert!(table["source"]["hash"].as_str().is_some_and(|hash| hash.len() == 16), "{json}");
    }
}

/// Until the process ended, or `millis` after it began to copy, when it is killed: true if it ended
/// by itself.
fn copies_for(home: &Home, millis: u64) -> bool {
    let mut command = in_folder(home.0.path());
    command.args(["store", "copy", "--from", "embedded:source", "--to", "embedded:target"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut printed = Vec::new();
    while !printed.last().is_some_and(|line: &String| line.starts_with("copying: ")) {
        match lines.next() {
            Some(line) => printed.push(line),
            None => {
                // The run before was killed after its last write.
                assert!(child.wait().unwrap().success(), "{printed:?}");
                return true;
            }
        }
    }
    std::thread::sleep(Duration::from_millis(millis));
    // It may have ended by itself just now.
    let _gone = child.kill();
    child.wait().unwrap().success()
}

#[test]
fn a_copy_that_is_killed_goes_on() {
    let home = Home(tempfile::tempdir().unwrap());
    write_many(&home.path("source"), 30_000);
    // Begun, and at once ended.
    assert!(!copies_for(&home, 0), "30,000 rows are not copied in no time");
    let refused = run(tavola()
        .args(["serve", "--table-port", "0", "--admin-port", "0", "--location"])
        .arg(home.path("target")));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("unfinished copy of embedded:source"), "{}", refused.stderr);
    let check = home.run(&["check", "target"]);
    assert!(check.code == Some(3) && check.stdout.contains("an unfinished copy"), "{check:?}");
    let half = home.copy("embedded:target", "embedded:third");
    assert!(half.code == Some(3) && half.stderr.contains("finish that one first"), "{half:?}");

    let killed = (0..).map(|run| 20 * run).take_while(|millis| !copies_for(&home, *millis)).count();
    println!("killed {} times", killed + 1);
    let done = home.copy("embedded:source", "embedded:target");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("already"), "{}", done.stdout);
    assert_eq!(home.run(&["check", "target"]).code, Some(0));
    let rows = |folder: &str| {
        let server = RunningServer::start(&home.path(folder));
        let request =
            tavola_core::TableRequest::QueryEntities(client::name(MANY), Default::default());
        let mut client = client::Client::connect(&server.table).unwrap();
        // With their timestamps.
        format!("{:?}", client.ask(&request).unwrap())
    };
    assert_eq!(rows("source"), rows("target"));
}

#[test]
fn what_is_refused() {
    let home = Home::new();
    let missing = home.copy("embedded:nowhere", "embedded:target");
    assert_eq!(missing.code, Some(3), "{missing:?}");
    assert!(missing.stderr.contains("there is no data folder at nowhere"), "{}", missing.stderr);
    assert!(!home.path("nowhere").exists() && !home.path("target").exists());
    assert_eq!(home.copy("embedded:source", "embedded:./source").code, Some(2));
    for bad in ["source", "embedded:", "cassandra:somewhere", "redis:x"] {
        let done = home.copy(bad, "embedded:target");
        assert!(done.code == Some(2) && done.stderr.contains("cassandra:HOST"), "{bad}: {done:?}");
    }
    let server = RunningServer::start(&home.path("source"));
    let used = home.copy("embedded:source", "embedded:target");
    assert!(used.code == Some(3) && used.stderr.contains("in use by another process"), "{used:?}");
    assert!(server.terminate().success());

    write_many(&home.path("other"), 10);
    let before = rows_of(&home.path("other"));
    let occupied = home.copy("embedded:source", "embedded:other");
    assert_eq!(occupied.code, Some(3), "{occupied:?}");
    assert!(occupied.stderr.contains("the target is not empty"), "{}", occupied.stderr);
    assert_eq!(rows_of(&home.path("other")), before);
    assert_eq!(home.run(&["check", "other"]).code, Some(0), "nothing was marked");
}

fn rows_of(folder: &Path) -> Vec<String> {
    let server = RunningServer::start(folder);
    let request = tavola_core::TableRequest::QueryEntities(client::name(MANY), Default::default());
    let mut client = client::Client::connect(&server.table).unwrap();
    vec![format!("{:?}", client.ask(&request).unwrap())]
}

#[test]
fn the_examples_of_the_help_work() {
    let home = Home::new();
    fs::create_dir(home.path("disk2")).unwrap();
    for line in examples(&["store", "copy"]) {
        // Nobody listens there.
        let line = line.replace("10.0.0.1:9042", "127.0.0.1:1").replace(",10.0.0.2", "");
        let line = line.replace("/var/lib/tavola-2", "second").replace("tavola-data", "source");
        let line = line.replace("/mnt/disk2", "disk2");
        let done = in_shell(home.0.path(), &line, |shell| shell);
        assert_eq!(done.code, Some(i32::from(line.contains("cassandra"))), "{line}: {done:?}");
    }
    assert_eq!(examples(&["store"]).len(), 3);
}
