//! New entities in 1,000 partitions, by transactions of 100: the client's `bulk` against the batches
//! of the load generator, which are as many as the server takes.

use std::cell::Cell;
use std::time::Duration;

use tavola_client::Mode;
use tavola_load::source::BatchSource;
use tavola_load::{Context, Failure, Family, Load, Pace, Result, Signer, create_table};

use super::sample::Typed;
use super::{Bench, Contender, Sample, sample, sdk, timed};

const TABLE: &str = "Bulk";
const THEIR_TABLE: &str = "Batches";
/// In flight, of both.
pub(super) const PARALLEL: usize = 8;
const TIME_MAX: Duration = Duration::from_secs(3600);

pub(super) fn targets<'a>(bench: &'a Bench<'a>) -> Result<Vec<Contender<'a>>> {
    let site = &bench.target.server.site;
    for table in [TABLE, THEIR_TABLE] {
        create_table(site, table)?;
    }
    let table = bench.client()?.table_client(TABLE);
    let entities = bench.args.bulk_entities;
    let ours = move |round: u32| {
        let start = u64::from(round) * entities;
        let indexes = start..start + entities;
        let all: Vec<Typed> = indexes
            .map(|index| Typed::new(Family::Batched.key(index), bench.template, index))
            .collect();
        let bulk = table.bulk().parallel(PARALLEL).upsert_all(all, Mode::Replace);
        let (report, cpu, elapsed) =
            timed(|| bench.runtime.block_on(bulk.into_future()).context(|| "a bulk".into()))?;
        if report.written as u64 != entities {
            return Err(Failure::new(format!("{} of {entities} were written", report.written)));
        }
        Ok(sample(entities, cpu, elapsed))
    };
    let next = Cell::new(0);
    let theirs = move |_| generate(bench, &next);
    let mut targets: Vec<Contender<'a>> =
        vec![("tavola-client", Box::new(ours)), ("load generator", Box::new(theirs))];
    targets.extend(sdk::targets(bench, sdk::Task::Bulk)?);
    Ok(targets)
}

fn generate(bench: &Bench<'_>, next: &Cell<u64>) -> Result<Sample> {
    let (site, entities) = (&bench.target.server.site, bench.args.bulk_entities);
    let signer = Signer::new(site);
    let mut index = next.get();
    let end = index + entities;
    let batches = BatchSource::new(&signer, THEIR_TABLE, bench.template, &mut index);
    let mut batches = batches.load(Family::Batched, end);
    let load = Load { connections: PARALLEL, duration: TIME_MAX, pace: Pace::Closed };
    let (_, cpu, elapsed) = timed(|| tavola_load::run(site, load, &mut batches, &mut |_| {}))?;
    next.set(end);
    Ok(sample(entities, cpu, elapsed))
}
