//! Entities as JSON, at the three levels of metadata.
//!
//! Reading order: [`read_entity`] (`read.rs`, on the members that `members.rs` finds, with the
//! words of `fault.rs`), then [`write_entity`] and [`write_entity_set`] (`write.rs`, on the texts
//! of `text.rs` and `date_text.rs`). The client's side of each stands beside the server's.

mod fault;
mod members;
mod read;
pub(in crate::table) mod seed;
#[cfg(test)]
mod tests;
pub(in crate::table) mod text;
mod write;

use tavola_core::entity::Properties;
use tavola_core::{DomainError, ETag, Entity, EntityKey, PartitionKey, RowKey, Timestamp};

pub(in crate::table) use read::parse;
pub use read::{decode_entity, decode_entity_set, read_entity};
pub(in crate::table) use write::entity_url;
pub use write::{encode_entity_body, entity_url_path, write_entity, write_entity_set};

/// Why a body is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyError {
    /// Not JSON, not an object, or a value that is not of its declared type; in words that may be
    /// shown.
    Malformed(String),
    /// A key that is no text, or is declared to be something else; in words that may be shown.
    InvalidKey(String),
    /// Understood, and against a rule of the domain.
    Refused(DomainError),
}

impl From<DomainError> for BodyError {
    fn from(domain_error: DomainError) -> Self {
        Self::Refused(domain_error)
    }
}

/// What the body of an insert, replace or merge says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EntityBody {
    /// `None` if absent or null.
    pub partition_key: Option<PartitionKey>,
    /// `None` if absent or null.
    pub row_key: Option<RowKey>,
    /// The entity's own properties, in the order of the body; nulls are left out.
    pub properties: Properties,
}

/// An entity as a client received it. With `$select` any part may be missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DecodedEntity {
    /// The partition's key.
    pub partition_key: Option<PartitionKey>,
    /// The row's key.
    pub row_key: Option<RowKey>,
    /// When the entity was last written.
    pub timestamp: Option<Timestamp>,
    /// The version, opaque.
    pub etag: Option<ETag>,
    /// The entity's own properties.
    pub properties: Properties,
}

impl DecodedEntity {
    /// The whole entity; `None` if `$select` left out a system property.
    #[must_use]
    pub fn into_entity(self) -> Option<Entity> {
        let key = EntityKey::new(self.partition_key?, self.row_key?);
        Some(Entity { key, timestamp: self.timestamp?, properties: self.properties })
    }
}

/// How much an answer says about its own types and addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataLevel {
    /// `odata=nometadata`
    None,
    /// `odata=minimalmetadata`
    Minimal,
    /// `odata=fullmetadata`
    Full,
}

/// What the URLs of an answer are made of.
#[derive(Debug, Clone, Copy)]
pub struct Links<'a> {
    /// Scheme, host and, in path style, the account; no slash at the end.
    pub base: &'a str,
    /// The account.
    pub account: &'a str,
    /// The table.
    pub table: &'a str,
}
