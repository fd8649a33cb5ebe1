//! Opening the engine on a data folder: first every check that needs no write, then the engine
//! itself.

use std::path::Path;

use rocksdb::{Cache, DB, ErrorKind};
use tavola_core::Timestamp;
use tavola_store::Row;
use tavola_store::keys::encode_address;

use crate::attempt::{Attempt, check_access, check_free_space};
use crate::check::Report;
use crate::damage::DamageNote;
use crate::engine::last_version_of;
use crate::error::OpenError;
use crate::folder::DataFolder;
use crate::log_check::{self, Checked, LogError, LogState};
use crate::options::Options;
use crate::watermark::{self, WatermarkError};

type Opened = (DB, DamageNote, Cache);

/// The engine, after every check that needs no write.
pub(crate) fn open_db(folder: &DataFolder, options: &Options) -> Result<Opened, OpenError> {
    let (path, engine_path) = (folder.path(), folder.engine_path());
    let new = is_new(folder, &engine_path)?;
    let synced = watermark::read(path).map_err(|error| watermark_error(folder, error))?;
    let Checked { logs, torn_edit } = match new {
        true => check_new(folder, synced)?,
        false => check_logs(folder, &engine_path, synced)?,
    };
    check_access(path, &engine_path)?;
    check_free_space(path, &engine_path)?;
    let damage = DamageNote::read(path, &engine_path)?;
    let mut attempt = Attempt::begin(&engine_path)?;
    torn_edit.map_or(Ok(()), |torn_edit| attempt.cut_off(torn_edit))?;
    let open = || {
        if !new {
            try_read_only(folder, &engine_path, logs, options)?;
        }
        let cache = options.cache();
        let mut engine_options = options.engine(&cache, new, logs);
        engine_options.set_disable_auto_compactions(damage.is_there());
        DB::open(&engine_options, &engine_path)
            .map(|db| (db, cache))
            .map_err(|error| refused(folder, error))
    };
    match open() {
        Ok((db, cache)) => {
            if logs == LogState::TornTail {
                tracing::warn!(folder = %path.display(), "the last write was torn by a crash; it was never acknowledged");
            }
            Ok((db, damage, cache))
        }
        Err(error) => {
            attempt.roll_back();
            Err(error)
        }
    }
}

/// The highest version that a data folder has assigned, read without changing anything; `None` if
/// it has assigned none, or if only the next start can find it out.
///
/// # Errors
/// If the folder is not there, in use, or damaged.
pub fn last_version(path: &Path) -> Result<Option<Timestamp>, OpenError> {
    let folder = DataFolder::existing(path, &mut Report::default())?;
    let engine_path = folder.engine_path();
    if is_new(&folder, &engine_path)? {
        return Ok(None);
    }
    let synced = watermark::read(path).map_err(|error| watermark_error(&folder, error))?;
    let Checked { logs, torn_edit } = check_logs(&folder, &engine_path, synced)?;
    if torn_edit.is_some() {
        return Ok(None);
    }
    let db = open_read_only(&folder, &engine_path, logs, &Options::default())?;
    let last = last_version_of(&db).map_err(|what| folder.damaged(what))?;
    Ok(Some(last).filter(|last| *last > Timestamp::MIN))
}

/// Opens the engine read-only first: what it refuses now, it would otherwise refuse after it has
/// written.
fn try_read_only(
    folder: &DataFolder,
    engine_path: &Path,
    logs: LogState,
    options: &Options,
) -> Result<(), OpenError> {
    let db = open_read_only(folder, engine_path, logs, options)?;
    let last = last_version_of(&db).map_err(|what| folder.damaged(what))?;
    if options.versions_max.is_some_and(|max| last > max) {
        return Err(OpenError::AheadOfClock { folder: folder.path().to_owned(), last });
    }
    let Some(address) = &options.refused_row else { return Ok(()) };
    match db.get_pinned(encode_address(address)).map_err(|error| refused(folder, error))? {
        None => Ok(()),
        Some(value) => {
            let (partition_key, row_key) =
                (address.key.partition_key.as_str(), address.key.row_key.as_str());
            let row = Row::new(partition_key, row_key, &value)
                .map_err(|error| folder.damaged(error.to_string()))?;
            Err(OpenError::RefusedRow { folder: folder.path().to_owned(), row: Box::new(row) })
        }
    }
}

