//! Bearer tokens: signed statements of an identity provider (RFC 7519) about who sends a request.
//!
//! The way of a token: [`peek`] says who claims to have issued it, [`verify`] holds it against that
//! issuer's keys. Both are pure; where keys come from and how long a result is remembered is the
//! server's business.
//!
//! What cannot happen here, by construction: a token without a signature or with a symmetric one
//! has no [`Algorithm`], and a [`KeySet`] holds public keys only, each with the kind of signature
//! that it can check.

mod algorithm;
mod claims;
mod compact;
mod discovery;
mod error;
mod key_set;
mod unsigned;

use std::time::{Duration, SystemTime};

pub use algorithm::Algorithm;
pub use claims::Claims;
pub use discovery::Discovery;
pub use error::{DiscoveryError, KeySetError, TokenError};
pub use key_set::KeySet;
pub use unsigned::check_unsigned;

use compact::Compact;

/// The longest token that is looked at. Headers of that size pass nowhere else either.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The longest key set and discovery document that are read.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Two clocks may differ by this much before a time in a token counts as passed, or as not yet
/// come.
pub const LEEWAY: Duration = Duration::from_secs(60);

/// What the service accepts as the audience of a token. [`ACCOUNT_PLACEHOLDER`] stands for the
/// account's name.
pub const STORAGE_AUDIENCES: [&str; 5] = [
    "https://storage.azure.com",
    "https://storage.azure.com/",
    "e406a681-f3d4-42a8-90b6-c2b029497af1",
    "https://{account}.table.core.windows.net",
    "https://{account}.table.core.windows.net/",
];
/// What stands for the name of the request's account in an audience.
pub const ACCOUNT_PLACEHOLDER: &str = "{account}";

/// An identity provider whose word counts, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// What the operator calls it.
    pub name: String,
    /// What it calls itself: the `iss` of its tokens, compared exactly.
    pub issuer: String,
    /// Tokens for one of them are for us; [`ACCOUNT_PLACEHOLDER`] stands for the account's name.
    pub audiences: Vec<String>,
    /// How it may sign.
    pub algorithms: Vec<Algorithm>,
}

/// What an unchecked token says about itself. It serves to find the issuer and the key, and for
/// nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// Who claims to have issued it.
    pub issuer: String,
    /// Which of the issuer's keys claims to have signed it.
    pub key_id: Option<String>,
    /// How.
    pub algorithm: Algorithm,
}

/// Reads who a token claims to be from.
///
/// # Errors
/// If it is no token, or signed in a way that nobody may use.
pub fn peek(token: &str) -> Result<Peeked, TokenError> {
    let token = Compact::parse(token)?;
    let issuer = token.payload.text("iss")?.ok_or(TokenError::IssuerMissing)?.to_owned();
    Ok(Peeked { issuer, key_id: token.key_id()?.map(str::to_owned), algorithm: token.algorithm()? })
}

/// Checks a token for an account against its issuer's keys.
///
/// # Errors
/// Why it does not hold. [`TokenError::KeyUnknown`] may pass once the issuer's current keys are
/// known.
pub fn verify(
    token: &str,
    issuer: &TrustedIssuer,
    account: &str,
    keys: &KeySet,
    now: SystemTime,
) -> Result<Claims, TokenError> {
    let token = Compact::parse(token)?;
    let algorithm = token.algorithm()?;
    if !issuer.algorithms.contains(&algorithm) {
        return Err(TokenError::AlgorithmNotAllowed);
    }
    if token.payload.text("iss")? != Some(issuer.issuer.as_str()) {
        return Err(TokenError::IssuerMismatch);
    }
    keys.verify(&token, algorithm)?;
    // From here on it is the issuer who speaks.
    let claims = Claims::read(token.payload)?;
    claims.check_audience(issuer.audiences.iter().map(String::as_str), account)?;
    claims.check_validity(now, LEEWAY)?;
    claims.check_issued(now, LEEWAY)?;
    Ok(claims)
}

#[cfg(test)]
mod tests;
