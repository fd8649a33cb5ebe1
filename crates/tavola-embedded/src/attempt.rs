//! An open that is refused leaves the data folder as it was, to the byte.
//!
//! Everything that can be checked without writing is checked first: permissions, free space, and
//! whether the engine can read everything, by opening it read-only. Only then may the engine write.
//! If it fails all the same, its changes are rolled back.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::error::OpenError;
use crate::files::numbered;
use crate::folder::sync_folder;
use crate::log_check::TornEdit;
use crate::private_files::create_file;
use crate::watermark;

const CURRENT: &str = "CURRENT";
const INFO_LOG: &str = "LOG";
const INFO_LOG_OLD_PREFIX: &str = "LOG.old.";

/// Refuses a folder in which this process may not do what an open needs, and names the first file
/// that is in the way.
pub(crate) fn check_access(folder: &Path, engine_path: &Path) -> Result<(), OpenError> {
    let (read, write) = (Access::READ_OK, Access::READ_OK | Access::WRITE_OK);
    for path in [folder, engine_path] {
        may(path, write | Access::EXEC_OK, "write to the folder")?;
    }
    let watermark = folder.join(watermark::NAME);
    if watermark.exists() {
        may(&watermark, write, "write")?;
    }
    for name in names(engine_path)? {
        let path = engine_path.join(&name);
        let is_written =
            name == "LOCK" || path.extension().is_some_and(|extension| extension == "log");
        if is_written { may(&path, write, "write")? } else { may(&path, read, "read")? }
    }
    Ok(())
}

/// An open writes a few small files, beside what it makes of the logs.
const OPEN_BYTES: u64 = 1024 * 1024;

/// Refuses a disk on which an open would fail half-way. The engine preallocates space for a log
/// beyond its end, and frees that of a server that was killed before it needs any.
pub(crate) fn check_free_space(folder: &Path, engine_path: &Path) -> Result<(), OpenError> {
    let Ok(status) = rustix::fs::statvfs(engine_path) else { return Ok(()) };
    let (mut free, mut needed) = (status.f_bavail.saturating_mul(status.f_frsize), OPEN_BYTES);
    for (_, log) in
        numbered(engine_path, "log").map_err(OpenError::io("read the folder", engine_path))?
    {
        let Ok(log) = fs::metadata(&log) else { continue };
        needed = needed.saturating_add(log.len());
        free = free.saturating_add((log.blocks() * BLOCK_BYTES).saturating_sub(log.len()));
    }
    if free >= needed {
        return Ok(());
    }
    let message = format!("{} KiB are free, and a start needs {} KiB", free / 1024, needed / 1024);
    Err(OpenError::DiskFull { folder: folder.to_owned(), message })
}

/// What the blocks of a file are counted in.
const BLOCK_BYTES: u64 = 512;

/// Refuses a folder with a file that this process may not read: what cannot be read is not damage.
pub(crate) fn check_readable(folder: &Path, engine_path: &Path) -> Result<(), OpenError> {
    may(folder, Access::READ_OK | Access::EXEC_OK, "look into")?;
    may(engine_path, Access::READ_OK | Access::EXEC_OK, "look into")?;
    names(engine_path)?
        .iter()
        .try_for_each(|name| may(&engine_path.join(name), Access::READ_OK, "read"))
}

fn may(path: &Path, wanted: Access, action: &'static str) -> Result<(), OpenError> {
    match access(path, wanted) {
        // The engine removes files of its own; one that is gone by now cannot be in the way.
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(OpenError::io(action, path)(error.into())),
    }
}

/// Names of everything in a folder.
fn names(folder: &Path) -> Result<BTreeSet<OsString>, OpenError> {
    let failed = || OpenError::io("read the folder", folder);
    let entries = fs::read_dir(folder).map_err(failed())?;
    entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed())).collect()
}

/// The engine's folder before the engine may write to it.
#[derive(Debug)]
pub(crate) struct Attempt {
    engine_path: PathBuf,
    names: BTreeSet<OsString>,
    /// The engine's file CURRENT, which says what counts.
    current: Option<Vec<u8>>,
    /// What was cut off from the record of files.
    torn: Option<(TornEdit, Vec<u8>)>,
}

