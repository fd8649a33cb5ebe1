//! One batch and one fsync for all who wait.
//!
//! Transactions wait in a queue. Two threads take turns as *leader*: the leader takes what waits,
//! decides it, writes it as one batch with one sync, hands leadership on, and only then wakes those
//! who waited, so that the disk is busy again while they are woken. Alone, a transaction waits for
//! nothing but its own sync, and is not even handed over to these threads: who comes when nobody
//! else does leads itself. Under load groups fill themselves while the disk works.
//!
//! Why the answers are right:
//!
//! - Only the leader writes, and the engine shows a write to readers after its sync (it writes the
//!   log, syncs it, then fills the memtable). So whatever is read from the engine is durable, and a
//!   group that changes nothing needs no sync.
//! - A transaction sees the changes of those before it in its group. They are not durable yet, but
//!   no answer of a group leaves before its sync.
//! - If the sync fails, nobody knows what is on disk: those who wrote get `UnknownOutcome`, and
//!   nothing more is acknowledged until the store is opened again.
//! - Only a full disk is a trouble that ends. The engine then stops by itself, and recovers by
//!   writing its memory to new files and beginning a new log, so that nothing of the failed write
//!   remains in use. A write of ours that succeeds proves that it has; until then nothing is
//!   acknowledged. An engine that fails to recover although there is room must be opened again.

mod draft;
mod import;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use draft::{Draft, probe_insert_keys};
use rocksdb::WriteBatch;
use tavola_core::{EntityGroupTransaction, EntityOperation, TableId, Timestamp};
use tavola_store::keys::encode_key;
use tavola_store::{CommitResult, ImportError, Row, StoreError};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::disk_space::FreeSpace;
use crate::options::Options;
use crate::queue::{Bounds, Enqueued, LeaderGuard, MemSize, Queue, QueueError};
use crate::stats::{Counters, count};
use crate::write_halt::{HaltState, WriteHalt};

/// Two: one leads while the other wakes.
const THREADS: usize = 2;
/// A group: large enough to keep a disk busy, small enough that its first transaction does not wait
/// long.
pub(crate) const GROUP: Bounds = Bounds { count_max: 1024, bytes_max: 8 * 1024 * 1024 };

/// More answers than these take longer than it takes to wake the other thread, and somebody may
/// come meanwhile.
const ANSWERED_WHILE_LEADING_MAX: usize = 4;

/// An engine that met the end of the disk looks for room every five seconds. One that has not
/// recovered after this time with room met something worse on its way, and has given up.
const ENGINE_RECOVERY: Duration = Duration::from_secs(15);

/// Between two questions to the engine about its own failures, unless somebody probes.
const ERRORS_INTERVAL: Duration = Duration::from_millis(100);

/// Between two questions about the room of a disk that has some.
const FREE_SPACE_INTERVAL: Duration = Duration::from_millis(10);

/// Between two lines in the log that say that the disk is full.
const FULL_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What a commit needs of the engine.
pub(crate) trait Journal: Send + Sync + 'static {
    /// The stored value under these key bytes, handed to `read` where it lies.
    fn value<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, StoreError>;
    /// Which of these keys surely have no value, looked for together.
    fn absent(&self, keys: &[&[u8]]) -> Vec<bool>;
    /// Writes the batch, atomically and durably. It changes these rows, and may erase others that
    /// nobody reads.
    fn write(&self, batch: WriteBatch, changed: &Changed) -> Result<(), WriteError>;
    /// Writes that returned are answered next. Puts down how far they go.
    fn note_synced(&self);
    /// What the disk has room for.
    fn free_space(&self) -> FreeSpace;
    /// The same in words, if it has none.
    fn describe_free_space(&self) -> String;
    /// True if the disk has room for an engine that met its end to recover.
    fn has_space_to_recover(&self) -> bool;
    /// Which file is damaged and what to do about it, if one is.
    fn damage(&self) -> Option<String>;
    /// How often the engine failed in work of its own; only a write tells whether that hurts.
    fn background_errors(&self) -> u64;
}

/// What a batch does to rows, by key bytes. `None` is a row that is gone.
pub(crate) type Changed = HashMap<Vec<u8>, Option<Vec<u8>>>;

/// Why a batch was not written, or why nobody knows whether it was.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The disk is full. The engine recovers from this by itself.
    NoSpace(String),
    Failed(String),
}

/// Rows that a purge removes.
#[derive(Debug)]
pub(crate) enum RangeDelete {
    Keys(Vec<Vec<u8>>),
    Range { start: Vec<u8>, end: Vec<u8> },
}

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A transaction that waits.
struct Commit {
    table: TableId,
    transaction: EntityGroupTransaction,
    /// Of each operation.
    keys: Vec<Vec<u8>>,
    /// Of each operation: its row is known not to exist. Nothing is known of those beyond the end.
    is_absent: Vec<bool>,
    now: Timestamp,
    bytes: usize,
    answer: Answer<CommitResult>,
}

