//! Rows of another store, written as they are.

use tavola_core::{EntityView, TableId, Timestamp};
use tavola_store::import::is_missing;
use tavola_store::keys::encode_key;
use tavola_store::{ImportError, Row, StoreError};
use tokio::sync::oneshot;

use super::GroupCommit;
use super::draft::Draft;
use super::job::Job;
use super::journal::Journal;

impl<J: Journal> GroupCommit<J> {
    /// Writes those of the rows that are missing, in one batch.
    pub(crate) async fn import(&self, table: TableId, rows: Vec<Row>) -> Result<(), ImportError> {
        self.refuse_if_broken()?;
        let (answer, done) = oneshot::channel();
        self.shared
            .queue
            .enqueue(Job::Import { table, rows, answer })
            .map_err(|error| self.refused(error))?;
        // A leader that panicked may have written first.
        done.await.unwrap_or(Err(StoreError::UnknownOutcome.into()))
    }
}

impl<J: Journal> Draft<'_, J> {
    /// Adds all rows that are missing, or none if another row is stored under one of their keys.
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
            // The next commit's version is above those of the imported rows.
            self.last_version = Timestamp::max(self.last_version, row.timestamp());
            self.changed.insert(key, Some(row.value().to_vec()));
        }
        Ok(())
    }
}
