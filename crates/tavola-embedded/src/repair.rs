//! Saves what can be read of a damaged folder into a new one. The damaged one is left as it is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rocksdb::{WriteBatch, WriteOptions};
use tavola_core::Timestamp;

use crate::check::{Progress, Report, view_rows};
use crate::engine::{Engine, last_version_entry, store_error};
use crate::error::OpenError;
use crate::folder::sync_folder;
use crate::options::Options;
use crate::store::EmbeddedStore;

/// Rows are written in batches of about this size.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Copies every sound row of the folder at `from` into a new store at `into`, which must not exist or be empty. The new
/// folder appears under its name only when it is complete; `amend` gets it before.
///
/// # Errors
/// If the damaged folder cannot be looked at, or the new one cannot be written.
pub fn salvage(
    from: &Path,
    into: &Path,
    progress: &mut dyn Progress,
    amend: impl FnOnce(&EmbeddedStore) -> Result<(), String>,
) -> Result<Report, OpenError> {
    refuse_occupied(into)?;
    let unfinished = unfinished_name(into);
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)
            .map_err(OpenError::io("remove what is left of an earlier repair,", &unfinished))?;
    }
    let copied = copy_rows(from, &unfinished, progress).and_then(|report| {
        complete(&unfinished, amend)?;
        // An empty folder of that name gives way.
        fs::rename(&unfinished, into).map_err(OpenError::io("rename the new folder to", into))?;
        match into.parent() {
            Some(parent) if parent != Path::new("") => sync_folder(parent)?,
            _ => sync_folder(Path::new("."))?,
        }
        Ok(report)
    });
    if copied.is_err() {
        let _best_effort = fs::remove_dir_all(&unfinished);
    }
    copied
}

/// # Errors
/// If there is something at `into`.
pub fn refuse_occupied(into: &Path) -> Result<(), OpenError> {
    match fs::read_dir(into).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(OpenError::Occupied { folder: into.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(OpenError::io("look into", into)(error)),
    }
}

fn unfinished_name(into: &Path) -> PathBuf {
    let mut name = into.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}

fn copy_rows(from: &Path, to: &Path, progress: &mut dyn Progress) -> Result<Report, OpenError> {
    let engine = Engine::open(to, &Options::default())?;
    let mut copy = Copy { engine: &engine, batch: WriteBatch::default(), failed: None };
    let (report, version) = view_rows(from, progress, &mut |key, value| copy.put(key, value))?;
    copy.finish(version);
    match copy.failed {
        None => Ok(report),
        Some(message) => Err(OpenError::Engine { folder: to.to_owned(), message }),
    }
}

fn complete(unfinished: &Path, amend: impl FnOnce(&EmbeddedStore) -> Result<(), String>) -> Result<(), OpenError> {
    let store = EmbeddedStore::open(unfinished, Options::default())?;
    let failed = |message| OpenError::Engine { folder: unfinished.to_owned(), message };
    amend(&store).map_err(failed)?;
    store.close().map_err(|error| failed(error.to_string()))
}

struct Copy<'a> {
    engine: &'a Engine,
    batch: WriteBatch,
    /// The first trouble; nothing is written after it.
    failed: Option<String>,
}

impl Copy<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(key, value);
        if self.batch.size_in_bytes() >= BATCH_BYTES {
            self.write();
        }
    }

    /// Without a log: the folder has no name yet, so that a crash leaves nothing that could be taken for whole.
    fn write(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        if self.failed.is_none() {
            self.failed = self.engine.db.write_opt(batch, &options).err().map(|error| store_error(error).to_string());
        }
    }

    fn finish(&mut self, version: Option<Timestamp>) {
        if let Some(version) = version {
            let (key, value) = last_version_entry(version);
            self.batch.put(key, value);
        }
        self.write();
        if self.failed.is_none() {
            self.failed = self.engine.flush().err().map(|error| error.to_string());
        }
    }
}
