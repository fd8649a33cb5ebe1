//! What is left of a resource once it is deleted: a row `d:{id}` until the rows of its table are
//! reclaimed, whatever kind of resource it was.

use tavola_core::{
    AccountName, DomainError, EdmValue, EntityKey, EntityOperation, Precondition, RowKey, TableId,
    Timestamp,
};
use tavola_store::{Row, StoreError};

use crate::error::ServiceError;
use crate::record::{Record, int64, partition_key, require, row_key};
use crate::system_rows::SystemRows;

/// Where dropped tables are; what follows is the id.
pub(crate) const DROPPED_PREFIX: &str = "d:";

pub(crate) fn dropped_row_key(id: TableId) -> RowKey {
    row_key(format!("{DROPPED_PREFIX}{:016x}", id.number()))
}

/// Notes that a table was dropped. When is for people: the time of day may be set at any time.
pub(super) fn drop_operation(
    account: &AccountName,
    id: TableId,
    now: Timestamp,
) -> Result<EntityOperation, DomainError> {
    let mut record = Record::default();
    record.set("Id", EdmValue::Int64(id.number() as i64));
    record.set("DroppedAt", EdmValue::DateTime(now.date_time()));
    let key = EntityKey::new(partition_key(account), dropped_row_key(id));
    Ok(EntityOperation::Insert(record.into_entity(key)?))
}

/// Reads a dropped table's row.
pub(crate) fn read_dropped(row: &Row) -> Result<TableId, StoreError> {
    require(row, "Id", int64).map(|id| TableId::new(id as u64))
}

/// Forgets dropped tables whose rows are gone, as many as one transaction takes.
pub(crate) async fn forget(
    rows: &SystemRows,
    account: &AccountName,
    ids: &[TableId],
) -> Result<(), ServiceError> {
    let delete = |id: &TableId| EntityOperation::Delete(dropped_row_key(*id), Precondition::Exists);
    let partition_key = partition_key(account);
    if ids.is_empty() {
        return Ok(());
    }
    match rows.commit(&partition_key, ids.iter().map(delete).collect()).await? {
        Ok(_) => return Ok(()),
        // Another process was faster with one of them: then each on its own.
        Err(failed) if failed.domain_error == DomainError::EntityNotFound => {}
        Err(failed) => return Err(failed.domain_error.into()),
    }
    if ids.len() == 1 {
        return Ok(());
    }
    for id in ids {
        match rows.commit(&partition_key, vec![delete(id)]).await? {
            Ok(_) => {}
            Err(failed) if failed.domain_error == DomainError::EntityNotFound => {}
            Err(failed) => return Err(failed.domain_error.into()),
        }
    }
    Ok(())
}
