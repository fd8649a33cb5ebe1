//! Defects on purpose, each a mistake that a store like this one could have. The history checker of
//! `tavola-torture` must report every one of them, which shows that its silence about the real
//! store means something.
//!
//! Compiled only with the feature `mutants`, which nothing turns on but `cargo xtask torture`;
//! chosen by the variable `TAVOLA_MUTANT`. Without the variable such a build is the real store.

#[cfg(not(debug_assertions))]
compile_error!("the feature `mutants` is for tests: no release build may have it");

use std::sync::OnceLock;
use std::time::Duration;

use rocksdb::{Options, WriteOptions};
use tavola_core::{
    DateTime, EntityGroupTransaction, EntityOperation, FailedOperation, Precondition, TableId,
    Timestamp,
};
use tavola_store::decision::decide_all;
use tavola_store::keys::encode_key;
use tavola_store::{Row, StoreError};

use crate::engine::Engine;

const VARIABLE: &str = "TAVOLA_MUTANT";

/// Long enough for a reader to come between the halves of a batch.
const BETWEEN_HALVES: Duration = Duration::from_millis(2);

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Writes are acknowledged when they are in memory; the sync comes with the next group. Only
    /// a kill shows it.
    AckBeforeSync,
    /// `If-Match` is checked on rows that were read before the commit. Only a race shows it.
    EtagOutsideCommit,
    /// A batch is written in two halves. Only a read in between, or a kill there, shows it.
    SplitBatch,
}

/// True if this is the defect to have.
pub(crate) fn is(mutant: Mutant) -> bool {
    static CHOSEN: OnceLock<Option<Mutant>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Ok("ack-before-sync") => Some(Mutant::AckBeforeSync),
        Ok("etag-outside-commit") => Some(Mutant::EtagOutsideCommit),
        Ok("split-batch") => Some(Mutant::SplitBatch),
        Ok(unknown) => panic!("{VARIABLE}={unknown} is no mutant"),
        Err(_) => None,
    });
    *chosen == Some(mutant)
}

/// The log stays in the memory of the process until `flush_wal`.
pub(crate) fn log_in_memory(options: &mut Options) {
    options.set_manual_wal_flush(true);
}

/// A write that is on disk only after the next one.
pub(crate) fn write_late(
    engine: &Engine,
    batch: rocksdb::WriteBatch,
) -> Result<(), rocksdb::Error> {
    engine.db.flush_wal(true)?;
    let mut unsynced = WriteOptions::default();
    unsynced.set_sync(false);
    engine.db.write_opt(batch, &unsynced)
}

/// Checks the conditions of a transaction now and gives it back without them.
pub(crate) fn check_early(
    engine: &Engine,
    table: TableId,
    transaction: &EntityGroupTransaction,
) -> Result<Result<EntityGroupTransaction, FailedOperation>, StoreError> {
    let partition_key = transaction.partition_key();
    let decided = decide_all(transaction, Timestamp::new(DateTime::MAX), |_, operation| {
        let row_key = operation.row_key();
        let value = engine.get(&encode_key(table, partition_key, row_key))?;
        value.map(|value| Row::new(partition_key.as_str(), row_key.as_str(), &value)).transpose()
    })?;
    Ok(decided.and_then(|_| {
        let operations = transaction.operations().iter().cloned();
        EntityGroupTransaction::new(
            operations.map(|one| (partition_key.clone(), unconditional(one))).collect(),
        )
    }))
}

fn unconditional(operation: EntityOperation) -> EntityOperation {
    match operation {
        EntityOperation::Replace(new, _) => EntityOperation::Replace(new, Precondition::None),
        EntityOperation::Merge(new, _) => EntityOperation::Merge(new, Precondition::None),
        EntityOperation::Delete(row_key, _) => {
            EntityOperation::Delete(row_key, Precondition::Exists)
        }
        insert @ EntityOperation::Insert(_) => insert,
    }
}

/// Lets readers see what was written so far.
pub(crate) fn pause_between_halves() {
    std::thread::sleep(BETWEEN_HALVES);
}
