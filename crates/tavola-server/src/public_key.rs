//! Who may use the development account. Its key is public, so that every web page can sign requests
//! with it, and the browser of somebody who runs a server here carries them past all firewalls. Two
//! headers, which a page cannot choose, tell them:
//!
//! - `Host`: a page whose owner points its name to this machine after loading it (DNS rebinding) is
//!   of the same origin for the browser, but still sends that name. So only names count that nobody
//!   outside can own.
//! - `Origin`: a page of another site. It counts if a CORS rule of the account admits it.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::ORIGIN;
use tavola_core::cors::{CorsRule, rule_for};

use crate::config::{Config, Personality};

/// Names that no public name server gives out: those of containers, of Kubernetes services, and of
/// local networks.
const LOCAL_SUFFIXES: [&str; 3] = [".internal", ".local", ".svc"];

/// The names under which accounts with the public key are served.
#[derive(Debug, Clone)]
pub(crate) struct DevelopmentHosts {
    /// Containers reach an emulator under names of their network.
    takes_local_names: bool,
    /// Names that somebody configured; `*.NAME` for all below one.
    names: Vec<String>,
}

impl DevelopmentHosts {
    /// As configured.
    pub(crate) fn new(config: &Config) -> Self {
        let takes_local_names = config.personality == Personality::Emulator;
        Self { takes_local_names, names: config.development_hosts.clone() }
    }

    /// True if a request may name the server so, with or without a port.
    pub(crate) fn admit(&self, authority: &str) -> bool {
        let name = host_name(authority);
        // A name that ends in a dot is the same name.
        let name = name.strip_suffix('.').unwrap_or(name);
        if let Some(ip) = ip_address(name) {
            // Nobody can point an address elsewhere.
            return ip.is_loopback() || self.takes_local_names;
        }
        is_below(name, ".localhost")
            || name.eq_ignore_ascii_case("localhost")
            || self.takes_local_names && is_local(name)
            || self.names.iter().any(|known| is_named(name, known))
    }
}

/// The name of a `Host` without its port.
pub(crate) fn host_name(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    }
}

/// The address that a host name is, if it is one.
pub(crate) fn ip_address(name: &str) -> Option<IpAddr> {
    name.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn is_local(name: &str) -> bool {
    let has_no_dot = !name.is_empty() && !name.contains('.');
    has_no_dot || LOCAL_SUFFIXES.iter().any(|suffix| is_below(name, suffix))
}

fn is_named(name: &str, known: &str) -> bool {
    match known.strip_prefix('*') {
        Some(suffix) if suffix.starts_with('.') => is_below(name, suffix),
        _ => known.eq_ignore_ascii_case(name),
    }
}

/// `suffix` begins with a dot.
fn is_below(name: &str, suffix: &str) -> bool {
    let at = name.len().saturating_sub(suffix.len());
    at > 0 && name.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

/// The origins of a request that are not our own. One that is no text is nobody's.
pub(crate) fn foreign_origins<'a>(
    headers: &'a HeaderMap,
    own: &'a str,
) -> impl Iterator<Item = &'a str> {
    let origins = headers.get_all(ORIGIN).iter().map(|origin| origin.to_str().unwrap_or("null"));
    origins.filter(move |origin| !origin.eq_ignore_ascii_case(own))
}

/// True if a rule lets pages of that origin send such requests.
pub(crate) fn is_admitted(origin: &str, method: &str, rules: &[CorsRule]) -> bool {
    rule_for(rules, origin, method).is_some()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::{DevelopmentHosts, foreign_origins};

    /// Host | server | emulator
    const HOSTS: &str = "
        127.0.0.1:10002                     | yes | yes
        127.8.8.8                           | yes | yes
        [::1]:10002                         | yes | yes
        [::ffff:127.0.0.1]                  | yes | yes
        localhost                           | yes | yes
        LocalHost:10002                     | yes | yes
        localhost.:10002                    | yes | yes
        devstoreaccount1.table.localhost:80 | yes | yes
        tables.example:10002                | yes | yes
        TABLES.example                      | yes | yes
        a.dev.example                       | yes | yes
        a.b.DEV.example:1                   | yes | yes
        dev.example                         | no  | no
        xdev.example                        | no  | no
        a.tables.example                    | no  | no
        evil.example                        | no  | no
        localhost.evil.example              | no  | no
        evillocalhost                       | no  | yes
        127.0.0.1.evil.example              | no  | no
        azurite.evil.example:10002          | no  | no
        10.0.0.7:10002                      | no  | yes
        [2001:db8::7]:10002                 | no  | yes
        azurite:10002                       | no  | yes
        storage_emulator                    | no  | yes
        host.docker.internal:10002          | no  | yes
        gateway.containers.internal         | no  | yes
        mymac.local                         | no  | yes
        storage.dev.svc:10002               | no  | yes
        storage.dev.svc.cluster.local       | no  | yes
        local                               | no  | yes
        .local                              | no  | no
        evil.notlocal                       | no  | no
        svc.example                         | no  | no
        -                                   | no  | no";

    #[test]
    fn names_that_nobody_outside_can_own() {
        let names = vec!["tables.example".to_owned(), "*.dev.example".to_owned()];
        for line in HOSTS.lines().filter(|line| !line.trim().is_empty()) {
            let row: Vec<&str> = line.split('|').map(str::trim).collect();
            let host = if row[0] == "-" { "" } else { row[0] };
            for (takes_local_names, expected) in [(false, row[1]), (true, row[2])] {
                let hosts = DevelopmentHosts { takes_local_names, names: names.clone() };
                assert_eq!(hosts.admit(host), expected == "yes", "{line} {takes_local_names}");
            }
        }
    }

    #[test]
    fn origins_of_others() {
        let foreign = |origins: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append("origin", http::HeaderValue::from_bytes(origin).unwrap());
            }
            foreign_origins(&headers, "http://localhost:10002")
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(foreign(&[]), [""; 0]);
        assert_eq!(foreign(&[b"http://LOCALHOST:10002"]), [""; 0]);
        assert_eq!(foreign(&[b"https://localhost:10002"]), ["https://localhost:10002"]);
        assert_eq!(
            foreign(&[b"http://localhost:10002", b"http://evil.example"]),
            ["http://evil.example"]
        );
        assert_eq!(foreign(&[b"null"]), ["null"]);
        assert_eq!(foreign(&[b"\xff"]), ["null"]);
        assert_eq!(foreign(&[b""]), [""]);
    }
}
