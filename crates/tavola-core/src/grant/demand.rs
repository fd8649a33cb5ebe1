//! What each request asks of a credential: the service's table of operations and permissions, once.

use super::Permissions;
use crate::operation::{EntityOperation, Precondition};
use crate::request::{Misaddressed, TableRequest};
use crate::table::TableName;

/// What a request is about, as far as credentials are concerned.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject<'a> {
    /// The list of tables, and the schema that shows it.
    Tables,
    /// A table as such.
    Table(&'a TableName),
    /// Entities of a table.
    Entities(&'a TableName),
    /// The access policies of a table.
    Policies,
    /// The service itself.
    Service,
}

impl<'a> Subject<'a> {
    pub(super) fn table(self) -> Option<&'a TableName> {
        match self {
            Self::Table(table) | Self::Entities(table) => Some(table),
            Self::Tables | Self::Policies | Self::Service => None,
        }
    }
}

/// The letters of `sp` that open something.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted {
    /// One of them is enough.
    Any(&'static str),
    /// Every one of them is needed.
    All(&'static str),
}

impl Wanted {
    pub(super) fn are_in(self, permissions: Permissions) -> bool {
        match self {
            Self::Any(letters) => letters.chars().any(|letter| permissions.has(letter)),
            Self::All(letters) => letters.chars().all(|letter| permissions.has(letter)),
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) letters: Wanted,
    /// For roles, which know only reading and writing.
    pub(super) writes: bool,
}

impl<'a> Demand<'a> {
    pub(super) fn of(request: &'a TableRequest) -> Self {
        let (subject, letters) = match request {
            TableRequest::QueryTables(_) | TableRequest::GetMetadata => {
                (Subject::Tables, Wanted::All("l"))
            }
            TableRequest::GetTable(table) => (Subject::Table(table), Wanted::All("l")),
            TableRequest::CreateTable(table) => (Subject::Table(table), Wanted::Any("cw")),
            TableRequest::DeleteTable(table) => (Subject::Table(table), Wanted::All("d")),
            TableRequest::GetPolicies(_) => (Subject::Policies, Wanted::All("r")),
            TableRequest::SetPolicies(..) => (Subject::Policies, Wanted::All("w")),
            TableRequest::GetEntity(table, _) | TableRequest::QueryEntities(table, _) => {
                (Subject::Entities(table), Wanted::All("r"))
            }
            TableRequest::Write(table, _, operation) => {
                (Subject::Entities(table), letters_of(operation))
            }
            // Its operations are asked one by one; as a whole it needs what every write needs at
            // least.
            TableRequest::Transaction(table, _) => (Subject::Entities(table), Wanted::Any("aud")),
            TableRequest::GetServiceProperties | TableRequest::GetServiceStats => {
                (Subject::Service, Wanted::All("r"))
            }
            TableRequest::SetServiceProperties(_) => (Subject::Service, Wanted::All("w")),
            // What it would be below a table that had such entities.
            TableRequest::Misaddressed(table, Misaddressed::CreateTable) => {
                (Subject::Entities(table), Wanted::All("a"))
            }
            TableRequest::Misaddressed(table, Misaddressed::DeleteTable) => {
                (Subject::Entities(table), Wanted::All("d"))
            }
        };
        Self { subject, letters, writes: request.is_write() }
    }

    pub(super) fn of_operation(table: &'a TableName, operation: &EntityOperation) -> Self {
        Self { subject: Subject::Entities(table), letters: letters_of(operation), writes: true }
    }

    /// The letters of `srt` of which one is needed, and those of `sp`; `None` for what only the
    /// owner may do.
    ///
    /// The documentation puts the list of tables under containers in one place and under the
    /// service in another: either will do.
    pub(super) fn of_account_signature(&self) -> Option<(&'static str, Wanted)> {
        let resource_types = match (self.subject, self.writes) {
            (Subject::Tables, _) | (Subject::Table(_), false) => "sc",
            (Subject::Table(_), true) => "c",
            (Subject::Entities(_), _) => "o",
            (Subject::Service, _) => "s",
            (Subject::Policies, _) => return None,
        };
        Some((resource_types, self.letters))
    }
}

/// An upsert may insert and may update, so it needs both.
fn letters_of(operation: &EntityOperation) -> Wanted {
    match operation {
        EntityOperation::Insert(_) => Wanted::All("a"),
        EntityOperation::Replace(_, Precondition::None)
        | EntityOperation::Merge(_, Precondition::None) => Wanted::All("au"),
        EntityOperation::Replace(..) | EntityOperation::Merge(..) => Wanted::All("u"),
        EntityOperation::Delete(..) => Wanted::All("d"),
    }
}
