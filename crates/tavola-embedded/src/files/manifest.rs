//! The record of files: which table files and logs the engine's data consists of.
//!
//! Each record of a `MANIFEST` is an edit: tagged fields, one after another. Those that say which
//! files there are come out here; the others are passed over.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use super::bytes::Bytes;
use super::log::{Record, records};

/// The bytes at the end of a key in a table file or in the record of files: its sequence number and
/// kind.
pub(crate) const KEY_TRAILER_BYTES: usize = 8;

/// A table file that holds data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveFile {
    pub(crate) level: u32,
    pub(crate) bytes: u64,
    /// Its first key and its last one, both in it; the last may also be a bound that is not in it.
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    pub(crate) largest_is_bound: bool,
    /// The sequence numbers between which those of its entries are. Zero is a number that was
    /// forgotten.
    pub(crate) sequences: RangeInclusive<u64>,
    /// How many of its bytes, from the end, are not rows, if that was recorded.
    pub(crate) tail_bytes: Option<u64>,
}

impl LiveFile {
    /// More rows than these the file cannot have.
    pub(crate) fn rows_max(&self) -> u64 {
        let tail = self.tail_bytes.unwrap_or(self.bytes);
        let by_filter = rows_of_tail_max(tail);
        // As long as no number was forgotten, each entry has its own.
        let by_number = (*self.sequences.start() > 0).then(|| {
            self.sequences.end().saturating_sub(*self.sequences.start()).saturating_add(1)
        });
        by_number.map_or(by_filter, |by_number| by_number.min(by_filter))
    }
}

/// More rows than these a file cannot have whose index, filter and properties together have so many
/// bytes. The filter has ten bits for each key (`options.rs`), of which the engine may spare a
/// quarter to fit its memory, and in its last part as many as make 64 bytes full.
pub(crate) fn rows_of_tail_max(bytes: u64) -> u64 {
    const LAST_PART: u64 = 72;
    /// The names of the properties alone are longer than this.
    const PROPERTIES_MIN: u64 = 600;
    let filter = bytes.saturating_sub(PROPERTIES_MIN);
    filter.saturating_add(filter / 15).saturating_add(LAST_PART)
}

/// What the record of files says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) files: BTreeMap<u64, LiveFile>,
    /// Files that held data once; others have it since.
    pub(crate) removed: BTreeMap<u64, LiveFile>,
    /// Logs that are needed, with the bytes of each that were synced, as far as that was recorded.
    /// The engine does not open without them.
    pub(crate) logs: BTreeMap<u64, u64>,
    /// Logs with lower numbers are in table files already.
    pub(crate) log_number: u64,
    /// Up to this sequence number everything is in table files. A memtable becomes a table file at
    /// level 0, whose highest number is that of the memtable's last write: each write ends with the
    /// record of the last version, which is newer than all others of its key and so is never left
    /// out. What was flushed before this record of files was begun is told by its first edit that
    /// says a number.
    pub(crate) flushed: u64,
    /// Records that match their checksums, and how many of them were understood.
    pub(crate) records: u64,
    pub(crate) edits: u64,
    begun: bool,
    /// Logs with lower numbers were removed.
    logs_from: u64,
}

/// A place at which the record of files is not as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ManifestFlaw {
    pub(crate) offset: u64,
    pub(crate) what: String,
}

/// The name of the record of files that counts, as `CURRENT` has it.
///
/// # Errors
/// What the file says instead.
pub(crate) fn current(folder: &Path) -> io::Result<Result<String, String>> {
    let bytes = fs::read(folder.join("CURRENT"))?;
    let name = String::from_utf8_lossy(&bytes);
    let number = name.strip_prefix("MANIFEST-").and_then(|rest| rest.strip_suffix('\n'));
    let is_name = number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    Ok(if is_name { Ok(name.trim_end().to_owned()) } else { Err(name.into_owned()) })
}

impl Manifest {
    /// Reads the record of files, as far as it is whole: what follows a flaw builds on what is
    /// missing.
    pub(crate) fn read(path: &Path) -> io::Result<(Self, Vec<ManifestFlaw>)> {
        let (mut manifest, mut flaws, mut is_torn) = (Self::default(), Vec::new(), false);
        records(path, &mut |record| match record {
            Record::Whole { .. } if is_torn => {}
            Record::Whole { payload, offset } => {
                manifest.records += 1;
                if manifest.apply(payload).is_none() {
                    let what = "an edit matches its checksum, but is none that this version knows"
                        .to_owned();
                    flaws.push(ManifestFlaw { offset, what });
                }
            }
            Record::Flaw { offset, what } => {
                is_torn = true;
                flaws.push(ManifestFlaw { offset, what: what.to_owned() });
            }
        })?;
        Ok((manifest, flaws))
    }

