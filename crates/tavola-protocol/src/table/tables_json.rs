//! Tables as JSON.

use tavola_core::TableName;

use super::entity_json::{BodyError, Links, MetadataLevel};

/// The name in the body of a create; whether it is a legal one is the domain's matter.
///
/// # Errors
/// If the body is not an object with a string `TableName`.
pub fn read_table_name(_body: &[u8]) -> Result<String, BodyError> {
    Err(BodyError::Malformed)
}

/// Writes one table as the whole of an answer.
pub fn write_table(_out: &mut Vec<u8>, _name: &TableName, _level: MetadataLevel, _links: &Links<'_>) {}

/// Writes a page of tables.
pub fn write_table_set(_out: &mut Vec<u8>, _names: &[TableName], _level: MetadataLevel, _links: &Links<'_>) {}
