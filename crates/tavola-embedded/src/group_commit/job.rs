//! What waits in the queue: what it does, how much memory it takes, and whether a disk that is
//! nearly full takes it.

use tavola_core::{EntityGroupTransaction, EntityOperation, TableId, Timestamp};
use tavola_store::keys::encode_key;
use tavola_store::{CommitResult, ImportError, Row, StoreError};
use tokio::sync::oneshot;

use super::journal::RangeDelete;
use crate::disk_space::FreeSpace;
use crate::queue::MemSize;

pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A transaction that waits.
pub(super) struct Commit {
    table: TableId,
    pub(super) transaction: EntityGroupTransaction,
    /// The key bytes of each operation.
    pub(super) keys: Vec<Vec<u8>>,
    /// For each operation: its row is known not to exist. Shorter than `keys` if nothing is known
    /// about the rest.
    pub(super) is_absent: Vec<bool>,
    pub(super) now: Timestamp,
    bytes: usize,
    pub(super) answer: Answer<CommitResult>,
}

impl Commit {
    pub(super) fn new(
        table: TableId,
        transaction: EntityGroupTransaction,
        now: Timestamp,
        answer: Answer<CommitResult>,
    ) -> Self {
        let bytes = transaction_bytes(&transaction);
        let key = |operation: &EntityOperation| {
            encode_key(table, transaction.partition_key(), operation.row_key())
        };
        let keys = transaction.operations().iter().map(key).collect();
        Self { table, transaction, keys, is_absent: Vec::new(), now, bytes, answer }
    }
}

pub(super) enum Job {
    Commit(Commit),
    Delete {
        deletion: RangeDelete,
        answer: Answer<()>,
    },
    Import {
        table: TableId,
        rows: Vec<Row>,
        answer: oneshot::Sender<Result<(), ImportError>>,
    },
    /// A write that changes nothing, to find out whether the engine writes.
    Probe,
}

impl Job {
    pub(super) fn as_commit(&mut self) -> Option<&mut Commit> {
        match self {
            Self::Commit(commit) => Some(commit),
            Self::Delete { .. } | Self::Import { .. } | Self::Probe => None,
        }
    }

    pub(super) fn fits(&self, free_space: FreeSpace) -> bool {
        match free_space {
            FreeSpace::Enough => true,
            FreeSpace::OnlyToShrink => self.frees_space(),
            FreeSpace::Exhausted => matches!(self, Self::Probe),
        }
    }

    /// Dropping a table deletes its row of the catalogue, inserts a smaller one, and frees the
    /// table's space. Other writes to system tables, such as the creation of a table, count like
    /// writes of entities.
    fn frees_space(&self) -> bool {
        match self {
            Self::Commit(Commit { table, transaction, .. }) => {
                let is_deletion = |operation| matches!(operation, &EntityOperation::Delete(..));
                match table.number() < TableId::FIRST_USER {
                    true => transaction.operations().iter().any(is_deletion),
                    false => transaction.operations().iter().all(is_deletion),
                }
            }
            Self::Delete { .. } | Self::Probe => true,
            Self::Import { .. } => false,
        }
    }
}

impl MemSize for Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Commit(commit) => commit.bytes,
            Self::Delete { deletion: RangeDelete::Keys(keys), .. } => {
                keys.iter().map(Vec::len).sum()
            }
            Self::Import { rows, .. } => rows.iter().map(Row::size_bytes).sum(),
            Self::Delete { deletion: RangeDelete::Range { .. }, .. } | Self::Probe => 0,
        }
    }
}

/// About how many bytes a transaction takes in memory. This bounds the queue and a group.
fn transaction_bytes(transaction: &EntityGroupTransaction) -> usize {
    use tavola_core::{EdmRef, Properties};
    let property = |(name, value): (&str, EdmRef<'_>)| {
        64 + name.len()
            + match value {
                EdmRef::String(text) => text.as_bytes().len(),
                EdmRef::Binary(bytes) => bytes.len(),
                _ => 0,
            }
    };
    let properties = |properties: &Properties| properties.iter().map(property).sum::<usize>();
    let operation = |operation: &EntityOperation| {
        let payload = match operation {
            EntityOperation::Insert(new)
            | EntityOperation::Replace(new, _)
            | EntityOperation::Merge(new, _) => properties(new.properties()),
            EntityOperation::Delete(..) => 0,
        };
        128 + operation.row_key().as_str().len() + payload
    };
    transaction.partition_key().as_str().len()
        + transaction.operations().iter().map(operation).sum::<usize>()
}
