//! `cargo xtask torture`: builds the server and attacks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::failure::{Context, Result};
use crate::{cache, rocksdb, server, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask torture [kill|disk|power|bits|history|mutants|load|time|all] [--seeds N] [--minutes M] [--seed S] [--json FILE]

Attacks our release build: kills it, lets its disk fail, damages its files, races its clients, and compares what it
then says with what it had acknowledged. Prints how far it is; on a finding, the seed and the command that repeats it.
Without --seeds it runs the short form of each campaign, as `cargo xtask test` does.

  --seeds N       so many seeds of each campaign
  --first-seed N  begin with this one; default 1
  --seed S        this one only
  --minutes M     begin no seed of a campaign after so many minutes
  --json FILE     also write the figures to FILE
  --list          say what each campaign does";

const PROGRAM: &str = "torture";

pub(crate) fn command(mut args: Args) -> Result {
    run(&args.passed_through())
}

/// The short form of each campaign.
pub(crate) fn check() -> Result {
    run(&[])
}

fn run(more: &[String]) -> Result {
    let scratch = workspace::target()?.join("torture");
    cache::create(&scratch)?;
    let mut torture = Command::new(build()?);
    torture.args(more).arg("--server").arg(server::build()?).arg("--scratch").arg(&scratch);
    if runs(more, "mutants") {
        torture.arg("--mutants").arg(build_mutants(&scratch)?);
    }
    shell::run_unsaid(&mut torture)
}

/// Whether a campaign is among those that these words ask for.
fn runs(words: &[String], campaign: &str) -> bool {
    let mut named = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => return false,
            // Every other option has a value.
            option if option.starts_with('-') => drop(words.next()),
            name => named.push(name),
        }
    }
    named.is_empty() || named.contains(&"all") || named.contains(&campaign)
}

/// A server with defects to be found. Its dependencies are those of the other debug builds; the program itself is
/// moved away, so that nobody takes it for the real one, which the next build puts in its place again.
fn build_mutants(scratch: &Path) -> Result<PathBuf> {
    let features = "tavola-testkit/torture,tavola/mutants";
    shell::run(workspace::cargo()?.args(["build", "--workspace", "--bin", "tavola", "--features", features]))?;
    let (built, kept) = (workspace::target()?.join("debug").join("tavola"), scratch.join("tavola-mutants"));
    // Of the last time, if nothing changed the same file by another name: renaming it onto itself would leave both.
    if kept.exists() {
        fs::remove_file(&kept).context(|| format!("cannot remove {}", kept.display()))?;
    }
    fs::rename(&built, &kept).context(|| format!("cannot move {} to {}", built.display(), kept.display()))?;
    Ok(kept)
}

fn build() -> Result<PathBuf> {
    rocksdb::ensure()?;
    // With the features of the whole workspace, or what `cargo test --workspace` compiled would be compiled again.
    shell::run(workspace::cargo()?.args([
        "build",
        "--workspace",
        "--bin",
        PROGRAM,
        "--features",
        "tavola-testkit/torture",
    ]))?;
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
        ] {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            assert_eq!(runs(&words, "mutants"), expected, "{words:?}");
        }
    }
}
