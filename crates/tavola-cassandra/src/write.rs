//! A group of transactions on one partition, from the queue to the answers.
//!
//! Each attempt is one conditional batch: the guard, which lets versions only rise, and one
//! statement per operation. A refused batch says what the rows were; those whose conditions fail
//! are answered, the others go again. An attempt whose outcome is not told is fenced off before
//! anything else happens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::errors::ExecutionError;
use scylla::frame::response::result::ColumnType;
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use tavola_core::{EntityView, PartitionKey, Timestamp};
use tavola_store::keys::{decode_text, encode_text};
use tavola_store::{CommitResult, Row, StoreError};
use tracing::Instrument;
use uuid::Uuid;

use crate::cluster::{Cluster, Partition};
use crate::contention::Contention;
use crate::directory::slot_of;
use crate::error::{Failure, unavailable};
use crate::fence::Resolution;
use crate::hints::{Hint, Hints};
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};
use crate::plan::{Afterwards, Condition, Planned, judge, needs_rows, plan_blind, plan_on};
use crate::queue::{Leadership, Queues, Waiting};
use crate::registration::Registration;
use crate::reply::{self, Refused, Reply};
use crate::stats::{Kind, count, take_off};
use crate::versions::{Versions, nth};

/// Documents of one batch. A transaction may bring 4 MiB; the cluster takes less than 16 in one
/// mutation.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;
/// Attempts that lose a race wait a moment, longer each time.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_DOUBLINGS_MAX: u32 = 6;

/// Writes partitions.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) hints: Hints,
    pub(crate) contention: Contention,
    pub(crate) versions: Versions,
    pub(crate) slots: u16,
    pub(crate) answer_time: Duration,
}

/// A conditional batch: whom it is for, and what names it in the cluster.
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

/// A transaction that is being carried out.
#[derive(Debug)]
pub(crate) struct Member {
    waiting: Waiting,
    pub(crate) version: Timestamp,
    pub(crate) planned: Vec<Planned>,
}

impl Member {
    fn bytes(&self) -> usize {
        self.planned
            .iter()
            .map(|planned| planned.row.len() + planned.document.as_ref().map_or(0, Vec::len))
            .sum()
    }

    fn succeed(self) {
        let outcomes = self.planned.iter().map(|planned| planned.outcome).collect();
        self.waiting.answer(Ok(Ok(outcomes)));
    }
}

/// What an attempt came to.
enum Step {
    /// Those who are left go again at once.
    GoOn(Vec<Waiting>),
    /// Those who are left go again after a moment: something failed, for this reason.
    Later(Vec<Waiting>, String),
}

impl Writer {
    /// Writes everything that waits for the partition, until nothing does.
    pub(crate) async fn lead(self: Arc<Self>, partition_key: PartitionKey, partition: Partition) {
        let mut leadership = Leadership::new(Arc::clone(&self.queues), partition.clone());
        while let Some(group) = leadership.take() {
            take_off(&self.cluster.counters.waiting, group.len() as u64);
            // Those before may have waited for a cluster that did not answer. Whoever came long ago
            // gets no answer in time any more, and must not be written after being told so.
            let (group, late): (Vec<_>, Vec<_>) =
                group.into_iter().partition(|waiting| waiting.arrived.elapsed() < self.answer_time);
            answer_all(late, || StoreError::Contended);
            if !group.is_empty() {
                self.carry_out(&partition_key, &partition, group).await;
            }
        }
    }

