//! The audit log, and what becomes of those who fail to authenticate.

use std::path::PathBuf;
use std::time::Duration;

use super::{ConfigError, Layers};
use tavola_store::SettingValues as _;

/// Where the audit log is, and what stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// The file that lines are appended to.
    pub file: PathBuf,
    /// Which requests have a line.
    pub requests: AuditedRequests,
}

/// Which requests have a line in the audit log. Each contains those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditedRequests {
    /// Those whose credential did not hold, or does not open what they ask for.
    Denied,
    /// Those that can change something.
    Writes,
    /// Every request.
    All,
}

/// When those who fail to authenticate wait for their answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthFailureLimits {
    /// Failures from one address within a minute; beyond them it waits. 0: nobody ever waits.
    pub per_minute: u32,
    /// How long.
    pub delay: Duration,
}

impl AuditConfig {
    /// `None`: there is no audit log.
    pub(super) fn resolve(layers: &Layers) -> Result<Option<Self>, ConfigError> {
        let requests = match layers.text("audit.requests") {
            "denied" => AuditedRequests::Denied,
            "writes" => AuditedRequests::Writes,
            "all" => AuditedRequests::All,
            other => {
                return Err(layers.error(
                    "audit.requests",
                    &format!("\"{other}\" is not denied, writes or all"),
                ));
            }
        };
        let file =
            Some(layers.text("audit.file")).filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(file.map(|file| Self { file, requests }))
    }
}

impl AuthFailureLimits {
    pub(super) fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        Ok(Self {
            per_minute: layers.parse_in("limits.auth_failures_per_minute", 0, 1_000_000)?,
            delay: Duration::from_millis(layers.parse_in(
                "limits.auth_failure_delay_ms",
                0,
                10_000,
            )?),
        })
    }
}
