//! Reads the engine's logs before the engine does, to distinguish a crash in the middle of a write
//! from damage.
//!
//! No recovery mode of the engine draws that line where we need it
//! (docs/decisions/001-recovery-of-the-log.md): the lenient ones silently drop acknowledged writes
//! behind some flipped bytes, the strict one refuses a torn tail. But the line can be drawn,
//! because we sync every write before the next begins: a crash can tear only the *last* record. So
//! a flaw is a torn tail if no record begins behind it and it looks like bytes that never reached
//! the disk; everything else is damage, and the folder is not opened.
//!
//! `files::log` knows the layout of a log; a write's payload begins with its sequence
//! number (8 bytes) and its count of changes (4 bytes), from which the next one's sequence number
//! follows.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::files::log::{FIRST, LAST, MIDDLE, Piece, WHOLE, pieces};
use crate::files::manifest::{self, Manifest};
use crate::files::{name_of, numbered};
use crate::private_files::open_for_writing;
use crate::watermark;

/// Of a write: its sequence number and its count of changes.
const HEAD_BYTES: usize = 12;

/// What the logs of a folder that may be opened look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogState {
    /// Every record is there.
    Whole,
    /// The last write, which was not acknowledged, is missing or not whole.
    TornTail,
}

/// Why a folder must not be opened.
#[derive(Debug)]
pub(crate) enum LogError {
    /// Which file, where, and why this is not a torn tail.
    Damaged(String),
    Io(PathBuf, io::Error),
}

/// A folder that may be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) logs: LogState,
    /// The record of files ends with an edit that was torn by a crash.
    pub(crate) torn_edit: Option<TornEdit>,
}

/// An edit of the record of files that never reached the disk whole, so that nothing relied on it.
/// The engine takes one that is cut off for what it is, and one with sectors that were never
/// written for damage; so it is cut off for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TornEdit {
    path: PathBuf,
    offset: u64,
}

impl TornEdit {
    /// Cuts it off, and gives what was cut off.
    pub(crate) fn cut_off(&self) -> Result<Vec<u8>, OpenError> {
        let cut = || {
            let file = File::open(&self.path)?;
            let mut tail = vec![0; file.metadata()?.len().saturating_sub(self.offset) as usize];
            file.read_exact_at(&mut tail, self.offset)?;
            let file = open_for_writing(&self.path)?;
            file.set_len(self.offset)?;
            file.sync_all()?;
            Ok(tail)
        };
        cut().map_err(OpenError::io("cut off the torn end of", &self.path))
    }

    /// Puts back what was cut off.
    pub(crate) fn put_back(&self, tail: &[u8]) -> io::Result<()> {
        let file = open_for_writing(&self.path)?;
        file.write_all_at(tail, self.offset)?;
        file.sync_all()
    }
}

/// Checks the write-ahead logs and the record of files in an engine's folder. `synced` is the
/// sequence number of the last write that is known to have been acknowledged, if one is.
pub(crate) fn check(folder: &Path, synced: Option<u64>) -> Result<Checked, LogError> {
    let (manifest, torn_edit) = check_manifest(folder)?;
    let logs = numbered(folder, "log").map_err(|error| LogError::Io(folder.to_owned(), error))?;
    // The engine always has one; only a crash while it was created leaves none, and then there is
    // no table file either.
    if logs.is_empty()
        && !numbered(folder, "sst")
            .map_err(|error| LogError::Io(folder.to_owned(), error))?
            .is_empty()
    {
        return Err(LogError::Damaged("there is no log".to_owned()));
    }
    let log_number = manifest.as_ref().map_or(0, |manifest| manifest.log_number);
    let mut walk = Walk::new(Kind::Writes);
    walk.flushed = manifest.map(|manifest| manifest.flushed);
    // What is in older logs is in table files too; the engine does not look at them any more.
    for (_, log) in logs.iter().filter(|(number, _)| *number >= log_number) {
        walk.file(log)?;
    }
    walk.conclude(synced).map(|logs| Checked { logs, torn_edit })
}

