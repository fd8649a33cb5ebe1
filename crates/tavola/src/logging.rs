//! Where log lines go and what they look like.

use std::fs::OpenOptions;
use std::io::IsTerminal;

use tavola_server::config::{LogConfig, LogFormat};
use tavola_server::telemetry::{AccessLog, AccessLogFormat, AuditLog};
use tavola_server::{Config, ConfigError};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use crate::exit::Failure;

/// The level of the log, which can change while it is written.
#[derive(Debug)]
pub(crate) struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Takes the level of a configuration that was read again.
    pub(crate) fn set(&self, log: &LogConfig) -> Result<(), ConfigError> {
        let filter = filter_of(log)?;
        self.0.reload(filter).map_err(|error| ConfigError::new(format!("log.level cannot be changed: {error}")))
    }
}

/// `RUST_LOG` says more than the configuration.
fn filter_of(log: &LogConfig) -> Result<EnvFilter, ConfigError> {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| log.level.clone());
    // A single word is about the server. The driver of a cluster tells of every node that comes and goes; a filter that
    // names it gets that too.
    let is_word = filter.bytes().all(|byte| byte.is_ascii_alphabetic());
    let filter = if is_word { format!("{filter},scylla=error") } else { filter };
    EnvFilter::try_new(&filter)
        .map_err(|error| ConfigError::new(format!("log.level: \"{filter}\" is not a level or filter: {error}")))
}

/// Sets up the log of what the server does.
pub(crate) fn start(log: &LogConfig) -> Result<LogLevel, Failure> {
    let (filter, level) = reload::Layer::new(filter_of(log)?);
    let writer = match &log.file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(file) => {
            let cannot_open = |error| Failure::System(format!("cannot open the log file {}: {error}", file.display()));
            let file = OpenOptions::new().create(true).append(true).open(file).map_err(cannot_open)?;
            BoxMakeWriter::new(std::sync::Mutex::new(file))
        }
    };
    let is_terminal = log.file.is_none() && std::io::stderr().is_terminal();
    let colours = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours);
    let lines = match log.format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json }) {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(LogLevel(level))
}

/// The log of requests, unless it is switched off. Its lines follow the format that was asked for; nobody asking means
/// the common log format, which the tools of this field read.
pub(crate) fn access_log(log: &LogConfig) -> Result<Option<AccessLog>, Failure> {
    if !log.access {
        return Ok(None);
    }
    let format = match log.format {
        Some(LogFormat::Json) => AccessLogFormat::Json,
        Some(LogFormat::Text) | None => AccessLogFormat::Text,
    };
    let no_thread = |error| Failure::System(format!("cannot start the access log: {error}"));
    AccessLog::start(format).map(Some).map_err(no_thread)
}

/// The log of who did what, if it is asked for.
pub(crate) fn audit_log(config: &Config) -> Result<Option<AuditLog>, Failure> {
    let Some(audit) = &config.audit else { return Ok(None) };
    let cannot_open = |error| Failure::System(format!("cannot open the audit log {}: {error}", audit.file.display()));
    AuditLog::start(audit).map(Some).map_err(cannot_open)
}
