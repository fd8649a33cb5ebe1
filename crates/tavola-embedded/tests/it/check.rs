//! `check` sees every changed byte that has a checksum, and changes none.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{
    copy_folder, data_files, flip, folder_hashes, open, put_numbers, read_numbers, runtime, the_log,
};
use tavola_conformance::store_conformance::fixture::{
    TABLE, delete, group, now, properties, replace,
};
use tavola_core::{EdmValue, Precondition, TableId};
use tavola_embedded::check::{Finding, Place, Progress, Report, Severity, Unit, check};
use tavola_embedded::{Compression, EmbeddedStore, OpenError, Options};
use tavola_store::Store;
use tempfile::TempDir;

struct Quiet;

impl Progress for Quiet {
    fn begin(&mut self, _: &str, _: u64, _: Unit) {}
    fn advance(&mut self, _: u64) {}
}

/// The report; the folder must be as it was.
fn report(folder: &Path) -> Report {
    let before = folder_hashes(folder);
    let report = check(folder, &mut Quiet, &mut |_, _| {}).expect("the folder can be looked at");
    assert_eq!(folder_hashes(folder), before, "a check changes nothing");
    report
}

fn damages(report: &Report) -> Vec<String> {
    let damages = report.findings.iter().filter(|finding| finding.severity == Severity::Damage);
    damages.map(|finding| format!("{}: {}", finding.place, finding.what)).collect()
}

/// Table files on two levels, a log with writes that are in none of them, rows that were
/// overwritten and deleted, and a dropped table large enough to be deleted as a range.
fn lived_in(folder: &Path) {
    lived_in_with(folder, &Options::default());
}

fn lived_in_with(folder: &Path, options: &Options) {
    let open = |folder| EmbeddedStore::open(folder, options.clone()).expect("the folder opens");
    for round in 0..5 {
        let store = open(folder);
        put_numbers(&store, round * 100..round * 100 + 150);
        if round == 2 {
            // It rewrites what is there into the lowest level; what comes after lies above.
            put_large_table(&store);
            runtime().block_on(store.purge(TableId::new(900))).unwrap();
        }
        store.close().unwrap();
    }
    let store = open(folder);
    runtime().block_on(async {
        for row in 0..20 {
            let delete = delete(&format!("{:05}", row * 7), Precondition::None);
            store.commit(TABLE, &group("p", vec![delete]), now()).await.unwrap().unwrap();
        }
    });
    put_numbers(&store, 600..620);
}

fn put_large_table(store: &EmbeddedStore) {
    runtime().block_on(async {
        for batch in 0..101 {
            let row = |row| {
                let bytes = EdmValue::Binary(vec![batch as u8 ^ row as u8; 40]);
                replace(
                    &format!("{batch:03}-{row:03}"),
                    properties([("B", bytes)]),
                    Precondition::None,
                )
            };
            let rows = (0..100).map(row).collect();
            store.commit(TableId::new(900), &group("p", rows), now()).await.unwrap().unwrap();
        }
    });
}

/// The frames of zstd begin with these bytes.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[test]
fn a_sound_folder_in_zstd() {
    let folder = TempDir::new().unwrap();
    let options = Options { compression: Compression::Zstd, ..Options::default() };
    lived_in_with(folder.path(), &options);
    let is_zstd =
        |file: &PathBuf| fs::read(file).unwrap().windows(4).any(|bytes| bytes == ZSTD_MAGIC);
    assert!(data_files(folder.path(), ".sst").iter().any(is_zstd), "files are packed with it");
    let found = report(folder.path());
    assert_eq!(damages(&found), [""; 0]);
    assert_eq!(found.rows_by_table.get(&TABLE), Some(&(550 - 20 + 20)));
    let store = open(folder.path());
    assert_eq!(read_numbers(&store).len(), 550, "whatever new files are packed with");
}

#[test]
fn a_sound_folder() {
    let folder = TempDir::new().unwrap();
    lived_in(folder.path());
    let found = report(folder.path());
    assert_eq!(damages(&found), [""; 0]);
    assert_eq!(found.rows_by_table.get(&TABLE), Some(&(550 - 20 + 20)));
    assert_eq!(
        found.rows_by_table.len(),
        1,
        "the dropped table is gone: {:?}",
        found.rows_by_table
    );
    let (counts, tables) = (found.counts, data_files(folder.path(), ".sst"));
    assert!(tables.len() > 1, "{tables:?}");
    assert!(counts.blocks > tables.len() as u64 * 5 && counts.log_records > 40, "{counts:?}");
}

