//! Saves what can be read of a damaged folder into a new one. The damaged one is left as it is.
//!
//! The new folder has another name until it is complete. Rows come in the order of keys and reach
//! the disk in that order, so that a repair which was interrupted, however, goes on behind the last
//! row that is there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rocksdb::{WriteBatch, WriteOptions};
use tavola_core::Timestamp;

use crate::check::{Progress, Report, view_rows};
use crate::disk_space::free_bytes;
use crate::engine::{Engine, is_last_version_key, last_version_entry, store_error};
use crate::error::OpenError;
use crate::folder::sync_folder;
use crate::options::{Compression, Options};
use crate::store::EmbeddedStore;

const MIB: u64 = 1024 * 1024;
/// Rows are written in batches of about this size.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// So much may have to be written again by a repair that was interrupted.
const MEMTABLE_BYTES: usize = 8 * 1024 * 1024;
/// What the engine takes for itself: its log, its record of files, the memtable that it is writing.
const ENGINE_BYTES: u64 = 32 * MIB;
/// In an unfinished folder: what it is made from.
const SOURCE: &str = "REPAIR";

/// What a repair came to.
#[derive(Debug)]
pub struct Salvaged {
    /// What was found in the damaged folder.
    pub report: Report,
    /// Rows that an earlier repair had saved, which was interrupted.
    pub rows_before: u64,
}

/// The space that a repair needs, and what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairSpace {
    /// Bytes that the new folder takes, about.
    pub needed: u64,
    /// Bytes that are free on its disk, if the file system can say.
    pub free: Option<u64>,
}

impl RepairSpace {
    /// The space for what this report says can be saved.
    #[must_use]
    pub fn for_saving(report: &Report, into: &Path) -> Self {
        // Rows are packed as they were, and of the old versions that the damaged folder may hold
        // none is kept. What cannot be packed takes as much as it is, and a little for its index
        // and filter.
        let rows = report.row_bytes.saturating_add(report.row_bytes / 8).min(report.file_bytes);
        let needed = rows.saturating_add(rows / 8).saturating_add(ENGINE_BYTES);
        let there = folder_bytes(&unfinished_name(into));
        Self {
            needed: needed.saturating_sub(there),
            free: existing_parent(into).and_then(free_bytes),
        }
    }

    /// False if the disk would be full before the repair has ended.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.free.is_none_or(|free| free >= self.needed)
    }
}

