//! How a token may be signed.

use std::fmt;
use std::str::FromStr;

/// A way to sign with a private key and to check with the public one. `none` and the symmetric ways
/// are no values of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
}

/// The kinds of public keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Rsa,
    P256,
    P384,
}

impl Algorithm {
    /// Every way there is.
    pub const ALL: [Self; 8] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
    ];
    /// What identity providers use unless told otherwise.
    pub const DEFAULT: [Self; 2] = [Self::Rs256, Self::Es256];

    /// Its registered name (RFC 7518), as in a token's header.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
        }
    }

    /// The one kind of key that can check it.
    pub(super) fn key_kind(self) -> KeyKind {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => {
                KeyKind::Rsa
            }
            Self::Es256 => KeyKind::P256,
            Self::Es384 => KeyKind::P384,
        }
    }

    pub(super) fn of_library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Rs384 => jsonwebtoken::Algorithm::RS384,
            Self::Rs512 => jsonwebtoken::Algorithm::RS512,
            Self::Ps256 => jsonwebtoken::Algorithm::PS256,
            Self::Ps384 => jsonwebtoken::Algorithm::PS384,
            Self::Ps512 => jsonwebtoken::Algorithm::PS512,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::Es384 => jsonwebtoken::Algorithm::ES384,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no [`Algorithm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("tokens can be signed with RS256, RS384, RS512, PS256, PS384, PS512, ES256 or ES384")]
pub struct UnknownAlgorithm;

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    /// Exactly the registered name: `none` and its spellings are as unknown as `rs256`.
    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name).ok_or(UnknownAlgorithm)
    }
}
