//! Reads the engine's files without the engine, for when it refuses them, or to find out whether it
//! should.
//!
//! The engine verifies a block when it reads it, and reads only what a request needs. What is
//! here reads all of it: the logs and their writes, the record of files, and the table files with
//! every block that has a checksum. It knows the formats that our options make the engine write,
//! and says so where it meets another.
//!
//! Nothing is written here, and no byte that is read can make it panic: all of it may be damaged.

pub(crate) mod batch;
pub(crate) mod block;
mod bytes;
mod checksum;
mod content;
mod extent;
pub(crate) mod log;
pub(crate) mod manifest;
mod rescue;
pub(crate) mod structure;
pub(crate) mod table_file;

#[cfg(test)]
pub(crate) use checksum::masked_crc32c;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The engine's numbered files of one kind, oldest first.
pub(crate) fn numbered(folder: &Path, extension: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) =
            number.filter(|_| path.extension().is_some_and(|found| found == extension))
        {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

/// A file's name, for messages.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
