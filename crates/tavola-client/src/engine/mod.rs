//! Runs calls: attempts, pauses, deadlines, read-back.

mod describe;
mod write;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tavola_core::request::Select;
use tavola_core::{EntityKey, TableName, TableRequest};
use tavola_protocol::table::decode::Decoded;
use tavola_protocol::table::encode::NextPage;
use tavola_protocol::table::entity_json::DecodedEntity;
use tavola_protocol::table::receive::Reply as Replied;
use tracing::Instrument as _;

use crate::crypt::Policy;
use crate::error::{Error, ErrorKind, Outcome};
use crate::options::{ClientOptions, OnUnknown};
use crate::retry::{Retry, RetryBudget, Throttles};
use crate::runtime::{Runtime, random_uuid, within};
use crate::store::{AttemptResult, Cause, Failure, Reply, Request, StoreTraits, TableStore};

pub(crate) use write::{Finished, Operation, Write};

/// How much of a deadline is kept for the read-back.
const READ_BACK_SHARE: u32 = 4;
const READ_BACK_TIME_MAX: Duration = Duration::from_secs(2);

/// What all clients of an account share.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    store: Arc<dyn TableStore>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) traits: StoreTraits,
    pub(crate) options: ClientOptions,
    pacing: Arc<Mutex<Pacing>>,
}

#[derive(Debug)]
struct Pacing {
    budget: RetryBudget,
    throttles: Throttles,
}

/// How one call behaves.
#[derive(Debug, Clone)]
pub(crate) struct CallSettings {
    pub(crate) retry: Retry,
    pub(crate) deadline: Option<Duration>,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) client_request_id: Option<String>,
    pub(crate) secondary: bool,
    /// An insert takes something: see [`crate::Call::claim`].
    pub(crate) claims: bool,
    /// A closure of `modify` may be applied twice.
    pub(crate) is_idempotent: bool,
    pub(crate) encryption: Policy,
}

/// What a call is about, for errors, spans and pauses.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) operation: &'static str,
    pub(crate) table: Option<TableName>,
    pub(crate) partition: Option<String>,
    pub(crate) key: Option<EntityKey>,
    /// The keys of a transaction's operations, and their names.
    pub(crate) operations: Vec<(&'static str, EntityKey)>,
}

impl Subject {
    pub(crate) fn new(operation: &'static str, table: Option<&TableName>) -> Self {
        let table = table.cloned();
        Self { operation, table, partition: None, key: None, operations: Vec::new() }
    }

    pub(crate) fn entity(operation: &'static str, table: &TableName, key: &EntityKey) -> Self {
        let partition = Some(key.partition_key.as_str().to_owned());
        Self { partition, key: Some(key.clone()), ..Self::new(operation, Some(table)) }
    }

    /// An error that happened before anything was sent, or after everything was read.
    pub(crate) fn located(&self, error: Error) -> Error {
        error.at(|context| {
            context.operation = Some(self.operation);
            context.table = self.table.as_ref().map(ToString::to_string);
            let key = self.key.clone().map(crate::key::EntityKey::from_core);
            context.key = key.or(context.key.take());
        })
    }

    /// What the service has a budget for.
    fn place(&self) -> Option<(String, String)> {
        Some((self.table.as_ref()?.folded(), self.partition.clone()?))
    }
}

impl Engine {
    pub(crate) fn new(store: Arc<dyn TableStore>, options: ClientOptions) -> Self {
        let runtime = store.runtime();
        let mut traits = store.traits();
        traits.flavour = options.flavour.unwrap_or(traits.flavour);
        let pacing = Pacing { budget: RetryBudget::new(), throttles: Throttles::default() };
        Self { store, runtime, traits, options, pacing: Arc::new(Mutex::new(pacing)) }
    }

    /// The same service, with the same connections, budgets and pauses, for calls that encrypt so.
    #[cfg(feature = "encrypt")]
    pub(crate) fn with_policy(&self, encryption: Policy) -> Self {
        let options = ClientOptions { encryption, ..self.options.clone() };
        Self { options, ..self.clone() }
    }

    pub(crate) fn settings(&self) -> CallSettings {
        CallSettings {
            retry: self.options.retry,
            deadline: self.options.deadline,
            on_unknown: self.options.on_unknown,
            client_request_id: None,
            secondary: false,
            claims: false,
            is_idempotent: false,
            encryption: self.options.encryption.clone(),
        }
    }

    /// Runs a request that changes nothing.
    pub(crate) async fn read(
        &self,
        subject: &Subject,
        request: TableRequest,
        select: Select,
        page: Option<NextPage>,
        settings: &CallSettings,
    ) -> Result<Decoded, Error> {
        let mut running = Running::new(self, subject, settings, false);
        let span = running.span();
        let read = async {
            loop {
                let mut attempt = running.request(request.clone());
                (attempt.select, attempt.page) = (select.clone(), page.clone());
                attempt.secondary = settings.secondary;
                let failure = match running.attempt(attempt).await {
                    Ok(Reply(received)) => match received.reply {
                        Replied::Decoded(decoded) => return Ok(decoded),
                        Replied::Written(_) => Failure::lost("the answer is to another request"),
                    },
                    Err(failure) => failure,
                };
                if !failure.may_repeat() || !running.pause(Some(&failure)).await {
                    return Err(running.error(&failure, read_outcome(&failure)));
                }
            }
        };
        read.instrument(span).await
    }

