//! Attacks a server process and prints what it found. `cargo xtask torture` builds what it needs
//! and starts it.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::{Value, json};
use tavola_torture::{
    CAMPAIGNS, Campaign, FAULT_NAMES, Plan, current_fault_name, run, seed_has_fault, undo_faults,
};

const USAGE: &str = "\
usage: torture [campaign...] --server FILE --scratch FOLDER [options]

  --server FILE     the server to attack
  --mutants FILE    a server with defects, which campaigns must find
  --cluster FOLDER  of the cluster that campaigns with that name attack
  --faults A,B      only seeds of the campaign cluster that bring one of these faults
  --end-with-parent end when the program ends that started this one
  --undo-faults     only undo what an attack on the cluster left behind that was killed
  --scratch FOLDER  where attacks have their folders
  --seeds N         so many seeds; default: those of the short form
  --first-seed N    begin there; default 1
  --seed N          this seed only
  --minutes M       begin no seed after so many minutes
  --json FILE       also write the figures to FILE
  --list            print the campaigns

exit code: 0 nothing found, 1 a promise was broken or could not be put to the test, 2 wrong usage";

#[derive(Default)]
struct Options {
    campaigns: Vec<String>,
    server: Option<PathBuf>,
    mutants: Option<PathBuf>,
    cluster: Option<PathBuf>,
    faults: Vec<String>,
    scratch: Option<PathBuf>,
    seeds: Option<u64>,
    first_seed: Option<u64>,
    minutes: Option<u64>,
    json: Option<PathBuf>,
    list: bool,
    undo_faults: bool,
    end_with_parent: bool,
}

fn main() -> ExitCode {
    let options = match parse(env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => return wrong_usage(&problem),
    };
    if options.list {
        CAMPAIGNS.iter().for_each(|campaign| println!("{:<15} {}", campaign.name, campaign.about));
        return ExitCode::SUCCESS;
    }
    if options.undo_faults {
        return match undo(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => wrong_usage(&problem),
        };
    }
    if options.end_with_parent
        && let Err(error) = set_parent_process_death_signal(Some(Signal::TERM))
    {
        return wrong_usage(&format!("--end-with-parent: {error}"));
    }
    let chosen = match choose(&options.campaigns) {
        Ok(chosen) => chosen,
        Err(problem) => return wrong_usage(&problem),
    };
    match attack(&chosen, &options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => wrong_usage(&problem),
    }
}

fn wrong_usage(problem: &str) -> ExitCode {
    eprintln!("{problem}\n\n{USAGE}");
    ExitCode::from(2)
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--server" => options.server = Some(value()?.into()),
            "--mutants" => options.mutants = Some(value()?.into()),
            "--cluster" => options.cluster = Some(value()?.into()),
            "--faults" => options.faults = faults(&value()?)?,
            "--scratch" => options.scratch = Some(value()?.into()),
            "--seeds" => options.seeds = Some(number(&value()?)?),
            "--first-seed" => options.first_seed = Some(number(&value()?)?),
            "--seed" => (options.first_seed, options.seeds) = (Some(number(&value()?)?), Some(1)),
            "--minutes" => options.minutes = Some(number(&value()?)?),
            "--json" => options.json = Some(value()?.into()),
            "--list" => options.list = true,
            "--end-with-parent" => options.end_with_parent = true,
            "--undo-faults" => options.undo_faults = true,
            _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
            _ => options.campaigns.push(word),
        }
    }
    Ok(options)
}

fn faults(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(current_fault_name).map(str::to_owned).collect();
    match names.iter().find(|name| !FAULT_NAMES.contains(&name.as_str())) {
        Some(unknown) => {
            Err(format!("unknown fault {unknown}: choose from {}", FAULT_NAMES.join(", ")))
        }
        None => Ok(names),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

fn choose(names: &[String]) -> Result<Vec<&'static Campaign>, String> {
    let known = || CAMPAIGNS.map(|campaign| campaign.name).join(", ");
    if let Some(unknown) =
        names.iter().find(|name| *name != "all" && !CAMPAIGNS.iter().any(|one| one.name == **name))
    {
        return Err(format!("unknown campaign {unknown}: choose from {}, or all", known()));
    }
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    let all = |campaign: &Campaign| all && !campaign.needs_cluster;
    Ok(CAMPAIGNS
        .iter()
        .filter(|campaign| all(campaign) || names.iter().any(|name| name == campaign.name))
        .collect())
}

fn undo(options: &Options) -> Result<(), String> {
    let cluster = options.cluster.as_ref().ok_or("--cluster is missing")?;
    undo_faults(cluster).map_err(|violation| violation.to_string())
}

/// So many from the first on, and of these only those that bring one of the faults, if faults were
/// named.
fn seeds(first: u64, count: u64, faults: &[String]) -> Vec<u64> {
    let wanted = (first..).filter(|seed| faults.is_empty() || seed_has_fault(*seed, faults));
    wanted.take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
}

/// True if every promise was kept.
fn attack(campaigns: &[&Campaign], options: &Options) -> Result<bool, String> {
    let server = options.server.clone().ok_or("--server is missing")?;
    let scratch = options.scratch.clone().ok_or("--scratch is missing")?;
    let first = options.first_seed.unwrap_or(1);
    let (mut kept, mut report) = (true, Vec::new());
    for campaign in campaigns {
        let plan = Plan {
            seeds: seeds(first, options.seeds.unwrap_or(campaign.short_seeds), &options.faults),
            time_max: options.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
            is_short: options.seeds.is_none(),
            server: server.clone(),
            mutants: options.mutants.clone(),
            cluster: options.cluster.clone(),
            scratch: scratch.clone(),
        };
        let outcome =
            run(campaign, &plan).map_err(|error| format!("{}: {error}", scratch.display()))?;
        kept &= outcome.found.is_empty() && outcome.missing.is_empty();
        let figures: serde_json::Map<String, Value> = outcome
            .tally
            .figures()
            .map(|(what, figure)| (what.to_owned(), figure.into()))
            .collect();
        report.push(json!({
            "campaign": campaign.name, "first_seed": first, "clean": outcome.clean, "found": outcome.found,
            "missing": outcome.missing,
            "seconds": outcome.elapsed.as_secs(), "figures": figures,
        }));
    }
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", Value::from(report)))
            .map_err(|error| error.to_string())?;
    }
    Ok(kept)
}
