//! What each request of the Table service asks of a credential: the service's table of operations
//! and permissions, once.

use crate::grant::{AccessDenied, AccessError, Demand, Grant, Letters, Resource, Role};
use crate::key::{PartitionKey, RowKey};
use crate::operation::{EntityOperation, Precondition};
use crate::request::{Misaddressed, TableRequest};
use crate::service_kind::ServiceKind;
use crate::table::TableName;

/// Refuses what lies outside the grant. A query's own keys are not asked for:
/// [`Grant::key_range`] cuts it.
///
/// # Errors
/// Why the request, or one operation of it, is denied.
pub fn permits(grant: &Grant, request: &TableRequest) -> Result<(), AccessDenied> {
    demands(request, &mut |demand| grant.permits(demand))?;
    grant.permits_writing(request.is_write()).map_err(AccessDenied::Request)
}

/// Hands each demand of a request to `check`: one for the request, or one for each operation of a
/// transaction.
///
/// # Errors
/// What `check` says first.
pub fn demands(
    request: &TableRequest,
    check: &mut dyn FnMut(&Demand<'_>) -> Result<(), AccessError>,
) -> Result<(), AccessDenied> {
    if let TableRequest::Transaction(table, transaction) = request {
        for (index, operation) in transaction.operations().iter().enumerate() {
            let key = (transaction.partition_key(), operation.row_key());
            let demand = on_entities(table, letters_of(operation), true, Some(key));
            check(&demand).map_err(|error| AccessDenied::Operation { index, error })?;
        }
        return Ok(());
    }
    check(&demand_of(request)).map_err(AccessDenied::Request)
}

fn demand_of(request: &TableRequest) -> Demand<'_> {
    match request {
        TableRequest::QueryTables(_) | TableRequest::GetMetadata => {
            // The documentation puts the list of tables under containers in one place and under the
            // service in another: either will do.
            demand(Resource::Containers, Letters::All("l"), Some("sc"), Some(Role::Reader))
        }
        TableRequest::GetTable(table) => {
            let resource = Resource::Container(table.as_str());
            demand(resource, Letters::All("l"), Some("sc"), Some(Role::Reader))
        }
        TableRequest::CreateTable(table) => on_table(table, Letters::Any("cw")),
        TableRequest::DeleteTable(table) => on_table(table, Letters::All("d")),
        // Only an owner may see or set policies, and the service has none for tokens.
        TableRequest::GetPolicies(table) => {
            demand(Resource::Policies(table.as_str()), Letters::All("r"), None, None)
        }
        TableRequest::SetPolicies(table, _) => {
            demand(Resource::Policies(table.as_str()), Letters::All("w"), None, None)
        }
        TableRequest::GetEntity(table, key) => {
            let key = (&key.partition_key, &key.row_key);
            on_entities(table, Letters::All("r"), false, Some(key))
        }
        TableRequest::QueryEntities(table, _) => on_entities(table, Letters::All("r"), false, None),
        TableRequest::Write(table, partition_key, operation) => {
            let key = (partition_key, operation.row_key());
            on_entities(table, letters_of(operation), true, Some(key))
        }
        // Its operations are asked one by one; as a whole it needs what every write needs at least.
        TableRequest::Transaction(table, _) => on_entities(table, Letters::Any("aud"), true, None),
        TableRequest::GetServiceProperties | TableRequest::GetServiceStats => {
            demand(Resource::Service, Letters::All("r"), Some("s"), Some(Role::Reader))
        }
        // Its properties say which web pages may use the account, on behalf of every user.
        TableRequest::SetServiceProperties(_) => {
            demand(Resource::Service, Letters::All("w"), Some("s"), Some(Role::Administrator))
        }
        // What it would be below a table that had such entities.
        TableRequest::Misaddressed(table, Misaddressed::CreateTable) => {
            on_entities(table, Letters::All("a"), true, None)
        }
        TableRequest::Misaddressed(table, Misaddressed::DeleteTable) => {
            on_entities(table, Letters::All("d"), true, None)
        }
    }
}

fn demand<'a>(
    resource: Resource<'a>,
    letters: Letters,
    resource_types: Option<&'static str>,
    role: Option<Role>,
) -> Demand<'a> {
    Demand { service: ServiceKind::Table, resource, letters, resource_types, role, key: None }
}

/// A table that is created or deleted.
fn on_table(table: &TableName, letters: Letters) -> Demand<'_> {
    demand(Resource::Container(table.as_str()), letters, Some("c"), Some(Role::Contributor))
}

fn on_entities<'a>(
    table: &'a TableName,
    letters: Letters,
    writes: bool,
    key: Option<(&'a PartitionKey, &'a RowKey)>,
) -> Demand<'a> {
    let role = if writes { Role::Contributor } else { Role::Reader };
    Demand { key, ..demand(Resource::Objects(table.as_str()), letters, Some("o"), Some(role)) }
}

/// An upsert may insert and may update, so it needs both.
fn letters_of(operation: &EntityOperation) -> Letters {
    match operation {
        EntityOperation::Insert(_) => Letters::All("a"),
        EntityOperation::Replace(_, Precondition::None)
        | EntityOperation::Merge(_, Precondition::None) => Letters::All("au"),
        EntityOperation::Replace(..) | EntityOperation::Merge(..) => Letters::All("u"),
        EntityOperation::Delete(..) => Letters::All("d"),
    }
}
