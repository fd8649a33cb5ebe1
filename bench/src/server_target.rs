//! A running server with tables of known size: what rounds over the wire are measured on.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tavola_load::source::{
    BatchSource, InsertSource, MixedSource, PAGE_ENTITIES, PoolSource, ScanSource, Source,
};
use tavola_load::{
    Context, EntityTemplate, Failure, Family, Load, Pace, Result, Signer, WIDE_PARTITION,
    create_table, metric, pages, text,
};

use crate::folders::Scratch;
use crate::process::{self, Memory};
use crate::progress::{self, Progress};
use crate::series::Series;
use crate::server::{BenchServer, RunningServer};
use crate::target::{Reached, Shape, Target};

/// What most rounds ask.
pub(crate) const TABLE: &str = "Bench";
/// One large partition.
pub(crate) const WIDE_TABLE: &str = "Wide";
pub(crate) const WIDE_ENTITIES: u64 = 100_000;
/// It walks over the table for each page, and shall get to an end.
const WIDE_ENTITIES_OF_AZURITE: u64 = 10_000;

const SYNCS: &str = "tavola_store_syncs_total";
const LOAD_CONNECTIONS: usize = 8;
/// Nothing takes so long; the bound is the generator's silence.
const LOAD_MAX: Duration = Duration::from_secs(6 * 3600);
/// Requests carry the date of their making and are refused after 15 minutes, so a long load is done
/// in parts.
const LOAD_PART_ENTITIES: u64 = 100_000;

const SETTLE_STEP: Duration = Duration::from_millis(200);
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Resident memory of a server through a run.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct MemoryStages {
    pub(crate) idle: Memory,
    pub(crate) loaded: Memory,
    pub(crate) end: Memory,
}

#[derive(Debug)]
pub(crate) struct ServerTarget {
    pub(crate) server: RunningServer,
    pub(crate) name: &'static str,
    pub(crate) entities: u64,
    pub(crate) memory: MemoryStages,
    pub(crate) load_seconds: f64,
    /// The queries of all pages.
    pub(crate) pages: Vec<String>,
    has_wide_table: bool,
    written: Written,
}

/// How many entities earlier rounds have written: an entity can be inserted once.
#[derive(Debug, Default)]
struct Written {
    inserted: u64,
    hot: u64,
    batched: u64,
}

impl ServerTarget {
    /// Starts a server and fills its table.
    pub(crate) fn prepare(
        server: &dyn BenchServer,
        entities: u64,
        with_wide_table: bool,
        template: &EntityTemplate,
        scratch: &Scratch,
    ) -> Result<Self> {
        let name = server.name();
        let folder = scratch.folder(&format!("{name}-{entities}"))?;
        let mut target = Self::on(RunningServer::start(server, &folder)?, name, entities);
        settle(&[target.server.process()])?;
        target.memory.idle = process::memory(target.server.process())?;
        let filled = target.fill_all(with_wide_table, template);
        filled
            .context(|| format!("loading {}: {}", target.label(), target.server.last_errors()))?;
        target.memory.loaded = process::memory(target.server.process())?;
        Ok(target)
    }

    /// A server that is not filled by us.
    pub(crate) fn on(server: RunningServer, name: &'static str, entities: u64) -> Self {
        Self {
            server,
            name,
            entities,
            memory: MemoryStages::default(),
            load_seconds: 0.0,
            pages: Vec::new(),
            has_wide_table: false,
            written: Written::default(),
        }
    }

    fn fill_all(&mut self, with_wide_table: bool, template: &EntityTemplate) -> Result {
        let started = Instant::now();
        self.fill(TABLE, Family::Loaded, self.entities, template)?;
        self.load_seconds = started.elapsed().as_secs_f64();
        if with_wide_table {
            let entities =
                if self.name == "azurite" { WIDE_ENTITIES_OF_AZURITE } else { WIDE_ENTITIES };
            self.fill(WIDE_TABLE, Family::Wide, entities, template)?;
            self.has_wide_table = true;
        }
        self.pages = pages(&self.server.site, TABLE)?;
        self.check_pages()
    }

    /// Creates and fills a table.
    pub(crate) fn fill(
        &mut self,
        table: &str,
        family: Family,
        entities: u64,
        template: &EntityTemplate,
    ) -> Result {
        let site = &self.server.site;
        create_table(site, table)?;
        let (mut done, started, mut progress) = (0, Instant::now(), Progress::new());
        while done < entities {
            let (signer, before) = (Signer::new(site), done);
            let end = (done + LOAD_PART_ENTITIES).min(entities);
            let mut source =
                BatchSource::new(&signer, table, template, &mut done).load(family, end);
            let load =
                Load { connections: LOAD_CONNECTIONS, duration: LOAD_MAX, pace: Pace::Closed };
            tavola_load::run(site, load, &mut source, &mut |outcome| {
                let share = progress::share(before + outcome.entities, entities, started.elapsed());
                progress.show(&format!(
                    "Loading {} into {table} of {}: {share}",
                    text::size(entities),
                    self.name
                ));
            })?;
        }
        let (size, time) = (text::size(entities), text::seconds(started.elapsed()));
        progress.done(&format!("Loaded {size} into {table} of {} in {time}", self.name));
        Ok(())
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.name == "tavola"
    }

