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

pub(crate) fn measure(shape: Shape, target: &mut Target, template: &EntityTemplate, round: u32) -> Result<Round> {
    let server = target.server.process();
    let label = target.label();
    let syncs_before = syncs(target)?;
    let (server_before, own_before) = (process::cpu_time(server)?, process::cpu_time(id())?);
    let outcome = press(shape, target, template, round);
    let (outcome, own_signing) =
        outcome.context(|| format!("{} on {label}: {}", shape.series.name(), target.server.last_errors()))?;
    let (server_after, own_after) = (process::cpu_time(server)?, process::cpu_time(id())?);
    let syncs = syncs_before.zip(syncs(target)?).map(|(before, after)| after - before);
    let latency = |quantile| outcome.latency.value_at_quantile(quantile) as f64 / 1e3;
    let seconds = outcome.elapsed.as_secs_f64();
    let counted = match shape.series.unit() {
        Unit::Requests => outcome.requests,
        Unit::Entities => outcome.entities,
    };
    Ok(Round {
        series: shape.series.name(),
        target: label,
        target_entities: target.entities,
        round,
        requests: outcome.requests,
        entities: outcome.entities,
        seconds,
        per_second: counted as f64 / seconds,
        p50_us: latency(0.5),
        p99_us: latency(0.99),
        p999_us: latency(0.999),
        server_cpu_seconds: server_after.saturating_sub(server_before).as_secs_f64(),
        generator_cpu_seconds: own_after.saturating_sub(own_before + own_signing).as_secs_f64(),
        resident_bytes: process::memory(server)?.resident_bytes,
        syncs,
    })
}

fn syncs(target: &Target) -> Result<Option<f64>> {
    target.server.admin.map_or(Ok(None), |admin| client::counter(admin, SYNCS))
}

/// Runs the round; also says how much CPU time went into signing before it began.
fn press(shape: Shape, target: &mut Target, template: &EntityTemplate, round: u32) -> Result<(Outcome, Duration)> {
    let before = process::cpu_time(id())?;
    let (address, entities) = (target.server.address, target.entities);
    let signer = Signer::new(address)?;
    let mut source = source(shape.series, target, &signer, template, u64::from(round));
    let signing = process::cpu_time(id())?.saturating_sub(before);
    let load = Load { address, connections: shape.connections, duration: shape.duration };
    let outcome = generator::run(load, &mut *source, &mut |_| {})?;
    if shape.series == Series::Scan && !outcome.entities.is_multiple_of(entities) {
        return Err(Failure::new(format!("scans of {entities} entities met {}", outcome.entities)));
    }
    Ok((outcome, signing))
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