    /// Carries out one edit; `None` if it cannot be read.
    fn apply(&mut self, edit: &[u8]) -> Option<()> {
        let mut bytes = Bytes(edit);
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        while !bytes.is_empty() {
            match bytes.varint32()? {
                tag::COMPARATOR | tag::COLUMN_FAMILY_ADD => drop(bytes.prefixed()?),
                tag::LOG_NUMBER => self.log_number = self.log_number.max(bytes.varint64()?),
                tag::LAST_SEQUENCE => {
                    let sequence = bytes.varint64()?;
                    if !std::mem::replace(&mut self.begun, true) {
                        self.flushed = self.flushed.max(sequence);
                    }
                }
                tag::NEXT_FILE
                | tag::LOG_BEFORE
                | tag::LOG_TO_KEEP
                | tag::COLUMN_FAMILY_MAX
                | tag::GROUP => {
                    bytes.varint64()?;
                }
                // There is one column family, and its number is 0.
                tag::COLUMN_FAMILY => (bytes.varint32()? == 0).then_some(())?,
                tag::COMPACT_CURSOR => {
                    bytes.varint32()?;
                    bytes.prefixed()?;
                }
                tag::FILE_REMOVED => removed.push((bytes.varint32()?, bytes.varint64()?)),
                tag::FILE_ADDED => added.push(added_file(&mut bytes)?),
                tag::LOG_SYNCED => self.log_synced(Bytes(bytes.prefixed()?))?,
                tag::LOGS_REMOVED => {
                    self.logs_from = self.logs_from.max(Bytes(bytes.prefixed()?).varint64()?);
                    self.logs = self.logs.split_off(&self.logs_from);
                }
                // Old forms, of which the length is not known.
                tag::WAL_ADDED_OLD | tag::WAL_REMOVED_OLD => return None,
                other if other & tag::MAY_BE_IGNORED != 0 => drop(bytes.prefixed()?),
                _ => return None,
            }
        }
        // A file may move to another level: the edit removes it there and adds it here.
        for (level, number) in removed {
            if self.files.get(&number).is_some_and(|file| file.level == level) {
                self.removed.extend(self.files.remove_entry(&number));
            }
        }
        for (number, largest_sequence, file) in added {
            if file.level == 0 {
                self.flushed = self.flushed.max(largest_sequence);
            }
            self.removed.remove(&number);
            self.files.insert(number, file);
        }
        self.edits += 1;
        Some(())
    }

    /// A log's number, and how many bytes of it were synced, if any were yet. It may be told after
    /// the log was removed.
    fn log_synced(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        let number = bytes.varint64()?;
        if bytes.varint32()? == tag::SYNCED_BYTES && number >= self.logs_from {
            let synced = self.logs.entry(number).or_default();
            *synced = (*synced).max(bytes.varint64()?);
        }
        Some(())
    }
}

mod tag {
    pub(super) const COMPARATOR: u32 = 1;
    pub(super) const LOG_NUMBER: u32 = 2;
    pub(super) const NEXT_FILE: u32 = 3;
    pub(super) const LAST_SEQUENCE: u32 = 4;
    pub(super) const COMPACT_CURSOR: u32 = 5;
    pub(super) const FILE_REMOVED: u32 = 6;
    pub(super) const LOG_BEFORE: u32 = 9;
    pub(super) const LOG_TO_KEEP: u32 = 10;
    pub(super) const FILE_ADDED: u32 = 103;
    pub(super) const COLUMN_FAMILY: u32 = 200;
    pub(super) const COLUMN_FAMILY_ADD: u32 = 201;
    pub(super) const COLUMN_FAMILY_MAX: u32 = 203;
    pub(super) const GROUP: u32 = 300;
    /// Fields with this bit have a length, so that a reader that does not know them can skip them.
    pub(super) const MAY_BE_IGNORED: u32 = 1 << 13;
    pub(super) const WAL_ADDED_OLD: u32 = MAY_BE_IGNORED + 4;
    pub(super) const WAL_REMOVED_OLD: u32 = MAY_BE_IGNORED + 5;
    pub(super) const LOG_SYNCED: u32 = MAY_BE_IGNORED + 7;
    pub(super) const LOGS_REMOVED: u32 = MAY_BE_IGNORED + 8;
    /// In the first of them: how many bytes.
    pub(super) const SYNCED_BYTES: u32 = 2;
    /// Ends the fields of a new file.
    pub(super) const FILE_END: u32 = 1;
    pub(super) const FILE_TAIL_BYTES: u32 = 15;
    /// Fields of a new file that must be understood have this bit.
    pub(super) const FILE_MUST_KNOW: u32 = 1 << 6;
}

/// Its number, its highest sequence number, and what else there is to know.
fn added_file(bytes: &mut Bytes<'_>) -> Option<(u64, u64, LiveFile)> {
    /// The highest sequence number marks a bound: no key of the file has it.
    const BOUND: u64 = (1 << 56) - 1;
    let level = bytes.varint32()?;
    let (number, size) = (bytes.varint64()?, bytes.varint64()?);
    let (smallest, _) = split_key(bytes.prefixed()?)?;
    let (largest, trailer) = split_key(bytes.prefixed()?)?;
    let sequences = bytes.varint64()?..=bytes.varint64()?;
    let largest_sequence = *sequences.end();
    let mut tail_bytes = None;
    loop {
        match bytes.varint32()? {
            tag::FILE_END => break,
            tag::FILE_TAIL_BYTES => tail_bytes = Some(Bytes(bytes.prefixed()?).varint64()?),
            other if other & tag::FILE_MUST_KNOW != 0 => return None,
            _ => drop(bytes.prefixed()?),
        }
    }
    let largest_is_bound = trailer >> 8 == BOUND;
    let (smallest, largest) = (smallest.to_vec(), largest.to_vec());
    let file =
        LiveFile { level, bytes: size, smallest, largest, largest_is_bound, sequences, tail_bytes };
    Some((number, largest_sequence, file))
}

/// A key as it was written, and its sequence number and kind.
pub(super) fn split_key(bytes: &[u8]) -> Option<(&[u8], u64)> {
    let (key, trailer) = bytes.split_last_chunk::<KEY_TRAILER_BYTES>()?;
    Some((key, u64::from_le_bytes(*trailer)))
}
