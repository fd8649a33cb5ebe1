//! Running a server from its configuration to the signal that ends it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use clap::ArgMatches;
use tavola_server::config::accounts::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_server::config::{Personality, StoreConfig, Warning};
use tavola_server::connection::Scheme;
use tavola_server::node::Configuration;
use tavola_server::telemetry::{AdminEvent, Telemetry};
use tavola_server::tls::TlsReloader;
use tavola_server::{Config, ConfigError, Node, Server};
use tavola_service::{SystemClock, TableService};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::descriptors::within_descriptors;
use crate::exit::Failure;
use crate::logging::{self, LogLevel};
use crate::open_store::OpenStore;

/// A command line and what it means, so that it can be asked again when files have changed.
pub(crate) struct CommandLine {
    pub(crate) matches: ArgMatches,
    pub(crate) resolve: fn(&ArgMatches) -> Result<Config, ConfigError>,
}

/// Its words may hold a password.
impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandLine")
    }
}

impl Configuration for CommandLine {
    fn read(&self) -> Result<Config, ConfigError> {
        (self.resolve)(&self.matches)
    }
}

/// Serves until SIGINT or SIGTERM.
pub(crate) fn run(command_line: CommandLine) -> Result<(), Failure> {
    let mut config = command_line.read()?;
    let log_level = logging::start(&config.log)?;
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    config.limits = within_descriptors(config.limits);
    let config = &config;
    warn(config);
    let tls = config.tls.as_ref().map(TlsReloader::open).transpose()?.map(Arc::new);
    if config.personality == Personality::Emulator && config.table.port() != 0 {
        println!("Azurite Table service is starting at {}", url(config.scheme(), config.table));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::System(format!("cannot start the runtime: {error}")))?;
    let store = runtime.block_on(OpenStore::open(&config.store))?;
    runtime.block_on(store.refuse_unfinished_copy())?;
    runtime.block_on(serve(config, tls, &store, Reloaded { command_line, log_level }))?;
    runtime.block_on(store.close());
    Ok(())
}

/// What works and is not safe.
fn warn(config: &Config) {
    for Warning { subject, says, advice } in config.warnings() {
        tracing::warn!("{subject}: {says}; {advice}");
    }
}

async fn serve(
    config: &Config,
    tls: Option<Arc<TlsReloader>>,
    store: &OpenStore,
    reloaded: Reloaded,
) -> Result<(), Failure> {
    let server = Server::bind(config, tls.clone()).await?;
    let telemetry = Telemetry::new(logging::access_log(&config.log)?).with_audit_log(logging::audit_log(config)?);
    let tables = match &config.store {
        StoreConfig::Cassandra(cluster) => TableService::shared(store.entities(), Arc::new(SystemClock), cluster.lease),
        StoreConfig::Memory | StoreConfig::Embedded { .. } => {
            TableService::new(store.entities(), Arc::new(SystemClock))
        }
    };
    let node = Node::new(config, tables, store.health(), telemetry)?.with_configuration(reloaded);
    let node = Arc::new(node);
    let (stop, stopped) = watch::channel(false);
    stop_on_signal(stop)?;
    reload_on_signal(Arc::clone(&node), tls)?;
    announce(config, &server)?;
    node.telemetry.record_admin(&on_host("start", "serving"));
    server.run(Arc::clone(&node), stopped).await;
    node.telemetry.record_admin(&on_host("stop", "stopped"));
    node.telemetry.flush_audit_log();
    tracing::info!("stopped");
    Ok(())
}

fn stop_on_signal(stop: watch::Sender<bool>) -> Result<(), Failure> {
    let cannot_listen = |error| Failure::System(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot_listen)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot_listen)?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("stopping: no new connections, open requests are finished");
        let _server_gone = stop.send(true);
    });
    Ok(())
}

/// What is read again takes the log level along, which is not the server's to know.
#[derive(Debug)]
struct Reloaded {
    command_line: CommandLine,
    log_level: LogLevel,
}

impl Configuration for Reloaded {
    fn read(&self) -> Result<Config, ConfigError> {
        let config = self.command_line.read()?;
        self.log_level.set(&config.log)?;
        Ok(config)
    }
}

/// SIGHUP reads again what can change while connections stay open.
fn reload_on_signal(node: Arc<Node>, tls: Option<Arc<TlsReloader>>) -> Result<(), Failure> {
    let cannot_listen = |error| Failure::System(format!("cannot listen for signals: {error}"));
    let mut hangup = signal(SignalKind::hangup()).map_err(cannot_listen)?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let (node, tls) = (Arc::clone(&node), tls.clone());
            let _ended = tokio::task::spawn_blocking(move || reload(&node, tls.as_deref())).await;
        }
    });
    Ok(())
}

/// Accounts, issuers, the log level and certificates. What is wrong is said, and changes nothing.
fn reload(node: &Node, tls: Option<&TlsReloader>) {
    node.telemetry.reopen_audit_log();
    let result = match node.read_again() {
        Ok(()) => {
            tracing::info!(accounts = node.accounts().names().count(), "the configuration was read again");
            "done".to_owned()
        }
        Err(error) => {
            tracing::error!(%error, "the configuration was not taken; the old one goes on");
            format!("nothing was changed: {error}")
        }
    };
    node.telemetry.record_admin(&on_host("reload", &result));
    if let Some(tls) = tls {
        tls.reload_and_report();
    }
}

/// What the audit log is told of an act that nobody asked for over a socket.
fn on_host<'a>(act: &'static str, result: &'a str) -> AdminEvent<'a> {
    let time = SystemTime::now();
    AdminEvent { time, act, account: None, key: None, address: None, principal: None, status: None, result }
}

/// Tells people and waiting tools where to connect. The sockets accept by now.
fn announce(config: &Config, server: &Server) -> Result<(), Failure> {
    let no_address = |error| Failure::System(format!("cannot find out the port: {error}"));
    let (table, admin) = (server.table_address().map_err(no_address)?, server.admin_address().map_err(no_address)?);
    let scheme = config.scheme();
    if config.personality == Personality::Emulator {
        if config.table.port() == 0 {
            println!("Azurite Table service is starting at {}", url(scheme, table));
        }
        println!("Azurite Table service is successfully listening at {}", url(scheme, table));
    } else {
        println!("Table service is listening at {}", url(scheme, table));
        if config.accounts.is_development() {
            let connect = development_string(scheme, table);
            println!("No account is configured, so the development account is served: {connect}");
        }
        let admin = url(Scheme::Http, admin);
        println!("Health and metrics: {admin}/ready and {admin}/metrics");
    }
    tracing::info!(%table, %admin, "listening");
    Ok(())
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
