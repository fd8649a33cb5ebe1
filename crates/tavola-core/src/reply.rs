//! What the Table service answers, before it becomes bytes.

use crate::entity::{Entity, EntityView};
use crate::etag::Timestamp;
use crate::filter::plan::AccessClass;
use crate::policy::AccessPolicy;
use crate::properties::ServiceProperties;
use crate::request::Continuation;
use crate::table::TableName;
use crate::time::DateTime;

/// An entity on its way out, wherever its bytes lie.
pub type BoxedEntity = Box<dyn EntityView>;

/// One answer; each variant answers the request of the same name.
#[derive(Debug)]
pub enum TableReply {
    /// The table exists now.
    TableCreated(TableName),
    /// The table exists.
    Table(TableName),
    /// A page of tables.
    Tables {
        /// In the case in which they were created, sorted without case.
        names: Vec<TableName>,
        /// The folded name that the next page begins with.
        next: Option<String>,
    },
    /// The table is gone.
    TableDeleted,
    /// The policies of a table.
    Policies(Vec<AccessPolicy>),
    /// The policies are replaced.
    PoliciesSet,
    /// One entity.
    Entity(TableName, BoxedEntity),
    /// A page of entities.
    Entities {
        /// The table in the case in which it was created.
        table: TableName,
        /// In the order of their keys.
        entities: Vec<BoxedEntity>,
        /// The first of the next page.
        next: Option<Continuation>,
    },
    /// One write, done.
    Written(TableName, OperationReply),
    /// A whole transaction, done.
    TransactionDone(TableName, Vec<OperationReply>),
    /// The service's properties.
    ServiceProperties(ServiceProperties),
    /// The service's properties are changed.
    ServicePropertiesSet,
    /// The secondary is level with the primary up to this time.
    ServiceStats(DateTime),
    /// The names of all tables, for the schema.
    Metadata(Vec<TableName>),
}

/// What became of one operation, with what the wire needs to say it.
#[derive(Debug, PartialEq)]
pub enum OperationReply {
    /// Inserted: the whole entity, for clients that want it back.
    Inserted(Entity),
    /// Replaced or merged, by whatever precondition.
    Updated(Timestamp),
    /// Deleted.
    Deleted,
}

/// What answering cost, for metrics, logs and the advisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// How a query reached its rows.
    pub class: Option<AccessClass>,
    /// Rows that were looked at.
    pub rows_read: u64,
    /// Rows that were sent.
    pub rows_returned: u64,
}
