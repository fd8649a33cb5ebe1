//! The table that is measured: made for this run, filled, asked, and dropped whatever happens.

use std::thread;
use std::time::{Duration, Instant};

use tavola_embedded::check::{Progress as _, Unit};
use tavola_load::source::{BatchSource, InsertSource, MixedSource, PoolSource, ScanSource, Source};
use tavola_load::{
    EntityTemplate, Failure, Family, Load, MATCHES_ONE_OF, Outcome, Pace, Result, Signer, Site,
    create_table, drop_table, text,
};

use super::interrupt::{Interrupt, Interruptible};
use super::workload::Workload;
use super::{Measured, Plan};
use crate::progress_bar::Shown;

const FILL_CONNECTIONS: usize = 8;
/// Nothing takes so long; the bound is the generator's own, on silence.
const FILL_MAX: Duration = Duration::from_secs(3600);
/// Requests carry the date of their making and are refused after 15 minutes, so that a slow server
/// is filled in parts.
const FILL_PART_ENTITIES: u64 = 10_000;
/// An open loop that the server cannot follow would last for as long as it takes to answer all that
/// was due. It gets its own time once more for what is late, within these.
const BACKLOG_TIME_MIN: Duration = Duration::from_secs(5);
const BACKLOG_TIME_MAX: Duration = Duration::from_secs(60);
/// What has one value in each hundred entities.
const FILTER: &str = "Count eq 100042";
/// Every run asks the same.
const SEED: u64 = 1;

/// Between attempts to drop; doubled each time, up to the maximum.
const DROP_PAUSE: Duration = Duration::from_millis(250);
const DROP_PAUSE_MAX: Duration = Duration::from_secs(4);

/// A table on a server.
pub(super) struct BenchTable<'a> {
    pub(super) site: &'a Site,
    pub(super) name: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) interrupt: &'a Interrupt,
    template: EntityTemplate,
    /// How many entities earlier workloads have written: an entity can be inserted once.
    inserted: u64,
    batched: u64,
}

impl<'a> BenchTable<'a> {
    /// Creates it.
    pub(super) fn create(
        site: &'a Site,
        name: &'a str,
        plan: &'a Plan,
        interrupt: &'a Interrupt,
    ) -> Result<Self> {
        create_table(site, name)?;
        Ok(Self {
            site,
            name,
            plan,
            interrupt,
            template: EntityTemplate::new(),
            inserted: 0,
            batched: 0,
        })
    }

    /// Puts the entities in that are read.
    pub(super) fn fill(&self, shown: &mut Shown) -> Result {
        let entities = self.plan.entities;
        shown.begin("filling", entities, Unit::Rows);
        let (mut next, mut told) = (0, 0);
        while next < entities && !self.interrupt.is_asked() {
            let (signer, before) = (Signer::new(self.site), next);
            let end = (next + FILL_PART_ENTITIES).min(entities);
            let mut source = BatchSource::new(&signer, self.name, &self.template, &mut next)
                .load(Family::Loaded, end);
            let load =
                Load { connections: FILL_CONNECTIONS, duration: FILL_MAX, pace: Pace::Closed };
            self.run(load, &mut source, None, &mut |outcome| {
                let done = before + outcome.entities;
                shown.advance(done - told);
                told = done;
            })?;
        }
        shown.end();
        Ok(())
    }

    /// Measures one workload.
    pub(super) fn measure(&mut self, workload: Workload, shown: &mut Shown) -> Result<Measured> {
        let Plan { duration, pace, .. } = *self.plan;
        let load =
            Load { connections: workload.connections(self.plan.connections), duration, pace };
        let signer = Signer::new(self.site);
        let (mut inserted, mut batched) = (self.inserted, self.batched);
        let mut source = self.source(workload, &signer, &mut inserted, &mut batched);
        shown.begin_time(workload.name(), duration);
        let backlog = duration.clamp(BACKLOG_TIME_MIN, BACKLOG_TIME_MAX);
        let until = (pace != Pace::Closed).then(|| Instant::now() + duration + backlog);
        let outcome = self.run(load, &mut *source, until, &mut |outcome| {
            let rate = text::number(per_second(workload, outcome));
            shown.pass_time(outcome.elapsed, format!("{rate} {}/s", workload.unit()));
        });
        drop(source);
        shown.end();
        (self.inserted, self.batched) = (inserted, batched);
        let outcome = outcome?;
        self.check_scan(workload, &outcome)?;
        Ok(Measured::new(workload, load.connections, per_second(workload, &outcome), &outcome))
    }

    fn source<'b>(
        &'b self,
        workload: Workload,
        signer: &'b Signer<'b>,
        inserted: &'b mut u64,
        batched: &'b mut u64,
    ) -> Box<dyn Source + 'b> {
        let (table, entities, template) = (self.name, self.plan.entities, &self.template);
        let points = || PoolSource::points(signer, table, entities, SEED);
        match workload {
            Workload::Get => Box::new(points()),
            Workload::Scan => Box::new(ScanSource::new(signer, table)),
            Workload::Filter => Box::new(ScanSource::filtered(signer, table, FILTER)),
            Workload::Mixed => {
                let queries = PoolSource::row_ranges(signer, table, entities, SEED);
                let inserts =
                    InsertSource::new(signer, table, Family::Inserted, template, inserted);
                Box::new(MixedSource::new(points(), queries, inserts, SEED))
            }
            Workload::Insert => {
                Box::new(InsertSource::new(signer, table, Family::Inserted, template, inserted))
            }
            Workload::Batch => Box::new(BatchSource::new(signer, table, template, batched)),
        }
    }

    fn run(
        &self,
        load: Load,
        source: &mut dyn Source,
        until: Option<Instant>,
        tick: &mut dyn FnMut(&Outcome),
    ) -> Result<Outcome> {
        let mut source = Interruptible { source, interrupt: self.interrupt, until };
        tavola_load::run(self.site, load, &mut source, tick)
    }

    /// In a closed loop whole scans were made, before anything else was written: each has met
    /// everything.
    fn check_scan(&self, workload: Workload, outcome: &Outcome) -> Result {
        let expected = match workload {
            Workload::Scan => self.plan.entities,
            Workload::Filter => self.plan.entities / MATCHES_ONE_OF,
            _ => return Ok(()),
        };
        let is_whole = self.plan.pace == Pace::Closed && !self.interrupt.is_asked();
        if is_whole && !outcome.entities.is_multiple_of(expected) {
            return Err(Failure::new(format!(
                "scans that find {expected} entities each found {}",
                outcome.entities
            )));
        }
        Ok(())
    }

    /// Drops it. A server that was pressed hard may need a moment before it takes one request more.
    pub(super) fn drop(self) -> Result {
        let mut pause = DROP_PAUSE;
        loop {
            match drop_table(self.site, self.name) {
                Ok(()) => return Ok(()),
                // Another client dropped it.
                Err(failure) if failure.status() == Some(404) => return Ok(()),
                Err(failure) if failure.status() == Some(403) || pause > DROP_PAUSE_MAX => {
                    return Err(failure);
                }
                Err(_) => thread::sleep(pause),
            }
            pause *= 2;
        }
    }
}

fn per_second(workload: Workload, outcome: &Outcome) -> f64 {
    let seconds = outcome.elapsed.as_secs_f64();
    if seconds > 0.0 {
        workload.count(outcome.requests, outcome.entities) as f64 / seconds
    } else {
        0.0
    }
}