#[test]
fn an_empty_store_is_sound() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()));
    assert_eq!(damages(&report(folder.path())), [""; 0]);
}

/// Every byte of a table file is under a checksum: blocks of rows, of the index, of the filter,
/// properties, footer.
#[test]
fn every_byte_of_a_small_table_file() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    put_numbers(&store, 0..40);
    store.close().unwrap();
    drop(store);
    let file = data_files(folder.path(), ".sst").pop().unwrap();
    let bytes = fs::metadata(&file).unwrap().len() as usize;
    flips_are_named(folder.path(), &file, 0..bytes);
}

#[test]
fn bytes_of_larger_table_files() {
    let folder = TempDir::new().unwrap();
    lived_in(folder.path());
    for file in data_files(folder.path(), ".sst") {
        let bytes = fs::metadata(&file).unwrap().len() as usize;
        flips_are_named(folder.path(), &file, (0..bytes).step_by((bytes / 40).max(1)));
    }
}

fn flips_are_named(folder: &Path, file: &Path, places: impl Iterator<Item = usize>) {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    for at in places {
        flip(file, at);
        let found = report(folder);
        let is_named = |finding: &Finding| {
            finding.severity == Severity::Damage && is_in(&finding.place, &name, at)
        };
        assert!(found.findings.iter().any(is_named), "byte {at} of {name}: {:?}", found.findings);
        flip(file, at);
    }
    assert_eq!(damages(&report(folder)), [""; 0]);
}

fn is_in(place: &Place, name: &str, at: usize) -> bool {
    matches!(place, Place::File { name: found, offset } if found.ends_with(name) && offset.is_none_or(|offset| offset <= at as u64))
}

#[test]
fn bytes_of_logs_and_of_the_record_of_files() {
    let folder = TempDir::new().unwrap();
    lived_in(folder.path());
    let manifest = data_files(folder.path(), "MANIFEST").pop().unwrap();
    for file in [the_log(folder.path()), manifest] {
        let bytes = fs::metadata(&file).unwrap().len() as usize;
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for at in (0..bytes - 200).step_by((bytes / 60).max(1)) {
            flip(&file, at);
            let found = damages(&report(folder.path())).join("\n");
            assert!(
                found.contains(&name) && found.contains("at byte"),
                "byte {at} of {name}: {found}"
            );
            flip(&file, at);
        }
    }
    assert_eq!(damages(&report(folder.path())), [""; 0]);
}

#[test]
fn a_lost_block_says_how_many_rows_and_between_which_keys() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    put_numbers(&store, 0..3000);
    store.close().unwrap();
    drop(store);
    let file = data_files(folder.path(), ".sst").pop().unwrap();
    flip(&file, 10_000);
    let found = report(folder.path());
    let losses: Vec<_> =
        found.findings.iter().filter_map(|finding| finding.loss.as_ref()).collect();
    let [loss] = losses[..] else { panic!("{:?}", found.findings) };
    let rows = loss.rows.unwrap();
    assert!(
        rows > 10 && found.counts.rows == 3000 - rows,
        "{rows} of 3000 are lost, {} are there",
        found.counts.rows
    );
    assert!(loss.keys.contains("keys above (table"), "{loss:?}");
}

