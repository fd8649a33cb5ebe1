//! Transactions that wait for their partition. One conditional batch is under way for each
//! partition at a time; the transactions that wait meanwhile share the next one, as far as they
//! write different rows.
//!
//! Two transactions that write the same row never share a batch, and the later one never overtakes.
//! A queue exists exactly while a leader drains it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tavola_core::limits::TRANSACTION_OPERATIONS_MAX;
use tavola_core::{EntityGroupTransaction, RowKey, Timestamp};
use tavola_store::{CommitResult, StoreError};
use tokio::sync::oneshot;

use crate::cluster::Partition;

const SHARDS: usize = 16;
/// Operations of one conditional batch: as many as of the largest transaction.
const OPERATIONS_MAX: usize = TRANSACTION_OPERATIONS_MAX;

/// A transaction that waits, and the channel to its caller.
#[derive(Debug)]
pub(crate) struct PendingCommit {
    pub(crate) transaction: EntityGroupTransaction,
    pub(crate) now: Timestamp,
    pub(crate) enqueued_at: Instant,
    pub(crate) reply: oneshot::Sender<Result<CommitResult, StoreError>>,
}

impl PendingCommit {
    fn row_keys(&self) -> impl Iterator<Item = &RowKey> {
        self.transaction.operations().iter().map(tavola_core::EntityOperation::row_key)
    }

    /// A caller that gave up dropped its receiver; the transaction is done all the same.
    pub(crate) fn answer(self, answer: Result<CommitResult, StoreError>) {
        let _gone = self.reply.send(answer);
    }
}

/// Answers all of them with the same error.
pub(crate) fn answer_all(group: Vec<PendingCommit>, error: impl Fn() -> StoreError) {
    for pending in group {
        pending.answer(Err(error()));
    }
}

/// What became of a transaction that came to a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Enqueued {
    /// It waits for the leader that the queue has.
    Following,
    /// There was no leader: the caller must start one.
    Leading,
    /// Too many transactions wait; it was not taken.
    Full,
}

/// The queues of all partitions that have a leader.
#[derive(Debug)]
pub(crate) struct Queues {
    shards: [Mutex<HashMap<Partition, VecDeque<PendingCommit>>>; SHARDS],
    hasher: RandomState,
    waiting_max: usize,
}

impl Queues {
    pub(crate) fn new(waiting_max: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, hasher: RandomState::new(), waiting_max }
    }

    pub(crate) fn enqueue_or_lead(
        &self,
        partition: &Partition,
        pending: PendingCommit,
    ) -> Enqueued {
        let mut shard = self.shard(partition);
        match shard.get_mut(partition) {
            Some(queue) if queue.len() >= self.waiting_max => Enqueued::Full,
            Some(queue) => {
                queue.push_back(pending);
                Enqueued::Following
            }
            None => {
                shard.insert(partition.clone(), VecDeque::from([pending]));
                Enqueued::Leading
            }
        }
    }

    /// Takes the next group. An empty queue is removed, which ends its leadership.
    fn take_group(&self, partition: &Partition) -> Option<Vec<PendingCommit>> {
        let mut shard = self.shard(partition);
        let queue = shard.get_mut(partition)?;
        let group = drain_group(queue);
        if group.is_empty() {
            shard.remove(partition);
            return None;
        }
        Some(group)
    }

    fn shard(
        &self,
        partition: &Partition,
    ) -> MutexGuard<'_, HashMap<Partition, VecDeque<PendingCommit>>> {
        let index = self.hasher.hash_one(partition) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first transaction, and all behind it that fit into one batch and write no row of a
/// transaction before them.
fn drain_group(queue: &mut VecDeque<PendingCommit>) -> Vec<PendingCommit> {
    if queue.len() <= 1 {
        return queue.drain(..).collect();
    }
    let mut group = Vec::new();
    let mut operations = 0;
    // Rows of the transactions that were taken, and of those that were passed over: a later
    // transaction must not overtake on one of its rows.
    let mut rows: HashSet<RowKey> = HashSet::new();
    let size = queue.len();
    let mut left = VecDeque::with_capacity(size);
    for pending in queue.drain(..) {
        let count = pending.transaction.operations().len();
        let fits = operations + count <= OPERATIONS_MAX
            && !pending.row_keys().any(|row| rows.contains(row));
        rows.extend(pending.row_keys().cloned());
        if fits {
            operations += count;
            group.push(pending);
        } else {
            left.push_back(pending);
        }
    }
    assert!(!group.is_empty(), "the first transaction always fits");
    assert_eq!(group.len() + left.len(), size, "no transaction is lost");
    *queue = left;
    group
}

