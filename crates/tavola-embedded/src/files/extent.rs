//! How many bytes a block has whose place is known and whose size is not, from its own structure.
//!
//! A packed block begins with its unpacked length, so that reading on until so much has come out
//! finds its end; zstd says it in its frames. A block that is not packed ends with a list of places
//! in it. So a block is found at the price of one walk over it, and at most places of a file, where
//! none begins, the walk ends after a few bytes. That the checksum behind the end matches is the
//! proof, and is left to the caller.

use super::bytes::Bytes;
use super::table_file::{LZ4, NOT_PACKED, UNPACKED_BYTES_MAX, ZSTD};

/// Frames of zstd begin with these bytes.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The sizes that a block at the front of `bytes` may have by its form, each with how it would be
/// packed.
pub(super) fn sizes_by_form(bytes: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let sizes = [
        (packed_bytes(bytes, lz4_bytes), LZ4),
        (packed_bytes(bytes, zstd_bytes), ZSTD),
        (plain_bytes(bytes), NOT_PACKED),
    ];
    let is_followed_by = |size: usize, packed: u8| bytes.get(size) == Some(&packed);
    let sizes = sizes.map(|(size, packed)| {
        size.filter(|size| is_followed_by(*size, packed)).map(|size| (size, packed))
    });
    sizes.into_iter().flatten()
}

/// A length in front, then so much packed.
fn packed_bytes(bytes: &[u8], packed: fn(&[u8], usize) -> Option<usize>) -> Option<usize> {
    let mut rest = Bytes(bytes);
    let length = usize::try_from(rest.varint32()?).ok()?;
    if length == 0 || length > UNPACKED_BYTES_MAX {
        return None;
    }
    let front = bytes.len() - rest.0.len();
    Some(front + packed(rest.0, length)?)
}

fn zstd_bytes(bytes: &[u8], _length: usize) -> Option<usize> {
    bytes
        .starts_with(&ZSTD_MAGIC)
        .then(|| zstd::zstd_safe::find_frame_compressed_size(bytes).ok())?
}

/// Sequences of literals and of copies from what came before; the last one has literals only.
fn lz4_bytes(bytes: &[u8], length: usize) -> Option<usize> {
    const COPY_BYTES_MIN: usize = 4;
    let mut rest = Bytes(bytes);
    let mut unpacked = 0_usize;
    loop {
        let token = rest.byte()?;
        let literals = lz4_count(&mut rest, token >> 4)?;
        rest.take(literals)?;
        unpacked += literals;
        if unpacked == length {
            return Some(bytes.len() - rest.0.len());
        }
        let (low, high) = (rest.byte()?, rest.byte()?);
        let distance = usize::from(u16::from_le_bytes([low, high]));
        let copied = lz4_count(&mut rest, token & 15)? + COPY_BYTES_MIN;
        if unpacked > length || distance == 0 || distance > unpacked {
            return None;
        }
        unpacked += copied;
    }
}

/// Four bits, and as many bytes more as say that there is more.
fn lz4_count(rest: &mut Bytes<'_>, bits: u8) -> Option<usize> {
    let mut count = usize::from(bits);
    if bits == 15 {
        loop {
            let more = rest.byte()?;
            count += usize::from(more);
            if more < u8::MAX {
                break;
            }
        }
    }
    Some(count)
}

/// Entries with keys, and where the list of their places begins there is one without a key.
fn plain_bytes(bytes: &[u8]) -> Option<usize> {
    let mut rest = Bytes(bytes);
    let (mut whole_keys, mut key_bytes) = (Vec::new(), 0);
    loop {
        let at = bytes.len() - rest.0.len();
        let before = rest;
        let (shared, unshared, value) = (rest.varint32()?, rest.varint32()?, rest.varint32()?);
        if shared == 0 && unshared == 0 {
            return restarts_end(before, &whole_keys).map(|left| bytes.len() - left);
        }
        if shared as usize > key_bytes {
            return None;
        }
        if shared == 0 {
            whole_keys.push(u32::try_from(at).ok()?);
        }
        rest.take(unshared as usize)?;
        rest.take(value as usize)?;
        key_bytes = shared as usize + unshared as usize;
    }
}

/// Bytes that are left behind the list of places of whole keys, which ends with its own length. An
/// entry has more than one byte, so that a place is never taken for that length.
fn restarts_end(mut rest: Bytes<'_>, whole_keys: &[u32]) -> Option<usize> {
    let mut count = 0_u32;
    let mut last = None;
    loop {
        let number = rest.fixed32()?;
        if count > 0 && number == count {
            return Some(rest.0.len());
        }
        if last.is_some_and(|last| last >= number) || whole_keys.binary_search(&number).is_err() {
            return None;
        }
        last = Some(number);
        count += 1;
    }
}