/// The file that names all others. Its records have no sequence numbers. Several may share a sync,
/// so that a crash can tear one that whole ones follow: then everything from it on was never relied
/// on, and what was is there if all files are that the rest names; the numbers of writes tell the
/// same of the logs. `None` if it holds something that only the engine understands.
pub(crate) fn check_manifest(
    folder: &Path,
) -> Result<(Option<Manifest>, Option<TornEdit>), LogError> {
    let current = folder.join("CURRENT");
    let name = manifest::current(folder).map_err(|error| LogError::Io(current, error))?;
    let path = match &name {
        Ok(name) if folder.join(name).exists() => folder.join(name),
        Ok(name) | Err(name) => {
            let name: String = name.trim_end().chars().take(40).collect();
            return Err(LogError::Damaged(format!(
                "its file CURRENT names {name:?}, which is not there"
            )));
        }
    };
    let mut walk = Walk::new(Kind::Files);
    walk.file(&path)?;
    let torn_edit =
        walk.flaw.as_ref().map(|flaw| TornEdit { path: path.clone(), offset: flaw.record });
    let followed = walk.followed.take();
    walk.conclude(None)?;
    let (manifest, _flaws) =
        Manifest::read(&path).map_err(|error| LogError::Io(path.clone(), error))?;
    let understood = manifest.edits == manifest.records;
    if let Some(followed) = followed
        && !(understood && manifest.records > 0 && has_all_files(folder, &manifest)?)
    {
        return Err(followed);
    }
    if manifest.records == 0 {
        return Err(LogError::Damaged(format!(
            "its file {} holds no record of files",
            name_of(&path)
        )));
    }
    Ok((Some(manifest).filter(|_| understood), torn_edit))
}

fn has_all_files(folder: &Path, manifest: &Manifest) -> Result<bool, LogError> {
    let there = numbered(folder, "sst").map_err(|error| LogError::Io(folder.to_owned(), error))?;
    Ok(manifest.files.keys().all(|number| there.iter().any(|(there, _)| there == number)))
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
    /// Where the record with the flaw begins.
    record: u64,
    what: &'static str,
    /// It looks like bytes that never reached the disk.
    unwritten: bool,
}

/// A record that has begun.
struct Open {
    start: u64,
    /// Its first bytes, as many as its sequence number and count take. The first fragment may hold
    /// fewer, at the end of a block.
    head: Vec<u8>,
    /// The sequence number of the next write, once the head is whole.
    after: Option<u64>,
}

/// A walk over the records of some logs, in their order.
struct Walk {
    kind: Kind,
    file: String,
    /// The record whose first fragment was read and whose last was not.
    open: Option<Open>,
    /// The sequence number of the next write, known once one was read.
    sequence_next: Option<u64>,
    /// Up to this sequence number everything is in table files, if that is known.
    flushed: Option<u64>,
    flaw: Option<Flaw>,
    /// There was a torn tail from which the engine has recovered before.
    recovered_before: bool,
    /// Edits of the record of files follow the flaw: damage, unless they shared its sync.
    followed: Option<LogError>,
}

