//! The properties of a service: what it logs, what it counts, and its CORS rules.

use crate::cors::CorsRule;
use crate::limits::RETENTION_DAYS_MAX;

/// How long analytics data is kept; `None` if forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Days, 1 to 365.
    pub days: Option<u16>,
}

impl Retention {
    /// True if the number of days is one that the service takes.
    #[must_use]
    pub fn is_legal(self) -> bool {
        self.days.is_none_or(|days| (1..=RETENTION_DAYS_MAX).contains(&days))
    }
}

/// Which requests are logged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Logging {
    /// The format's version.
    pub version: String,
    /// Deletes are logged.
    pub delete: bool,
    /// Reads are logged.
    pub read: bool,
    /// Writes are logged.
    pub write: bool,
    /// How long.
    pub retention: Retention,
}

/// Which requests are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metrics {
    /// The format's version.
    pub version: String,
    /// Counting is on.
    pub enabled: bool,
    /// Per operation too; only while enabled.
    pub include_apis: Option<bool>,
    /// How long.
    pub retention: Retention,
}

/// The four groups of a service's properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceProperties {
    /// What is logged.
    pub logging: Logging,
    /// What is counted by the hour.
    pub hour_metrics: Metrics,
    /// What is counted by the minute.
    pub minute_metrics: Metrics,
    /// In order; the first that matches decides.
    pub cors: Vec<CorsRule>,
}

/// A new account's properties: everything off.
impl Default for ServiceProperties {
    fn default() -> Self {
        let off = Metrics { version: "1.0".to_owned(), ..Metrics::default() };
        Self {
            logging: Logging { version: "1.0".to_owned(), ..Logging::default() },
            hour_metrics: off.clone(),
            minute_metrics: off,
            cors: Vec::new(),
        }
    }
}

/// A change of a service's properties: a group that is absent keeps its value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServicePropertiesChange {
    /// What is logged.
    pub logging: Option<Logging>,
    /// What is counted by the hour.
    pub hour_metrics: Option<Metrics>,
    /// What is counted by the minute.
    pub minute_metrics: Option<Metrics>,
    /// All rules; empty removes them.
    pub cors: Option<Vec<CorsRule>>,
}

impl ServiceProperties {
    /// The properties after `change`.
    #[must_use]
    pub fn changed(self, change: ServicePropertiesChange) -> Self {
        Self {
            logging: change.logging.unwrap_or(self.logging),
            hour_metrics: change.hour_metrics.unwrap_or(self.hour_metrics),
            minute_metrics: change.minute_metrics.unwrap_or(self.minute_metrics),
            cors: change.cors.unwrap_or(self.cors),
        }
    }
}
