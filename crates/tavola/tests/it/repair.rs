//! `tavola repair` on folders that a server wrote and that were damaged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::common::RunningServer;
use crate::common::cli::{Done, examples, in_folder, in_shell, run};
use crate::common::client::{Client, insert, name};
use crate::common::stores::with_store;
use tavola_conformance::store_conformance::fixture::{group, now, properties, replace};
use tavola_core::{EdmValue, Precondition, TableId, TableRequest};
use tavola_embedded::EmbeddedStore;
use tavola_store::Store;

const TABLE: &str = "people";

/// A folder with `in_files` rows in table files and as many in the log, and a home for commands
/// beside it.
struct Home {
    folder: tempfile::TempDir,
    rows: Vec<(String, i32)>,
}

impl Home {
    fn new(in_files: i32) -> Self {
        Self::with(in_files, &[])
    }

    /// By servers with these settings.
    fn with(in_files: i32, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("tavola-data");
        let mut rows = Vec::new();
        for part in 0..2 {
            let server =
                RunningServer::start_with(&data, |command| command.envs(settings.iter().copied()));
            let mut client = Client::connect(&server.table).unwrap();
            client.create_table(TABLE);
            for row in part * in_files..(part + 1) * in_files {
                let key = format!("p/{row:05}");
                let (partition_key, operation) = insert(&key, row);
                client
                    .ask(&TableRequest::Write(name(TABLE), partition_key, operation))
                    .unwrap()
                    .unwrap();
                rows.push((key, row));
            }
            if part == 0 { assert!(server.terminate().success()) } else { server.kill() }
        }
        Self { folder, rows }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("tavola-data")
    }

    /// The newest file of a kind that has something in it.
    fn file(&self, part: &str) -> PathBuf {
        let files =
            fs::read_dir(self.data().join("store")).unwrap().map(|entry| entry.unwrap().path());
        let is_wanted = |path: &PathBuf| {
            path.to_string_lossy().contains(part) && fs::metadata(path).unwrap().len() > 0
        };
        files.filter(is_wanted).max().unwrap()
    }

    fn flip(&self, part: &str, at: usize) {
        let file = self.file(part);
        let mut bytes = fs::read(&file).unwrap();
        bytes[at] ^= 4;
        fs::write(file, bytes).unwrap();
    }

    fn repair(&self, arguments: &[&str]) -> Done {
        let before = contents(&self.data());
        let done = run(in_folder(self.folder.path()).arg("repair").args(arguments));
        assert!(contents(&self.data()) == before, "the damaged folder is left as it is: {done:?}");
        done
    }

    /// Saves into a new folder, serves it, and gives its rows; every one of them was once written.
    fn saved(&self) -> Vec<(String, i32)> {
        let dry = self.repair(&["--dry-run"]);
        assert_eq!(dry.code, Some(0), "{dry:?}");
        assert_eq!(
            fs::read_dir(self.folder.path()).unwrap().count(),
            1,
            "a dry run writes nothing"
        );
        let done = self.repair(&["--into", "saved", "--yes"]);
        assert_eq!((done.code, &done.stdout), (Some(0), &dry.stdout), "{done:?}");
        let server = RunningServer::start(&self.folder.path().join("saved"));
        // The row that names the table may be among those that are lost.
        let table =
            if dry.stdout.contains("table Recovered256 of") { "Recovered256" } else { TABLE };
        let rows = Client::connect(&server.table).unwrap().read_all(table);
        assert!(rows.iter().all(|row| self.rows.contains(row)), "{rows:?}");
        assert!(server.terminate().success());
        rows
    }
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path))
        } else {
            drop(found.insert(path.clone(), fs::read(path).unwrap()))
        }
    }
    found
}

