//! The configuration: what can be set ([`Schema`]), where values come from ([`layers`]), and what
//! they mean.
//!
//! Two stages, as in every input: first what somebody wrote and where, then one checked [`Config`]
//! that the rest of the server trusts.

pub mod account_folder;
pub mod accounts;
mod audit;
mod document;
mod error;
pub mod layers;
mod log;
mod named_sections;
mod origin;
mod proxies;
mod reference;
mod schema;
mod services;
mod settings;
mod shown;
mod targets;
mod template;
mod tls;
pub mod tokens;
mod variables;
mod warnings;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

pub use account_folder::AccountFolder;
pub use accounts::{Account, Accounts};
pub use audit::{AuditConfig, AuditedRequests, AuthFailureLimits};
pub use error::ConfigError;
use ipnet::IpNet;
pub use layers::Layers;
pub use log::{LogConfig, LogFormat, check_log_filter};
pub use origin::Origin;
pub use proxies::ip_range;
pub use schema::{Joined, LOGGING, Schema, SettingGroup};
pub use services::{SERVED, service_setting};
pub use shown::ShownValue;
use tavola_core::ServiceKind;
use tavola_protocol::Precedence;
use tavola_store::SettingValues as _;
pub use tls::{ClientCertificates, TlsConfig};
pub use tokens::TokenConfig;
pub use warnings::Warning;

use crate::connection::Scheme;

/// How the server presents itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Personality {
    /// `tavola serve`: configured accounts, or the development account on loopback only.
    Server,
    /// Called as `azurite…`: the development account on any address, and Azurite's start-up lines.
    Emulator,
}

impl Personality {
    /// What counts when a request brings a header and a signature in its URL.
    pub(crate) const fn credential_precedence(self) -> Precedence {
        match self {
            Self::Server => Precedence::Header,
            Self::Emulator => Precedence::WhicheverHolds,
        }
    }
}

/// Everything that the server needs to know, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// How the server presents itself.
    pub personality: Personality,
    /// Where each service listens.
    pub listeners: Vec<ListenerConfig>,
    /// Where health and metrics listen.
    pub admin: SocketAddr,
    /// Nobody chose the admin port, so that another will do if it is taken: an emulator's, which
    /// its model does not have.
    pub admin_port_is_open: bool,
    /// What the admin port is called, beside its address.
    pub admin_names: Vec<String>,
    /// Never look for the account in the host name.
    pub path_style_only: bool,
    /// How connections are secured; `None`: not at all.
    pub tls: Option<TlsConfig>,
    /// Proxies whose word about their clients counts.
    pub trusted_proxies: Vec<IpNet>,
    /// Who may come in.
    pub accounts: Accounts,
    /// Where accounts are kept that can be changed while serving.
    pub account_folder: AccountFolder,
    /// What the development account is called in `Host`, beside names that only this machine or
    /// network can have.
    pub development_hosts: Vec<String>,
    /// Files with keys or passwords.
    pub secret_files: BTreeSet<PathBuf>,
    /// Whose tokens count, and for what.
    pub tokens: TokenConfig,
    /// Bounds on what clients can occupy.
    pub limits: Limits,
    /// When those who fail to authenticate wait.
    pub auth_failures: AuthFailureLimits,
    /// What is written about the server and its requests.
    pub log: LogConfig,
    /// Who did what; `None`: not written down.
    pub audit: Option<AuditConfig>,
    /// What an operator should change, though it works.
    pub notes: Vec<String>,
    /// What all of this was made from.
    pub layers: Layers,
}

/// A service and where it listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Which service.
    pub service: ServiceKind,
    /// Where; port 0 lets the system choose.
    pub address: SocketAddr,
}

/// Wrong values that are told at once. More would be another kind of file.
const PROBLEMS_MAX: usize = 100;

/// Bounds on what clients can occupy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Requests being answered.
    pub requests_in_flight: usize,
    /// Queries being answered; others wait for a moment.
    pub queries: usize,
    /// Connections from one address.
    pub connections_per_address: usize,
    /// Memory for bodies of requests and answers, of all connections together.
    pub body_memory_bytes: usize,
    /// Memory for heads of requests, of all connections together.
    pub head_memory_bytes: usize,
    /// Request line and headers.
    pub header_bytes: usize,
    /// Until a whole request head has arrived; idle connections are closed after it too.
    pub header_time: Duration,
    /// Until a whole request body has arrived.
    pub body_time: Duration,
    /// Until a request is answered.
    pub request_time: Duration,
    /// Until open requests are abandoned when the server stops.
    pub drain_time: Duration,
}

impl Config {
    /// Where a service was asked to listen, if it is served.
    #[must_use]
    pub fn address(&self, service: ServiceKind) -> Option<SocketAddr> {
        let listener = self.listeners.iter().find(|listener| listener.service == service);
        listener.map(|listener| listener.address)
    }

    /// A listener that other machines can reach.
    pub(crate) fn beyond_loopback(&self) -> Option<&ListenerConfig> {
        self.listeners.iter().find(|listener| !listener.address.ip().is_loopback())
    }

