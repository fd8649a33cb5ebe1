//! The endpoint under test: address, account, keys, and the lock for cases that need the account for
//! themselves.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::http::{Connection, Response};
use super::request::Client;
use super::{Access, Failure};

/// Is called with each exchange: the request as it was sent, the status, and the headers and body of the
/// answer.
pub type Observer = fn(request: &[u8], status: u16, answer: &[u8]);

/// A Table endpoint and the account to use there.
pub struct Endpoint {
    authority: String,
    base_path: String,
    account: String,
    key: Vec<u8>,
    second_key: Option<Vec<u8>>,
    admin: Option<String>,
    observer: Option<Observer>,
    access_lock: RwLock<()>,
    names: AtomicU64,
}

/// The lock on the account; a case holds it while it runs.
#[derive(Debug)]
#[allow(dead_code, reason = "the guards act by being dropped")]
pub(super) enum AccessGuard<'e> {
    Shared(RwLockReadGuard<'e, ()>),
    Exclusive(RwLockWriteGuard<'e, ()>),
}

impl Endpoint {
    /// `url` is `http://host:port/account` (path style) or `http://account.table.host` (host
    /// style). `key` is the account key in Base64.
    ///
    /// # Errors
    /// A text for the user when the address or the key cannot be read.
    pub fn new(url: &str, account: &str, key: &str) -> Result<Self, String> {
        let (authority, base_path) = split_url(url)?;
        Ok(Endpoint {
            authority,
            base_path,
            account: account.to_owned(),
            key: decode_key(key)?,
            second_key: None,
            admin: None,
            observer: None,
            access_lock: RwLock::new(()),
            names: AtomicU64::new(0),
        })
    }

    /// Adds the second key of the account, in Base64.
    ///
    /// # Errors
    /// A text for the user when the key is not Base64.
    pub fn with_second_key(mut self, key: &str) -> Result<Self, String> {
        self.second_key = Some(decode_key(key)?);
        Ok(self)
    }

    /// Adds the address of the admin port (`http://host:port`), whose `/metrics` count the rows
    /// read.
    ///
    /// # Errors
    /// A text for the user when the address cannot be read.
    pub fn with_admin(mut self, url: &str) -> Result<Self, String> {
        self.admin = Some(split_url(url)?.0);
        Ok(self)
    }

    /// Tells `observer` of every exchange.
    #[must_use]
    pub fn with_observer(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Asks one thing, so that a run without an endpoint ends before it begins.
    ///
    /// # Errors
    /// What went wrong when no answer came at all. Any answer will do.
    pub fn probe(&self) -> Result<(), Failure> {
        self.client().get("/Tables?$top=1").send().map(|_| ())
    }

    /// The account's name.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// `host:port`, for the connection and for the `Host` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The port alone, for host names that a case makes up.
    pub(super) fn port(&self) -> &str {
        self.authority.rsplit(':').next().unwrap_or_default()
    }

    /// `/account` in path style, empty in host style.
    pub fn base_path(&self) -> &str {
        &self.base_path
    }

    /// What absolute URLs of the service begin with, without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.authority, self.base_path)
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn second_key(&self) -> Result<&[u8], Failure> {
        self.second_key
            .as_deref()
            .ok_or_else(|| Failure::skipped("no second key was given (--key2)"))
    }

    pub(super) fn admin(&self) -> Result<&str, Failure> {
        self.admin
            .as_deref()
            .ok_or_else(|| Failure::skipped("no admin address was given (--admin)"))
    }

    /// Cases about path style mean nothing where the account is in the host name.
    pub(super) fn require_path_style(&self) -> Result<(), Failure> {
        if self.base_path.is_empty() {
            return Err(Failure::skipped("the endpoint is addressed in host style"));
        }
        Ok(())
    }

    pub(super) fn client(&self) -> Client<'_> {
        Client::new(self)
    }

    /// Sends a request, reads its answer and tells the observer of both.
    pub(super) fn exchange(
        &self,
        connection: &mut Connection,
        request: &[u8],
    ) -> Result<Response, Failure> {
        let response = connection.exchange(request)?;
        if let Some(observer) = self.observer {
            let lines = response.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
            let head: String = lines.collect();
            observer(request, response.status, &[head.as_bytes(), &response.body].concat());
        }
        Ok(response)
    }

    /// A table name that was not used before on this endpoint, short enough to be lengthened by a
    /// case.
    pub(super) fn fresh_name(&self) -> String {
        let since_epoch =
            SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        // The letter at the end keeps one name from being the beginning of another.
        format!("wc{:x}x{:x}x{number}t", since_epoch.as_micros(), std::process::id())
    }

    pub(super) fn lock(&self, access: Access) -> AccessGuard<'_> {
        // A case that panicked while holding the lock left nothing half done in it.
        match access {
            Access::Shared => AccessGuard::Shared(
                self.access_lock.read().unwrap_or_else(|lock| lock.into_inner()),
            ),
            Access::Exclusive => AccessGuard::Exclusive(
                self.access_lock.write().unwrap_or_else(|lock| lock.into_inner()),
            ),
        }
    }
}

impl fmt::Debug for Endpoint {
    /// Leaves the keys out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Endpoint")
            .field("url", &self.base_url())
            .field("account", &self.account)
            .field("admin", &self.admin)
            .finish_non_exhaustive()
    }
}

fn split_url(url: &str) -> Result<(String, String), String> {
    let rest =
        url.strip_prefix("http://").ok_or_else(|| format!("{url} does not begin with http://"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return Err(format!("{url} names no host"));
    }
    let authority =
        if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let path = path.trim_end_matches('/');
    let base_path = if path.is_empty() { String::new() } else { format!("/{path}") };
    Ok((authority, base_path))
}

fn decode_key(key: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(key).map_err(|error| format!("the key is not Base64: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_split_into_authority_and_base_path() {
        for (url, authority, base_path) in [
            ("http://127.0.0.1:10002/dev", "127.0.0.1:10002", "/dev"),
            ("http://127.0.0.1:10002/dev/", "127.0.0.1:10002", "/dev"),
            ("http://a.table.example.net", "a.table.example.net:80", ""),
        ] {
            let parsed = split_url(url).unwrap();
            assert_eq!(parsed, (authority.to_owned(), base_path.to_owned()));
        }
        assert!(split_url("https://127.0.0.1:10002/dev").is_err());
    }

    #[test]
    fn fresh_names_differ_and_are_table_names() {
        let endpoint = Endpoint::new("http://127.0.0.1:1/dev", "dev", "AAAA").unwrap();
        let (first, second) = (endpoint.fresh_name(), endpoint.fresh_name());
        assert_ne!(first, second);
        assert!(first.len() < 45 && first.chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
