//! The checksums of the engine's files.

use twox_hash::XxHash3_64;

/// CRC32C, masked as the engine masks it: a checksum of data that holds checksums would be weak.
pub(crate) fn masked_crc32c(bytes: &[u8]) -> u32 {
    const MASK: u32 = 0xa282_ead8;
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

/// Which checksum a table file has. We let the engine choose, and it chooses the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecksumKind {
    Crc32c,
    Xxh3,
}

impl ChecksumKind {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Crc32c),
            4 => Some(Self::Xxh3),
            _ => None,
        }
    }

    /// The checksum of `bytes` followed by `last`.
    pub(super) fn of(self, bytes: &[u8], last: u8) -> u32 {
        /// How the engine mixes the last byte in, instead of hashing it.
        const LAST_BYTE_FACTOR: u32 = 0x6b90_83d9;
        match self {
            Self::Crc32c => masked_crc32c(&[bytes, &[last]].concat()),
            Self::Xxh3 => {
                (XxHash3_64::oneshot(bytes) as u32) ^ u32::from(last).wrapping_mul(LAST_BYTE_FACTOR)
            }
        }
    }
}

/// What is added to the checksum of the bytes at `offset`, so that bytes at a wrong place or of
/// another file do not match.
pub(super) fn context(base: u32, offset: u64) -> u32 {
    if base == 0 { 0 } else { base ^ (offset as u32).wrapping_add((offset >> 32) as u32) }
}

/// The base from which [`context`] makes this at `offset`.
pub(super) fn base_of(context: u32, offset: u64) -> u32 {
    context ^ (offset as u32).wrapping_add((offset >> 32) as u32)
}
