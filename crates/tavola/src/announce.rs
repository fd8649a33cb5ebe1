//! The lines that the server prints when it starts and stops. Tools wait for them, so under the
//! names of Azurite they are exactly its own (observed on 3.35.0).

use std::net::SocketAddr;

use tavola_core::{AccountName, ServiceKind};
use tavola_protocol::ConnectionString;
use tavola_protocol::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_server::Config;
use tavola_server::config::ListenerConfig;
use tavola_server::connection::Scheme;

use crate::account_access::endpoints_at;

/// The program whose lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announcer {
    Tavola,
    /// Those of `azurite`, which names URLs.
    Azurite,
    /// Those of `azurite-table` and the like, which serve one service and name addresses.
    AzuriteAlone,
}

impl Announcer {
    /// Before the sockets are open. A port that the system will pick is not known yet.
    pub(crate) fn starting(self, config: &Config) {
        for listener in config.listeners.iter().filter(|listener| listener.address.port() != 0) {
            self.starting_at(config.scheme(), *listener);
        }
    }

    fn starting_at(self, scheme: Scheme, listener: ListenerConfig) {
        let (title, address) = (listener.service.title(), listener.address);
        match self {
            Self::Tavola => {}
            Self::Azurite => {
                println!("Azurite {title} service is starting at {}", url(scheme, address))
            }
            Self::AzuriteAlone => println!("Azurite {title} service is starting on {address}"),
        }
    }

    /// Prints where to connect; `listeners` have the ports that were chosen. The sockets already
    /// accept.
    pub(crate) fn listening(
        self,
        config: &Config,
        listeners: &[ListenerConfig],
        admin: SocketAddr,
    ) {
        let scheme = config.scheme();
        for listener in listeners {
            if config.address(listener.service).is_some_and(|asked| asked.port() == 0) {
                self.starting_at(scheme, *listener);
            }
            let (title, address) = (listener.service.title(), listener.address);
            let at = url(scheme, address);
            match self {
                Self::Tavola => println!("{title} service is listening at {at}"),
                Self::Azurite => {
                    println!("Azurite {title} service is successfully listening at {at}")
                }
                Self::AzuriteAlone => {
                    let started = started_alone(listener.service, &at, address);
                    println!("Azurite {title} service successfully {started}")
                }
            }
        }
        if self == Self::Tavola {
            what_to_paste(config, listeners, admin);
        }
    }

    /// After the signal, before open requests are finished.
    pub(crate) fn closing(self, config: &Config) {
        for listener in config.listeners.iter().filter(|_| self != Self::Tavola) {
            println!("Azurite {} service is closing...", listener.service.title());
        }
    }

    /// After the store is closed.
    pub(crate) fn closed(self, config: &Config) {
        for listener in config.listeners.iter().filter(|_| self != Self::Tavola) {
            println!("Azurite {} service successfully closed", listener.service.title());
        }
    }
}

/// The program of each service has words of its own.
fn started_alone(service: ServiceKind, url: &str, address: SocketAddr) -> String {
    match service {
        ServiceKind::Table => format!("started on {address}"),
        ServiceKind::Blob | ServiceKind::Queue => format!("listens on {url}"),
    }
}

/// Where services listen, in words: `tables at 127.0.0.1:10002`.
pub(crate) fn listeners(config: &Config) -> String {
    let one =
        |listener: &ListenerConfig| format!("{}s at {}", listener.service.name(), listener.address);
    config.listeners.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn what_to_paste(config: &Config, listeners: &[ListenerConfig], admin: SocketAddr) {
    if config.accounts.is_development() {
        let connect = development_string(config, listeners).unwrap_or_default();
        println!("No account is configured, so the development account is served: {connect}");
    }
    let admin = url(Scheme::Http, admin);
    println!("Health and metrics: {admin}/ready and {admin}/metrics");
}

fn url(scheme: Scheme, address: SocketAddr) -> String {
    format!("{}://{address}", scheme.name())
}

/// What connects to every service.
fn development_string(config: &Config, listeners: &[ListenerConfig]) -> Option<String> {
    let account = AccountName::parse(DEVELOPMENT_ACCOUNT)?;
    let endpoints = endpoints_at(config, listeners, &account).ok()?;
    let string = ConnectionString::with_key(&account, DEVELOPMENT_KEY, &endpoints).ok()?;
    Some(format!("{};", *string.to_text()))
}
