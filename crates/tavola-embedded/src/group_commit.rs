//! One batch and one fsync for all who wait.
//!
//! Transactions wait in a queue. Two threads take turns as *leader*: the leader takes what waits, decides it, writes it
//! as one batch with one sync, hands leadership on, and only then wakes those who waited, so that the disk is busy
//! again while they are woken. Alone, a transaction waits for nothing but its own sync; under load groups fill
//! themselves while the disk works.
//!
//! Why the answers are right:
//!
//! - Only the leader writes, and the engine shows a write to readers after its sync (it writes the log, syncs it, then
//!   fills the memtable). So whatever is read from the engine is durable, and a group that changes nothing needs no sync.
//! - A transaction sees the changes of those before it in its group. They are not durable yet, but no answer of a
//!   group leaves before its sync.
//! - If the sync fails, nobody knows what is on disk: those who wrote get `UnknownOutcome`, and nothing more is
//!   acknowledged until the store is opened again.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rocksdb::WriteBatch;
use tavola_core::{Change, EntityGroupTransaction, TableId, Timestamp};
use tavola_store::decision::{decide_all, next_version};
use tavola_store::encoding::encode_value_into;
use tavola_store::keys::encode_key;
use tavola_store::{Row, StoreError, Verdict};
use tokio::sync::oneshot;

use crate::engine::last_version_entry;
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};
use crate::options::Options;
use crate::queue::{Bounds, Queue, QueueError, Weighed};
use crate::stats::{Counters, count};

/// Two: one leads while the other wakes.
const THREADS: usize = 2;
/// A group: large enough to keep a disk busy, small enough that its first transaction does not wait long.
const GROUP: Bounds = Bounds { count_max: 1024, bytes_max: 8 * 1024 * 1024 };

/// What a commit needs of the engine.
pub(crate) trait Journal: Send + Sync + 'static {
    /// The stored value under these key bytes, handed to `read` where it lies.
    fn value<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, StoreError>;
    /// Writes the batch, atomically and durably.
    fn write(&self, batch: WriteBatch) -> Result<(), StoreError>;
}

/// Rows that a purge removes.
#[derive(Debug)]
pub(crate) enum Erasure {
    Keys(Vec<Vec<u8>>),
    Range { start: Vec<u8>, end: Vec<u8> },
}

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

enum Job {
    Commit {
        table: TableId,
        transaction: EntityGroupTransaction,
        now: Timestamp,
        bytes: usize,
        answer: Answer<Verdict>,
    },
    Erase {
        erasure: Erasure,
        answer: Answer<()>,
    },
}

impl Weighed for Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Commit { bytes, .. } => *bytes,
            Self::Erase { erasure: Erasure::Keys(keys), .. } => keys.iter().map(Vec::len).sum(),
            Self::Erase { erasure: Erasure::Range { .. }, .. } => 0,
        }
    }
}

/// The queue and its threads.
#[derive(Debug)]
pub(crate) struct GroupCommit<J: Journal> {
    shared: Arc<Shared<J>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared<J> {
    journal: Arc<J>,
    counters: Arc<Counters>,
    queue: Queue<Job>,
    leader: Mutex<Leader>,
    /// Why nothing is acknowledged any more.
    broken: OnceLock<String>,
}

/// What only the leader touches.
struct Leader {
    /// The highest version ever given out, of all partitions.
    last_version: Timestamp,
}

impl<J: Journal> GroupCommit<J> {
    /// Starts the threads.
    pub(crate) fn start(
        journal: Arc<J>,
        counters: Arc<Counters>,
        last_version: Timestamp,
        options: &Options,
    ) -> std::io::Result<Self> {
        let bounds = Bounds { count_max: options.queue_transactions_max, bytes_max: options.queue_bytes_max };
        let shared = Arc::new(Shared {
            journal,
            counters,
            queue: Queue::new(bounds, GROUP),
            leader: Mutex::new(Leader { last_version }),
            broken: OnceLock::new(),
        });
        let spawn = |number| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("commit-{number}")).spawn(move || shared.run())
        };
        let threads = (0..THREADS).map(spawn).collect::<Result<_, _>>();
        // Without all threads the others must end too.
        let threads = threads.inspect_err(|_| shared.queue.close())?;
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Carries out one transaction. Dropping the future withdraws nothing: what is in the queue is done.
    pub(crate) async fn commit(
        &self,
        table: TableId,
        transaction: EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        self.health()?;
        let (answer, verdict) = oneshot::channel();
        let bytes = transaction_bytes(&transaction);
        let job = Job::Commit { table, transaction, now, bytes, answer };
        self.shared.queue.push(job).map_err(|error| self.refused(error))?;
        // A leader that vanished may have written before.
        verdict.await.unwrap_or(Err(StoreError::UnknownOutcome))
    }

