//! Running a server from its configuration to the signal that ends it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use clap::ArgMatches;
use tavola_server::config::{ListenerConfig, Warning};
use tavola_server::node::{Apply, Configuration, Reloaded};
use tavola_server::serve::Servable;
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
use crate::store_config::StoreConfig;

/// A command line and how to resolve it, so that a reload can resolve it again.
pub(crate) struct CommandLine {
    pub(crate) matches: ArgMatches,
    pub(crate) resolve: Box<Resolve>,
    pub(crate) announcer: Announcer,
}

/// From arguments to a configuration, at the start and at each reload.
pub(crate) type Resolve = dyn Fn(&ArgMatches) -> Result<Config, ConfigError> + Send + Sync;

/// Its arguments may contain a password.
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
    announcer.closed(config);
    Ok(())
}

/// Logs configurations that work and are not safe.
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
    // Before the store: if a port is in use, no data folder is created or recovered in vain.
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
    let backend = open_store::open(&StoreConfig::read(&config.layers)?).await?;
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
    let services = services(config, backend);
    let node = Node::new(config, Arc::clone(backend), telemetry)?.with_configuration(reloading);
    let node = Arc::new(node);
    let (stop, stopped) = watch::channel(false);
    reload_on_signal(signals.take_hangup(), Arc::clone(&node));
    reopen_on_signal(signals.take_user_defined1(), Arc::clone(&node), logs);
    stop_on_signal(stop, signals, announcer, config.clone());
    announce(config, announcer, &server)?;
    node.telemetry.record_admin(&on_host("start", "serving"));
    server.run(Arc::clone(&node), services, stopped).await;
    node.telemetry.record_admin(&on_host("stop", "stopped"));
    node.telemetry.flush();
    tracing::info!("stopped");
    Ok(())
}

/// Every service that the server knows, on the store that it was given.
fn services(config: &Config, backend: &Arc<dyn Backend>) -> Vec<Arc<dyn Servable>> {
    let (store, clock) = (Arc::clone(backend).store(), Arc::new(SystemClock));
    let tables = match backend.sharing() {
        Sharing::Shared { lease } => TableService::shared(store, clock, lease),
        Sharing::Exclusive => TableService::new(store, clock),
    };
    vec![Arc::new(tables.with_request_time_max(config.limits.request_time))]
}

fn stop_on_signal(
    stop: watch::Sender<bool>,
    mut signals: Signals,
    announcer: Announcer,
    config: Config,
) {
    tokio::spawn(async move {
        signals.stop().await;
        announcer.closing(&config);
        tracing::info!("stopping: no new connections, finishing open requests");
        let _server_gone = stop.send(true);
    });
}

/// A reload of the configuration, with logs and certificates, which the server crate does not know.
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
        // The last step that can fail, because it logs the certificate that it has loaded.
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

/// SIGHUP reloads what can change while connections stay open.
fn reload_on_signal(mut hangup: Signal, node: Arc<Node>) {
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let node = Arc::clone(&node);
            let _ended = tokio::task::spawn_blocking(move || reload(&node)).await;
        }
    });
}

/// A mistake is logged and changes nothing.
fn reload(node: &Node) {
    node.telemetry.reopen_audit_log();
    let result = match node.reload() {
        Ok(Reloaded { accounts, needs_restart }) => {
            tracing::info!(accounts, "configuration reloaded");
            if !needs_restart.is_empty() {
                let settings = needs_restart.join(", ");
                tracing::warn!(
                    settings,
                    "these settings were changed and apply after a restart only"
                );
            }
            "done".to_owned()
        }
        Err(error) => {
            tracing::error!(%error, "configuration rejected; the previous one stays in effect");
            format!("nothing was changed: {error}")
        }
    };
    node.telemetry.record_admin(&on_host("reload", &result));
}

/// An audit event for an act that came from a signal and not from a request.
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

/// SIGUSR1 reopens log files after a rotation and changes nothing else.
fn reopen_on_signal(mut user: Signal, node: Arc<Node>, logs: Arc<Logs>) {
    tokio::spawn(async move {
        while user.recv().await.is_some() {
            node.telemetry.reopen_audit_log();
            match logs.reopen() {
                Ok(()) => tracing::info!("log files reopened"),
                Err(error) => {
                    tracing::error!(%error, "cannot reopen log files; still writing to the old \
                     ones")
                }
            }
        }
    });
}

/// Prints the addresses in the format of the name that the binary was called by.
fn announce(config: &Config, announcer: Announcer, server: &Server) -> Result<(), Failure> {
    let no_address =
        |error: std::io::Error| Failure::System(format!("cannot read the port: {error}"));
    let admin = server.admin_address().map_err(no_address)?;
    let chosen = |listener: &ListenerConfig| {
        let address = server.address(listener.service)?;
        Ok(ListenerConfig { address, ..*listener })
    };
    let listeners: Vec<_> =
        config.listeners.iter().map(chosen).collect::<Result<_, _>>().map_err(no_address)?;
    announcer.listening(config, &listeners, admin);
    if config.admin.port() != 0 && admin.port() != config.admin.port() {
        let wanted = config.admin;
        tracing::warn!(
            "{wanted} is in use by another process, so health and metrics are at http://{admin} \
             instead"
        );
    }
    for ListenerConfig { service, address } in listeners {
        tracing::info!(service = service.name(), %address, %admin, "listening");
    }
    Ok(())
}
