//! Short words for tests on data folders.
#![allow(dead_code, reason = "each test file uses some of them")]

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tavola_conformance::store_conformance::fixture::{
    TABLE, group, now, number, number_of, replace, scan_all,
};
use tavola_core::Precondition;
use tavola_embedded::{EmbeddedStore, Options};
use tavola_store::{Store, StoreError};
use tokio::runtime::Runtime;

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be started")
}

pub(crate) fn open(folder: &Path) -> EmbeddedStore {
    EmbeddedStore::open(folder, Options::default()).expect("the folder opens")
}

/// Writes rows with these numbers, one commit after another.
pub(crate) fn put_numbers(store: &EmbeddedStore, numbers: Range<i32>) {
    runtime().block_on(async {
        for value in numbers {
            let write = replace(&format!("{value:05}"), number(value), Precondition::None);
            let verdict = store.commit(TABLE, &group("p", vec![write]), now()).await;
            verdict.expect("the store commits").expect("nothing is refused");
        }
    });
}

pub(crate) fn read_numbers(store: &EmbeddedStore) -> Vec<i32> {
    try_read_numbers(store).expect("the store scans")
}

pub(crate) fn try_read_numbers(store: &EmbeddedStore) -> Result<Vec<i32>, StoreError> {
    Ok(runtime().block_on(store.scan(&scan_all()))?.rows.iter().map(number_of).collect())
}

/// The engine's files whose names contain `part`, in order.
pub(crate) fn data_files(folder: &Path, part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("store")).expect("the folder is there");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().contains(part)));
    files.sort();
    files
}

/// The engine's log with the acknowledged writes.
pub(crate) fn the_log(folder: &Path) -> PathBuf {
    let logs = data_files(folder, ".log");
    let has_data = |log: &PathBuf| fs::metadata(log).is_ok_and(|log| log.len() > 0);
    logs.into_iter().rfind(has_data).expect("there is a log with data")
}

/// Flips a bit; once more, and it is as it was.
pub(crate) fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).expect("the file is there");
    bytes[at] ^= 0x10;
    fs::write(file, bytes).expect("the file can be written");
}

/// Each file's content, as a hash.
pub(crate) fn folder_hashes(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut hashes = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            hashes.extend(folder_hashes(&path));
        } else {
            let mut hasher = DefaultHasher::new();
            fs::read(&path).expect("the file is there").hash(&mut hasher);
            hashes.insert(path, hasher.finish());
        }
    }
    hashes
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("there is room");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let target = to.join(path.file_name().expect("entries have names"));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).expect("there is room");
        }
    }
}

/// Adds an edit to the record of files of which some sectors never reached the disk.
pub(crate) fn tear_an_edit(folder: &Path) {
    let manifest = data_files(folder, "MANIFEST").pop().expect("the engine has one");
    let mut bytes = fs::read(&manifest).expect("the file is there");
    bytes.extend_from_slice(&[1, 2, 3, 4]);
    bytes.extend_from_slice(&1500_u16.to_le_bytes());
    bytes.push(1);
    for (length, byte) in [(300, 7), (1000, 0), (200, 7)] {
        bytes.resize(bytes.len() + length, byte);
    }
    fs::write(&manifest, bytes).expect("the file can be written");
}
