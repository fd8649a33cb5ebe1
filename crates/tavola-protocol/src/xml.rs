//! The XML bodies: access policies, service properties, stats.

use tavola_core::properties::ServicePropertiesChange;
use tavola_core::{AccessPolicy, DateTime, ServiceProperties};

/// A body that is not the XML it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the XML document that the operation takes")]
pub struct XmlError;

/// Reads the access policies of a table.
///
/// # Errors
/// If the document is malformed or breaks a limit.
pub fn read_policies(_body: &[u8]) -> Result<Vec<AccessPolicy>, XmlError> {
    Err(XmlError)
}

/// Writes the access policies of a table.
#[must_use]
pub fn write_policies(_policies: &[AccessPolicy]) -> Vec<u8> {
    Vec::new()
}

/// Reads a change of a service's properties.
///
/// # Errors
/// If the document is malformed, a given group is incomplete, or a limit is broken.
pub fn read_service_properties(_body: &[u8]) -> Result<ServicePropertiesChange, XmlError> {
    Err(XmlError)
}

/// Writes a service's properties.
#[must_use]
pub fn write_service_properties(_properties: &ServiceProperties) -> Vec<u8> {
    Vec::new()
}

/// Writes how far the secondary has come.
#[must_use]
pub fn write_stats(_last_sync: DateTime) -> Vec<u8> {
    Vec::new()
}
