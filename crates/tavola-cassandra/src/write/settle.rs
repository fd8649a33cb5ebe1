//! What became of an attempt, and the answers to its transactions.
//!
//! An applied batch answers all of them. A refused one says what the rows were: the domain's
//! refusals are answered, the others go again. One whose outcome is unknown is fenced off before
//! anything else is written, and nothing is sent again until the fence shows that the first was not
//! applied.

use std::time::Instant;

use tavola_core::{PartitionKey, Timestamp};
use tavola_store::StoreError;

use super::attempt::{Attempt, Member};
use super::fence::Resolution;
use super::{Round, Writer};
use crate::cluster::Partition;
use crate::error::Failure;
use crate::hints::Hint;
use crate::plan::{AfterRefusal, evaluate};
use crate::queue::{PendingCommit, answer_all};
use crate::registration::Registration;
use crate::reply::{Refused, Reply};
use crate::stats::count;

impl Writer {
    /// Sends an attempt and settles what became of it. `left` did not fit into it.
    pub(super) async fn send_and_settle(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        attempt: Attempt,
        mut left: Vec<PendingCommit>,
        now: Timestamp,
        deadline: Instant,
    ) -> Round {
        let counters = &self.cluster.counters;
        count(&counters.attempts, 1);
        counters.width(attempt.members.len());
        let failure = match self.cluster.send(partition, &attempt, attempt.writes()).await {
            Ok(Reply::Applied) => {
                self.applied(partition, attempt);
                return Round::Continue(left);
            }
            Ok(Reply::Refused(refused)) => {
                let again = self.refused(partition_key, partition, attempt, &refused, now);
                left.splice(0..0, again);
                return Round::Continue(left);
            }
            Err(failure) => failure,
        };
        let Failure::Unknown(reason) = failure else {
            left.splice(0..0, attempt.into_pending());
            return Round::Pause(left, failure.text());
        };
        count(&counters.unknown, 1);
        tracing::debug!(id = %attempt.id, reason, "the outcome is unknown");
        match self.resolve(partition, &attempt, deadline).await {
            Resolution::Applied => self.applied(partition, attempt),
            Resolution::NotApplied => {
                left.splice(0..0, attempt.into_pending());
                return Round::Pause(left, reason);
            }
            Resolution::Unknown => {
                count(&counters.unresolved, attempt.members.len() as u64);
                answer_all(attempt.into_pending(), || StoreError::UnknownOutcome);
            }
        }
        Round::Continue(left)
    }

    fn applied(&self, partition: &Partition, attempt: Attempt) {
        let registration = attempt.registration.after_write();
        self.hints.set(partition, Hint { registration, version: attempt.last.ticks() });
        count(&self.cluster.counters.commits, attempt.members.len() as u64);
        attempt.members.into_iter().for_each(Member::succeed);
    }

    /// Answers the transactions whose conditions failed, and returns those that go again.
    fn refused(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        attempt: Attempt,
        refused: &Refused,
        now: Timestamp,
    ) -> Vec<PendingCommit> {
        count(&self.cluster.counters.attempts_refused, 1);
        let highest = refused.version.unwrap_or_default();
        if highest >= attempt.first.ticks() {
            self.versions.fell_behind(now, highest);
            self.contention.note_conflict(partition);
        }
        let registration = Registration::of(refused.generation);
        self.hints.set(partition, Hint { registration, version: highest });
        let mut again = Vec::new();
        for member in attempt.members {
            match evaluate(
                partition_key,
                &member.pending.transaction,
                &member.writes,
                &refused.rows,
            ) {
                Ok(AfterRefusal::Retry) => again.push(member.pending),
                Ok(AfterRefusal::Refused(failed)) => self.refuse(member.pending, Err(failed)),
                Err(error) => member.pending.answer(Err(error)),
            }
        }
        again
    }
}
