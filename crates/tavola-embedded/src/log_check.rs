//! Reads the engine's logs before the engine does, and tells a crash in the middle of a write from damage.
//!
//! No recovery mode of the engine draws that line where we need it (docs/decisions/001-recovery-of-the-log.md): the
//! lenient ones silently drop acknowledged writes behind some flipped bytes, the strict one refuses a torn tail. But
//! the line can be drawn, because we sync every write before the next begins: a crash can tear only the *last* record.
//! So a flaw is a torn tail if no record begins behind it and it looks like bytes that never reached the disk;
//! everything else is damage, and the folder is not opened.
//!
//! How the records lie in a log is in `files::log`; a write's payload begins with its sequence number (8 bytes) and its
//! count of changes (4 bytes), from which the next one's sequence number follows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::log::{FIRST, LAST, MIDDLE, Piece, WHOLE, pieces};
use crate::files::{name_of, numbered};

/// What the logs of a folder that may be opened look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogState {
    /// Every record is there.
    Whole,
    /// The last write, which nobody was told about, is not there or not whole.
    TornTail,
}

/// Why a folder must not be opened.
#[derive(Debug)]
pub(crate) enum LogError {
    /// Which file, where, and why this is not a torn tail.
    Damaged(String),
    Io(PathBuf, io::Error),
}

/// Checks the write-ahead logs and the record of files in an engine's folder.
pub(crate) fn check(folder: &Path) -> Result<LogState, LogError> {
    check_manifest(folder)?;
    let mut walk = Walk::new(Kind::Writes);
    let logs = files_with(folder, "log")?;
    // The engine always has one; only a crash while it was created leaves none, and then there is no table file either.
    if logs.is_empty() && !files_with(folder, "sst")?.is_empty() {
        return Err(LogError::Damaged("there is no log".to_owned()));
    }
    for log in logs {
        walk.file(&log)?;
    }
    walk.verdict()
}

/// The file that names all others. Its records have no sequence numbers; each is synced before the next as well.
pub(crate) fn check_manifest(folder: &Path) -> Result<(), LogError> {
    let current = folder.join("CURRENT");
    let name = fs::read(&current).map_err(|error| LogError::Io(current, error))?;
    let name = String::from_utf8_lossy(&name);
    let manifest = folder.join(name.trim_end());
    if !name.starts_with("MANIFEST-") || !manifest.exists() {
        return Err(LogError::Damaged(format!("its file CURRENT names {:?}, which is not there", name.trim_end())));
    }
    let mut walk = Walk::new(Kind::Files);
    walk.file(&manifest)?;
    walk.verdict().map(|_| ())
}

fn files_with(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, LogError> {
    let files = numbered(folder, extension).map_err(|error| LogError::Io(folder.to_owned(), error))?;
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Writes,
    Files,
}

/// The first place at which the logs are not as they were written.
struct Flaw {
    file: String,
    offset: u64,
    what: &'static str,
    /// It looks like bytes that never reached the disk.
    unwritten: bool,
}

/// A walk over the records of some logs, in their order.
struct Walk {
    kind: Kind,
    file: String,
    /// The record whose first fragment was read and whose last was not: where it began, and the sequence after it.
    open: Option<(u64, Option<u64>)>,
    /// The sequence number of the next write, known once one was read.
    sequence_next: Option<u64>,
    flaw: Option<Flaw>,
    /// There was a torn tail from which the engine has recovered before.
    recovered_before: bool,
}

impl Walk {
    fn new(kind: Kind) -> Self {
        Self { kind, file: String::new(), open: None, sequence_next: None, flaw: None, recovered_before: false }
    }

    fn file(&mut self, path: &Path) -> Result<(), LogError> {
        self.file = name_of(path);
        let failed = |error| LogError::Io(path.to_owned(), error);
        pieces(path, failed, &mut |piece| match piece {
            Piece::Fragment { kind, payload, offset } => self.fragment(kind, payload, offset),
            Piece::Flaw { offset, what, unwritten } => {
                self.open = None;
                self.found(offset, what, unwritten);
                Ok(())
            }
        })?;
        if let Some((start, _)) = self.open.take() {
            self.found(start, "a record has no end", true);
        }
        Ok(())
    }

    fn fragment(&mut self, kind: u8, payload: &[u8], offset: u64) -> Result<(), LogError> {
        match kind {
            WHOLE | FIRST => {
                if let Some((start, _)) = self.open.take() {
                    self.found(start, "a record has no end", false);
                }
                let after = self.record_begins(payload)?;
                if kind == FIRST {
                    self.open = Some((offset, after));
                } else {
                    self.sequence_next = after;
                }
            }
            // Without its first fragment it belongs to the record at the flaw.
            MIDDLE if self.open.is_none() => self.found(offset, "a record has no beginning", false),
            LAST => match self.open.take() {
                Some((_, after)) => self.sequence_next = after,
                None => self.found(offset, "a record has no beginning", false),
            },
            _ => {}
        }
        Ok(())
    }

    /// A record behind a flaw means that the flaw was once whole, unless the numbering goes on as if there had been
    /// nothing: then the engine has recovered from that torn tail before, and could not yet remove the old log.
    fn record_begins(&mut self, payload: &[u8]) -> Result<Option<u64>, LogError> {
        let (first, after) = sequence(payload).filter(|_| self.kind == Kind::Writes).unzip();
        if let Some(flaw) = self.flaw.take() {
            if first.is_none() || first != self.sequence_next {
                return Err(LogError::Damaged(format!("{flaw}, and whole records follow it")));
            }
            self.recovered_before = true;
        }
        Ok(after)
    }

    fn found(&mut self, offset: u64, what: &'static str, unwritten: bool) {
        let file = &self.file;
        self.flaw.get_or_insert_with(|| Flaw { file: file.clone(), offset, what, unwritten });
    }

    fn verdict(self) -> Result<LogState, LogError> {
        match self.flaw {
            None if self.recovered_before => Ok(LogState::TornTail),
            None => Ok(LogState::Whole),
            Some(flaw) if flaw.unwritten => Ok(LogState::TornTail),
            Some(flaw) => Err(LogError::Damaged(format!("{flaw}, and all its bytes were written"))),
        }
    }
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "in its log {} at byte {} {}", self.file, self.offset, self.what)
    }
}

/// The sequence number of a write, and the one after it.
fn sequence(payload: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = payload.split_first_chunk()?;
    let count = rest.first_chunk()?;
    let first = u64::from_le_bytes(*first);
    Some((first, first.saturating_add(u64::from(u32::from_le_bytes(*count)))))
}

#[cfg(test)]
mod tests;
