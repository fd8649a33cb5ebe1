//! What survives, what is refused, and that a refused folder is left as it was.

use std::fs;
use std::path::Path;

use crate::common::{
    data_files, flip, folder_hashes, open, put_numbers, read_numbers, runtime, the_log,
};
use tavola_conformance::store_conformance::fixture::{
    TABLE, at, delete, group, insert, key, number, partition, properties, replace, scan_all,
    written_at,
};
use tavola_core::{EdmValue, Precondition};
use tavola_embedded::{EmbeddedStore, OpenError, Options};
use tavola_store::{Import, Row, Store, StoreError};
use tempfile::TempDir;

fn refusal(folder: &Path) -> OpenError {
    let before = folder_hashes(folder);
    let error = EmbeddedStore::open(folder, Options::default()).expect_err("the folder is refused");
    assert_eq!(folder_hashes(folder), before, "a refused folder is left as it was: {error}");
    assert!(
        error.to_string().contains(&*folder.to_string_lossy()),
        "the message names the folder: {error}"
    );
    error
}

#[test]
fn everything_is_there_after_a_clean_close_and_after_none() {
    let folder = TempDir::new().unwrap();
    for (round, clean) in [true, false, false, true, true].into_iter().enumerate() {
        let store = open(folder.path());
        assert_eq!(read_numbers(&store), (0..round as i32 * 100).collect::<Vec<i32>>());
        put_numbers(&store, round as i32 * 100..(round as i32 + 1) * 100);
        if clean {
            store.close().unwrap();
        }
    }
}

#[test]
fn versions_go_on_after_a_restart_whatever_the_clock_says() {
    let folder = TempDir::new().unwrap();
    let write = |store: &EmbeddedStore, operation, ticks| {
        let verdict = runtime()
            .block_on(store.commit(TABLE, &group("p", vec![operation]), at(ticks)))
            .unwrap();
        verdict.unwrap()
    };
    let store = open(folder.path());
    let first = write(&store, insert("r", number(1)), 1_000_000);
    write(&store, delete("r", Precondition::None), 1_000_001);
    drop(store);
    // The row is gone, and the clock went back.
    let again = write(&open(folder.path()), insert("r", number(1)), 5);
    assert!(written_at(&Ok(again)) > written_at(&Ok(first)));
}

/// Rows that were taken over stay, and versions go on above theirs, also if the process ends at
/// once.
#[test]
fn rows_of_another_store_are_durable_with_their_versions() {
    let folder = TempDir::new().unwrap();
    let imported = Row::encode(&partition("p"), &key("", "r").row_key, &number(1), at(5_000_000));
    let store = open(folder.path());
    runtime().block_on(store.import(TABLE, std::slice::from_ref(&imported))).unwrap();
    drop(store);
    let store = open(folder.path());
    let rows = runtime().block_on(store.scan(&scan_all())).unwrap().rows;
    assert_eq!(rows, [imported]);
    let next = runtime()
        .block_on(store.commit(TABLE, &group("q", vec![insert("r", number(1))]), at(5)))
        .unwrap();
    assert!(written_at(&next) > at(5_000_000));
}

#[test]
fn a_log_torn_anywhere_opens_with_all_but_the_last_write() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    put_numbers(&store, 0..19);
    let mark = fs::read(folder.path().join("SYNCED")).unwrap();
    put_numbers(&store, 19..20);
    drop(store);
    let whole = fs::read(the_log(folder.path())).unwrap();
    for lost in [1, 7, 20, 60] {
        let copy = TempDir::new().unwrap();
        crate::common::copy_folder(folder.path(), copy.path());
        fs::write(the_log(copy.path()), &whole[..whole.len() - lost]).unwrap();
        assert!(
            refusal(copy.path()).to_string().contains("SYNCED"),
            "it was acknowledged, so no crash tore it"
        );
        // The crash came before the last write was acknowledged.
        fs::write(copy.path().join("SYNCED"), &mark).unwrap();
        let store = open(copy.path());
        assert_eq!(read_numbers(&store), (0..19).collect::<Vec<i32>>(), "{lost} bytes are lost");
        put_numbers(&store, 19..25);
        drop(store);
        assert_eq!(
            read_numbers(&open(copy.path())),
            (0..25).collect::<Vec<i32>>(),
            "and goes on from there"
        );
    }
}