    /// Removes rows of a table to which nobody writes any more. For blocking threads.
    pub(crate) fn erase(&self, erasure: Erasure) -> Result<(), StoreError> {
        self.health()?;
        let (answer, done) = oneshot::channel();
        self.shared.queue.push_always(Job::Erase { erasure, answer }).map_err(|error| self.refused(error))?;
        done.blocking_recv().unwrap_or(Err(StoreError::UnknownOutcome))
    }

    /// An error once the store has stopped acknowledging writes.
    pub(crate) fn health(&self) -> Result<(), StoreError> {
        self.shared.broken.get().map_or(Ok(()), |reason| Err(unavailable(reason)))
    }

    /// Finishes what waits, takes nothing more, and ends the threads.
    pub(crate) fn close(&self) {
        self.shared.queue.close();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // Panics of the work were caught; there is nothing else that could be reported here.
            let _ = thread.join();
        }
    }

    fn refused(&self, error: QueueError) -> StoreError {
        match error {
            QueueError::Full => {
                count(&self.shared.counters.contended, 1);
                StoreError::Contended
            }
            QueueError::Closed => unavailable("the store is closed"),
        }
    }
}

impl<J: Journal> Drop for GroupCommit<J> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<J: Journal> Shared<J> {
    /// The life of one thread.
    fn run(&self) {
        loop {
            let mut leader = self.lead();
            let Some(group) = self.queue.take_group() else { return };
            // Those who wait must get an answer whatever happens here: unwinding drops their senders.
            let decided = catch_unwind(AssertUnwindSafe(|| self.commit_group(&mut leader, group)));
            if decided.is_err() {
                self.fail("a commit panicked");
            }
            drop(leader);
            decided.into_iter().flatten().for_each(Decided::answer);
        }
    }

    fn lead(&self) -> MutexGuard<'_, Leader> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit_group(&self, leader: &mut Leader, group: Vec<Job>) -> Vec<Decided> {
        if let Some(reason) = self.broken.get() {
            return group.into_iter().map(|job| Decided::refuse(job, || unavailable(reason))).collect();
        }
        let mut draft = Draft::new(&*self.journal, leader.last_version, group.len());
        let mut decided: Vec<Decided> = group.into_iter().map(|job| draft.add(job)).collect();
        let (last_version, bytes) = (draft.last_version, draft.batch.size_in_bytes());
        match draft.write() {
            Ok(false) => {}
            Ok(true) => {
                leader.last_version = last_version;
                let writers = decided.iter().filter(|decided| decided.writes).count();
                self.counters.group_written(writers as u64, bytes);
            }
            Err(error) => {
                self.fail(&format!("a write failed: {error}"));
                decided.iter_mut().for_each(Decided::fail);
            }
        }
        decided.iter().for_each(|decided| decided.count(&self.counters));
        decided
    }

    fn fail(&self, what: &str) {
        let reason = format!("{what}; nothing is acknowledged until the store is opened again");
        tracing::error!(reason, "the store stops taking writes");
        // The first reason is the one to tell.
        let _ = self.broken.set(reason);
    }
}

/// A batch that grows by one transaction after another.
struct Draft<'a, J> {
    journal: &'a J,
    batch: WriteBatch,
    last_version: Timestamp,
    /// What earlier transactions of the group have changed, by key bytes. Later ones must see it, and the engine
    /// does not show it yet. `None` is a row that is gone.
    changed: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// A group of one has no later ones.
    is_alone: bool,
}

impl<'a, J: Journal> Draft<'a, J> {
    fn new(journal: &'a J, last_version: Timestamp, transactions: usize) -> Self {
        let changed = HashMap::new();
        Self { journal, batch: WriteBatch::default(), last_version, changed, is_alone: transactions == 1 }
    }

    fn add(&mut self, job: Job) -> Decided {
        match job {
            Job::Commit { table, transaction, now, answer, .. } => {
                let verdict = self.transact(table, &transaction, now);
                let writes = matches!(verdict, Ok(Ok(_)));
                Decided { reply: Reply::Commit(answer, verdict), writes }
            }
            Job::Erase { erasure, answer } => {
                self.erase(erasure);
                Decided { reply: Reply::Erase(answer, Ok(())), writes: true }
            }
        }
    }

    fn transact(
        &mut self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let version = next_version(now, self.last_version)?;
        let partition_key = transaction.partition_key();
        let changes = decide_all(transaction, version, |row_key| {
            let row = |value: &[u8]| Row::new(partition_key.as_str(), row_key.as_str(), value);
            self.value(&encode_key(table, partition_key, row_key), |value| value.map(row).transpose())?
        })?;
        let changes = match changes {
            Ok(changes) => changes,
            Err(failed) => return Ok(Err(failed)),
        };
        #[cfg(feature = "mutants")]
        if changes.len() > 1 && mutants::is(Mutant::SplitBatch) {
            self.write_first_half(table, transaction, &changes)?;
        }
        for (operation, change) in transaction.operations().iter().zip(&changes) {
            self.apply(encode_key(table, partition_key, operation.row_key()), change);
        }
        self.last_version = version;
        Ok(Ok(changes.iter().map(Change::outcome).collect()))
    }

