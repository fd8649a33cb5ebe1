//! Runs a campaign seed after seed, shows how far it is, and says how to repeat what it found.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Arena, Campaign, Tally};

/// How much of a campaign is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seeds.
    pub seeds: Vec<u64>,
    /// No new seed is begun after this time.
    pub time_max: Option<Duration>,
    /// The short form, which every merge runs.
    pub is_short: bool,
    /// The server to attack.
    pub server: PathBuf,
    /// A server with defects to be found, if it was built.
    pub mutants: Option<PathBuf>,
    /// The folder of a cluster, if one was started.
    pub cluster: Option<PathBuf>,
    /// Where attacks have their folders.
    pub scratch: PathBuf,
}

/// What a campaign did.
#[derive(Debug)]
pub struct Outcome {
    /// Seeds that found nothing.
    pub clean: u64,
    /// The seeds that found something.
    pub found: Vec<u64>,
    /// What had to happen and did not.
    pub missing: Vec<&'static str>,
    /// All figures together.
    pub tally: Tally,
    /// How long it took.
    pub elapsed: Duration,
}

/// Between two lines that tell how far a campaign is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// More findings would only repeat these.
const FOUND_MAX: usize = 3;

/// Runs a campaign.
///
/// # Errors
/// If its folders cannot be made or removed.
pub fn run(campaign: &Campaign, plan: &Plan) -> std::io::Result<Outcome> {
    let begun = Instant::now();
    let (tally, elapsed) = (Tally::default(), Duration::ZERO);
    let mut outcome = Outcome { clean: 0, found: Vec::new(), missing: Vec::new(), tally, elapsed };
    let mut shown = Instant::now();
    println!("{}: {}", campaign.name, campaign.about);
    for &seed in &plan.seeds {
        let is_late = plan.time_max.is_some_and(|time_max| begun.elapsed() >= time_max);
        if is_late || outcome.found.len() == FOUND_MAX {
            break;
        }
        run_seed(campaign, plan, seed, &mut outcome)?;
        // Seeds on a cluster take long, and have a line of their own each.
        if shown.elapsed() >= PROGRESS_INTERVAL && !campaign.needs_cluster {
            println!(
                "{}: {} of {} seeds, {}",
                campaign.name,
                outcome.clean,
                plan.seeds.len(),
                outcome.tally
            );
            shown = Instant::now();
        }
    }
    outcome.elapsed = begun.elapsed();
    outcome.missing = campaign.missing(outcome.clean, &outcome.tally);
    let Outcome { clean, found, missing, tally, elapsed } = &outcome;
    println!(
        "{}: {clean} seeds clean, {} not, in {} s: {tally}",
        campaign.name,
        found.len(),
        elapsed.as_secs()
    );
    if !missing.is_empty() {
        println!(
            "{}: this never happened, so the seeds prove less than they say: {}",
            campaign.name,
            missing.join(", ")
        );
    }
    Ok(outcome)
}

fn run_seed(
    campaign: &Campaign,
    plan: &Plan,
    seed: u64,
    outcome: &mut Outcome,
) -> std::io::Result<()> {
    let folder = plan.scratch.join(format!("{}-{seed}", campaign.name));
    empty(&folder)?;
    let Plan { is_short, server, mutants, cluster, .. } = plan.clone();
    let arena = Arena { seed, is_short, server, mutants, cluster, folder };
    match (campaign.attack)(&arena) {
        Ok(tally) => {
            outcome.tally.merge(&tally);
            outcome.clean += 1;
            fs::remove_dir_all(&arena.folder)?;
        }
        Err(violation) => {
            println!("{}: seed {seed}: {violation}", campaign.name);
            println!("  kept: {}", arena.folder.display());
            println!("  repeat it: cargo xtask torture {} --seed {seed}", campaign.name);
            outcome.found.push(seed);
        }
    }
    Ok(())
}

fn empty(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)
}
