//! The properties of the service: what it logs, what it counts, and its CORS rules.

use tavola_core::TableRequest;
use tavola_core::cors::CorsRule as CoreCorsRule;
use tavola_core::properties as core;
use tavola_core::request::Select;
use tavola_protocol::table::decode::Decoded;

use super::service::TableServiceClient;
use crate::call::Call;
use crate::engine::{Subject, Write};
use crate::unknown::Claim;

/// The properties of the service. In a change, a group that is `None` stays as it is.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{CorsRule, ServiceProperties, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// // What is not named stays as it is.
/// let mut rule = CorsRule::default();
/// rule.allowed_origins.push("https://shop.example".to_owned());
/// rule.allowed_methods.push("GET".to_owned());
/// let mut change = ServiceProperties::default();
/// change.cors = Some(vec![rule]);
/// service.set_properties(&change).await?;
/// assert_eq!(service.properties().await?.cors, change.cors);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServiceProperties {
    /// What is logged.
    pub logging: Option<Logging>,
    /// What is counted by the hour.
    pub hour_metrics: Option<Metrics>,
    /// What is counted by the minute.
    pub minute_metrics: Option<Metrics>,
    /// In order; the first that matches decides.
    pub cors: Option<Vec<CorsRule>>,
}

/// Which requests are logged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Logging {
    /// The format's version; `1.0` if it is empty.
    pub version: String,
    /// Deletes are logged.
    pub delete: bool,
    /// Reads are logged.
    pub read: bool,
    /// Writes are logged.
    pub write: bool,
    /// Days that the log is kept; `None` is forever.
    pub retention_days: Option<u16>,
}

/// Which requests are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// The format's version; `1.0` if it is empty.
    pub version: String,
    /// Counting is on.
    pub enabled: bool,
    /// Per operation too; only while enabled.
    pub include_apis: Option<bool>,
    /// Days that the counts are kept; `None` is forever.
    pub retention_days: Option<u16>,
}

/// Which pages of other sites may call the service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CorsRule {
    /// Exact origins, `*`, or one wildcard as in `http://*.contoso.com`.
    pub allowed_origins: Vec<String>,
    /// Methods.
    pub allowed_methods: Vec<String>,
    /// Names, or prefixes that end in `*`.
    pub allowed_headers: Vec<String>,
    /// Names, or prefixes that end in `*`.
    pub exposed_headers: Vec<String>,
    /// How long a browser may keep a preflight's answer.
    pub max_age_seconds: u32,
}

impl TableServiceClient {
    /// The properties of the service.
    pub fn properties(&self) -> Call<'_, ServiceProperties> {
        Call::new(self.engine.settings(), move |settings| async move {
            let subject = Subject::new("get properties", None);
            let request = TableRequest::GetServiceProperties;
            match self.engine.read(&subject, request, Select::All, None, &settings).await? {
                Decoded::ServiceProperties(properties) => Ok(from_core(properties)),
                _ => Ok(ServiceProperties::default()),
            }
        })
    }

    /// Changes the properties of the service. Another node may know them a little later.
    pub fn set_properties(&self, properties: &ServiceProperties) -> Call<'_, ()> {
        let change = to_core(properties);
        Call::new(self.engine.settings(), move |settings| async move {
            let subject = Subject::new("set properties", None);
            let write = Write::Other(TableRequest::SetServiceProperties(change), Claim::Settings);
            self.engine.write(&subject, &write, &settings).await.map(drop)
        })
    }
}

fn from_core(properties: core::ServiceProperties) -> ServiceProperties {
    let metrics = |metrics: core::Metrics| Metrics {
        version: metrics.version,
        enabled: metrics.enabled,
        include_apis: metrics.include_apis,
        retention_days: metrics.retention.days,
    };
    let rule = |rule: CoreCorsRule| CorsRule {
        allowed_origins: rule.allowed_origins,
        allowed_methods: rule.allowed_methods,
        allowed_headers: rule.allowed_headers,
        exposed_headers: rule.exposed_headers,
        max_age_seconds: rule.max_age_seconds,
    };
    let core::Logging { version, delete, read, write, retention } = properties.logging;
    ServiceProperties {
        logging: Some(Logging { version, delete, read, write, retention_days: retention.days }),
        hour_metrics: Some(metrics(properties.hour_metrics)),
        minute_metrics: Some(metrics(properties.minute_metrics)),
        cors: Some(properties.cors.into_iter().map(rule).collect()),
    }
}

fn to_core(properties: &ServiceProperties) -> core::ServicePropertiesChange {
    let version = |text: &str| if text.is_empty() { "1.0" } else { text }.to_owned();
    let metrics = |metrics: &Metrics| core::Metrics {
        version: version(&metrics.version),
        enabled: metrics.enabled,
        include_apis: metrics.include_apis.or(metrics.enabled.then_some(false)),
        retention: core::Retention { days: metrics.retention_days },
    };
    let logging = |logging: &Logging| core::Logging {
        version: version(&logging.version),
        delete: logging.delete,
        read: logging.read,
        write: logging.write,
        retention: core::Retention { days: logging.retention_days },
    };
    let rule = |rule: &CorsRule| CoreCorsRule {
        allowed_origins: rule.allowed_origins.clone(),
        allowed_methods: rule.allowed_methods.clone(),
        allowed_headers: rule.allowed_headers.clone(),
        exposed_headers: rule.exposed_headers.clone(),
        max_age_seconds: rule.max_age_seconds,
    };
    core::ServicePropertiesChange {
        logging: properties.logging.as_ref().map(logging),
        hour_metrics: properties.hour_metrics.as_ref().map(metrics),
        minute_metrics: properties.minute_metrics.as_ref().map(metrics),
        cors: properties.cors.as_ref().map(|rules| rules.iter().map(rule).collect()),
    }
}
