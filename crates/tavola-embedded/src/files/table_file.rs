//! A table file (`NNNNNN.sst`): its footer, and blocks that are verified as they are read.
//!
//! ```text
//! block*   bytes, how they are packed (1 byte), checksum (4 bytes)
//! footer   kind of checksum (1 byte), 3E 00 7A 00, checksum of the footer (4 bytes), base of all checksums (4 bytes),
//!          size of the last block (4 bytes), zeros (24 bytes), version (4 bytes), magic number (8 bytes)
//! ```
//!
//! There is nothing between the blocks, so that every byte of the file is under a checksum.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::block::{Handle, TRAILER_BYTES};
use super::bytes::Bytes;
use super::checksum::{ChecksumKind, context};
use super::name_of;

pub(super) const FOOTER_BYTES: u64 = 53;
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0, 0x7a, 0];
/// Where the footer has its own checksum.
const CHECKSUM_AT: usize = 5;
/// Versions with a checksum in the footer.
const VERSIONS: std::ops::RangeInclusive<u32> = 6..=7;
pub(super) const NOT_PACKED: u8 = 0;
pub(super) const LZ4: u8 = 4;
pub(super) const ZSTD: u8 = 7;
/// A block holds one entity more than its usual size; nothing of ours comes near this.
pub(super) const UNPACKED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A table file on disk. It is opened for each read: there may be more files than descriptors.
#[derive(Debug)]
pub(crate) struct TableFile {
    path: PathBuf,
    pub(crate) bytes: u64,
    /// Where the last block ends.
    pub(super) end: u64,
    pub(super) checksums: Checksums,
    /// The block that names the others, except those with data. A file without a footer has none
    /// that is known.
    pub(super) meta_index: Option<Handle>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Checksums {
    pub(super) kind: ChecksumKind,
    /// Chosen at random for each file.
    pub(super) base: u32,
}

/// Why a part of a table file cannot be had.
#[derive(Debug)]
pub(crate) enum ReadFlaw {
    /// Its bytes are not what was written.
    Damaged(String),
    Io(io::Error),
}

impl ReadFlaw {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }

    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Damaged(what) => what,
            Self::Io(error) => format!("cannot be read: {error}"),
        }
    }
}

impl TableFile {
    /// Reads the footer.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadFlaw> {
        let file = File::open(path).map_err(ReadFlaw::Io)?;
        let bytes = file.metadata().map_err(ReadFlaw::Io)?.len();
        let Some(offset) = bytes.checked_sub(FOOTER_BYTES) else {
            return Err(ReadFlaw::damaged("the file is too short to be a table file"));
        };
        let mut footer = [0; FOOTER_BYTES as usize];
        file.read_exact_at(&mut footer, offset).map_err(ReadFlaw::Io)?;
        let (checksums, last_block_bytes) =
            read_footer(&footer, offset).map_err(ReadFlaw::damaged)?;
        let meta_index = offset
            .checked_sub(TRAILER_BYTES + u64::from(last_block_bytes))
            .map(|offset| Handle { offset, bytes: u64::from(last_block_bytes) })
            .ok_or_else(|| {
                ReadFlaw::damaged("the footer names a block that begins before the file")
            })?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            end: offset,
            checksums,
            meta_index: Some(meta_index),
        })
    }

    /// A file of which only the checksums are known.
    pub(super) fn without_footer(path: &Path, bytes: u64, checksums: Checksums) -> Self {
        Self { path: path.to_owned(), bytes, end: bytes, checksums, meta_index: None }
    }

    pub(crate) fn name(&self) -> String {
        name_of(&self.path)
    }

    /// A block, verified and unpacked.
    pub(crate) fn block(&self, handle: Handle) -> Result<Vec<u8>, ReadFlaw> {
        if handle.end() > self.end {
            return Err(ReadFlaw::damaged("the block ends behind the end of the file"));
        }
        let bytes = self.raw(handle.offset, handle.bytes + TRAILER_BYTES).map_err(ReadFlaw::Io)?;
        let (block, packed) = verify(&bytes, handle.offset, self.checksums)
            .ok_or_else(|| ReadFlaw::damaged("the block does not match its checksum"))?;
        unpack(block, packed).ok_or_else(|| {
            ReadFlaw::damaged("the block matches its checksum, but cannot be unpacked")
        })
    }

    /// How a block is packed, whether it is what was written or not.
    pub(crate) fn is_zstd(&self, handle: Handle) -> bool {
        self.raw(handle.offset.saturating_add(handle.bytes), 1).is_ok_and(|packed| packed == [ZSTD])
    }

    /// Bytes as they are stored.
    pub(super) fn raw(&self, offset: u64, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count as usize];
        File::open(&self.path)?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

