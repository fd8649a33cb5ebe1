//! What `check` says about a damaged folder is true: rows that are not there are counted, whatever
//! the damage hid.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{data_files, put_numbers, runtime};
use tavola_conformance::store_conformance::fixture::{TABLE, delete, group, now, number, replace};
use tavola_core::{EdmRef, EntityView, Precondition};
use tavola_embedded::check::{Progress, Report, Unit, check};
use tavola_embedded::repair::RepairSpace;
use tavola_embedded::{Compression, EmbeddedStore, Options};
use tavola_store::Store;
use tempfile::TempDir;

struct Quiet;

impl Progress for Quiet {
    fn begin(&mut self, _: &str, _: u64, _: Unit) {}
    fn advance(&mut self, _: u64) {}
}

type Rows = BTreeMap<String, i32>;

/// The rows of the one table that the tests write to, and the report.
fn read(folder: &Path) -> (Rows, Report) {
    let mut rows = Rows::new();
    let report = check(folder, &mut Quiet, &mut |table, row| {
        if table == TABLE {
            let Some(EdmRef::Int32(value)) = row.property("N") else { panic!("{row:?}") };
            rows.insert(row.row_key().to_string(), value);
        }
    });
    (rows, report.expect("the folder can be looked at"))
}

/// Rows that are not as they were.
fn deviation(expected: &Rows, found: &Rows) -> u64 {
    let missing = expected.keys().filter(|key| !found.contains_key(*key)).count();
    let other = found.iter().filter(|(key, value)| expected.get(*key) != Some(*value)).count();
    (missing + other) as u64
}

const ROWS: i32 = 1500;

/// One table file with all rows, packed with both compressions in turn.
fn folders() -> [(TempDir, Rows); 2] {
    [Compression::Lz4, Compression::Zstd].map(|compression| {
        let folder = TempDir::new().unwrap();
        let options = Options { compression, ..Options::default() };
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        put_rows(&store, 0..ROWS);
        store.close().unwrap();
        drop(store);
        let (rows, report) = read(folder.path());
        assert!(!report.is_damaged() && rows.len() == ROWS as usize, "{:?}", report.findings);
        (folder, rows)
    })
}

/// Many rows with one sync.
fn put_rows(store: &EmbeddedStore, numbers: std::ops::Range<i32>) {
    let numbers: Vec<i32> = numbers.collect();
    runtime().block_on(async {
        for numbers in numbers.chunks(100) {
            let write =
                |value: &i32| replace(&format!("{value:05}"), number(*value), Precondition::None);
            let writes = numbers.iter().map(write).collect();
            store.commit(TABLE, &group("p", writes), now()).await.unwrap().unwrap();
        }
    });
}

/// What is said to be lost at most is no less than what is lost, and not absurd.
fn is_honest(folder: &Path, expected: &Rows, case: &str) -> (Rows, u64) {
    let (found, report) = read(folder);
    let lost = deviation(expected, &found);
    let said = report.rows_lost_max().unwrap_or_else(|| panic!("{case}: {:?}", report.findings));
    assert!(
        lost <= said,
        "{case}: {lost} rows are lost, and it says at most {said}: {:?}",
        report.findings
    );
    assert!(said <= 3 * ROWS as u64, "{case}: {said} is no help: {:?}", report.findings);
    (found, lost)
}

fn the_table_file(folder: &Path) -> PathBuf {
    let largest = |file: &PathBuf| fs::metadata(file).unwrap().len();
    data_files(folder, ".sst").into_iter().max_by_key(largest).unwrap()
}

/// The story: 2 MB cut off the end of a file were "no row is lost", with 101 missing, 1,338 older
/// and 400 deleted ones back.
#[test]
fn the_end_of_a_table_file_is_cut_zeroed_or_overwritten() {
    for (folder, expected) in folders() {
        let file = the_table_file(folder.path());
        let sound = fs::read(&file).unwrap();
        let mut lost_before = 0;
        for tail in [1, 54, 400, 1500, sound.len() / 4, sound.len() / 2, sound.len() - 6000] {
            let at = sound.len() - tail;
            let mut bytes = sound.clone();
            bytes[at..].fill(0);
            let zeroed = bytes.clone();
            bytes[at..].fill(0xa7);
            for (how, bytes) in
                [("cut", &sound[..at]), ("zeroed", &zeroed[..]), ("overwritten", &bytes[..])]
            {
                fs::write(&file, bytes).unwrap();
                let (_, lost) =
                    is_honest(folder.path(), &expected, &format!("{how}, the last {tail} bytes"));
                assert!(lost >= lost_before, "{how} {tail}");
                lost_before = lost;
            }
        }
        assert!(lost_before > 0, "the last of these hit rows");
    }
}

/// The story: a flipped bit of the footer and one of a block of rows dropped everything behind that
/// block.
#[test]
fn a_bit_of_what_leads_to_rows_and_a_bit_of_rows() {
    for (folder, expected) in folders() {
        let file = the_table_file(folder.path());
        let sound = fs::read(&file).unwrap();
        // The footer, the list of blocks, the properties, the top of the index, the filter.
        for behind in [1, 44, 60, 200, 700, 1400] {
            for at in [0, sound.len() / 3] {
                let mut bytes = sound.clone();
                bytes[sound.len() - behind] ^= 0x10;
                bytes[at] ^= 0x10;
                fs::write(&file, bytes).unwrap();
                let case = format!("bytes {at} and {behind} from the end");
                let (found, lost) = is_honest(folder.path(), &expected, &case);
                // One block is lost, and what is behind it is not.
                assert!(lost <= ROWS as u64 / 2, "{case}: {lost}");
                let (last, _) = expected.last_key_value().unwrap();
                assert!(found.contains_key(last), "{case}: rows behind the block are there");
            }
        }
    }
}

