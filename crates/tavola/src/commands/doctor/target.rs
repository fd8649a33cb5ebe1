//! Parses a URL with a signature: account, endpoint, table.

use std::fmt;
use std::net::IpAddr;

use http::header::HOST;
use http::{Request, Uri};
use tavola_core::AccountName;
use tavola_protocol::auth::{SasFields, TableSas};
use tavola_protocol::connection_string::Endpoint;
use tavola_protocol::{AddressRules, locate};
use zeroize::Zeroizing;

/// What a signature is to open.
pub(super) struct Target {
    pub(super) account: AccountName,
    pub(super) endpoint: Endpoint,
    /// The table that the URL itself names.
    pub(super) table: Option<String>,
    /// The query string, with the signature in it.
    pub(super) query: Zeroizing<String>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("endpoint", &self.endpoint)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// Why a text is not such a URL. Nothing of it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetError {
    NoQuery,
    NoSignature,
    HtmlEscaped,
    NotAUrl,
    NoAccount,
}

impl TargetError {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NoQuery => "there is no ? in it, and so no signature",
            Self::NoSignature => "it has no sig, so it carries no signature",
            Self::HtmlEscaped => "it was copied from HTML: it has &amp; instead of &",
            Self::NotAUrl => "it is not a URL that begins with http:// or https://",
            Self::NoAccount => "nothing in it says which account it is for",
        }
    }

    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::NoQuery | Self::NoSignature => {
                "in a shell quote the URL, because & ends a command; `tavola sas` prints a valid \
                 one"
            }
            Self::HtmlEscaped => "replace every &amp; by &",
            Self::NotAUrl | Self::NoAccount => {
                "it looks like http://127.0.0.1:10002/ACCOUNT/TABLE?sv=…&sig=…"
            }
        }
    }
}

impl Target {
    /// `is_account` knows accounts of this machine, which settles what a first segment means.
    pub(super) fn parse(url: &str, is_account: impl Fn(&str) -> bool) -> Result<Self, TargetError> {
        let url = url.trim().trim_matches(['"', '\'']);
        let (base, query) = url.split_once('?').ok_or(TargetError::NoQuery)?;
        let query = query.trim_start_matches('?');
        if query.contains("&amp;") {
            return Err(TargetError::HtmlEscaped);
        }
        if !SasFields::are_in(Some(query)) {
            return Err(TargetError::NoSignature);
        }
        let uri: Uri = base.parse().map_err(|_| TargetError::NotAUrl)?;
        let scheme = match uri.scheme_str() {
            Some("http") => "http",
            Some("https") => "https",
            _ => return Err(TargetError::NotAUrl),
        };
        let guess = guess_account(&uri, query);
        let request = Request::get(uri.path())
            .header(HOST, uri.authority().map_or("", |authority| authority.as_str()));
        let (parts, ()) = request.body(()).map_err(|_| TargetError::NotAUrl)?.into_parts();
        let rules = AddressRules { path_style_only: false, scheme };
        let is_account = |name: &str| is_account(name) || guess.as_deref() == Some(name);
        let address = locate(&parts, &rules, &is_account).map_err(|_| TargetError::NoAccount)?;
        Ok(Self {
            endpoint: Endpoint::parse(&address.base).map_err(|_| TargetError::NotAUrl)?,
            account: address.account,
            table: table_in(&address.resource_path),
            query: Zeroizing::new(query.to_owned()),
        })
    }
}

/// The name that is most likely the account's.
fn guess_account(uri: &Uri, query: &str) -> Option<String> {
    let host = uri.host()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
    let (first, second) = (segments.next(), segments.next());
    let (label, rest) = host.split_once('.').unwrap_or((host, ""));
    let path_style = bare.parse::<IpAddr>().is_ok() || rest.is_empty();
    let of_signature = TableSas::read(query).map(|sas| sas.table).unwrap_or_default();
    let first_is_table =
        first.is_none_or(|first| table_name(first).eq_ignore_ascii_case(&of_signature));
    let name = match first {
        Some(first) if path_style => first,
        None if path_style => return None,
        _ if rest.starts_with("table.") => label,
        Some(first) if second.is_some() => first,
        _ if first_is_table => label,
        Some(first) => first,
        None => label,
    };
    Some(name.strip_suffix("-secondary").unwrap_or(name).to_owned())
}

/// `employees(PartitionKey='a',RowKey='b')` names the table employees.
fn table_name(segment: &str) -> &str {
    segment.split('(').next().unwrap_or(segment)
}

fn table_in(resource_path: &str) -> Option<String> {
    let name = table_name(resource_path.trim_start_matches('/'));
    (!name.is_empty() && !name.starts_with('$') && name != "Tables").then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Target, TargetError};

    #[test]
    fn accounts_and_tables_of_urls() {
        let sas = "?sv=2019-02-02&tn=staff&sig=x";
        for (base, expected) in [
            ("http://127.0.0.1:10002/shop/staff", "shop http://127.0.0.1:10002/shop staff"),
            ("http://127.0.0.1:10002/shop", "shop http://127.0.0.1:10002/shop -"),
            ("http://127.0.0.1:10002/shop/", "shop http://127.0.0.1:10002/shop -"),
            ("http://[::1]:1/shop/other()", "shop http://[::1]:1/shop other"),
            (
                "http://localhost/shop/staff(PartitionKey='a',RowKey='b')",
                "shop http://localhost/shop staff",
            ),
            (
                "https://shop.table.core.windows.net/staff",
                "shop https://shop.table.core.windows.net staff",
            ),
            ("https://shop.table.core.windows.net/", "shop https://shop.table.core.windows.net -"),
            ("https://shop.example/STAFF", "shop https://shop.example STAFF"),
            ("https://tables.example/shop/staff", "shop https://tables.example/shop staff"),
            ("https://tables.example/shop", "shop https://tables.example/shop -"),
            ("https://known.example/staff", "known https://known.example staff"),
            ("https://tables.example/known/staff", "known https://tables.example/known staff"),
            (
                "http://127.0.0.1:10002/known-secondary/staff",
                "known http://127.0.0.1:10002/known-secondary staff",
            ),
            ("http://127.0.0.1:10002/shop/Tables", "shop http://127.0.0.1:10002/shop -"),
        ] {
            let target = Target::parse(&format!("{base}{sas}"), |name| name == "known").unwrap();
            let table = target.table.as_deref().unwrap_or("-");
            assert_eq!(
                format!("{} {} {table}", target.account, target.endpoint),
                expected,
                "{base}"
            );
            assert_eq!(*target.query, sas[1..]);
            assert!(!format!("{target:?}").contains("sig"));
        }
    }

    #[test]
    fn what_is_no_such_url() {
        for (url, expected) in [
            ("http://127.0.0.1/a/b", TargetError::NoQuery),
            ("http://127.0.0.1/a/b?sv=2019-02-02", TargetError::NoSignature),
            ("http://127.0.0.1/a/b?sv=2019-02-02&amp;sig=x", TargetError::HtmlEscaped),
            ("127.0.0.1/a/b?sig=x", TargetError::NotAUrl),
            ("ftp://127.0.0.1/a/b?sig=x", TargetError::NotAUrl),
            ("http://a b/?sig=x", TargetError::NotAUrl),
            ("http://127.0.0.1/?sig=x", TargetError::NoAccount),
        ] {
            assert_eq!(Target::parse(url, |_| false).unwrap_err(), expected, "{url}");
        }
        assert!(Target::parse("\"http://127.0.0.1/a/b?sig=x\"", |_| false).is_ok());
    }
}