enum Job {
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
    /// A write that changes nothing, to see whether the engine writes.
    Probe,
}

impl Job {
    fn as_commit(&mut self) -> Option<&mut Commit> {
        match self {
            Self::Commit(commit) => Some(commit),
            Self::Delete { .. } | Self::Import { .. } | Self::Probe => None,
        }
    }

    fn fits(&self, free_space: FreeSpace) -> bool {
        match free_space {
            FreeSpace::Enough => true,
            FreeSpace::OnlyToShrink => self.frees_space(),
            FreeSpace::Exhausted => matches!(self, Self::Probe),
        }
    }

    /// The drop of a table takes its row out of the catalogue, puts in a smaller one, and gives
    /// back what the table took. Other writes to system tables, such as the creation of a table,
    /// are writes like those of entities.
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
    halt: HaltState,
    /// A probe waits in the queue.
    is_probing: AtomicBool,
    /// The engine's own failures after which it still wrote.
    background_errors_survived: AtomicU64,
}

/// What only the leader touches.
struct Leader {
    /// The highest version ever given out, of all partitions.
    last_version: Timestamp,
    /// Since when there has been room again for an engine that met the end of the disk.
    space_since: Option<Instant>,
    /// When it was last logged that writers are refused because the disk is full.
    full_logged: Option<Instant>,
    /// When the engine was last asked for its own failures.
    errors_asked: Option<Instant>,
    /// When the disk last had room for everything.
    space_seen: Option<Instant>,
}

impl Leader {
    /// A disk that had room a moment ago still has: the reserve is for far more than is written
    /// meanwhile.
    fn free_space(&mut self, ask: impl FnOnce() -> FreeSpace) -> FreeSpace {
        if self.space_seen.is_some_and(|seen| seen.elapsed() < FREE_SPACE_INTERVAL) {
            return FreeSpace::Enough;
        }
        let free_space = ask();
        self.space_seen = (free_space == FreeSpace::Enough).then(Instant::now);
        free_space
    }

    /// The engine takes its great lock to tell how often it failed, so not every group asks; who
    /// probes wants to know.
    fn is_to_ask(&mut self, is_probe: bool) -> bool {
        let is_due = self.errors_asked.is_none_or(|asked| asked.elapsed() > ERRORS_INTERVAL);
        if is_due || is_probe {
            self.errors_asked = Some(Instant::now());
        }
        is_due || is_probe
    }
}

