//! The records of the engine's logs: write-ahead logs, and the record of files.
//!
//! A log is a sequence of blocks of 32 KiB; a record is one fragment, or several that each stay
//! within a block:
//!
//! ```text
//! checksum  4 bytes  CRC32C of kind and payload, masked
//! length    2 bytes  little endian, of the payload
//! kind      1 byte   1 whole record, 2 first, 3 middle, 4 last fragment
//! payload
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::checksum::masked_crc32c;

pub(crate) const BLOCK_BYTES: usize = 32 * 1024;
pub(crate) const HEADER_BYTES: usize = 7;
pub(crate) const WHOLE: u8 = 1;
pub(crate) const FIRST: u8 = 2;
pub(crate) const MIDDLE: u8 = 3;
pub(crate) const LAST: u8 = 4;
/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What comes next in a log.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// A fragment that matches its checksum.
    Fragment { kind: u8, payload: &'a [u8], offset: u64 },
    /// Bytes that are none. What follows is the next place at which a fragment begins.
    Flaw { offset: u64, what: &'static str, unwritten: bool },
}

/// Reads a log to its end, however damaged; the number of bytes that it has.
pub(crate) fn pieces<E>(
    path: &Path,
    failed: impl Fn(io::Error) -> E,
    visit: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let mut source = File::open(path).map_err(&failed)?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut offset = 0;
    loop {
        block.clear();
        (&mut source).take(BLOCK_BYTES as u64).read_to_end(&mut block).map_err(&failed)?;
        pieces_of_block(&block, offset, visit)?;
        offset += block.len() as u64;
        if block.len() < BLOCK_BYTES {
            return Ok(offset);
        }
    }
}

fn pieces_of_block<E>(
    block: &[u8],
    offset: u64,
    visit: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut at = 0;
    while block.len() - at >= HEADER_BYTES {
        match fragment(&block[at..]) {
            Ok((kind, payload)) => {
                visit(Piece::Fragment { kind, payload, offset: offset + at as u64 })?;
                at += HEADER_BYTES + payload.len();
            }
            Err(what) => {
                let unwritten = looks_unwritten(block, at);
                visit(Piece::Flaw { offset: offset + at as u64, what, unwritten })?;
                // The length cannot be trusted either: the next fragment is wherever one is whole.
                let next = (at + 1..block.len()).find(|&next| is_fragment(&block[next..]));
                at = next.unwrap_or(block.len());
            }
        }
    }
    // In a whole block these are the zeros after the last fragment; in the last one, a torn header.
    if at < block.len() && block.len() < BLOCK_BYTES {
        visit(Piece::Flaw {
            offset: offset + at as u64,
            what: "a record is cut off",
            unwritten: true,
        })?;
    }
    Ok(())
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
    if masked_crc32c(&bytes[HEADER_BYTES - 1..HEADER_BYTES + length])
        != u32::from_le_bytes([c0, c1, c2, c3])
    {
        return Err("a record does not match its checksum");
    }
    Ok((kind, payload))
}

/// True if a fragment of a record is at the front of `bytes`. The cheap question first: it is asked
/// at every byte.
fn is_fragment(bytes: &[u8]) -> bool {
    matches!(bytes.get(HEADER_BYTES - 1), Some(&(WHOLE | FIRST | MIDDLE | LAST)))
        && fragment(bytes).is_ok()
}

/// True if the record at `at` was cut off by the end of the file, or has a sector that still reads
/// as zeros. Appended bytes that a crash kept from the disk look like this; a flipped byte does
/// not.
fn looks_unwritten(block: &[u8], at: usize) -> bool {
    let length = match block[at..].first_chunk::<HEADER_BYTES>() {
        // A crash leaves the kind as it was written, or zero. The engine never ends reading some of
        // the others.
        Some([.., kind]) if *kind > LAST => return false,
        Some([.., low, high, _]) => usize::from(u16::from_le_bytes([*low, *high])),
        None => return true,
    };
    let end = at + HEADER_BYTES + length;
    if end > block.len() {
        let is_last_block = block.len() < BLOCK_BYTES;
        // The checksum does not cover the length: if it matches all that follows, only the length
        // was changed.
        let stored = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        return is_last_block && masked_crc32c(&block[at + HEADER_BYTES - 1..]) != stored;
    }
    // Blocks begin at sectors. The first sector may hold the end of an older record before this
    // one.
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

/// A record put together from its fragments, or the lack of one.
#[derive(Debug)]
pub(crate) enum Record<'a> {
    /// Its fragments are all there.
    Whole { payload: &'a [u8], offset: u64 },
    /// One or more records are not there, or not whole.
    Flaw { offset: u64, what: &'static str },
}

/// Reads the records of a log to its end, however damaged; the number of bytes that it has.
pub(crate) fn records(path: &Path, visit: &mut impl FnMut(Record<'_>)) -> io::Result<u64> {
    let mut open: Option<(u64, Vec<u8>)> = None;
    let bytes = pieces(path, |error| error, &mut |piece| {
        match piece {
            Piece::Fragment { kind: kind @ (WHOLE | FIRST), payload, offset } => {
                if let Some((offset, _)) = open.take() {
                    visit(Record::Flaw { offset, what: "a record has no end" });
                }
                match kind {
                    WHOLE => visit(Record::Whole { payload, offset }),
                    _ => open = Some((offset, payload.to_vec())),
                }
            }
            Piece::Fragment { kind: kind @ (MIDDLE | LAST), payload, offset } => {
                match open.take() {
                    Some((start, mut whole)) => {
                        whole.extend_from_slice(payload);
                        match kind {
                            LAST => visit(Record::Whole { payload: &whole, offset: start }),
                            _ => open = Some((start, whole)),
                        }
                    }
                    None => visit(Record::Flaw { offset, what: "a record has no beginning" }),
                }
            }
            // Not a record: what later versions of the engine add beside them.
            Piece::Fragment { .. } => {}
            Piece::Flaw { offset, what, .. } => {
                let offset = open.take().map_or(offset, |(start, _)| start);
                visit(Record::Flaw { offset, what });
            }
        }
        Ok(())
    })?;
    if let Some((offset, _)) = open {
        visit(Record::Flaw { offset, what: "a record has no end" });
    }
    Ok(bytes)
}
