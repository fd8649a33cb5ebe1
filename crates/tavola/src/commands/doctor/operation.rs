//! The operation that a credential is checked for, and the letters that it needs.

use clap::ArgMatches;
use tavola_core::grant::{Permissions, ResourceTypes, ServiceSignature};
use tavola_core::request::{EntityQuery, TablesQuery};
use tavola_core::table_demands::permits;
use tavola_core::{
    AccountName, EntityKey, EntityOperation, Grant, KeyRange, NewEntity, PartitionKey,
    Precondition, Properties, RowKey, ServiceKind, TableName, TableRequest,
};

use crate::exit::Failure;

/// What can be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Get,
    Query,
    Insert,
    Update,
    Merge,
    Upsert,
    Delete,
    ListTables,
    CreateTable,
    DeleteTable,
}

impl Operation {
    pub(super) const ALL: [Self; 10] = [
        Self::Get,
        Self::Query,
        Self::Insert,
        Self::Update,
        Self::Merge,
        Self::Upsert,
        Self::Delete,
        Self::ListTables,
        Self::CreateTable,
        Self::DeleteTable,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Query => "query",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Merge => "merge",
            Self::Upsert => "upsert",
            Self::Delete => "delete",
            Self::ListTables => "list-tables",
            Self::CreateTable => "create-table",
            Self::DeleteTable => "delete-table",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// True if a server can be asked to do it without anything changing.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::Query | Self::ListTables)
    }

    /// True if it is about entities of a table, not about tables as such.
    pub(super) fn is_on_entities(self) -> bool {
        !matches!(self, Self::ListTables | Self::CreateTable | Self::DeleteTable)
    }

    /// The request, as the service would see it.
    pub(super) fn request(self, table: TableName, key: EntityKey) -> Result<TableRequest, Failure> {
        let properties =
            Properties::new(Vec::new()).map_err(|_| Failure::Usage("no properties".to_owned()))?;
        let too_long = |_| Failure::Usage("the keys are too long for an entity".to_owned());
        let (partition_key, new) = NewEntity::new(key.clone(), properties).map_err(too_long)?;
        let write = |operation| TableRequest::Write(table.clone(), partition_key, operation);
        Ok(match self {
            Self::Get => TableRequest::GetEntity(table, key),
            Self::Query => TableRequest::QueryEntities(
                table,
                EntityQuery { top: Some(1), ..EntityQuery::default() },
            ),
            Self::Insert => write(EntityOperation::Insert(new)),
            Self::Update => write(EntityOperation::Replace(new, Precondition::Exists)),
            Self::Merge => write(EntityOperation::Merge(new, Precondition::Exists)),
            Self::Upsert => write(EntityOperation::Merge(new, Precondition::None)),
            Self::Delete => write(EntityOperation::Delete(key.row_key, Precondition::Exists)),
            Self::ListTables => {
                TableRequest::QueryTables(TablesQuery { top: Some(1), ..TablesQuery::default() })
            }
            Self::CreateTable => TableRequest::CreateTable(table),
            Self::DeleteTable => TableRequest::DeleteTable(table),
        })
    }
}

/// The operation and its resource.
#[derive(Debug, Default)]
pub(super) struct Question {
    pub(super) operation: Option<Operation>,
    pub(super) table: Option<TableName>,
    pub(super) key: Option<EntityKey>,
}

impl Question {
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let no_table = |_| {
            Failure::Usage(
                "--table: a table's name begins with a letter and has 3 to 63 letters and digits"
                    .to_owned(),
            )
        };
        let no_key = |error| Failure::Usage(format!("--partition and --row: {error}"));
        let key = match (text("partition"), text("row")) {
            (Some(partition), Some(row)) => {
                let partition_key = PartitionKey::new(partition).map_err(no_key)?;
                Some(EntityKey::new(partition_key, RowKey::new(row).map_err(no_key)?))
            }
            _ => None,
        };
        Ok(Self {
            operation: text("operation").and_then(Operation::parse),
            table: text("table").map(TableName::parse).transpose().map_err(no_table)?,
            key,
        })
    }

    pub(super) fn is_asked(&self) -> bool {
        self.operation.is_some() || self.table.is_some() || self.key.is_some()
    }
}

/// Which letters of `sp` a request takes: the smallest sets that the service's own rule lets
/// through.
pub(super) fn letters_needed(
    request: &TableRequest,
    table: Option<&TableName>,
    account: &AccountName,
) -> Vec<String> {
    let legal = if table.is_some() { Permissions::TABLE } else { Permissions::ACCOUNT };
    smallest_sets(legal, |letters| {
        let grant = match table {
            Some(table) => {
                Permissions::of_service(ServiceKind::Table, letters).map(|permissions| {
                    let signature = ServiceSignature {
                        service: ServiceKind::Table,
                        container: table.as_str().to_owned(),
                        permissions,
                        range: KeyRange::ALL,
                    };
                    Grant::service_signature(account.clone(), signature)
                })
            }
            None => Permissions::of_account(letters).zip(ResourceTypes::parse("sco")).map(
                |(permissions, types)| {
                    Grant::account_signature(account.clone(), types, permissions)
                },
            ),
        };
        grant.is_some_and(|grant| permits(&grant, request).is_ok())
    })
}

/// Which letters of `srt` a request takes, likewise.
pub(super) fn resource_types_needed(request: &TableRequest, account: &AccountName) -> Vec<String> {
    smallest_sets("sco", |letters| {
        let grant = Permissions::of_account(Permissions::ACCOUNT)
            .zip(ResourceTypes::parse(letters))
            .map(|(permissions, types)| {
                Grant::account_signature(account.clone(), types, permissions)
            });
        grant.is_some_and(|grant| permits(&grant, request).is_ok())
    })
}

/// One letter or two: no request takes more.
fn smallest_sets(legal: &str, suffices: impl Fn(&str) -> bool) -> Vec<String> {
    let single =
        legal.chars().map(String::from).filter(|letters| suffices(letters)).collect::<Vec<_>>();
    if !single.is_empty() {
        return single;
    }
    let pairs = legal.char_indices().flat_map(|(at, first)| {
        legal[at + 1..].chars().map(move |second| format!("{first}{second}"))
    });
    pairs.filter(|letters| suffices(letters)).collect()
}

#[cfg(test)]
mod tests {
    use tavola_core::{AccountName, EntityKey, PartitionKey, RowKey, TableName};

    use super::{Operation, letters_needed, resource_types_needed};

    #[test]
    fn letters_of_each_operation() {
        let account = AccountName::parse("shop").unwrap();
        let table = TableName::parse("staff").unwrap();
        let found: Vec<String> = Operation::ALL
            .into_iter()
            .map(|operation| {
                let key =
                    EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
                let request = operation.request(table.clone(), key).unwrap();
                let of_table = letters_needed(&request, Some(&table), &account).join("|");
                let of_account = letters_needed(&request, None, &account).join("|");
                let types = resource_types_needed(&request, &account).join("|");
                format!("{} table={of_table} account={of_account} types={types}", operation.name())
            })
            .collect();
        assert_eq!(
            found,
            [
                "get table=r account=r types=o",
                "query table=r account=r types=o",
                "insert table=a account=a types=o",
                "update table=u account=u types=o",
                "merge table=u account=u types=o",
                "upsert table=au account=au types=o",
                "delete table=d account=d types=o",
                "list-tables table= account=l types=s|c",
                "create-table table= account=w|c types=c",
                "delete-table table= account=d types=c",
            ]
        );
    }
}