impl Walk {
    fn new(kind: Kind) -> Self {
        let (open, sequence_next, flushed, flaw) = (None, None, None, None);
        let (recovered_before, followed) = (false, None);
        Self {
            kind,
            file: String::new(),
            open,
            sequence_next,
            flushed,
            flaw,
            recovered_before,
            followed,
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), LogError> {
        self.file = name_of(path);
        let failed = |error| LogError::Io(path.to_owned(), error);
        pieces(path, failed, &mut |piece| match piece {
            Piece::Fragment { kind, payload, offset } => self.fragment(kind, payload, offset),
            Piece::Flaw { offset, what, unwritten } => {
                let record = self.open.take().map_or(offset, |open| open.start);
                self.found(offset, record, what, unwritten);
                Ok(())
            }
        })?;
        if let Some(Open { start, .. }) = self.open.take() {
            self.found(start, start, "a record has no end", true);
        }
        Ok(())
    }

    fn fragment(&mut self, kind: u8, payload: &[u8], offset: u64) -> Result<(), LogError> {
        match (kind, self.open.take()) {
            (WHOLE | FIRST, open) => {
                if let Some(Open { start, .. }) = open {
                    self.found(start, start, "a record has no end", false);
                }
                self.go_on(
                    Open { start: offset, head: Vec::new(), after: None },
                    payload,
                    kind == WHOLE,
                )
            }
            // Without its first fragment it belongs to the record at the flaw.
            (MIDDLE | LAST, None) => {
                self.found(offset, offset, "a record has no beginning", false);
                Ok(())
            }
            (MIDDLE | LAST, Some(open)) => self.go_on(open, payload, kind == LAST),
            (_, open) => {
                self.open = open;
                Ok(())
            }
        }
    }

    /// A record has one more fragment.
    fn go_on(&mut self, mut open: Open, payload: &[u8], is_last: bool) -> Result<(), LogError> {
        assert!(open.head.len() <= HEAD_BYTES, "no more than a head is kept of a record");
        let missing = HEAD_BYTES - open.head.len();
        open.head.extend_from_slice(&payload[..missing.min(payload.len())]);
        // A record is evaluated once, as soon as its head is whole; a shorter one at its end.
        if missing > 0 && (open.head.len() == HEAD_BYTES || is_last) {
            open.after = self.record_begins(&open.head, open.start)?;
        }
        if is_last {
            self.sequence_next = open.after;
        } else {
            self.open = Some(open);
        }
        Ok(())
    }

    /// A record behind a flaw means that the flaw was once whole, unless the numbering goes on as
    /// if there had been nothing: then the engine has recovered from that torn tail before, and
    /// could not yet remove the old log. Without a flaw the numbering goes on too, or a whole write
    /// is missing.
    fn record_begins(&mut self, payload: &[u8], offset: u64) -> Result<Option<u64>, LogError> {
        let (first, after) = sequence(payload).filter(|_| self.kind == Kind::Writes).unzip();
        let goes_on = first.and_then(|first| match (self.sequence_next, self.flushed) {
            (Some(next), _) => Some(first == next),
            (None, Some(flushed)) => Some(first <= flushed.saturating_add(1)),
            (None, None) => None,
        });
        // A number that comes again is not one that is missing: after a failed write the engine
        // uses it once more.
        let is_gap = goes_on == Some(false) && self.flushed.is_some() && first > self.sequence_next;
        match self.flaw.take() {
            Some(flaw) if self.kind == Kind::Files && flaw.unwritten => {
                let what = format!("{flaw}, and whole records follow it");
                self.followed.get_or_insert(LogError::Damaged(what));
                self.flaw = Some(flaw);
            }
            Some(flaw) if goes_on != Some(true) => {
                return Err(LogError::Damaged(format!("{flaw}, and whole records follow it")));
            }
            Some(_) => self.recovered_before = true,
            None if is_gap => {
                let what = "writes before this one are missing";
                let flaw = Flaw {
                    file: self.file.clone(),
                    offset,
                    record: offset,
                    what,
                    unwritten: false,
                };
                return Err(LogError::Damaged(flaw.to_string()));
            }
            None => {}
        }
        Ok(after)
    }

    fn found(&mut self, offset: u64, record: u64, what: &'static str, unwritten: bool) {
        let file = &self.file;
        self.flaw.get_or_insert_with(|| Flaw {
            file: file.clone(),
            offset,
            record,
            what,
            unwritten,
        });
    }

    fn conclude(self, synced: Option<u64>) -> Result<LogState, LogError> {
        let there = self.sequence_next.map(|next| next.saturating_sub(1)).or(self.flushed);
        if let (Some(synced), Some(there)) = (synced, there)
            && there < synced
            && self.flaw.as_ref().is_none_or(|flaw| flaw.unwritten)
        {
            return Err(LogError::Damaged(format!(
                "its file {} says that writes up to number {synced} were acknowledged, and its logs and table files end \
                 with number {there}",
                watermark::NAME
            )));
        }
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
