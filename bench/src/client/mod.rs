//! The client library, side by side with what it cannot be better than: the same bytes sent by a
//! bare HTTP client, JSON read by serde, the batches of the load generator. And, for orientation,
//! the official SDKs of other languages doing the same.
//!
//! Costs are CPU time of the client alone: its requests run on the measuring thread.

mod bulk;
mod decode;
mod get;
mod sample;
mod sdk;
mod stream;

use serde::Serialize;
use tavola_client::{Credential, TableServiceClient};
use tavola_load::{Context, EntityTemplate, Result, Spread};
use tavola_protocol::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tokio::runtime::{Builder, Runtime};

use crate::args::{Args, Workload};
use crate::folders::Scratch;
use crate::process;
use crate::progress::Progress;
use crate::server::BenchServer;
use crate::server_target::ServerTarget;

/// What one target did in one round.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// CPU time of the client for one thing, in microseconds.
    cpu_us: f64,
    per_second: f64,
}

/// A target of a workload, over all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) workload: &'static str,
    pub(crate) target: &'static str,
    pub(crate) cpu_us: Spread,
    pub(crate) per_second: Spread,
    /// Of the workload's own measure to the first target's; not for the first.
    pub(crate) ratio: Option<Spread>,
}

/// What is compared in a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// The first target's CPU time over another's.
    Cpu,
    /// The first target's rate over another's.
    Rate,
}

/// Memory of this process while it streams a table.
#[derive(Debug, Serialize)]
pub(crate) struct Streamed {
    pub(crate) entities: u64,
    pub(crate) per_second: f64,
    /// After a tenth of the table, and at the highest point after it.
    pub(crate) early_bytes: u64,
    pub(crate) highest_bytes: u64,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) figures: Vec<Figure>,
    pub(crate) streamed: Option<Streamed>,
}

const WORKLOADS: [Workload; 5] = [
    Workload::ClientGet,
    Workload::ClientDecode,
    Workload::ClientDynamic,
    Workload::ClientBulk,
    Workload::ClientStream,
];

pub(crate) fn is_wanted(args: &Args) -> bool {
    WORKLOADS.into_iter().any(|workload| args.wants(workload))
}

pub(crate) fn measure(
    server: &dyn BenchServer,
    args: &Args,
    template: &EntityTemplate,
    scratch: &Scratch,
) -> Result<Figures> {
    let largest = args.entities.iter().max().copied().unwrap_or_default();
    let target = ServerTarget::prepare(server, largest, false, template, scratch)?;
    let bench = Bench { args, target: &target, template, runtime: runtime()? };
    let mut figures = Figures::default();
    if args.wants(Workload::ClientGet) {
        figures.figures.extend(bench.rounds("client-get", Measure::Cpu, get::targets(&bench)?)?);
    }
    if args.wants(Workload::ClientDecode) {
        let targets = decode::against_serde(&bench)?;
        figures.figures.extend(bench.rounds("client-decode", Measure::Cpu, targets)?);
    }
    if args.wants(Workload::ClientDynamic) {
        let targets = decode::dynamic_against_typed(&bench)?;
        figures.figures.extend(bench.rounds("client-dynamic", Measure::Cpu, targets)?);
    }
    if args.wants(Workload::ClientBulk) {
        figures.figures.extend(bench.rounds(
            "client-bulk",
            Measure::Rate,
            bulk::targets(&bench)?,
        )?);
    }
    if args.wants(Workload::ClientStream) {
        figures.streamed = Some(stream::measure(&bench)?);
    }
    Ok(figures)
}

/// All on this thread, so that its CPU time is the client's.
fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context(|| "a runtime".into())
}

/// What every workload needs.
struct Bench<'a> {
    args: &'a Args,
    target: &'a ServerTarget,
    template: &'a EntityTemplate,
    runtime: Runtime,
}

/// Its name, and what it does in a round.
type Contender<'a> = (&'static str, Box<dyn FnMut(u32) -> Result<Sample> + 'a>);

impl Bench<'_> {
    fn client(&self) -> Result<TableServiceClient> {
        let _entered = self.runtime.enter();
        let credential = Credential::key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY);
        let url = self.target.server.site.url();
        TableServiceClient::new(&url, Some(credential), None).context(|| "a client".into())
    }

    /// Rounds alternate, and each begins with another target; the first round does not count.
    fn rounds(
        &self,
        workload: &'static str,
        measure: Measure,
        mut contenders: Vec<Contender<'_>>,
    ) -> Result<Vec<Figure>> {
        let (count, mut progress) = (contenders.len(), Progress::new());
        let mut samples = vec![Vec::new(); count];
        for round in 0..=self.args.rounds {
            for turn in 0..count {
                let at = (turn + round as usize) % count;
                let (name, run) = &mut contenders[at];
                progress
                    .show(&format!("{workload}: round {round} of {}, {name}", self.args.rounds));
                let sample = run(round).context(|| format!("{workload} of {name}"))?;
                samples[at].extend((round > 0).then_some(sample));
            }
        }
        progress.clear();
        let names = contenders.iter().map(|(name, _)| *name);
        let figures = names.zip(&samples).map(|(target, rounds)| {
            figure(workload, target, measure, &samples[0], rounds).ok_or_else(|| "no rounds".into())
        });
        figures.collect()
    }
}

fn figure(
    workload: &'static str,
    target: &'static str,
    measure: Measure,
    ours: &[Sample],
    rounds: &[Sample],
) -> Option<Figure> {
    let of = |samples: &[Sample], value: fn(&Sample) -> f64| -> Vec<f64> {
        samples.iter().map(value).collect()
    };
    let value: fn(&Sample) -> f64 = match measure {
        Measure::Cpu => |sample| sample.cpu_us,
        Measure::Rate => |sample| sample.per_second,
    };
    let is_first = std::ptr::eq(ours, rounds);
    let ratio = Spread::of_ratios(&of(ours, value), &of(rounds, value));
    Some(Figure {
        workload,
        target,
        cpu_us: Spread::of(of(rounds, |sample| sample.cpu_us))?,
        per_second: Spread::of(of(rounds, |sample| sample.per_second))?,
        ratio: ratio.filter(|_| !is_first),
    })
}

/// Times a call on this thread that did so many things.
fn sample(things: u64, cpu: std::time::Duration, elapsed: std::time::Duration) -> Sample {
    Sample {
        cpu_us: cpu.as_secs_f64() * 1e6 / things as f64,
        per_second: things as f64 / elapsed.as_secs_f64(),
    }
}

/// CPU time of this thread and the time that passed, over a call.
fn timed<T>(
    call: impl FnOnce() -> Result<T>,
) -> Result<(T, std::time::Duration, std::time::Duration)> {
    let (cpu, started) = (process::thread_cpu_time()?, std::time::Instant::now());
    let result = call()?;
    Ok((result, process::thread_cpu_time()?.saturating_sub(cpu), started.elapsed()))
}
