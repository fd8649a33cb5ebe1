//! One round of one series on one server, with all that it cost.

use std::process::id;
use std::time::Duration;

use serde::Serialize;

use crate::client;
use crate::entity::EntityTemplate;
use crate::failure::{Context, Failure, Result};
use crate::generator::{self, Load, Outcome};
use crate::process;
use crate::request::Signer;
use crate::series::{Series, Unit};
use crate::source::{BatchSource, InsertSource, PoolSource, ScanSource, Source};
use crate::target::{TABLE, Target};

const SYNCS: &str = "tavola_store_syncs_total";

/// The raw figures of a round, as they are kept.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    pub(crate) series: &'static str,
    /// Server and size, as [`Target::label`] gives them.
    pub(crate) target: String,
    pub(crate) target_entities: u64,
    pub(crate) round: u32,
    pub(crate) requests: u64,
    pub(crate) entities: u64,
    pub(crate) seconds: f64,
    /// In the unit of the series.
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) server_cpu_seconds: f64,
    pub(crate) generator_cpu_seconds: f64,
    /// All else on the machine, the kernel's own threads included: how quiet it was.
    pub(crate) others_cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    /// Syncs of the log during the round, if the server counts them.
    pub(crate) syncs: Option<f64>,
}

/// Settings of a series that all its rounds share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) series: Series,
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
}

/// Measures a round; a failure says on which server, and what that one had to say.
pub(crate) fn measure(shape: Shape, target: &mut Target, template: &EntityTemplate, round: u32) -> Result<Round> {
    let measured = measure_costs(shape, target, template, round);
    measured.context(|| format!("{} on {}: {}", shape.series.name(), target.label(), target.server.last_errors()))
}

fn measure_costs(shape: Shape, target: &mut Target, template: &EntityTemplate, round: u32) -> Result<Round> {
    let syncs_before = syncs(target)?;
    let (outcome, costs) = press(shape, target, template, round)?;
    let syncs = syncs_before.zip(syncs(target)?).map(|(before, after)| after - before);
    let latency = |quantile| outcome.latency.value_at_quantile(quantile) as f64 / 1e3;
    let seconds = outcome.elapsed.as_secs_f64();
    let counted = match shape.series.unit() {
        Unit::Requests => outcome.requests,
        Unit::Entities => outcome.entities,
    };
    Ok(Round {
        series: shape.series.name(),
        target: target.label(),
        target_entities: target.entities,
        round,
        requests: outcome.requests,
        entities: outcome.entities,
        seconds,
        per_second: counted as f64 / seconds,
        p50_us: latency(0.5),
        p99_us: latency(0.99),
        p999_us: latency(0.999),
        server_cpu_seconds: costs.server.as_secs_f64(),
        generator_cpu_seconds: costs.generator.as_secs_f64(),
        others_cpu_seconds: costs.others().as_secs_f64(),
        resident_bytes: process::memory(target.server.process())?.resident_bytes,
        syncs,
    })
}

/// CPU times: at an instant, or between two.
#[derive(Debug, Clone, Copy)]
struct CpuTimes {
    server: Duration,
    generator: Duration,
    machine: Duration,
}

impl CpuTimes {
    fn now(server: u32) -> Result<Self> {
        let machine = process::machine_cpu_time()?;
        Ok(Self { server: process::cpu_time(server)?, generator: process::cpu_time(id())?, machine })
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            server: self.server.saturating_sub(earlier.server),
            generator: self.generator.saturating_sub(earlier.generator),
            machine: self.machine.saturating_sub(earlier.machine),
        }
    }

    fn others(self) -> Duration {
        self.machine.saturating_sub(self.server + self.generator)
    }
}

fn syncs(target: &Target) -> Result<Option<f64>> {
    target.server.admin.map_or(Ok(None), |admin| client::counter(admin, SYNCS))
}

/// Signs, then runs the round; only the second is measured.
fn press(shape: Shape, target: &mut Target, template: &EntityTemplate, round: u32) -> Result<(Outcome, CpuTimes)> {
    let (address, entities, server) = (target.server.address, target.entities, target.server.process());
    let signer = Signer::new(address)?;
    let mut source = source(shape.series, target, &signer, template, u64::from(round));
    let load = Load { address, connections: shape.connections, duration: shape.duration };
    let before = CpuTimes::now(server)?;
    let outcome = generator::run(load, &mut *source, &mut |_| {})?;
    let costs = CpuTimes::now(server)?.since(before);
    if shape.series == Series::Scan && !outcome.entities.is_multiple_of(entities) {
        return Err(Failure::new(format!("scans of {entities} entities met {}", outcome.entities)));
    }
    Ok((outcome, costs))
}

fn source<'a>(
    series: Series,
    target: &'a mut Target,
    signer: &'a Signer,
    template: &'a EntityTemplate,
    seed: u64,
) -> Box<dyn Source + 'a> {
    match series {
        Series::Get | Series::Point => Box::new(PoolSource::points(signer, TABLE, target.entities, seed)),
        Series::Page => Box::new(PoolSource::pages(signer, TABLE, &target.pages, seed)),
        Series::Scan => Box::new(ScanSource::new(signer, TABLE)),
        Series::Insert => Box::new(InsertSource::new(signer, TABLE, template, &mut target.inserted)),
        Series::Batch => Box::new(BatchSource::new(signer, TABLE, template, &mut target.batched)),
    }
}
