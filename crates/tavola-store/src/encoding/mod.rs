//! An entity as bytes that are read in place.
//!
//! The bytes of a row are checked once, when a [`RowRef`] or [`Row`] is made; after that every read
//! walks them and builds no map. `docs/format.md` draws the layout; `value.rs` is the only code
//! that knows it.

mod select;
mod value;

use std::fmt;

use tavola_core::{
    EdmRef, EntityKey, EntityView, PartitionKey, Properties, RowKey, Text, Timestamp,
};

use crate::error::StoreError;
use value::ValueRef;

pub use select::RowFilter;
pub use value::{FORMAT_VERSION, encode_value, encode_value_into};

/// An entity whose bytes are elsewhere: in an engine's block, or in a [`Row`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RowRef<'a> {
    partition_key: Text<'a>,
    row_key: Text<'a>,
    value: ValueRef<'a>,
}

impl<'a> RowRef<'a> {
    /// Checks the whole value, so that no read after this can fail.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes are not what [`encode_value`] writes.
    pub fn new(
        partition_key: &'a str,
        row_key: &'a str,
        value: &'a [u8],
    ) -> Result<Self, StoreError> {
        let value =
            ValueRef::new(value).map_err(|damage| Self::damaged(partition_key, row_key, damage))?;
        Ok(Self { partition_key: partition_key.into(), row_key: row_key.into(), value })
    }

    fn damaged(partition_key: &str, row_key: &str, damage: &str) -> StoreError {
        StoreError::Corrupt(format!(
            "row of PartitionKey {partition_key:?}, RowKey {row_key:?}: {damage}"
        ))
    }

    /// Copies the entity out, in one allocation.
    #[must_use]
    pub fn to_row(&self) -> Row {
        let value = self.value.as_bytes();
        let (partition_key, row_key) = (self.partition_key.as_bytes(), self.row_key.as_bytes());
        let value_at = partition_key.len() + row_key.len();
        let mut bytes = Vec::with_capacity(value_at + value.len());
        for part in [partition_key, row_key, value] {
            bytes.extend_from_slice(part);
        }
        Row { row_key_at: partition_key.len(), value_at, bytes }
    }
}

impl EntityView for RowRef<'_> {
    fn partition_key(&self) -> Text<'_> {
        self.partition_key
    }

    fn row_key(&self) -> Text<'_> {
        self.row_key
    }

    fn timestamp(&self) -> Timestamp {
        self.value.timestamp()
    }

    fn property(&self, name: &str) -> Option<EdmRef<'_>> {
        self.value.property(name)
    }

    fn visit(&self, visit: &mut dyn FnMut(Text<'_>, EdmRef<'_>)) {
        self.value.properties().for_each(|(name, value)| visit(name, value));
    }
}

impl fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entity = f.debug_struct("Row");
        entity.field("PartitionKey", &self.partition_key).field("RowKey", &self.row_key);
        entity.field("Timestamp", &self.timestamp());
        self.value.properties().for_each(|(name, value)| {
            entity.field(name.as_str(), &value);
        });
        entity.finish()
    }
}

/// An entity in encoded form, owned: one buffer with the PartitionKey, the RowKey and the value,
/// one after another.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    bytes: Vec<u8>,
    row_key_at: usize,
    value_at: usize,
}

impl Row {
    /// Copies and checks a row's parts.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the value is not what [`encode_value`] writes.
    pub fn new(partition_key: &str, row_key: &str, value: &[u8]) -> Result<Self, StoreError> {
        Ok(RowRef::new(partition_key, row_key, value)?.to_row())
    }

    /// Encodes an entity.
    #[must_use]
    pub fn encode(
        partition_key: &PartitionKey,
        row_key: &RowKey,
        properties: &Properties,
        timestamp: Timestamp,
    ) -> Self {
        let (partition_key, row_key) = (partition_key.as_str(), row_key.as_str());
        let mut bytes = Vec::new();
        bytes.extend_from_slice(partition_key.as_bytes());
        bytes.extend_from_slice(row_key.as_bytes());
        encode_value_into(properties, timestamp, &mut bytes);
        Self {
            bytes,
            row_key_at: partition_key.len(),
            value_at: partition_key.len() + row_key.len(),
        }
    }

    /// The row without its buffer.
    #[must_use]
    pub fn as_row_ref(&self) -> RowRef<'_> {
        RowRef {
            partition_key: self.partition_key(),
            row_key: self.row_key(),
            value: ValueRef::checked_before(self.value()),
        }
    }

    /// The encoded value: what a store keeps under the row's key.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.value_at..]
    }

    /// Bytes that the row takes in memory; what [`crate::Scan::bytes_max`] counts.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The same entity with a version that is at most `max`.
    #[must_use]
    pub fn with_version_up_to(mut self, max: Timestamp) -> Self {
        if self.timestamp() > max {
            value::set_timestamp(&mut self.bytes[self.value_at..], max);
        }
        self
    }

    /// Which entity it is.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the keys break a rule of the domain, which only a damaged row
    /// can.
    pub fn key(&self) -> Result<EntityKey, StoreError> {
        crate::keys::entity_key(self.partition_key().as_str(), self.row_key().as_str())
    }
}

impl EntityView for Row {
    fn partition_key(&self) -> Text<'_> {
        Text::checked_before(&self.bytes[..self.row_key_at])
    }

    fn row_key(&self) -> Text<'_> {
        Text::checked_before(&self.bytes[self.row_key_at..self.value_at])
    }

    fn timestamp(&self) -> Timestamp {
        ValueRef::checked_before(self.value()).timestamp()
    }

    fn property(&self, name: &str) -> Option<EdmRef<'_>> {
        ValueRef::checked_before(self.value()).property(name)
    }

    fn visit(&self, visit: &mut dyn FnMut(Text<'_>, EdmRef<'_>)) {
        ValueRef::checked_before(self.value())
            .properties()
            .for_each(|(name, value)| visit(name, value));
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_row_ref(), f)
    }
}

#[cfg(test)]
mod tests;
