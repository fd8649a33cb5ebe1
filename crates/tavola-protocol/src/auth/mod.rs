//! Who sends a request: from its credentials to a [`Grant`].
//!
//! Account keys are all that there is so far. Shared access signatures and bearer tokens have their place beside
//! [`shared_key`]; until then they are refused as credentials that do not hold.

pub mod shared_key;

use std::time::{Duration, SystemTime};

use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use tavola_core::Grant;

use crate::address::Address;
use crate::rejection::Rejection;
use crate::table::query::{Parameter, Query};
use crate::version::Version;

pub use shared_key::{AccountKey, AccountKeys, KeyTextError, Scheme, SignedParts, sign_request, string_to_sign};

use shared_key::Credentials;

/// A request's date may be this far from our clock, in either direction.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// Checks a request's credentials.
///
/// # Errors
/// What the service answers to missing, malformed or wrong credentials.
pub fn authenticate(parts: &Parts, address: &Address, keys: &AccountKeys, now: SystemTime) -> Result<Grant, Rejection> {
    // The version decides by which rules credentials are read, so it comes first.
    Version::of(&parts.headers)?;
    let query = Query::parse(parts.uri.query());
    let Some(authorization) = parts.headers.get(AUTHORIZATION) else {
        return Err(without_authorization(&query));
    };
    let authorization = authorization.to_str().map_err(|_| Rejection::InvalidAuthenticationInfo)?;
    if is_bearer(authorization) {
        return Err(failed("Bearer tokens are not supported by this server."));
    }
    let credentials = Credentials::parse(authorization).ok_or(Rejection::InvalidAuthenticationInfo)?;
    check_account(&credentials, address)?;
    check_signature(&credentials, parts, &query, address, keys)?;
    check_date(&parts.headers, now)?;
    let grant = Grant::owner(address.account.clone());
    Ok(if address.secondary { grant.read_only() } else { grant })
}

fn without_authorization(query: &Query<'_>) -> Rejection {
    if query.has_signature {
        return failed("Shared access signatures are not supported by this server.");
    }
    // No detail: that is how the service words it when nothing was sent.
    Rejection::AuthenticationFailed { detail: None }
}

fn is_bearer(authorization: &str) -> bool {
    let scheme = authorization.split(' ').next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("bearer")
}

fn failed(detail: impl Into<String>) -> Rejection {
    Rejection::AuthenticationFailed { detail: Some(detail.into()) }
}

fn check_account(credentials: &Credentials<'_>, address: &Address) -> Result<(), Rejection> {
    if credentials.account == address.account.as_str() {
        return Ok(());
    }
    Err(failed("The account of the Authorization header is not the account of the request's URL."))
}

fn check_signature(
    credentials: &Credentials<'_>,
    parts: &Parts,
    query: &Query<'_>,
    address: &Address,
    keys: &AccountKeys,
) -> Result<(), Rejection> {
    let signed = SignedParts {
        method: parts.method.as_str(),
        content_md5: text_of(&parts.headers, &HeaderName::from_static("content-md5")).unwrap_or_default(),
        content_type: text_of(&parts.headers, &CONTENT_TYPE).unwrap_or_default(),
        date: date_text(&parts.headers).ok_or_else(|| failed("The request has no date."))?,
        account: address.account.as_str(),
        path: parts.uri.path(),
        comp: query.get(Parameter::Comp),
    };
    let text = string_to_sign(credentials.scheme, &signed);
    let verifies = |text: &str| keys.iter().any(|key| key.verifies(text, &credentials.signature));
    if verifies(&text) {
        return Ok(());
    }
    if let Some(path) = path_before_rewriting(parts.uri.path(), address)
        && verifies(&string_to_sign(credentials.scheme, &SignedParts { path, ..signed }))
    {
        return Ok(());
    }
    let given = credentials.signature_text;
    Err(failed(format!(
        "The MAC signature found in the HTTP request '{given}' is not the same as any computed signature. \
         Server used following string to sign: '{text}'."
    )))
}

/// The Python library signs a request for the secondary first and then puts `/acct-secondary` before its path.
fn path_before_rewriting<'a>(path: &'a str, address: &Address) -> Option<&'a str> {
    let account = address.account.as_str();
    let rest = path.strip_prefix('/')?.strip_prefix(account)?.strip_prefix("-secondary")?;
    let repeats_account = rest.strip_prefix('/')?.strip_prefix(account).is_some_and(|tail| matches!(tail, "" | "/"));
    repeats_account.then_some(rest)
}

/// The date that is signed: `x-ms-date` wins, because many clients cannot set `Date`.
fn date_text(headers: &HeaderMap) -> Option<&str> {
    text_of(headers, &HeaderName::from_static("x-ms-date")).or_else(|| text_of(headers, &DATE))
}

fn check_date(headers: &HeaderMap, now: SystemTime) -> Result<(), Rejection> {
    let text = date_text(headers).unwrap_or_default();
    let Ok(date) = httpdate::parse_http_date(text) else {
        return Err(failed(format!("The date header is not a date: '{text}'")));
    };
    let distance = now.duration_since(date).unwrap_or_else(|future| future.duration());
    if distance > CLOCK_SKEW_MAX {
        return Err(failed(format!("Request date header too old: '{text}'")));
    }
    Ok(())
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests;