#[test]
fn a_tail_of_zeros_opens_with_all_but_the_last_write() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    put_numbers(&store, 0..20);
    let before = fs::metadata(the_log(folder.path())).unwrap().len() as usize;
    let mark = fs::read(folder.path().join("SYNCED")).unwrap();
    let large =
        properties([("N", EdmValue::Int32(20)), ("Bytes", EdmValue::Binary(vec![7; 50_000]))]);
    let last = group("p", vec![replace("00020", large, Precondition::None)]);
    runtime().block_on(store.commit(TABLE, &last, at(1))).unwrap().unwrap();
    drop(store);
    // The sectors of the last write never reached the disk, but the length of the file did.
    let mut log = fs::read(the_log(folder.path())).unwrap();
    let sector = (before + 4096).next_multiple_of(512);
    log[sector..sector + 1024].fill(0);
    fs::write(the_log(folder.path()), log).unwrap();
    fs::write(folder.path().join("SYNCED"), mark).unwrap();
    assert_eq!(read_numbers(&open(folder.path())), (0..20).collect::<Vec<i32>>());
}

#[test]
fn a_flipped_byte_before_the_tail_is_refused() {
    let folder = TempDir::new().unwrap();
    put_numbers(&open(folder.path()), 0..20);
    let log = the_log(folder.path());
    let bytes = fs::metadata(&log).unwrap().len() as usize;
    // The first header byte by byte, and places all over; the engine alone drops everything behind
    // some of these.
    for at in (0..7).chain((7..bytes - 150).step_by(41)) {
        flip(&log, at);
        let error = refusal(folder.path());
        assert!(matches!(error, OpenError::Damaged { .. }), "byte {at}: {error}");
        flip(&log, at);
    }
    assert_eq!(read_numbers(&open(folder.path())).len(), 20, "as it was, it opens");
}

#[test]
fn a_flipped_byte_in_the_record_of_files_is_refused() {
    let folder = TempDir::new().unwrap();
    for round in 0..3 {
        let store = open(folder.path());
        put_numbers(&store, round * 10..round * 10 + 10);
        store.close().unwrap();
    }
    let manifest = data_files(folder.path(), "MANIFEST").pop().unwrap();
    let bytes = fs::metadata(&manifest).unwrap().len() as usize;
    for at in (0..bytes).step_by(5) {
        flip(&manifest, at);
        let error = refusal(folder.path());
        assert!(matches!(error, OpenError::Damaged { .. }), "byte {at}: {error}");
        flip(&manifest, at);
    }
    assert_eq!(read_numbers(&open(folder.path())).len(), 30);
}

/// A flipped byte of a table file is an error at the latest when its rows are read; never a wrong
/// or a missing row.
#[test]
fn a_flipped_byte_in_a_table_file_is_never_a_wrong_answer() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    put_numbers(&store, 0..3000);
    store.close().unwrap();
    drop(store);
    let file = data_files(folder.path(), ".sst").pop().unwrap();
    let bytes = fs::metadata(&file).unwrap().len() as usize;
    let mut refused = 0;
    for at in (0..bytes).step_by(bytes / 60) {
        flip(&file, at);
        match EmbeddedStore::open(folder.path(), Options::default()) {
            Err(error) => {
                assert!(
                    matches!(error, OpenError::Damaged { .. } | OpenError::Engine { .. }),
                    "byte {at}: {error}"
                );
                refused += 1;
            }
            Ok(store) => match crate::common::try_read_numbers(&store) {
                Ok(numbers) => assert_eq!(numbers, (0..3000).collect::<Vec<i32>>(), "byte {at}"),
                Err(error) => {
                    assert!(matches!(error, StoreError::Corrupt(_)), "byte {at}: {error}");
                    refused += 1;
                }
            },
        }
        flip(&file, at);
    }
    assert!(
        refused > 50,
        "{refused} of 60 flips were noticed; the others hit bytes that no read needs"
    );
}

#[test]
fn missing_files_are_noticed() {
    let missing = |part: &str, message: &str| {
        let folder = TempDir::new().unwrap();
        for round in 0..2 {
            let store = open(folder.path());
            put_numbers(&store, round * 10..round * 10 + 10);
            store.close().unwrap();
        }
        for file in data_files(folder.path(), part) {
            fs::remove_file(file).unwrap();
        }
        let error = refusal(folder.path());
        assert!(error.to_string().contains(message), "{error}");
    };
    missing("CURRENT", "CURRENT is missing");
    missing("MANIFEST", "CURRENT names");
    missing(".log", "no log");
}

