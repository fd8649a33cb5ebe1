//! Many writes, in as few requests as possible. Not atomic.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::stream::{self, StreamExt as _};
use tavola_core::{EntityKey as CoreKey, PartitionKey};

use crate::call::Call;
use crate::client::{TableClient, Transaction};
use crate::engine::{CallSettings, Operation};
use crate::entity::{Entity, Stored};
use crate::error::Error;
use crate::prepare::{Prepared, delete};
use crate::unknown::Claim;
use crate::written::{IfMatch, Mode};

/// So many entities wait for others of their partition.
const WINDOW: usize = 5000;
/// Transactions at a time, unless something else is said.
const PARALLEL: usize = 8;

/// Many writes: grouped by partition, in transactions of up to 100, several partitions at a time,
/// those of one partition in the order of the input. An entity that comes twice is written twice.
#[must_use = "nothing is sent before one of the methods that end in _all is awaited"]
pub struct Bulk<'a> {
    client: &'a TableClient,
    parallel: usize,
}

impl fmt::Debug for Bulk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").field("parallel", &self.parallel).finish_non_exhaustive()
    }
}

/// What became of many writes.
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
    fn add(&mut self, other: Self) {
        self.written += other.written;
        self.requests += other.requests;
        self.retries += other.retries;
        self.failed.extend(other.failed);
    }

    /// # Errors
    /// The first failure, if there is one.
    pub fn into_result(self) -> Result<Self, Error> {
        let Self { written, requests, retries, failed } = self;
        match failed.into_iter().next() {
            Some(failure) => Err(failure.error),
            None => Ok(Self { written, requests, retries, failed: Vec::new() }),
        }
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
        Bulk { client: self, parallel: PARALLEL }
    }
}

impl<'a> Bulk<'a> {
    /// So many transactions at a time.
    pub fn parallel(self, parallel: usize) -> Self {
        Self { parallel: parallel.max(1), ..self }
    }

    /// Writes all entities whether or not there are some with their keys.
    pub fn upsert_all<E: Entity>(
        self,
        entities: impl IntoIterator<Item = E, IntoIter: Send + 'a>,
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
        self.run("insert", entities, |client, entity: &E| {
            let prepared = Prepared::new(client.engine(), entity, &[])?;
            Ok((prepared.key.clone(), prepared.insert(Claim::Insert)))
        })
    }

    /// Deletes all entities, if nobody changed them since they were read.
    pub fn delete_all<E: Entity>(
        self,
        entities: impl IntoIterator<Item = Stored<E>, IntoIter: Send + 'a>,
    ) -> Call<'a, BulkReport> {
        self.run("delete", entities, |_, stored: &Stored<E>| {
            let key = stored.key().as_core().clone();
            let operation = delete(&key, &IfMatch::Version(stored.etag().clone()))?;
            Ok((key, operation))
        })
    }

    fn run<T: Send + 'a>(
        self,
        name: &'static str,
        items: impl IntoIterator<Item = T, IntoIter: Send + 'a>,
        prepare: impl Fn(&TableClient, &T) -> Result<(CoreKey, Operation), Error> + Send + Sync + 'a,
    ) -> Call<'a, BulkReport> {
        let Self { client, parallel } = self;
        let mut items = items.into_iter().enumerate();
        Call::new(client.engine().settings(), move |settings| async move {
            let mut report = BulkReport::default();
            loop {
                let (inputs, failed, is_last) = window(client, name, &mut items, &prepare);
                report.failed.extend(failed);
                report.add(send_window(client, inputs, parallel, &settings).await);
                if is_last {
                    return Ok(report);
                }
            }
        })
    }
}

/// The next part of the input, what of it cannot be sent, and whether it was the last.
fn window<T>(
    client: &TableClient,
    name: &'static str,
    items: &mut impl Iterator<Item = (usize, T)>,
    prepare: &impl Fn(&TableClient, &T) -> Result<(CoreKey, Operation), Error>,
) -> (Vec<Input>, Vec<BulkFailure>, bool) {
    let (mut inputs, mut failed) = (Vec::new(), Vec::new());
    while inputs.len() < WINDOW {
        let Some((at, item)) = items.next() else { return (inputs, failed, true) };
        match prepare(client, &item) {
            Ok((key, operation)) => inputs.push(Input { at, name, key, operation }),
            Err(error) => failed.push(BulkFailure { inputs: vec![at], error }),
        }
    }
    (inputs, failed, false)
}

/// Partitions at the same time, the transactions of each one after the other.
async fn send_window(
    client: &TableClient,
    inputs: Vec<Input>,
    parallel: usize,
    settings: &CallSettings,
) -> BulkReport {
    let mut partitions: BTreeMap<PartitionKey, Vec<Input>> = BTreeMap::new();
    for input in inputs {
        partitions.entry(input.key.partition_key.clone()).or_default().push(input);
    }
    let sent = partitions.into_values().map(|inputs| send_partition(client, inputs, settings));
    let mut sent = stream::iter(sent).buffer_unordered(parallel);
    let mut report = BulkReport::default();
    while let Some(one) = sent.next().await {
        report.add(one);
    }
    report
}

async fn send_partition(
    client: &TableClient,
    inputs: Vec<Input>,
    settings: &CallSettings,
) -> BulkReport {
    let mut report = BulkReport::default();
    let Some(first) = inputs.first() else { return report };
    let partition = first.key.partition_key.as_str().to_owned();
    let (mut transaction, mut places) = (Transaction::new(client, partition.clone()), Vec::new());
    for Input { at, name, key, operation } in inputs {
        // Full, or the entity is in it already: the next one begins.
        if transaction.add(name, key.clone(), operation.clone()).is_err() {
            let full =
                std::mem::replace(&mut transaction, Transaction::new(client, partition.clone()));
            send(full, std::mem::take(&mut places), settings, &mut report).await;
            if let Err(error) = transaction.add(name, key, operation) {
                report.failed.push(BulkFailure { inputs: vec![at], error });
                continue;
            }
        }
        places.push(at);
    }
    send(transaction, places, settings, &mut report).await;
    report
}

async fn send(
    transaction: Transaction<'_>,
    places: Vec<usize>,
    settings: &CallSettings,
    report: &mut BulkReport,
) {
    if transaction.is_empty() {
        return;
    }
    report.requests += 1;
    match transaction.send(settings.clone()).await {
        Ok(written) => {
            report.written += written.len();
            let attempts = written.first().map_or(1, |one| one.attempts);
            report.retries += attempts.saturating_sub(1) as usize;
        }
        Err(error) => {
            report.retries += error.context().attempts.saturating_sub(1) as usize;
            report.failed.push(BulkFailure { inputs: places, error });
        }
    }
}
