//! A whole run: targets, rounds, in an order that is fair to all.

use std::env;

use tavola_load::{EntityTemplate, Result, Spread};

use crate::args::{Args, Rival, Workload};
use crate::authentication;
use crate::engine::EngineProcess;
use crate::folders::Scratch;
use crate::machine::{self, Machine};
use crate::postgres::Postgres;
use crate::process;
use crate::progress::Progress;
use crate::redis::Redis;
use crate::report::{self, Record};
use crate::round::{self, Round};
use crate::series::Series;
use crate::server::{Azurite, BenchServer, Tavola, null};
use crate::server_target::{ServerTarget, settle};
use crate::target::{Shape, Target};
use crate::{client, drop_table, recovery, space, start};

/// Number of the round that does not count; it also seeds the choice of entities, so it is none of
/// the others.
const WARM_UP: u32 = 0;

pub(crate) fn run(args: &Args) -> Result {
    let servers = servers(args)?;
    let scratch = Scratch::new()?;
    let mut record =
        Record::new(args, command(), Machine::here(scratch.path()), machine::commit(), &servers);
    report::print_opening(&record);
    if args.wants(Workload::Start) {
        record.starts = start::measure(&servers, &scratch)?;
        report::print_starts(&record);
    }
    if needs_tables(args) {
        measure_tables(args, &servers, &scratch, &mut record)?;
    }
    let template = EntityTemplate::new();
    let largest = args.entities.iter().max().copied().unwrap_or_default();
    if args.wants(Workload::Recovery) {
        record.recovery = Some(recovery::measure(&*servers[0], largest, &template, &scratch)?);
        report::print_recovery(&record);
    }
    if args.wants(Workload::Space) {
        record.space = Some(space::measure(&*servers[0], largest, &template, &scratch)?);
        report::print_space(&record);
    }
    if args.wants(Workload::Drop) {
        record.drop = Some(drop_table::measure(&*servers[0], largest, args, &template, &scratch)?);
        report::print_drop(&record);
    }
    if client::is_wanted(args) {
        record.client = Some(client::measure(&*servers[0], args, &template, &scratch)?);
        report::print_client(&record);
    }
    report::save(args, &record)
}

/// What a reader has to type to repeat it.
fn command() -> String {
    let words: Vec<_> = env::args().skip(1).collect();
    format!("cargo xtask bench {}", words.join(" ")).trim_end().to_owned()
}

/// Servers that are started as a user would; ours is the first.
fn servers(args: &Args) -> Result<Vec<Box<dyn BenchServer>>> {
    let tavola = Tavola::find(args.server.as_deref(), &args.settings)?;
    let mut servers: Vec<Box<dyn BenchServer>> = vec![Box::new(tavola)];
    if let Some(before) = &args.before {
        servers.push(Box::new(Tavola::before(before, &args.settings)?));
    }
    if args.against.contains(&Rival::Azurite) {
        servers.push(Box::new(Azurite::install()?));
    }
    Ok(servers)
}

fn needs_tables(args: &Args) -> bool {
    args.wants(Workload::Rss) || Series::ALL.iter().any(|series| args.wants_series(*series))
}

/// All that rounds measure.
struct Field {
    targets: Vec<ServerTarget>,
    others: Vec<Box<dyn Target>>,
}

impl Field {
    fn targets_of(&mut self, series: Series) -> Vec<&mut dyn Target> {
        let targets = self.targets.iter_mut().map(|target| target as &mut dyn Target);
        // Not `map(AsMut)`: the trait object's own bound would have to outlive the box.
        let others = self.others.iter_mut().map(|other| &mut **other as &mut dyn Target);
        targets.chain(others).filter(|target| target.takes(series)).collect()
    }
}

fn measure_tables(
    args: &Args,
    servers: &[Box<dyn BenchServer>],
    scratch: &Scratch,
    record: &mut Record,
) -> Result {
    let template = EntityTemplate::new();
    let mut field = prepare(args, servers, &template, scratch)?;
    for series in Series::ALL.into_iter().filter(|series| args.wants_series(*series)) {
        let top_rate = top_rate(record);
        let shape = Shape {
            series,
            connections: series.connections(args),
            duration: args.duration(),
            pace: series.pace(top_rate),
        };
        record.rounds.extend(measure_series(
            shape,
            args.rounds,
            field.targets_of(series),
            &template,
        )?);
        record.compare(series);
        report::print_series(record, shape);
        if series == Series::Get && args.wants(Workload::Auth) {
            record.authentication = authentication::measure(record)?;
            report::print_authentication(record);
        }
    }
    for target in &mut field.targets {
        target.memory.end = process::memory(target.server.process())?;
    }
    record.note_targets(&field.targets);
    report::print_targets(record);
    Ok(())
}

/// What our largest table reached in the closed loop of the mixed load.
fn top_rate(record: &Record) -> Option<f64> {
    let ours = record
        .targets_of(Series::Mixed.name())
        .into_iter()
        .rfind(|target| report::is_ours(target))?;
    Spread::of(record.rounds_of(Series::Mixed.name(), &ours).map(|round| round.per_second))
        .map(|rate| rate.median)
}

fn prepare(
    args: &Args,
    servers: &[Box<dyn BenchServer>],
    template: &EntityTemplate,
    scratch: &Scratch,
) -> Result<Field> {
    let mut targets = Vec::new();
    for server in servers {
        let sizes = if server.name() == "azurite" {
            std::slice::from_ref(&args.azurite_entities)
        } else {
            &args.entities
        };
        for entities in sizes {
            let with_wide_table = args.wants_series(Series::Filter);
            targets.push(ServerTarget::prepare(
                &**server,
                *entities,
                with_wide_table,
                template,
                scratch,
            )?);
        }
    }
    if args.warm {
        targets.iter().filter(|target| target.is_ours()).try_for_each(ServerTarget::warm)?;
    }
    if args.against.contains(&Rival::Null) {
        // Ours is the first.
        targets.push(null::start(&targets[0], scratch)?);
    }
    let largest = args.entities.iter().max().copied().unwrap_or_default();
    let mut others: Vec<Box<dyn Target>> = Vec::new();
    for rival in &args.against {
        match rival {
            Rival::Engine => others.push(Box::new(EngineProcess::start(largest, scratch)?)),
            Rival::Postgres => others.push(Box::new(Postgres::start(largest, template, scratch)?)),
            Rival::Redis => others.push(Box::new(Redis::start(largest, scratch)?)),
            Rival::Null | Rival::Azurite | Rival::Python | Rival::Js | Rival::Go => {}
        }
    }
    Ok(Field { targets, others })
}

/// Rounds alternate between the targets, and each round begins with another one: whatever slows
/// the machine for a while affects them all.
fn measure_series(
    shape: Shape,
    rounds: u32,
    mut targets: Vec<&mut dyn Target>,
    template: &EntityTemplate,
) -> Result<Vec<Round>> {
    let processes: Vec<u32> = targets.iter().filter_map(|target| target.process()).collect();
    let count = targets.len();
    let mut progress = Progress::new();
    let mut measured = Vec::new();
    for number in WARM_UP..=rounds {
        for turn in 0..count {
            let target = &mut *targets[(turn + number as usize) % count];
            progress.show(&format!(
                "{}: round {number} of {rounds}, {}",
                shape.series.name(),
                target.label()
            ));
            settle(&processes)?;
            let round = round::measure(shape, target, template, number)?;
            measured.extend((number != WARM_UP).then_some(round));
        }
    }
    progress.clear();
    Ok(measured)
}
