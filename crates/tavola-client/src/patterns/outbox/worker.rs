//! Who does the work.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::TryStreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream;

use super::Outbox;
use super::hints::{GRACE, Hint};
use super::report::WorkReport;
use super::rows::{self, WorkRow, now};
use super::status::age;
use super::step::{Progress, Step, StepError, Work};
use crate::engine::CallSettings;
use crate::entity::DynEntity;
use crate::error::Error;
use crate::runtime::within;

const PARALLEL: usize = 4;
const POISON_AFTER: u32 = 10;
const POLL: Duration = Duration::from_secs(1);
/// A partition in which there was nothing is looked at after twice the time, up to so many looks.
const POLL_BACK_OFF_MAX: u32 = 10;
/// How long a piece of work is one worker's alone, unless it goes on.
const LEASE: Duration = Duration::from_secs(60);
/// The pause after the first failure; it doubles.
const BACK_OFF: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

/// Does the work of an outbox: as many workers as there are processes, all alike, or each with some
/// shards of its own ([`Worker::shards`]).
///
/// A worker takes a piece of work by writing down the attempt and how long the work is its own, and
/// prolongs that while the step runs. One that stops loses nothing but that time.
///
/// ```no_run
/// # async fn f(outbox: tavola_client::patterns::Outbox, archive: impl tavola_client::patterns::Step) {
/// let stop = std::future::pending();
/// outbox.worker().step(archive).parallel(8).poison_after(5).run_until(stop).await;
/// # }
/// ```
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    outbox: Outbox,
    steps: HashMap<String, Arc<dyn Step>>,
    shards: Option<BTreeSet<u32>>,
    parallel: usize,
    poison_after: u32,
    poll: Duration,
    lease: Duration,
    grace: Duration,
    /// Partitions in which there was nothing: when they are looked at next, after how many looks.
    idle: Mutex<HashMap<String, (Duration, u32)>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("outbox", &self.outbox)
            .field("steps", &self.steps.keys())
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

