//! What an issuer says about itself at `/.well-known/openid-configuration` (OpenID Connect
//! Discovery).

use serde::Deserialize;

use super::DOCUMENT_BYTES_MAX;
use super::error::DiscoveryError;

/// Where an issuer keeps its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// The address of its key set.
    pub jwks_uri: String,
}

impl Discovery {
    /// Where an issuer's document is.
    #[must_use]
    pub fn address(issuer: &str) -> String {
        format!("{}/.well-known/openid-configuration", issuer.strip_suffix('/').unwrap_or(issuer))
    }

    /// Reads the document of `issuer`. It must name that issuer exactly: otherwise whoever serves
    /// one tenant could speak for another.
    ///
    /// # Errors
    /// If it is no such document, or another issuer's.
    pub fn parse(json: &[u8], issuer: &str) -> Result<Self, DiscoveryError> {
        #[derive(Deserialize)]
        struct Document {
            issuer: String,
            jwks_uri: String,
        }
        if json.len() > DOCUMENT_BYTES_MAX {
            return Err(DiscoveryError::TooLong);
        }
        let document: Document =
            serde_json::from_slice(json).map_err(|_| DiscoveryError::Malformed)?;
        if document.issuer != issuer {
            return Err(DiscoveryError::IssuerMismatch);
        }
        Ok(Self { jwks_uri: document.jwks_uri })
    }
}
