//! Where log lines go and what they look like.

use std::fs::OpenOptions;
use std::io::IsTerminal;

use tavola_server::config::{LogConfig, LogFormat};
use tavola_server::telemetry::{AccessLog, AccessLogFormat};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::exit::Failure;

/// Sets up the log of what the server does; `RUST_LOG` refines the level.
pub(crate) fn start(log: &LogConfig) -> Result<(), Failure> {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| log.level.clone());
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Failure::Usage(format!("log.level: \"{filter}\" is not a level or filter: {error}")))?;
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
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colours);
    match log.format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json }) {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
    Ok(())
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
