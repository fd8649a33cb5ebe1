//! Runs calls: attempts, pauses, deadlines, read-back.

mod describe;
mod metrics;
mod observe;
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

use crate::advise::Observed;
#[cfg(feature = "encrypt")]
use crate::crypt::Policy;
use crate::error::{Error, ErrorKind, Outcome};
use crate::explain::Access;
use crate::options::{ClientOptions, Options};
use crate::retry::{RetryBudget, Throttles};
use crate::runtime::{Runtime, random_uuid, within};
use crate::store::{AttemptResult, Cause, Failure, Reply, Request, StoreTraits, TableStore};

pub(crate) use crate::options::CallSettings;
pub(crate) use metrics::{Count, Metrics};
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
    pub(crate) metrics: Metrics,
    /// Host and port of the service.
    server: Option<(String, u16)>,
    pacing: Arc<Mutex<Pacing>>,
    /// What went through, if the client is to give advice.
    observed: Option<Arc<Mutex<Observed>>>,
}

#[derive(Debug)]
struct Pacing {
    budget: RetryBudget,
    throttles: Throttles,
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
    /// How a read reaches its rows.
    pub(crate) access: Option<Access>,
}

impl Subject {
    pub(crate) fn new(operation: &'static str, table: Option<&TableName>) -> Self {
        let table = table.cloned();
        Self { operation, table, partition: None, key: None, operations: Vec::new(), access: None }
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
        let server = observe::server_of(&traits.endpoint);
        let metrics = Metrics::new(&traits, server.as_ref(), &options);
        let pacing = Arc::new(Mutex::new(pacing));
        let observed = options.advises.then(Arc::default);
        Self { store, runtime, traits, options, metrics, server, pacing, observed }
    }

    pub(crate) fn settings(&self) -> CallSettings {
        let encryption = self.options.encryption.clone();
        CallSettings { encryption, ..CallSettings::new(&self.options.calls) }
    }

    /// The same service, with the same connections, budgets and pauses, for calls that behave as
    /// `over` says.
    pub(crate) fn with_options(&self, over: Options) -> Self {
        let options = self.options.clone().options(over);
        Self { options, ..self.clone() }
    }

    /// The same for calls that encrypt so.
    #[cfg(feature = "encrypt")]
    pub(crate) fn with_policy(&self, encryption: Policy) -> Self {
        let options = ClientOptions { encryption, ..self.options.clone() };
        Self { options, ..self.clone() }
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
                        Replied::Decoded(decoded) => {
                            self.observe_page(&request, &decoded);
                            return Ok(decoded);
                        }
                        Replied::Written(_) => Failure::lost("the answer is to another request"),
                    },
                    Err(failure) => failure,
                };
                if !failure.may_repeat() || !running.pause(Some(&failure)).await {
                    return Err(running.error(&failure, read_outcome(&failure)));
                }
            }
        };
        let result = read.instrument(span.clone()).await;
        let rows = result.as_ref().map_or(Some(0), observe::rows_of);
        running.observe_call(&span, result.as_ref().map(|_| None), rows);
        result
    }

    /// Reads one entity; `None` if there is none.
    pub(crate) async fn get(
        &self,
        table: &TableName,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<DecodedEntity>, Error> {
        let access = Some(Access::Point);
        let subject = Subject { access, ..Subject::entity("get", table, key) };
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
    last: observe::LastAnswer,
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
        Self {
            engine,
            subject,
            settings,
            client_request_id,
            begun,
            attempts: 0,
            is_write,
            last: observe::LastAnswer::default(),
        }
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
            self.engine.metrics.delayed(wait, self.subject.table.as_ref());
            runtime.sleep(wait).await;
        }
        let result = self.send(request, self.attempts - 1, false).await;
        if let Err(failure) = &result {
            tracing::debug!(result = ?failure.result, attempt = self.attempts, "attempt failed");
            self.heed(failure, place);
        }
        result
    }

    /// Sends a request once, under the deadline and in a span of its own.
    async fn send(
        &mut self,
        request: Request,
        resend_count: u32,
        is_read_back: bool,
    ) -> Result<Reply, Failure> {
        let span = self.attempt_span(resend_count);
        let sent = self.engine.store.execute(request).instrument(span.clone());
        let sent = within(&*self.engine.runtime, self.time_left(is_read_back), sent).await;
        let late = || Failure::new(AttemptResult::Unknown, Cause::Deadline);
        let result = sent.unwrap_or_else(|| Err(late()));
        self.observe_attempt(&span, &result);
        result
    }

    /// A partition that was asked too much is left alone for a while.
    fn heed(&self, failure: &Failure, place: Option<(String, String)>) {
        if failure.result == AttemptResult::Throttled {
            let now = self.engine.runtime.now();
            let delay = failure.retry_after().unwrap_or_else(|| self.delay());
            self.engine.metrics.count(Count::Throttled, self.subject.table.as_ref());
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
        self.engine.metrics.count(Count::Retry, self.subject.table.as_ref());
        self.engine.runtime.sleep(delay).await;
        true
    }
}

impl Engine {
    /// What went through, if figures are kept.
    pub(crate) fn observed(&self) -> Option<std::sync::MutexGuard<'_, Observed>> {
        let observed = self.observed.as_ref()?;
        Some(observed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn observe_page(&self, request: &TableRequest, answer: &Decoded) {
        let (TableRequest::QueryEntities(table, query), Decoded::Entities(rows, _)) =
            (request, answer)
        else {
            return;
        };
        if let Some(mut observed) = self.observed() {
            observed.on_page(&table.folded(), query.filter.as_ref(), rows.len());
        }
    }

    fn pacing(&self) -> std::sync::MutexGuard<'_, Pacing> {
        self.pacing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
