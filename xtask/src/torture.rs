//! `cargo xtask torture`: builds the server and attacks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::cassandra::{Cluster, Shape};
use crate::failure::{Context, Result};
use crate::{cache, install, rocksdb, server, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask torture [kill|disk|power|bits|history|mutants|load|time|all] [--seeds N] [--minutes M] [--seed S] [--json FILE]

Attacks our release build: kills it, lets its disk fail, damages its files, races its clients, and
compares what it then says with what it had acknowledged. Prints how far it is; on a finding, the
seed and the command that repeats it. Without --seeds it runs the short form of each campaign, as
`cargo xtask test` does.

  --seeds N       so many seeds of each campaign
  --first-seed N  begin with this one; default 1
  --seed S        this one only
  --minutes M     begin no seed of a campaign after so many minutes
  --json FILE     also write the figures to FILE
  --list          say what each campaign does

cargo xtask torture [cluster|cluster-mutants] [--faults A,B] [--keep] [the same options]

Starts three nodes of Apache Cassandra, and a spare one, and attacks them and two servers before
them (a debug build). Takes a minute a seed and two gigabytes; needs root, for the packet filter.
Without --seeds each fault comes once.

  --faults A,B    only seeds that bring one of these faults
  --keep          leave the cluster running";

const PROGRAM: &str = "torture";

pub(crate) fn command(mut args: Args) -> Result {
    run(&args.passed_through())
}

/// The short form of each campaign.
pub(crate) fn check() -> Result {
    run(&[])
}

/// The cluster that is attacked; other clusters are left alone.
const CLUSTER: &str = "torture";
const CLUSTER_NODES: u32 = 3;
const CLUSTER_CAMPAIGNS: [&str; 2] = ["cluster", "cluster-mutants"];

/// Builds what the short form runs, so that the attacks themselves begin at once.
pub(crate) fn build_programs() -> Result {
    build()?;
    build_mutants(&scratch()?).map(drop)
}

/// Where attacks have their folders.
fn scratch() -> Result<PathBuf> {
    let scratch = workspace::target()?.join("torture");
    cache::create(&scratch)?;
    Ok(scratch)
}

fn run(more: &[String]) -> Result {
    if CLUSTER_CAMPAIGNS.iter().any(|campaign| more.iter().any(|word| word == campaign)) {
        return run_on_cluster(more);
    }
    let scratch = scratch()?;
    let mut torture = Command::new(build()?);
    torture.args(more).arg("--server").arg(server::build()?).arg("--scratch").arg(&scratch);
    if runs(more, "mutants") {
        torture.arg("--mutants").arg(build_mutants(&scratch)?);
    }
    shell::run_unsaid(&mut torture)
}

fn run_on_cluster(more: &[String]) -> Result {
    let scratch = scratch()?;
    if !install::is_root() {
        return Err(
            "attacks on a cluster need root: they cut nodes off with rules of the packet filter"
                .into(),
        );
    }
    install::ensure(&["iptables"], "cutting nodes off", || shell::has_program("iptables"))?;
    let mut shape = Shape::new(CLUSTER, CLUSTER_NODES)?;
    shape.spares = 1;
    let program = build()?;
    let mut torture = Command::new(&program);
    shell::run(workspace::cargo()?.args(["build", "--workspace", "--bin", "tavola"]))?;
    // Moved out of the way of other builds, the real one like the one with defects.
    let real = scratch.join("tavola-cluster");
    let built = workspace::target()?.join("debug").join("tavola");
    fs::copy(&built, &real).context(|| format!("cannot copy {}", built.display()))?;
    let keep = more.iter().any(|word| word == "--keep");
    torture.args(more.iter().filter(|word| *word != "--keep"));
    torture.arg("--end-with-parent").arg("--server").arg(&real).arg("--scratch").arg(&scratch);
    if runs(more, "cluster-mutants") {
        torture.arg("--mutants").arg(build_mutants(&scratch)?);
    }
    // Nodes that are stopped or cut off since the last run was killed would never find each other.
    if let Some(present) = Cluster::find(CLUSTER)? {
        undo_faults(&program, &present)?;
    }
    let cluster = Cluster::up(&shape, false)?;
    torture.arg("--cluster").arg(cluster.folder());
    let outcome = shell::run_unsaid(&mut torture);
    undo_faults(&program, &cluster)?;
    if !keep {
        cluster.down(false)?;
    }
    outcome
}

fn undo_faults(program: &Path, cluster: &Cluster) -> Result {
    shell::run_unsaid(
        Command::new(program).arg("--undo-faults").arg("--cluster").arg(cluster.folder()),
    )
}

/// Whether a campaign is among those that these words ask for.
fn runs(words: &[String], campaign: &str) -> bool {
    let mut named = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => return false,
            "--keep" => {}
            // Every other option has a value.
            option if option.starts_with('-') => drop(words.next()),
            name => named.push(name),
        }
    }
    named.is_empty() || named.contains(&"all") || named.contains(&campaign)
}

/// A server with defects to be found. Its dependencies are those of the other debug builds; the
/// program itself is moved away, so that it is not taken for the real one, which the next build
/// puts in its place again.
fn build_mutants(scratch: &Path) -> Result<PathBuf> {
    shell::run(workspace::cargo()?.args([
        "build",
        "--workspace",
        "--bin",
        "tavola",
        "--features",
        "tavola/mutants",
    ]))?;
    let (built, kept) =
        (workspace::target()?.join("debug").join("tavola"), scratch.join("tavola-mutants"));
    // Of the last time, if nothing changed the same file by another name: renaming it onto itself
    // would leave both.
    if kept.exists() {
        fs::remove_file(&kept).context(|| format!("cannot remove {}", kept.display()))?;
    }
    fs::rename(&built, &kept)
        .context(|| format!("cannot move {} to {}", built.display(), kept.display()))?;
    Ok(kept)
}

fn build() -> Result<PathBuf> {
    rocksdb::ensure()?;
    // With the features of the whole workspace, or what `cargo test --workspace` compiled would be
    // compiled again.
    shell::run(workspace::cargo()?.args(["build", "--workspace", "--bin", PROGRAM]))?;
    Ok(workspace::target()?.join("debug").join(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn campaigns_among_the_words() {
        for (words, expected) in [
            ("", true),
            ("all --seeds 3", true),
            ("history mutants", true),
            ("--seeds 3", true),
            ("history --seed 7", false),
            ("--minutes 5 kill", false),
            ("--list", false),
            ("cluster --keep mutants", true),
        ] {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            assert_eq!(runs(&words, "mutants"), expected, "{words:?}");
        }
    }
}
