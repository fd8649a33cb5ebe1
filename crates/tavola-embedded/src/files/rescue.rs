//! Blocks of rows that no index leads to any more, found by their checksums.
//!
//! Blocks lie one after another, so that where one begins is known and only its size is not. A size is right if the
//! checksum behind it is: for a block of common size that is a hundred tries, because the byte before the checksum has
//! one of two values.

use std::fs;
use std::ops::Range;
use std::path::Path;

use super::block::{Handle, TRAILER_BYTES, entries};
use super::checksum::{ChecksumKind, context};
use super::structure::DataBlock;
use super::table_file::{Checksums, FOOTER_BYTES, ReadFlaw, TableFile, unpack, verify};

/// A block holds at most one entity (1 MiB) more than its usual size.
const BLOCK_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The blocks of rows in a part of a file, up to the first bytes that are none.
pub(super) fn data_blocks(file: &TableFile, part: Range<u64>) -> Vec<DataBlock> {
    let mut at = part.start;
    let mut found = Vec::new();
    while at < part.end {
        let window = (part.end - at).min(BLOCK_BYTES_MAX as u64);
        let Ok(bytes) = file.raw(at, window) else { break };
        let Some((size, last)) = first_block(&bytes, at, file.checksums) else { break };
        let handle = Handle { offset: at, bytes: size };
        at = handle.end();
        found.push(DataBlock { handle, above: Vec::new(), up_to: Some(last) });
    }
    found
}

/// The size of the block at the front of `bytes`, and its last key.
fn first_block(bytes: &[u8], offset: u64, checksums: Checksums) -> Option<(u64, Vec<u8>)> {
    sizes(bytes).find_map(|size| {
        let (block, packed) = verify(&bytes[..size + TRAILER_BYTES as usize], offset, checksums)?;
        let last = last_key(block, packed)?;
        Some((size as u64, last))
    })
}

/// Sizes that the block at the front of `bytes` may have: behind it must stand how it is packed.
fn sizes(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let trailer = TRAILER_BYTES as usize;
    (1..bytes.len().saturating_sub(trailer - 1)).filter(|size| matches!(bytes[*size], 0 | 4))
}

/// The last key of a block of rows; `None` if it is not one.
fn last_key(block: &[u8], packed: u8) -> Option<Vec<u8>> {
    let entries = entries(&unpack(block, packed)?)?;
    let ascending = entries.windows(2).all(|pair| pair[0].key <= pair[1].key);
    entries.into_iter().next_back().filter(|_| ascending).map(|entry| entry.key)
}

/// Finds the blocks of rows of a file whose footer is lost, and with it the base of its checksums. The first block tells
/// the base if its size is guessed right; that the next block then matches is the proof.
pub(super) fn without_footer(path: &Path) -> Result<(TableFile, Vec<DataBlock>), ReadFlaw> {
    let bytes = fs::metadata(path).map_err(ReadFlaw::Io)?.len();
    let kind = ChecksumKind::Xxh3;
    let unknown = TableFile::without_footer(path, bytes, Checksums { kind, base: 0 });
    let window = bytes.min(2 * BLOCK_BYTES_MAX as u64);
    let front = unknown.raw(0, window).map_err(ReadFlaw::Io)?;
    for size in sizes(&front) {
        let end = size + TRAILER_BYTES as usize;
        let (&[packed, ref stored @ ..], block) = (&front[size..end], &front[..size]) else { continue };
        let Some(stored) = stored.first_chunk::<4>() else { continue };
        // Only a block of rows is worth the hash.
        if last_key(block, packed).is_none() {
            continue;
        }
        // At the front of the file the context of a checksum is the base itself.
        let base = u32::from_le_bytes(*stored).wrapping_sub(kind.of(block, packed));
        let checksums = Checksums { kind, base };
        debug_assert_eq!(context(base, 0), base);
        let next = front.get(end..).unwrap_or_default();
        let is_last = next.len() as u64 <= FOOTER_BYTES;
        if is_last || sizes(next).any(|size| verify(&next[..size + 5], end as u64, checksums).is_some()) {
            let file = TableFile::without_footer(path, bytes, checksums);
            let found = data_blocks(&file, 0..bytes);
            return Ok((file, found));
        }
    }
    Err(ReadFlaw::damaged("no block of rows is at the front of the file"))
}
