//! The strings that clients of the Blob and Queue services sign with an account key.
//!
//! A table request signs its date and its resource. These requests also sign every `x-ms-` header
//! and every query parameter, in a canonical form. Clients disagree about the order of headers and
//! about the path, so a server compares a signature with several [`candidates`]; a client signs the
//! first of them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use http::header::{
    CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, DATE, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use super::shared_key::Scheme;
use crate::address::SECONDARY;
use crate::headers::name;
use crate::version::Version;

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// From this version on a length of zero is signed as an empty line.
const EMPTY_ZERO_LENGTH: Version = Version::literal(b"2015-02-21");
/// From this version on `x-ms-` headers without a value are signed.
const EMPTY_HEADERS: Version = Version::literal(b"2016-05-31");

/// What of a request is signed.
#[derive(Debug, Clone, Copy)]
pub struct CanonicalRequest<'a> {
    /// Its line and headers.
    pub parts: &'a Parts,
    /// The account, never its secondary.
    pub account: &'a str,
    /// The version that it speaks.
    pub version: Version,
}

/// Every string that the signature of this request may be of, the documented one first.
pub fn candidates(scheme: Scheme, request: CanonicalRequest<'_>) -> impl Iterator<Item = String> {
    let names = signed_names(&request.parts.headers);
    let mut orders = vec![sorted(&names, service_order), sorted(&names, Ord::cmp)];
    orders.dedup();
    let paths = path_candidates(request.parts.uri.path());
    orders.into_iter().flat_map(move |names| {
        let strings: Vec<String> =
            paths.iter().map(|path| string_to_sign(scheme, request, &names, path)).collect();
        strings
    })
}

fn string_to_sign(
    scheme: Scheme,
    request: CanonicalRequest<'_>,
    names: &[&HeaderName],
    path: &str,
) -> String {
    let headers = &request.parts.headers;
    let mut text = String::with_capacity(512);
    let mut line = |value: &str| {
        text.push_str(value);
        text.push('\n');
    };
    line(request.parts.method.as_str());
    let value = |name: &HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let date = if headers.contains_key(&name::DATE) { "" } else { value(&DATE) };
    match scheme {
        Scheme::SharedKey => {
            let length = value(&CONTENT_LENGTH);
            let is_omitted = length == "0" && request.version >= EMPTY_ZERO_LENGTH;
            line(value(&CONTENT_ENCODING));
            line(value(&CONTENT_LANGUAGE));
            line(if is_omitted { "" } else { length });
            line(value(&CONTENT_MD5));
            line(value(&CONTENT_TYPE));
            line(date);
            for name in
                [&IF_MODIFIED_SINCE, &IF_MATCH, &IF_NONE_MATCH, &IF_UNMODIFIED_SINCE, &RANGE]
            {
                line(value(name));
            }
        }
        Scheme::SharedKeyLite => {
            line(value(&CONTENT_MD5));
            line(value(&CONTENT_TYPE));
            line(date);
        }
    }
    for name in names {
        push_header(&mut text, headers, name, request.version);
    }
    push_resource(&mut text, scheme, request, path);
    text
}

fn signed_names(headers: &HeaderMap) -> Vec<&HeaderName> {
    // A bare `x-ms-meta`, which one client sends, is signed too.
    headers.keys().filter(|name| name.as_str().starts_with("x-ms-")).collect()
}

fn sorted<'a>(names: &[&'a HeaderName], order: fn(&str, &str) -> Ordering) -> Vec<&'a HeaderName> {
    let mut names = names.to_vec();
    names.sort_by(|left, right| order(left.as_str(), right.as_str()));
    names
}

/// `name:value`, the values of a repeated header joined.
fn push_header(text: &mut String, headers: &HeaderMap, name: &HeaderName, version: Version) {
    let values =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let values: Vec<_> = values.map(|value| value.trim().to_owned()).collect();
    let value = values.join(",");
    if value.is_empty() && version < EMPTY_HEADERS {
        return;
    }
    for piece in [name.as_str(), ":", &value, "\n"] {
        text.push_str(piece);
    }
}

fn push_resource(text: &mut String, scheme: Scheme, request: CanonicalRequest<'_>, path: &str) {
    text.push('/');
    text.push_str(request.account);
    text.push_str(path);
    let parameters = parameters(request.parts.uri.query());
    match scheme {
        Scheme::SharedKey => {
            for (name, values) in parameters {
                for piece in ["\n", &name, ":", &values.join(",")] {
                    text.push_str(piece);
                }
            }
        }
        Scheme::SharedKeyLite => {
            if let Some(comp) = parameters.get("comp").and_then(|values| values.first()) {
                text.push_str("?comp=");
                text.push_str(comp);
            }
        }
    }
}

