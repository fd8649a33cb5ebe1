//! Taking rows over from another store, as they are.

use async_trait::async_trait;
use tavola_core::{EntityKey, EntityView, TableId};

use crate::encoding::Row;
use crate::error::StoreError;
use crate::store::Store;

/// A store that rows of another can be moved into, with the versions that they have.
///
/// # What an import guarantees
///
/// - **Nothing is overwritten.** Where a row is stored, it must be the very row that is imported;
///   otherwise the import is refused. So it can be repeated after any failure, and only what is
///   missing is written.
/// - **Durable** when it returns.
/// - **Versions go on.** Later commits to the partitions of the rows get versions above those that
///   were imported.
///
/// It is no transaction: after a failure any part of the rows may be there. Nothing else may write
/// to the table meanwhile.
#[async_trait]
pub trait Import: Store {
    /// Writes those of the rows that are missing. Each key occurs once among them.
    async fn import(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError>;
}

/// Why rows could not be taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Another row is stored there.
    #[error("another entity stands at PartitionKey {:?}, RowKey {:?}", .0.partition_key.as_str(), .0.row_key.as_str())]
    Occupied(EntityKey),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is to be done about a row where `current` is stored under its key: true if it must be
/// written.
///
/// # Errors
/// [`ImportError::Occupied`] if it is another.
pub fn is_missing(row: &Row, current: Option<&[u8]>) -> Result<bool, ImportError> {
    match current {
        None => Ok(true),
        // The value holds the version too.
        Some(value) if value == row.value() => Ok(false),
        Some(_) => Err(ImportError::Occupied(row.key()?)),
    }
}

/// Rows one after another that are of the same partition.
pub fn by_partition(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|one, other| one.partition_key() == other.partition_key())
}
