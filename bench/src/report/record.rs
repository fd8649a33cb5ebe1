//! A run as it is kept: where, how, every round, and the ratios that were drawn from them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use time::OffsetDateTime;

use crate::args::Args;
use crate::authentication::Authentication;
use crate::client::Figures;
use crate::drop_table::Drop;
use crate::machine::Machine;
use crate::recovery::Recovery;
use crate::round::Round;
use crate::series::Series;
use crate::server::BenchServer;
use crate::server_target::{MemoryStages, ServerTarget};
use crate::space::Space;
use crate::start::Start;
use crate::target::Target as _;
use tavola_load::ENTITY_BYTES;
use tavola_load::Spread;

#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) command: String,
    pub(crate) machine: Machine,
    pub(crate) servers: Vec<Server>,
    pub(crate) settings: Settings,
    pub(crate) starts: Vec<Start>,
    pub(crate) targets: Vec<Loaded>,
    pub(crate) rounds: Vec<Round>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) authentication: Vec<Authentication>,
    pub(crate) recovery: Option<Recovery>,
    pub(crate) space: Option<Space>,
    pub(crate) drop: Option<Drop>,
    pub(crate) client: Option<Figures>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) version: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) entity_bytes: usize,
    pub(crate) entities: Vec<u64>,
    pub(crate) azurite_entities: u64,
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    pub(crate) connections: u16,
    /// Of our server, where they are not its own.
    pub(crate) server: Vec<(String, String)>,
}

/// A server and its table.
#[derive(Debug, Serialize)]
pub(crate) struct Loaded {
    pub(crate) target: String,
    pub(crate) entities: u64,
    pub(crate) load_seconds: f64,
    pub(crate) memory: MemoryStages,
}

/// One target's rate over another's.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) series: &'static str,
    pub(crate) ours: String,
    pub(crate) theirs: String,
    /// What we want to reach at least.
    pub(crate) goal: Option<f64>,
    #[serde(flatten)]
    pub(crate) spread: Spread,
}

impl Record {
    pub(crate) fn new(
        args: &Args,
        command: String,
        machine: Machine,
        commit: String,
        servers: &[Box<dyn BenchServer>],
    ) -> Self {
        let servers = servers
            .iter()
            .map(|server| Server { name: server.name(), version: server.version().to_owned() });
        let settings = Settings {
            entity_bytes: ENTITY_BYTES,
            entities: args.entities.clone(),
            azurite_entities: args.azurite_entities,
            rounds: args.rounds,
            seconds: args.seconds,
            connections: args.connections,
            server: args.settings.clone(),
        };
        Self {
            date: today(),
            commit,
            command,
            machine,
            servers: servers.collect(),
            settings,
            starts: Vec::new(),
            targets: Vec::new(),
            rounds: Vec::new(),
            ratios: Vec::new(),
            authentication: Vec::new(),
            recovery: None,
            space: None,
            drop: None,
            client: None,
        }
    }

    pub(crate) fn note_targets(&mut self, targets: &[ServerTarget]) {
        self.targets.extend(targets.iter().map(|target| Loaded {
            target: target.label(),
            entities: target.entities,
            load_seconds: target.load_seconds,
            memory: target.memory,
        }));
    }

    /// Rounds of a series on one target, in order.
    pub(crate) fn rounds_of<'a>(
        &'a self,
        series: &'a str,
        target: &'a str,
    ) -> impl Iterator<Item = &'a Round> {
        self.rounds.iter().filter(move |round| round.series == series && round.target == target)
    }

    /// The targets of a series: ours by size, then the others.
    pub(crate) fn targets_of(&self, series: &str) -> Vec<String> {
        let mut targets: Vec<String> = Vec::new();
        let mut first: Vec<&Round> =
            self.rounds.iter().filter(|round| round.series == series).collect();
        first.sort_by_key(|round| (!is_ours(&round.target), round.target_entities));
        for round in first {
            if !targets.contains(&round.target) {
                targets.push(round.target.clone());
            }
        }
        targets
    }

    /// Adds the ratios of a series: each size of ours to each rival, and to our smallest.
    pub(crate) fn compare(&mut self, series: Series) {
        let targets = self.targets_of(series.name());
        let (ours, rivals): (Vec<_>, Vec<_>) =
            targets.into_iter().partition(|target| is_ours(target));
        let with_rivals = ours.iter().flat_map(|our| rivals.iter().map(move |rival| (our, rival)));
        let with_smallest = ours
            .iter()
            .skip(1)
            .zip(std::iter::repeat(ours.first()))
            .filter_map(|(a, b)| Some((a, b?)));
        let pairs: Vec<_> = with_rivals.chain(with_smallest).collect();
        let ratios: Vec<_> =
            pairs.into_iter().filter_map(|(a, b)| self.ratio(series.name(), a, b)).collect();
        self.ratios.extend(ratios);
    }

    fn ratio(&self, series: &'static str, ours: &str, theirs: &str) -> Option<Ratio> {
        let rates = |target| {
            self.rounds_of(series, target).map(|round| round.per_second).collect::<Vec<_>>()
        };
        let spread = Spread::of_ratios(&rates(ours), &rates(theirs))?;
        let goal = Series::named(series).and_then(|series| series.goal(target_name(theirs)));
        Some(Ratio { series, ours: ours.to_owned(), theirs: theirs.to_owned(), goal, spread })
    }
}

/// `azurite` of `azurite 10k`.
pub(crate) fn target_name(target: &str) -> &str {
    target.split(' ').next().unwrap_or_default()
}

pub(crate) fn is_ours(target: &str) -> bool {
    target.starts_with("tavola")
}

fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = OffsetDateTime::from_unix_timestamp(now.as_secs() as i64)
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    format!("{}-{:02}-{:02}", now.year(), u8::from(now.month()), now.day())
}
