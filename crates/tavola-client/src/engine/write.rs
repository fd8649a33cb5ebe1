//! Runs a write through the machine of [`crate::unknown`].

use std::time::SystemTime;

use tavola_core::request::Select;
use tavola_core::{
    EdmRef, EdmValue, EntityGroupTransaction, EntityKey, EntityOperation, PartitionKey,
    Precondition, Properties, TableName, TableRequest,
};
use tavola_protocol::table::decode::{Decoded, ServiceError};
use tavola_protocol::table::entity_json::DecodedEntity;
use tavola_protocol::table::receive::{Reply as Replied, WriteReply};
use tracing::Instrument as _;

use super::{CallSettings, Count, Engine, Running, Subject, keys_are_late};
use crate::error::{Error, Outcome};
use crate::options::OnUnknown;
use crate::runtime::within;
use crate::store::{AttemptResult, Cause, Failure, Reply};
use crate::unknown::{Action, Claim, End, Event, Guard, Machine, Proof, Refusal, Row};

/// Attempts at one read of the read-back.
const READS_MAX: u32 = 3;

/// One operation of a write.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) claim: Claim,
    pub(crate) operation: EntityOperation,
    /// The property and the id by which this write is recognised.
    pub(crate) write_id: Option<(String, String)>,
}

impl Operation {
    /// True if an id of the write could be stored, and none is.
    fn lacks_id(&self) -> bool {
        self.write_id.is_none() && !matches!(self.operation, EntityOperation::Delete(..))
    }
}

/// What to write.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    /// Entities of one partition; one alone is sent as itself.
    Entities {
        table: TableName,
        partition_key: PartitionKey,
        operations: Vec<Operation>,
        is_transaction: bool,
    },
    /// Tables and settings.
    Other(TableRequest, Claim),
}

/// What a write came to.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) proof: Proof,
    /// What was there already, or is gone already, is as good.
    pub(crate) is_existing: bool,
    /// One for each operation, in their order.
    pub(crate) replies: Vec<WriteReply>,
    pub(crate) attempts: u32,
}

/// A write while it runs.
struct Writing<'e> {
    running: Running<'e>,
    write: &'e Write,
    /// The rows as last read.
    seen: Vec<Option<DecodedEntity>>,
    /// The operations that were sent last: those that a guard has made needless are left out.
    sent: Vec<usize>,
    sent_at: SystemTime,
    replies: Vec<WriteReply>,
    last: Option<Failure>,
    /// The failure that first made the outcome unknown.
    loss: Option<Failure>,
}

impl Engine {
    /// Runs a write to its end.
    pub(crate) async fn write(
        &self,
        subject: &Subject,
        write: &Write,
        settings: &CallSettings,
    ) -> Result<Finished, Error> {
        let running = Running::new(self, subject, settings, true);
        let span = running.span();
        let sealing = self.seal(write, settings).instrument(span.clone());
        let sealed = match within(&*self.runtime, running.time_left(false), sealing).await {
            Some(sealed) => sealed.map_err(|error| subject.located(error))?,
            None => return Err(subject.located(keys_are_late())),
        };
        let write = sealed.as_ref().unwrap_or(write);
        let count = write.operations().len();
        let mut writing = Writing {
            running,
            write,
            seen: vec![None; count],
            sent: Vec::new(),
            sent_at: SystemTime::UNIX_EPOCH,
            replies: Vec::new(),
            last: None,
            loss: None,
        };
        let reports = settings.on_unknown == OnUnknown::Report;
        let result = writing.run(reports).instrument(span.clone()).await;
        let proof = result.as_ref().map(|finished| Some(finished.proof));
        writing.running.observe_call(&span, proof, None);
        if result.is_ok() {
            self.observe_write(write);
        }
        result
    }

    fn observe_write(&self, write: &Write) {
        let Write::Entities { table, partition_key, operations, .. } = write else { return };
        if let Some(mut observed) = self.observed() {
            let table = table.folded();
            for one in operations {
                observed.on_write(&table, partition_key.as_str(), &one.operation);
            }
        }
    }