#[test]
fn a_second_opener_is_refused() {
    let folder = TempDir::new().unwrap();
    let first = open(folder.path());
    put_numbers(&first, 0..5);
    let error =
        EmbeddedStore::open(folder.path(), Options::default()).expect_err("the folder is in use");
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    put_numbers(&first, 5..10);
    drop(first);
    assert_eq!(read_numbers(&open(folder.path())).len(), 10);
}

#[test]
fn a_newer_format_is_refused() {
    let folder = TempDir::new().unwrap();
    put_numbers(&open(folder.path()), 0..5);
    let marker = folder.path().join("TAVOLA");
    assert_eq!(fs::read_to_string(&marker).unwrap(), "tavola-format: 1\n");
    fs::write(&marker, "tavola-format: 2\nand what else that version wants to say\n").unwrap();
    let error = refusal(folder.path());
    assert!(matches!(error, OpenError::NewerFormat { found: 2, known: 1, .. }), "{error}");
    fs::write(&marker, "something else").unwrap();
    assert!(matches!(refusal(folder.path()), OpenError::Damaged { .. }));
}

#[test]
fn somebody_elses_folder_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("thesis.docx"), "years of work").unwrap();
    let error = refusal(folder.path());
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("thesis.docx"), "{error}");
}

#[test]
fn a_fresh_file_system_is_an_empty_folder() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("lost+found")).unwrap();
    fs::write(folder.path().join("TAVOLA.new"), "tavo").unwrap();
    put_numbers(&open(folder.path()), 0..5);
    assert_eq!(read_numbers(&open(folder.path())).len(), 5);
}

/// A log that was cut between two records once opened, without a word about the acknowledged writes
/// that were behind the cut: to the engine and to our own reader of logs it looked like one that
/// never was longer.
#[test]
fn a_log_cut_between_records_is_noticed() {
    let folder = TempDir::new().unwrap();
    put_numbers(&open(folder.path()), 0..10);
    let ten = fs::read(the_log(folder.path())).unwrap().len();
    let copy = TempDir::new().unwrap();
    crate::common::copy_folder(folder.path(), copy.path());
    put_numbers(&open(copy.path()), 10..20);
    for bytes in [0, ten] {
        let log = the_log(copy.path());
        let whole = fs::read(&log).unwrap();
        // The copy recovered the first ten into a table file; its log begins with the eleventh.
        let cut = if bytes == 0 { 0 } else { whole.len() / 10 * 4 };
        fs::write(&log, &whole[..record_end(&whole, cut)]).unwrap();
        let error = refusal(copy.path());
        assert!(error.to_string().contains("SYNCED"), "{error}");
        fs::write(&log, whole).unwrap();
    }
    assert_eq!(read_numbers(&open(copy.path())).len(), 20, "as it was, it opens");
}

/// The first end of a record at `from` or behind it. All records of these logs lie in one block.
fn record_end(log: &[u8], from: usize) -> usize {
    let mut at = 0;
    while at < from {
        at += 7 + usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]]));
    }
    at
}

/// The record of files lost its last edit, in which a table file was added; the log that the file
/// was made from is gone.
#[test]
fn a_record_of_files_cut_between_records_is_noticed() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    put_numbers(&store, 0..10);
    store.close().unwrap();
    drop(store);
    let manifest = data_files(folder.path(), "MANIFEST").pop().unwrap();
    let whole = fs::read(&manifest).unwrap();
    let (mut refused, mut at) = (0, 0);
    while at < whole.len() {
        let copy = TempDir::new().unwrap();
        crate::common::copy_folder(folder.path(), copy.path());
        fs::write(copy.path().join("store").join(manifest.file_name().unwrap()), &whole[..at])
            .unwrap();
        match EmbeddedStore::open(copy.path(), Options::default()) {
            Err(error) => {
                assert!(matches!(error, OpenError::Damaged { .. }), "cut at {at}: {error}");
                refused += 1;
            }
            // The last edits may say nothing about table files.
            Ok(store) => {
                assert_eq!(read_numbers(&store), (0..10).collect::<Vec<i32>>(), "cut at {at}")
            }
        }
        at += 7 + usize::from(u16::from_le_bytes([whole[at + 4], whole[at + 5]]));
    }
    assert!(refused > 2, "{refused} cuts were refused");
}

