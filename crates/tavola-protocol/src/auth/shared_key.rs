//! Shared Key and Shared Key Lite, for both ends of the wire.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::AUTHORIZATION;
use http::{HeaderName, Request};
use sha2::Sha256;
use tavola_core::AccountName;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::signer::KeyNumber;
use crate::headers::text_value;
use crate::table::query::{Parameter, Query};

/// The end of 9999, beyond which there are no HTTP dates.
const HTTP_DATE_SECONDS_MAX: u64 = 253_402_300_799;

/// Which of the two strings is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `SharedKey`: verb, content, date and resource.
    SharedKey,
    /// `SharedKeyLite`: date and resource.
    SharedKeyLite,
}

impl Scheme {
    /// The scheme's name in the `Authorization` header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedKey => "SharedKey",
            Self::SharedKeyLite => "SharedKeyLite",
        }
    }
}

/// What of a request is signed.
#[derive(Debug, Clone, Copy)]
pub struct SignedParts<'a> {
    /// The verb on the request line, not the one that it tunnels.
    pub method: &'a str,
    /// `Content-MD5`, or empty.
    pub content_md5: &'a str,
    /// `Content-Type` exactly as sent, or empty.
    pub content_type: &'a str,
    /// `x-ms-date`, or `Date`.
    pub date: &'a str,
    /// The account, never its secondary.
    pub account: &'a str,
    /// The path exactly as on the request line: in path style it has the account once more.
    pub path: &'a str,
    /// The one query parameter that is signed.
    pub comp: Option<&'a str>,
}

/// The text that both ends sign. For tables it has none of the headers that blobs and queues sign.
#[must_use]
pub fn string_to_sign(scheme: Scheme, parts: &SignedParts<'_>) -> String {
    let SignedParts { method, content_md5, content_type, date, account, comp, .. } = parts;
    let path = if parts.path.is_empty() { "/" } else { parts.path };
    let before_date = match scheme {
        Scheme::SharedKey => [*method, "\n", *content_md5, "\n", *content_type, "\n"],
        Scheme::SharedKeyLite => [""; 6],
    };
    let (question, comp) = comp.map_or(("", ""), |comp| ("?comp=", comp));
    let from_date = [*date, "\n/", *account, path, question, comp];
    let pieces = || before_date.iter().chain(&from_date);
    // Every request is signed, so the text is put together by hand and without growing.
    let mut text = String::with_capacity(pieces().map(|piece| piece.len()).sum());
    pieces().for_each(|piece| text.push_str(piece));
    text
}

