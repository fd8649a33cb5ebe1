//! A running server with a table of known size: what rounds are measured on.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::client;
use crate::entity::EntityTemplate;
use crate::failure::{Context, Failure, Result};
use crate::folders::Scratch;
use crate::generator::{self, Load};
use crate::process::{self, Memory};
use crate::progress::{self, Progress};
use crate::request::Signer;
use crate::server::{BenchServer, RunningServer};
use crate::source::BatchSource;
use crate::text;

/// The only table of each server.
pub(crate) const TABLE: &str = "Bench";

const LOAD_CONNECTIONS: usize = 8;
/// Nothing takes so long; the bound is the generator's silence.
const LOAD_MAX: Duration = Duration::from_secs(6 * 3600);
/// Requests carry the date of their making and are refused after 15 minutes, so a long load is done in parts.
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
pub(crate) struct Target {
    pub(crate) server: RunningServer,
    pub(crate) name: &'static str,
    pub(crate) entities: u64,
    pub(crate) memory: MemoryStages,
    pub(crate) load_seconds: f64,
    /// The queries of all pages.
    pub(crate) pages: Vec<String>,
    /// How many entities earlier rounds have written.
    pub(crate) inserted: u64,
    pub(crate) batched: u64,
}

impl Target {
    /// `tavola 10k`
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.name, text::size(self.entities))
    }

    /// Starts a server and fills its table.
    pub(crate) fn prepare(
        server: &dyn BenchServer,
        entities: u64,
        template: &EntityTemplate,
        scratch: &Scratch,
    ) -> Result<Self> {
        let name = server.name();
        let folder = scratch.folder(&format!("{name}-{entities}"))?;
        let running = RunningServer::start(server, &folder)?;
        let mut target = Self {
            server: running,
            name,
            entities,
            memory: MemoryStages::default(),
            load_seconds: 0.0,
            pages: Vec::new(),
            inserted: 0,
            batched: 0,
        };
        settle(&[target.server.process()])?;
        target.memory.idle = process::memory(target.server.process())?;
        let filled = target.fill(template);
        filled.context(|| format!("loading {}: {}", target.label(), target.server.last_errors()))?;
        Ok(target)
    }

    fn fill(&mut self, template: &EntityTemplate) -> Result {
        let address = self.server.address;
        client::create_table(address, TABLE)?;
        let (mut done, started, mut progress) = (0, Instant::now(), Progress::new());
        while done < self.entities {
            let (signer, before) = (Signer::new(address)?, done);
            let end = (done + LOAD_PART_ENTITIES).min(self.entities);
            let mut source = BatchSource::new(&signer, TABLE, template, &mut done).load(end);
            let load = Load { address, connections: LOAD_CONNECTIONS, duration: LOAD_MAX };
            generator::run(load, &mut source, &mut |outcome| {
                let share = progress::share(before + outcome.entities, self.entities, started.elapsed());
                progress.show(&format!("Loading {}: {share}", self.label()));
            })?;
        }
        self.load_seconds = started.elapsed().as_secs_f64();
        progress.done(&format!("Loaded {} in {}", self.label(), text::seconds(started.elapsed())));
        self.memory.loaded = process::memory(self.server.process())?;
        self.pages = client::pages(address, TABLE)?;
        self.check_pages()
    }

    fn check_pages(&self) -> Result {
        let expected = self.entities / crate::source::PAGE_ENTITIES;
        if self.pages.len() as u64 == expected {
            return Ok(());
        }
        Err(Failure::new(format!("{} pages instead of {expected}", self.pages.len())))
    }
}

/// Waits until servers have done what they do in the background, so that no round pays for the one before.
pub(crate) fn settle(processes: &[u32]) -> Result {
    let cpu_time = || processes.iter().map(|process| process::cpu_time(*process)).sum::<Result<Duration>>();
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
