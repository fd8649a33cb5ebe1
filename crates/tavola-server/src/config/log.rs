//! `[log]`: what is written about the server and its requests, and where.

use std::path::PathBuf;

use super::{ConfigError, Layers};
use tavola_store::SettingValues as _;

/// What a level can be.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// What is written about the server and its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// `None`: text on a terminal, JSON otherwise.
    pub format: Option<LogFormat>,
    /// A `tracing` filter.
    pub level: String,
    /// One line per request.
    pub access: bool,
    /// Log into this file instead of standard error.
    pub file: Option<PathBuf>,
    /// Write the lines of requests into this file instead of standard output.
    pub access_file: Option<PathBuf>,
}

impl LogConfig {
    pub(super) fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let format = match layers.text("log.format") {
            "auto" => None,
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            other => {
                return Err(
                    layers.error("log.format", &format!("\"{other}\" is not auto, text or json"))
                );
            }
        };
        let file =
            |path| Some(layers.text(path)).filter(|path| !path.is_empty()).map(PathBuf::from);
        let (file, access_file) = (file("log.file"), file("log.access_file"));
        if file.is_some() && file == access_file {
            return Err(layers
                .error("log.access_file", "it is log.file too; each log needs a file of its own"));
        }
        let level = layers.text("log.level");
        check_log_filter(level).map_err(|problem| layers.error("log.level", &problem))?;
        Ok(Self {
            format,
            level: level.to_owned(),
            access: layers.parse_bool("log.access")?,
            file,
            access_file,
        })
    }
}

/// Refuses a filter that would log nothing because of a word that is no level. To the logger every
/// word is the name of a module, so a misspelt level would be one that nobody has.
///
/// # Errors
/// What is wrong, and what was probably meant.
pub fn check_log_filter(filter: &str) -> Result<(), String> {
    let mut directives =
        filter.split(',').map(str::trim).filter(|directive| !directive.is_empty()).peekable();
    if directives.peek().is_none() {
        return Err(format!("is empty; must be one of {}", LEVELS.join(", ")));
    }
    directives.try_for_each(|directive| match directive.rsplit_once('=') {
        // Spans and fields are the logger's to check.
        _ if directive.contains(['[', '{']) => Ok(()),
        Some((_, level)) => check_level(level, ""),
        None => check_level(directive, "; for one module write MODULE=LEVEL"),
    })
}

fn check_level(word: &str, hint: &str) -> Result<(), String> {
    let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    if is_level {
        return Ok(());
    }
    let distance = |level: &&&str| strsim::damerau_levenshtein(level, &word.to_ascii_lowercase());
    let meant = LEVELS.iter().min_by_key(distance).filter(|level| distance(level) <= 2);
    let meant = meant.map_or_else(String::new, |level| format!("; did you mean {level}?"));
    Err(format!("\"{word}\" is no level: must be one of {}{meant}{hint}", LEVELS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::check_log_filter;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for good in [
            "info",
            "WARN",
            "off",
            "info,tavola=debug",
            "tavola_server::tls=trace,error",
            "a[span{x=1}]=debug",
        ] {
            assert_eq!(check_log_filter(good), Ok(()), "{good}");
        }
        for (bad, words) in [
            ("verbose", "\"verbose\" is no level"),
            ("inof", "did you mean info?"),
            ("warning", "\"warning\" is no level"),
            ("info,hyper", "for one module write MODULE=LEVEL"),
            ("tavola=loud", "\"loud\" is no level"),
            ("", "is empty"),
        ] {
            let problem = check_log_filter(bad).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
