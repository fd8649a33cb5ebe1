//! One round of one series, with all that it cost.

use std::process::id;
use std::time::Duration;

use serde::Serialize;
use tavola_load::{Context, ENTITY_BYTES, EntityTemplate, MATCHES_ONE_OF, Result};

use crate::process;
use crate::series::{Series, Unit};
use crate::target::{Reached, Shape, Target};

/// The raw figures of a round, as they are kept.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    pub(crate) series: &'static str,
    /// Name and size, as [`Target::label`] gives them.
    pub(crate) target: String,
    pub(crate) target_entities: u64,
    pub(crate) round: u32,
    #[serde(flatten)]
    pub(crate) reached: Reached,
    /// In the unit of the series.
    pub(crate) per_second: f64,
    pub(crate) server_cpu_seconds: Option<f64>,
    pub(crate) generator_cpu_seconds: f64,
    /// All else on the machine, the kernel's own threads included: how quiet it was.
    pub(crate) others_cpu_seconds: f64,
    pub(crate) resident_bytes: Option<u64>,
    /// Syncs of the log during the round, if the server counts them.
    pub(crate) syncs: Option<f64>,
    /// Bytes that went to the disk for each byte of JSON that was stored. Merging goes on after a
    /// round: a sum over all rounds tells more than one of them.
    pub(crate) written_per_stored: Option<f64>,
}

impl Round {
    /// Of the server, in seconds.
    pub(crate) fn cpu_per_request(&self) -> Option<f64> {
        Some(self.server_cpu_seconds? / self.reached.requests as f64)
    }
}

/// Measures a round; a failure names the target, and what the target had to say.
pub(crate) fn measure(
    shape: Shape,
    target: &mut dyn Target,
    template: &EntityTemplate,
    round: u32,
) -> Result<Round> {
    let measured = measure_costs(shape, target, template, round);
    measured.context(|| {
        format!("{} on {}: {}", shape.series.name(), target.label(), target.last_errors())
    })
}

fn measure_costs(
    shape: Shape,
    target: &mut dyn Target,
    template: &EntityTemplate,
    round: u32,
) -> Result<Round> {
    let (syncs_before, written_before) = (target.syncs()?, written(target)?);
    let before = CpuTimes::now(target.process())?;
    let reached = target.press(shape, template, round)?;
    let costs = CpuTimes::now(target.process())?.since(before);
    let syncs = syncs_before.zip(target.syncs()?).map(|(before, after)| after - before);
    let written =
        written_before.zip(written(target)?).map(|(before, after)| (after - before) as f64);
    let stored = (shape.series.writes() && reached.entities > 0)
        .then_some(reached.entities as f64 * ENTITY_BYTES as f64);
    Ok(Round {
        series: shape.series.name(),
        target: target.label(),
        target_entities: target.entities(),
        round,
        per_second: counted(shape.series, &reached) / reached.seconds,
        reached,
        server_cpu_seconds: target.process().map(|_| costs.server.as_secs_f64()),
        generator_cpu_seconds: costs.generator.as_secs_f64(),
        others_cpu_seconds: costs.others().as_secs_f64(),
        resident_bytes: target
            .process()
            .map(process::memory)
            .transpose()?
            .map(|memory| memory.resident_bytes),
        syncs,
        written_per_stored: written.zip(stored).map(|(written, stored)| written / stored),
    })
}

fn counted(series: Series, reached: &Reached) -> f64 {
    match series.unit() {
        Unit::Requests => reached.requests as f64,
        Unit::Entities => reached.entities as f64,
        Unit::Rows => (reached.entities * MATCHES_ONE_OF) as f64,
    }
}

fn written(target: &dyn Target) -> Result<Option<u64>> {
    target.process().map(process::written_bytes).transpose()
}

/// CPU times: at an instant, or between two.
#[derive(Debug, Clone, Copy)]
struct CpuTimes {
    server: Duration,
    generator: Duration,
    machine: Duration,
}

impl CpuTimes {
    fn now(server: Option<u32>) -> Result<Self> {
        let machine = process::machine_cpu_time()?;
        let server = server.map_or(Ok(Duration::ZERO), process::cpu_time)?;
        Ok(Self { server, generator: process::cpu_time(id())?, machine })
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
