//! A file that lines are appended to. It is opened anew when somebody has moved it away: rotation
//! is `mv` and a signal.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines tell who asked for what.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// An open file, which another can take the place of while lines are written.
#[derive(Debug)]
pub struct LogFile {
    opened: Mutex<Opened>,
}

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens a file for appending, and makes it and its folder if they are not there.
    ///
    /// # Errors
    /// If that cannot be done; the message names the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(named)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(FILE_MODE)
            .open(path)
            .map_err(named)?;
        Ok(Self { opened: Mutex::new(Opened { path: path.to_owned(), file }) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.lock().path.clone()
    }

    /// From now on lines go where `other` would have written them.
    pub fn replace(&self, other: Self) {
        let other = other.opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.lock() = other;
    }

    fn lock(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().file.write(bytes)
    }

    /// All of it goes into one file, whatever happens meanwhile.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.lock().file.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::LogFile;

    #[test]
    fn a_file_that_was_moved_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("deep/down/log"), folder.path().join("log.1"));
        let log = LogFile::open(&path).unwrap();
        (&log).write_all(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        (&log).write_all(b"two\n").unwrap();
        log.replace(LogFile::open(&log.path()).unwrap());
        (&log).write_all(b"three\n").unwrap();
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = LogFile::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    }
}
