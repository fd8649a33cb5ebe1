//! Who sends a request: from its credentials to a [`Grant`].
//!
//! Three kinds of credential: an account's key ([`shared_key`]), a signature in the URL that such a
//! key made ([`sas`]), and a token of somebody whom the server trusts. What each may do is the
//! core's to decide.

pub mod admin;
pub mod canonical;
mod presented;
pub mod sas;
pub mod shared_key;
mod signer;
#[cfg(feature = "server")]
pub mod token;

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use tavola_core::{AccountName, Grant, ServiceKind};

use crate::address::Address;
use crate::api_error::ApiError;
use crate::deny_reason::DenyReason;
use crate::headers::name;
use crate::table::query::{Parameter, Query};
use crate::version::Version;

pub use admin::{AdminSignature, AdminSignatureError, check_admin_signature, sign_admin_request};
pub use presented::{Presented, PresentedSas};
pub use sas::{AccountSas, FieldsError, PolicySignature, QueueSas, SasFields, TableSas};
pub use shared_key::{
    AccountKey, AccountKeys, KeyTextError, Scheme, SignedParts, sign_request, string_to_sign,
};
pub use signer::{KeyNumber, SignatureKind, Signer};

use canonical::{CanonicalRequest, candidates};
use shared_key::Credentials;

/// A request's date may be this far from our clock, in either direction.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(15 * 60);
/// Enough of a signature to tell two apart.
const SIGNATURE_CHARS_SHOWN: usize = 4;

/// From this version on a request without credentials is told where to get some.
const CHALLENGE: &str = "2020-12-06";

/// Who asks, as the server sees it: the real address and scheme, proxies accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Where from.
    pub ip: IpAddr,
    /// Over TLS.
    pub https: bool,
}

/// What the server knows when a request arrives.
#[derive(Debug, Clone, Copy)]
pub struct AuthContext<'a> {
    /// The service that is asked, which decides what is signed.
    pub service: ServiceKind,
    /// The keys of the account that the request is for.
    pub keys: &'a AccountKeys,
    /// What `WWW-Authenticate` says to a request without credentials.
    pub challenge: &'a str,
    /// Who asks.
    pub caller: Caller,
    /// When.
    pub now: SystemTime,
    /// What counts when a request brings a header and a signature in its URL.
    pub precedence: Precedence,
}

/// What counts of two credentials in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// The header, whether or not it holds: the service's rule.
    Header,
    /// The header if it holds, else the signature in the URL: an emulator's rule, because scripts
    /// that were written for Azurite send headers that never held.
    WhicheverHolds,
}

/// A credential that holds, as far as the request and the account's keys can tell.
pub enum Credential<'a> {
    /// All is said: what it opens, and who signed.
    Complete(Grant, Signer),
    /// A valid signature whose rest is in the access policies of a container.
    NeedsPolicies(PolicySignature),
    /// A token, of which only its issuer's keys can tell anything.
    Token(&'a str),
}

/// A token is not shown.
impl fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete(grant, signer) => {
                f.debug_tuple("Complete").field(grant).field(signer).finish()
            }
            Self::NeedsPolicies(signature) => {
                f.debug_tuple("NeedsPolicies").field(signature).finish()
            }
            Self::Token(_) => f.write_str("Token"),
        }
    }
}

/// Checks a request's credentials. A header counts more than a signature in the URL; whether it
/// stands alone is [`AuthContext::precedence`].
///
/// # Errors
/// What the service answers to missing, malformed or wrong credentials.
pub fn authenticate<'a>(
    parts: &'a Parts,
    address: &Address,
    auth: &AuthContext<'_>,
) -> Result<Credential<'a>, ApiError> {
    // The version decides by which rules credentials are read, so it comes first.
    let version = Version::of(parts)?;
    let signed_query = || parts.uri.query().filter(|query| SasFields::are_in(Some(query)));
    let by_signature = |query| sas::check(query, address, auth);
    let Some(header) = parts.headers.get(AUTHORIZATION) else {
        let nothing = || Err(without_credentials(version, auth.challenge, DenyReason::Missing));
        return signed_query().map_or_else(nothing, by_signature);
    };
    by_header(header, parts, address, auth).or_else(|api_error| match auth.precedence {
        Precedence::Header => Err(api_error),
        Precedence::WhicheverHolds => match signed_query() {
            Some(query) => by_signature(query).map_err(|_| api_error),
            None => Err(api_error),
        },
    })
}

fn by_header<'a>(
    authorization: &'a HeaderValue,
    parts: &Parts,
    address: &Address,
    auth: &AuthContext<'_>,
) -> Result<Credential<'a>, ApiError> {
    let authorization = authorization.to_str().map_err(|_| ApiError::InvalidAuthenticationInfo)?;
    if let Some(token) = bearer(authorization) {
        // Whoever listens on the way would be as good as the bearer.
        return if auth.caller.https {
            Ok(Credential::Token(token))
        } else {
            Err(token_needs_https())
        };
    }
    let signer = check_shared_key(auth.service, parts, &address.account, auth.keys, auth.now)?;
    Ok(Credential::Complete(Grant::owner(address.account.clone()), signer))
}