/// The story: one flipped bit of an index lost a whole file that was packed with zstd.
#[test]
fn without_what_leads_to_them_all_rows_are_found() {
    for (folder, expected) in folders() {
        let file = the_table_file(folder.path());
        let sound = fs::read(&file).unwrap();
        for behind in [1, 60, 300, 1000, 1500, 2000] {
            let mut bytes = sound.clone();
            bytes[sound.len() - behind] ^= 2;
            fs::write(&file, bytes).unwrap();
            let (found, report) = read(folder.path());
            assert!(report.is_damaged(), "{behind}");
            assert_eq!(
                (deviation(&expected, &found), report.rows_lost_max()),
                (0, Some(0)),
                "{behind} from the end"
            );
        }
    }
}

/// The story: a record of files that lost its last bytes made files look like garbage that held
/// most of the rows.
#[test]
fn a_record_of_files_that_lost_its_end_hides_no_file() {
    let folder = TempDir::new().unwrap();
    // The smallest memtables: rows are flushed and merged all the time.
    let options = Options { memtable_bytes: 64 * 1024, ..Options::default() };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    for round in 0..15 {
        put_rows(&store, round * 100..round * 100 + 600);
    }
    drop(store);
    let (expected, report) = read(folder.path());
    assert!(!report.is_damaged() && expected.len() == 2000, "{:?}", report.findings);
    let manifest = data_files(folder.path(), "MANIFEST").pop().unwrap();
    let sound = fs::read(&manifest).unwrap();
    for cut in (1..=24).step_by(3).chain([60, 150, 300, sound.len() / 2]) {
        fs::write(&manifest, &sound[..sound.len() - cut]).unwrap();
        let (found, _) = read(folder.path());
        assert_eq!(deviation(&expected, &found), 0, "{cut} bytes are cut off");
    }
    fs::remove_file(manifest).unwrap();
    let (found, report) = read(folder.path());
    assert!(report.files_unknown);
    assert_eq!(deviation(&expected, &found), 0);
}

/// A lost deletion brings its row back, and a lost version an older one: both are counted.
#[test]
fn older_states_and_deleted_rows_are_counted() {
    let folder = TempDir::new().unwrap();
    let open = || EmbeddedStore::open(folder.path(), Options::default()).unwrap();
    let close = |store: EmbeddedStore| store.close().unwrap();
    let store = open();
    put_rows(&store, 0..ROWS);
    close(store);
    let store = open();
    runtime().block_on(async {
        for chunk in 0..5 {
            let deletes = (0..100)
                .map(|row| delete(&format!("{:05}", chunk * 200 + row), Precondition::None))
                .collect();
            store.commit(TABLE, &group("p", deletes), now()).await.unwrap().unwrap();
        }
        let changes = (1300..1400)
            .map(|row| replace(&format!("{row:05}"), number(-row), Precondition::None))
            .collect();
        store.commit(TABLE, &group("p", changes), now()).await.unwrap().unwrap();
    });
    close(store);
    let (expected, report) = read(folder.path());
    assert!(!report.is_damaged() && expected.len() == ROWS as usize - 500, "{:?}", report.findings);
    let newest = data_files(folder.path(), ".sst").pop().unwrap();
    let sound = fs::read(&newest).unwrap();
    let mut most = 0;
    for keep in [100, 1000, 2000, sound.len() / 2, sound.len() - 500] {
        fs::write(&newest, &sound[..keep.min(sound.len())]).unwrap();
        let (_, lost) = is_honest(folder.path(), &expected, &format!("{keep} bytes are left"));
        most = most.max(lost);
    }
    assert!(most >= 500, "deleted rows came back: {most}");
    fs::remove_file(newest).unwrap();
    let (_, lost) = is_honest(folder.path(), &expected, "the file is gone");
    assert_eq!(lost, 600);
}

#[test]
fn a_file_in_the_place_of_another_is_a_loss() {
    let folder = TempDir::new().unwrap();
    for round in 0..2 {
        let store = crate::common::open(folder.path());
        put_numbers(&store, round * 50..round * 50 + 50);
        store.close().unwrap();
    }
    let files = data_files(folder.path(), ".sst");
    let (expected, _) = read(folder.path());
    fs::copy(&files[0], files.last().unwrap()).unwrap();
    is_honest(folder.path(), &expected, "a copy of another file");
}

#[test]
fn room_is_asked_for_before() {
    let folder = TempDir::new().unwrap();
    let store = crate::common::open(folder.path());
    put_rows(&store, 0..300);
    store.close().unwrap();
    drop(store);
    let (_, report) = read(folder.path());
    let into = folder.path().join("not").join("yet").join("there");
    let space = RepairSpace::for_saving(&report, &into);
    assert!(space.is_enough() && space.free.is_some(), "{space:?}");
    let short = RepairSpace { free: Some(space.needed - 1), ..space };
    assert!(!short.is_enough());
    let mut huge = report;
    (huge.row_bytes, huge.file_bytes) = (u64::MAX, u64::MAX);
    assert!(!RepairSpace::for_saving(&huge, &into).is_enough());
}
