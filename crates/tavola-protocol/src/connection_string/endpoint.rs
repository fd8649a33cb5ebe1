//! Where a service is.

use std::fmt;

use http::Uri;
use tavola_core::AccountName;

use crate::address::SECONDARY;

/// Scheme, host and, in path style, the account; never a slash at the end:
/// `http://127.0.0.1:10002/devstoreaccount1`.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    text: String,
    /// Where the host begins, and where it ends: before the port.
    host: (usize, usize),
    /// Where the path begins, if there is one.
    path: usize,
}

/// Why a text is not an [`Endpoint`]. The text itself is not shown: it may have a signature in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Not a URL at all.
    #[error("not a URL such as http://127.0.0.1:10002/devstoreaccount1")]
    NotAUrl,
    /// Another scheme, or none.
    #[error("it must begin with http:// or https://")]
    Scheme,
    /// A user or a password before the host.
    #[error("it must not have a user name before the host")]
    UserName,
    /// Something behind the path.
    #[error("it must end with the path: no ?, # or ;")]
    Query,
}

impl Endpoint {
    /// Reads a URL without a query.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let text = text.trim();
        if text.contains(['?', '#', ';']) {
            return Err(EndpointError::Query);
        }
        let (scheme, rest) = text.split_once("://").ok_or(EndpointError::Scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        if !["http", "https"].contains(&scheme.as_str()) {
            return Err(EndpointError::Scheme);
        }
        let text = format!("{scheme}://{}", rest.trim_end_matches('/'));
        let uri: Uri = text.parse().map_err(|_| EndpointError::NotAUrl)?;
        let authority = uri.authority().ok_or(EndpointError::NotAUrl)?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::UserName);
        }
        let start = scheme.len() + "://".len();
        let host = (start, start + authority.host().len());
        let path = start + authority.as_str().len();
        let port_fits =
            authority.as_str().len() == authority.host().len() || authority.port_u16().is_some();
        if authority.host().is_empty() || !port_fits {
            return Err(EndpointError::NotAUrl);
        }
        Ok(Self { text, host, path })
    }

    /// The whole.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True if it is reached over TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.text.starts_with("https:")
    }

    /// The host without its port; an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.text[self.host.0..self.host.1]
    }

    /// The port, the scheme's own if none is written.
    #[must_use]
    pub fn port(&self) -> u16 {
        let written = self.text[self.host.1..self.path].trim_start_matches(':').parse().ok();
        written.unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// Everything before the port.
    pub(super) fn scheme_and_host(&self) -> &str {
        &self.text[..self.host.1]
    }

    /// The path, without a slash at its end; empty in host style.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.text[self.path..]
    }

    /// The account that it is of, as far as an address tells: the path's first segment, or without
    /// one the host's first label.
    #[must_use]
    pub fn account(&self) -> Option<AccountName> {
        let name = match self.path().trim_start_matches('/').split('/').next() {
            Some(segment) if !segment.is_empty() => segment,
            _ => self.host().split_once('.').map(|(label, _)| label)?,
        };
        AccountName::parse(name.strip_suffix(SECONDARY).unwrap_or(name))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
