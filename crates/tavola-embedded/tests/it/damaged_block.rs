//! A damaged block of a table file, met while the store serves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{data_files, runtime, try_read_numbers};
use tavola_conformance::store_conformance::fixture::{TABLE, group, now, properties, replace};
use tavola_core::{EdmValue, Precondition};
use tavola_embedded::{EmbeddedStore, Options};
use tavola_store::{Store, StoreError};
use tempfile::TempDir;

const ROWS: i32 = 2000;

/// Small memtables, so that files are written and merged all the time.
fn open(folder: &Path) -> EmbeddedStore {
    EmbeddedStore::open(folder, Options { memtable_bytes: 64 * 1024, ..Options::default() })
        .unwrap()
}

/// Writes all rows anew, with bytes that do not compress.
fn write_all(store: &EmbeddedStore, round: u64) -> Result<(), StoreError> {
    let mut noise = fastrand_like(round);
    runtime().block_on(async {
        for row in (0..ROWS).step_by(50) {
            let write = |row: i32| {
                let bytes = (0..400).map(|_| noise()).collect();
                let values =
                    properties([("N", EdmValue::Int32(row)), ("B", EdmValue::Binary(bytes))]);
                replace(&format!("{row:05}"), values, Precondition::None)
            };
            let writes = (row..row + 50).map(write).collect();
            store.commit(TABLE, &group("p", writes), now()).await?.expect("nothing is refused");
        }
        Ok(())
    })
}

fn fastrand_like(seed: u64) -> impl FnMut() -> u8 {
    let mut state = seed;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    }
}

/// A folder with one bad block, and the file in which it is.
fn damaged_folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    for round in 0..3 {
        write_all(&store, round).unwrap();
    }
    store.close().unwrap();
    drop(store);
    let files = data_files(folder.path(), ".sst");
    let largest = files.into_iter().max_by_key(|file| fs::metadata(file).unwrap().len()).unwrap();
    let at = fs::metadata(&largest).unwrap().len() as usize / 3;
    crate::common::flip(&largest, at);
    (folder, largest)
}

#[track_caller]
fn says_what_to_do(text: &str, folder: &Path, file: &Path) {
    let folder = folder.display();
    for words in [
        format!("store/{} is damaged", file.file_name().unwrap().to_string_lossy()),
        format!("tavola check {folder}"),
        format!("tavola repair {folder}"),
    ] {
        assert!(text.contains(&words), "no «{words}» in: {text}");
    }
}

/// It once stopped all writes for good, and the advice was a restart, after which it stopped them
/// again.
#[test]
fn a_compaction_that_meets_it_stops_writes_only_until_the_next_start() {
    let (folder, file) = damaged_folder();
    let store = open(folder.path());
    let deadline = Instant::now() + Duration::from_secs(300);
    let reason = loop {
        let _stopped = write_all(&store, 9);
        match store.health() {
            Err(reason) if reason.contains("damaged") => break reason,
            _ => assert!(Instant::now() < deadline, "no compaction met the block"),
        }
    };
    says_what_to_do(&reason, folder.path(), &file);
    let refused = write_all(&store, 10).unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
    let before = store.warning().unwrap();
    drop(store);
    for round in 11..13 {
        let store = open(folder.path());
        assert_eq!(
            store.warning().as_ref(),
            Some(&before),
            "the advice is the same after a restart"
        );
        says_what_to_do(&before, folder.path(), &file);
        // Far more files than the engine lets pile up otherwise.
        for _ in 0..4 {
            write_all(&store, round).unwrap();
            assert_eq!(store.health(), Ok(()));
        }
        store.close().unwrap();
    }
}

#[test]
fn a_read_that_meets_it_keeps_compactions_away() {
    let (folder, file) = damaged_folder();
    let store = open(folder.path());
    let read = try_read_numbers(&store);
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    says_what_to_do(&store.warning().unwrap(), folder.path(), &file);
    // The engine may have been faster with a compaction; then only its next start takes writes.
    if store.health().is_ok() {
        for round in 0..6 {
            write_all(&store, round).unwrap();
            assert_eq!(store.health(), Ok(()), "writes go on");
        }
    }
}

/// With the sound file back in place the store is sound.
#[test]
fn a_file_that_is_sound_again_is_compacted_again() {
    let (folder, file) = damaged_folder();
    let store = open(folder.path());
    let _corrupt = try_read_numbers(&store);
    assert!(store.warning().is_some());
    drop(store);
    let at = fs::metadata(&file).unwrap().len() as usize / 3;
    crate::common::flip(&file, at);
    let store = open(folder.path());
    assert_eq!(store.warning(), None);
    assert!(!folder.path().join("DAMAGED").exists());
    assert_eq!(try_read_numbers(&store).unwrap().len(), ROWS as usize);
}