/// Decoded values by lower-case name, both in order.
fn parameters(query: Option<&str>) -> BTreeMap<String, Vec<Cow<'_, str>>> {
    let mut parameters: BTreeMap<String, Vec<Cow<'_, str>>> = BTreeMap::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        parameters.entry(decoded(name).to_lowercase()).or_default().push(decoded(value));
    }
    parameters.values_mut().for_each(|values| values.sort());
    parameters
}

/// A `+` stays one: clients escape blanks as `%20`.
fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// The path as it was sent; without the mark of the secondary, which some clients leave out; and as
/// .NET writes it.
fn path_candidates(path: &str) -> Vec<Cow<'_, str>> {
    let path = if path.is_empty() { "/" } else { path };
    let mut candidates = vec![Cow::Borrowed(path)];
    let segment_end = path.match_indices('/').nth(1).map_or(path.len(), |(at, _)| at);
    if let Some(account) = path[..segment_end].strip_suffix(SECONDARY) {
        candidates.push(Cow::Owned(format!("{account}{}", &path[segment_end..])));
    }
    let normalized = normalized(path);
    if normalized != path {
        candidates.push(Cow::Owned(normalized));
    }
    candidates
}

/// With no escapes but those that are needed, in upper case.
fn normalized(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let escape = rest.get(at..at + 3);
        let digits = escape
            .map(|escape| &escape[1..])
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, escape) {
            (Some(byte), _) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                text.push(char::from(byte))
            }
            (Some(_), Some(escape)) => text.push_str(&escape.to_ascii_uppercase()),
            _ => {
                text.push('%');
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = &rest[at + 3..];
    }
    text + rest
}

/// The order in which the service sorts header names: by weight, where punctuation precedes digits
/// and digits precede letters, and hyphens and apostrophes weigh nothing unless all else is equal.
fn service_order(left: &str, right: &str) -> Ordering {
    let weights = |name: &str| name.bytes().filter_map(weight).collect::<Vec<_>>();
    weights(left).cmp(&weights(right)).then_with(|| by_light_characters(left, right))
}

const WEIGHTED: &[u8] = b"!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";

fn weight(byte: u8) -> Option<usize> {
    WEIGHTED.iter().position(|weighted| *weighted == byte.to_ascii_lowercase())
}