    /// The write with what is to be encrypted encrypted, once for all its attempts; `None` if that is
    /// nothing.
    async fn seal(&self, write: &Write, settings: &CallSettings) -> Result<Option<Write>, Error> {
        let Write::Entities { table, partition_key, operations, is_transaction } = write else {
            return Ok(None);
        };
        let policy = &settings.encryption;
        if !operations.iter().any(|one| policy.concerns(partition_key.as_str(), one)) {
            return Ok(None);
        }
        let mut sealed = Vec::with_capacity(operations.len());
        for operation in operations {
            sealed.push(policy.seal(partition_key, operation.clone()).await?);
        }
        Ok(Some(Write::Entities {
            table: table.clone(),
            partition_key: partition_key.clone(),
            operations: sealed,
            is_transaction: *is_transaction,
        }))
    }
}

impl Write {
    fn operations(&self) -> &[Operation] {
        match self {
            Self::Entities { operations, .. } => operations,
            Self::Other(..) => &[],
        }
    }

    fn claims(&self) -> Vec<(Claim, bool)> {
        match self {
            Self::Entities { operations, .. } => {
                operations.iter().map(|one| (one.claim, one.write_id.is_some())).collect()
            }
            Self::Other(_, claim) => vec![(*claim, false)],
        }
    }
}