/// Copies every sound row of the folder at `from` into a new store at `into`, which must not exist
/// or be empty. The new folder appears under its name only when it is complete; `amend` gets it
/// before. If it fails or is interrupted, the next call goes on where this one ended, as long as
/// the damaged folder is the same.
///
/// # Errors
/// If the damaged folder cannot be looked at, or the new one cannot be written.
pub fn salvage(
    from: &Path,
    into: &Path,
    compression: Compression,
    progress: &mut dyn Progress,
    amend: impl FnOnce(&EmbeddedStore) -> Result<(), String>,
) -> Result<Salvaged, OpenError> {
    refuse_occupied(into)?;
    let unfinished = unfinished_name(into);
    let options = Options {
        compression,
        memtable_bytes: MEMTABLE_BYTES,
        reserve_bytes: 0,
        ..Options::default()
    };
    let source = source_text(from)?;
    let engine = begin(&unfinished, &source, &options)?;
    let salvaged = copy_rows(from, &unfinished, &engine, progress)?;
    drop(engine);
    complete(&unfinished, options, amend)?;
    // An empty folder of that name gives way.
    fs::rename(&unfinished, into).map_err(OpenError::io("rename the new folder to", into))?;
    match into.parent() {
        Some(parent) if parent != Path::new("") => sync_folder(parent)?,
        _ => sync_folder(Path::new("."))?,
    }
    Ok(salvaged)
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

/// The name of the new folder until it is complete.
#[must_use]
pub fn unfinished_name(into: &Path) -> PathBuf {
    let mut name = into.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}

/// The unfinished folder of an earlier repair of the same files, or a new one.
fn begin(unfinished: &Path, source: &str, options: &Options) -> Result<Engine, OpenError> {
    let is_same = fs::read_to_string(unfinished.join(SOURCE)).is_ok_and(|found| found == source);
    if is_same {
        match Engine::open(unfinished, options) {
            Ok(engine) => return Ok(engine),
            Err(OpenError::Damaged { .. } | OpenError::Engine { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    if unfinished.exists() {
        fs::remove_dir_all(unfinished)
            .map_err(OpenError::io("remove what is left of an earlier repair,", unfinished))?;
    }
    let engine = Engine::open(unfinished, options)?;
    let path = unfinished.join(SOURCE);
    fs::write(&path, source).map_err(OpenError::io("write", &path))?;
    Ok(engine)
}

/// The files of a folder with their sizes and times: what is made from them goes on only if they
/// are the same.
fn source_text(from: &Path) -> Result<String, OpenError> {
    let path = fs::canonicalize(from).map_err(OpenError::io("find", from))?;
    let mut lines =
        vec![format!("tavola {}", env!("CARGO_PKG_VERSION")), path.display().to_string()];
    for folder in [path.clone(), path.join("store")] {
        let failed = || OpenError::io("read the folder", &folder);
        for entry in fs::read_dir(&folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let file = entry.metadata().map_err(OpenError::io("look at", &entry.path()))?;
            if file.is_file() {
                let modified =
                    file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                lines.push(format!("{} {} {modified:?}", entry.path().display(), file.len()));
            }
        }
    }
    lines[2..].sort();
    Ok(lines.join("\n"))
}

fn copy_rows(
    from: &Path,
    to: &Path,
    engine: &Engine,
    progress: &mut dyn Progress,
) -> Result<Salvaged, OpenError> {
    let mut copy = Copy {
        engine,
        behind: last_key(engine),
        rows_before: 0,
        batch: WriteBatch::default(),
        failed: None,
    };
    let (report, version) = view_rows(from, progress, &mut |key, value| copy.put(key, value))?;
    copy.finish(version);
    match copy.failed {
        None => Ok(Salvaged { report, rows_before: copy.rows_before }),
        Some(message) if message.contains("No space left") => {
            Err(OpenError::DiskFull { folder: to.to_owned(), message })
        }
        Some(message) => Err(OpenError::Engine { folder: to.to_owned(), message }),
    }
}

/// The last row that is in a store.
fn last_key(engine: &Engine) -> Option<Vec<u8>> {
    let mut iterator = engine.db.raw_iterator();
    iterator.seek_to_last();
    iterator.key().filter(|key| !is_last_version_key(key)).map(<[u8]>::to_vec)
}

fn complete(
    unfinished: &Path,
    options: Options,
    amend: impl FnOnce(&EmbeddedStore) -> Result<(), String>,
) -> Result<(), OpenError> {
    // What is added now is not added twice: a repair that is interrupted here begins anew.
    let source = unfinished.join(SOURCE);
    fs::remove_file(&source).map_err(OpenError::io("remove", &source))?;
    let store = EmbeddedStore::open(unfinished, options)?;
    let failed = |message| OpenError::Engine { folder: unfinished.to_owned(), message };
    amend(&store).map_err(failed)?;
    store.close().map_err(|error| failed(error.to_string()))
}

struct Copy<'a> {
    engine: &'a Engine,
    /// Up to this key all rows are there already.
    behind: Option<Vec<u8>>,
    rows_before: u64,
    batch: WriteBatch,
    /// The first error; nothing is written after it.
    failed: Option<String>,
}

impl Copy<'_> {
    /// False once it failed.
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        if self.behind.as_deref().is_some_and(|behind| key <= behind) {
            self.rows_before += 1;
            return true;
        }
        self.batch.put(key, value);
        if self.batch.size_in_bytes() >= BATCH_BYTES {
            self.write();
        }
        self.failed.is_none()
    }

    /// Without a log: the folder has no name yet, and what is not in a table file is written again.
    fn write(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        if self.failed.is_none() {
            self.failed = self
                .engine
                .db
                .write_opt(batch, &options)
                .err()
                .map(|error| store_error(error).to_string());
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

fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder.join("store")) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
}

fn existing_parent(path: &Path) -> Option<&Path> {
    let here = Path::new(".");
    path.ancestors()
        .map(|parent| if parent == Path::new("") { here } else { parent })
        .find(|parent| parent.exists())
}
