//! Work that belongs to a change: written with it, done after it.

mod hints;
mod poison;
mod report;
mod rows;
mod status;
mod step;
mod worker;

use std::fmt;
use std::sync::{Arc, Mutex};

use serde::Serialize;

pub use hints::{Notifier, SweepReport};
pub use poison::Poisoned;
pub use report::WorkReport;
pub use status::OutboxStatus;
pub use step::{FnStep, Progress, Step, StepError, Work, step};
pub use worker::Worker;

use crate::client::{TableClient, Transaction};
use crate::error::{Error, Rule};
use hints::{Companion, Hinted};

/// The least and the most that a shard can be numbered: two digits.
const SHARDS_MAX: u32 = 100;
const SHARDS: u32 = 4;

/// Changes beyond one partition: what is still to be done is a row in the partition of the change,
/// written in the same transaction, and a [`Worker`] does it later.
///
/// The row `!ob!{ticks}!{id}` names the [`Step`] and holds its job as JSON, how often it was tried and
/// when it is due. So that nobody has to search the table, a hint row (partition `!hint!{shard}`, row
/// `{minute}!{partition}`) is written before the transaction, once a minute for each partition.
///
/// **Guarantee.** The work is done at least once if and only if the change was applied, whatever is
/// lost and whichever worker stops where; so a step must be idempotent. Work that fails is tried again
/// later and later, and parked after some attempts ([`Outbox::poisoned`], [`Outbox::replay`]). Work of
/// one partition is begun in the order in which it was added, but a failure does not stop the rest.
///
/// **Cost** in requests: a write 1, and 1 more in each minute and partition. A worker: 1 a pass for
/// the hints and 1 for each hinted partition, then 2 for each piece of work and those of its step.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::{Outbox, Progress, Work, step};
/// use tavola_client::{DynEntity, Mode, TableServiceClient};
///
/// let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// let (orders, totals) = (service.table_client("orders"), service.table_client("totals"));
/// orders.create().await?;
/// totals.create().await?;
///
/// let outbox = Outbox::new(&orders);
/// let mut order = orders.transaction("Sales");
/// order.insert(&DynEntity::new("Sales", "000456"))?;
/// outbox.add(&mut order, "announce", &"000456")?;
/// order.commit().await?;
///
/// // Elsewhere, later, again and again: the same result.
/// let announce = step("announce", move |work: Work| {
///     let totals = totals.clone();
///     async move {
///         let row = DynEntity::new("announced", work.job::<String>()?);
///         totals.upsert(&row, Mode::Replace).await?;
///         Ok(Progress::Done)
///     }
/// });
/// let report = outbox.worker().step(announce).drain().await?;
/// assert_eq!((report.done, outbox.status().await?.waiting), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Outbox {
    table: TableClient,
    shards: u32,
    notifier: Option<Arc<dyn Notifier>>,
    /// The partitions that this process has hinted at in the current minute.
    hinted: Arc<Mutex<Hinted>>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("table", &self.table.name())
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

impl Outbox {
    /// The outbox of a table: work is added to transactions of this table.
    #[must_use]
    pub fn new(table: &TableClient) -> Self {
        Self { table: table.clone(), shards: SHARDS, notifier: None, hinted: Arc::default() }
    }

    /// Over how many partitions the hints are spread, 4 unless told, 100 at most. All who write and
    /// all workers that own some shards must have the same number.
    #[must_use]
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards.clamp(1, SHARDS_MAX);
        self
    }

    /// What wakes the workers, for example a queue. Without one they look from time to time.
    #[must_use]
    pub fn notifier(mut self, notifier: Arc<dyn Notifier>) -> Self {
        self.notifier = Some(notifier);
        self
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &TableClient {
        &self.table
    }

    /// Adds work to a transaction: `step` names the [`Step`] that does it, `job` is what it is given.
    /// The hint is written when the transaction is committed, before it.
    ///
    /// ```no_run
    /// # async fn f(t: tavola_client::TableClient, outbox: tavola_client::patterns::Outbox)
    /// #     -> Result<(), tavola_client::Error> {
    /// # let order = tavola_client::DynEntity::new("Sales", "1");
    /// let mut transaction = t.transaction("Sales");
    /// transaction.insert(&order)?;
    /// outbox.add(&mut transaction, "announce", &"000456")?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the transaction is of another table, or it or the job breaks a rule; then nothing is added.
    pub fn add<J: Serialize + ?Sized>(
        &self,
        transaction: &mut Transaction<'_>,
        step: &str,
        job: &J,
    ) -> Result<(), Error> {
        if transaction.table() != self.table.name() {
            let text = format!(
                "the transaction is of the table `{}`, the outbox of `{}`; each table has its own",
                transaction.table(),
                self.table.name()
            );
            return Err(Error::invalid(Rule::Transaction, text));
        }
        let partition = transaction.partition().to_owned();
        hints::check_partition(&partition)?;
        let row = rows::NewWork::new(self, &partition, step, job)?;
        let (key, operation) = row.insert()?;
        transaction.add("insert", key, operation)?;
        transaction.accompany(Arc::new(Companion::new(self.clone(), partition)));
        Ok(())
    }

    /// A worker; tell it its steps.
    pub fn worker(&self) -> Worker {
        Worker::new(self.clone())
    }
}
