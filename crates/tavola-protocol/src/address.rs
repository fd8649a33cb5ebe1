//! Which account a request is for, in either style of URL, and what of its path remains.

use std::net::Ipv4Addr;

use http::Version;
use http::header::HOST;
use http::request::Parts;
use tavola_core::AccountName;

use crate::api_error::ApiError;

/// What follows an account's name when its read-only secondary is addressed.
pub(crate) const SECONDARY: &str = "-secondary";

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The account, without `-secondary`.
    pub account: AccountName,
    /// True if it is addressed through its read-only secondary.
    pub secondary: bool,
    /// What the URLs of the answer begin with: `http://127.0.0.1:10002/devstoreaccount1`,
    /// `http://acct.table.test`.
    pub base: String,
    /// The path without the account, still percent-encoded, beginning with a slash.
    pub resource_path: String,
}

impl Address {
    /// The first segment of the path: the table, queue or container that a request is about, still
    /// percent-encoded.
    #[must_use]
    pub fn container(&self) -> &str {
        first_segment(&self.resource_path).0
    }
}

/// How this listener reads addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRules {
    /// Never take the account from the host.
    pub path_style_only: bool,
    /// The scheme that clients used to reach us.
    pub scheme: &'static str,
}

/// Finds the account. The host names it if its first label is an account of ours; otherwise the
/// path's first segment does, so that a server behind any host name works without configuration.
///
/// # Errors
/// If the request names no host, or no account of ours.
pub fn locate(
    parts: &Parts,
    rules: &AddressRules,
    is_account: &dyn Fn(&str) -> bool,
) -> Result<Address, ApiError> {
    let host = host(parts)?;
    let path = parts.uri.path();
    if !rules.path_style_only
        && let Some((account, secondary)) = account_in_host(host, is_account)
    {
        let base = [rules.scheme, "://", host].concat();
        return Ok(Address { account, secondary, base, resource_path: rooted(path) });
    }
    let (segment, rest) = first_segment(path);
    let (account, secondary) =
        account_named(segment, is_account).ok_or(ApiError::AccountNotFound)?;
    let base = [rules.scheme, "://", host, "/", segment].concat();
    let rest =
        if secondary { without_repeated_account(rest, &account, parts.uri.query()) } else { rest };
    Ok(Address { account, secondary, base, resource_path: rooted(rest) })
}

/// The host as the client wrote it, with its port. It returns to the client in URLs, so it must be
/// one.
fn host(parts: &Parts) -> Result<&str, ApiError> {
    let invalid =
        |host: &str| ApiError::InvalidHeaderValue { name: "Host", value: host.to_owned() };
    let mut headers =
        parts.headers.get_all(HOST).iter().map(|value| value.to_str().unwrap_or_default().trim());
    let (header, second) = (headers.next(), headers.next());
    // A proxy before us may have decided by the other one.
    if let Some(second) = second {
        return Err(invalid(second));
    }
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    if parts.version == Version::HTTP_2
        && let (Some(authority), Some(header)) = (authority, header)
        && !without_default_port(authority).eq_ignore_ascii_case(without_default_port(header))
    {
        return Err(invalid(header));
    }
    let host = authority.or(header).unwrap_or_default();
    if host.is_empty() {
        return Err(ApiError::HostMissing);
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    if !host.bytes().all(legal) {
        return Err(invalid(host));
    }
    Ok(host)
}

fn account_in_host(host: &str, is_account: &dyn Fn(&str) -> bool) -> Option<(AccountName, bool)> {
    let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
    if host.starts_with('[') || name.parse::<Ipv4Addr>().is_ok() {
        return None;
    }
    let (label, _) = name.split_once('.')?;
    // Host names have no case, and many clients send them in lower case whatever they were given.
    account_named(label, is_account)
        .or_else(|| account_named(&label.to_ascii_lowercase(), is_account))
}

/// The account of that name, or the one whose secondary it is.
fn account_named(name: &str, is_account: &dyn Fn(&str) -> bool) -> Option<(AccountName, bool)> {
    if is_account(name) {
        return Some((AccountName::parse(name)?, false));
    }
    let primary = name.strip_suffix(SECONDARY).filter(|primary| is_account(primary))?;
    Some((AccountName::parse(primary)?, true))
}

/// Splits `/first/rest` into `first` and `/rest`.
fn first_segment(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_at(path.find('/').unwrap_or(path.len()))
}

/// The Python library makes a secondary's address by rewriting the host, and so asks for stats with
/// `/acct-secondary/acct/?restype=service…`. Nothing else can mean that: tables know no `restype`.
fn without_repeated_account<'a>(
    rest: &'a str,
    account: &AccountName,
    query: Option<&str>,
) -> &'a str {
    let (segment, tail) = first_segment(rest);
    let repeated = segment == account.as_str() && matches!(tail, "" | "/");
    if repeated && query.is_some_and(|query| query.contains("restype=service")) {
        tail
    } else {
        rest
    }
}

