//! `cargo xtask torture`: builds the server and attacks it.

use std::path::PathBuf;
use std::process::Command;

use crate::args::Args;
use crate::failure::Result;
use crate::{cache, rocksdb, server, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask torture [kill|disk|power|bits|history|load|time|all] [--seeds N] [--minutes M] [--seed S] [--json FILE]

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
    torture.args(more).arg("--server").arg(server::build()?).arg("--scratch").arg(scratch);
    shell::run_unsaid(&mut torture)
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
