//! The key bytes of an entity, shared by engines that order rows by their key's bytes.
//!
//! ```text
//! table id      8 bytes, big endian
//! PartitionKey  UTF-8 with remapped lead bytes, then 0x00
//! RowKey        UTF-8 with remapped lead bytes, to the end
//! ```
//!
//! Byte order is the order of the service: UTF-8 bytes order as UTF-16 code units once the lead
//! bytes EE and EF rank above F4 ([`tavola_core::key::lead_rank`]), and no legal key has a byte
//! below 0x20, so that 0x00 ends a PartitionKey before any longer one begins. Encoded bytes never
//! exceed F6; FF is above all of them.

use std::borrow::Cow;

use memchr::memchr;
use tavola_core::key::lead_rank;
use tavola_core::{Cut, EntityAddress, EntityKey, PartitionKey, RowKey, TableId};

use crate::error::StoreError;

const TABLE_BYTES: usize = 8;
/// Ends a PartitionKey; as the last byte of a bound it means "just after this RowKey".
const PARTITION_END: u8 = 0x00;
/// The smallest byte above [`PARTITION_END`]: after all rows of the partition, before any longer
/// PartitionKey.
const AFTER_PARTITION: u8 = 0x01;
/// No key of the table reaches it.
const AFTER_TABLE: u8 = 0xFF;
/// Legal keys have no control characters.
const KEY_BYTE_MIN: u8 = 0x20;

/// The key bytes of an entity.
#[must_use]
pub fn encode_address(address: &EntityAddress) -> Vec<u8> {
    encode_key(address.table, &address.key.partition_key, &address.key.row_key)
}

/// The key bytes of an entity.
#[must_use]
pub fn encode_key(table: TableId, partition_key: &PartitionKey, row_key: &RowKey) -> Vec<u8> {
    let mut out = encode_partition(table, partition_key);
    put_text(&mut out, row_key.as_str());
    debug_assert_eq!(
        try_decode(&out).map(|key| (key.table, key.partition_key, key.row_key)),
        Some((table, partition_key.as_str().into(), row_key.as_str().into())),
        "key bytes decode to the key that they encode"
    );
    out
}

/// What the key bytes of all entities of a partition begin with.
#[must_use]
pub fn encode_partition(table: TableId, partition_key: &PartitionKey) -> Vec<u8> {
    let mut out = encode_unterminated(table, partition_key);
    out.push(PARTITION_END);
    out
}

/// A bound for byte keys: a key is behind the cut exactly if its bytes are equal to the bound
/// or above it.
#[must_use]
pub fn encode_cut(table: TableId, cut: &Cut) -> Vec<u8> {
    let (mut out, last) = match cut {
        Cut::Start => return table.number().to_be_bytes().to_vec(),
        Cut::Before(key) => return encode_key(table, &key.partition_key, &key.row_key),
        Cut::After(key) => (encode_key(table, &key.partition_key, &key.row_key), PARTITION_END),
        Cut::AfterPartition(partition_key) => {
            (encode_unterminated(table, partition_key), AFTER_PARTITION)
        }
        Cut::End => (table.number().to_be_bytes().to_vec(), AFTER_TABLE),
    };
    out.push(last);
    out
}

fn encode_unterminated(table: TableId, partition_key: &PartitionKey) -> Vec<u8> {
    // Most often a RowKey follows; this capacity is enough for two keys of common length.
    let mut out = Vec::with_capacity(TABLE_BYTES + 2 * partition_key.as_str().len() + 32);
    out.extend_from_slice(&table.number().to_be_bytes());
    put_text(&mut out, partition_key.as_str());
    out
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().map(lead_rank));
}

/// The bytes of one key's text alone, for engines that keep the keys of an entity apart. Their
/// order is the service's.
#[must_use]
pub fn encode_text(text: &str) -> Vec<u8> {
    text.bytes().map(lead_rank).collect()
}

/// The text of one key's bytes.
///
/// # Errors
/// [`StoreError::Corrupt`] if [`encode_text`] cannot have written them.
pub fn decode_text(bytes: &[u8]) -> Result<Cow<'_, str>, StoreError> {
    get_text(bytes).ok_or_else(|| corrupt(bytes))
}

fn corrupt(bytes: &[u8]) -> StoreError {
    StoreError::Corrupt(format!("key bytes {bytes:02x?}"))
}

/// Key bytes taken apart; the texts are borrowed wherever encoding left them as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedKey<'a> {
    /// The table.
    pub table: TableId,
    /// The PartitionKey's text.
    pub partition_key: Cow<'a, str>,
    /// The RowKey's text.
    pub row_key: Cow<'a, str>,
}

/// Takes key bytes apart.
///
/// # Errors
/// [`StoreError::Corrupt`] if [`encode_key`] cannot have written them.
pub fn decode_key(bytes: &[u8]) -> Result<DecodedKey<'_>, StoreError> {
    try_decode(bytes).ok_or_else(|| corrupt(bytes))
}

fn try_decode(bytes: &[u8]) -> Option<DecodedKey<'_>> {
    let (table, rest) = bytes.split_first_chunk::<TABLE_BYTES>()?;
    let end = memchr(PARTITION_END, rest)?;
    Some(DecodedKey {
        table: TableId::new(u64::from_be_bytes(*table)),
        partition_key: get_text(&rest[..end])?,
        row_key: get_text(&rest[end + 1..])?,
    })
}

fn get_text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    // Most keys, and found out without a branch for each byte.
    let is_visible = |byte: u8| (KEY_BYTE_MIN..0x80).contains(&byte);
    if bytes.iter().fold(true, |all, byte| all & is_visible(*byte)) {
        return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
    }
    if bytes.iter().any(|&byte| byte < KEY_BYTE_MIN) {
        return None;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        // Plain UTF-8 is what was written unless it has a lead byte that encoding would have
        // replaced.
        let remapped = bytes.iter().any(|&byte| lead_rank(byte) != byte);
        return (!remapped).then_some(Cow::Borrowed(text));
    }
    let restored = bytes.iter().map(|&byte| unrank(byte)).collect::<Option<Vec<u8>>>()?;
    String::from_utf8(restored).ok().map(Cow::Owned)
}

/// The inverse of [`lead_rank`]; `None` for the two bytes that it never returns.
fn unrank(byte: u8) -> Option<u8> {
    match byte {
        0xEE | 0xEF => None,
        0xF5 => Some(0xEE),
        0xF6 => Some(0xEF),
        other => Some(other),
    }
}

/// The keys of stored texts.
///
/// # Errors
/// [`StoreError::Corrupt`] if they break a rule of keys.
pub fn entity_key(partition_key: &str, row_key: &str) -> Result<EntityKey, StoreError> {
    let corrupt =
        |error| StoreError::Corrupt(format!("key {partition_key:?}, {row_key:?}: {error}"));
    let checked = (
        PartitionKey::stored(partition_key).map_err(corrupt)?,
        RowKey::stored(row_key).map_err(corrupt)?,
    );
    Ok(EntityKey::new(checked.0, checked.1))
}

#[cfg(test)]
mod tests;
