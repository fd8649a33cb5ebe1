//! Signatures for the admin port. They have a scheme of their own, so that one for a request to a
//! table can never be used there, whatever the table is called; and they cover everything that says
//! what is to be changed.
//!
//! ```text
//! Authorization: TavolaAdmin ACCOUNT:BASE64(HMAC-SHA256(key, string to sign))
//!
//! string to sign:  TavolaAdmin \n METHOD \n PATH \n QUERY \n x-ms-date \n x-ms-client-request-id
//! ```
//!
//! The last line may be empty. Two requests that are the same within a second need two ids, because
//! a signature counts once.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Uri};
use tavola_core::AccountName;

use super::shared_key::http_date;
use super::{AccountKey, AccountKeys, SignatureKind, Signer, text_of};
use crate::headers::{name, text_value};

/// The scheme of the `Authorization` header, and the first line that is signed.
pub const ADMIN_SCHEME: &str = "TavolaAdmin";
/// How far a request's date may be from the server's clock. Both are on one machine.
pub const ADMIN_CLOCK_SKEW_MAX: Duration = Duration::from_secs(5 * 60);

/// A signature that holds. Whether it was used before is for the server to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSignature {
    /// When it was made, as far as it says.
    pub date: SystemTime,
    /// The signature itself, which no other request has.
    pub bytes: Vec<u8>,
    /// Which key made it.
    pub signer: Signer,
}

/// Why a request is not signed as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdminSignatureError {
    /// No header, or one of another scheme.
    #[error(
        "sign the request with a key of the account (Authorization: {ADMIN_SCHEME} ACCOUNT:SIGNATURE)"
    )]
    Missing,
    /// The account is another one.
    #[error("the signature is another account's")]
    OtherAccount,
    /// No `x-ms-date`, or none that is one.
    #[error("the request has no x-ms-date that is a date")]
    NoDate,
    /// Too far from the server's clock.
    #[error("x-ms-date is more than five minutes from the server's clock")]
    Clock,
    /// It is none of the account's keys' for this request.
    #[error("the signature does not match the request")]
    Mismatch,
}

/// The account that an `Authorization` header of this scheme names, whether or not it holds.
#[must_use]
pub fn admin_signature_account(headers: &HeaderMap) -> Option<&str> {
    credentials(headers).map(|(account, _)| account)
}

/// Checks that a request to the admin port is signed with a key of the account.
///
/// # Errors
/// What is missing or wrong.
pub fn check_admin_signature(
    parts: &Parts,
    account: &AccountName,
    keys: &AccountKeys,
    now: SystemTime,
) -> Result<AdminSignature, AdminSignatureError> {
    let (named, signature) = credentials(&parts.headers).ok_or(AdminSignatureError::Missing)?;
    if named != account.as_str() {
        return Err(AdminSignatureError::OtherAccount);
    }
    let bytes = STANDARD.decode(signature).unwrap_or_default();
    let key = keys.verify(&string_to_sign(&parts.method, &parts.uri, &parts.headers), &bytes);
    let key = key.ok_or(AdminSignatureError::Mismatch)?;
    let date =
        text_of(&parts.headers, &name::DATE).and_then(|text| httpdate::parse_http_date(text).ok());
    let date = date.ok_or(AdminSignatureError::NoDate)?;
    let distance = now.duration_since(date).unwrap_or_else(|future| future.duration());
    if distance > ADMIN_CLOCK_SKEW_MAX {
        return Err(AdminSignatureError::Clock);
    }
    Ok(AdminSignature { date, bytes, signer: Signer { key, kind: SignatureKind::Admin } })
}

/// Signs a request to the admin port that is otherwise complete: adds `x-ms-date` and
/// `Authorization`.
pub fn sign_admin_request<B>(
    request: &mut Request<B>,
    account: &AccountName,
    key: &AccountKey,
    now: SystemTime,
) {
    request.headers_mut().insert(name::DATE.clone(), text_value(http_date(now)));
    let signature = key.sign(&string_to_sign(request.method(), request.uri(), request.headers()));
    request
        .headers_mut()
        .insert(AUTHORIZATION, text_value(format!("{ADMIN_SCHEME} {account}:{signature}")));
}

