//! A group of transactions on one partition, from the queue to the answers.
//!
//! A leader takes all that waits for its partition and writes it in rounds. Each round sends one
//! conditional batch: the guard, which lets versions only grow, and one statement per operation.
//!
//! Why the answers are right:
//!
//! - A batch is applied as a whole or not at all, and only if its guard holds. So a transaction is
//!   acknowledged only when all of its rows are stored.
//! - A refused batch says what the rows were. The domain decides on those; what it does not refuse
//!   goes again, at new versions.
//! - An attempt whose outcome is unknown is fenced off before the same transactions are sent again,
//!   so that none is written twice. If the fence does not settle it, they are answered with
//!   `UnknownOutcome`, never with success or failure.
//! - Every transaction that was taken from the queue is answered. A leader that panics drops the
//!   senders, which callers read as `UnknownOutcome`.
//!
//! `rows` reads what must be seen first, `assemble` chooses what goes into a batch, `attempt` is
//! that batch with its guard, `batch` (with `bind`) its CQL, `settle` what it came to, `fence` the
//! unknown outcomes, `backoff` the pauses.

mod assemble;
mod attempt;
mod backoff;
mod batch;
mod bind;
mod fence;
mod rows;
mod settle;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use attempt::Attempt;
pub(crate) use backoff::pause;
pub(crate) use batch::BATCH_BYTES_MAX;
use rows::{PartitionRows, answer_damaged};
use tavola_core::{EntityView, PartitionKey, Timestamp};
use tavola_store::StoreError;
use tracing::Instrument;

use crate::cluster::{Cluster, Partition};
use crate::contention::Contention;
use crate::error::unavailable;
use crate::hints::Hints;
use crate::queue::{LeaderGuard, PendingCommit, Queues, answer_all};
use crate::stats::{count, uncount};
use crate::versions::Versions;

/// Writes partitions.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) hints: Hints,
    pub(crate) contention: Contention,
    pub(crate) versions: Versions,
    /// Of each table's directory.
    pub(crate) slots: u16,
    /// A transaction is answered within it, whatever happens.
    pub(crate) answer_time: Duration,
}

/// How a round ended, with the transactions that are not answered yet.
enum Round {
    /// The next round begins at once.
    Continue(Vec<PendingCommit>),
    /// Something failed, for this reason: the next round begins after a pause.
    Pause(Vec<PendingCommit>, String),
}

impl Writer {
    /// Writes everything that waits for the partition, until nothing does.
    pub(crate) async fn lead(self: Arc<Self>, partition_key: PartitionKey, partition: Partition) {
        let mut leader = LeaderGuard::new(Arc::clone(&self.queues), partition.clone());
        while let Some(group) = leader.take_group() {
            uncount(&self.cluster.counters.waiting, group.len() as u64);
            // The groups before may have waited for a cluster that did not answer. A transaction
            // that came long ago gets no answer in time any more, and must not be written after its
            // caller was told so.
            let (group, late): (Vec<_>, Vec<_>) = group
                .into_iter()
                .partition(|pending| pending.enqueued_at.elapsed() < self.answer_time);
            answer_all(late, || StoreError::Contended);
            if !group.is_empty() {
                self.write_group(&partition_key, &partition, group).await;
            }
        }
    }

    /// Rounds until every transaction of the group is answered, or its time is over.
    async fn write_group(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        mut group: Vec<PendingCommit>,
    ) {
        let enqueued_at =
            group.iter().map(|pending| pending.enqueued_at).min().unwrap_or_else(Instant::now);
        let deadline = enqueued_at + self.answer_time;
        let mut reason = String::new();
        for round in 0u32.. {
            if round > 0 {
                count(&self.cluster.counters.retries, 1);
            }
            let span = tracing::debug_span!("write", ?partition, round, transactions = group.len());
            match self.round(partition_key, partition, group, deadline).instrument(span).await {
                Round::Continue(left) => group = left,
                Round::Pause(left, why) => {
                    group = left;
                    reason = why;
                    tokio::time::sleep(pause(round)).await;
                }
            }
            if group.is_empty() {
                return;
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        answer_all(group, || {
            if reason.is_empty() { StoreError::Contended } else { unavailable(reason.clone()) }
        });
    }

    /// At most one conditional batch.
    async fn round(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        group: Vec<PendingCommit>,
        deadline: Instant,
    ) -> Round {
        if let Err(reason) = self.cluster.check_quorum(partition) {
            answer_all(group, || unavailable(reason.clone()));
            return Round::Continue(Vec::new());
        }
        let PartitionRows { rows, damaged } =
            match self.read_rows(partition_key, partition, &group).await {
                Ok(read) => read,
                Err(reason) => return Round::Pause(group, reason),
            };
        let group = answer_damaged(group, &damaged);
        let hint = self.hints.get_or_guess(partition);
        let now = group.iter().map(|pending| pending.now).max().unwrap_or(Timestamp::MIN);
        let seen = rows.values().map(|row| row.timestamp().ticks()).max().unwrap_or_default();
        let first = match self.versions.propose(now, seen.max(hint.version), group.len()) {
            Ok(version) => version,
            Err(StoreError::Corrupt(damage)) => {
                answer_all(group, || StoreError::Corrupt(damage.clone()));
                return Round::Continue(Vec::new());
            }
            Err(error) => {
                answer_all(group, || unavailable(error.to_string()));
                return Round::Continue(Vec::new());
            }
        };
        let (members, left) = self.assemble(group, first, &rows);
        let Some(attempt) = Attempt::new(hint.registration, members) else {
            return Round::Continue(left);
        };
        let generation = hint.registration.generation();
        if !hint.registration.is_active()
            && let Err(reason) = self.cluster.enter(partition, self.slots, generation).await
        {
            let mut again = attempt.into_pending();
            again.extend(left);
            return Round::Pause(again, reason);
        }
        self.send_and_settle(partition_key, partition, attempt, left, now, deadline).await
    }
}
