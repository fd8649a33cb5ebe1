//! Why a data folder cannot be opened, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use tavola_core::Timestamp;
use tavola_store::Row;

/// Why a store could not be opened. Nothing in the folder was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has locked it.
    #[error(
        "the data folder {folder} is in use by another process: stop that one, or give this one a folder of its own"
    )]
    Locked {
        /// The data folder.
        folder: PathBuf,
    },
    /// It was written by a later version of this software.
    #[error(
        "the data folder {folder} has format {found}, and this version knows formats up to {known}: use the version that \
         wrote it, or a later one"
    )]
    NewerFormat {
        /// The data folder.
        folder: PathBuf,
        /// The format it has.
        found: u32,
        /// The newest format that this version knows.
        known: u32,
    },
    /// There is none.
    #[error("there is no data folder at {folder}: it has no folder \"store\" in it")]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// It should be new, and is not.
    #[error("the folder {folder} is not empty: name a new or an empty one")]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },
    /// It holds files of another program.
    #[error(
        "the folder {folder} is not a data folder: it holds {example:?} and no file TAVOLA. Name an empty or new folder"
    )]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// One of the files in it.
        example: String,
    },
    /// Something in it is a link, through which we would write elsewhere.
    #[error(
        "{link} is a symbolic link, and nothing is written through one in a data folder: put the file itself there, or \
         make the data folder as a whole a link"
    )]
    Link {
        /// The link.
        link: PathBuf,
    },
    /// Bytes on disk are not what was written.
    #[error(
        "the data folder {folder} is damaged: {what}. Nothing was changed. Restore the folder from a backup; or see all \
         of the damage with `tavola check {folder}`, and what can be saved into a new folder with `tavola repair {folder} \
         --dry-run`"
    )]
    Damaged {
        /// The data folder.
        folder: PathBuf,
        /// Which file, where, and why it cannot be a crash in the middle of a write.
        what: String,
    },
    /// The processor lacks an instruction that the engine was compiled for.
    #[error("this processor lacks {missing}, which the storage engine needs for its checksums")]
    MissingCpuFeatures {
        /// The missing features.
        missing: String,
    },
    /// There is no room on the disk for what an open writes.
    #[error(
        "the disk of the data folder {folder} is full: {message}. Make room and start again; nothing that was \
         acknowledged is lost"
    )]
    DiskFull {
        /// The data folder.
        folder: PathBuf,
        /// Which file could not be written.
        message: String,
    },
    /// Its versions are ahead of the clock.
    #[error(
        "the data folder {folder} has given out the version {last}, which is more than a day ahead of this machine's clock. \
         If the clock is wrong, set it. If it once was, new Timestamps would all be later than that: copy the folder with \
         `tavola store copy --rewrite-versions --from embedded:{folder} --to embedded:NEW`, or go on from there with \
         --allow-future-versions. Nothing was changed"
    )]
    AheadOfClock {
        /// The data folder.
        folder: PathBuf,
        /// The highest version that it has given out.
        last: Timestamp,
    },
    /// It has a row that it must not have.
    #[error("the data folder {folder} has a row that it must not have")]
    RefusedRow {
        /// The data folder.
        folder: PathBuf,
        /// The row.
        row: Box<Row>,
    },
    /// The operating system refused something.
    #[error("cannot {action} {path}: {source}{}", advice(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system refused the engine something.
    #[error("the storage engine cannot use its files in {folder}: {message}")]
    EngineIo {
        /// The data folder.
        folder: PathBuf,
        /// Which file, and what the system said.
        message: String,
    },
    /// The engine refused for a reason of its own.
    #[error("the storage engine cannot open the data folder {folder}: {message}")]
    Engine {
        /// The data folder.
        folder: PathBuf,
        /// What the engine said.
        message: String,
    },
}

impl OpenError {
    /// For `map_err`: what was tried on which path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { message: format!("cannot {action}: {source}"), folder: path }
            }
            _ => Self::Io { action, path, source },
        }
    }
}

/// What to do about the system's refusal, for those that people meet.
fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let user = rustix::process::getuid().as_raw();
            format!(
                ". This process runs as user {user}: give the folder and everything in it to that user (chown -R), or run \
                 as its owner"
            )
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ". The file system is mounted read-only: mount it for writing".to_owned()
        }
        _ => String::new(),
    }
}
