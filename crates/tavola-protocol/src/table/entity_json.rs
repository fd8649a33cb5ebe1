//! Entities as JSON, at the three levels of metadata.

use tavola_core::entity::{EntityView, Properties};
use tavola_core::reply::BoxedEntity;
use tavola_core::request::Select;
use tavola_core::{ETag, EntityKey, PartitionKey, Refusal, RowKey, Timestamp};

/// Why a body is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyError {
    /// Not JSON, not an object, or a value that is not of its declared type.
    Malformed,
    /// Understood, and against a rule of the domain.
    Refused(Refusal),
}

impl From<Refusal> for BodyError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
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

/// Reads the body of an insert, replace or merge.
///
/// # Errors
/// If it is not an entity, or one that the service refuses.
pub fn read_entity(_body: &[u8]) -> Result<EntityBody, BodyError> {
    Err(BodyError::Malformed)
}

/// Writes one entity as the whole of an answer.
pub fn write_entity(
    _out: &mut Vec<u8>,
    _entity: &dyn EntityView,
    _level: MetadataLevel,
    _select: &Select,
    _links: &Links<'_>,
) {
}

/// Writes a page of entities.
pub fn write_entity_set(
    _out: &mut Vec<u8>,
    _entities: &[BoxedEntity],
    _level: MetadataLevel,
    _select: &Select,
    _links: &Links<'_>,
) {
}

/// An entity's address relative to the service: `T(PartitionKey='…',RowKey='…')`.
#[must_use]
pub fn entity_url_path(_table: &str, _partition_key: &str, _row_key: &str) -> String {
    String::new()
}

/// Writes the body of an insert, replace or merge, every type annotated that needs it.
#[must_use]
pub fn encode_entity_body(_key: &EntityKey, _properties: &Properties) -> Vec<u8> {
    Vec::new()
}

/// Reads one entity of an answer.
///
/// # Errors
/// If it is not an entity.
pub fn decode_entity(_body: &[u8]) -> Result<DecodedEntity, BodyError> {
    Err(BodyError::Malformed)
}

/// Reads a page of entities.
///
/// # Errors
/// If it is not a set of entities.
pub fn decode_entity_set(_body: &[u8]) -> Result<Vec<DecodedEntity>, BodyError> {
    Err(BodyError::Malformed)
}
