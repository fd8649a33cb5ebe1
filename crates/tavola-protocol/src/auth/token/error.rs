//! Why tokens, key sets and discovery documents are refused. No reason repeats what was sent.

use crate::deny_reason::DenyReason;

/// Why a token does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Beyond [`super::TOKEN_BYTES_MAX`].
    #[error("the token is longer than 16 KiB")]
    TooLong,
    /// Not header, payload and signature.
    #[error("the token does not have three parts")]
    NotThreeParts,
    /// A part with other characters, or with padding.
    #[error("the token's {0} is not base64url")]
    NotBase64Url(&'static str),
    /// A part that is no JSON object, nests too deep or names a member twice.
    #[error("the token's {0} is not a JSON object with distinct members")]
    NotAnObject(&'static str),
    /// A header that demands an extension.
    #[error("the token demands an extension by its crit header")]
    CriticalExtension,
    /// No signature, a symmetric one, or one that this issuer may not use.
    #[error("the token's algorithm is not allowed")]
    AlgorithmNotAllowed,
    /// No `iss`.
    #[error("the token does not name its issuer")]
    IssuerMissing,
    /// Another `iss` than that of the keys.
    #[error("the token is of another issuer")]
    IssuerMismatch,
    /// A `kid` that the issuer does not have, or none where it has no key for the algorithm.
    #[error("the issuer has no key of the token's key id")]
    KeyUnknown,
    /// No `kid`, and several keys would do.
    #[error("the token names no key, and the issuer has several")]
    KeyAmbiguous,
    /// A `kid` of a key of another kind.
    #[error("the token's key is not for the token's algorithm")]
    KeyDoesNotFit,
    /// Not signed by that key.
    #[error("the token's signature does not hold")]
    SignatureMismatch,
    /// A registered claim of the wrong type.
    #[error("the token's {0} is malformed")]
    ClaimMalformed(&'static str),
    /// For somebody else.
    #[error("the token is for another audience")]
    AudienceMismatch,
    /// Tokens that never end are not accepted.
    #[error("the token has no expiry")]
    ExpiryMissing,
    /// `exp` is past.
    #[error("the token has expired")]
    Expired,
    /// `nbf` has not come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `iat` has not come.
    #[error("the token was issued in the future")]
    IssuedInFuture,
}

impl TokenError {
    /// The same, in one word for logs and counters.
    #[must_use]
    pub const fn deny_reason(self) -> DenyReason {
        match self {
            Self::Expired => DenyReason::Expired,
            Self::NotYetValid => DenyReason::NotYet,
            Self::IssuedInFuture => DenyReason::Clock,
            Self::IssuerMissing | Self::IssuerMismatch | Self::AudienceMismatch => {
                DenyReason::Issuer
            }
            Self::KeyUnknown
            | Self::KeyAmbiguous
            | Self::KeyDoesNotFit
            | Self::SignatureMismatch => DenyReason::Signature,
            Self::TooLong
            | Self::NotThreeParts
            | Self::NotBase64Url(_)
            | Self::NotAnObject(_)
            | Self::CriticalExtension
            | Self::AlgorithmNotAllowed
            | Self::ClaimMalformed(_)
            | Self::ExpiryMissing => DenyReason::Malformed,
        }
    }
}

/// Why a key set cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// Beyond [`super::DOCUMENT_BYTES_MAX`].
    #[error("the key set is longer than 1 MiB")]
    TooLong,
    /// Not `{"keys": […]}`.
    #[error("the key set is not a JSON object with a list of keys")]
    Malformed,
    /// More keys than anybody has.
    #[error("the key set has more than 256 keys")]
    TooManyKeys,
    /// Nothing that could check a signature.
    #[error(
        "the key set has no usable key: RSA of 2048 to 8192 bits, or EC on P-256 or P-384, for signatures"
    )]
    NoUsableKey,
}

/// Why a discovery document cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// Beyond [`super::DOCUMENT_BYTES_MAX`].
    #[error("the discovery document is longer than 1 MiB")]
    TooLong,
    /// Not an object with `issuer` and `jwks_uri`.
    #[error("the discovery document is not a JSON object with issuer and jwks_uri")]
    Malformed,
    /// It speaks of somebody else.
    #[error("the discovery document is of another issuer")]
    IssuerMismatch,
}
