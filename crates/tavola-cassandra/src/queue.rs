//! Who waits for a partition. One conditional batch is under way for each at a time; those who wait
//! meanwhile share the next one, as far as they write different rows.

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

/// A transaction that waits, and who waits for it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) transaction: EntityGroupTransaction,
    pub(crate) now: Timestamp,
    pub(crate) arrived: Instant,
    pub(crate) reply: oneshot::Sender<Result<CommitResult, StoreError>>,
}

impl Waiting {
    fn row_keys(&self) -> impl Iterator<Item = &RowKey> {
        self.transaction.operations().iter().map(tavola_core::EntityOperation::row_key)
    }

    /// The service answered in time, or whoever asked has gone; neither changes anything.
    pub(crate) fn answer(self, answer: Result<CommitResult, StoreError>) {
        let _gone = self.reply.send(answer);
    }
}

/// Answers all of them with the same error.
pub(crate) fn answer_all(waiting: Vec<Waiting>, error: impl Fn() -> StoreError) {
    for one in waiting {
        one.answer(Err(error()));
    }
}

/// What became of somebody who came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Somebody leads already.
    Waits,
    /// Nobody does: whoever came must.
    Leads,
    /// Too many wait.
    Refused,
}

/// The queues of all partitions; each exists while somebody leads it.
#[derive(Debug)]
pub(crate) struct Queues {
    shards: [Mutex<HashMap<Partition, VecDeque<Waiting>>>; SHARDS],
    hasher: RandomState,
    waiting_max: usize,
}

impl Queues {
    pub(crate) fn new(waiting_max: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, hasher: RandomState::new(), waiting_max }
    }

    pub(crate) fn arrive(&self, partition: &Partition, waiting: Waiting) -> Arrival {
        let mut shard = self.shard(partition);
        match shard.get_mut(partition) {
            Some(queue) if queue.len() >= self.waiting_max => Arrival::Refused,
            Some(queue) => {
                queue.push_back(waiting);
                Arrival::Waits
            }
            None => {
                shard.insert(partition.clone(), VecDeque::from([waiting]));
                Arrival::Leads
            }
        }
    }

    /// Takes the next group; with nobody waiting the queue ends, and with it the leadership.
    fn take(&self, partition: &Partition) -> Option<Vec<Waiting>> {
        let mut shard = self.shard(partition);
        let queue = shard.get_mut(partition)?;
        let group = take_group(queue);
        if group.is_empty() {
            shard.remove(partition);
            return None;
        }
        Some(group)
    }

    fn shard(
        &self,
        partition: &Partition,
    ) -> MutexGuard<'_, HashMap<Partition, VecDeque<Waiting>>> {
        let index = self.hasher.hash_one(partition) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first who waits, and all behind it who fit into one batch and write rows that nobody before
/// them writes.
fn take_group(queue: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    if queue.len() <= 1 {
        return queue.drain(..).collect();
    }
    let mut group = Vec::new();
    let mut operations = 0;
    // Rows of those who were taken, and of those who were passed over: nobody may overtake on its
    // own rows.
    let mut rows: HashSet<RowKey> = HashSet::new();
    let mut left = VecDeque::with_capacity(queue.len());
    for waiting in queue.drain(..) {
        let count = waiting.transaction.operations().len();
        let fits = operations + count <= OPERATIONS_MAX
            && !waiting.row_keys().any(|row| rows.contains(row));
        rows.extend(waiting.row_keys().cloned());
        if fits {
            operations += count;
            group.push(waiting);
        } else {
            left.push_back(waiting);
        }
    }
    *queue = left;
    group
}

/// The right to write a partition. Whoever loses it by a panic leaves nobody waiting for ever.
#[derive(Debug)]
pub(crate) struct Leadership {
    queues: Arc<Queues>,
    partition: Partition,
    ended: bool,
}

impl Leadership {
    pub(crate) fn new(queues: Arc<Queues>, partition: Partition) -> Self {
        Self { queues, partition, ended: false }
    }

    pub(crate) fn take(&mut self) -> Option<Vec<Waiting>> {
        let group = self.queues.take(&self.partition);
        self.ended = group.is_none();
        group
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        if !self.ended {
            // Who waits is told that the outcome is unknown, by the end of its channel.
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

    use super::{Arrival, Leadership, Queues, Waiting};
    use crate::cluster::Partition;

    /// A transaction of deletes on these rows, one per letter.
    fn waiting(rows: &str) -> Waiting {
        let delete = |row: char| {
            EntityOperation::Delete(RowKey::new(row.to_string()).unwrap(), Precondition::Exists)
        };
        let pairs =
            rows.chars().map(|row| (PartitionKey::new("p").unwrap(), delete(row))).collect();
        let transaction = EntityGroupTransaction::new(pairs).unwrap();
        Waiting {
            transaction,
            now: Timestamp::MIN,
            arrived: Instant::now(),
            reply: oneshot::channel().0,
        }
    }

    fn rows(group: &[Waiting]) -> Vec<String> {
        group
            .iter()
            .map(|one| one.row_keys().map(|row| row.as_str().to_owned()).collect())
            .collect()
    }

    fn partition() -> Partition {
        Partition::new(TableId::new(1), &PartitionKey::new("p").unwrap())
    }

    #[test]
    fn different_rows_go_together_and_nobody_overtakes() {
        let queues = Arc::new(Queues::new(10));
        assert_eq!(queues.arrive(&partition(), waiting("a")), Arrival::Leads);
        for next in ["b", "ac", "c", "d"] {
            assert_eq!(queues.arrive(&partition(), waiting(next)), Arrival::Waits);
        }
        let mut leadership = Leadership::new(Arc::clone(&queues), partition());
        // "ac" meets "a"; "c" must not go before "ac".
        assert_eq!(rows(&leadership.take().unwrap()), ["a", "b", "d"]);
        assert_eq!(rows(&leadership.take().unwrap()), ["ac"]);
        assert_eq!(rows(&leadership.take().unwrap()), ["c"]);
        assert!(leadership.take().is_none());
        assert_eq!(
            queues.arrive(&partition(), waiting("a")),
            Arrival::Leads,
            "the leadership has ended"
        );
    }

    #[test]
    fn a_queue_is_bounded() {
        let queues = Queues::new(2);
        let arrivals: Vec<Arrival> =
            (0..3).map(|_| queues.arrive(&partition(), waiting("a"))).collect();
        assert_eq!(arrivals, [Arrival::Leads, Arrival::Waits, Arrival::Refused]);
    }

    #[test]
    fn a_leader_that_dies_leaves_nobody_waiting() {
        let queues = Arc::new(Queues::new(2));
        let (reply, mut answer) = oneshot::channel();
        queues.arrive(&partition(), Waiting { reply, ..waiting("a") });
        drop(Leadership::new(Arc::clone(&queues), partition()));
        assert!(answer.try_recv().is_err_and(|gone| gone == oneshot::error::TryRecvError::Closed));
        assert_eq!(queues.arrive(&partition(), waiting("a")), Arrival::Leads);
    }
}
