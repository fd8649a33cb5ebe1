//! What a commit does, once for all stores that read the rows of a transaction before they write.

use tavola_core::{
    Change, EntityGroupTransaction, EntityOperation, FailedOperation, Timestamp, decide,
};

use crate::encoding::Row;
use crate::error::StoreError;

/// The version of the next commit: above `last`, the highest that the store has given out, and not
/// below the clock.
///
/// # Errors
/// [`StoreError::Unavailable`] if there is none, because a clock once stood at the end of the year
/// 9999.
pub fn next_version(now: Timestamp, last: Timestamp) -> Result<Timestamp, StoreError> {
    let next = Timestamp::next_after(now, last);
    if next > last {
        return Ok(next);
    }
    let reason = "no version is left: the clock stands, or once stood, at the end of the year 9999"
        .to_owned();
    Err(StoreError::Unavailable { reason, source: None })
}

/// Decides every operation of a transaction on the rows that `read` finds: all changes, or the
/// first refusal. `read` is called in the order of operations, with the index of each that depends
/// on its row.
///
/// # Errors
/// What `read` fails with.
pub fn decide_all<'a>(
    transaction: &'a EntityGroupTransaction,
    version: Timestamp,
    mut read: impl FnMut(usize, &EntityOperation) -> Result<Option<Row>, StoreError>,
) -> Result<Result<Vec<Change<'a>>, FailedOperation>, StoreError> {
    let mut changes = Vec::with_capacity(transaction.operations().len());
    for (index, operation) in transaction.operations().iter().enumerate() {
        let current = if operation.depends_on_row() { read(index, operation)? } else { None };
        let current = current.as_ref().map(|row| row as _);
        match decide(transaction.partition_key(), operation, current, version) {
            Ok(change) => changes.push(change),
            Err(domain_error) => return Ok(Err(FailedOperation { index, domain_error })),
        }
    }
    Ok(Ok(changes))
}