    /// Reads every entity once.
    pub(crate) fn warm(&self) -> Result {
        let (site, mut progress) = (&self.server.site, Progress::new());
        let signer = Signer::new(site);
        for start in (0..self.entities).step_by(LOAD_PART_ENTITIES as usize) {
            progress.show(&format!(
                "Reading all of {}: {} so far",
                self.label(),
                text::size(start)
            ));
            let end = (start + LOAD_PART_ENTITIES).min(self.entities);
            let mut source = PoolSource::each_point(&signer, TABLE, start..end);
            let load =
                Load { connections: LOAD_CONNECTIONS, duration: LOAD_MAX, pace: Pace::Closed };
            tavola_load::run(site, load, &mut source, &mut |_| {})?;
        }
        progress.done(&format!("Read all of {}", self.label()));
        Ok(())
    }

    fn check_pages(&self) -> Result {
        let expected = self.entities / PAGE_ENTITIES;
        if self.pages.len() as u64 == expected {
            return Ok(());
        }
        Err(Failure::new(format!("{} pages instead of {expected}", self.pages.len())))
    }
}

impl Target for ServerTarget {
    fn name(&self) -> &'static str {
        self.name
    }

    fn entities(&self) -> u64 {
        self.entities
    }

    fn process(&self) -> Option<u32> {
        Some(self.server.process())
    }

    fn takes(&self, series: Series) -> bool {
        match (self.name, series) {
            ("null", _) => {
                matches!(series, Series::Get | Series::Point | Series::Page | Series::Scan)
            }
            (_, Series::Filter) => self.has_wide_table,
            // Half of our own top rate is for us.
            (_, Series::MixedHalf) => self.is_ours(),
            _ => true,
        }
    }

    /// Signs, then runs the round.
    fn press(&mut self, shape: Shape, template: &EntityTemplate, round: u32) -> Result<Reached> {
        let (site, entities) = (&self.server.site, self.entities);
        let signer = Signer::new(site);
        let seed = u64::from(round);
        let points = || PoolSource::points(&signer, TABLE, entities, seed);
        let Written { inserted, hot, batched } = &mut self.written;
        let mut source: Box<dyn Source + '_> = match shape.series {
            Series::Get | Series::Point => Box::new(points()),
            Series::Page => Box::new(PoolSource::pages(&signer, TABLE, &self.pages, seed)),
            Series::Scan => Box::new(ScanSource::new(&signer, TABLE)),
            Series::Filter => {
                let filter = format!("PartitionKey eq '{WIDE_PARTITION}' and Count eq 100042");
                Box::new(ScanSource::filtered(&signer, WIDE_TABLE, &filter))
            }
            Series::Mixed | Series::MixedHalf => {
                let queries = PoolSource::row_ranges(&signer, TABLE, entities, seed);
                let inserts =
                    InsertSource::new(&signer, TABLE, Family::Inserted, template, inserted);
                Box::new(MixedSource::new(points(), queries, inserts, seed))
            }
            Series::Insert | Series::InsertAlone => {
                Box::new(InsertSource::new(&signer, TABLE, Family::Inserted, template, inserted))
            }
            Series::InsertHot => {
                Box::new(InsertSource::new(&signer, TABLE, Family::Hot, template, hot))
            }
            Series::Batch => Box::new(BatchSource::new(&signer, TABLE, template, batched)),
        };
        let load =
            Load { connections: shape.connections, duration: shape.duration, pace: shape.pace };
        let outcome = tavola_load::run(site, load, &mut *source, &mut |_| {})?;
        if shape.series == Series::Scan && !outcome.entities.is_multiple_of(entities) {
            return Err(Failure::new(format!(
                "scans of {entities} entities met {}",
                outcome.entities
            )));
        }
        Ok(outcome.into())
    }

    fn syncs(&self) -> Result<Option<f64>> {
        self.server.admin.map_or(Ok(None), |admin| metric(admin, SYNCS))
    }

    fn last_errors(&self) -> String {
        self.server.last_errors()
    }
}

/// Waits until servers have done what they do in the background, so that no round pays for the one
/// before.
pub(crate) fn settle(processes: &[u32]) -> Result {
    let cpu_time =
        || processes.iter().map(|process| process::cpu_time(*process)).sum::<Result<Duration>>();
    let started = Instant::now();
    let mut before = cpu_time()?;
    while started.elapsed() < SETTLE_MAX {
        thread::sleep(SETTLE_STEP);
        let after = cpu_time()?;
        if after.saturating_sub(before) <= SETTLE_STEP / 10 {
            break;
        }
        before = after;
    }
    Ok(())
}
