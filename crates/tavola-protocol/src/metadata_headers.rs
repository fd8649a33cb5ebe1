//! Metadata as headers: `x-ms-meta-{name}: {value}`.

use http::{HeaderMap, HeaderName, HeaderValue};
use tavola_core::{Metadata, MetadataError};

use crate::api_error::ApiError;

const PREFIX: &str = "x-ms-meta-";

/// Reads the metadata of a request.
pub(crate) fn read(headers: &HeaderMap) -> Result<Metadata, ApiError> {
    let mut pairs = Vec::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(PREFIX) {
            let value = value.to_str().map_err(|_| ApiError::InvalidMetadata)?;
            pairs.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    Metadata::new(pairs).map_err(|error| match error {
        MetadataError::NameEmpty => ApiError::EmptyMetadataKey,
        MetadataError::Invalid => ApiError::InvalidMetadata,
        MetadataError::TooLarge => ApiError::MetadataTooLarge,
    })
}

/// Writes metadata; what cannot be a header was refused when it was read.
pub(crate) fn write(metadata: &Metadata, headers: &mut HeaderMap) {
    for (name, value) in metadata.iter() {
        let name = HeaderName::try_from(format!("{PREFIX}{name}"));
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
}
