//! A whole run: servers, tables, rounds, in an order that is fair to all.

use std::env;

use crate::args::{Args, Rival, Workload};
use crate::authentication;
use crate::entity::EntityTemplate;
use crate::failure::Result;
use crate::folders::Scratch;
use crate::machine::{self, Machine};
use crate::process;
use crate::progress::Progress;
use crate::report::{self, Record};
use crate::round::{self, Round, Shape};
use crate::series::Series;
use crate::server::{Azurite, BenchServer, Tavola};
use crate::start;
use crate::target::{Target, settle};

/// Number of the round that does not count; it also seeds the choice of entities, so it is none of the others.
const WARM_UP: u32 = 0;

pub(crate) fn run(args: &Args) -> Result {
    let servers = servers(args)?;
    let scratch = Scratch::new()?;
    let mut record = Record::new(args, command(), Machine::here(scratch.path()), machine::commit(), &servers);
    report::print_opening(&record);
    if args.wants(Workload::Start) {
        record.starts = start::measure(&servers, &scratch)?;
        report::print_starts(&record);
    }
    if needs_tables(args) {
        measure_tables(args, &servers, &scratch, &mut record)?;
    }
    report::save(args, &record)
}

/// What a reader has to type to repeat it.
fn command() -> String {
    let words: Vec<_> = env::args().skip(1).collect();
    format!("cargo xtask bench {}", words.join(" ")).trim_end().to_owned()
}

fn servers(args: &Args) -> Result<Vec<Box<dyn BenchServer>>> {
    let mut servers: Vec<Box<dyn BenchServer>> = vec![Box::new(Tavola::find(args.server.as_deref())?)];
    if args.against.contains(&Rival::Azurite) {
        servers.push(Box::new(Azurite::install()?));
    }
    Ok(servers)
}

fn needs_tables(args: &Args) -> bool {
    args.wants(Workload::Rss) || Series::ALL.iter().any(|series| args.wants_series(*series))
}

fn measure_tables(args: &Args, servers: &[Box<dyn BenchServer>], scratch: &Scratch, record: &mut Record) -> Result {
    let template = EntityTemplate::new();
    let mut targets = prepare(args, servers, &template, scratch)?;
    for series in Series::ALL.into_iter().filter(|series| args.wants_series(*series)) {
        let shape = Shape { series, connections: series.connections(args), duration: args.duration() };
        record.rounds.extend(measure_series(shape, args.rounds, &mut targets, &template)?);
        record.compare(series);
        report::print_series(record, shape);
        if series == Series::Get && args.wants(Workload::Auth) {
            record.authentication = authentication::measure(record)?;
            report::print_authentication(record);
        }
    }
    for target in &mut targets {
        target.memory.end = process::memory(target.server.process())?;
    }
    record.note_targets(&targets);
    report::print_targets(record);
    Ok(())
}

fn prepare(
    args: &Args,
    servers: &[Box<dyn BenchServer>],
    template: &EntityTemplate,
    scratch: &Scratch,
) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for server in servers {
        let sizes =
            if server.name() == "azurite" { std::slice::from_ref(&args.azurite_entities) } else { &args.entities };
        for entities in sizes {
            targets.push(Target::prepare(&**server, *entities, template, scratch)?);
        }
    }
    Ok(targets)
}

/// Rounds alternate between the servers, and each round begins with another one: whatever slows the machine for a while
/// meets them all.
fn measure_series(shape: Shape, rounds: u32, targets: &mut [Target], template: &EntityTemplate) -> Result<Vec<Round>> {
    let processes: Vec<u32> = targets.iter().map(|target| target.server.process()).collect();
    let mut progress = Progress::new();
    let mut measured = Vec::new();
    for number in WARM_UP..=rounds {
        for turn in 0..targets.len() {
            let target = &mut targets[(turn + number as usize) % processes.len()];
            progress.show(&format!("{}: round {number} of {rounds}, {}", shape.series.name(), target.label()));
            settle(&processes)?;
            let round = round::measure(shape, target, template, number)?;
            measured.extend((number != WARM_UP).then_some(round));
        }
    }
    progress.clear();
    Ok(measured)
}