/// Folders of versions that did not write the file open, and get it.
#[test]
fn a_folder_without_the_mark_opens() {
    let folder = TempDir::new().unwrap();
    put_numbers(&open(folder.path()), 0..10);
    fs::remove_file(folder.path().join("SYNCED")).unwrap();
    let store = open(folder.path());
    assert_eq!(read_numbers(&store).len(), 10);
    put_numbers(&store, 10..12);
    drop(store);
    assert!(folder.path().join("SYNCED").exists());
    assert_eq!(read_numbers(&open(folder.path())).len(), 12);
    // One bad line leaves the other.
    flip(&folder.path().join("SYNCED"), 20);
    assert_eq!(read_numbers(&open(folder.path())).len(), 12);
    let both = fs::read(folder.path().join("SYNCED")).unwrap().len() / 2 + 20;
    flip(&folder.path().join("SYNCED"), 20);
    flip(&folder.path().join("SYNCED"), both);
    assert!(refusal(folder.path()).to_string().contains("SYNCED"));
}

/// A folder was refused because a write seemed to be missing: the one before it began so near to
/// the end of a block of the log that its sequence number lay in the next block.
#[test]
fn a_write_may_begin_at_the_end_of_a_block() {
    const BLOCK_BYTES: usize = 32 * 1024;
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    // In a table file, so that the record of files knows a sequence number.
    put_numbers(&store, 0..1);
    store.close().unwrap();
    drop(store);
    let store = open(folder.path());
    let mut rows = 0;
    let mut put = |characters: usize| {
        let text = properties([
            ("Text", EdmValue::String("x".repeat(characters))),
            ("N", EdmValue::Int32(rows)),
        ]);
        let write = replace(&format!("{rows:05}"), text, Precondition::None);
        runtime().block_on(store.commit(TABLE, &group("p", vec![write]), at(1))).unwrap().unwrap();
        rows += 1;
        fs::metadata(the_log(folder.path())).unwrap().len() as usize
    };
    // What a write takes beside its text, but for a byte or two in the lengths of long ones.
    let before = put(1000);
    let overhead = put(1000) - before - 1000;
    let mut split = Vec::new();
    for left in 4..=30 {
        let mut end = put(10);
        while BLOCK_BYTES - end % BLOCK_BYTES < 1000 + overhead + left {
            end = put(500);
        }
        let characters = BLOCK_BYTES - end % BLOCK_BYTES - overhead - left;
        end = put(characters);
        put(3000);
        // A header of 7 bytes, and less than the 12 of sequence number and count.
        split.extend(Some(BLOCK_BYTES - end % BLOCK_BYTES).filter(|left| (7..19).contains(left)));
    }
    assert!(split.len() >= 10, "{split:?}");
    drop(store);
    assert_eq!(read_numbers(&open(folder.path())), (0..rows).collect::<Vec<i32>>());
}

/// A loss of power left the record of files with an edit of which one sector was never written.
/// Nothing relied on it, and we said so; but the engine took it for damage, and the server did not
/// start.
#[test]
fn an_edit_of_the_record_of_files_torn_in_its_middle_opens() {
    let folder = TempDir::new().unwrap();
    put_numbers(&open(folder.path()), 0..10);
    crate::common::tear_an_edit(folder.path());
    assert_eq!(read_numbers(&open(folder.path())), (0..10).collect::<Vec<i32>>());
}

/// Found by changed bits, seed 541: a start on such a log never ended.
#[test]
fn garbage_behind_the_last_record_never_hangs() {
    for kind in [0, 1, 4, 5, 6, 8, 9, 10, 11, 130, 131, 200] {
        let folder = TempDir::new().unwrap();
        put_numbers(&open(folder.path()), 0..20);
        let log = the_log(folder.path());
        let mut bytes = fs::read(&log).unwrap();
        bytes.extend_from_slice(&[1, 2, 3, 4, 0xff, 0x7f, kind, 7, 7, 7, 9, 9, 9, 9]);
        fs::write(&log, bytes).unwrap();
        match EmbeddedStore::open(folder.path(), Options::default()) {
            Ok(store) => assert_eq!(read_numbers(&store).len(), 20, "kind {kind}"),
            Err(error) => {
                assert!(matches!(error, OpenError::Damaged { .. }), "kind {kind}: {error}")
            }
        }
    }
}