    async fn carry_out(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        mut group: Vec<Waiting>,
    ) {
        let arrived =
            group.iter().map(|waiting| waiting.arrived).min().unwrap_or_else(Instant::now);
        let deadline = arrived + self.answer_time;
        let mut reason = String::new();
        for round in 0u32.. {
            if round > 0 {
                count(&self.cluster.counters.retries, 1);
            }
            let span = tracing::debug_span!("write", ?partition, round, transactions = group.len());
            match self.attempt(partition_key, partition, group, deadline).instrument(span).await {
                Step::GoOn(left) => group = left,
                Step::Later(left, why) => {
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
        for waiting in group {
            let error =
                if reason.is_empty() { StoreError::Contended } else { unavailable(reason.clone()) };
            waiting.answer(Err(error));
        }
    }

    async fn attempt(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        group: Vec<Waiting>,
        deadline: Instant,
    ) -> Step {
        if let Err(reason) = self.cluster.check_quorum(partition) {
            answer_all(group, || unavailable(reason.clone()));
            return Step::GoOn(Vec::new());
        }
        let PartitionRows { rows, damaged } =
            match self.read_rows(partition_key, partition, &group).await {
                Ok(read) => read,
                Err(reason) => return Step::Later(group, reason),
            };
        let group = answer_damaged(group, &damaged);
        let hint = self.hints.get_or_guess(partition);
        let now = group.iter().map(|waiting| waiting.now).max().unwrap_or(Timestamp::MIN);
        let seen = rows.values().map(|row| row.timestamp().ticks()).max().unwrap_or_default();
        let first = match self.versions.propose(now, seen.max(hint.version), group.len()) {
            Ok(version) => version,
            Err(StoreError::Corrupt(damage)) => {
                answer_all(group, || StoreError::Corrupt(damage.clone()));
                return Step::GoOn(Vec::new());
            }
            Err(error) => {
                answer_all(group, || unavailable(error.to_string()));
                return Step::GoOn(Vec::new());
            }
        };
        let (members, left) = self.plan(group, first, &rows);
        let Some(last) = members.last().map(|member| member.version) else {
            return Step::GoOn(left);
        };
        let attempt =
            Attempt { registration: hint.registration, first, last, id: Uuid::new_v4(), members };
        if !hint.registration.is_active()
            && let Err(reason) = self.enter(partition, hint.registration.generation()).await
        {
            let mut again = attempt.into_waiting();
            again.extend(left);
            return Step::Later(again, reason);
        }
        self.write(partition_key, partition, attempt, left, now, deadline).await
    }

    /// Plans who can be; those who are refused by rows that were read are answered, those who do
    /// not fit are left.
    fn plan(
        &self,
        group: Vec<Waiting>,
        first: Timestamp,
        rows: &HashMap<Vec<u8>, Row>,
    ) -> (Vec<Member>, Vec<Waiting>) {
        let (mut members, mut left) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for waiting in group {
            if bytes >= BATCH_BYTES_MAX {
                left.push(waiting);
                continue;
            }
            // All of them were taken together: see `Versions::propose`.
            let Ok(version) = nth(first, members.len()) else {
                left.push(waiting);
                continue;
            };
            let planned = if needs_rows(&waiting.transaction, waiting.now) {
                plan_on(&waiting.transaction, version, waiting.now, rows)
            } else {
                plan_blind(&waiting.transaction, version)
            };
            match planned {
                Ok(planned) => {
                    let member = Member { waiting, version, planned };
                    if bytes > 0 && bytes + member.bytes() > BATCH_BYTES_MAX {
                        left.push(member.waiting);
                        continue;
                    }
                    bytes += member.bytes();
                    members.push(member);
                }
                Err(failed) => self.refuse(waiting, Err(failed)),
            }
        }
        (members, left)
    }

    fn refuse(&self, waiting: Waiting, verdict: CommitResult) {
        count(&self.cluster.counters.refusals, 1);
        waiting.answer(Ok(verdict));
    }

    /// All rows of those transactions that cannot be planned without them, as they are at one
    /// moment.
    async fn read_rows(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        group: &[Waiting],
    ) -> Result<PartitionRows, String> {
        let keys: Vec<Vec<u8>> = group.iter().flat_map(keys_to_read).collect();
        if keys.is_empty() {
            return Ok(PartitionRows::default());
        }
        self.cluster.rows(partition_key.as_str(), partition, &keys).await
    }

    /// Tells the directory about a partition before its first row is written.
    pub(crate) async fn enter(&self, partition: &Partition, generation: i32) -> Result<(), String> {
        count(&self.cluster.counters.registrations, 1);
        let values =
            (partition.table, slot_of(&partition.key, self.slots), &partition.key[..], generation);
        let entered =
            self.cluster.execute(Kind::Register, &self.cluster.statements.enter, values).await;
        entered.map(drop).map_err(|error| error.to_string())
    }

    async fn write(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        attempt: Attempt,
        mut left: Vec<Waiting>,
        now: Timestamp,
        deadline: Instant,
    ) -> Step {
        let counters = &self.cluster.counters;
        count(&counters.attempts, 1);
        counters.width(attempt.members.len());
        let failure = match self.cluster.send(partition, &attempt).await {
            Ok(Reply::Applied) => {
                self.applied(partition, attempt);
                return Step::GoOn(left);
            }
            Ok(Reply::Refused(refused)) => {
                let again = self.refused(partition_key, partition, attempt, &refused, now);
                left.splice(0..0, again);
                return Step::GoOn(left);
            }
            Err(failure) => failure,
        };
        let Failure::Unknown(reason) = failure else {
            left.splice(0..0, attempt.into_waiting());
            return Step::Later(left, failure.text());
        };
        count(&counters.unknown, 1);
        tracing::debug!(id = %attempt.id, reason, "the outcome is unknown");
        match self.resolve(partition, &attempt, deadline).await {
            Resolution::Applied => self.applied(partition, attempt),
            Resolution::NotApplied => {
                left.splice(0..0, attempt.into_waiting());
                return Step::Later(left, reason);
            }
            Resolution::Unknown => {
                count(&counters.unresolved, attempt.members.len() as u64);
                answer_all(attempt.into_waiting(), || StoreError::UnknownOutcome);
            }
        }
        Step::GoOn(left)
    }

    fn applied(&self, partition: &Partition, attempt: Attempt) {
        let registration = attempt.registration.after_write();
        self.hints.set(partition, Hint { registration, version: attempt.last.ticks() });
        count(&self.cluster.counters.commits, attempt.members.len() as u64);
        attempt.members.into_iter().for_each(Member::succeed);
    }

    /// Answers those whose conditions failed; who goes again.
    fn refused(
        &self,
        partition_key: &PartitionKey,
        partition: &Partition,
        attempt: Attempt,
        refused: &Refused,
        now: Timestamp,
    ) -> Vec<Waiting> {
        count(&self.cluster.counters.attempts_refused, 1);
        let standing = refused.version.unwrap_or_default();
        if standing >= attempt.first.ticks() {
            self.versions.fell_behind(now, standing);
            self.contention.note_conflict(partition);
        }
        let registration = Registration::of(refused.generation);
        self.hints.set(partition, Hint { registration, version: standing });
        let mut again = Vec::new();
        for member in attempt.members {
            match judge(partition_key, &member.waiting.transaction, &member.planned, &refused.rows)
            {
                Ok(Afterwards::Again) => again.push(member.waiting),
                Ok(Afterwards::Refused(failed)) => self.refuse(member.waiting, Err(failed)),
                Err(error) => member.waiting.answer(Err(error)),
            }
        }
        again
    }
}

impl Attempt {
    fn into_waiting(self) -> Vec<Waiting> {
        self.members.into_iter().map(|member| member.waiting).collect()
    }

    /// Every statement with its version.
    pub(crate) fn planned(&self) -> impl Iterator<Item = (Timestamp, &Planned)> {
        self.members
            .iter()
            .flat_map(|member| member.planned.iter().map(|planned| (member.version, planned)))
    }

    /// The guard: this partition is registered, or becomes so, and our versions are its highest.
    /// `id` names who wrote.
    pub(crate) fn guard<'a>(
        &self,
        cluster: &'a Cluster,
        partition: &'a Partition,
        id: Uuid,
    ) -> (&'a PreparedStatement, Vec<Bind<'a>>) {
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

impl Cluster {
    /// Sends the batch and reads its reply.
    async fn send(&self, partition: &Partition, attempt: &Attempt) -> Result<Reply, Failure> {
        self.send_planned(partition, attempt, attempt.planned()).await
    }

    /// Sends the guard of an attempt with these statements.
    pub(crate) async fn send_planned<'a>(
        &self,
        partition: &Partition,
        attempt: &Attempt,
        all_planned: impl Iterator<Item = (Timestamp, &'a Planned)>,
    ) -> Result<Reply, Failure> {
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(self.quorums.plain);
        batch.set_serial_consistency(Some(self.quorums.serial));
        let mut values = Vec::new();
        let (guard, bound) = attempt.guard(self, partition, attempt.id);
        batch.append_statement(guard.clone());
        values.push(bound);
        for (version, planned) in all_planned {
            let (statement, bound) = self.statement(partition, version, planned);
            #[cfg(feature = "mutants")]
            if mutants::is(Mutant::PlainWrite) && planned.condition == Condition::None {
                self.execute(Kind::Write, statement, bound)
                    .await
                    .map_err(|error| Failure::of_write(&error))?;
                continue;
            }
            batch.append_statement(statement.clone());
            values.push(bound);
        }
        let result = self.batch(Kind::Write, &batch, values).await;
        result.map_err(|error: ExecutionError| Failure::of_write(&error)).and_then(reply::read)
    }

    fn statement<'a>(
        &'a self,
        partition: &'a Partition,
        version: Timestamp,
        planned: &'a Planned,
    ) -> (&'a PreparedStatement, Vec<Bind<'a>>) {
        let row =
            [Bind::Big(partition.table), Bind::Blob(&partition.key), Bind::Blob(&planned.row)];
        let statements = &self.statements;
        let mut values = Vec::with_capacity(6);
        if let Some(document) = &planned.document {
            values.extend([Bind::Big(version.ticks().cast_signed()), Bind::Blob(document)]);
        }
        values.extend(row);
        let statement = match (&planned.document, planned.condition) {
            (Some(_), Condition::None) => &statements.put,
            (Some(_), Condition::Absent) => &statements.put_absent,
            (Some(_), Condition::Present) => &statements.put_present,
            (Some(_), Condition::At(wanted)) => {
                values.push(Bind::Big(wanted.cast_signed()));
                &statements.put_at
            }
            (None, Condition::At(wanted)) => {
                values.push(Bind::Big(wanted.cast_signed()));
                &statements.delete_at
            }
            (None, _) => &statements.delete_present,
        };
        (statement, values)
    }

    /// Some rows of a partition, linearizable.
    pub(crate) async fn rows(
        &self,
        partition_key: &str,
        partition: &Partition,
        keys: &[Vec<u8>],
    ) -> Result<PartitionRows, String> {
        let values = (partition.table, &partition.key[..], keys);
        let result = self.execute(Kind::Rows, &self.statements.get_some, values).await;
        let result = result.map_err(|error| error.to_string())?;
        let result = result.into_rows_result().map_err(|error| error.to_string())?;
        let mut read = PartitionRows::default();
        for row in result.rows::<(&[u8], &[u8])>().map_err(|error| error.to_string())? {
            let (key, document) = row.map_err(|error| error.to_string())?;
            let row =
                decode_text(key).and_then(|row_key| Row::new(partition_key, &row_key, document));
            match row {
                Ok(row) => drop(read.rows.insert(key.to_vec(), row)),
                Err(damage) => drop(read.damaged.insert(key.to_vec(), damage.to_string())),
            }
        }
        Ok(read)
    }
}

/// Some rows of a partition, by the bytes of their RowKeys.
#[derive(Debug, Default)]
pub(crate) struct PartitionRows {
    pub(crate) rows: HashMap<Vec<u8>, Row>,
    /// Rows whose stored bytes are not what was written, and what is wrong with them. To ask again
    /// would give the same.
    pub(crate) damaged: HashMap<Vec<u8>, String>,
}

impl PartitionRows {
    /// The first damage among them, if there is any.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damaged.values().next().map(String::as_str)
    }
}

/// The keys of the rows that a write must see before it can be planned.
fn keys_to_read(waiting: &Waiting) -> Vec<Vec<u8>> {
    if !needs_rows(&waiting.transaction, waiting.now) {
        return Vec::new();
    }
    let operations = waiting.transaction.operations().iter();
    operations.map(|operation| encode_text(operation.row_key().as_str())).collect()
}

/// Answers the writes that meet a damaged row, and leaves the others.
fn answer_damaged(group: Vec<Waiting>, damaged: &HashMap<Vec<u8>, String>) -> Vec<Waiting> {
    if damaged.is_empty() {
        return group;
    }
    let mut left = Vec::with_capacity(group.len());
    for waiting in group {
        match keys_to_read(&waiting).iter().find_map(|key| damaged.get(key)) {
            Some(damage) => waiting.answer(Err(StoreError::Corrupt(damage.clone()))),
            None => left.push(waiting),
        }
    }
    left
}

/// A value for a statement of a batch, borrowed where it is large.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bind<'a> {
    Big(i64),
    Int(i32),
    Id(Uuid),
    Blob(&'a [u8]),
}

impl SerializeValue for Bind<'_> {
    fn serialize<'b>(
        &self,
        column: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self {
            Self::Big(value) => value.serialize(column, writer),
            Self::Int(value) => value.serialize(column, writer),
            Self::Id(value) => value.serialize(column, writer),
            Self::Blob(value) => value.serialize(column, writer),
        }
    }
}

fn answer_all(waiting: Vec<Waiting>, error: impl Fn() -> StoreError) {
    for one in waiting {
        one.answer(Err(error()));
    }
}

/// Longer each time, and never the same for two front ends that meet.
pub(crate) fn pause(round: u32) -> Duration {
    let longest = PAUSE * 2u32.pow(round.min(PAUSE_DOUBLINGS_MAX));
    let share = u32::from(Uuid::new_v4().as_bytes()[0]) + 1;
    longest * share / 256
}