/// Checks that a request is signed with a key of the account, and says with which.
///
/// # Errors
/// What the service answers to a header that is malformed, of another account, or does not hold.
pub fn check_shared_key(
    service: ServiceKind,
    parts: &Parts,
    account: &AccountName,
    keys: &AccountKeys,
    now: SystemTime,
) -> Result<Signer, ApiError> {
    let authorization =
        text_of(&parts.headers, &AUTHORIZATION).ok_or(ApiError::InvalidAuthenticationInfo)?;
    let credentials =
        Credentials::parse(authorization).ok_or(ApiError::InvalidAuthenticationInfo)?;
    if credentials.account != account.as_str() {
        let detail =
            "The account of the Authorization header is not the account of the request's URL.";
        return Err(failed(DenyReason::OtherAccount, detail));
    }
    let key = match service {
        ServiceKind::Table => check_table_signature(&credentials, parts, account, keys)?,
        ServiceKind::Blob | ServiceKind::Queue => {
            check_canonical_signature(&credentials, parts, account, keys)?
        }
    };
    check_date(&parts.headers, now)?;
    Ok(Signer { key, kind: SignatureKind::Request(credentials.scheme) })
}

/// The token that an `Authorization` header carries, whether or not it holds.
#[must_use]
pub fn token_of(headers: &HeaderMap) -> Option<&str> {
    text_of(headers, &AUTHORIZATION).and_then(bearer)
}

/// What a request gets that presents nothing, or a token that does not hold.
#[must_use]
pub fn without_credentials(version: Version, challenge: &str, reason: DenyReason) -> ApiError {
    if version.as_str() >= CHALLENGE {
        return ApiError::CredentialsMissing { challenge: challenge.to_owned(), reason };
    }
    // No detail: that is how the service words it when nothing was sent.
    ApiError::AuthenticationFailed { detail: None, reason }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ').unwrap_or((authorization, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

pub(crate) fn failed(reason: DenyReason, detail: impl Into<String>) -> ApiError {
    ApiError::AuthenticationFailed { detail: Some(detail.into()), reason }
}

fn token_needs_https() -> ApiError {
    failed(DenyReason::Protocol, "A token needs https.")
}

fn check_table_signature(
    credentials: &Credentials<'_>,
    parts: &Parts,
    account: &AccountName,
    keys: &AccountKeys,
) -> Result<KeyNumber, ApiError> {
    let query = Query::parse(parts.uri.query());
    let signed = SignedParts {
        method: parts.method.as_str(),
        content_md5: text_of(&parts.headers, &name::CONTENT_MD5).unwrap_or_default(),
        content_type: text_of(&parts.headers, &CONTENT_TYPE).unwrap_or_default(),
        date: date_text(&parts.headers)
            .ok_or_else(|| failed(DenyReason::Clock, "The request has no date."))?,
        account: account.as_str(),
        path: parts.uri.path(),
        comp: query.get(Parameter::Comp),
    };
    let text = string_to_sign(credentials.scheme, &signed);
    let verifies = |text: &str| keys.verify(text, &credentials.signature);
    if let Some(key) = verifies(&text) {
        return Ok(key);
    }
    if let Some(path) = path_before_rewriting(parts.uri.path(), account)
        && let Some(key) =
            verifies(&string_to_sign(credentials.scheme, &SignedParts { path, ..signed }))
    {
        return Ok(key);
    }
    Err(signature_mismatch(credentials, &text))
}

/// Clients of the Blob and Queue services disagree about the canonical form, so several are tried.
fn check_canonical_signature(
    credentials: &Credentials<'_>,
    parts: &Parts,
    account: &AccountName,
    keys: &AccountKeys,
) -> Result<KeyNumber, ApiError> {
    let version = Version::of(parts)?;
    let request = CanonicalRequest { parts, account: account.as_str(), version };
    let mut documented = None;
    for text in candidates(credentials.scheme, request) {
        if let Some(key) = keys.verify(&text, &credentials.signature) {
            return Ok(key);
        }
        documented.get_or_insert(text);
    }
    Err(signature_mismatch(credentials, &documented.unwrap_or_default()))
}

fn signature_mismatch(credentials: &Credentials<'_>, text: &str) -> ApiError {
    // Not the whole of it: it may be right for another request.
    let given = credentials.signature_text.get(..SIGNATURE_CHARS_SHOWN).unwrap_or_default();
    let detail = format!(
        "The MAC signature found in the HTTP request '{given}...' is not the same as any computed signature. \
         Server used following string to sign: '{text}'."
    );
    failed(DenyReason::Signature, detail)
}

/// The Python library signs a request for the secondary first and then puts `/acct-secondary`
/// before its path.
fn path_before_rewriting<'a>(path: &'a str, account: &AccountName) -> Option<&'a str> {
    let account = account.as_str();
    let rest = path.strip_prefix('/')?.strip_prefix(account)?.strip_prefix("-secondary")?;
    let repeats_account =
        rest.strip_prefix('/')?.strip_prefix(account).is_some_and(|tail| matches!(tail, "" | "/"));
    repeats_account.then_some(rest)
}

/// The date that is signed: `x-ms-date` wins, because many clients cannot set `Date`.
fn date_text(headers: &HeaderMap) -> Option<&str> {
    text_of(headers, &name::DATE).or_else(|| text_of(headers, &DATE))
}

fn check_date(headers: &HeaderMap, now: SystemTime) -> Result<(), ApiError> {
    let text = date_text(headers).unwrap_or_default();
    let Ok(date) = httpdate::parse_http_date(text) else {
        return Err(failed(DenyReason::Clock, format!("The date header is not a date: '{text}'")));
    };
    let wrong = match now.duration_since(date) {
        Ok(age) if age > CLOCK_SKEW_MAX => "too old",
        Err(ahead) if ahead.duration() > CLOCK_SKEW_MAX => "too far in the future",
        _ => return Ok(()),
    };
    Err(failed(DenyReason::Clock, format!("Request date header {wrong}: '{text}'")))
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests;
