//! From operations to conditional statements: what a row must be for the statement to apply, and
//! what it becomes.
//!
//! Most operations do not read their row: the condition says what they assume. A merge reads it,
//! and so does an operation whose tag is no version; the condition then says that the row is
//! unchanged.

use std::collections::HashMap;

use tavola_core::{
    Change, EdmRef, EntityGroupTransaction, EntityOperation, EntityView, FailedOperation, Outcome,
    PartitionKey, Precondition, Text, Timestamp, decide,
};
use tavola_store::encoding::encode_value;
use tavola_store::keys::encode_text;
use tavola_store::{Row, StoreError};

/// What the row must be for a statement to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Anything, or absent.
    None,
    Absent,
    Present,
    At(u64),
}

impl Condition {
    /// True if a row at this version, or none, is what was assumed.
    pub(crate) fn holds(self, version: Option<u64>) -> bool {
        match self {
            Self::None => true,
            Self::Absent => version.is_none(),
            Self::Present => version.is_some(),
            Self::At(wanted) => version == Some(wanted),
        }
    }

    /// What an operation assumes of its row without reading it.
    fn of(operation: &EntityOperation) -> Self {
        match operation {
            EntityOperation::Insert(_) => Self::Absent,
            EntityOperation::Replace(_, wanted) | EntityOperation::Merge(_, wanted) => match wanted
            {
                Precondition::None => Self::None,
                Precondition::Exists => Self::Present,
                Precondition::Version(tag) => {
                    tag.version().map_or(Self::Absent, |version| Self::At(version.ticks()))
                }
            },
            // A delete always needs the entity.
            EntityOperation::Delete(_, Precondition::Version(tag)) => {
                tag.version().map_or(Self::Absent, |version| Self::At(version.ticks()))
            }
            EntityOperation::Delete(..) => Self::Present,
        }
    }
}

/// What one statement of a conditional batch does to its row.
#[derive(Debug)]
pub(crate) struct RowWrite {
    /// The RowKey's bytes.
    pub(crate) row: Vec<u8>,
    pub(crate) condition: Condition,
    /// What the row becomes; `None`: it is deleted.
    pub(crate) document: Option<Vec<u8>>,
    pub(crate) outcome: Outcome,
    /// It depends on a row that was read: if the condition fails, the row must be read again.
    pub(crate) depends_on_read: bool,
}

/// True if the operation cannot be planned without its row. `now` is the clock's: every version
/// that we propose is not below it, so a tag above it may name a row of a node whose clock is
/// ahead, and only the row itself shows it.
fn needs_row(operation: &EntityOperation, now: Timestamp) -> bool {
    match operation {
        EntityOperation::Merge(..) => true,
        EntityOperation::Replace(_, Precondition::Version(tag))
        | EntityOperation::Delete(_, Precondition::Version(tag)) => {
            tag.version().is_none_or(|version| version >= now)
        }
        _ => false,
    }
}

/// True if the transaction cannot be planned without its rows.
pub(crate) fn needs_rows(transaction: &EntityGroupTransaction, now: Timestamp) -> bool {
    transaction.operations().iter().any(|operation| needs_row(operation, now))
}

/// Plans a transaction on assumptions alone. It cannot be refused here: that is what the conditions
/// are for.
pub(crate) fn plan_blind(
    transaction: &EntityGroupTransaction,
    version: Timestamp,
) -> Result<Vec<RowWrite>, FailedOperation> {
    plan_each(transaction, version, |operation, _| {
        let condition = Condition::of(operation);
        let assumed = match condition {
            Condition::None | Condition::Absent => None,
            Condition::Present => Some(VersionOnly(Timestamp::MIN)),
            Condition::At(ticks) => Timestamp::from_ticks(ticks).map(VersionOnly),
        };
        let change = decide(
            transaction.partition_key(),
            operation,
            assumed.as_ref().map(|row| row as _),
            version,
        )?;
        Ok((condition, change, false))
    })
}

