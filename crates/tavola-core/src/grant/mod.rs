//! What the bearer of a checked credential may do.
//!
//! Every kind of credential becomes one [`Grant`]; [`Grant::permits`] is the only place that
//! decides. What each request asks for is one table (`demand`), so that a new request cannot be
//! forgotten.

mod demand;
mod permissions;

use crate::account::AccountName;
use crate::domain_error::DomainError;
use crate::key::EntityKey;
use crate::range::KeyRange;
use crate::request::TableRequest;
use crate::table::TableName;
use crate::transaction::FailedOperation;

use demand::{Demand, Subject};
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
    TableSignature(TableSignature),
    Roles(Vec<RoleAssignment>),
}

/// What a signature for one table opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSignature {
    /// The table.
    pub table: TableName,
    /// Letters of `raud`.
    pub permissions: Permissions,
    /// The entities.
    pub range: KeyRange,
}

/// What a token's bearer is in an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads tables and entities.
    Reader,
    /// Reads and writes them.
    Contributor,
    /// May also set the properties of the service, and change the server itself through its admin
    /// port.
    Administrator,
}

/// A role, and where it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleAssignment {
    /// What the bearer is.
    pub role: Role,
    /// The tables for which it holds; `None` for the whole account.
    pub tables: Option<Vec<TableName>>,
}

/// Why a grant does not cover a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDenied {
    /// The request as a whole.
    Request(DomainError),
    /// One operation of a transaction.
    Operation(FailedOperation),
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

    /// What a signature over the whole account opens.
    #[must_use]
    pub fn account_signature(
        account: AccountName,
        types: ResourceTypes,
        permissions: Permissions,
    ) -> Self {
        Self::new(account, Authority::AccountSignature(types, permissions))
    }

    /// What a signature for one table opens.
    #[must_use]
    pub fn table_signature(account: AccountName, signature: TableSignature) -> Self {
        Self::new(account, Authority::TableSignature(signature))
    }

    /// What a token's bearer may do.
    #[must_use]
    pub fn roles(account: AccountName, assignments: Vec<RoleAssignment>) -> Self {
        Self::new(account, Authority::Roles(assignments))
    }

    /// The same for reading only: through the secondary, or in an account that takes no writes.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Whose data.
    #[must_use]
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// The entities that the grant is about: a query must not read beyond them.
    #[must_use]
    pub fn key_range(&self) -> &KeyRange {
        match &self.authority {
            Authority::TableSignature(signature) => &signature.range,
            Authority::Owner | Authority::AccountSignature(..) | Authority::Roles(_) => {
                &KeyRange::ALL
            }
        }
    }

    /// Refuses what lies outside the grant. A query's own keys are not asked for:
    /// [`Grant::key_range`] cuts it.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn permits(&self, request: &TableRequest) -> Result<(), AccessDenied> {
        if let TableRequest::Transaction(table, transaction) = request {
            for (index, operation) in transaction.operations().iter().enumerate() {
                let key = || {
                    Some(EntityKey::new(
                        transaction.partition_key().clone(),
                        operation.row_key().clone(),
                    ))
                };
                self.permits_demand(&Demand::of_operation(table, operation), key).map_err(
                    |domain_error| AccessDenied::Operation(FailedOperation { index, domain_error }),
                )?;
            }
            return self.permits_writing(request).map_err(AccessDenied::Request);
        }
        self.permits_demand(&Demand::of(request), || key_of(request))
            .map_err(AccessDenied::Request)?;
        self.permits_writing(request).map_err(AccessDenied::Request)
    }

    fn permits_writing(&self, request: &TableRequest) -> Result<(), DomainError> {
        if self.read_only && request.is_write() {
            Err(DomainError::WritesNotAllowed)
        } else {
            Ok(())
        }
    }

    /// `key` is the one entity that is asked for, if it is one; only a signature with a range wants
    /// to know.
    fn permits_demand(
        &self,
        demand: &Demand<'_>,
        key: impl Fn() -> Option<EntityKey>,
    ) -> Result<(), DomainError> {
        match &self.authority {
            Authority::Owner => Ok(()),
            Authority::AccountSignature(types, permissions) => {
                by_account_signature(*types, *permissions, demand)
            }
            Authority::TableSignature(signature) => signature.permits(demand, key),
            Authority::Roles(assignments) => by_roles(assignments, demand),
        }
    }
}

fn by_account_signature(
    types: ResourceTypes,
    permissions: Permissions,
    demand: &Demand<'_>,
) -> Result<(), DomainError> {
    let Some((resource_types, letters)) = demand.of_account_signature() else {
        return Err(DomainError::NotAuthorized);
    };
    if !types.has_any(resource_types) {
        return Err(DomainError::ResourceTypeMismatch);
    }
    if letters.are_in(permissions) { Ok(()) } else { Err(DomainError::PermissionMismatch) }
}

impl TableSignature {
    /// First what no such signature can do, then what this one cannot, then where it cannot.
    fn permits(
        &self,
        demand: &Demand<'_>,
        key: impl Fn() -> Option<EntityKey>,
    ) -> Result<(), DomainError> {
        let Subject::Entities(table) = demand.subject else {
            return Err(DomainError::NotAuthorized);
        };
        if *table != self.table {
            return Err(DomainError::NotAuthorized);
        }
        if !demand.letters.are_in(self.permissions) {
            return Err(DomainError::PermissionMismatch);
        }
        if key().is_some_and(|key| !self.range.contains(&key)) {
            Err(DomainError::KeyNotAuthorized)
        } else {
            Ok(())
        }
    }
}

fn by_roles(assignments: &[RoleAssignment], demand: &Demand<'_>) -> Result<(), DomainError> {
    if let Subject::Policies = demand.subject {
        // The service knows no such resource for tokens.
        return Err(DomainError::ResourceNotFound);
    }
    let needed = match (demand.subject, demand.writes) {
        // Its properties say which web pages are let in, for everybody who uses the account.
        (Subject::Service, true) => Role::Administrator,
        (_, true) => Role::Contributor,
        (_, false) => Role::Reader,
    };
    let holds = |assignment: &&RoleAssignment| match (&assignment.tables, demand.subject.table()) {
        (None, _) => true,
        (Some(tables), Some(table)) => tables.contains(table),
        (Some(_), None) => false,
    };
    let suffices = assignments.iter().filter(holds).any(|assignment| assignment.role >= needed);
    if suffices { Ok(()) } else { Err(DomainError::PermissionMismatch) }
}

/// The one entity that a request is about.
fn key_of(request: &TableRequest) -> Option<EntityKey> {
    match request {
        TableRequest::GetEntity(_, key) => Some(key.clone()),
        TableRequest::Write(_, partition_key, operation) => {
            Some(EntityKey::new(partition_key.clone(), operation.row_key().clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