/// The kind and base of checksums, and the size of the last block.
fn read_footer(
    footer: &[u8; FOOTER_BYTES as usize],
    offset: u64,
) -> Result<(Checksums, u32), &'static str> {
    const SHORT: &str = "the footer is too short";
    let mut bytes = Bytes(footer);
    let kind = bytes.byte().ok_or(SHORT)?;
    let (magic, stored) = (bytes.take(4).ok_or(SHORT)?, bytes.fixed32().ok_or(SHORT)?);
    let (base, last_block_bytes) = (bytes.fixed32().ok_or(SHORT)?, bytes.fixed32().ok_or(SHORT)?);
    bytes.take(24).ok_or(SHORT)?;
    let (version, end) = (bytes.fixed32().ok_or(SHORT)?, bytes.fixed64().ok_or(SHORT)?);
    if end != MAGIC || magic != EXTENDED_MAGIC || !VERSIONS.contains(&version) {
        return Err("the end of the file is not the footer of a table file");
    }
    let kind = ChecksumKind::from_byte(kind)
        .ok_or("the footer names a checksum that this version does not know")?;
    let mut covered = *footer;
    covered[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0);
    let [covered @ .., last] = &covered;
    if kind.of(covered, *last).wrapping_add(context(base, offset)) != stored {
        return Err("the footer does not match its checksum");
    }
    Ok((Checksums { kind, base }, last_block_bytes))
}

/// What a damaged footer has as the base of all checksums; a block must prove it.
pub(super) fn base_in_footer(file: &TableFile) -> io::Result<Option<u32>> {
    const BASE_AT: usize = CHECKSUM_AT + 4;
    let Some(offset) = file.bytes.checked_sub(FOOTER_BYTES) else { return Ok(None) };
    let footer = file.raw(offset, FOOTER_BYTES)?;
    Ok(Bytes(&footer[BASE_AT..]).fixed32().filter(|base| *base != 0))
}

/// The bytes of a block and how they are packed, if they match the checksum behind them.
pub(super) fn verify(bytes: &[u8], offset: u64, checksums: Checksums) -> Option<(&[u8], u8)> {
    let (covered, stored) = bytes.split_last_chunk()?;
    let (&packed, block) = covered.split_last()?;
    let found = checksums.kind.of(block, packed).wrapping_add(context(checksums.base, offset));
    (found == u32::from_le_bytes(*stored)).then_some((block, packed))
}

/// Undoes the packing of a block, which has the unpacked length in front.
pub(super) fn unpack(block: &[u8], packed: u8) -> Option<Vec<u8>> {
    if packed == NOT_PACKED {
        return Some(block.to_vec());
    }
    let mut bytes = Bytes(block);
    let length =
        usize::try_from(bytes.varint32()?).ok().filter(|length| *length <= UNPACKED_BYTES_MAX)?;
    let unpacked = match packed {
        LZ4 => lz4_flex::block::decompress(bytes.0, length).ok()?,
        ZSTD => zstd::bulk::decompress(bytes.0, length).ok()?,
        _ => return None,
    };
    (unpacked.len() == length).then_some(unpacked)
}