/// Plans a transaction on rows that were read, all at one moment. A refusal is exact: it is what
/// the domain says to those rows.
pub(crate) fn plan_on(
    transaction: &EntityGroupTransaction,
    version: Timestamp,
    now: Timestamp,
    rows: &HashMap<Vec<u8>, Row>,
) -> Result<Vec<RowWrite>, FailedOperation> {
    plan_each(transaction, version, |operation, row| {
        let current = rows.get(row);
        let change =
            decide(transaction.partition_key(), operation, current.map(|row| row as _), version)?;
        if !needs_row(operation, now) {
            return Ok((Condition::of(operation), change, false));
        }
        let seen = current.map_or(Condition::Absent, |row| Condition::At(row.timestamp().ticks()));
        Ok((seen, change, true))
    })
}

fn plan_each<'a>(
    transaction: &'a EntityGroupTransaction,
    version: Timestamp,
    mut one: impl FnMut(
        &'a EntityOperation,
        &[u8],
    ) -> Result<(Condition, Change<'a>, bool), tavola_core::DomainError>,
) -> Result<Vec<RowWrite>, FailedOperation> {
    let mut writes = Vec::with_capacity(transaction.operations().len());
    for (index, operation) in transaction.operations().iter().enumerate() {
        let row = encode_text(operation.row_key().as_str());
        let decided =
            one(operation, &row).map_err(|domain_error| FailedOperation { index, domain_error })?;
        let (condition, change, depends_on_read) = decided;
        let document = match &change {
            Change::Put { properties, .. } => Some(encode_value(properties, version)),
            Change::Delete => None,
        };
        writes.push(RowWrite {
            row,
            condition,
            document,
            outcome: change.outcome(),
            depends_on_read,
        });
    }
    Ok(writes)
}

/// What a refused batch means for one of its transactions.
#[derive(Debug, PartialEq)]
pub(crate) enum AfterRefusal {
    /// It was not the cause, or another write was faster: it goes again.
    Retry,
    /// The domain refuses it.
    Refused(FailedOperation),
}

/// Finds the first operation whose condition fails on the rows as they were when the batch was
/// refused.
pub(crate) fn evaluate(
    partition_key: &PartitionKey,
    transaction: &EntityGroupTransaction,
    writes: &[RowWrite],
    versions: &HashMap<Vec<u8>, u64>,
) -> Result<AfterRefusal, StoreError> {
    let failing = |write: &&RowWrite| !write.condition.holds(versions.get(&write.row).copied());
    if writes.iter().filter(failing).any(|write| write.depends_on_read) {
        return Ok(AfterRefusal::Retry);
    }
    let Some(index) = writes.iter().position(|write| failing(&write)) else {
        return Ok(AfterRefusal::Retry);
    };
    let stored = versions.get(&writes[index].row).copied();
    let current = stored.map(version_of).transpose()?.map(VersionOnly);
    // Only the refusal counts; a version is needed to ask for it.
    let next = version_of(stored.unwrap_or_default().saturating_add(1))?;
    let operation = &transaction.operations()[index];
    match decide(partition_key, operation, current.as_ref().map(|row| row as _), next) {
        Err(domain_error) => Ok(AfterRefusal::Refused(FailedOperation { index, domain_error })),
        Ok(_) => Ok(AfterRefusal::Retry),
    }
}

/// A version from its column.
pub(crate) fn version_of(ticks: u64) -> Result<Timestamp, StoreError> {
    Timestamp::from_ticks(ticks)
        .ok_or_else(|| StoreError::Corrupt(format!("{ticks} is no version")))
}

/// A row of which only the version is known, for decisions that need no more.
#[derive(Debug)]
struct VersionOnly(Timestamp);

impl EntityView for VersionOnly {
    fn partition_key(&self) -> Text<'_> {
        "".into()
    }

    fn row_key(&self) -> Text<'_> {
        "".into()
    }

    fn timestamp(&self) -> Timestamp {
        self.0
    }

    fn property(&self, _: &str) -> Option<EdmRef<'_>> {
        None
    }

    fn visit(&self, _: &mut dyn FnMut(Text<'_>, EdmRef<'_>)) {}
}

#[cfg(test)]
mod tests;
