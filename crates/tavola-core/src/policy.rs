//! Stored access policies of tables, queues and containers.

use crate::limits::POLICY_ID_CHARS_MAX;
use crate::service_kind::ServiceKind;
use crate::time::DateTime;

/// What the owner of a table, a queue or a container keeps in the service so that shared access signatures can refer to it, and
/// be revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPolicy {
    /// The name a signature refers to.
    pub id: String,
    /// From when it counts.
    pub start: Option<DateTime>,
    /// Until when it counts.
    pub expiry: Option<DateTime>,
    /// Letters of the service: for tables those of `raud`.
    pub permission: Option<String>,
}

impl AccessPolicy {
    /// True if the id fits and the permission has only letters of the service.
    #[must_use]
    pub fn is_legal(&self, service: ServiceKind) -> bool {
        let known = service.permissions();
        let permission_fits = |letters: &str| letters.chars().all(|letter| known.contains(letter));
        let id_fits = self.id.chars().count() <= POLICY_ID_CHARS_MAX;
        id_fits && self.permission.as_deref().is_none_or(permission_fits)
    }
}
