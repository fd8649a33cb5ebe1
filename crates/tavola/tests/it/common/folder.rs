//! Data folders to damage, and what is in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::RunningServer;
use super::client::{Client, insert, name};
use tavola_core::TableRequest;

/// The table of a data folder that was made here.
pub(crate) const TABLE: &str = "ledger";

/// Everything in a folder: names, and the bytes of files.
pub(crate) fn content(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.extend(content(&path));
            found.insert(path, None);
        } else {
            let bytes = fs::read(&path).expect("the file is there");
            found.insert(path, Some(bytes));
        }
    }
    found
}

/// The names that differ between two states of a folder, for people.
pub(crate) fn differences(
    before: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    after: &BTreeMap<PathBuf, Option<Vec<u8>>>,
) -> Vec<PathBuf> {
    let names = before.keys().chain(after.keys());
    let mut differ: Vec<PathBuf> =
        names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    differ.sort();
    differ.dedup();
    differ
}

/// A data folder with rows in table files, and with rows in the log of a server that was killed.
pub(crate) fn make(folder: &Path) {
    for (rows, is_killed) in [(0..300, false), (300..360, true)] {
        // Also on small disks.
        let server = RunningServer::start_with(folder, |command| {
            command.env("TAVOLA_STORE__RESERVE_MB", "1")
        });
        let mut client = Client::connect(&server.table).expect("a connection");
        client.create_table(TABLE);
        for row in rows {
            put(&mut client, row);
        }
        if is_killed {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
    }
}

/// Adds a row.
pub(crate) fn put(client: &mut Client, row: i32) {
    let (partition_key, operation) = insert(&format!("p/{row:05}"), row);
    let answer =
        client.ask(&TableRequest::Write(name(TABLE), partition_key, operation)).expect("an answer");
    assert!(answer.is_ok(), "row {row}: {answer:?}");
}

/// A copy of a folder with everything in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp can be run");
    assert!(copied.success());
}

/// The engine's files whose names have this end, in order.
pub(crate) fn engine_files(folder: &Path, part: &str) -> Vec<PathBuf> {
    let files = content(&folder.join("store")).into_keys();
    files
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part)))
        .collect()
}
