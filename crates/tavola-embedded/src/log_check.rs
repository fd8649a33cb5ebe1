//! Reads the engine's logs before the engine does, and tells a crash in the middle of a write from damage.
//!
//! No recovery mode of the engine draws that line where we need it (docs/decisions/001-recovery-of-the-log.md): the
//! lenient ones silently drop acknowledged writes behind some flipped bytes, the strict one refuses a torn tail. But
//! the line can be drawn, because we sync every write before the next begins: a crash can tear only the *last* record.
//! So a flaw is a torn tail if no record begins behind it and it looks like bytes that never reached the disk;
//! everything else is damage, and the folder is not opened.
//!
//! A log is a sequence of blocks of 32 KiB; a record is one fragment, or several that each stay within a block:
//!
//! ```text
//! checksum  4 bytes  CRC32C of kind and payload, masked
//! length    2 bytes  little endian, of the payload
//! kind      1 byte   1 whole record, 2 first, 3 middle, 4 last fragment
//! payload            of a write: sequence number (8 bytes), count of changes (4 bytes), the changes
//! ```

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const BLOCK_BYTES: usize = 32 * 1024;
const HEADER_BYTES: usize = 7;
const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;
/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

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
fn check_manifest(folder: &Path) -> Result<(), LogError> {
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

/// The engine's numbered files of one kind, oldest first.
fn files_with(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, LogError> {
    let failed = |error| LogError::Io(folder.to_owned(), error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|found| found == extension)) {
            files.push((number, path));
        }
    }
    files.sort();
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
        let failed = |error| LogError::Io(path.to_owned(), error);
        self.file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut source = File::open(path).map_err(failed)?;
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        let mut offset = 0;
        loop {
            block.clear();
            (&mut source).take(BLOCK_BYTES as u64).read_to_end(&mut block).map_err(failed)?;
            self.block(&block, offset)?;
            offset += block.len() as u64;
            if block.len() < BLOCK_BYTES {
                break;
            }
        }
        if let Some((start, _)) = self.open.take() {
            self.found(start, "a record has no end", true);
        }
        Ok(())
    }

    fn block(&mut self, block: &[u8], offset: u64) -> Result<(), LogError> {
        let mut at = 0;
        while block.len() - at >= HEADER_BYTES {
            match fragment(&block[at..]) {
                Ok((kind, payload)) => {
                    self.fragment(kind, payload, offset + at as u64)?;
                    at += HEADER_BYTES + payload.len();
                }
                Err(what) => {
                    self.open = None;
                    self.found(offset + at as u64, what, looks_unwritten(block, at));
                    // The length cannot be trusted either: the next fragment is wherever one is whole.
                    let next = (at + 1..block.len()).find(|&next| is_fragment(&block[next..]));
                    at = next.unwrap_or(block.len());
                }
            }
        }
        // In a whole block these are the zeros after the last fragment; in the last one, a torn header.
        if at < block.len() && block.len() < BLOCK_BYTES {
            self.found(offset + at as u64, "a record is cut off", true);
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

/// The fragment at the front of `bytes`, which end with the block or the file.
fn fragment(bytes: &[u8]) -> Result<(u8, &[u8]), &'static str> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err("a record is cut off");
    };
    let [c0, c1, c2, c3, low, high, kind] = *header;
    let length = usize::from(u16::from_le_bytes([low, high]));
    if kind == 0 {
        return Err("there are zeros instead of a record");
    }
    let payload = rest.get(..length).ok_or("a record is cut off")?;
    if checksum(&bytes[HEADER_BYTES - 1..HEADER_BYTES + length]) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err("a record does not match its checksum");
    }
    Ok((kind, payload))
}

/// True if a fragment of a record is at the front of `bytes`. The cheap question first: it is asked at every byte.
fn is_fragment(bytes: &[u8]) -> bool {
    matches!(bytes.get(HEADER_BYTES - 1), Some(&(WHOLE | FIRST | MIDDLE | LAST))) && fragment(bytes).is_ok()
}

/// CRC32C, masked as the engine masks it: a checksum of data that holds checksums would be weak.
fn checksum(bytes: &[u8]) -> u32 {
    const MASK: u32 = 0xa282_ead8;
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

/// The sequence number of a write, and the one after it.
fn sequence(payload: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = payload.split_first_chunk()?;
    let count = rest.first_chunk()?;
    let first = u64::from_le_bytes(*first);
    Some((first, first.saturating_add(u64::from(u32::from_le_bytes(*count)))))
}

/// True if the record at `at` was cut off by the end of the file, or has a sector that still reads as zeros. Appended
/// bytes that a crash kept from the disk look like this; a flipped byte does not.
fn looks_unwritten(block: &[u8], at: usize) -> bool {
    let length = match block[at..].first_chunk::<HEADER_BYTES>() {
        Some([.., low, high, _]) => usize::from(u16::from_le_bytes([*low, *high])),
        None => return true,
    };
    let end = at + HEADER_BYTES + length;
    if end > block.len() {
        let is_last_block = block.len() < BLOCK_BYTES;
        // The checksum does not cover the length: if it matches all that follows, only the length was changed.
        let stored = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        return is_last_block && checksum(&block[at + HEADER_BYTES - 1..]) != stored;
    }
    // Blocks begin at sectors. The first sector may hold the end of an older record before this one.
    let mut from = at;
    while from < end {
        let sector_end = (from / SECTOR_BYTES + 1) * SECTOR_BYTES;
        if block[from..sector_end.min(block.len())].iter().all(|&byte| byte == 0) {
            return true;
        }
        from = sector_end;
    }
    false
}

#[cfg(test)]
mod tests;
