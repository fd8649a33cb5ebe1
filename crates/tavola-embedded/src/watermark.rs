//! The durable watermark: how far writes were acknowledged, in a file beside the engine's.
//!
//! A log that was cut at the end of a record looks like one that never was longer, although the
//! missing writes were acknowledged. Only a record outside the log reveals that. So after each sync
//! of the log the sequence number of its last write goes into `SYNCED`, in place and without a sync
//! of its own, and only then do the answers leave.
//!
//! It is never ahead of the log, because it is written after the sync, whatever the disk does with
//! it later. So a log that ends before it has lost writes; that is never a false alarm. It may lag
//! behind by what the system had not yet written when the power failed; a lost tail of that size
//! stays unnoticed.
//!
//! There are two lines, written in turn: a disk that fails in the middle of one, or a bit that
//! changes in it, leaves the other. Which of the two was newer is then unknown; the whole line is
//! true, and counts.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::OpenError;
use crate::folder::sync_folder;
use crate::private_files::{create_file, open_for_writing};

/// The file's name in the data folder.
pub(crate) const NAME: &str = "SYNCED";
const UNFINISHED: &str = "SYNCED.new";
const PREFIX: &str = "tavola-synced: ";

/// Why it is unknown how far writes were acknowledged.
#[derive(Debug)]
pub(crate) enum WatermarkError {
    Damaged(String),
    Io(PathBuf, io::Error),
}

/// The open file.
#[derive(Debug)]
pub(crate) struct DurableWatermark {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The highest number that was written since the file was opened.
    sequence: u64,
    /// The index of the line that is written next. After a failed write it stays, so that the other
    /// line stays whole.
    next: usize,
    /// A write has failed. Only the first failure is logged.
    failed: bool,
}

const NUMBER_DIGITS: usize = 20;
const CHECKSUM_DIGITS: usize = 8;
const LINE_BYTES: usize = PREFIX.len() + NUMBER_DIGITS + 1 + CHECKSUM_DIGITS + 1;

/// A line has a fixed length, so that it is overwritten in place. Formatted by hand: every group
/// writes one.
fn line(sequence: u64) -> [u8; LINE_BYTES] {
    let mut line = [b' '; LINE_BYTES];
    line[..PREFIX.len()].copy_from_slice(PREFIX.as_bytes());
    let (number, rest) = line[PREFIX.len()..].split_at_mut(NUMBER_DIGITS);
    put_digits(number, sequence, 10);
    put_digits(&mut rest[1..=CHECKSUM_DIGITS], u64::from(crc32c::crc32c(number)), 16);
    rest[1 + CHECKSUM_DIGITS] = b'\n';
    line
}

fn put_digits(place: &mut [u8], mut number: u64, base: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number % base) as usize];
        number /= base;
    }
    assert_eq!(number, 0, "the line has a place for every digit");
}

fn parse(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(PREFIX.as_bytes())?.get(..NUMBER_DIGITS)?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (text == line(number)).then_some(number)
}

/// The numbers of the two lines; `None` is a line that is not whole. No numbers at all if it is not
/// such a file.
fn lines(text: &[u8]) -> Option<[Option<u64>; 2]> {
    let (first, second) = text.split_at_checked(LINE_BYTES)?;
    let numbers = [parse(first), parse(second)];
    (second.len() == LINE_BYTES && numbers != [None, None]).then_some(numbers)
}

/// Up to this sequence number writes were acknowledged.
fn acknowledged(numbers: [Option<u64>; 2]) -> u64 {
    match numbers {
        [Some(one), Some(other)] => one.max(other),
        [Some(one), None] | [None, Some(one)] => one,
        [None, None] => 0,
    }
}