/// Signs a request that is otherwise complete: adds `x-ms-date` and `Authorization`.
pub fn sign_request<B>(
    request: &mut Request<B>,
    scheme: Scheme,
    account: &AccountName,
    key: &AccountKey,
    now: SystemTime,
) {
    let date = http_date(now);
    let header = |name: &str| {
        request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let query = Query::parse(request.uri().query());
    let parts = SignedParts {
        method: request.method().as_str(),
        content_md5: header("content-md5"),
        content_type: header("content-type"),
        date: &date,
        account: account.as_str(),
        path: request.uri().path(),
        comp: query.get(Parameter::Comp),
    };
    let signature = key.sign(&string_to_sign(scheme, &parts));
    let authorization = text_value(format!("{} {account}:{signature}", scheme.name()));
    let headers = request.headers_mut();
    headers.insert(HeaderName::from_static("x-ms-date"), text_value(date));
    headers.insert(AUTHORIZATION, authorization);
}

/// A time as headers write it; one that they cannot write becomes the nearest that they can.
pub(super) fn http_date(time: SystemTime) -> String {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = since_epoch.as_secs().min(HTTP_DATE_SECONDS_MAX);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// An `Authorization` header of either scheme, taken apart.
pub(super) struct Credentials<'a> {
    pub(super) scheme: Scheme,
    pub(super) account: &'a str,
    /// As sent, for the refusal.
    pub(super) signature_text: &'a str,
    /// Empty if the text is not base64: then it is a signature like any other that is wrong.
    pub(super) signature: Vec<u8>,
}

impl<'a> Credentials<'a> {
    pub(super) fn parse(authorization: &'a str) -> Option<Self> {
        let (scheme, rest) = authorization.split_once(' ')?;
        let scheme = match scheme {
            "SharedKey" => Scheme::SharedKey,
            "SharedKeyLite" => Scheme::SharedKeyLite,
            _ => return None,
        };
        let (account, signature_text) = rest.trim_start().split_once(':')?;
        let signature = STANDARD.decode(signature_text).unwrap_or_default();
        Some(Self { scheme, account, signature_text, signature })
    }
}

/// A text that is not an account key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an account key is base64 text that is not empty")]
pub struct KeyTextError;

/// A key of an account, ready to sign. Cleared from memory when dropped, as its hash state is.
#[derive(Clone)]
pub struct AccountKey(Hmac<Sha256>);

impl AccountKey {
    /// Reads a key's base64 text.
    ///
    /// # Errors
    /// If it is empty or not base64.
    pub fn parse(text: &str) -> Result<Self, KeyTextError> {
        let bytes = Zeroizing::new(STANDARD.decode(text).map_err(|_| KeyTextError)?);
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

// An HMAC is two states of its hash and a buffer, and does not say itself that they are cleared.
const _: () = {
    const fn is_cleared_on_drop<T: ZeroizeOnDrop>() {}
    is_cleared_on_drop::<Sha256>();
};

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
        Ok(Self {
            first: AccountKey::parse(first)?,
            second: second.map(AccountKey::parse).transpose()?,
        })
    }

    /// Which of the keys made `signature` of the text. Both are always tried, so that the time
    /// tells nothing.
    #[must_use]
    pub fn verify(&self, string_to_sign: &str, signature: &[u8]) -> Option<KeyNumber> {
        let first = self.first.verifies(string_to_sign, signature);
        let second =
            self.second.as_ref().is_some_and(|key| key.verifies(string_to_sign, signature));
        if first { Some(KeyNumber::First) } else { second.then_some(KeyNumber::Second) }
    }
}

#[cfg(test)]
mod tests {
    use super::{AccountKey, AccountKeys, Scheme, SignedParts, string_to_sign};

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const DATE: &str = "Mon, 16 Nov 2026 00:05:27 GMT";

    fn signature(
        scheme: Scheme,
        method: &str,
        content_type: &str,
        date: &str,
        target: &str,
    ) -> String {
        let (path, comp) = match target.split_once("?comp=") {
            Some((path, comp)) => (path, Some(comp)),
            None => (target, None),
        };
        let path = &format!("/devstoreaccount1{path}");
        let parts = SignedParts {
            method,
            content_md5: "",
            content_type,
            date,
            account: "devstoreaccount1",
            path,
            comp,
        };
        AccountKey::parse(KEY).unwrap().sign(&string_to_sign(scheme, &parts))
    }

    /// The vectors of the reference, recorded from the official libraries (statements 41 and 42).
    #[test]
    fn vectors() {
        let batch = "multipart/mixed; boundary=batch_1e39cf1e-c55d-4e5c-8f3b-364d0896ef43";
        for (method, content_type, target, expected) in [
            (
                "POST",
                "application/json;odata=nometadata",
                "/Tables",
                "I39+IkQVCh3qA1wSS2Ji0dErzzX7scG1ERpYa4iFCpg=",
            ),
            (
                "GET",
                "",
                "/PyTab1(PartitionKey='p',RowKey='r1')",
                "jMVm2k+XY3w0XNaKHuTO/uV2jps9dNtdC6MIoFObAV0=",
            ),
            (
                "PATCH",
                "application/json",
                "/PyTab1(PartitionKey='p',RowKey='r2%20%27%27%C3%A9%2B%26%25')",
                "U+9xDiKtEzvt9MbS7kHcwTcClXkIMQ+JgOtZBE3q/Cw=",
            ),
            ("GET", "", "/PyTab1()", "BA3TXGsFxNnIn7BKWTOxeVCzNGaGjzWpgjkH728yTdg="),
            ("GET", "", "/?comp=properties", "8BKb0whwf2bYP1Pu8txRYQ2UUMbSkfqd/+D5dW8Vh5c="),
            (
                "PUT",
                "application/xml",
                "/PyTab1?comp=acl",
                "0g0/cbGZHoZXswownWaDi4geoW2RVQLo79E7/+ZeYkA=",
            ),
            ("POST", batch, "/$batch", "ttfEQB6IPTbVU98EuSnEHdEeL0ePtB/eHIwIFc1Rn1Q="),
            (
                "DELETE",
                "",
                "/PyTab1(PartitionKey='p',RowKey='b2')",
                "PpudQFc3eHTrh84/1s8z1wHC+5uQy9IS2H50ofdVO6s=",
            ),
        ] {
            assert_eq!(
                signature(Scheme::SharedKey, method, content_type, DATE, target),
                expected,
                "{method} {target}"
            );
        }
        let later = "Mon, 16 Nov 2026 00:06:39 GMT";
        for (date, target, expected) in [
            (DATE, "/Tables", "YLvE0K4KEA72e1gt0Q2TNSOddoOodNuV5DaUIK+pTyI="),
            (
                later,
                "/JsTab1(PartitionKey='p',RowKey='r''2%20%C3%A9')",
                "s5WbwXtAuCSnWRwis1OSu2iAdq54wLkRmqIRtX3tfrU=",
            ),
        ] {
            assert_eq!(
                signature(Scheme::SharedKeyLite, "GET", "ignored", date, target),
                expected,
                "{target}"
            );
        }
    }

    #[test]
    fn an_empty_path_is_signed_as_the_root() {
        let parts = SignedParts {
            method: "GET",
            content_md5: "",
            content_type: "",
            date: "d",
            account: "a",
            path: "",
            comp: Some("stats"),
        };
        assert_eq!(string_to_sign(Scheme::SharedKeyLite, &parts), "d\n/a/?comp=stats");
    }

    #[test]
    fn keys_show_nothing_of_themselves() {
        let keys = AccountKeys::parse(KEY, Some(KEY)).unwrap();
        assert_eq!(
            format!("{keys:?}"),
            "AccountKeys { first: AccountKey, second: Some(AccountKey) }"
        );
        for bad in ["", "not base64", "====", "abc"] {
            assert!(AccountKey::parse(bad).is_err(), "{bad}");
        }
    }
}