#[test]
fn a_record_of_the_log_is_lost_and_those_around_it_are_saved() {
    let home = Home::new(50);
    home.flip(".log", 2000);
    let refused = run(in_folder(home.folder.path()).args([
        "serve",
        "--table-port",
        "0",
        "--admin-port",
        "0",
    ]));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    for words in
        ["tavola check tavola-data", "tavola repair tavola-data --dry-run", "from a backup"]
    {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let dry = home.repair(&["--dry-run"]);
    // A write is a row and the record of the last version.
    assert!(dry.stdout.contains("at most 2 rows are lost"), "{}", dry.stdout);
    assert!(
        dry.stdout.contains("mind    writes of the log before and after the damage are kept"),
        "{}",
        dry.stdout
    );
    assert_eq!(home.saved().len(), 99);
}

/// The end of the log is gone at the end of a record: nothing in the log tells, and the count is
/// known all the same.
#[test]
fn a_log_that_lost_its_end_tells_how_much() {
    let home = Home::new(20);
    let log = fs::read(home.file(".log")).unwrap();
    let mut ends = vec![0];
    while let Some(&end) = ends.last().filter(|end| **end < log.len()) {
        ends.push(end + 7 + usize::from(u16::from_le_bytes([log[end + 4], log[end + 5]])));
    }
    fs::write(home.file(".log"), &log[..ends[ends.len() - 4]]).unwrap();
    let dry = home.repair(&["--dry-run"]);
    // Three writes, each of a row and of the record of the last version.
    assert!(dry.stdout.contains("at most 6 rows are lost"), "{}", dry.stdout);
    assert_eq!(home.saved(), home.rows[..37]);
}

#[test]
fn a_block_of_a_table_file_is_lost_and_the_others_are_saved() {
    let home = Home::new(1500);
    // Behind the catalogue, which stands at the front.
    home.flip(".sst", fs::read(home.file(".sst")).unwrap().len() / 3);
    let dry = home.repair(&["--dry-run", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&dry.stdout).unwrap();
    let lost = json["rows_lost_max"].as_u64().unwrap() as usize;
    let saved = home.saved().len();
    assert!(lost > 0 && saved > 1500 && saved + lost >= 3000, "{saved} saved: {json}");
}

/// The story: the end of a table file was gone, with rows in it, and it said "no row is lost".
/// Whatever hits the end, with whatever the file is packed: no more is lost than was said before,
/// `check` says the same, and what can come back is named.
#[test]
fn what_is_lost_with_the_end_of_a_table_file_is_said_before() {
    for compression in ["lz4", "zstd"] {
        let home = Home::with(600, &[("TAVOLA_STORE__COMPRESSION", compression)]);
        let file = home.file(".sst");
        let sound = fs::read(&file).unwrap();
        fs::write(&file, &sound[..sound.len() / 2]).unwrap();
        let dry = home.repair(&["--dry-run"]);
        assert!(
            dry.stdout.contains("older than they were, or deleted and restored"),
            "{}",
            dry.stdout
        );
        assert!(dry.stdout.contains("deleted ones may come back"), "{}", dry.stdout);
        let plan = json(&home.repair(&["--dry-run", "-o", "json"]));
        let checked = json(&run(in_folder(home.folder.path()).args(["check", "-o", "json"])));
        assert_eq!(plan["rows_lost_max"], checked["rows_lost_max"]);
        let lost = plan["rows_lost_max"].as_u64().unwrap() as usize;
        let saved = home.saved().len();
        assert!(saved < 1200 && saved + lost >= 1200, "{compression}: {saved} saved: {plan}");
    }
}

/// The story: two flipped bits, of the footer and of a block of rows, lost everything behind that
/// block.
#[test]
fn what_is_behind_a_bad_block_is_saved_without_the_footer() {
    for compression in ["lz4", "zstd"] {
        let home = Home::with(600, &[("TAVOLA_STORE__COMPRESSION", compression)]);
        let bytes = fs::read(home.file(".sst")).unwrap().len();
        home.flip(".sst", bytes - 20);
        home.flip(".sst", bytes / 3);
        let plan = json(&home.repair(&["--dry-run", "-o", "json"]));
        let lost = plan["rows_lost_max"].as_u64().unwrap() as usize;
        let saved = home.saved();
        assert!(
            lost > 0 && saved.len() + lost >= 1200,
            "{compression}: {} saved: {plan}",
            saved.len()
        );
        assert!(
            saved.iter().any(|(_, row)| *row == 599),
            "the last row of the file is there: {plan}"
        );
    }
}

/// The story: a record of files that had lost 1 to 24 bytes made a repair leave out files that held
/// most of the rows.
#[test]
fn a_record_of_files_that_lost_its_end_loses_no_row() {
    // The smallest memtables: files come and go while rows are written.
    let home = Home::with(500, &[("TAVOLA_STORE__MEMTABLE_KB", "64")]);
    let manifest = home.file("MANIFEST");
    let sound = fs::read(&manifest).unwrap();
    let mut repaired = 0;
    for cut in [1, 5, 12, 24, 80, 200] {
        fs::write(&manifest, &sound[..sound.len() - cut]).unwrap();
        let done = home.repair(&["--into", "saved", "--yes"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        // What a crash may have torn needs no repair, if nothing relied on it.
        let saved = home.folder.path().join("saved");
        let data = if saved.exists() { &saved } else { &home.data() };
        let server = RunningServer::start(data);
        assert_eq!(
            Client::connect(&server.table).unwrap().read_all(TABLE),
            home.rows,
            "{cut} bytes are cut off"
        );
        drop(server);
        if !saved.exists() {
            return;
        }
        repaired += 1;
        fs::remove_dir_all(&saved).unwrap();
    }
    assert!(repaired > 0);
}

/// Rows are saved in their order and reach the disk in it, so that a killed repair goes on.
#[test]
fn a_repair_that_was_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("damaged");
    let rows = with_store(&damaged, put_large_rows);
    fs::write(damaged.join("TAVOLA"), "tavola-format: ?\n").unwrap();
    let unfinished = folder.path().join("saved.unfinished");
    let repair = || {
        let mut command = in_folder(folder.path());
        command.args(["repair", "damaged", "--into", "saved", "--yes"]);
        command
    };
    let mut child = repair().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The second of them is begun when the first is complete.
    let has_table_file = || {
        let files = fs::read_dir(unfinished.join("store")).into_iter().flatten().flatten();
        files
            .filter(|file| file.path().extension().is_some_and(|extension| extension == "sst"))
            .count()
            > 1
    };
    while !has_table_file() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        unfinished.exists() && !folder.path().join("saved").exists(),
        "it was killed in its middle"
    );
    let done = run(&mut repair());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("resuming it"), "{}", done.stderr);
    assert!(!unfinished.exists());
    let saved = json(&run(in_folder(folder.path()).args(["check", "saved", "-o", "json"])));
    assert_eq!((&saved["ok"], saved["rows"].as_u64()), (&true.into(), Some(rows)), "{saved}");
    assert!(
        done.stderr.contains("rows were there from a repair that was interrupted"),
        "{}",
        done.stderr
    );
}

/// 48 MB that cannot be packed, in rows of 40 KB; how many.
fn put_large_rows(store: EmbeddedStore) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Bytes in which nothing repeats that packing would find.
    let mut state = 7_u64;
    let mut byte = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    const GROUPS: u64 = 12;
    for number in 0..GROUPS {
        let rows = (0..100).map(|row| {
            let bytes = EdmValue::Binary((0..40_000).map(|_| byte()).collect());
            replace(
                &format!("{number:03}-{row:03}"),
                properties([("B", bytes)]),
                Precondition::None,
            )
        });
        let group = group("p", rows.collect());
        runtime.block_on(store.commit(TableId::new(300), &group, now())).unwrap().unwrap();
    }
    store.close().unwrap();
    // The table gets a name, and with it a row.
    GROUPS * 100 + 2
}

