//! The mark of a copy under way: a row in a system table of the target. It says what is copied and
//! how far it is.

use tavola_core::{
    DomainError, EdmValue, EntityAddress, EntityKey, EntityOperation, PartitionKey, Precondition,
    TableId, Timestamp,
};
use tavola_store::keys::entity_key;
use tavola_store::{Blocking, Row, Store, StoreError};

use super::Digest;
use crate::error::ServiceError;
use crate::record::{Record, date_time, int64, require, row_key, text};
use crate::system_rows::put;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyCheckpoint {
    /// What is copied, for people.
    pub(super) source: String,
    /// All that is to be copied: another content is another source, or one that somebody has
    /// changed since.
    pub(super) content: Digest,
    /// The table that is being copied and the last row of it that is there; tables before it are
    /// done.
    pub(super) position: Option<(TableId, Option<EntityKey>)>,
    /// Versions above this one are copied as this one.
    pub(super) versions_max: Option<Timestamp>,
}

impl CopyCheckpoint {
    pub(super) fn new(source: &str, versions_max: Option<Timestamp>) -> Self {
        Self { source: source.to_owned(), content: Digest::default(), position: None, versions_max }
    }

    pub(super) async fn read(store: &dyn Store) -> Result<Option<Self>, StoreError> {
        let row = store.get(&address(), Blocking::Forbidden).await?;
        row.as_ref().map(read).transpose()
    }

    pub(super) async fn write(
        &self,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<(), ServiceError> {
        let mut record = Record::default();
        record.set_text("Source", &self.source);
        record.set("Rows", EdmValue::Int64(self.content.rows.cast_signed()));
        record.set("Hash", EdmValue::Int64(self.content.hash.cast_signed()));
        if let Some(max) = self.versions_max {
            record.set("VersionsMax", EdmValue::DateTime(max.date_time()));
        }
        if let Some((table, last)) = &self.position {
            record.set("Table", EdmValue::Int64(table.number().cast_signed()));
            if let Some(last) = last {
                record.set_text("LastPartition", last.partition_key.as_str());
                record.set_text("LastRow", last.row_key.as_str());
            }
        }
        let operation = EntityOperation::Replace(record.into_entity(key())?, Precondition::None);
        put(store, TableId::UNFINISHED_COPY, operation, key(), now).await
    }

    pub(super) async fn remove(store: &dyn Store, now: Timestamp) -> Result<(), ServiceError> {
        let operation = EntityOperation::Delete(key().row_key, Precondition::Exists);
        match put(store, TableId::UNFINISHED_COPY, operation, key(), now).await {
            Err(ServiceError::Refused(DomainError::EntityNotFound)) => Ok(()),
            other => other,
        }
    }
}

/// Where the mark is.
pub(super) fn address() -> EntityAddress {
    EntityAddress { table: TableId::UNFINISHED_COPY, key: key() }
}

fn key() -> EntityKey {
    EntityKey::new(PartitionKey::new("copy").expect("a legal key"), row_key("state"))
}

/// Reads a mark, for the audit too.
pub(super) fn read(row: &Row) -> Result<CopyCheckpoint, StoreError> {
    use tavola_core::EntityView as _;
    let number = |name: &str| row.property(name).and_then(int64).map(i64::cast_unsigned);
    let last = match (
        row.property("LastPartition").and_then(text),
        row.property("LastRow").and_then(text),
    ) {
        (Some(partition_key), Some(row_key)) => Some(entity_key(partition_key, row_key)?),
        _ => None,
    };
    Ok(CopyCheckpoint {
        source: require(row, "Source", text)?.to_owned(),
        content: Digest {
            rows: require(row, "Rows", int64)?.cast_unsigned(),
            hash: require(row, "Hash", int64)?.cast_unsigned(),
        },
        position: number("Table").map(|table| (TableId::new(table), last)),
        versions_max: row.property("VersionsMax").and_then(date_time).map(Timestamp::new),
    })
}
