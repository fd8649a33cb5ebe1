//! Shared Key and Shared Key Lite, for both ends of the wire.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// A text that is not an account key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an account key is base64 text that is not empty")]
pub struct KeyTextError;

/// A key of an account, ready to sign.
#[derive(Clone)]
pub struct AccountKey(Hmac<Sha256>);

impl AccountKey {
    /// Reads a key's base64 text.
    ///
    /// # Errors
    /// If it is empty or not base64.
    pub fn parse(text: &str) -> Result<Self, KeyTextError> {
        let bytes = STANDARD.decode(text).map_err(|_| KeyTextError)?;
        if bytes.is_empty() {
            return Err(KeyTextError);
        }
        Hmac::new_from_slice(&bytes).map(Self).map_err(|_| KeyTextError)
    }

    /// The signature of a text, in base64.
    #[must_use]
    pub fn sign(&self, string_to_sign: &str) -> String {
        let mac = self.0.clone().chain_update(string_to_sign).finalize();
        STANDARD.encode(mac.into_bytes())
    }

    /// True if `signature` is the text's, found out in constant time.
    #[must_use]
    pub fn verifies(&self, string_to_sign: &str, signature: &[u8]) -> bool {
        self.0.clone().chain_update(string_to_sign).verify_slice(signature).is_ok()
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey")
    }
}

/// The one or two keys of an account; a signature by either counts, so that keys can be rolled.
#[derive(Debug, Clone)]
pub struct AccountKeys {
    first: AccountKey,
    second: Option<AccountKey>,
}

impl AccountKeys {
    /// Reads the base64 texts of an account's keys.
    ///
    /// # Errors
    /// If one of them is not a key.
    pub fn parse(first: &str, second: Option<&str>) -> Result<Self, KeyTextError> {
        Ok(Self { first: AccountKey::parse(first)?, second: second.map(AccountKey::parse).transpose()? })
    }

    /// The keys.
    pub fn iter(&self) -> impl Iterator<Item = &AccountKey> {
        std::iter::once(&self.first).chain(&self.second)
    }
}
