//! `cargo xtask ratchet`: instructions counted by callgrind, against those that are stored.

use std::path::PathBuf;
use std::process::Command;

use crate::args::Args;
use crate::failure::Result;
use crate::{install, rocksdb, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask ratchet [CASE...] [--update]

Counts the instructions of pieces of our release build under callgrind, and compares them with
ratchet/counts.txt. Fails when one grew by more than 5 %. Installs valgrind if it is missing.

  CASE      these only; the table names them all
  --update  store what was counted; the commit message then says why it changed";

const PROGRAM: &str = "tavola-ratchet";

pub(crate) fn command(mut args: Args) -> Result {
    let update = args.flag("--update");
    let cases = args.positional();
    args.finish()?;
    run(&cases, update)
}

/// The check that guards a merge: every case.
pub(crate) fn check() -> Result {
    run(&[], false)
}

fn run(cases: &[String], update: bool) -> Result {
    install::ensure(&["valgrind"], "counting instructions", || shell::has_program("valgrind"))?;
    let mut ratchet = Command::new(build()?);
    ratchet.arg("check").args(cases);
    if update {
        ratchet.arg("--update");
    }
    ratchet.arg("--counts").arg(workspace::root()?.join("ratchet").join("counts.txt"));
    shell::run_unsaid(ratchet.arg("--output").arg(workspace::target()?.join("ratchet")))
}

/// Together with the server, so that both have the same features of what they share: what ships is
/// what is counted.
pub(crate) fn build() -> Result<PathBuf> {
    rocksdb::ensure()?;
    shell::run(workspace::cargo()?.args([
        "build",
        "--release",
        "--package",
        "tavola",
        "--package",
        PROGRAM,
    ]))?;
    Ok(workspace::target()?.join("release").join(PROGRAM))
}
