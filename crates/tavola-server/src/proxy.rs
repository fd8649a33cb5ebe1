//! Who really asks, when a proxy stands in front of us.
//!
//! Anybody can write `X-Forwarded-*` headers, so they count only if the socket's other end is a
//! proxy that the operator named in `server.trusted_proxies`.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

use crate::connection::Scheme;

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// Who asks, and which scheme they used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Their address; an IPv4 address is one even if it came in IPv6 clothes.
    pub ip: IpAddr,
    /// The scheme of the URL that they asked for.
    pub scheme: Scheme,
}

/// The client behind `peer`, as far as trusted proxies say.
#[must_use]
pub fn forwarded(peer: IpAddr, scheme: Scheme, headers: &HeaderMap, trusted: &[IpNet]) -> Client {
    let ip = peer.to_canonical();
    if !is_trusted(ip, trusted) {
        return Client { ip, scheme };
    }
    Client {
        ip: forwarded_for(headers, trusted).unwrap_or(ip),
        scheme: forwarded_scheme(headers).unwrap_or(scheme),
    }
}

fn is_trusted(ip: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|range| range.contains(&ip))
}

/// Each proxy appends whom it heard from, so the list is true from its end up to the first address
/// that is not a proxy of ours: that one is the client, and what stands before it is what the
/// client wrote.
fn forwarded_for(headers: &HeaderMap, trusted: &[IpNet]) -> Option<IpAddr> {
    let mut client = None;
    for line in headers.get_all(FORWARDED_FOR).iter().rev() {
        for entry in line.to_str().ok()?.rsplit(',') {
            let ip = address(entry.trim())?;
            client = Some(ip);
            if !is_trusted(ip, trusted) {
                return client;
            }
        }
    }
    client
}

/// `1.2.3.4`, `::1`, `[::1]`, and both kinds with a port, as some gateways write them.
fn address(entry: &str) -> Option<IpAddr> {
    let bracketed =
        || entry.strip_prefix('[')?.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().ok();
    let ip = entry.parse::<IpAddr>().ok();
    let ip = ip.or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()));
    ip.or_else(|| bracketed().map(IpAddr::V6)).map(|ip| ip.to_canonical())
}

