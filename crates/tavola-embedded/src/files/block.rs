//! The entries of one block of a table file, after its checksum was verified and its bytes were
//! unpacked.
//!
//! ```text
//! per entry: shared (varint), unshared (varint), length of the value (varint), end of the key, value
//! restarts   4 bytes each: where keys are whole
//! count      4 bytes: of the restarts
//! ```
//!
//! `shared` bytes of a key are those of the key before. In an index the value is the place of a
//! block: an entry whose key shares nothing has it whole, another has only the difference to the
//! size of the one before. There the value has no length.

use super::batch::{DELETE, Entry, Kind, PUT, SINGLE_DELETE};
use super::bytes::Bytes;
use super::manifest::split_key;

/// The place of a block, without its trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Between a block and the next: how it was packed (1 byte), and its checksum (4 bytes).
pub(crate) const TRAILER_BYTES: u64 = 5;

impl Handle {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self { offset: bytes.varint64()?, bytes: bytes.varint64()? })
    }

    /// Where the next block begins.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.bytes).saturating_add(TRAILER_BYTES)
    }
}

/// The part of a block that has entries. Its end says how many restarts there are, which are of no
/// use here.
fn entries_part(block: &[u8]) -> Option<&[u8]> {
    let (rest, count) = block.split_last_chunk()?;
    // The highest bits would say that the block has another form.
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let restarts = count.checked_mul(4)?;
    rest.get(..rest.len().checked_sub(restarts)?).filter(|_| count > 0)
}

/// Keys and values; `None` if the block is not one.
pub(super) fn pairs(block: &[u8]) -> Option<Vec<(Vec<u8>, &[u8])>> {
    let mut bytes = Bytes(entries_part(block)?);
    let mut pairs: Vec<(Vec<u8>, &[u8])> = Vec::new();
    while !bytes.is_empty() {
        let (shared, unshared, length) = (bytes.varint32()?, bytes.varint32()?, bytes.varint32()?);
        let before: &[u8] = pairs.last().map_or(&[], |(key, _)| key);
        let key = [before.get(..shared as usize)?, bytes.take(unshared as usize)?].concat();
        pairs.push((key, bytes.take(length as usize)?));
    }
    Some(pairs)
}

/// The versions of keys that a block of data holds.
pub(super) fn entries(block: &[u8]) -> Option<Vec<Entry>> {
    pairs(block)?.into_iter().map(|(key, value)| entry(key, value)).collect()
}

fn entry(mut key: Vec<u8>, value: &[u8]) -> Option<Entry> {
    let (user, trailer) = split_key(&key)?;
    let kind = match trailer as u8 {
        PUT => Kind::Put(value.to_vec()),
        DELETE | SINGLE_DELETE => Kind::Delete,
        _ => return None,
    };
    key.truncate(user.len());
    Some(Entry { key, sequence: trailer >> 8, kind })
}

/// How an index was written; the properties of the file say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexForm {
    pub(super) keys_have_trailer: bool,
    pub(super) values_are_differences: bool,
}

/// The blocks that an index names, each with a key that none of its keys exceeds.
pub(super) fn handles(block: &[u8], form: IndexForm) -> Option<Vec<(Vec<u8>, Handle)>> {
    if !form.values_are_differences {
        let handle = |(key, value): (Vec<u8>, &[u8])| Some((key, Handle::read(&mut Bytes(value))?));
        return pairs(block)?
            .into_iter()
            .map(handle)
            .map(|found| without_trailer(found?, form))
            .collect();
    }
    let mut bytes = Bytes(entries_part(block)?);
    let mut found: Vec<(Vec<u8>, Handle)> = Vec::new();
    while !bytes.is_empty() {
        let (shared, unshared) = (bytes.varint32()?, bytes.varint32()?);
        let before: &[u8] = found.last().map_or(&[], |(key, _)| key);
        let key = [before.get(..shared as usize)?, bytes.take(unshared as usize)?].concat();
        let handle = match found.last() {
            Some((_, before)) if shared > 0 => {
                let size = i128::from(before.bytes) + i128::from(bytes.signed_varint64()?);
                Handle { offset: before.end(), bytes: u64::try_from(size).ok()? }
            }
            _ => Handle::read(&mut bytes)?,
        };
        found.push((key, handle));
    }
    found.into_iter().map(|found| without_trailer(found, form)).collect()
}

fn without_trailer(
    (mut key, handle): (Vec<u8>, Handle),
    form: IndexForm,
) -> Option<(Vec<u8>, Handle)> {
    if form.keys_have_trailer {
        key.truncate(split_key(&key)?.0.len());
    }
    Some((key, handle))
}
