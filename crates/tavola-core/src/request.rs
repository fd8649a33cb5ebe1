//! What a client can ask of the Table service, once its bytes are understood.

use crate::domain_error::DomainError;
use crate::entity::is_system_property;
use crate::filter::Filter;
use crate::key::{EntityKey, PartitionKey, RowKey};
use crate::operation::EntityOperation;
use crate::policy::AccessPolicy;
use crate::properties::ServicePropertiesChange;
use crate::table::TableName;
use crate::transaction::EntityGroupTransaction;

/// One request. How the answer is to be written (metadata level, echo of content, URLs) is the
/// wire's matter.
#[derive(Debug, Clone, PartialEq)]
pub enum TableRequest {
    /// Create a table.
    CreateTable(TableName),
    /// One page of the account's tables.
    QueryTables(TablesQuery),
    /// Does this table exist?
    GetTable(TableName),
    /// Drop a table.
    DeleteTable(TableName),
    /// The access policies of a table.
    GetPolicies(TableName),
    /// Replace the access policies of a table.
    SetPolicies(TableName, Vec<AccessPolicy>),
    /// One entity.
    GetEntity(TableName, EntityKey),
    /// One page of a table's entities.
    QueryEntities(TableName, EntityQuery),
    /// One write.
    Write(TableName, PartitionKey, EntityOperation),
    /// Several writes, all or nothing.
    Transaction(TableName, EntityGroupTransaction),
    /// The service's properties.
    GetServiceProperties,
    /// Change the service's properties.
    SetServiceProperties(ServicePropertiesChange),
    /// How the secondary is doing.
    GetServiceStats,
    /// The schema of all tables.
    GetMetadata,
    /// What is not there: a path that goes on behind a table's name.
    Misaddressed(TableName, Misaddressed),
}

/// What a client asks for whose endpoint names the table already, so that its paths go on behind
/// the table. None of it can be done; the service looks for the table before it says why, and
/// clients tell their users by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misaddressed {
    /// `POST /T/Tables`: understood as the insert of an entity that has no keys.
    CreateTable,
    /// `DELETE /T/Tables('T')`: understood as an entity with one key.
    DeleteTable,
}

impl Misaddressed {
    /// Why it cannot be done, if there is such a table.
    #[must_use]
    pub const fn domain_error(self) -> DomainError {
        match self {
            Self::CreateTable => DomainError::PropertiesNeedValue,
            Self::DeleteTable => DomainError::KeyCount,
        }
    }
}

impl TableRequest {
    /// True if the request can change something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        match self {
            Self::CreateTable(_)
            | Self::DeleteTable(_)
            | Self::SetPolicies(..)
            | Self::Write(..)
            | Self::Transaction(..)
            | Self::SetServiceProperties(_)
            | Self::Misaddressed(..) => true,
            Self::QueryTables(_)
            | Self::GetTable(_)
            | Self::GetPolicies(_)
            | Self::GetEntity(..)
            | Self::QueryEntities(..)
            | Self::GetServiceProperties
            | Self::GetServiceStats
            | Self::GetMetadata => false,
        }
    }

    /// The operation's name in logs and metrics, as Storage Analytics spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateTable(_) => "CreateTable",
            Self::QueryTables(_) => "QueryTables",
            Self::GetTable(_) => "QueryTable",
            Self::DeleteTable(_) => "DeleteTable",
            Self::GetPolicies(_) => "GetTableAcl",
            Self::SetPolicies(..) => "SetTableAcl",
            Self::GetEntity(..) => "QueryEntity",
            Self::QueryEntities(..) => "QueryEntities",
            Self::Write(_, _, operation) => operation.name(),
            Self::Transaction(..) => "EntityGroupTransaction",
            Self::GetServiceProperties => "GetTableServiceProperties",
            Self::SetServiceProperties(_) => "SetTableServiceProperties",
            Self::GetServiceStats => "GetTableServiceStats",
            Self::GetMetadata => "GetMetadata",
            Self::Misaddressed(_, Misaddressed::CreateTable) => "InsertEntity",
            Self::Misaddressed(_, Misaddressed::DeleteTable) => "DeleteEntity",
        }
    }

    /// The table that the request is about.
    #[must_use]
    pub fn table(&self) -> Option<&TableName> {
        match self {
            Self::CreateTable(table)
            | Self::GetTable(table)
            | Self::DeleteTable(table)
            | Self::GetPolicies(table)
            | Self::SetPolicies(table, _)
            | Self::GetEntity(table, _)
            | Self::QueryEntities(table, _)
            | Self::Write(table, _, _)
            | Self::Transaction(table, _)
            | Self::Misaddressed(table, _) => Some(table),
            Self::QueryTables(_)
            | Self::GetServiceProperties
            | Self::SetServiceProperties(_)
            | Self::GetServiceStats
            | Self::GetMetadata => None,
        }
    }
}

/// A page of tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TablesQuery {
    /// On the one property `TableName`.
    pub filter: Option<Filter>,
    /// At most so many; never above the page's limit.
    pub top: Option<usize>,
    /// The table to go on from, inclusive; there need not be one of that name any more.
    pub from: Option<TableName>,
}

/// A page of entities.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EntityQuery {
    /// Which entities.
    pub filter: Option<Filter>,
    /// At most so many; never above the page's limit.
    pub top: Option<usize>,
    /// Where to go on.
    pub from: Option<Continuation>,
}

/// The first entity of the next page. Complete in itself: it survives restarts, and no server keeps
/// anything for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// The partition to go on in.
    pub partition_key: PartitionKey,
    /// The row to go on from, inclusive; `None` for the partition's first.
    pub row_key: Option<RowKey>,
}

/// Which properties an answer shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Select {
    /// All of them.
    #[default]
    All,
    /// Only these, in this order; a name that an entity lacks is shown as null.
    Names(Vec<String>),
}

impl Select {
    /// True if a name stands for one of the three properties that every entity has.
    #[must_use]
    pub fn is_system(name: &str) -> bool {
        is_system_property(name)
    }
}