/// The last word is our peer's; those before it may be the client's own.
fn forwarded_scheme(headers: &HeaderMap) -> Option<Scheme> {
    let line = headers.get_all(FORWARDED_PROTO).iter().next_back()?.to_str().ok()?;
    match line.rsplit(',').next()?.trim() {
        word if word.eq_ignore_ascii_case("https") => Some(Scheme::Https),
        word if word.eq_ignore_ascii_case("http") => Some(Scheme::Http),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{FORWARDED_FOR, FORWARDED_PROTO, Scheme, forwarded};

    /// Trusted ranges | peer | X-Forwarded-For, lines separated by `;` | client. A dash is nothing.
    const FOR: &str = "
        -                      | 9.9.9.9          | -                              | 9.9.9.9
        -                      | 9.9.9.9          | 1.2.3.4                        | 9.9.9.9
        10.0.0.0/8             | 9.9.9.9          | 1.2.3.4                        | 9.9.9.9
        10.0.0.0/8             | 10.0.0.1         | -                              | 10.0.0.1
        10.0.0.0/8             | 10.0.0.1         | 1.2.3.4                        | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | 6.6.6.6, 1.2.3.4               | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | 10.6.6.6, 1.2.3.4              | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | 6.6.6.6, 1.2.3.4, 10.0.0.2     | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | 6.6.6.6;1.2.3.4, 10.0.0.2      | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | 6.6.6.6, 1.2.3.4;10.0.0.2      | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | 10.0.0.3, 10.0.0.2             | 10.0.0.3
        10.0.0.0/8             | 10.0.0.1         | nonsense, 1.2.3.4              | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | nonsense                       | 10.0.0.1
        10.0.0.0/8             | 10.0.0.1         | 1.2.3.4, nonsense              | 10.0.0.1
        10.0.0.0/8             | 10.0.0.1         | 1.2.3.4, nonsense, 10.0.0.2    | 10.0.0.1
        10.0.0.0/8             | 10.0.0.1         | 1.2.3.4,                       | 10.0.0.1
        10.0.0.0/8             | 10.0.0.1         | 1.2.3.4:55012                  | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | 2001:db8::7                    | 2001:db8::7
        10.0.0.0/8             | 10.0.0.1         | [2001:db8::7]                  | 2001:db8::7
        10.0.0.0/8             | 10.0.0.1         | [2001:db8::7]:443              | 2001:db8::7
        10.0.0.0/8             | 10.0.0.1         | ::ffff:1.2.3.4                 | 1.2.3.4
        10.0.0.0/8             | 10.0.0.1         | 1.2.3.4, ::ffff:10.0.0.2       | 1.2.3.4
        10.0.0.0/8             | ::ffff:10.0.0.1  | 1.2.3.4                        | 1.2.3.4
        -                      | ::ffff:9.9.9.9   | -                              | 9.9.9.9
        ::1/128,10.0.0.2/32    | ::1              | 1.2.3.4, 10.0.0.2              | 1.2.3.4
        ::1/128,10.0.0.2/32    | ::1              | 1.2.3.4, 10.0.0.3              | 10.0.0.3
        0.0.0.0/0,::/0         | 9.9.9.9          | 6.6.6.6, 1.2.3.4               | 6.6.6.6";

    /// Trusted ranges | peer | scheme of the socket | X-Forwarded-Proto | scheme.
    const PROTO: &str = "
        -           | 9.9.9.9  | http  | https        | http
        10.0.0.0/8  | 9.9.9.9  | http  | https        | http
        10.0.0.0/8  | 9.9.9.9  | https | http         | https
        10.0.0.0/8  | 10.0.0.1 | http  | -            | http
        10.0.0.0/8  | 10.0.0.1 | https | -            | https
        10.0.0.0/8  | 10.0.0.1 | http  | https        | https
        10.0.0.0/8  | 10.0.0.1 | https | http         | http
        10.0.0.0/8  | 10.0.0.1 | http  | HTTPS        | https
        10.0.0.0/8  | 10.0.0.1 | http  | https, http  | http
        10.0.0.0/8  | 10.0.0.1 | http  | http,https   | https
        10.0.0.0/8  | 10.0.0.1 | http  | https;http   | http
        10.0.0.0/8  | 10.0.0.1 | http  | gopher       | http
        10.0.0.0/8  | 10.0.0.1 | https | gopher       | https";

    fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
        let lines = table.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| line.split('|').map(str::trim).collect())
    }

    fn headers(name: &'static str, lines: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines.split(';').filter(|line| *line != "-") {
            headers.append(name, HeaderValue::from_str(line).unwrap());
        }
        headers
    }

    fn ranges(text: &str) -> Vec<ipnet::IpNet> {
        text.split(',').filter(|range| *range != "-").map(|range| range.parse().unwrap()).collect()
    }

    fn scheme(name: &str) -> Scheme {
        [Scheme::Http, Scheme::Https].into_iter().find(|scheme| scheme.name() == name).unwrap()
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_a_proxy_of_ours() {
        for row in rows(FOR) {
            let headers = headers(FORWARDED_FOR, row[2]);
            let client =
                forwarded(row[1].parse().unwrap(), Scheme::Http, &headers, &ranges(row[0]));
            assert_eq!(client.ip.to_string(), row[3], "{row:?}");
        }
    }

    #[test]
    fn the_scheme_is_what_a_trusted_peer_says_last() {
        for row in rows(PROTO) {
            let headers = headers(FORWARDED_PROTO, row[3]);
            let client =
                forwarded(row[1].parse().unwrap(), scheme(row[2]), &headers, &ranges(row[0]));
            assert_eq!(client.scheme.name(), row[4], "{row:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_ignored() {
        let mut headers = HeaderMap::new();
        headers.append(FORWARDED_FOR, HeaderValue::from_bytes(b"\xff1.2.3.4").unwrap());
        headers.append(FORWARDED_PROTO, HeaderValue::from_bytes(b"\xffhttps").unwrap());
        let client =
            forwarded("10.0.0.1".parse().unwrap(), Scheme::Http, &headers, &ranges("10.0.0.0/8"));
        assert_eq!((client.ip.to_string().as_str(), client.scheme), ("10.0.0.1", Scheme::Http));
    }

    /// What may stand in a list: addresses of ours and of others in all their clothes, and whatever
    /// a client thinks of.
    fn entry() -> impl Strategy<Value = String> {
        let known = [
            "10.0.0.2",
            "10.9.9.9:80",
            "::ffff:10.0.0.3",
            "1.2.3.4",
            "[2001:db8::7]:443",
            "2001:db8::8",
            "[::1]",
        ];
        prop_oneof![
            4 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
            1 => "[ -~]{0,12}",
            1 => "[0-9a-f:.\\[\\]]{0,20}",
        ]
    }

    fn list(entries: &[String]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.append(FORWARDED_FOR, HeaderValue::from_str(&entries.join(",")).unwrap());
        headers
    }

    proptest! {
        #[test]
        fn nobody_but_a_proxy_is_listened_to(entries in vec(entry(), 0..5), word in "[ -~]{0,8}") {
            let mut headers = list(&entries);
            headers.append(FORWARDED_PROTO, HeaderValue::from_str(&word).unwrap());
            let client = forwarded("9.9.9.9".parse().unwrap(), Scheme::Http, &headers, &ranges("10.0.0.0/8"));
            prop_assert_eq!((client.ip.to_string(), client.scheme), ("9.9.9.9".to_owned(), Scheme::Http));
        }

        #[test]
        fn a_client_cannot_say_who_it_is(forged in vec(entry(), 0..5), proxies in vec("10\\.0\\.0\\.[1-9]", 0..3)) {
            let mut entries = forged;
            entries.push("1.2.3.4".to_owned());
            entries.extend(proxies);
            let client = forwarded("10.0.0.1".parse().unwrap(), Scheme::Http, &list(&entries), &ranges("10.0.0.0/8"));
            prop_assert_eq!(client.ip.to_string(), "1.2.3.4");
        }

        #[test]
        fn no_header_is_too_odd(lines in vec(vec(any::<u8>(), 0..40), 0..4)) {
            let mut headers = HeaderMap::new();
            for value in lines.iter().filter_map(|line| HeaderValue::from_bytes(line).ok()) {
                headers.append(FORWARDED_FOR, value.clone());
                headers.append(FORWARDED_PROTO, value);
            }
            let client = forwarded("10.0.0.1".parse().unwrap(), Scheme::Https, &headers, &ranges("10.0.0.0/8"));
            prop_assert_eq!(client.ip, client.ip.to_canonical());
        }
    }
}
