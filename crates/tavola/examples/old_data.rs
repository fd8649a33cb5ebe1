//! Makes the fixture of a new format of data folders, once, before the first version that writes it
//! is released:
//!
//! `cargo run -p tavola --example old_data -- crates/tavola/tests/fixtures/format-2`
//!
//! It writes that folder, and beside it a text that says what clients see in it.
//! `tests/it/old_data.rs` opens them.

#![allow(clippy::unwrap_used, reason = "a tool for us, which fails by panicking")]

#[path = "../tests/it/old_data_content/mod.rs"]
mod old_data_content;

use std::fs;
use std::path::{Path, PathBuf};

use old_data_content::{read_all, write_log_tail, write_table_files};
use tavola_embedded::{EmbeddedStore, Options};

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("name the folder to write"));
    assert!(!folder.exists(), "{} exists: old folders are not written again", folder.display());
    let scratch = tempfile::tempdir().unwrap();
    let open = || EmbeddedStore::open(scratch.path(), Options::default()).unwrap();
    write_table_files(open());
    write_log_tail(open());
    copy(scratch.path(), &folder);
    fs::write(folder.with_extension("txt"), read_all(open())).unwrap();
}

/// Without the engine's own log and its lock, which say nothing about the data.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let name = entry.file_name().to_string_lossy().into_owned();
        let says_nothing = name == "LOCK" || name.starts_with("LOG");
        if path.is_dir() {
            copy(&path, &target);
        } else if !says_nothing {
            fs::copy(path, target).unwrap();
        }
    }
}