fn credentials(headers: &HeaderMap) -> Option<(&str, &str)> {
    let (scheme, rest) = text_of(headers, &AUTHORIZATION)?.split_once(' ')?;
    if scheme == ADMIN_SCHEME { rest.trim_start().split_once(':') } else { None }
}

fn string_to_sign(method: &Method, uri: &Uri, headers: &HeaderMap) -> String {
    let header = |name| text_of(headers, name).unwrap_or_default();
    let (date, id) = (header(&name::DATE), header(&name::CLIENT_REQUEST_ID));
    [ADMIN_SCHEME, method.as_str(), uri.path(), uri.query().unwrap_or_default(), date, id]
        .join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use http::Request;
    use http::request::Parts;
    use tavola_core::AccountName;

    use super::{AdminSignatureError, check_admin_signature, sign_admin_request};
    use crate::auth::{AccountKey, AccountKeys, Scheme, sign_request};

    const KEY: &str = "YSBrZXkgb2YgYW4gYWNjb3VudCBpbiB0ZXN0cywgbG9uZw==";

    fn shop() -> AccountName {
        AccountName::parse("shop").unwrap()
    }

    fn check(parts: &Parts, now: SystemTime) -> Result<(), AdminSignatureError> {
        check_admin_signature(parts, &shop(), &AccountKeys::parse(KEY, None).unwrap(), now)
            .map(|_| ())
    }

    fn signed(now: SystemTime) -> Parts {
        let mut request =
            Request::post("/accounts/shop/rotate?key=1").header("x-ms-client-request-id", "one");
        request = request.header("content-type", "text/plain");
        let mut request = request.body(()).unwrap();
        sign_admin_request(&mut request, &shop(), &AccountKey::parse(KEY).unwrap(), now);
        request.into_parts().0
    }

    #[test]
    fn a_signature_is_for_one_request() {
        let now = SystemTime::now();
        assert_eq!(check(&signed(now), now), Ok(()));
        let mismatch = Err(AdminSignatureError::Mismatch);
        for target in [
            "/accounts/shop/rotate?key=2",
            "/accounts/shop/rotate",
            "/accounts/shop/rotate?key=1&",
            "/reload",
        ] {
            let mut parts = signed(now);
            parts.uri = target.parse().unwrap();
            assert_eq!(check(&parts, now), mismatch, "{target}");
        }
        let mut parts = signed(now);
        parts.method = http::Method::GET;
        assert_eq!(check(&parts, now), mismatch);
        for (header, value) in [
            ("x-ms-client-request-id", "two"),
            ("x-ms-date", "Mon, 16 Nov 2026 00:05:27 GMT"),
            ("x-ms-date", ""),
        ] {
            let mut parts = signed(now);
            parts.headers.insert(header, value.parse().unwrap());
            assert_eq!(check(&parts, now), mismatch, "{header}: {value}");
        }
    }

    #[test]
    fn a_signature_has_its_time() {
        let now = SystemTime::now();
        for (seconds, expected) in [(290, Ok(())), (310, Err(AdminSignatureError::Clock))] {
            let by = Duration::from_secs(seconds);
            assert_eq!(check(&signed(now - by), now), expected, "{seconds} s ago");
            assert_eq!(check(&signed(now + by), now), expected, "in {seconds} s");
        }
    }

    #[test]
    fn a_signature_for_a_table_is_none() {
        let now = SystemTime::now();
        for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
            let mut request = Request::post("/reload").body(()).unwrap();
            sign_request(&mut request, scheme, &shop(), &AccountKey::parse(KEY).unwrap(), now);
            let (mut parts, ()) = request.into_parts();
            assert_eq!(check(&parts, now), Err(AdminSignatureError::Missing));
            let authorization = parts.headers["authorization"]
                .to_str()
                .unwrap()
                .replace(scheme.name(), "TavolaAdmin");
            parts.headers.insert("authorization", authorization.parse().unwrap());
            assert_eq!(check(&parts, now), Err(AdminSignatureError::Mismatch));
        }
    }
}