/// The sequence number up to which writes are known to have been acknowledged; `None` in a folder
/// of a version that did not write it.
pub(crate) fn read(folder: &Path) -> Result<Option<u64>, WatermarkError> {
    let path = folder.join(NAME);
    match fs::read(&path) {
        Ok(text) => lines(&text).map(|numbers| Some(acknowledged(numbers))).ok_or_else(|| {
            WatermarkError::Damaged(format!(
                "its file {NAME}, which says how far writes were acknowledged, is not one that this software writes; \
                 without the file the folder opens, and a log that lost its end is not noticed"
            ))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(WatermarkError::Io(path, error)),
    }
}

/// True if one of the two lines of the file is not whole.
pub(crate) fn has_bad_line(folder: &Path) -> bool {
    fs::read(folder.join(NAME))
        .is_ok_and(|text| lines(&text).is_some_and(|numbers| numbers.contains(&None)))
}

impl DurableWatermark {
    /// Opens the file of a folder whose last write has this sequence number; it is made if it is
    /// missing.
    pub(crate) fn open(folder: &Path, sequence: u64) -> Result<Self, OpenError> {
        let path = folder.join(NAME);
        if !path.try_exists().map_err(OpenError::io("look for", &path))? {
            create(folder, sequence)?;
        }
        let text = fs::read(&path).map_err(OpenError::io("read", &path))?;
        let file = open_for_writing(&path).map_err(OpenError::io("open", &path))?;
        // The line that is not whole, or the older one: `None` is less than every number.
        let next = usize::from(lines(&text).is_some_and(|[first, second]| second < first));
        let watermark =
            Self { file, state: Mutex::new(State { sequence: 0, next, failed: false }) };
        if has_bad_line(folder) {
            tracing::warn!("one of the two lines of {NAME} was damaged; the other one counts");
            watermark.advance(sequence);
        }
        Ok(watermark)
    }

    /// Writes up to this sequence number are on disk, and are answered next. A lower number than
    /// before changes nothing.
    pub(crate) fn advance(&self, sequence: u64) {
        let mut state = self.lock();
        if sequence > state.sequence {
            self.write(&mut state, sequence);
        }
    }

    /// Advances for the last time, and syncs the file, so that it survives a loss of power too.
    pub(crate) fn close(&self, sequence: u64) {
        self.advance(sequence);
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(%error, "cannot sync {NAME}");
        }
    }

    fn write(&self, state: &mut State, sequence: u64) {
        assert!(sequence > state.sequence, "the watermark never falls");
        assert!(state.next < 2, "there are two lines");
        match self.file.write_all_at(&line(sequence), (state.next * LINE_BYTES) as u64) {
            Ok(()) => {
                state.sequence = sequence;
                state.next = 1 - state.next;
            }
            Err(error) if !std::mem::replace(&mut state.failed, true) => {
                tracing::warn!(%error, "cannot write {NAME}; a log that loses its end will not be noticed");
            }
            Err(_) => {}
        }
    }

    // A panic under this lock leaves the state as it was, so poisoning means nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Written beside and renamed: a crash leaves none or a whole one.
fn create(folder: &Path, sequence: u64) -> Result<(), OpenError> {
    let unfinished = folder.join(UNFINISHED);
    let write = || {
        let mut file = create_file(&unfinished)?;
        file.write_all(&line(sequence).repeat(2))?;
        file.sync_all()?;
        fs::rename(&unfinished, folder.join(NAME))
    };
    write().map_err(OpenError::io("write", &unfinished))?;
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_version_1() {
        assert_eq!(&line(7), b"tavola-synced: 00000000000000000007 98116b43\n");
        assert_eq!(parse(&line(u64::MAX)), Some(u64::MAX));
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let sound = line(1_234_567);
        for at in 0..sound.len() {
            for bit in 0..8 {
                let mut changed = sound;
                changed[at] ^= 1 << bit;
                assert_eq!(parse(&changed), None, "bit {bit} of byte {at}");
            }
            assert_eq!(parse(&sound[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn it_is_created_once_and_overwritten_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(NAME);
        assert_eq!(read(folder.path()).unwrap(), None);
        DurableWatermark::open(folder.path(), 5).unwrap();
        assert_eq!(read(folder.path()).unwrap(), Some(5));
        for number in 6..12 {
            // Opened again it goes on with the older line.
            DurableWatermark::open(folder.path(), 99).unwrap().advance(number);
            assert_eq!(read(folder.path()).unwrap(), Some(number));
            assert_eq!(fs::read(&file).unwrap().len(), 2 * LINE_BYTES);
        }
        for damage in [b"x".to_vec(), Vec::new(), line(1).to_vec(), line(1).repeat(3)] {
            fs::write(&file, &damage).unwrap();
            assert!(matches!(read(folder.path()), Err(WatermarkError::Damaged(_))), "{damage:?}");
        }
    }

    #[test]
    fn every_number_is_written_and_none_falls() {
        let folder = tempfile::tempdir().unwrap();
        let watermark = DurableWatermark::open(folder.path(), 1).unwrap();
        for number in 2..200 {
            watermark.advance(number);
            assert_eq!(read(folder.path()).unwrap(), Some(number));
        }
        watermark.advance(4);
        watermark.close(199);
        assert_eq!(read(folder.path()).unwrap(), Some(199));
    }

    /// A disk that fails in the middle of a line, or a bit that changes in it, must not make a
    /// sound folder look damaged.
    #[test]
    fn a_bad_line_leaves_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(NAME);
        for bad_line in [0, 1] {
            let text = [line(7), line(8)];
            for cut in 1..LINE_BYTES - 1 {
                let mut bytes = text.concat();
                bytes[bad_line * LINE_BYTES + cut] = b'x';
                fs::write(&file, &bytes).unwrap();
                let whole = [8, 7][bad_line];
                assert_eq!(read(folder.path()).unwrap(), Some(whole));
                assert!(has_bad_line(folder.path()));
                DurableWatermark::open(folder.path(), whole + 5).unwrap();
                assert_eq!(
                    read(folder.path()).unwrap(),
                    Some(whole + 5),
                    "the bad line is written anew"
                );
                assert!(!has_bad_line(folder.path()));
                assert_eq!(lines(&fs::read(&file).unwrap()).unwrap()[1 - bad_line], Some(whole));
            }
        }
    }
}
