//! The lines that the server prints when it starts and stops. Tools wait for them, so under the
//! names of Azurite they are exactly its own (observed on 3.35.0).

use std::net::{IpAddr, SocketAddr};

use tavola_server::Config;
use tavola_server::config::accounts::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_server::connection::Scheme;

/// The program whose lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announcer {
    Tavola,
    /// Those of `azurite`, which names URLs.
    Azurite,
    /// Those of `azurite-table`, which names addresses.
    AzuriteTable,
}

impl Announcer {
    /// Before the sockets are open. A port that the system will pick is not known yet.
    pub(crate) fn starting(self, config: &Config) {
        if config.table.port() != 0 {
            self.starting_at(config.scheme(), config.table);
        }
    }

    fn starting_at(self, scheme: Scheme, table: SocketAddr) {
        match self {
            Self::Tavola => {}
            Self::Azurite => {
                println!("Azurite Table service is starting at {}", url(scheme, table))
            }
            Self::AzuriteTable => println!("Azurite Table service is starting on {table}"),
        }
    }

    /// Prints where to connect. The sockets already accept.
    pub(crate) fn listening(self, config: &Config, table: SocketAddr, admin: SocketAddr) {
        let scheme = config.scheme();
        if config.table.port() == 0 {
            self.starting_at(scheme, table);
        }
        match self {
            Self::Tavola => listening(config, table, admin),
            Self::Azurite => println!(
                "Azurite Table service is successfully listening at {}",
                url(scheme, table)
            ),
            Self::AzuriteTable => println!("Azurite Table service successfully started on {table}"),
        }
    }

    /// After the signal, before open requests are finished.
    pub(crate) fn closing(self) {
        if self != Self::Tavola {
            println!("Azurite Table service is closing...");
        }
    }

    /// After the store is closed.
    pub(crate) fn closed(self) {
        if self != Self::Tavola {
            println!("Azurite Table service successfully closed");
        }
    }
}

fn listening(config: &Config, table: SocketAddr, admin: SocketAddr) {
    let scheme = config.scheme();
    println!("Table service is listening at {}", url(scheme, table));
    if config.accounts.is_development() {
        let connect = development_string(scheme, table);
        println!("No account is configured, so the development account is served: {connect}");
    }
    let admin = url(Scheme::Http, admin);
    println!("Health and metrics: {admin}/ready and {admin}/metrics");
}

fn url(scheme: Scheme, address: SocketAddr) -> String {
    format!("{}://{address}", scheme.name())
}

fn development_string(scheme: Scheme, table: SocketAddr) -> String {
    let reachable = match table.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], table.port())),
        _ => table,
    };
    format!(
        "DefaultEndpointsProtocol={};AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};\
         TableEndpoint={}/{DEVELOPMENT_ACCOUNT};",
        scheme.name(),
        url(scheme, reachable)
    )
}
