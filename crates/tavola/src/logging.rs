//! Where log lines go and what they look like.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use tavola_server::config::{LogConfig, LogFormat};
use tavola_server::node::Apply;
use tavola_server::telemetry::{AccessLog, AccessLogFormat, AuditLog, LogFile};
use tavola_server::{Config, ConfigError};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use crate::exit::Failure;

/// The variable of the `tracing` libraries, which says more than the configuration.
const VARIABLE: &str = "RUST_LOG";

/// The logs of a running server: what of them can change while they are written.
#[derive(Debug)]
pub(crate) struct Logs {
    level: reload::Handle<EnvFilter, Registry>,
    /// `None`: standard error.
    file: Option<Arc<LogFile>>,
    /// `None`: standard output, or no access log.
    access_file: Option<Arc<LogFile>>,
}

impl Logs {
    /// Sets up the log of what the server does, and opens that of requests.
    pub(crate) fn start(log: &LogConfig) -> Result<Self, Failure> {
        let (filter, level) = reload::Layer::new(filter_of(log)?);
        let open = |file: Option<&Path>| file.map(open).transpose().map_err(Failure::System);
        let file = open(log.file.as_deref())?.map(Arc::new);
        let access_file = open(log.access_file.as_deref().filter(|_| log.access))?.map(Arc::new);
        let writer = match &file {
            None => BoxMakeWriter::new(std::io::stderr),
            Some(file) => BoxMakeWriter::new(Arc::clone(file)),
        };
        let is_terminal = file.is_none() && std::io::stderr().is_terminal();
        let colours =
            is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours);
        let lines =
            match log.format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json })
            {
                LogFormat::Text => lines.boxed(),
                LogFormat::Json => lines.json().boxed(),
            };
        tracing_subscriber::registry().with(filter).with(lines).init();
        Ok(Self { level, file, access_file })
    }

    /// The log of requests, unless it is switched off. Without a configured format its lines have
    /// the common log format, which log analysers read.
    pub(crate) fn access_log(&self, log: &LogConfig) -> Result<Option<AccessLog>, Failure> {
        if !log.access {
            return Ok(None);
        }
        let format = match log.format {
            Some(LogFormat::Json) => AccessLogFormat::Json,
            Some(LogFormat::Text) | None => AccessLogFormat::Text,
        };
        let no_thread = |error| Failure::System(format!("cannot start the access log: {error}"));
        let started = match &self.access_file {
            None => AccessLog::start(format),
            Some(file) => AccessLog::start_in(format, Arc::clone(file)),
        };
        started.map(Some).map_err(no_thread)
    }

    /// Prepares the log settings of a reloaded configuration: the level, and the files, which are
    /// reopened.
    pub(crate) fn prepare(&self, log: &LogConfig) -> Result<Apply, ConfigError> {
        let filter = filter_of(log)?;
        let level = self.level.clone();
        let reopened = [
            prepare_file(self.file.as_ref(), log.file.as_deref())?,
            prepare_file(self.access_file.as_ref(), log.access_file.as_deref())?,
        ];
        Ok(Box::new(move || {
            // It fails only if the subscriber is gone, and then the failure cannot be logged.
            let _log_gone = level.reload(filter);
            reopened.into_iter().flatten().for_each(|reopen| reopen());
        }))
    }

    /// Reopens the files after a rotation has moved them. All or none.
    pub(crate) fn reopen(&self) -> Result<(), ConfigError> {
        let files = [&self.file, &self.access_file];
        let reopened: Vec<Option<Apply>> = files
            .into_iter()
            .map(|file| {
                prepare_file(file.as_ref(), file.as_ref().map(|file| file.path()).as_deref())
            })
            .collect::<Result<_, _>>()?;
        reopened.into_iter().flatten().for_each(|reopen| reopen());
        Ok(())
    }
}

/// Opens the file that an open one shall be. One that was not there at the start, or shall go,
/// waits for the next start.
fn prepare_file(
    current: Option<&Arc<LogFile>>,
    path: Option<&Path>,
) -> Result<Option<Apply>, ConfigError> {
    let Some((current, path)) = current.zip(path) else { return Ok(None) };
    let (current, fresh) = (Arc::clone(current), open(path).map_err(ConfigError::new)?);
    Ok(Some(Box::new(move || current.replace(fresh))))
}

fn open(path: &Path) -> Result<LogFile, String> {
    LogFile::open(path).map_err(|error| format!("cannot open the log file {error}"))
}

/// Checks a level as the log itself will.
pub(crate) fn check(log: &LogConfig) -> Result<(), ConfigError> {
    filter_of(log).map(|_| ())
}

/// `RUST_LOG` says more than the configuration.
fn filter_of(log: &LogConfig) -> Result<EnvFilter, ConfigError> {
    let variable = std::env::var(VARIABLE).ok().filter(|filter| !filter.trim().is_empty());
    let (name, filter) = match &variable {
        // Meant for every program of its kind, so words that mean nothing here are none of our
        // business.
        Some(filter) => (VARIABLE, filter.as_str()),
        None => ("log.level", log.level.as_str()),
    };
    // A single word is the level of the server. The Cassandra driver logs every node that joins or
    // leaves; a filter can name it to get that too.
    let is_word = filter.bytes().all(|byte| byte.is_ascii_alphabetic());
    let driver = if is_word { ",scylla=error" } else { "" };
    // Errors of targets that the filter does not name are logged nevertheless.
    EnvFilter::try_new(format!("error,{filter}{driver}")).map_err(|error| {
        ConfigError::new(format!("{name}: \"{filter}\" is not a level or filter: {error}"))
    })
}

/// The audit log, if one is configured.
pub(crate) fn audit_log(config: &Config) -> Result<Option<AuditLog>, Failure> {
    let Some(audit) = &config.audit else { return Ok(None) };
    let cannot_open = |error| Failure::System(format!("cannot open the audit log {error}"));
    AuditLog::start(audit).map(Some).map_err(cannot_open)
}
