//! Whom to ask: where a Table service is, and what opens it.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tavola_core::AccountName;
use tavola_protocol::auth::AccountKey;
use tavola_protocol::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

use crate::failure::{Context, Failure, Result};

/// Until a connection stands.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// An account of a Table service.
#[derive(Clone)]
pub struct Site {
    pub address: SocketAddr,
    /// All that the host's name has, `address` among them.
    addresses: Vec<SocketAddr>,
    /// As the `Host` header has it.
    pub(crate) host: String,
    scheme: &'static str,
    /// What stands before a table's name: `/devstoreaccount1`, or nothing where the host names the
    /// account.
    pub(crate) path: String,
    pub(crate) account: AccountName,
    pub(crate) key: AccountKey,
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Site {
    /// The development account of a server on this machine.
    ///
    /// # Errors
    /// None that can be met.
    pub fn development(address: SocketAddr) -> Result<Self> {
        Self::new(
            &format!("http://{address}/{DEVELOPMENT_ACCOUNT}"),
            DEVELOPMENT_ACCOUNT,
            DEVELOPMENT_KEY,
            None,
        )
    }

    /// An account at `http[s]://host[:port][/account]`. A site of https needs to know whom to
    /// trust.
    ///
    /// # Errors
    /// If this is no such address, its host has none, or the account or the key cannot be one.
    pub fn new(
        url: &str,
        account: &str,
        key: &str,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self> {
        let (scheme, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => ("http", rest),
            (_, Some(rest)) => ("https", rest),
            _ => {
                return Err(Failure::new(format!(
                    "{url}: an endpoint begins with http:// or https://"
                )));
            }
        };
        let (host, path) = rest
            .split_once('/')
            .map_or((rest, ""), |(host, path)| (host, path.trim_end_matches('/')));
        let (name, port) = name_and_port(host, scheme)?;
        let addresses = (name, port)
            .to_socket_addrs()
            .context(|| format!("{url}: cannot find the address of {name}"))?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let address = *addresses
            .first()
            .ok_or_else(|| Failure::new(format!("{url}: {name} has no address")))?;
        let tls = match (scheme, tls) {
            ("https", Some(config)) => {
                let name = ServerName::try_from(name.to_owned())
                    .context(|| format!("{url}: the host's name"))?;
                Some((config, name))
            }
            ("https", None) => {
                return Err(Failure::new(format!("{url}: https without anybody to trust")));
            }
            _ => None,
        };
        Ok(Self {
            address,
            addresses,
            host: host.to_owned(),
            scheme,
            path: if path.is_empty() { String::new() } else { format!("/{path}") },
            account: AccountName::parse(account).ok_or("the account's name cannot be one")?,
            key: AccountKey::parse(key).context(|| "the account's key".into())?,
            tls,
        })
    }

    /// Every address of the host's name. Nobody was asked there yet.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Settles for the first address at which somebody listens: `localhost` has two, and most
    /// servers have one of them.
    ///
    /// # Errors
    /// If nobody does.
    pub fn reach(mut self) -> Result<Self> {
        let mut last = Failure::new(format!("cannot connect to {}", self.url()));
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, CONNECT_TIME) {
                Ok(_) => {
                    self.address = *address;
                    return Ok(self);
                }
                Err(error) => last = Failure::new(format!("cannot connect to {address}: {error}")),
            }
        }
        Err(last)
    }

    /// What stands before a table's name in the path of a request: `/account`, or nothing.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `http://host/account`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.host, self.path)
    }
}

fn name_and_port<'a>(host: &'a str, scheme: &str) -> Result<(&'a str, u16)> {
    let default_port = if scheme == "https" { 443 } else { 80 };
    // Colons stand inside the brackets of an IPv6 address as well.
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            (name, port.parse().context(|| format!("the port in `{host}`"))?)
        }
        _ => (host, default_port),
    };
    Ok((name.trim_start_matches('[').trim_end_matches(']'), port))
}

impl fmt::Debug for Site {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("url", &self.url())
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(url: &str) -> Result<Site> {
        Site::new(url, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, None)
    }

    #[test]
    fn addresses() {
        for (url, address, path) in [
            ("http://127.0.0.1:10002/devstoreaccount1", "127.0.0.1:10002", "/devstoreaccount1"),
            ("http://127.0.0.1:10002/devstoreaccount1/", "127.0.0.1:10002", "/devstoreaccount1"),
            ("http://127.0.0.1", "127.0.0.1:80", ""),
            ("http://[::1]:8080/a", "[::1]:8080", "/a"),
            ("http://[::1]/a", "[::1]:80", "/a"),
        ] {
            let site = site(url).unwrap();
            assert_eq!((site.address.to_string().as_str(), site.path.as_str()), (address, path));
            assert_eq!(site.url(), url.trim_end_matches('/'));
        }
    }

    #[test]
    fn of_two_addresses_the_one_that_listens_is_taken() {
        let listener = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (listening, gone) = (listener(), listener());
        let [open, closed] = [&listening, &gone].map(|listener| listener.local_addr().unwrap());
        drop(gone);
        let site = site(&format!("http://{closed}/a")).unwrap();
        assert_eq!((site.address, site.addresses()), (closed, &[closed][..]));
        assert!(site.clone().reach().is_err(), "nobody listens any more");
        let reached = Site { addresses: vec![closed, open], ..site }.reach().unwrap();
        assert_eq!(reached.address, open);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in
            ["127.0.0.1:10002", "ftp://127.0.0.1", "http://127.0.0.1:x/a", "https://127.0.0.1/a"]
        {
            assert!(site(url).is_err(), "{url}");
        }
        assert!(Site::new("http://127.0.0.1", "a b", DEVELOPMENT_KEY, None).is_err());
        assert!(Site::new("http://127.0.0.1", "a", "no key", None).is_err());
    }
}
