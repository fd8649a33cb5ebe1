//! The data folder: its marker, its format, and the lock that gives it to one process at a time.
//!
//! ```text
//! <data folder>/TAVOLA   format version as text; locked while a process has the folder
//! <data folder>/store/   the engine's files
//! ```
//!
//! `TAVOLA` is written first, whole or not at all, so that a folder without it was never ours.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::attempt::check_readable;
use crate::check::{Place, Report};
use crate::error::OpenError;
use crate::private_files::{create_file, create_folder, refuse_links};

/// The newest format of a data folder that this version knows, and the one that it writes.
pub(crate) const FORMAT_VERSION: u32 = 1;

const MARKER: &str = "TAVOLA";
/// A marker that a crash left unfinished; it says nothing.
const MARKER_UNFINISHED: &str = "TAVOLA.new";
const MARKER_PREFIX: &str = "tavola-format: ";
const ENGINE_FOLDER: &str = "store";
/// A fresh file system of its own is an empty folder too.
const IGNORED: [&str; 2] = ["lost+found", MARKER_UNFINISHED];

/// A data folder that this process has for itself.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    /// Holds the lock; the system releases it with the process, however that ends. Without its
    /// marker there is nothing to lock, and no server can have the folder either.
    _lock: Option<File>,
    /// What this open made, outermost first.
    made: Vec<PathBuf>,
}

impl DataFolder {
    /// Creates the folder if it is new, checks that it is ours, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let mut made = Vec::new();
        match Self::open_or_make(path, &mut made) {
            Ok(lock) => Ok(Self { path: path.to_owned(), _lock: Some(lock), made }),
            // Another process was faster, and it has what we made.
            Err(error @ OpenError::Locked { .. }) => Err(error),
            Err(error) => {
                remove(&made);
                Err(error)
            }
        }
    }

    fn open_or_make(path: &Path, made: &mut Vec<PathBuf>) -> Result<File, OpenError> {
        make_folder(path, made)?;
        let marker = path.join(MARKER);
        if !marker.try_exists().map_err(OpenError::io("look for", &marker))? {
            refuse_foreign_files(path)?;
            made.extend([path.join(MARKER_UNFINISHED), marker.clone()]);
            write_marker(path)?;
        }
        refuse_links(path)?;
        let lock = lock(path, &marker)?;
        check_format(path, &marker)?;
        make_folder(&path.join(ENGINE_FOLDER), made)?;
        sync_folder(path)?;
        Ok(lock)
    }

    /// Removes what this open made, if it is empty: the start is refused.
    pub(crate) fn roll_back(self) {
        remove(&self.made);
    }

    /// Locks a folder that exists, and changes nothing in it. A damaged marker goes into the
    /// report.
    pub(crate) fn existing(path: &Path, report: &mut Report) -> Result<Self, OpenError> {
        let marker = path.join(MARKER);
        let engine = path.join(ENGINE_FOLDER);
        match fs::metadata(&engine) {
            Ok(engine) if engine.is_dir() => {}
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(OpenError::io("look into", &engine)(error));
            }
            _ => return Err(OpenError::Missing { folder: path.to_owned() }),
        }
        check_readable(path, &engine)?;
        let place = || Place::File { name: MARKER.to_owned(), offset: None };
        if !marker.try_exists().map_err(OpenError::io("look for", &marker))? {
            let what = "it is missing; it says that the folder is ours and which format it has";
            report.damage(place(), what);
            return Ok(Self { path: path.to_owned(), _lock: None, made: Vec::new() });
        }
        let lock = lock(path, &marker)?;
        match check_format(path, &marker) {
            Err(OpenError::Damaged { what, .. }) => report.damage(place(), what),
            other => other?,
        }
        report.counts.files += 1;
        report.counts.bytes += fs::metadata(&marker).map_or(0, |file| file.len());
        Ok(Self { path: path.to_owned(), _lock: Some(lock), made: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the engine keeps its files.
    pub(crate) fn engine_path(&self) -> PathBuf {
        self.path.join(ENGINE_FOLDER)
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { folder: self.path.clone(), what: what.into() }
    }
}

/// Makes a folder with those above it, and adds those that it made.
fn make_folder(path: &Path, made: &mut Vec<PathBuf>) -> Result<(), OpenError> {
    let missing: Vec<PathBuf> = path
        .ancestors()
        .take_while(|above| *above != Path::new("") && !above.exists())
        .map(Path::to_owned)
        .collect();
    made.extend(missing.into_iter().rev());
    create_folder(path)
}

/// Takes back what was made: files, and folders that are empty.
fn remove(made: &[PathBuf]) {
    for path in made.iter().rev() {
        let _is_gone_or_in_use =
            if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
    }
}

fn refuse_foreign_files(path: &Path) -> Result<(), OpenError> {
    for entry in fs::read_dir(path).map_err(OpenError::io("read the folder", path))? {
        let name = entry.map_err(OpenError::io("read the folder", path))?.file_name();
        if !IGNORED.iter().any(|ignored| name == *ignored) {
            let example = name.to_string_lossy().into_owned();
            return Err(OpenError::Foreign { folder: path.to_owned(), example });
        }
    }
    Ok(())
}

/// Writes beside and renames, so that a crash leaves either no marker or a whole one.
fn write_marker(path: &Path) -> Result<(), OpenError> {
    let unfinished = path.join(MARKER_UNFINISHED);
    let write = || {
        let mut file = create_file(&unfinished)?;
        writeln!(file, "{MARKER_PREFIX}{FORMAT_VERSION}")?;
        file.sync_all()?;
        fs::rename(&unfinished, path.join(MARKER))
    };
    write().map_err(OpenError::io("write", &unfinished))?;
    sync_folder(path)?;
    // The folder itself may be new; its parent holds its name.
    match path.parent() {
        Some(parent) if parent != Path::new("") => sync_folder(parent),
        _ => Ok(()),
    }
}

pub(crate) fn sync_folder(path: &Path) -> Result<(), OpenError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(OpenError::io("sync the folder", path))
}

fn lock(folder: &Path, marker: &Path) -> Result<File, OpenError> {
    let file = File::open(marker).map_err(OpenError::io("open", marker))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { folder: folder.to_owned() }),
        // Some network file systems have no locks; the engine has a lock file of its own.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(source)) => {
            Err(OpenError::Io { action: "lock", path: marker.to_owned(), source })
        }
    }
}

fn check_format(folder: &Path, marker: &Path) -> Result<(), OpenError> {
    let bytes = fs::read(marker).map_err(OpenError::io("read", marker))?;
    let text = String::from_utf8_lossy(&bytes);
    let version =
        text.lines().next().and_then(|line| line.strip_prefix(MARKER_PREFIX)?.parse().ok());
    match version {
        Some(FORMAT_VERSION) => Ok(()),
        Some(found) if found > FORMAT_VERSION => {
            Err(OpenError::NewerFormat { folder: folder.to_owned(), found, known: FORMAT_VERSION })
        }
        _ => Err(OpenError::Damaged {
            folder: folder.to_owned(),
            what: format!(
                "its file {MARKER} does not begin with \"{MARKER_PREFIX}\" and a format number"
            ),
        }),
    }
}