    /// The scheme of the services' URLs.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// Checks all values together.
    ///
    /// # Errors
    /// Everything that is wrong, and what to do about it.
    pub fn resolve(layers: &Layers, personality: Personality) -> Result<Self, ConfigError> {
        let mut problems = layers.problems().to_vec();
        let mut trial = layers.clone();
        while problems.len() < PROBLEMS_MAX {
            match Self::of_values(&trial, personality) {
                Ok(config) if problems.is_empty() => {
                    return config.check_development_account(layers).map(|()| config);
                }
                Ok(_) => break,
                Err(error) => {
                    // The rest is checked without the wrong value.
                    let goes_on = error.path().is_some_and(|path| trial.set_aside(path));
                    problems.push(error);
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        Err(ConfigError::all(problems))
    }

    /// Stops at the first value that is wrong, and says which.
    fn of_values(layers: &Layers, personality: Personality) -> Result<Self, ConfigError> {
        let config = Self {
            personality,
            listeners: services::listeners(layers)?,
            admin: SocketAddr::new(
                layers.parse_address("server.admin_host")?,
                layers.parse_port("server.admin_port")?,
            ),
            admin_port_is_open: personality == Personality::Emulator
                && layers.origin("server.admin_port") == Origin::Default,
            admin_names: layers.list("server.admin_names").map(str::to_owned).collect(),
            path_style_only: layers.parse_bool("server.path_style_only")?,
            tls: TlsConfig::resolve(layers)?,
            trusted_proxies: proxies::trusted_proxies(layers)?,
            accounts: Accounts::resolve(layers, personality)?,
            account_folder: AccountFolder::new(layers.text("server.accounts_folder")),
            development_hosts: layers.list("server.development_hosts").map(str::to_owned).collect(),
            secret_files: layers.secret_files(),
            tokens: TokenConfig::resolve(layers)?,
            limits: Limits::resolve(layers)?,
            auth_failures: AuthFailureLimits::resolve(layers)?,
            log: LogConfig::resolve(layers)?,
            audit: AuditConfig::resolve(layers)?,
            notes: layers.notes().to_vec(),
            layers: layers.clone(),
        };
        layers.schema().check(layers)?;
        Ok(config)
    }

    /// The development account's key is public. It is served where nobody configured an account and
    /// nobody else can come in, or where somebody asked for it; anything else is a mistake, most
    /// likely an accounts folder that is gone.
    fn check_development_account(&self, layers: &Layers) -> Result<(), ConfigError> {
        let asked_for = self.personality == Personality::Emulator
            || layers.parse_bool("server.development_account")?;
        if asked_for || !self.accounts.is_development() {
            return Ok(());
        }
        let named = layers.origin("server.accounts_folder");
        let beyond = self.beyond_loopback();
        let refused = if let Some(listener) = beyond {
            format!("refusing to listen on {} without accounts", listener.address.ip())
        } else if !self.trusted_proxies.is_empty() {
            "refusing to serve behind server.trusted_proxies without accounts".to_owned()
        } else if named != Origin::Default {
            format!(
                "refusing to serve without accounts, because server.accounts_folder is set ({named})"
            )
        } else {
            return Ok(());
        };
        Err(ConfigError::new(format!(
            "{refused}: {}, and the development account's key is public. Make an account with `tavola account add NAME`, \
             configure [accounts.NAME] with key1, or, if everybody may do everything, ask for the development account \
             with --development-account",
            self.account_folder.why_empty()
        )))
    }
}

impl Limits {
    fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let seconds = |path| layers.parse_in(path, 1, 86_400).map(Duration::from_secs);
        let connections = layers.parse_in("limits.connections", 1, 1_000_000)?;
        let per_address = layers.parse_in("limits.connections_per_address", 0, 1_000_000)?;
        Ok(Self {
            connections,
            connections_per_address: connections_per_address(per_address, connections),
            requests_in_flight: layers.parse_in("limits.requests_in_flight", 1, 1_000_000)?,
            queries: queries(layers.parse_in("limits.queries", 0, 10_000)?),
            body_memory_bytes: layers.parse_in::<usize>("limits.body_mb", 16, 1 << 20)? << 20,
            head_memory_bytes: layers.parse_in::<usize>("limits.head_mb", 1, 1 << 20)? << 20,
            header_bytes: layers.parse_in("limits.header_bytes", 8 * 1024, 16 << 20)?,
            header_time: seconds("limits.header_seconds")?,
            body_time: seconds("limits.body_seconds")?,
            request_time: seconds("limits.request_seconds")?,
            drain_time: seconds("limits.drain_seconds")?,
        })
    }
}

/// By default one address cannot keep all others out.
fn connections_per_address(configured: usize, connections: usize) -> usize {
    if configured == 0 { (connections - connections / 4).max(1) } else { configured }
}

/// Enough to keep processors and disk busy; more would only share them.
fn queries(configured: usize) -> usize {
    const PER_PROCESSOR: usize = 2;
    const QUERIES_MIN: usize = 8;
    match configured {
        0 => std::thread::available_parallelism()
            .map_or(1, NonZero::get)
            .saturating_mul(PER_PROCESSOR)
            .max(QUERIES_MIN),
        count => count,
    }
}

#[cfg(test)]
pub(crate) mod tests;
