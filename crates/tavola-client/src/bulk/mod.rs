//! Many writes, in as few requests as possible. Not atomic.

mod checkpoint;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures_core::Stream;
use futures_util::stream::{self, StreamExt as _};
use tavola_core::{EntityKey as CoreKey, PartitionKey};

pub use checkpoint::Checkpoint;

use crate::call::Call;
use crate::client::{TableClient, Transaction};
use crate::engine::{CallSettings, Operation};
use crate::entity::{Entity, Stored};
use crate::error::{Error, Rule};
use crate::prepare::{Prepared, delete};
use crate::unknown::Claim;
use crate::written::{IfMatch, Mode};

/// So many entities wait for others of their partition.
const WINDOW: usize = 5000;
/// Transactions at a time, unless something else is said.
const PARALLEL: usize = 8;

/// Many writes: grouped by partition, in transactions of up to 100, several partitions at a time,
/// those of one partition one after the other in the order of the input. An entity that comes twice
/// is written twice. Not atomic: what failed is in the report, and the rest is written.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, Mode, TableServiceClient};
///
/// # let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("people");
/// # table.create().await?;
/// let people = (0..250).map(|number| DynEntity::new("Smith", format!("{number:03}")));
/// let report = table.bulk().parallel(4).upsert_all(people, Mode::Replace).await?.into_result()?;
/// assert_eq!((report.written, report.requests), (250, 3));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before one of the methods that end in _all or _stream is awaited"]
pub struct Bulk<'a> {
    client: &'a TableClient,
    parallel: usize,
    done: Checkpoint,
    watch: Option<Watch<'a>>,
}

type Watch<'a> = Box<dyn FnMut(&BulkReport) + Send + 'a>;

impl fmt::Debug for Bulk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").field("parallel", &self.parallel).finish_non_exhaustive()
    }
}

/// What became of many writes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// table.insert(&DynEntity::new("Smith", "1")).await?;
/// let people = ["1", "2"].map(|row| DynEntity::new("Smith", row));
/// let others = [DynEntity::new("Jones", "1")];
/// let report = table.bulk().insert_all(people.into_iter().chain(others)).await?;
/// assert_eq!(report.written, 1);
/// assert_eq!(report.failed[0].inputs, [0, 1], "they were sent together");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct BulkReport {
    /// Entities that were written.
    pub written: usize,
    /// Transactions that were sent, without repetitions.
    pub requests: usize,
    /// Repetitions.
    pub retries: usize,
    /// What failed.
    pub failed: Vec<BulkFailure>,
    /// Which inputs are written, those of earlier runs included. A later run over the same input
    /// leaves them out: [`Bulk::resume`].
    pub checkpoint: Checkpoint,
}

/// Entities that were not written, or nobody knows.
#[derive(Debug)]
#[non_exhaustive]
pub struct BulkFailure {
    /// Their places in the input. They were sent together, so that all share the failure.
    pub inputs: Vec<usize>,
    /// Why.
    pub error: Error,
}

impl BulkReport {
    /// # Errors
    /// The first failure, if there is one.
    pub fn into_result(mut self) -> Result<Self, Error> {
        if self.failed.is_empty() {
            return Ok(self);
        }
        Err(self.failed.swap_remove(0).error)
    }
}

/// One operation with its place in the input.
struct Input {
    at: usize,
    name: &'static str,
    key: CoreKey,
    operation: Operation,
}

impl TableClient {
    /// Many writes in as few requests as possible.
    pub fn bulk(&self) -> Bulk<'_> {
        Bulk { client: self, parallel: PARALLEL, done: Checkpoint::default(), watch: None }
    }
}

impl<'a> Bulk<'a> {
    /// So many transactions at a time.
    pub fn parallel(self, parallel: usize) -> Self {
        Self { parallel: parallel.max(1), ..self }
    }

    /// Leaves out what an earlier run over the same input has written. What failed then, or of which
    /// nobody knows, is sent again.
    pub fn resume(self, checkpoint: Checkpoint) -> Self {
        Self { done: checkpoint, ..self }
    }

    /// Tells `watch` what it came to so far, after each transaction: for progress, and to keep the
    /// checkpoint of a run that may not reach its end.
    pub fn watch(self, watch: impl FnMut(&BulkReport) + Send + 'a) -> Self {
        Self { watch: Some(Box::new(watch)), ..self }
    }