fn json(done: &Done) -> serde_json::Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[test]
fn without_a_record_of_files_everything_is_read() {
    for (part, change) in [
        ("CURRENT", None),
        ("CURRENT", Some("nonsense")),
        ("MANIFEST", None),
        ("MANIFEST", Some("x")),
    ] {
        let home = Home::new(40);
        match change {
            None => fs::remove_file(home.file(part)).unwrap(),
            Some(text) => fs::write(home.file(part), text.repeat(30)).unwrap(),
        }
        let dry = home.repair(&["--dry-run"]);
        assert!(dry.stdout.contains("may come back"), "{part} {change:?}: {}", dry.stdout);
        assert_eq!(home.saved(), home.rows, "{part} {change:?}");
    }
}

#[test]
fn a_lost_marker_and_a_lost_footer() {
    let home = Home::new(200);
    fs::remove_file(home.data().join("TAVOLA")).unwrap();
    assert_eq!(home.saved(), home.rows);
    let home = Home::new(200);
    let file = home.file(".sst");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 20]).unwrap();
    assert_eq!(home.saved(), home.rows, "the rows are before the footer");
}

/// The row that names a table is lost, its rows are not.
#[test]
fn rows_without_a_table_get_one() {
    let home = Home::new(30);
    // The log has no catalogue: only the table file does, and it is gone.
    fs::remove_file(home.file(".sst")).unwrap();
    let dry = home.repair(&["--dry-run"]);
    assert!(
        dry.stdout.contains("become the table Recovered256 of devstoreaccount1"),
        "{}",
        dry.stdout
    );
    assert_eq!(home.repair(&["--into", "saved", "--yes"]).code, Some(0));
    let server = RunningServer::start(&home.folder.path().join("saved"));
    let rows = Client::connect(&server.table).unwrap().read_all("Recovered256");
    assert_eq!(rows, home.rows[30..]);
}

#[test]
fn what_is_refused() {
    let home = Home::new(10);
    let sound = home.repair(&["--into", "saved", "--yes"]);
    assert_eq!(
        (sound.code, home.folder.path().join("saved").exists()),
        (Some(0), false),
        "{sound:?}"
    );
    assert!(sound.stderr.contains("nothing is damaged"), "{}", sound.stderr);
    home.flip(".log", 300);
    let unasked = home.repair(&["--into", "saved"]);
    assert_eq!(
        (unasked.code, home.folder.path().join("saved").exists()),
        (Some(2), false),
        "{unasked:?}"
    );
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let occupied = home.repair(&["--into", "tavola-data", "--yes"]);
    assert_eq!(occupied.code, Some(2), "{occupied:?}");
    assert!(occupied.stderr.contains("is not empty"), "{}", occupied.stderr);
    assert_eq!(home.repair(&[]).code, Some(2), "where to?");
}

#[test]
fn the_examples_of_the_help_work() {
    let home = Home::new(10);
    home.flip(".log", 300);
    for line in examples(&["repair"]) {
        let line = line
            .replace("/var/lib/tavola-saved", "saved")
            .replace("/var/lib/tavola", "tavola-data");
        let done = in_shell(home.folder.path(), &line, |shell| shell);
        let expected = if line.contains("--into") && !line.contains("--yes") { 2 } else { 0 };
        assert_eq!(done.code, Some(expected), "{line}: {done:?}");
    }
}
