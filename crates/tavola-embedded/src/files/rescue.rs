//! Blocks that no index leads to any more, found by their own form and checksum.
//!
//! Where one block ends the next begins, so that the first question is always asked there. Behind
//! bytes that are no block it is asked again at every byte, until a block is found: whatever is
//! between two blocks that can be read is accounted for as bytes that cannot.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::block::{Handle, TRAILER_BYTES, pairs};
use super::checksum::ChecksumKind;
use super::extent::sizes_by_form;
use super::table_file::{
    Checksums, NOT_PACKED, ReadFlaw, TableFile, base_in_footer, unpack, verify,
};

/// A block holds at most one entity (1 MiB) more than its usual size.
const BLOCK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// So much of a file is in memory at once.
const WINDOW_BYTES: u64 = 4 * BLOCK_BYTES_MAX as u64;
/// Blocks without a form that tells their size, such as those of filters, are smaller.
const FORMLESS_BYTES_MAX: usize = 32 * 1024;

/// What a part of a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A block that matches its checksum, unpacked.
    Block(Handle, Vec<u8>),
    /// Bytes in which no block can be found.
    Unreadable(Range<u64>),
}

/// Takes a part of a file apart. Every byte of it is in one of the pieces, which come in their
/// order.
pub(super) fn pieces(
    file: &TableFile,
    part: Range<u64>,
    visit: &mut dyn FnMut(Piece),
) -> io::Result<()> {
    let mut at = part.start;
    let mut unreadable_from = None;
    while at < part.end {
        let window = file.raw(at, (part.end - at).min(WINDOW_BYTES))?;
        let is_last = at + window.len() as u64 == part.end;
        let stop = if is_last { window.len() } else { window.len() - BLOCK_BYTES_MAX };
        let mut from = 0;
        while from < stop {
            let offset = at + from as u64;
            match block_at(&window[from..], offset, file.checksums, unreadable_from.is_none()) {
                Some((bytes, block)) => {
                    if let Some(start) = unreadable_from.take() {
                        visit(Piece::Unreadable(start..offset));
                    }
                    let handle = Handle { offset, bytes };
                    from += (handle.end() - offset) as usize;
                    visit(Piece::Block(handle, block));
                }
                None => {
                    unreadable_from.get_or_insert(offset);
                    from += 1;
                }
            }
        }
        at += from as u64;
    }
    if let Some(start) = unreadable_from {
        visit(Piece::Unreadable(start..part.end));
    }
    Ok(())
}

/// The block at the front of `bytes`: its size, and what is in it. One without a form is looked for
/// only where a block must begin, because every size that it may have is tried.
fn block_at(
    bytes: &[u8],
    offset: u64,
    checksums: Checksums,
    must_begin: bool,
) -> Option<(u64, Vec<u8>)> {
    let bytes = &bytes[..bytes.len().min(BLOCK_BYTES_MAX)];
    let matches = |size: usize| {
        let (block, packed) =
            verify(bytes.get(..size + TRAILER_BYTES as usize)?, offset, checksums)?;
        Some((size as u64, unpack(block, packed)?))
    };
    let by_form = sizes_by_form(bytes).find_map(|(size, _)| matches(size));
    by_form.or_else(|| if must_begin { formless_sizes(bytes).find_map(matches) } else { None })
}

/// Sizes that a block at the front of `bytes` may have that is not packed: behind it must stand
/// that it is not.
fn formless_sizes(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let end = bytes.len().saturating_sub(TRAILER_BYTES as usize - 1).min(FORMLESS_BYTES_MAX);
    (1..end).filter(|size| bytes[*size] == NOT_PACKED)
}

/// A file whose footer is lost, and with it the base of its checksums. A block whose size its form
/// tells gives the base that it would match; that another block matches the same one is the proof.
pub(super) fn without_footer(path: &Path) -> Result<TableFile, ReadFlaw> {
    let bytes = fs::metadata(path).map_err(ReadFlaw::Io)?.len();
    let kind = ChecksumKind::Xxh3;
    let with_base = |base| TableFile::without_footer(path, bytes, Checksums { kind, base });
    let unknown = with_base(0);
    if let Some(base) = base_in_footer(&unknown).map_err(ReadFlaw::Io)?
        && has_block(&with_base(base)).map_err(ReadFlaw::Io)?
    {
        return Ok(with_base(base));
    }
    let base = find_base(&unknown, kind).map_err(ReadFlaw::Io)?;
    base.map(with_base)
        .ok_or_else(|| ReadFlaw::damaged("no two blocks of it match their checksums"))
}

/// True if a block of the file matches its checksum.
fn has_block(file: &TableFile) -> io::Result<bool> {
    let mut found = false;
    pieces(file, 0..file.bytes.min(WINDOW_BYTES), &mut |piece| {
        found |= matches!(piece, Piece::Block(..))
    })?;
    Ok(found)
}

fn find_base(file: &TableFile, kind: ChecksumKind) -> io::Result<Option<u32>> {
    let mut votes: BTreeMap<u32, u32> = BTreeMap::new();
    let mut at = 0;
    while at < file.bytes {
        let window = file.raw(at, (file.bytes - at).min(WINDOW_BYTES))?;
        let is_last = at + window.len() as u64 == file.bytes;
        let stop = if is_last { window.len() } else { window.len() - BLOCK_BYTES_MAX };
        let mut from = 0;
        while from < stop {
            let Some((base, size)) = base_of(&window[from..], at + from as u64, kind) else {
                from += 1;
                continue;
            };
            let next = from + size;
            let votes = votes.entry(base).or_default();
            *votes += 1;
            let checksums = Checksums { kind, base };
            let goes_on = |rest| block_at(rest, at + next as u64, checksums, true).is_some();
            if *votes > 1 || window.get(next..).is_some_and(goes_on) {
                return Ok(Some(base));
            }
            // Its form is right, and its end may be wrong all the same: what looks like a block may
            // lie within one.
            from += 1;
        }
        at += from as u64;
    }
    Ok(None)
}

/// The base that would make the block at the front of `bytes` match, and its size with the trailer.
fn base_of(bytes: &[u8], offset: u64, kind: ChecksumKind) -> Option<(u32, usize)> {
    let bytes = &bytes[..bytes.len().min(BLOCK_BYTES_MAX)];
    sizes_by_form(bytes).find_map(|(size, packed)| {
        let end = size + TRAILER_BYTES as usize;
        let stored = bytes.get(size + 1..end)?.first_chunk::<4>()?;
        let block = &bytes[..size];
        // Only what has entries is worth the hash.
        pairs(&unpack(block, packed)?).filter(|pairs| !pairs.is_empty())?;
        let context = u32::from_le_bytes(*stored).wrapping_sub(kind.of(block, packed));
        Some((super::checksum::base_of(context, offset), end))
    })
}