    /// Reads one entity; `None` if there is none.
    pub(crate) async fn get(
        &self,
        table: &TableName,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<DecodedEntity>, Error> {
        let subject = Subject::entity("get", table, key);
        let request = TableRequest::GetEntity(table.clone(), key.clone());
        match self.read(&subject, request, Select::All, None, settings).await {
            Ok(Decoded::Entity(entity)) => {
                self.open(&subject, entity, &Select::All, settings).await.map(Some)
            }
            Ok(_) => Ok(None),
            Err(error) if error.code() == Some("ResourceNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Decrypts what was read, if there are keys. Asking a vault must end by the deadline too.
    pub(crate) async fn open(
        &self,
        subject: &Subject,
        entity: DecodedEntity,
        select: &Select,
        settings: &CallSettings,
    ) -> Result<DecodedEntity, Error> {
        if !settings.encryption.has_keys() {
            return Ok(entity);
        }
        let open = settings.encryption.open(entity, select);
        let opened = within(&*self.runtime, settings.deadline, open).await;
        opened.unwrap_or_else(|| Err(keys_are_late())).map_err(|error| subject.located(error))
    }
}

pub(crate) fn keys_are_late() -> Error {
    let text = "the call's time was over before its keys could be had";
    Error::new(ErrorKind::Deadline, Outcome::NotSent, text)
}

fn read_outcome(failure: &Failure) -> Outcome {
    match failure.result {
        AttemptResult::NotSent => Outcome::NotSent,
        _ => Outcome::NotApplied,
    }
}

/// One call while it runs.
struct Running<'e> {
    engine: &'e Engine,
    subject: &'e Subject,
    settings: &'e CallSettings,
    client_request_id: String,
    begun: Duration,
    attempts: u32,
    is_write: bool,
}

impl<'e> Running<'e> {
    fn new(
        engine: &'e Engine,
        subject: &'e Subject,
        settings: &'e CallSettings,
        is_write: bool,
    ) -> Self {
        let begun = engine.runtime.now();
        let client_request_id = settings
            .client_request_id
            .clone()
            .unwrap_or_else(|| random_uuid(&*engine.runtime).to_string());
        engine.pacing().budget.on_call(begun);
        Self { engine, subject, settings, client_request_id, begun, attempts: 0, is_write }
    }

    /// Names and numbers only: neither keys nor values nor credentials.
    fn span(&self) -> tracing::Span {
        tracing::debug_span!(
            "table call",
            otel.kind = "client",
            db.system.name = "azure.tables",
            db.operation.name = self.subject.operation,
            db.collection.name = self.subject.table.as_ref().map(tracing::field::display),
            db.namespace = self.engine.traits.account.as_deref(),
            az.client_request_id = %self.client_request_id,
        )
    }

    fn request(&self, operation: TableRequest) -> Request {
        Request::new(operation, self.client_request_id.clone())
    }

    fn elapsed(&self) -> Duration {
        self.engine.runtime.now().saturating_sub(self.begun)
    }

    /// What is left of the deadline; for attempts at a write without what the read-back needs.
    fn time_left(&self, is_read_back: bool) -> Option<Duration> {
        let deadline = self.settings.deadline?;
        let kept = if self.is_write && !is_read_back {
            (deadline / READ_BACK_SHARE).min(READ_BACK_TIME_MAX)
        } else {
            Duration::ZERO
        };
        Some(deadline.saturating_sub(kept).saturating_sub(self.elapsed()))
    }

    /// One attempt, as soon as the partition may be asked.
    async fn attempt(&mut self, request: Request) -> Result<Reply, Failure> {
        self.attempts += 1;
        let runtime = &*self.engine.runtime;
        let place = self.subject.place();
        let wait = self.engine.pacing().throttles.wait(place.as_ref(), runtime.now());
        let late = |result| Failure::new(result, Cause::Deadline);
        if self.time_left(false).is_some_and(|left| left <= wait) {
            return Err(late(AttemptResult::NotSent));
        }
        if !wait.is_zero() {
            runtime.sleep(wait).await;
        }
        let span = tracing::debug_span!("attempt", http.request.resend_count = self.attempts - 1);
        let sent = self.engine.store.execute(request).instrument(span);
        let result = within(runtime, self.time_left(false), sent).await;
        let result = result.unwrap_or(Err(late(AttemptResult::Unknown)));
        if let Err(failure) = &result {
            tracing::debug!(result = ?failure.result, attempt = self.attempts, "attempt failed");
            self.heed(failure, place);
        }
        result
    }

    /// A partition that was asked too much is left alone for a while.
    fn heed(&self, failure: &Failure, place: Option<(String, String)>) {
        if failure.result == AttemptResult::Throttled {
            let now = self.engine.runtime.now();
            let delay = failure.retry_after().unwrap_or_else(|| self.delay());
            self.engine.pacing().throttles.on_throttled(place, now, delay);
        }
    }

    fn delay(&self) -> Duration {
        self.settings.retry.delay(self.attempts, self.engine.runtime.random())
    }

    /// Waits before the next attempt; false if there must be none.
    async fn pause(&mut self, failure: Option<&Failure>) -> bool {
        let retry = &self.settings.retry;
        let delay = match failure.and_then(Failure::retry_after) {
            Some(asked) => asked.max(self.delay()),
            None => self.delay(),
        };
        let over = self.elapsed() + delay;
        let is_late = over > retry.total || self.time_left(false).is_some_and(|left| left <= delay);
        if self.attempts >= retry.attempts || is_late {
            return false;
        }
        let now = self.engine.runtime.now();
        if !self.engine.pacing().budget.take(now) {
            return false;
        }
        self.engine.runtime.sleep(delay).await;
        true
    }
}

impl Engine {
    fn pacing(&self) -> std::sync::MutexGuard<'_, Pacing> {
        self.pacing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
