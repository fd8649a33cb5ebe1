//! A data folder that an earlier version wrote opens, with everything in it; one of a later version
//! is refused untouched.
//!
//! `tests/fixtures/format-N` is a folder as the version with that format wrote it, `format-N.txt`
//! what is in it. Neither is ever written again: what is there stands for the folders of people.
//! `examples/old_data.rs` makes the next one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::cli::{in_folder, run};
use crate::common::stores::with_store;
use crate::old_data_content::{read_all, write_log_tail, write_table_files};
use tempfile::TempDir;

const NEWEST_FORMAT: u32 = 1;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn fixture(format: u32) -> PathBuf {
    fixtures().join(format!("format-{format}"))
}

/// A copy to open: opening changes a folder.
fn copy_of(format: u32) -> TempDir {
    let copy = TempDir::new().unwrap();
    for (name, bytes) in contents(&fixture(format)) {
        let path = copy.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    copy
}

/// Every file below a folder, by its path in it.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let (path, name) =
            entry.map(|entry| (entry.path(), PathBuf::from(entry.file_name()))).unwrap();
        if path.is_dir() {
            found.extend(
                contents(&path).into_iter().map(|(inner, bytes)| (name.join(inner), bytes)),
            );
        } else {
            found.insert(name, fs::read(path).unwrap());
        }
    }
    found
}

#[test]
fn every_old_format_opens_with_everything_in_it() {
    for format in 1..=NEWEST_FORMAT {
        let expected = fs::read_to_string(fixtures().join(format!("format-{format}.txt"))).unwrap();
        let copy = copy_of(format);
        // Once as it was left, with a log to replay, and once as this version leaves it.
        for _ in 0..2 {
            let read = with_store(copy.path(), read_all);
            assert_eq!(read, expected, "format {format}");
        }
        let done = run(in_folder(copy.path()).arg("check").arg(copy.path()));
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

/// A fixture that has no log to replay or no table file would prove little.
#[test]
fn the_fixtures_have_every_kind_of_file() {
    for format in 1..=NEWEST_FORMAT {
        let files = contents(&fixture(format));
        let has = |part: &str| {
            files
                .iter()
                .any(|(name, bytes)| name.to_string_lossy().contains(part) && !bytes.is_empty())
        };
        for part in ["TAVOLA", ".sst", ".log", "MANIFEST", "CURRENT"] {
            assert!(has(part), "format {format} has no {part}");
        }
        let bytes: usize = files.values().map(Vec::len).sum();
        assert!(bytes < 200_000, "format {format} has {bytes} bytes, which every clone pays for");
    }
}

#[test]
fn a_sound_old_folder_passes_the_check() {
    for format in 1..=NEWEST_FORMAT {
        let copy = copy_of(format);
        let before = contents(copy.path());
        let done = run(in_folder(copy.path()).arg("check").arg(copy.path()));
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(contents(copy.path()), before, "a check changes nothing");
    }
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let copy = copy_of(NEWEST_FORMAT);
    fs::write(
        copy.path().join("TAVOLA"),
        format!("tavola-format: {}\nmore: words\n", NEWEST_FORMAT + 1),
    )
    .unwrap();
    let before = contents(copy.path());
    let home = TempDir::new().unwrap();
    let folder = copy.path().to_str().unwrap();
    for command in [
        &["serve", "--table-port", "0", "--admin-port", "0", "--location", folder][..],
        &["check", folder],
    ] {
        let done = run(in_folder(home.path()).args(command));
        assert_eq!(done.code, Some(3), "{command:?}: {done:?}");
        assert!(
            done.stderr.contains("has format 2, and this version knows formats up to 1"),
            "{}",
            done.stderr
        );
        assert_eq!(contents(copy.path()), before, "{command:?}");
    }
}

/// What makes the fixtures still works, and what it writes today reads as what it wrote then.
#[test]
fn the_same_is_written_today() {
    let folder = TempDir::new().unwrap();
    with_store(folder.path(), write_table_files);
    with_store(folder.path(), write_log_tail);
    let expected =
        fs::read_to_string(fixtures().join(format!("format-{NEWEST_FORMAT}.txt"))).unwrap();
    assert_eq!(with_store(folder.path(), read_all), expected);
}
