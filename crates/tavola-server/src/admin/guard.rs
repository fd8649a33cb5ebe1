//! Who may talk to the admin port at all. It listens without credentials for health and metrics,
//! and a browser will carry a stranger's page to any address; so a request must name this server as
//! itself, and come from no other site.
//!
//! A page under a name that its owner points to 127.0.0.1 after loading (DNS rebinding) is of the
//! same origin for the browser. It still sends that name as `Host`, which is how it is told.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};

use crate::public_key::{host_name, ip_address};

/// Why a request is not listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrossSite {
    /// `Host` names another server.
    Host,
    /// A page of another site sent it.
    Origin,
}

impl CrossSite {
    /// What it is told.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Host => {
                "the Host header names another server: use its address, localhost, or a name in server.admin_names\n"
            }
            Self::Origin => "requests from pages of other sites are refused\n",
        }
    }
}

/// How the admin port is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct OriginCheck<'a> {
    /// The address on which it listens.
    pub(super) listens_on: IpAddr,
    /// The names that somebody gave it.
    pub(super) names: &'a [String],
}

impl OriginCheck<'_> {
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), CrossSite> {
        let header = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let host = uri
            .authority()
            .map(|authority| authority.as_str())
            .or_else(|| header(HOST))
            .unwrap_or_default();
        if !self.is_own_name(host_name(host)) {
            return Err(CrossSite::Host);
        }
        match header(ORIGIN) {
            None => Ok(()),
            Some(origin)
                if origin
                    .split_once("://")
                    .is_some_and(|(_, of)| of.eq_ignore_ascii_case(host)) =>
            {
                Ok(())
            }
            Some(_) => Err(CrossSite::Origin),
        }
    }

    fn is_own_name(&self, name: &str) -> bool {
        let beyond_loopback = !self.listens_on.is_loopback();
        if let Some(ip) = ip_address(name) {
            return beyond_loopback || ip.is_loopback();
        }
        let named = self.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        // Nobody on the internet owns a name without a dot; inside a container network it is how
        // servers are called.
        let local = beyond_loopback && !name.is_empty() && !name.contains('.');
        name.eq_ignore_ascii_case("localhost") || named || local
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{CrossSite, OriginCheck};

    #[test]
    fn only_ourselves() {
        let names = ["metrics.example".to_owned()];
        for (listens_on, host, origin, expected) in [
            ("127.0.0.1", "127.0.0.1:10003", "", Ok(())),
            ("127.0.0.1", "localhost:10003", "", Ok(())),
            ("127.0.0.1", "LOCALHOST", "", Ok(())),
            ("127.0.0.1", "[::1]:10003", "", Ok(())),
            ("127.0.0.1", "metrics.example", "", Ok(())),
            ("127.0.0.1", "evil.example:10003", "", Err(CrossSite::Host)),
            ("127.0.0.1", "10.0.0.1:10003", "", Err(CrossSite::Host)),
            ("127.0.0.1", "localhost.evil.example", "", Err(CrossSite::Host)),
            ("127.0.0.1", "tavola:10003", "", Err(CrossSite::Host)),
            ("127.0.0.1", "", "", Err(CrossSite::Host)),
            ("0.0.0.0", "10.0.0.1:10003", "", Ok(())),
            ("0.0.0.0", "tavola:10003", "", Ok(())),
            ("0.0.0.0", "evil.example", "", Err(CrossSite::Host)),
            ("127.0.0.1", "localhost:10003", "http://localhost:10003", Ok(())),
            ("127.0.0.1", "localhost:10003", "http://localhost:8080", Err(CrossSite::Origin)),
            ("127.0.0.1", "localhost:10003", "https://evil.example", Err(CrossSite::Origin)),
            ("127.0.0.1", "localhost:10003", "null", Err(CrossSite::Origin)),
            ("127.0.0.1", "evil.example", "http://evil.example", Err(CrossSite::Host)),
        ] {
            let mut request = Request::get("/ready").header("host", host);
            if !origin.is_empty() {
                request = request.header("origin", origin);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let door = OriginCheck { listens_on: listens_on.parse().unwrap(), names: &names };
            assert_eq!(
                door.check(&parts.uri, &parts.headers),
                expected,
                "{listens_on} {host} {origin}"
            );
        }
    }
}
