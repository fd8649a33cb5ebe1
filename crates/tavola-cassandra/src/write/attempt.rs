//! One try to write a group: the transactions that share a conditional batch, their versions, and
//! the guard that lets the batch be applied at most once.
//!
//! Invariants:
//!
//! - Versions of members grow, and are those from `first` to `last`; `last` becomes the highest
//!   version of the partition.
//! - The guard is applied only if the partition's highest version is below `first`. So of two
//!   attempts whose versions overlap, the cluster applies at most one.
//! - `id` is random and names the attempt in the register, so that a later read shows which
//!   write left a version there.

use scylla::statement::prepared::PreparedStatement;
use tavola_core::Timestamp;
use uuid::Uuid;

use super::bind::Bind;
use crate::cluster::{Cluster, Partition};
use crate::plan::RowWrite;
use crate::queue::PendingCommit;
use crate::registration::Registration;

/// A conditional batch: what it writes, and what names it in the cluster.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) registration: Registration,
    /// The version of the first member; the others follow it.
    pub(crate) first: Timestamp,
    /// The version of the last, which the partition has afterwards.
    pub(crate) last: Timestamp,
    pub(crate) id: Uuid,
    pub(crate) members: Vec<Member>,
}

/// A transaction of an attempt.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) pending: PendingCommit,
    pub(crate) version: Timestamp,
    pub(crate) writes: Vec<RowWrite>,
}

impl Member {
    pub(super) fn new(pending: PendingCommit, version: Timestamp, writes: Vec<RowWrite>) -> Self {
        let operations = pending.transaction.operations().len();
        assert_eq!(writes.len(), operations, "a commit answers every operation");
        Self { pending, version, writes }
    }

    pub(super) fn bytes(&self) -> usize {
        self.writes
            .iter()
            .map(|write| write.row.len() + write.document.as_ref().map_or(0, Vec::len))
            .sum()
    }

    /// Answers a transaction whose batch was applied.
    pub(super) fn succeed(self) {
        let outcomes = self.writes.iter().map(|write| write.outcome).collect();
        self.pending.answer(Ok(Ok(outcomes)));
    }
}

impl Attempt {
    /// An attempt of these transactions, or nothing if there are none.
    pub(super) fn new(registration: Registration, members: Vec<Member>) -> Option<Self> {
        let (first, last) = (members.first()?.version, members.last()?.version);
        assert!(
            members.is_sorted_by(|one, next| one.version < next.version),
            "versions of a partition only grow"
        );
        Some(Self { registration, first, last, id: Uuid::new_v4(), members })
    }

    /// An attempt for rows that no transaction brings. It raises the partition's highest version to
    /// `version`.
    pub(crate) fn without_members(registration: Registration, version: Timestamp) -> Self {
        let (first, last) = (version, version);
        Self { registration, first, last, id: Uuid::new_v4(), members: Vec::new() }
    }

    pub(super) fn into_pending(self) -> Vec<PendingCommit> {
        self.members.into_iter().map(|member| member.pending).collect()
    }

    /// What it does to each row, with the version of its transaction.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (Timestamp, &RowWrite)> {
        self.members
            .iter()
            .flat_map(|member| member.writes.iter().map(|write| (member.version, write)))
    }

    /// The guard: this partition is registered, or becomes so, and our versions are its highest.
    /// `id` names the writer: the attempt itself, or its fence.
    pub(super) fn guard<'a>(
        &self,
        cluster: &'a Cluster,
        partition: &'a Partition,
        id: Uuid,
    ) -> (&'a PreparedStatement, Vec<Bind<'a>>) {
        assert!(self.first <= self.last, "the guard admits no version below its own");
        let (first, last) = (
            Bind::Big(self.first.ticks().cast_signed()),
            Bind::Big(self.last.ticks().cast_signed()),
        );
        let (table, key) = (Bind::Big(partition.table), Bind::Blob(&partition.key));
        let generation = Bind::Int(self.registration.generation());
        let statements = &cluster.statements;
        match self.registration {
            Registration::Active(_) => {
                (&statements.guard, vec![last, Bind::Id(id), table, key, generation, first])
            }
            Registration::New => {
                (&statements.guard_new, vec![generation, last, Bind::Id(id), table, key])
            }
            Registration::Retired(before) => {
                let retired = Bind::Int(before.saturating_neg());
                (
                    &statements.guard_retired,
                    vec![generation, last, Bind::Id(id), table, key, retired, first],
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tavola_core::{
        EntityGroupTransaction, EntityOperation, PartitionKey, Precondition, RowKey, Timestamp,
    };
    use tokio::sync::oneshot;

    use super::{Attempt, Member};
    use crate::plan::plan_blind;
    use crate::queue::PendingCommit;
    use crate::registration::Registration;

    fn at(ticks: u64) -> Timestamp {
        Timestamp::from_ticks(ticks).unwrap()
    }

    fn pending() -> PendingCommit {
        let delete = EntityOperation::Delete(RowKey::new("r").unwrap(), Precondition::Exists);
        let transaction = EntityGroupTransaction::single(PartitionKey::new("p").unwrap(), delete);
        let (now, reply) = (Timestamp::MIN, oneshot::channel().0);
        PendingCommit { transaction, now, enqueued_at: Instant::now(), reply }
    }

    fn member(version: u64) -> Member {
        let pending = pending();
        let writes = plan_blind(&pending.transaction, at(version)).unwrap();
        Member::new(pending, at(version), writes)
    }

    #[test]
    fn an_attempt_spans_the_versions_of_its_members() {
        let registration = Registration::Active(1);
        assert!(Attempt::new(registration, Vec::new()).is_none());
        let attempt = Attempt::new(registration, vec![member(7), member(8), member(9)]).unwrap();
        assert_eq!((attempt.first, attempt.last), (at(7), at(9)));
        let versions: Vec<Timestamp> = attempt.writes().map(|(version, _)| version).collect();
        assert_eq!(versions, [at(7), at(8), at(9)]);
        assert_eq!(attempt.into_pending().len(), 3);
    }

    #[test]
    #[should_panic(expected = "versions of a partition only grow")]
    fn no_version_is_used_twice() {
        let _attempt = Attempt::new(Registration::New, vec![member(7), member(7)]);
    }

    #[test]
    #[should_panic(expected = "a commit answers every operation")]
    fn no_operation_is_left_out() {
        let _member = Member::new(pending(), at(7), Vec::new());
    }
}