/// The right to write a partition. A leader that panics drops it, which removes the queue, so that
/// no caller waits for ever.
#[derive(Debug)]
pub(crate) struct LeaderGuard {
    queues: Arc<Queues>,
    partition: Partition,
    ended: bool,
}

impl LeaderGuard {
    pub(crate) fn new(queues: Arc<Queues>, partition: Partition) -> Self {
        Self { queues, partition, ended: false }
    }

    /// The next group; `None` when nothing waits any more.
    pub(crate) fn take_group(&mut self) -> Option<Vec<PendingCommit>> {
        let group = self.queues.take_group(&self.partition);
        self.ended = group.is_none();
        group
    }
}

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        if !self.ended {
            // Callers read the end of their channels as an unknown outcome.
            self.queues.shard(&self.partition).remove(&self.partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tavola_core::{
        EntityGroupTransaction, EntityOperation, PartitionKey, Precondition, RowKey, TableId,
        Timestamp,
    };
    use tokio::sync::oneshot;

    use super::{Enqueued, LeaderGuard, PendingCommit, Queues};
    use crate::cluster::Partition;

    /// A transaction of deletes on these rows, one per letter.
    fn pending(rows: &str) -> PendingCommit {
        let delete = |row: char| {
            EntityOperation::Delete(RowKey::new(row.to_string()).unwrap(), Precondition::Exists)
        };
        let pairs =
            rows.chars().map(|row| (PartitionKey::new("p").unwrap(), delete(row))).collect();
        let transaction = EntityGroupTransaction::new(pairs).unwrap();
        PendingCommit {
            transaction,
            now: Timestamp::MIN,
            enqueued_at: Instant::now(),
            reply: oneshot::channel().0,
        }
    }

    fn rows(group: &[PendingCommit]) -> Vec<String> {
        group
            .iter()
            .map(|one| one.row_keys().map(|row| row.as_str().to_owned()).collect())
            .collect()
    }

    fn partition() -> Partition {
        Partition::new(TableId::new(1), &PartitionKey::new("p").unwrap())
    }

    #[test]
    fn different_rows_share_a_batch_and_none_overtakes() {
        let queues = Arc::new(Queues::new(10));
        assert_eq!(queues.enqueue_or_lead(&partition(), pending("a")), Enqueued::Leading);
        for next in ["b", "ac", "c", "d"] {
            assert_eq!(queues.enqueue_or_lead(&partition(), pending(next)), Enqueued::Following);
        }
        let mut leadership = LeaderGuard::new(Arc::clone(&queues), partition());
        // "ac" writes a row of "a"; "c" must not go before "ac".
        assert_eq!(rows(&leadership.take_group().unwrap()), ["a", "b", "d"]);
        assert_eq!(rows(&leadership.take_group().unwrap()), ["ac"]);
        assert_eq!(rows(&leadership.take_group().unwrap()), ["c"]);
        assert!(leadership.take_group().is_none());
        assert_eq!(
            queues.enqueue_or_lead(&partition(), pending("a")),
            Enqueued::Leading,
            "the leadership has ended"
        );
    }

    #[test]
    fn a_queue_is_bounded() {
        let queues = Queues::new(2);
        let enqueued: Vec<Enqueued> =
            (0..3).map(|_| queues.enqueue_or_lead(&partition(), pending("a"))).collect();
        assert_eq!(enqueued, [Enqueued::Leading, Enqueued::Following, Enqueued::Full]);
    }

    #[test]
    fn a_leader_that_panics_leaves_no_caller_waiting() {
        let queues = Arc::new(Queues::new(2));
        let (reply, mut answer) = oneshot::channel();
        queues.enqueue_or_lead(&partition(), PendingCommit { reply, ..pending("a") });
        drop(LeaderGuard::new(Arc::clone(&queues), partition()));
        assert!(answer.try_recv().is_err_and(|gone| gone == oneshot::error::TryRecvError::Closed));
        assert_eq!(queues.enqueue_or_lead(&partition(), pending("a")), Enqueued::Leading);
    }
}