impl Worker {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            steps: HashMap::new(),
            shards: None,
            parallel: PARALLEL,
            poison_after: POISON_AFTER,
            poll: POLL,
            lease: LEASE,
            grace: GRACE,
            idle: Mutex::default(),
        }
    }

    /// Work that it does. Work of other steps it leaves to others.
    pub fn step(mut self, step: impl Step) -> Self {
        self.steps.insert(step.name().to_owned(), Arc::new(step));
        self
    }

    /// In how many partitions at a time, 4 unless told. In one partition it goes on in order.
    pub fn parallel(mut self, partitions: usize) -> Self {
        self.parallel = partitions.max(1);
        self
    }

    /// After how many attempts work is parked, 10 unless told.
    pub fn poison_after(mut self, attempts: u32) -> Self {
        self.poison_after = attempts.max(1);
        self
    }

    /// Only the work of partitions of these shards, so that several workers never meet.
    pub fn shards(mut self, shards: impl IntoIterator<Item = u32>) -> Self {
        self.shards = Some(shards.into_iter().collect());
        self
    }

    /// How often it looks for work, every second unless told. A partition in which there was nothing
    /// is looked at less often, every ten times in the end, until its hint is old.
    pub fn poll_every(mut self, time: Duration) -> Self {
        self.poll = time;
        self
    }

    /// How long a piece of work is one worker's alone, 60 seconds unless told; a step that takes
    /// longer keeps it.
    pub fn lease(mut self, time: Duration) -> Self {
        self.lease = time;
        self
    }

    /// How long a hint is kept after its minute, 5 minutes unless told: see [`Outbox::sweep`].
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Does what is due now, once.
    ///
    /// # Errors
    /// If hints or work cannot be read or taken. What a step fails with is in the report.
    pub async fn run_once(&self) -> Result<WorkReport, Error> {
        self.pass(&AtomicBool::new(false), false).await
    }

    /// Does everything, what failed again and again included, until it is done or parked.
    ///
    /// # Errors
    /// If hints or work cannot be read or taken. What a step fails with is in the report.
    pub async fn drain(&self) -> Result<WorkReport, Error> {
        let mut all = WorkReport::default();
        loop {
            let one = self.run_once().await?;
            let (left, next, has_moved) = (one.waiting, one.next_due, one.has_moved());
            all.add(WorkReport { waiting: 0, foreign: 0, next_due: None, ..one });
            if left == 0 && !has_moved {
                return Ok(all);
            }
            if let Some(next) = next.filter(|_| !has_moved) {
                let pause = age(now(&self.outbox.table), next) + Duration::from_millis(1);
                self.outbox.table.engine().runtime.sleep(pause).await;
            }
        }
    }

    /// Works until `stop` is ready, then ends what it has begun. A service that does not answer is
    /// asked again later.
    pub async fn run_until(&self, stop: impl Future<Output = ()> + Send) -> WorkReport {
        let is_stopped = AtomicBool::new(false);
        let mut stop = pin!(async {
            stop.await;
            is_stopped.store(true, Ordering::Relaxed);
        });
        let mut all = WorkReport::default();
        let mut pass = Some(None);
        while let Some(partition) = pass.take() {
            let work = pin!(self.one_pass(partition, &is_stopped));
            let (one, has_ended) = match select(work, stop.as_mut()).await {
                Either::Left((one, _)) => (one, false),
                Either::Right(((), work)) => (work.await, true),
            };
            let (waiting, foreign) = (one.waiting, one.foreign);
            all.add(one);
            (all.waiting, all.foreign) = (waiting, foreign);
            if has_ended {
                break;
            }
            if let Either::Left((next, _)) = select(pin!(self.pause()), stop.as_mut()).await {
                pass = Some(next);
            }
        }
        all
    }

    /// Looks everywhere, or where it was notified.
    async fn one_pass(&self, partition: Option<String>, is_stopped: &AtomicBool) -> WorkReport {
        let done = match partition {
            Some(partition) => self.partition(partition, Vec::new(), is_stopped).await,
            None => self.pass(is_stopped, true).await,
        };
        done.unwrap_or_else(|error| {
            tracing::warn!(%error, "an outbox cannot be read");
            WorkReport::default()
        })
    }

    /// Waits for the next look or for a notice, and returns the partition of the notice.
    async fn pause(&self) -> Option<String> {
        let timer = self.outbox.table.engine().runtime.sleep(self.poll);
        match &self.outbox.notifier {
            None => {
                timer.await;
                None
            }
            Some(notifier) => match select(notifier.next(self.outbox.table.name()), timer).await {
                Either::Left((partition, _)) => Some(partition),
                Either::Right(_) => None,
            },
        }
    }

    async fn pass(&self, is_stopped: &AtomicBool, backs_off: bool) -> Result<WorkReport, Error> {
        let settings = self.settings();
        let mut hints = self.outbox.hints(self.shards.as_ref(), &settings).await?;
        if backs_off {
            let now = self.outbox.table.engine().runtime.now();
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|partition, _| hints.contains_key(partition));
            hints.retain(|partition, _| idle.get(partition).is_none_or(|(next, _)| *next <= now));
        }
        let partitions = hints.into_iter();
        let looks =
            partitions.map(|(partition, hints)| self.partition(partition, hints, is_stopped));
        let mut looks = stream::iter(looks).buffer_unordered(self.parallel);
        let mut all = WorkReport::default();
        let mut failure = None;
        while let Some(one) = looks.next().await {
            // One partition that fails does not stop what others have begun.
            match one {
                Ok(one) => all.add(one),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(all), Err)
    }

    fn settings(&self) -> CallSettings {
        self.outbox.table.engine().settings()
    }

    async fn partition(
        &self,
        partition: String,
        hints: Vec<Hint>,
        is_stopped: &AtomicBool,
    ) -> Result<WorkReport, Error> {
        let (table, settings) = (&self.outbox.table, self.settings());
        let mut report = WorkReport::default();
        let mut pages = rows::query(table, &partition, &settings).pages();
        let mut count = 0;
        while let Some(page) = pages.try_next().await? {
            count += page.items.len();
            for row in page.items {
                if is_stopped.load(Ordering::Relaxed) {
                    return Ok(report);
                }
                match WorkRow::read(&row) {
                    Ok(row) => self.take(row, &mut report, &settings).await?,
                    Err(error) => {
                        tracing::warn!(key = %row.key(), %error, "a row is not as an outbox has it");
                        report.foreign += 1;
                    }
                }
            }
        }
        if count == 0 {
            let now = now(table);
            for hint in hints.iter().filter(|hint| hint.is_over(now, self.grace)) {
                report.swept += usize::from(hint.delete(table, &settings).await?);
            }
        }
        self.note_idle(partition, count == 0);
        Ok(report)
    }

    fn note_idle(&self, partition: String, is_empty: bool) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_empty {
            idle.remove(&partition);
            return;
        }
        let looks = idle.get(&partition).map_or(1, |(_, looks)| looks * 2).min(POLL_BACK_OFF_MAX);
        let next = self.outbox.table.engine().runtime.now() + self.poll * looks;
        idle.insert(partition, (next, looks));
    }

    /// One piece of work: taken, done, deleted; or left, or parked.
    async fn take(
        &self,
        row: WorkRow,
        report: &mut WorkReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let table = &self.outbox.table;
        let now = now(table);
        let Some(step) = self.steps.get(&row.step) else {
            report.foreign += 1;
            return Ok(());
        };
        report.lag = report.lag.max(age(row.added, now));
        report.attempts_max = report.attempts_max.max(row.attempts);
        if row.due > now {
            report.leave(row.due);
            return Ok(());
        }
        // Whoever had it the last time did not live to say why.
        if row.attempts >= self.poison_after {
            return self.park(&row, None, report, settings).await;
        }
        let Some(mut row) = row.claim(table, now + self.lease, settings).await? else {
            report.contended += 1;
            report.leave(now);
            return Ok(());
        };
        report.attempts_max = report.attempts_max.max(row.attempts);
        match self.run(step, &mut row, settings).await {
            Ok(progress) => {
                table
                    .delete_if_exists::<DynEntity>(&row.key)
                    .with_settings(settings.clone())
                    .await?;
                match progress {
                    Progress::Done => report.done += 1,
                    Progress::Skipped(reason) => {
                        tracing::warn!(key = %row.key, step = row.step, reason, "nothing to do");
                        report.skipped += 1;
                    }
                }
                Ok(())
            }
            Err(error) => self.failed(row, &error, report, settings).await,
        }
    }

    /// Runs a step, and keeps the work while it runs.
    async fn run(
        &self,
        step: &Arc<dyn Step>,
        row: &mut WorkRow,
        settings: &CallSettings,
    ) -> Result<Progress, StepError> {
        let table = &self.outbox.table;
        let mut running = step.run(Work::new(table, row));
        loop {
            let runtime = &*table.engine().runtime;
            if let Some(end) = within(runtime, Some(self.lease / 2), running.as_mut()).await {
                return end;
            }
            let until = now(table) + self.lease;
            if let Err(error) = row.defer(table, until, None, settings).await {
                tracing::warn!(key = %row.key, %error, "the work is not kept");
            }
        }
    }

    async fn failed(
        &self,
        mut row: WorkRow,
        error: &StepError,
        report: &mut WorkReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let table = &self.outbox.table;
        let text = error.to_string();
        tracing::warn!(key = %row.key, step = row.step, attempts = row.attempts, error = text);
        report.failed += 1;
        if row.attempts >= self.poison_after {
            return self.park(&row, Some(&text), report, settings).await;
        }
        let due = now(table) + self.back_off(row.attempts);
        row.defer(table, due, Some(&text), settings).await?;
        report.leave(row.due);
        Ok(())
    }

    async fn park(
        &self,
        row: &WorkRow,
        error: Option<&str>,
        report: &mut WorkReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        if self.outbox.park(row, error, settings).await? {
            report.poisoned += 1;
        } else {
            report.leave(row.due);
        }
        Ok(())
    }

    /// Twice as long after each attempt, half of it by chance.
    fn back_off(&self, attempts: u32) -> Duration {
        let most = BACK_OFF.saturating_mul(2_u32.saturating_pow(attempts - 1)).min(BACK_OFF_MAX);
        let random = self.outbox.table.engine().runtime.random();
        let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
        most.mul_f64(0.5 + share / 2.0)
    }
}