impl<J: Journal> GroupCommit<J> {
    /// Starts the threads.
    pub(crate) fn start(
        journal: Arc<J>,
        counters: Arc<Counters>,
        last_version: Timestamp,
        options: &Options,
    ) -> std::io::Result<Self> {
        let bounds = Bounds {
            count_max: options.queue_transactions_max,
            bytes_max: options.queue_bytes_max,
        };
        let shared = Arc::new(Shared {
            journal,
            counters,
            queue: Queue::new(bounds, GROUP),
            leader: Mutex::new(Leader {
                last_version,
                space_since: None,
                full_logged: None,
                errors_asked: None,
                space_seen: None,
            }),
            halt: HaltState::default(),
            is_probing: AtomicBool::new(false),
            background_errors_survived: AtomicU64::new(0),
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

    /// Carries out one transaction. Dropping the future withdraws nothing: what is in the queue is
    /// done.
    pub(crate) async fn commit(
        &self,
        table: TableId,
        transaction: EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.refuse_if_broken()?;
        let (answer, verdict) = oneshot::channel();
        let bytes = transaction_bytes(&transaction);
        let key = |operation: &EntityOperation| {
            encode_key(table, transaction.partition_key(), operation.row_key())
        };
        let keys = transaction.operations().iter().map(key).collect();
        let job = Job::Commit(Commit {
            table,
            transaction,
            keys,
            is_absent: Vec::new(),
            now,
            bytes,
            answer,
        });
        let queue = &self.shared.queue;
        let brought = if can_block_in_place() {
            queue.enqueue_or_lead(job)
        } else {
            queue.enqueue(job).map(|()| Enqueued::Waiting)
        };
        match brought.map_err(|error| self.refused(error))? {
            Enqueued::Waiting => {}
            Enqueued::Leading(turn, job) => self.shared.commit_solo(turn, job),
        }
        // A leader that vanished may have written before.
        verdict.await.unwrap_or(Err(StoreError::UnknownOutcome))
    }

    /// Removes rows of a table to which nobody writes any more. For blocking threads.
    pub(crate) fn delete_range(&self, deletion: RangeDelete) -> Result<(), StoreError> {
        self.refuse_if_broken()?;
        let (answer, done) = oneshot::channel();
        self.shared
            .queue
            .enqueue_always(Job::Delete { deletion, answer })
            .map_err(|error| self.refused(error))?;
        done.blocking_recv().unwrap_or(Err(StoreError::UnknownOutcome))
    }

    /// Why writes are not taken, for people. What may have ended is looked at, so that asking again
    /// tells more.
    pub(crate) fn health(&self) -> Result<(), String> {
        let shared = &self.shared;
        match shared.halt.get() {
            Some(WriteHalt::Broken(reason)) => Err(reason),
            Some(WriteHalt::Full(reason)) => {
                self.probe();
                Err(reason)
            }
            None if shared.journal.background_errors()
                > shared.background_errors_survived.load(Ordering::Relaxed) =>
            {
                self.probe();
                Err("the storage engine failed in the background; trying whether it still writes"
                    .to_owned())
            }
            None if shared.journal.free_space() != FreeSpace::Enough => {
                Err(shared.journal.describe_free_space())
            }
            None => Ok(()),
        }
    }

    /// Tries whether the engine writes, soon.
    fn probe(&self) {
        let shared = &self.shared;
        if !shared.is_probing.swap(true, Ordering::Relaxed) {
            // A closed queue has nothing to probe for.
            let _ = shared.queue.enqueue_always(Job::Probe);
        }
    }

    fn refuse_if_broken(&self) -> Result<(), StoreError> {
        match self.shared.halt.get() {
            Some(halt @ WriteHalt::Broken(_)) => Err(halt.refusal()),
            // Whoever writes finds out whether the disk is still full.
            Some(WriteHalt::Full(_)) | None => Ok(()),
        }
    }

    /// Finishes what waits, takes nothing more, and ends the threads.
    pub(crate) fn close(&self) {
        self.shared.queue.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // Panics of the work were caught; there is nothing else that could be reported here.
            let _ = thread.join();
        }
        // Of somebody who leads on another thread.
        self.shared.queue.wait_for_leader();
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
        while let Some((turn, group)) = self.queue.lead() {
            let decided = self.commit_whatever_happens(group);
            let is_quiet = decided.len() <= ANSWERED_WHILE_LEADING_MAX && self.queue.is_empty();
            let kept = is_quiet.then_some(turn);
            // Before the answers: a log that loses any of these writes must not look like one that
            // never had them.
            self.journal.note_synced();
            decided.into_iter().for_each(Decided::answer);
            drop(kept);
        }
    }

    /// The turn of somebody who came alone, on its own thread: to hand a single transaction over to
    /// another thread and its answer back takes longer than all else but the sync. The thread may
    /// serve sockets, so it lets another one do that meanwhile.
    fn commit_solo(&self, turn: LeaderGuard<'_, Job>, job: Job) {
        tokio::task::block_in_place(|| {
            let decided = self.commit_whatever_happens(vec![job]);
            drop(turn);
            self.journal.note_synced();
            decided.into_iter().for_each(Decided::answer);
        });
    }

    /// Those who wait must get an answer: unwinding drops their senders.
    fn commit_whatever_happens(&self, group: Vec<Job>) -> Vec<Decided> {
        // Whoever has the turn is the only one here.
        let mut leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        let decided = catch_unwind(AssertUnwindSafe(|| self.commit_group(&mut leader, group)));
        if decided.is_err() {
            self.halt.broken("a commit panicked");
        }
        decided.unwrap_or_default()
    }

    fn commit_group(&self, leader: &mut Leader, mut group: Vec<Job>) -> Vec<Decided> {
        let is_probe = self.is_probing.swap(false, Ordering::Relaxed);
        if let Err(halt) = self.recover(leader) {
            return group.into_iter().map(|job| Decided::refuse(job, || halt.refusal())).collect();
        }
        let background_errors =
            leader.is_to_ask(is_probe).then(|| self.journal.background_errors());
        probe_insert_keys(&*self.journal, &mut group);
        let mut draft = Draft::new(&*self.journal, leader.last_version);
        let mut decided = self.decide(leader, &mut draft, group);
        let (last_version, bytes) = (draft.last_version, draft.batch.size_in_bytes());
        match draft.write() {
            Ok(false) => {}
            Ok(true) => {
                leader.last_version = last_version;
                if let Some(survived) = background_errors {
                    self.background_errors_survived.store(survived, Ordering::Relaxed);
                }
                let writers = decided.iter().filter(|decided| decided.writes).count();
                self.counters.group_written(writers as u64, bytes);
            }
            Err(error) => {
                // Versions of a write that is perhaps on disk are spent.
                leader.last_version = last_version;
                self.failed(error);
                decided.iter_mut().for_each(Decided::fail);
            }
        }
        decided.iter().for_each(|decided| decided.count(&self.counters));
        decided
    }

    /// Decides what the disk has room for, and refuses the rest.
    fn decide(
        &self,
        leader: &mut Leader,
        draft: &mut Draft<'_, J>,
        group: Vec<Job>,
    ) -> Vec<Decided> {
        let free_space = leader.free_space(|| self.journal.free_space());
        // Not each time: near the border it comes and goes with every file that the engine tidies
        // away.
        let is_said = leader.full_logged.is_some_and(|at| at.elapsed() < FULL_LOG_INTERVAL);
        if free_space != FreeSpace::Enough && !is_said {
            tracing::error!(
                reason = self.journal.describe_free_space(),
                "the store refuses writes"
            );
            leader.full_logged = Some(Instant::now());
        }
        let full = || StoreError::Full { reason: self.journal.describe_free_space() };
        let decide = |job: Job| {
            if job.fits(free_space) { draft.add(job) } else { Decided::refuse(job, full) }
        };
        group.into_iter().map(decide).collect()
    }

    /// After a full disk: tries whether the engine writes again.
    fn recover(&self, leader: &mut Leader) -> Result<(), WriteHalt> {
        let halt = match self.halt.get() {
            None => return Ok(()),
            Some(halt @ WriteHalt::Broken(_)) => return Err(halt),
            Some(halt @ WriteHalt::Full(_)) => halt,
        };
        let mut probe = Draft::new(&*self.journal, leader.last_version);
        probe.is_probe = true;
        match probe.write() {
            Ok(_) => {
                leader.space_since = None;
                self.halt.recovered();
                Ok(())
            }
            Err(error) => {
                self.still_fails(leader, error);
                Err(self.halt.get().unwrap_or(halt))
            }
        }
    }

    fn still_fails(&self, leader: &mut Leader, error: WriteError) {
        leader.space_since = match self.journal.has_space_to_recover() {
            true => leader.space_since.or_else(|| Some(Instant::now())),
            false => None,
        };
        let has_given_up =
            leader.space_since.is_some_and(|since| since.elapsed() > ENGINE_RECOVERY);
        match error {
            WriteError::NoSpace(what) if has_given_up => {
                self.halt.broken(&format!(
                    "the disk has room again, and the engine did not recover: {what}"
                ));
            }
            error => self.failed(error),
        }
    }

    fn failed(&self, error: WriteError) {
        match error {
            WriteError::NoSpace(what) => self.halt.full(&what),
            WriteError::Failed(error) => match self.journal.damage() {
                Some(damage) => self.halt.stopped_by_damage(&damage),
                None => self.halt.broken(&format!("a write failed: {error}")),
            },
        }
    }
}

/// A job that was decided, with the answer that may leave once the group is on disk.
struct Decided {
    reply: Reply,
    writes: bool,
}

enum Reply {
    Commit(Answer<CommitResult>, Result<CommitResult, StoreError>),
    Delete(Answer<()>, Result<(), StoreError>),
    Import(oneshot::Sender<Result<(), ImportError>>, Result<(), ImportError>),
    /// Nobody waits for it.
    Probe,
}

impl Decided {
    fn refuse(job: Job, error: impl Fn() -> StoreError) -> Self {
        let reply = match job {
            Job::Commit(commit) => Reply::Commit(commit.answer, Err(error())),
            Job::Delete { answer, .. } => Reply::Delete(answer, Err(error())),
            Job::Import { answer, .. } => Reply::Import(answer, Err(error().into())),
            Job::Probe => Reply::Probe,
        };
        Self { reply, writes: false }
    }

    /// The group could not be written. Who wrote may find it on disk later; who only read may have
    /// read what is not.
    fn fail(&mut self) {
        let error =
            || if self.writes { StoreError::UnknownOutcome } else { unavailable("a write failed") };
        match &mut self.reply {
            Reply::Commit(_, verdict) if verdict.is_ok() => *verdict = Err(error()),
            Reply::Delete(_, done) => *done = Err(error()),
            Reply::Import(_, done) if done.is_ok() => *done = Err(error().into()),
            Reply::Commit(..) | Reply::Import(..) | Reply::Probe => {}
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
            Reply::Delete(answer, done) => drop(answer.send(done)),
            Reply::Import(answer, done) => drop(answer.send(done)),
            Reply::Probe => {}
        }
    }
}

/// True on a thread whose other work another one can take over while it waits for the disk.
fn can_block_in_place() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.to_owned(), source: None }
}

/// Bytes that a transaction takes in memory, about: what bounds the queue and a group.
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

impl<J> std::fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("halt", &self.halt).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