    /// Writes all entities whether or not there are some with their keys.
    pub fn upsert_all<E: Entity>(
        self,
        entities: impl IntoIterator<Item = E, IntoIter: Send + 'a>,
        mode: Mode,
    ) -> Call<'a, BulkReport> {
        self.upsert_stream(stream::iter(entities), mode)
    }

    /// The same with entities as they come: those that are there are sent, without waiting for more.
    pub fn upsert_stream<E: Entity>(
        self,
        entities: impl Stream<Item = E> + Send + 'a,
        mode: Mode,
    ) -> Call<'a, BulkReport> {
        self.run("upsert", entities, move |client, entity: &E| {
            let prepared = Prepared::new(client.engine(), entity, &[])?;
            Ok((prepared.key.clone(), prepared.upsert(mode)))
        })
    }

    /// Adds all entities; of a transaction in which one exists already none is added.
    pub fn insert_all<E: Entity>(
        self,
        entities: impl IntoIterator<Item = E, IntoIter: Send + 'a>,
    ) -> Call<'a, BulkReport> {
        self.run("insert", stream::iter(entities), |client, entity: &E| {
            let prepared = Prepared::new(client.engine(), entity, &[])?;
            Ok((prepared.key.clone(), prepared.insert(Claim::Insert)))
        })
    }

    /// Deletes all entities, if nobody changed them since they were read.
    pub fn delete_all<E: Entity>(
        self,
        entities: impl IntoIterator<Item = Stored<E>, IntoIter: Send + 'a>,
    ) -> Call<'a, BulkReport> {
        self.run("delete", stream::iter(entities), |_, stored: &Stored<E>| {
            let key = stored.key().as_core().clone();
            let operation = delete(&key, &IfMatch::Version(stored.etag().clone()))?;
            Ok((key, operation))
        })
    }

    fn run<T: Send + 'a>(
        self,
        name: &'static str,
        items: impl Stream<Item = T> + Send + 'a,
        prepare: impl Fn(&TableClient, &T) -> Result<(CoreKey, Operation), Error> + Send + Sync + 'a,
    ) -> Call<'a, BulkReport> {
        let Self { client, parallel, done, watch } = self;
        Call::new(client.engine().settings(), move |settings| async move {
            let progress = Progress::new(done.clone(), watch);
            let mut windows = std::pin::pin!(items.enumerate().ready_chunks(WINDOW));
            while let Some(window) = windows.next().await {
                let mut inputs = Vec::with_capacity(window.len());
                for (at, item) in window.into_iter().filter(|(at, _)| !done.contains(*at)) {
                    match prepare(client, &item) {
                        Ok((key, operation)) => inputs.push(Input { at, name, key, operation }),
                        Err(error) => progress.fail(vec![at], None, error),
                    }
                }
                send_window(client, inputs, parallel, &settings, &progress).await;
            }
            Ok(progress.finish())
        })
    }
}

/// What it came to so far. The partitions that are written at the same time share it.
struct Progress<'a>(Mutex<State<'a>>);

struct State<'a> {
    report: BulkReport,
    watch: Option<Watch<'a>>,
    /// Entities whose write failed: a later one must not be applied before it, because a run that
    /// resumes would then apply the older one last.
    failed: HashSet<CoreKey>,
}

impl<'a> Progress<'a> {
    fn new(checkpoint: Checkpoint, watch: Option<Watch<'a>>) -> Self {
        let report = BulkReport { checkpoint, ..BulkReport::default() };
        Self(Mutex::new(State { report, watch, failed: HashSet::new() }))
    }

    fn change(&self, change: impl FnOnce(&mut State<'a>)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let State { report, watch, .. } = &mut *state;
        if let Some(watch) = watch {
            watch(report);
        }
    }

    fn fail(&self, inputs: Vec<usize>, keys: impl IntoIterator<Item = CoreKey>, error: Error) {
        self.change(|state| {
            state.failed.extend(keys);
            state.report.failed.push(BulkFailure { inputs, error });
        });
    }

    fn has_failed(&self, key: &CoreKey) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.contains(key)
    }

    fn finish(self) -> BulkReport {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).report
    }
}

/// Partitions at the same time, the transactions of each one after the other.
async fn send_window(
    client: &TableClient,
    inputs: Vec<Input>,
    parallel: usize,
    settings: &CallSettings,
    progress: &Progress<'_>,
) {
    let mut partitions: BTreeMap<PartitionKey, Vec<Input>> = BTreeMap::new();
    for input in inputs {
        partitions.entry(input.key.partition_key.clone()).or_default().push(input);
    }
    let sent = partitions
        .into_iter()
        .map(|(key, inputs)| send_partition(client, key, inputs, settings, progress));
    let mut sent = stream::iter(sent).buffer_unordered(parallel);
    while sent.next().await.is_some() {}
}

async fn send_partition(
    client: &TableClient,
    partition: PartitionKey,
    inputs: Vec<Input>,
    settings: &CallSettings,
    progress: &Progress<'_>,
) {
    let begin = || Transaction::new(client, partition.as_str().to_owned());
    let (mut transaction, mut places) = (begin(), Vec::new());
    for Input { at, name, key, operation } in inputs {
        let mut room = transaction.room_for(&key, &operation);
        // Full, or the entity is in it already: the next one begins.
        if room.is_err() && !transaction.is_empty() {
            let full = std::mem::replace(&mut transaction, begin());
            send(full, std::mem::take(&mut places), settings, progress).await;
            room = transaction.room_for(&key, &operation);
        }
        if progress.has_failed(&key) {
            let text = "an earlier write of this entity failed; this one must not overtake it";
            progress.fail(vec![at], None, Error::invalid(Rule::Request, text));
            continue;
        }
        match room {
            Ok(bytes) => {
                transaction.push(name, key, operation, bytes);
                places.push(at);
            }
            Err(error) => progress.fail(vec![at], [key], error),
        }
    }
    send(transaction, places, settings, progress).await;
}

async fn send(
    transaction: Transaction<'_>,
    places: Vec<usize>,
    settings: &CallSettings,
    progress: &Progress<'_>,
) {
    if transaction.is_empty() {
        return;
    }
    let keys: Vec<_> = transaction.keys().cloned().collect();
    let retries = |attempts: u32| attempts.saturating_sub(1) as usize;
    match transaction.send(settings.clone()).await {
        Ok(written) => progress.change(|State { report, .. }| {
            report.requests += 1;
            report.written += written.len();
            report.retries += retries(written.first().map_or(1, |one| one.attempts));
            report.checkpoint.add(&places);
        }),
        Err(error) => {
            let attempts = error.context().attempts;
            progress.fail(places, keys, error);
            progress.change(|State { report, .. }| {
                report.requests += 1;
                report.retries += retries(attempts);
            });
        }
    }
}