#[test]
fn missing_and_foreign_files() {
    let sound = TempDir::new().unwrap();
    lived_in(sound.path());
    let with = |change: &dyn Fn(&Path)| {
        let copy = TempDir::new().unwrap();
        copy_folder(sound.path(), copy.path());
        change(copy.path());
        damages(&report(copy.path())).join("\n")
    };
    let table = |folder: &Path| data_files(folder, ".sst").pop().unwrap();
    assert!(
        with(&|folder| fs::remove_file(table(folder)).unwrap()).contains("the file is missing")
    );
    assert!(
        with(&|folder| fs::write(table(folder), [0; 4000]).unwrap())
            .contains("nothing in it can be read")
    );
    assert!(
        with(&|folder| fs::remove_file(folder.join("store/CURRENT")).unwrap())
            .contains("CURRENT: it is missing")
    );
    assert!(
        with(&|folder| fs::write(folder.join("store/CURRENT"), "x").unwrap())
            .contains("does not name")
    );
    assert!(
        with(&|folder| fs::write(folder.join("TAVOLA"), [0xff, 0]).unwrap()).contains("TAVOLA")
    );
    assert!(
        with(&|folder| fs::remove_file(folder.join("TAVOLA")).unwrap())
            .contains("TAVOLA: it is missing")
    );
    let swapped = with(&|folder| {
        let tables = data_files(folder, ".sst");
        fs::copy(&tables[0], &tables[1]).unwrap();
    });
    assert!(swapped.contains("were recorded"), "{swapped}");
}

/// Options are for people; the engine gets ours, whatever is there.
#[test]
fn garbage_in_the_file_of_options_is_a_note() {
    let folder = TempDir::new().unwrap();
    lived_in(folder.path());
    for file in data_files(folder.path(), "OPTIONS") {
        fs::write(file, [0xfe; 100]).unwrap();
    }
    let found = report(folder.path());
    assert_eq!(damages(&found), [""; 0]);
    assert!(
        found.findings.iter().any(|finding| finding.what.contains("not the text")),
        "{:?}",
        found.findings
    );
}

#[test]
fn a_torn_tail_is_a_note() {
    let folder = TempDir::new().unwrap();
    lived_in(folder.path());
    let log = the_log(folder.path());
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() - 10]).unwrap();
    let found = damages(&report(folder.path())).join("\n");
    assert!(found.contains("SYNCED says that writes up to"), "the write was acknowledged: {found}");
    fs::remove_file(folder.path().join("SYNCED")).unwrap();
    let found = report(folder.path());
    assert_eq!(damages(&found), [""; 0]);
    assert!(
        found.findings.iter().any(|finding| finding.what.contains("torn")),
        "{:?}",
        found.findings
    );
    assert_eq!(found.rows_by_table.get(&TABLE), Some(&549));
}

/// With a damaged line in `SYNCED`, the other one may be older by a group of writes: it is unknown
/// how many are lost.
#[test]
fn a_lost_end_is_not_counted_by_half_of_synced() {
    let folder = TempDir::new().unwrap();
    lived_in(folder.path());
    let log = the_log(folder.path());
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..0]).unwrap();
    let whole = report(folder.path());
    assert!(whole.losses.rows_max > 0 && whole.losses.unknown == 0, "{:?}", whole.losses);
    assert!(!whole.log_end_unknown);
    let synced = folder.path().join("SYNCED");
    let mut lines = fs::read(&synced).unwrap();
    for at in [20, lines.len() / 2 + 20] {
        lines[at] ^= 1;
        fs::write(&synced, &lines).unwrap();
        lines[at] ^= 1;
        let half = report(folder.path());
        assert!(half.losses.unknown > 0 && half.log_end_unknown, "{:?}", half.losses);
    }
}

#[test]
fn who_cannot_be_checked() {
    let folder = TempDir::new().unwrap();
    let refusal = |folder: &Path| {
        check(folder, &mut Quiet, &mut |_, _| {}).expect_err("it cannot be checked")
    };
    assert!(matches!(refusal(folder.path()), OpenError::Missing { .. }));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made there");
    let store = EmbeddedStore::open(folder.path(), Options::default()).unwrap();
    assert!(matches!(refusal(folder.path()), OpenError::Locked { .. }));
    drop(store);
    fs::write(folder.path().join("TAVOLA"), "tavola-format: 2\n").unwrap();
    assert!(matches!(refusal(folder.path()), OpenError::NewerFormat { .. }));
}

/// What the next start cuts off is no damage, although the engine says so before.
#[test]
fn a_torn_edit_of_the_record_of_files_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    crate::common::put_numbers(&crate::common::open(folder.path()), 0..10);
    crate::common::tear_an_edit(folder.path());
    let report = check(folder.path(), &mut Quiet, &mut |_, _| {}).unwrap();
    assert!(!report.is_damaged(), "{report:?}");
    assert!(
        report.findings.iter().any(|finding| finding.what.contains("torn by a crash")),
        "{report:?}"
    );
}
