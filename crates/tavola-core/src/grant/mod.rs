//! What the bearer of a checked credential may do.
//!
//! Every kind of credential becomes one [`Grant`]; [`Grant::permits`] is the only place that
//! decides. It is asked with a [`Demand`], which every service states in the same words.

mod demand;
mod permissions;

use crate::account::AccountName;
use crate::key::EntityKey;
use crate::range::KeyRange;
use crate::service_kind::ServiceKind;

pub use demand::{Demand, Letters, Resource};
pub use permissions::{Permissions, ResourceTypes};

/// The permission that authentication found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    account: AccountName,
    authority: Authority,
    read_only: bool,
}

/// Where a grant comes from, and how far it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Authority {
    Owner,
    AccountSignature(ResourceTypes, Permissions),
    ServiceSignature(ServiceSignature),
    Roles(Vec<RoleAssignment>),
}

/// What a signature for one container of one service opens: a table, a queue, a container of blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSignature {
    /// The service that it is made for.
    pub service: ServiceKind,
    /// The container, in whatever case: no service has two names that differ by it alone.
    pub container: String,
    /// What may be done.
    pub permissions: Permissions,
    /// With which of the objects.
    pub range: KeyRange,
}

/// What a token's bearer is in an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads containers and what is in them.
    Reader,
    /// Reads and writes them.
    Contributor,
    /// May also set the properties of services, and change the server itself through its admin
    /// port.
    Administrator,
}

/// A role, and where it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleAssignment {
    /// What the bearer is.
    pub role: Role,
    /// Where.
    pub scope: Scope,
}

/// Where a role applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// In the whole account.
    Account,
    /// In these containers of one service.
    Containers(ServiceKind, Vec<String>),
}

impl Scope {
    fn has(&self, demand: &Demand<'_>) -> bool {
        match (self, demand.resource.container()) {
            (Self::Account, _) => true,
            (Self::Containers(service, names), Some(container)) => {
                *service == demand.service
                    && names.iter().any(|name| name.eq_ignore_ascii_case(container))
            }
            (Self::Containers(..), None) => false,
        }
    }
}

/// Why a grant does not cover a demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessError {
    /// The credential can never open such a thing.
    NotAuthorized,
    /// It opens such things, but not for this.
    PermissionMismatch,
    /// A signature over an account that opens other kinds of resource.
    ResourceTypeMismatch,
    /// A key outside of a signature's range.
    KeyNotAuthorized,
    /// The service has no such resource for the bearers of tokens.
    UnknownToTokens,
    /// A write through the secondary, or to an account that accepts none.
    WritesNotAllowed,
}

/// Why a grant does not cover a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDenied {
    /// The request as a whole.
    Request(AccessError),
    /// One operation of a transaction.
    Operation {
        /// Counted from zero.
        index: usize,
        /// Why.
        error: AccessError,
    },
}

impl Grant {
    fn new(account: AccountName, authority: Authority) -> Self {
        Self { account, authority, read_only: false }
    }

    /// What an account's owner may do: the bearer of one of its keys.
    #[must_use]
    pub fn owner(account: AccountName) -> Self {
        Self::new(account, Authority::Owner)
    }

    /// What a signature over the whole account opens, in the service that it is shown to.
    #[must_use]
    pub fn account_signature(
        account: AccountName,
        types: ResourceTypes,
        permissions: Permissions,
    ) -> Self {
        Self::new(account, Authority::AccountSignature(types, permissions))
    }

    /// What a signature for one container opens.
    #[must_use]
    pub fn service_signature(account: AccountName, signature: ServiceSignature) -> Self {
        Self::new(account, Authority::ServiceSignature(signature))
    }

    /// What a token's bearer may do.
    #[must_use]
    pub fn roles(account: AccountName, assignments: Vec<RoleAssignment>) -> Self {
        Self::new(account, Authority::Roles(assignments))
    }

    /// The same for reading only: through the secondary, or in an account that accepts no writes.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Whose data.
    #[must_use]
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// The objects that the grant is about: a query must not read beyond them.
    #[must_use]
    pub fn key_range(&self) -> &KeyRange {
        match &self.authority {
            Authority::ServiceSignature(signature) => &signature.range,
            Authority::Owner | Authority::AccountSignature(..) | Authority::Roles(_) => {
                &KeyRange::ALL
            }
        }
    }

    /// Refuses a demand that lies outside the grant. Whether anything may be written at all is
    /// [`Grant::permits_writing`].
    ///
    /// # Errors
    /// Why.
    pub fn permits(&self, demand: &Demand<'_>) -> Result<(), AccessError> {
        match &self.authority {
            Authority::Owner => Ok(()),
            Authority::AccountSignature(types, permissions) => {
                by_account_signature(*types, *permissions, demand)
            }
            Authority::ServiceSignature(signature) => signature.permits(demand),
            Authority::Roles(assignments) => by_roles(assignments, demand),
        }
    }

    /// Refuses a request that can change something if the grant is for reading.
    ///
    /// # Errors
    /// [`AccessError::WritesNotAllowed`].
    pub fn permits_writing(&self, is_write: bool) -> Result<(), AccessError> {
        if self.read_only && is_write { Err(AccessError::WritesNotAllowed) } else { Ok(()) }
    }
}

fn by_account_signature(
    types: ResourceTypes,
    permissions: Permissions,
    demand: &Demand<'_>,
) -> Result<(), AccessError> {
    let needed = demand.resource_types.ok_or(AccessError::NotAuthorized)?;
    if !types.has_any(needed) {
        return Err(AccessError::ResourceTypeMismatch);
    }
    if demand.letters.are_in(permissions) { Ok(()) } else { Err(AccessError::PermissionMismatch) }
}

impl ServiceSignature {
    /// First what no such signature can do, then what this one cannot, then where it cannot.
    fn permits(&self, demand: &Demand<'_>) -> Result<(), AccessError> {
        let Resource::Objects(container) = demand.resource else {
            return Err(AccessError::NotAuthorized);
        };
        if demand.service != self.service || !container.eq_ignore_ascii_case(&self.container) {
            return Err(AccessError::NotAuthorized);
        }
        if !demand.letters.are_in(self.permissions) {
            return Err(AccessError::PermissionMismatch);
        }
        let is_inside = demand.key.is_none_or(|(partition_key, row_key)| {
            self.range.contains(&EntityKey::new(partition_key.clone(), row_key.clone()))
        });
        if is_inside { Ok(()) } else { Err(AccessError::KeyNotAuthorized) }
    }
}

fn by_roles(assignments: &[RoleAssignment], demand: &Demand<'_>) -> Result<(), AccessError> {
    let needed = demand.role.ok_or(AccessError::UnknownToTokens)?;
    let suffices = assignments.iter().any(|one| one.role >= needed && one.scope.has(demand));
    if suffices { Ok(()) } else { Err(AccessError::PermissionMismatch) }
}

#[cfg(test)]
mod tests;