/// The default port of TLS, without which HTTP/2 is not spoken, names the same host.
fn without_default_port(host: &str) -> &str {
    host.strip_suffix(":443").unwrap_or(host)
}

/// Takes the account from the path of a request inside a batch. Such a path may have it or not,
/// whatever the style of the batch's own URL: proxies rewrite the latter only. Nothing that a batch
/// can hold has two segments, so there is no ambiguity.
pub(crate) fn resource_path_in_batch<'a>(path: &'a str, account: &str) -> &'a str {
    let (segment, rest) = first_segment(path);
    let is_account = segment.strip_suffix(SECONDARY).unwrap_or(segment) == account;
    if is_account && rest.starts_with('/') { rest } else { path }
}

fn rooted(path: &str) -> String {
    if path.is_empty() { "/".to_owned() } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::{AddressRules, locate, resource_path_in_batch};
    use crate::api_error::ApiError;

    const RULES: AddressRules = AddressRules { path_style_only: false, scheme: "http" };

    fn is_account(name: &str) -> bool {
        matches!(name, "acct" | "devstoreaccount1" | "x-secondary")
    }

    fn found(rules: AddressRules, target: &str, host: Option<&str>) -> Result<String, ApiError> {
        let mut request = Request::builder().uri(target);
        if let Some(host) = host {
            request = request.header("Host", host);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let address = locate(&parts, &rules, &is_account)?;
        let secondary = if address.secondary { "-secondary" } else { "" };
        Ok(format!("{}{secondary} {} {}", address.account, address.base, address.resource_path))
    }

    /// Statements 1, 2 and 17.
    #[test]
    fn both_styles() {
        for (target, host, expected) in [
            ("/acct/Tables", "127.0.0.1:10002", "acct http://127.0.0.1:10002/acct /Tables"),
            ("/acct/Tables", "localhost:10002", "acct http://localhost:10002/acct /Tables"),
            ("/acct/Tables", "[::1]:10002", "acct http://[::1]:10002/acct /Tables"),
            ("/acct", "localhost", "acct http://localhost/acct /"),
            ("/acct/?comp=x", "localhost", "acct http://localhost/acct /"),
            (
                "/acct-secondary/T()",
                "localhost",
                "acct-secondary http://localhost/acct-secondary /T()",
            ),
            ("/x-secondary/T()", "localhost", "x-secondary http://localhost/x-secondary /T()"),
            (
                "/Tables",
                "acct.table.localhost:10002",
                "acct http://acct.table.localhost:10002 /Tables",
            ),
            ("/", "ACCT.table.localhost", "acct http://ACCT.table.localhost /"),
            (
                "/T",
                "acct-secondary.table.localhost",
                "acct-secondary http://acct-secondary.table.localhost /T",
            ),
            ("/acct/T", "storage.ns.svc:10002", "acct http://storage.ns.svc:10002/acct /T"),
            ("/acct/T", "acct", "acct http://acct/acct /T"),
            ("http://localhost:1/acct/T", "other", "acct http://localhost:1/acct /T"),
            ("http://acct.table.test/T", "other", "acct http://acct.table.test /T"),
            (
                "/acct-secondary/acct/?restype=service&comp=stats",
                "localhost",
                "acct-secondary http://localhost/acct-secondary /",
            ),
            (
                "/acct-secondary/acct",
                "localhost",
                "acct-secondary http://localhost/acct-secondary /acct",
            ),
            ("/acct/a%2Fb", "localhost", "acct http://localhost/acct /a%2Fb"),
        ] {
            assert_eq!(
                found(RULES, target, Some(host)).as_deref(),
                Ok(expected),
                "{target} {host}"
            );
        }
    }

    #[test]
    fn path_style_can_be_forced() {
        let rules = AddressRules { path_style_only: true, ..RULES };
        let host = Some("acct.table.localhost");
        assert_eq!(
            found(rules, "/acct/T", host).as_deref(),
            Ok("acct http://acct.table.localhost/acct /T")
        );
        assert_eq!(found(rules, "/T", host), Err(ApiError::AccountNotFound));
    }

    #[test]
    fn refusals() {
        assert_eq!(found(RULES, "/acct/T", None), Err(ApiError::HostMissing));
        assert_eq!(found(RULES, "/acct/T", Some("")), Err(ApiError::HostMissing));
        assert_eq!(found(RULES, "/", Some("localhost")), Err(ApiError::AccountNotFound));
        assert_eq!(found(RULES, "/nobody/T", Some("localhost")), Err(ApiError::AccountNotFound));
        assert_eq!(
            found(RULES, "/nobody-secondary/T", Some("localhost")),
            Err(ApiError::AccountNotFound)
        );
        assert!(matches!(
            found(RULES, "/acct/T", Some("a\"b")),
            Err(ApiError::InvalidHeaderValue { .. })
        ));
    }

    /// Whoever stands before us may have decided by the other name.
    #[test]
    fn one_host_only() {
        let located = |request: http::request::Builder| {
            let (parts, ()) = request.body(()).unwrap().into_parts();
            locate(&parts, &RULES, &is_account).map(|address| address.base)
        };
        let base = || Ok("http://localhost/acct".to_owned());
        let refused =
            |answer| matches!(answer, Err(ApiError::InvalidHeaderValue { name: "Host", .. }));
        let http2 =
            || Request::builder().version(http::Version::HTTP_2).uri("http://localhost/acct/T");
        assert!(refused(located(
            Request::builder()
                .uri("/acct/T")
                .header("host", "localhost")
                .header("host", "localhost")
        )));
        assert!(refused(located(
            Request::builder()
                .uri("http://localhost/acct/T")
                .header("host", "a")
                .header("host", "b")
        )));
        assert!(refused(located(http2().header("host", "localhost").header("host", "localhost"))));
        assert!(refused(located(http2().header("host", "other"))));
        assert_eq!(located(http2()), base());
        assert_eq!(located(http2().header("host", "LOCALHOST")), base());
        assert_eq!(located(http2().header("host", "localhost:443")), base());
        assert!(refused(located(http2().header("host", "localhost:444"))));
        // In HTTP/1 the target of a request to a proxy counts, whatever the header says.
        assert_eq!(
            located(Request::builder().uri("http://localhost/acct/T").header("host", "other")),
            base()
        );
    }

    #[test]
    fn paths_inside_a_batch() {
        for (path, expected) in [
            ("/acct/T(PartitionKey='a',RowKey='b')", "/T(PartitionKey='a',RowKey='b')"),
            ("/acct-secondary/T", "/T"),
            ("/T", "/T"),
            ("/acct", "/acct"),
            ("/other/T", "/other/T"),
        ] {
            assert_eq!(resource_path_in_batch(path, "acct"), expected);
        }
    }

    proptest! {
        #[test]
        fn no_panic(path in "[/a-z%'()=.\\-]{0,40}", host in "[ -~]{0,30}", known in any::<bool>()) {
            let request = Request::builder().uri(format!("/{path}")).header("Host", host).body(());
            if let Ok(request) = request {
                let _ = locate(&request.into_parts().0, &RULES, &|_| known);
            }
        }
    }
}
