//! Group commit: one batch and one sync for all transactions that wait.
//!
//! Transactions wait in a queue. Two threads take turns as *leader*: the leader takes a group from
//! the queue, decides it, writes it as one batch with one sync, gives up leadership, and only then
//! sends the answers, so that the disk is busy again meanwhile. A transaction that comes to an idle
//! queue waits for nothing but its own sync: its caller becomes the leader (*solo commit*). Under
//! load groups fill themselves while the disk works.
//!
//! Why the answers are right:
//!
//! - Only the leader writes, and the engine shows a write to readers after its sync (it writes the
//!   log, syncs it, then fills the memtable). So whatever is read from the engine is durable, and a
//!   group that changes nothing needs no sync.
//! - A transaction sees the changes of earlier ones in its group. They are not durable yet, but no
//!   answer of a group leaves before its sync.
//! - If the sync fails, the content of the disk is unknown: transactions that wrote get
//!   `UnknownOutcome`, and nothing more is acknowledged until the store is opened again.
//! - Only a full disk is a halt that ends. The engine then stops by itself, and recovers by writing
//!   its memtables to new files and starting a new log, so that no part of the failed write remains
//!   in use. A write of ours that succeeds proves that it has; until then nothing is acknowledged.
//!   An engine that does not recover although there is space must be opened again.
//!
//! `job` is what waits, `leader` the threads, `draft` and `write` how a group is decided and
//! written, `failure` what a failed write means, `decided` how callers are answered.

mod decided;
mod draft;
mod failure;
mod import;
mod job;
mod journal;
mod leader;
mod statistics;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use job::{Commit, Job};
pub(crate) use journal::{Changed, Journal, RangeDelete, WriteError};
use leader::{Leader, Shared, can_block_in_place};
use tavola_core::{EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{CommitResult, StoreError};
use tokio::sync::oneshot;

use crate::disk_space::FreeSpace;
use crate::options::Options;
use crate::queue::{Bounds, Enqueued, Queue, QueueError};
use crate::stats::{Counters, count};
use crate::write_halt::{HaltState, WriteHalt};

/// Two: one leads while the other sends answers.
const THREADS: usize = 2;
/// A group: large enough to keep a disk busy, small enough that its first transaction does not wait
/// long.
pub(crate) const GROUP: Bounds = Bounds { count_max: 1024, bytes_max: 8 * 1024 * 1024 };

/// The queue and its threads.
#[derive(Debug)]
pub(crate) struct GroupCommit<J: Journal> {
    shared: Arc<Shared<J>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<J: Journal> GroupCommit<J> {
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
            leader: Mutex::new(Leader::new(last_version)),
            halt: HaltState::default(),
            is_probing: AtomicBool::new(false),
            background_errors_survived: AtomicU64::new(0),
        });
        let spawn = |number| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("commit-{number}")).spawn(move || shared.run())
        };
        let threads = (0..THREADS).map(spawn).collect::<Result<_, _>>();
        // If one thread cannot be started, the others must end too.
        let threads = threads.inspect_err(|_| shared.queue.close())?;
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Carries out one transaction. Dropping the future withdraws nothing: a queued transaction is
    /// carried out.
    pub(crate) async fn commit(
        &self,
        table: TableId,
        transaction: EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.refuse_if_broken()?;
        let (answer, result) = oneshot::channel();
        let job = Job::Commit(Commit::new(table, transaction, now, answer));
        let queue = &self.shared.queue;
        let enqueued = if can_block_in_place() {
            queue.enqueue_or_lead(job)
        } else {
            queue.enqueue(job).map(|()| Enqueued::Waiting)
        };
        match enqueued.map_err(|error| self.refused(error))? {
            Enqueued::Waiting => {}
            Enqueued::Leading(leadership, job) => self.shared.commit_solo(leadership, job),
        }
        // A leader that panicked may have written first.
        result.await.unwrap_or(Err(StoreError::UnknownOutcome))
    }

    /// Removes rows of a dropped table, to which no request writes. Blocks.
    pub(crate) fn delete_range(&self, deletion: RangeDelete) -> Result<(), StoreError> {
        self.refuse_if_broken()?;
        let (answer, done) = oneshot::channel();
        self.shared
            .queue
            .enqueue_always(Job::Delete { deletion, answer })
            .map_err(|error| self.refused(error))?;
        done.blocking_recv().unwrap_or(Err(StoreError::UnknownOutcome))
    }

    /// Why writes are refused, for people. If the reason may have gone, this starts a probe, so
    /// that the next call knows.
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

    /// Finds out whether the engine writes, soon.
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
            // The next write finds out whether the disk is still full.
            Some(WriteHalt::Full(_)) | None => Ok(()),
        }
    }

    /// Carries out what is queued, refuses everything else, and ends the threads.
    pub(crate) fn close(&self) {
        self.shared.queue.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // The thread catches its panics, so there is nothing left to report here.
            let _ = thread.join();
        }
        // A solo commit leads on a thread of its caller.
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

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.to_owned(), source: None }
}

#[cfg(test)]
mod tests;
