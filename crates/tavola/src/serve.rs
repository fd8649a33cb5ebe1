//! Running a server from its configuration to the signal that ends it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use clap::ArgMatches;
use tavola_server::config::Warning;
use tavola_server::node::{Apply, Configuration, Reloaded};
use tavola_server::telemetry::{AdminEvent, Telemetry};
use tavola_server::tls::TlsReloader;
use tavola_server::{Config, ConfigError, Node, ReservedPorts, Server};
use tavola_service::{SystemClock, TableService};
use tavola_store::{Backend, Sharing};
use tokio::signal::unix::Signal;
use tokio::sync::watch;

use crate::announce::Announcer;
use crate::descriptors::within_descriptors;
use crate::exit::Failure;
use crate::logging::{self, Logs};
use crate::open_store;
use crate::signals::Signals;

/// A command line and what it means, so that it can be asked again when files have changed.
pub(crate) struct CommandLine {
    pub(crate) matches: ArgMatches,
    pub(crate) resolve: fn(&ArgMatches) -> Result<Config, ConfigError>,
    pub(crate) announcer: Announcer,
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::System(format!("cannot start the runtime: {error}")))?;
    // First of all: a signal during the start must not kill the process.
    let signals = runtime.block_on(async { Signals::listen() })?;
    let mut config = command_line.read()?;
    let logs = Arc::new(Logs::start(&config.log)?);
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    config.limits = within_descriptors(config.limits)?;
    let config = &config;
    warn(config);
    let tls = config.tls.as_ref().map(TlsReloader::open).transpose()?.map(Arc::new);
    let announcer = command_line.announcer;
    announcer.starting(config);
    runtime.block_on(serve(config, tls.clone(), signals, Reloading { command_line, logs, tls }))?;
    announcer.closed();
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
    mut signals: Signals,
    reloading: Reloading,
) -> Result<(), Failure> {
    // Before the store: if a port is in use, no data folder is made, and none is recovered for
    // nothing.
    let ports = ReservedPorts::take(config)?;
    let opened = tokio::select! {
        opened = open(config) => Some(opened?),
        () = signals.stop() => None,
    };
    let Some(store) = opened else {
        tracing::info!("stopped before the store was open");
        return Ok(());
    };
    let served = serve_store(config, ports.listen(tls)?, &store, signals, reloading).await;
    open_store::close(&*store).await;
    served
}

async fn open(config: &Config) -> Result<Arc<dyn Backend>, Failure> {
    let backend = open_store::open(&config.store).await?;
    open_store::refuse_unfinished_copy(&*Arc::clone(&backend).store()).await?;
    Ok(backend)
}

async fn serve_store(
    config: &Config,
    server: Server,
    backend: &Arc<dyn Backend>,
    mut signals: Signals,
    reloading: Reloading,
) -> Result<(), Failure> {
    let (logs, announcer) = (Arc::clone(&reloading.logs), reloading.command_line.announcer);
    let telemetry =
        Telemetry::new(logs.access_log(&config.log)?).with_audit_log(logging::audit_log(config)?);
    let (store, clock) = (Arc::clone(backend).store(), Arc::new(SystemClock));
    let tables = match backend.sharing() {
        Sharing::Shared { lease } => TableService::shared(store, clock, lease),
        Sharing::Exclusive => TableService::new(store, clock),
    };
    let node = Node::new(config, tables, Arc::clone(backend), telemetry)?;
    let node = Arc::new(node.with_configuration(reloading));
    let (stop, stopped) = watch::channel(false);
    reload_on_signal(signals.take_hangup(), Arc::clone(&node));
    reopen_on_signal(signals.take_user_defined1(), Arc::clone(&node), logs);
    stop_on_signal(stop, signals, announcer);
    announce(config, announcer, &server)?;
    node.telemetry.record_admin(&on_host("start", "serving"));
    server.run(Arc::clone(&node), stopped).await;
    node.telemetry.record_admin(&on_host("stop", "stopped"));
    node.telemetry.flush();
    tracing::info!("stopped");
    Ok(())
}

