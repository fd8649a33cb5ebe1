//! Writes rows of another store as they are: conditional batches on rows that must not exist.
//!
//! Each batch has the guard of an ordinary write, so that the partition is registered, its highest
//! version is not below any that was imported, and the cluster refuses an attempt that comes late.
//! No fence is needed: whatever became of an attempt, the next one finds the same rows, or writes
//! them.

use std::time::Instant;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use tavola_core::limits::TRANSACTION_OPERATIONS_MAX;
use tavola_core::{EntityView, Outcome, TableId, Timestamp};
use tavola_store::import::{by_partition, is_missing};
use tavola_store::keys::encode_text;
use tavola_store::{Import, ImportError, Row, StoreError};

use crate::cluster::Partition;
use crate::error::{Failure, unavailable};
use crate::hints::Hint;
use crate::plan::{Condition, RowWrite, version_of};
use crate::registration::Registration;
use crate::reply::Reply;
use crate::stats::count;
use crate::store::CassandraStore;
use crate::write::{Attempt, BATCH_BYTES_MAX, Writer, pause};

/// Partitions that are written at the same time.
const PARTITIONS_AT_ONCE: usize = 32;

#[async_trait]
impl Import for CassandraStore {
    async fn import(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        let writer = self.writer();
        let partitions: Vec<_> =
            by_partition(rows).map(|rows| writer.import_partition(table, rows)).collect();
        stream::iter(partitions).buffer_unordered(PARTITIONS_AT_ONCE).try_collect().await
    }
}

/// A row of the other store, and its write to this one.
struct ImportedRow<'a> {
    row: &'a Row,
    write: RowWrite,
}

impl<'a> ImportedRow<'a> {
    fn new(row: &'a Row) -> Self {
        let write = RowWrite {
            row: encode_text(row.row_key().as_str()),
            condition: Condition::Absent,
            document: Some(row.value().to_vec()),
            outcome: Outcome::Written(row.timestamp()),
            depends_on_read: false,
        };
        Self { row, write }
    }
}

impl Writer {
    async fn import_partition(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        let Some(first) = rows.first() else { return Ok(()) };
        let partition = Partition::new(table, &first.key()?.partition_key);
        for batch in batches(rows) {
            self.import_batch(&partition, batch).await?;
        }
        Ok(())
    }

    /// Tries until the rows are stored, or time is over.
    async fn import_batch(&self, partition: &Partition, rows: &[Row]) -> Result<(), ImportError> {
        let deadline = Instant::now() + self.answer_time;
        let mut missing: Vec<ImportedRow<'_>> = rows.iter().map(ImportedRow::new).collect();
        for round in 0u32.. {
            let failure = match self.try_import(partition, &mut missing).await? {
                Ok(()) if missing.is_empty() => return Ok(()),
                Ok(()) => None,
                Err(failure) => Some(failure),
            };
            if Instant::now() >= deadline {
                return Err(match failure {
                    None => StoreError::Contended,
                    Some(Failure::NotDone(reason)) => unavailable(reason),
                    Some(Failure::Unknown(_)) => StoreError::UnknownOutcome,
                }
                .into());
            }
            tokio::time::sleep(pause(round)).await;
        }
        Ok(())
    }

    /// One attempt. `missing` keeps the rows that are not known to be stored.
    async fn try_import(
        &self,
        partition: &Partition,
        missing: &mut Vec<ImportedRow<'_>>,
    ) -> Result<Result<(), Failure>, ImportError> {
        // Most imported partitions were never written here.
        let hint = self
            .hints
            .get(partition)
            .unwrap_or(Hint { registration: Registration::New, version: 0 });
        let attempt = attempt(hint, missing)?;
        let generation = hint.registration.generation();
        if !hint.registration.is_active()
            && let Err(reason) = self.cluster.enter(partition, self.slots, generation).await
        {
            return Ok(Err(Failure::NotDone(reason)));
        }
        count(&self.cluster.counters.attempts, 1);
        let writes = missing.iter().map(|imported| (imported.row.timestamp(), &imported.write));
        match self.cluster.send(partition, &attempt, writes).await {
            Ok(Reply::Applied) => {
                let registration = hint.registration.after_write();
                self.hints.set(partition, Hint { registration, version: attempt.last.ticks() });
                missing.clear();
                Ok(Ok(()))
            }
            Ok(Reply::Refused(refused)) => {
                count(&self.cluster.counters.attempts_refused, 1);
                let registration = Registration::of(refused.generation);
                self.hints.set(
                    partition,
                    Hint { registration, version: refused.version.unwrap_or_default() },
                );
                self.retain_missing(partition, missing).await
            }
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Reads the rows, and keeps those that are missing.
    async fn retain_missing(
        &self,
        partition: &Partition,
        missing: &mut Vec<ImportedRow<'_>>,
    ) -> Result<Result<(), Failure>, ImportError> {
        let keys: Vec<Vec<u8>> =
            missing.iter().map(|imported| imported.write.row.clone()).collect();
        let current = match self.cluster.rows("", partition, &keys).await {
            Ok(read) => read,
            Err(reason) => return Ok(Err(Failure::NotDone(reason))),
        };
        if let Some(damage) = current.damage() {
            return Err(StoreError::Corrupt(damage.to_owned()).into());
        }
        let mut left = Vec::new();
        for imported in missing.drain(..) {
            if is_missing(imported.row, current.rows.get(&imported.write.row).map(Row::value))? {
                left.push(imported);
            }
        }
        *missing = left;
        Ok(Ok(()))
    }
}

/// The guard: the partition's highest version becomes at least that of the rows, and one that it
/// did not have.
fn attempt(hint: Hint, rows: &[ImportedRow<'_>]) -> Result<Attempt, StoreError> {
    let highest =
        rows.iter().map(|imported| imported.row.timestamp()).max().unwrap_or(Timestamp::MIN);
    let last = highest.max(version_of(hint.version.saturating_add(1))?);
    Ok(Attempt::without_members(hint.registration, last))
}

/// Rows of one partition, as many as fit into a batch.
fn batches(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |row: &&Row| {
            bytes += row.size_bytes();
            bytes <= BATCH_BYTES_MAX
        };
        let count = rest.iter().take(TRANSACTION_OPERATIONS_MAX).take_while(fits).count().max(1);
        let (batch, after) = rest.split_at_checked(count)?;
        rest = after;
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use tavola_core::{EdmValue, PartitionKey, Properties, PropertyName, RowKey, Timestamp};
    use tavola_store::Row;

    use super::{BATCH_BYTES_MAX, batches};

    fn row(bytes: usize) -> Row {
        let value = EdmValue::Binary(vec![0; bytes]);
        let properties = Properties::new(vec![(PropertyName::new("B").unwrap(), value)]).unwrap();
        Row::encode(
            &PartitionKey::new("p").unwrap(),
            &RowKey::new("r").unwrap(),
            &properties,
            Timestamp::MIN,
        )
    }

    fn lengths(rows: &[Row]) -> Vec<usize> {
        batches(rows).map(<[Row]>::len).collect()
    }

    #[test]
    fn batches_are_bounded_by_rows_and_bytes() {
        assert_eq!(lengths(&[]), [0usize; 0]);
        assert_eq!(lengths(&vec![row(1); 250]), [100, 100, 50]);
        let large = row(60_000);
        let each = BATCH_BYTES_MAX / large.size_bytes();
        assert_eq!(lengths(&vec![large; each + 3]), [each, 3]);
    }
}
