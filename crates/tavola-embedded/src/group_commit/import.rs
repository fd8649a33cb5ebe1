//! Rows of another store, written as they are.

use tavola_core::{EntityView, TableId, Timestamp};
use tavola_store::import::is_missing;
use tavola_store::keys::encode_key;
use tavola_store::{ImportError, Row, StoreError};
use tokio::sync::oneshot;

use super::draft::Draft;
use super::{GroupCommit, Job, Journal};

impl<J: Journal> GroupCommit<J> {
    /// Writes those of the rows that are missing, together.
    pub(crate) async fn import(&self, table: TableId, rows: Vec<Row>) -> Result<(), ImportError> {
        self.refuse_if_broken()?;
        let (answer, done) = oneshot::channel();
        self.shared
            .queue
            .enqueue(Job::Import { table, rows, answer })
            .map_err(|error| self.refused(error))?;
        // A leader that vanished may have written before.
        done.await.unwrap_or(Err(StoreError::UnknownOutcome.into()))
    }
}

impl<J: Journal> Draft<'_, J> {
    /// All rows that are missing, or none if one is in the way of another.
    pub(super) fn import(&mut self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        let mut missing = Vec::new();
        for row in rows {
            let key = row.key()?;
            let key = encode_key(table, &key.partition_key, &key.row_key);
            if self.value(&key, |current| is_missing(row, current))?? {
                missing.push((key, row));
            }
        }
        for (key, row) in missing {
            self.batch.put(&key, row.value());
            // The next commit's version is above those that were brought.
            self.last_version = Timestamp::max(self.last_version, row.timestamp());
            self.changed.insert(key, Some(row.value().to_vec()));
        }
        Ok(())
    }
}