fn stop_on_signal(stop: watch::Sender<bool>, mut signals: Signals, announcer: Announcer) {
    tokio::spawn(async move {
        signals.stop().await;
        announcer.closing();
        tracing::info!("stopping: no new connections, open requests are finished");
        let _server_gone = stop.send(true);
    });
}

/// What is read again takes along what is not the server's to know: logs and certificates.
#[derive(Debug)]
struct Reloading {
    command_line: CommandLine,
    logs: Arc<Logs>,
    tls: Option<Arc<TlsReloader>>,
}

impl Configuration for Reloading {
    fn read(&self) -> Result<Config, ConfigError> {
        self.command_line.read()
    }

    fn prepare(&self, config: &Config) -> Result<Apply, ConfigError> {
        let apply_logs = self.logs.prepare(&config.log)?;
        // The last that can fail, because it tells of the certificate that it has found.
        let certificate = match (&self.tls, &config.tls) {
            (Some(tls), Some(source)) => {
                let fresh = TlsReloader::open(source)
                    .map_err(|error| ConfigError::new(error.to_string()))?;
                Some((Arc::clone(tls), fresh))
            }
            _ => None,
        };
        Ok(Box::new(move || {
            apply_logs();
            if let Some((tls, fresh)) = certificate {
                tls.replace(fresh);
            }
        }))
    }
}

/// SIGHUP reads again what can change while connections stay open.
fn reload_on_signal(mut hangup: Signal, node: Arc<Node>) {
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let node = Arc::clone(&node);
            let _ended = tokio::task::spawn_blocking(move || reload(&node)).await;
        }
    });
}

/// What is wrong is said, and changes nothing.
fn reload(node: &Node) {
    node.telemetry.reopen_audit_log();
    let result = match node.reload() {
        Ok(Reloaded { accounts, needs_restart }) => {
            tracing::info!(accounts, "the configuration was read again");
            if !needs_restart.is_empty() {
                let settings = needs_restart.join(", ");
                tracing::warn!(
                    settings,
                    "these settings were changed and count after a restart only"
                );
            }
            "done".to_owned()
        }
        Err(error) => {
            tracing::error!(%error, "the configuration was not taken; everything goes on as before");
            format!("nothing was changed: {error}")
        }
    };
    node.telemetry.record_admin(&on_host("reload", &result));
}

/// What the audit log is told of an act that nobody asked for over a socket.
fn on_host<'a>(act: &'static str, result: &'a str) -> AdminEvent<'a> {
    let time = SystemTime::now();
    AdminEvent {
        time,
        act,
        account: None,
        key: None,
        address: None,
        principal: None,
        status: None,
        result,
    }
}

/// SIGUSR1 opens log files anew, for whoever rotates them and wants nothing else to change.
fn reopen_on_signal(mut user: Signal, node: Arc<Node>, logs: Arc<Logs>) {
    tokio::spawn(async move {
        while user.recv().await.is_some() {
            node.telemetry.reopen_audit_log();
            match logs.reopen() {
                Ok(()) => tracing::info!("log files were opened anew"),
                Err(error) => {
                    tracing::error!(%error, "log files were not opened anew; the old ones are written on")
                }
            }
        }
    });
}

/// Says where the server is, in the words of the name that it was called by.
fn announce(config: &Config, announcer: Announcer, server: &Server) -> Result<(), Failure> {
    let no_address = |error| Failure::System(format!("cannot find out the port: {error}"));
    let (table, admin) =
        (server.table_address().map_err(no_address)?, server.admin_address().map_err(no_address)?);
    announcer.listening(config, table, admin);
    if config.admin.port() != 0 && admin.port() != config.admin.port() {
        let wanted = config.admin;
        tracing::warn!(
            "{wanted} is taken by another process, so health and metrics are at http://{admin} instead"
        );
    }
    tracing::info!(%table, %admin, "listening");
    Ok(())
}