impl Attempt {
    pub(crate) fn begin(engine_path: &Path) -> Result<Self, OpenError> {
        let current = engine_path.join(CURRENT);
        let current = match fs::read(&current) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(OpenError::io("read", &current)(error)),
        };
        Ok(Self {
            engine_path: engine_path.to_owned(),
            names: names(engine_path)?,
            current,
            torn: None,
        })
    }

    /// Cuts off the torn end of the record of files, and remembers it.
    pub(crate) fn cut_off(&mut self, torn_edit: TornEdit) -> Result<(), OpenError> {
        let tail = torn_edit.cut_off()?;
        self.torn = Some((torn_edit, tail));
        Ok(())
    }

    /// Restores the folder as it was before. Files that cannot be removed are harmless; the log
    /// names the error.
    pub(crate) fn roll_back(self) {
        if let Err(error) = self.try_roll_back() {
            tracing::warn!(%error, folder = %self.engine_path.display(), "a failed start left files of the storage engine");
        }
    }

    fn try_roll_back(&self) -> io::Result<()> {
        self.restore_info_log()?;
        let now: BTreeSet<OsString> = fs::read_dir(&self.engine_path)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()?;
        if !self.names.is_subset(&now) {
            return Err(io::Error::other("the engine has removed files already"));
        }
        // First the files that no record names, which frees the space to name the old ones again.
        let is_record = |name: &&OsString| name.to_string_lossy().starts_with("MANIFEST");
        for name in now.difference(&self.names).filter(|name| !is_record(name)) {
            fs::remove_file(self.engine_path.join(name))?;
        }
        self.restore_current()?;
        for name in now.difference(&self.names).filter(is_record) {
            fs::remove_file(self.engine_path.join(name))?;
        }
        if let Some((torn_edit, tail)) = &self.torn {
            torn_edit.put_back(tail)?;
        }
        sync_folder(&self.engine_path).map_err(io::Error::other)
    }

    /// The engine has renamed its text log, and begun another.
    fn restore_info_log(&self) -> io::Result<()> {
        if !self.names.contains(&OsString::from(INFO_LOG)) {
            return Ok(());
        }
        for entry in fs::read_dir(&self.engine_path)? {
            let entry = entry?;
            let is_renamed = entry.file_name().to_string_lossy().starts_with(INFO_LOG_OLD_PREFIX);
            if is_renamed && !self.names.contains(&entry.file_name()) {
                return fs::rename(entry.path(), self.engine_path.join(INFO_LOG));
            }
        }
        Ok(())
    }

    fn restore_current(&self) -> io::Result<()> {
        let Some(before) = &self.current else { return Ok(()) };
        let current = self.engine_path.join(CURRENT);
        if fs::read(&current).is_ok_and(|now| now == *before) {
            return Ok(());
        }
        let unfinished = self.engine_path.join("CURRENT.dbtmp");
        let mut file = create_file(&unfinished)?;
        file.write_all(before)?;
        file.sync_all()?;
        fs::rename(&unfinished, current)
    }
}

#[cfg(test)]
mod tests {
    use super::Attempt;
    use std::fs;

    #[test]
    fn everything_that_a_failed_open_did_is_rolled_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("CURRENT", "MANIFEST-1\n"),
            ("MANIFEST-1", "one"),
            ("LOG", "old"),
            ("7.log", "writes"),
        ] {
            fs::write(path(name), text).unwrap();
        }
        let attempt = Attempt::begin(folder.path()).unwrap();
        fs::rename(path("LOG"), path("LOG.old.17")).unwrap();
        for (name, text) in
            [("LOG", "new"), ("MANIFEST-2", "two"), ("CURRENT", "MANIFEST-2\n"), ("8.sst", "rows")]
        {
            fs::write(path(name), text).unwrap();
        }
        attempt.roll_back();
        let mut left: Vec<(String, String)> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    fs::read_to_string(entry.path()).unwrap(),
                )
            })
            .collect();
        left.sort();
        let left: Vec<_> = left.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(
            left,
            [
                ("7.log", "writes"),
                ("CURRENT", "MANIFEST-1\n"),
                ("LOG", "old"),
                ("MANIFEST-1", "one")
            ]
        );
    }

    #[test]
    fn an_engine_that_has_removed_files_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("7.log"), "writes").unwrap();
        let attempt = Attempt::begin(folder.path()).unwrap();
        fs::remove_file(folder.path().join("7.log")).unwrap();
        fs::write(folder.path().join("8.sst"), "the same as rows").unwrap();
        attempt.roll_back();
        assert!(folder.path().join("8.sst").exists());
    }
}
