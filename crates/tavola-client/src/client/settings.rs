//! Access policies and what the service says about itself.

use time::OffsetDateTime;

use crate::value::{date_time_from, date_time_to};

/// A stored access policy of a table: what shared access signatures that name it may do, and when.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{AccessPolicy, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let mut readers = AccessPolicy::new("readers");
/// readers.permissions = Some("r".to_owned());
/// table.set_policies(&[readers]).await?;
/// assert_eq!(table.policies().await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AccessPolicy {
    /// Its name.
    pub id: String,
    /// When it begins to count.
    pub start: Option<OffsetDateTime>,
    /// When it ceases to.
    pub expiry: Option<OffsetDateTime>,
    /// Letters of `raud`; `None` leaves them to the signature.
    pub permissions: Option<String>,
}

impl AccessPolicy {
    /// A policy that leaves everything to the signatures that name it.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

/// How the secondary of an account is doing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::TableServiceClient;
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// assert_eq!(service.stats().await?.status, "live");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServiceStats {
    /// `live`, `bootstrap` or `unavailable`.
    pub status: String,
    /// Up to when the secondary has what was written, as an HTTP date.
    pub last_sync: Option<String>,
}

impl ServiceStats {
    pub(crate) fn read(xml: &[u8]) -> Self {
        let text = String::from_utf8_lossy(xml);
        let element = |name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            let (value, _) = rest.split_once(&format!("</{name}>"))?;
            Some(value.trim().to_owned())
        };
        Self {
            status: element("Status").unwrap_or_default(),
            last_sync: element("LastSyncTime").filter(|time| !time.is_empty()),
        }
    }
}

pub(crate) fn policy_to_core(policy: &AccessPolicy) -> tavola_core::AccessPolicy {
    tavola_core::AccessPolicy {
        id: policy.id.clone(),
        start: policy.start.and_then(date_time_to),
        expiry: policy.expiry.and_then(date_time_to),
        permission: policy.permissions.clone(),
    }
}

pub(crate) fn policy_from_core(policy: tavola_core::AccessPolicy) -> AccessPolicy {
    AccessPolicy {
        id: policy.id,
        start: policy.start.map(date_time_from),
        expiry: policy.expiry.map(date_time_from),
        permissions: policy.permission,
    }
}