fn open_read_only(
    folder: &DataFolder,
    engine_path: &Path,
    logs: LogState,
    options: &Options,
) -> Result<DB, OpenError> {
    let engine_options = options.engine(&options.cache(), false, logs);
    DB::open_for_read_only(&engine_options, engine_path, false)
        .map_err(|error| refused(folder, error))
}

/// True if the engine has never been here. Without its file CURRENT it would begin anew on top of
/// what is there.
fn is_new(folder: &DataFolder, engine_path: &Path) -> Result<bool, OpenError> {
    let current = engine_path.join("CURRENT");
    if current.try_exists().map_err(OpenError::io("look for", &current))? {
        return Ok(false);
    }
    for entry in
        std::fs::read_dir(engine_path).map_err(OpenError::io("read the folder", engine_path))?
    {
        let path = entry.map_err(OpenError::io("read the folder", engine_path))?.path();
        // A crash while the engine was created leaves no log and no table file.
        if path.extension().is_some_and(|extension| extension == "log" || extension == "sst") {
            return Err(folder
                .damaged("the engine's file CURRENT is missing, and files with data are there"));
        }
    }
    Ok(true)
}

fn watermark_error(folder: &DataFolder, error: WatermarkError) -> OpenError {
    match error {
        WatermarkError::Damaged(what) => folder.damaged(what),
        WatermarkError::Io(path, source) => OpenError::io("read", &path)(source),
    }
}

fn check_logs(
    folder: &DataFolder,
    engine_path: &Path,
    synced: Option<u64>,
) -> Result<Checked, OpenError> {
    log_check::check(engine_path, synced).map_err(|error| match error {
        LogError::Damaged(what) => folder.damaged(what),
        LogError::Io(path, source) => OpenError::io("read", &path)(source),
    })
}

/// A new engine's folder cannot have acknowledged anything; one that has, has lost all its files.
fn check_new(folder: &DataFolder, synced: Option<u64>) -> Result<Checked, OpenError> {
    match synced {
        Some(synced) if synced > 0 => Err(folder.damaged(format!(
            "its file {} says that writes up to number {synced} were acknowledged, and the files of the engine are gone",
            watermark::NAME
        ))),
        _ => Ok(Checked { logs: LogState::Whole, torn_edit: None }),
    }
}

fn refused(folder: &DataFolder, error: rocksdb::Error) -> OpenError {
    let (kind, message) = (error.kind(), error.into_string());
    // The engine calls everything damage that keeps it from looking at a table file.
    let few_descriptors = message.contains("Too many open files");
    let is_gone = message.contains("No such file or directory");
    let locked =
        kind == ErrorKind::IOError && message.contains("lock ") && message.contains("/LOCK");
    match kind {
        _ if is_full(&message) => OpenError::DiskFull { folder: folder.path().to_owned(), message },
        _ if few_descriptors => OpenError::EngineIo { folder: folder.path().to_owned(), message },
        ErrorKind::Corruption => folder.damaged(message),
        ErrorKind::IOError if is_gone => folder.damaged(message),
        _ if locked => OpenError::Locked { folder: folder.path().to_owned() },
        ErrorKind::IOError => OpenError::EngineIo { folder: folder.path().to_owned(), message },
        _ => OpenError::Engine { folder: folder.path().to_owned(), message },
    }
}

/// The engine's checksums were compiled for these instructions; without them it would die at its
/// first write.
pub(crate) fn check_processor() -> Result<(), OpenError> {
    let mut missing: Vec<&str> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        missing.extend((!std::arch::is_x86_feature_detected!("sse4.2")).then_some("SSE4.2"));
        missing.extend((!std::arch::is_x86_feature_detected!("pclmulqdq")).then_some("PCLMUL"));
    }
    #[cfg(target_arch = "aarch64")]
    {
        missing.extend((!std::arch::is_aarch64_feature_detected!("crc")).then_some("CRC32"));
        missing.extend((!std::arch::is_aarch64_feature_detected!("pmull")).then_some("PMULL"));
    }
    let missing = std::mem::take(&mut missing);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(OpenError::MissingCpuFeatures { missing: missing.join(", ") })
    }
}

/// Whichever way a file system says it: the engine does not recover during an open.
fn is_full(message: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|words| message.contains(words))
}
