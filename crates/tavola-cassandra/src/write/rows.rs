//! The rows that a group must see before it can be planned, as they are at one moment.

use std::collections::HashMap;

use tavola_core::PartitionKey;
use tavola_store::keys::{decode_text, encode_text};
use tavola_store::{Row, StoreError};

use super::Writer;
use crate::cluster::{Cluster, Partition};
use crate::plan::needs_rows;
use crate::queue::PendingCommit;
use crate::stats::Kind;

/// Some rows of a partition, by the bytes of their RowKeys.
#[derive(Debug, Default)]
pub(crate) struct PartitionRows {
    pub(crate) rows: HashMap<Vec<u8>, Row>,
    /// Rows whose stored bytes are not what was written, and what is wrong with them. To read again
    /// would give the same.
    pub(crate) damaged: HashMap<Vec<u8>, String>,
}

impl PartitionRows {
    /// The first damage among them, if there is any.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damaged.values().next().map(String::as_str)
    }
}

impl Writer {
    /// All rows of those transactions that cannot be planned without them.
    pub(super) async fn read_rows(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        group: &[PendingCommit],
    ) -> Result<PartitionRows, String> {
        let keys: Vec<Vec<u8>> = group.iter().flat_map(keys_to_read).collect();
        if keys.is_empty() {
            return Ok(PartitionRows::default());
        }
        self.cluster.rows(partition_key.as_str(), partition, &keys).await
    }
}

impl Cluster {
    /// Some rows of a partition, linearizable.
    pub(crate) async fn rows(
        &self,
        partition_key: &str,
        partition: &Partition,
        keys: &[Vec<u8>],
    ) -> Result<PartitionRows, String> {
        let values = (partition.table, &partition.key[..], keys);
        let result = self.execute(Kind::Rows, &self.statements.get_some, values).await;
        let result = result.map_err(|error| error.to_string())?;
        let result = result.into_rows_result().map_err(|error| error.to_string())?;
        let mut read = PartitionRows::default();
        for row in result.rows::<(&[u8], &[u8])>().map_err(|error| error.to_string())? {
            let (key, document) = row.map_err(|error| error.to_string())?;
            let row =
                decode_text(key).and_then(|row_key| Row::new(partition_key, &row_key, document));
            match row {
                Ok(row) => drop(read.rows.insert(key.to_vec(), row)),
                Err(damage) => drop(read.damaged.insert(key.to_vec(), damage.to_string())),
            }
        }
        Ok(read)
    }
}

/// The keys of the rows that a transaction must see before it can be planned.
fn keys_to_read(pending: &PendingCommit) -> Vec<Vec<u8>> {
    if !needs_rows(&pending.transaction, pending.now) {
        return Vec::new();
    }
    let operations = pending.transaction.operations().iter();
    operations.map(|operation| encode_text(operation.row_key().as_str())).collect()
}

/// Answers the transactions that need a damaged row, and returns the others.
pub(super) fn answer_damaged(
    group: Vec<PendingCommit>,
    damaged: &HashMap<Vec<u8>, String>,
) -> Vec<PendingCommit> {
    if damaged.is_empty() {
        return group;
    }
    let mut left = Vec::with_capacity(group.len());
    for pending in group {
        match keys_to_read(&pending).iter().find_map(|key| damaged.get(key)) {
            Some(damage) => pending.answer(Err(StoreError::Corrupt(damage.clone()))),
            None => left.push(pending),
        }
    }
    left
}