impl Writing<'_> {
    async fn run(&mut self, reports: bool) -> Result<Finished, Error> {
        let mut machine = Machine::new(self.write.claims(), reports);
        let mut action = machine.start();
        let mut is_first = true;
        loop {
            action = match action {
                Action::Send(guard) => {
                    if !is_first && !self.running.pause(self.last.clone().as_ref()).await {
                        machine.on(&Event::GaveUp)
                    } else {
                        is_first = false;
                        self.send(&mut machine, guard).await
                    }
                }
                Action::Read => self.read_back(&mut machine).await,
                Action::Finish(end) => return self.finish(end, machine.has_losses()),
            };
        }
    }

    async fn send(&mut self, machine: &mut Machine, guard: Guard) -> Action {
        let request = match self.request(guard) {
            Ok(Some(request)) => self.running.request(request),
            // Nothing is left to do: every row is as it was asked for.
            Ok(None) => return machine.on(&Event::Replied),
            Err(failure) => {
                self.last = Some(failure);
                return machine.on(&Event::GaveUp);
            }
        };
        self.sent_at = self.running.engine.runtime.time_of_day();
        let failure = match self.running.attempt(request).await {
            Ok(Reply(received)) => {
                self.replies = match received.reply {
                    Replied::Written(replies) => replies,
                    Replied::Decoded(_) => Vec::new(),
                };
                return machine.on(&Event::Replied);
            }
            Err(failure) => failure,
        };
        let action = match (failure.result, failure.may_repeat()) {
            (AttemptResult::Refused, _) => {
                let (index, refusal) = refusal(&failure);
                let index = index.and_then(|index| self.sent.get(index).copied());
                machine.on(&Event::Refused(index, refusal))
            }
            (AttemptResult::Unknown, _) => {
                self.loss = Some(failure.clone());
                machine.on(&Event::Lost)
            }
            (AttemptResult::NotSent | AttemptResult::Throttled, true) => {
                machine.on(&Event::NotApplied)
            }
            (AttemptResult::NotSent | AttemptResult::Throttled, false) => {
                machine.on(&Event::GaveUp)
            }
        };
        self.last = Some(failure);
        action
    }

    /// The request under a guard; `None` if no operation is left.
    fn request(&mut self, guard: Guard) -> Result<Option<TableRequest>, Failure> {
        let (table, partition_key, operations, is_transaction) = match self.write {
            Write::Other(request, _) => return Ok(Some(request.clone())),
            Write::Entities { table, partition_key, operations, is_transaction } => {
                (table, partition_key, operations, *is_transaction)
            }
        };
        self.sent.clear();
        let mut guarded = Vec::with_capacity(operations.len());
        for (index, one) in operations.iter().enumerate() {
            let operation = match guard {
                Guard::Own => Some(one.operation.clone()),
                Guard::AsSeen => as_seen(&one.operation, self.seen[index].as_ref()),
            };
            if let Some(operation) = operation {
                self.sent.push(index);
                guarded.push((partition_key.clone(), operation));
            }
        }
        if guarded.is_empty() {
            return Ok(None);
        }
        if !is_transaction && let Some((partition_key, operation)) = guarded.pop() {
            return Ok(Some(TableRequest::Write(table.clone(), partition_key, operation)));
        }
        let group = EntityGroupTransaction::new(guarded).map_err(|_| {
            let reason = "the operations cannot be one transaction".to_owned();
            Failure::new(AttemptResult::NotSent, Cause::Invalid(reason))
        })?;
        Ok(Some(TableRequest::Transaction(table.clone(), group)))
    }

    /// Reads the rows that decide, on the primary.
    async fn read_back(&mut self, machine: &mut Machine) -> Action {
        let Write::Entities { table, partition_key, operations, .. } = self.write else {
            return machine.on(&Event::ReadFailed);
        };
        let mut rows = Vec::new();
        for index in machine.witnesses() {
            let one = &operations[index];
            let key = EntityKey::new(partition_key.clone(), one.operation.row_key().clone());
            match self.read_one(table, key).await {
                Ok(found) => {
                    rows.push((index, row(one, found.as_ref())));
                    self.seen[index] = found;
                }
                Err(failure) => {
                    tracing::debug!(result = ?failure.result, "the read-back failed");
                    return machine.on(&Event::ReadFailed);
                }
            }
        }
        machine.on(&Event::Seen(&rows))
    }

    async fn read_one(
        &mut self,
        table: &TableName,
        key: EntityKey,
    ) -> Result<Option<DecodedEntity>, Failure> {
        let runtime = std::sync::Arc::clone(&self.running.engine.runtime);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let get = TableRequest::GetEntity(table.clone(), key.clone());
            let mut request = self.running.request(get);
            request.select = Select::All;
            let failure = match self.running.send(request, attempt - 1, true).await {
                Ok(Reply(received)) => match received.reply {
                    Replied::Decoded(Decoded::Entity(entity)) => return Ok(Some(entity)),
                    _ => Failure::lost("the answer is to another request"),
                },
                Err(failure) => failure,
            };
            if refusal(&failure).1 == Refusal::Missing {
                return Ok(None);
            }
            let is_over = self.running.time_left(true).is_some_and(|left| left.is_zero());
            if attempt == READS_MAX || is_over || !failure.may_repeat() {
                return Err(failure);
            }
            runtime.sleep(self.running.settings.retry.delay(attempt, runtime.random())).await;
        }
    }

    fn finish(&mut self, end: End, has_losses: bool) -> Result<Finished, Error> {
        let attempts = self.running.attempts;
        let finished =
            |proof, is_existing, replies| Finished { proof, is_existing, replies, attempts };
        let outcome = if has_losses { Outcome::Unknown } else { Outcome::NotApplied };
        match end {
            End::Done(proof) => Ok(finished(proof, false, self.write_replies(proof))),
            End::Existing => Ok(finished(Proof::State, true, Vec::new())),
            End::Refused | End::RefusedAfterLoss => Err(self.last_error(outcome)),
            End::Exists => Err(self.exists()),
            End::NotApplied => {
                let is_sent =
                    self.last.as_ref().is_some_and(|last| last.result != AttemptResult::NotSent);
                Err(self.last_error(if is_sent { Outcome::NotApplied } else { Outcome::NotSent }))
            }
            End::Undecided(observed) => {
                tracing::warn!(?observed, "the outcome of a write is unknown");
                let running = &self.running;
                running.engine.metrics.count(Count::UnknownOutcome, running.subject.table.as_ref());
                let can_have_id = self.write.operations().iter().any(Operation::lacks_id);
                Err(running.undecided(self.loss.as_ref(), observed, self.sent_at, can_have_id))
            }
        }
    }

    fn last_error(&self, outcome: Outcome) -> Error {
        match &self.last {
            Some(failure) => self.running.error(failure, outcome),
            None => self.running.error(&Failure::lost("nothing was sent"), outcome),
        }
    }

    /// Another entity has the key; whether ours was there before, nobody knows.
    fn exists(&self) -> Error {
        let service = ServiceError {
            status: http::StatusCode::CONFLICT,
            code: "EntityAlreadyExists".to_owned(),
            message: String::new(),
            operation: None,
        };
        let refused = Failure::new(AttemptResult::Refused, Cause::Service(service));
        self.running.error(&refused, Outcome::Unknown)
    }

    /// A reply for each operation: the service's, or what the rows say.
    fn write_replies(&mut self, proof: Proof) -> Vec<WriteReply> {
        let mut replied = std::mem::take(&mut self.replies).into_iter();
        let mut all = Vec::with_capacity(self.seen.len());
        for (index, seen) in self.seen.iter().enumerate() {
            let was_sent = proof == Proof::Reply && self.sent.contains(&index);
            let reply = was_sent.then(|| replied.next()).flatten();
            all.push(reply.unwrap_or_else(|| WriteReply {
                status: http::StatusCode::NO_CONTENT,
                etag: seen.as_ref().and_then(|entity| entity.etag.clone()),
                timestamp: seen.as_ref().and_then(|entity| entity.timestamp),
                echo: None,
            }));
        }
        all
    }
}