    /// The whole follows with the group, as if nothing had been written yet.
    #[cfg(feature = "mutants")]
    fn write_first_half(
        &mut self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        changes: &[Change<'_>],
    ) -> Result<(), StoreError> {
        for (operation, change) in transaction.operations().iter().zip(changes).take(changes.len() / 2) {
            self.apply(encode_key(table, transaction.partition_key(), operation.row_key()), change);
        }
        self.journal.write(std::mem::take(&mut self.batch))?;
        mutants::pause_between_halves();
        Ok(())
    }

    fn value<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, StoreError> {
        match self.changed.get(key) {
            Some(changed) => Ok(read(changed.as_deref())),
            None => self.journal.value(key, read),
        }
    }

    fn apply(&mut self, key: Vec<u8>, change: &Change<'_>) {
        let value = match change {
            Change::Put { properties, timestamp } => {
                let mut value = Vec::new();
                encode_value_into(properties, *timestamp, &mut value);
                self.batch.put(&key, &value);
                Some(value)
            }
            Change::Delete => {
                self.batch.delete(&key);
                None
            }
        };
        if !self.is_alone {
            self.changed.insert(key, value);
        }
    }

    /// Nobody reads or writes these rows any more, so `changed` need not know.
    fn erase(&mut self, erasure: Erasure) {
        match erasure {
            Erasure::Keys(keys) => keys.iter().for_each(|key| self.batch.delete(key)),
            Erasure::Range { start, end } => self.batch.delete_range(start, end),
        }
    }

    /// True if there was something to write; it is on disk then.
    fn write(mut self) -> Result<bool, StoreError> {
        if self.batch.is_empty() {
            return Ok(false);
        }
        // In the same batch, so that versions go on after a restart even if the rows are gone and the clock went back.
        let (key, value) = last_version_entry(self.last_version);
        self.batch.put(key, value);
        self.journal.write(self.batch).map(|()| true)
    }
}

/// A job that was decided, with the answer that may leave once the group is on disk.
struct Decided {
    reply: Reply,
    writes: bool,
}

enum Reply {
    Commit(Answer<Verdict>, Result<Verdict, StoreError>),
    Erase(Answer<()>, Result<(), StoreError>),
}

impl Decided {
    fn refuse(job: Job, error: impl Fn() -> StoreError) -> Self {
        let reply = match job {
            Job::Commit { answer, .. } => Reply::Commit(answer, Err(error())),
            Job::Erase { answer, .. } => Reply::Erase(answer, Err(error())),
        };
        Self { reply, writes: false }
    }

    /// The group could not be written. Who wrote may find it on disk later; who only read may have read what is not.
    fn fail(&mut self) {
        let error = || if self.writes { StoreError::UnknownOutcome } else { unavailable("a write failed") };
        match &mut self.reply {
            Reply::Commit(_, verdict) if verdict.is_ok() => *verdict = Err(error()),
            Reply::Erase(_, done) => *done = Err(error()),
            Reply::Commit(..) => {}
        }
    }

    fn count(&self, counters: &Counters) {
        match &self.reply {
            Reply::Commit(_, Ok(Ok(_))) => count(&counters.commits, 1),
            Reply::Commit(_, Ok(Err(_))) => count(&counters.refusals, 1),
            _ => {}
        }
    }

    fn answer(self) {
        // Whoever asked may have gone; the work is done all the same.
        match self.reply {
            Reply::Commit(answer, verdict) => drop(answer.send(verdict)),
            Reply::Erase(answer, done) => drop(answer.send(done)),
        }
    }
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.to_owned(), source: None }
}

/// Bytes that a transaction takes in memory, about: what bounds the queue and a group.
fn transaction_bytes(transaction: &EntityGroupTransaction) -> usize {
    use tavola_core::{EdmRef, EntityOperation, Properties};
    let property = |(name, value): (&str, EdmRef<'_>)| {
        64 + name.len()
            + match value {
                EdmRef::String(text) => text.len(),
                EdmRef::Binary(bytes) => bytes.len(),
                _ => 0,
            }
    };
    let properties = |properties: &Properties| properties.iter().map(property).sum::<usize>();
    let operation = |operation: &EntityOperation| {
        let payload = match operation {
            EntityOperation::Insert(new) | EntityOperation::Replace(new, _) | EntityOperation::Merge(new, _) => {
                properties(new.properties())
            }
            EntityOperation::Delete(..) => 0,
        };
        128 + operation.row_key().as_str().len() + payload
    };
    transaction.partition_key().as_str().len() + transaction.operations().iter().map(operation).sum::<usize>()
}

impl<J> std::fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("broken", &self.broken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