/// The later the next hyphen or apostrophe, the earlier the name; at the same place an apostrophe
/// precedes a hyphen.
fn by_light_characters(left: &str, right: &str) -> Ordering {
    let light = |name: &str| -> Vec<(usize, u8)> {
        name.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'-' | b'\'')).collect()
    };
    let (left, right) = (light(left), light(right));
    for (left, right) in left.iter().zip(&right) {
        let order = right.0.cmp(&left.0).then(left.1.cmp(&right.1));
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::auth::shared_key::AccountKey;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const ACCOUNT: &str = "devstoreaccount1";

    /// `METHOD target`, then a header in each line.
    fn strings(scheme: Scheme, request: &str) -> Vec<String> {
        let mut lines = request.lines().map(str::trim);
        let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
        let mut builder = Request::builder().method(method).uri(target);
        for line in lines {
            let (name, value) = line.split_once(':').unwrap();
            builder = builder.header(name, value.trim());
        }
        let (parts, ()) = builder.body(()).unwrap().into_parts();
        let version = parts
            .headers
            .get("x-ms-version")
            .map_or("2021-12-02", |version| version.to_str().unwrap());
        let version = Version::parse(version).unwrap();
        candidates(scheme, CanonicalRequest { parts: &parts, account: ACCOUNT, version }).collect()
    }

    /// The vectors of the reference (section 20).
    #[test]
    fn vectors() {
        let vectors = [
            (
                Scheme::SharedKey,
                "POST /devstoreaccount1/orders/messages?visibilitytimeout=0&messagettl=-1
                 content-length: 100
                 content-type: application/xml",
                "ljE3sb3eVb/TBWkUz5nHgqSgsqGbdwBHm9Y1iSvSY3E=",
            ),
            (
                Scheme::SharedKey,
                "GET /devstoreaccount1/$logs?restype=container&comp=list&include=metadata&prefix=table%2F2026%2F11%2F16%2F00",
                "Mn9qUs9ib677ZHH/tWRsVhl5eazG+2aY/XsyUUOPl4Y=",
            ),
            (
                Scheme::SharedKey,
                "PUT /devstoreaccount1/docs/a%20b.txt
                 content-length: 11
                 content-type: text/plain
                 if-none-match: *
                 x-ms-meta-logtype: read
                 x-ms-blob-type: BlockBlob",
                "oETM3jUp3kERaJ9ROB6QI9mbTO6XIQJUSRElQqVQ0/A=",
            ),
            (
                Scheme::SharedKeyLite,
                "GET /devstoreaccount1/orders?comp=metadata",
                "sJJIJgR1Yu2iWm1sT+4yjga0K7Qxv+7+l0x4/m+q4BQ=",
            ),
        ];
        let key = AccountKey::parse(KEY).unwrap();
        for (scheme, request, expected) in vectors {
            let dated = format!(
                "{request}\nx-ms-date: Mon, 16 Nov 2026 00:09:47 GMT\nx-ms-version: 2021-12-02"
            );
            let strings = strings(scheme, &dated);
            assert_eq!(key.sign(&strings[0]), expected, "{}", strings[0]);
            assert_eq!(strings.len(), 1, "nothing is ambiguous here");
        }
    }

    #[test]
    fn a_date_is_signed_once() {
        let date = "Mon, 16 Nov 2026 00:09:47 GMT";
        let lite =
            |headers: &str| strings(Scheme::SharedKeyLite, &format!("GET /q{headers}")).remove(0);
        assert_eq!(lite(&format!("\ndate: {date}")), format!("GET\n\n\n{date}\n/{ACCOUNT}/q"));
        assert_eq!(
            lite(&format!("\ndate: x\nx-ms-date: {date}")),
            format!("GET\n\n\n\nx-ms-date:{date}\n/{ACCOUNT}/q")
        );
    }

    #[test]
    fn versions_differ_about_what_is_empty() {
        let put = |version: &str| {
            let request =
                format!("PUT /b\ncontent-length: 0\nx-ms-meta-a:\nx-ms-version: {version}");
            strings(Scheme::SharedKey, &request).remove(0)
        };
        let resource = format!("/{ACCOUNT}/b");
        let ends = "\n\n\n\n\n\n\n\n\n";
        assert_eq!(
            put("2014-02-14"),
            format!("PUT\n\n\n0{ends}x-ms-version:2014-02-14\n{resource}")
        );
        assert_eq!(
            put("2015-02-21"),
            format!("PUT\n\n\n{ends}x-ms-version:2015-02-21\n{resource}")
        );
        assert_eq!(
            put("2016-05-31"),
            format!("PUT\n\n\n{ends}x-ms-meta-a:\nx-ms-version:2016-05-31\n{resource}")
        );
    }

    #[test]
    fn parameters_are_grouped_and_sorted() {
        let string =
            strings(Scheme::SharedKey, "GET /c?Include=snapshots&b=%2b+&include=%6Detadata&a&=x")
                .remove(0);
        let (_, resource) = string.split_once(&format!("/{ACCOUNT}/c")).unwrap();
        assert_eq!(resource, "\n:x\na:\nb:++\ninclude:metadata,snapshots");
    }

    #[test]
    fn names_of_headers_have_an_order_of_their_own() {
        for (first, second) in [
            ("x-ms-meta-a_b", "x-ms-meta-a1"),
            ("x-ms-meta-ab", "x-ms-meta-a-b"),
            ("x-ms-meta", "x-ms-meta-a"),
            ("x-ms-date", "x-ms-version"),
            ("x-ms-meta-a1", "x-ms-meta-aa"),
            ("x-ms-a'b", "x-ms-a-b"),
        ] {
            assert_eq!(service_order(first, second), Ordering::Less, "{first} {second}");
            assert_eq!(service_order(second, first), Ordering::Greater, "{first} {second}");
        }
    }

    #[test]
    fn either_order_of_headers_may_have_been_signed() {
        let strings = strings(Scheme::SharedKeyLite, "GET /c\nx-ms-meta-a1: 1\nx-ms-meta-a_b: 2");
        let expected = ["x-ms-meta-a_b:2\nx-ms-meta-a1:1", "x-ms-meta-a1:1\nx-ms-meta-a_b:2"];
        assert_eq!(strings, expected.map(|headers| format!("GET\n\n\n\n{headers}\n/{ACCOUNT}/c")));
    }

    #[test]
    fn paths_that_may_have_been_signed() {
        for (path, expected) in [
            ("", &["/"][..]),
            ("/a/b", &["/a/b"]),
            ("/a-secondary/b", &["/a-secondary/b", "/a/b"]),
            ("/a-secondary", &["/a-secondary", "/a"]),
            ("/a/b-secondary", &["/a/b-secondary"]),
            ("/a/%7e%2f%c3%A9%", &["/a/%7e%2f%c3%A9%", "/a/~%2F%C3%A9%"]),
            ("/%zz%é%+f", &["/%zz%é%+f"]),
        ] {
            assert_eq!(path_candidates(path), expected, "{path}");
        }
    }
}
