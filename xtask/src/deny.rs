//! `cargo deny`: licences, banned crates, sources and, where its database can be fetched,
//! advisories.
//!
//! The tool takes minutes to install, so the step is skipped where it is not there already; `cargo
//! xtask tidy` holds the licences in any case.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::Result;
use crate::{cache, shell, workspace};

/// Where the tool is, installed first if asked for.
pub(crate) fn find(install: bool) -> Result<Option<PathBuf>> {
    if shell::has_program("cargo-deny") {
        return Ok(Some("cargo-deny".into()));
    }
    let tools = cache::root()?.join("tools");
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() && install {
        println!("Installing cargo-deny into {}; this takes minutes", tools.display());
        let mut cargo = shell::cargo();
        cargo.args(["install", "cargo-deny", "--locked", "--root"]).arg(&tools);
        shell::run(cargo.env("CARGO_TARGET_DIR", tools.join("target")))?;
    }
    Ok(program.is_file().then_some(program))
}

pub(crate) fn run(program: &PathBuf) -> Result {
    let root = workspace::root()?;
    shell::run(
        Command::new(program).current_dir(&root).args(["check", "licenses", "bans", "sources"]),
    )?;
    let advisories = shell::run(Command::new(program).current_dir(&root).args(["fetch", "db"]));
    if advisories.is_err() {
        println!("The database of advisories cannot be fetched here; advisories are not checked");
        return Ok(());
    }
    shell::run(Command::new(program).current_dir(&root).args([
        "check",
        "--disable-fetch",
        "advisories",
    ]))
}