/// Why the service refused, and which operation.
fn refusal(failure: &Failure) -> (Option<usize>, Refusal) {
    let Cause::Service(error) = &*failure.cause else { return (None, Refusal::Other) };
    let refusal = match (error.status.as_u16(), error.code.as_str()) {
        (409, "EntityAlreadyExists" | "TableAlreadyExists") => Refusal::Exists,
        (404, "ResourceNotFound" | "EntityNotFound") => Refusal::Missing,
        (412, _) => Refusal::Changed,
        _ => Refusal::Other,
    };
    (error.operation.or(Some(0)), refusal)
}

/// An unconditional operation under the condition that the row is still as it was read; `None` if
/// it is as it should be.
fn as_seen(operation: &EntityOperation, seen: Option<&DecodedEntity>) -> Option<EntityOperation> {
    let tag = seen.and_then(|entity| entity.etag.clone()).map(Precondition::Version);
    Some(match (operation, tag) {
        (EntityOperation::Replace(new, Precondition::None | Precondition::Exists), Some(tag)) => {
            EntityOperation::Replace(new.clone(), tag)
        }
        (EntityOperation::Merge(new, Precondition::None | Precondition::Exists), Some(tag)) => {
            EntityOperation::Merge(new.clone(), tag)
        }
        (
            EntityOperation::Replace(new, Precondition::None)
            | EntityOperation::Merge(new, Precondition::None),
            None,
        ) => EntityOperation::Insert(new.clone()),
        (
            EntityOperation::Delete(row_key, Precondition::None | Precondition::Exists),
            Some(tag),
        ) => EntityOperation::Delete(row_key.clone(), tag),
        (EntityOperation::Delete(_, Precondition::None | Precondition::Exists), None) => {
            return None;
        }
        (other, _) => other.clone(),
    })
}

/// What a row tells about an operation.
fn row(one: &Operation, found: Option<&DecodedEntity>) -> Row {
    let Some(found) = found else { return Row::Absent };
    let (new, precondition) = match &one.operation {
        EntityOperation::Insert(new) => (Some(new), None),
        EntityOperation::Replace(new, precondition) | EntityOperation::Merge(new, precondition) => {
            (Some(new), Some(precondition))
        }
        EntityOperation::Delete(_, precondition) => (None, Some(precondition)),
    };
    let is_same_version = match (precondition, &found.etag) {
        (Some(Precondition::Version(wanted)), Some(tag)) => wanted == tag,
        _ => false,
    };
    let is_merge = matches!(one.operation, EntityOperation::Merge(..));
    let has_write_id = one.write_id.as_ref().is_some_and(|(name, id)| {
        matches!(found.properties.get(name), Some(EdmRef::String(stored)) if stored.as_str() == id)
    });
    let is_as_sent = new.is_some_and(|new| {
        let is_whole = is_merge || new.properties().len() == found.properties.len();
        is_whole && holds(&found.properties, new.properties())
    });
    Row::Present { is_same_version, has_write_id, is_as_sent }
}

/// True if all of `sent` is in `stored`.
fn holds(stored: &Properties, sent: &Properties) -> bool {
    sent.iter().all(|(name, value)| {
        stored.get(name).is_some_and(|stored| same(&stored.to_owned(), &value.to_owned()))
    })
}

/// NaN is what was sent if it is what is stored.
fn same(stored: &EdmValue, sent: &EdmValue) -> bool {
    match (stored, sent) {
        (EdmValue::Double(stored), EdmValue::Double(sent)) => {
            stored == sent || (stored.is_nan() && sent.is_nan())
        }
        _ => stored == sent,
    }
}
