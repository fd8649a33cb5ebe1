//! `cargo deny`: licences, banned crates, sources and, where its database can be fetched,
//! advisories.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Result;
use crate::{cache, shell, workspace};

/// Fixed, so that a check that passed does not fail with the next version of the tool.
const VERSION: &str = "0.20.2";

/// The tool runs for seconds. Compiling it with its own release settings takes far longer than that
/// saves; these took two minutes of processor time.
const QUICK_BUILD: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

/// The check that guards a merge.
pub(crate) fn check() -> Result {
    let program = ensure()?;
    shell::run(deny(&program)?.args(["check", "licenses", "bans", "sources"]))?;
    if shell::run(deny(&program)?.args(["fetch", "db"])).is_err() {
        println!("The database of advisories cannot be fetched here; advisories are not checked");
        return Ok(());
    }
    shell::run(deny(&program)?.args(["check", "--disable-fetch", "advisories"]))
}

fn deny(program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    command.current_dir(workspace::root()?);
    Ok(command)
}

/// Where the tool is; compiles it into the cache if it is not there.
fn ensure() -> Result<PathBuf> {
    let tools = cache::root()?.join("tools");
    let folder = tools.join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if program.is_file() {
        return Ok(program);
    }
    cache::create(&tools)?;
    let _lock = cache::lock(&tools.join("lock"), "another process installs cargo-deny")?;
    if program.is_file() {
        return Ok(program);
    }
    println!("Installing cargo-deny {VERSION} into {}, which takes minutes", folder.display());
    let target = folder.join("target");
    let mut cargo = shell::cargo();
    cargo.args(["install", &format!("cargo-deny@{VERSION}"), "--locked", "--root"]).arg(&folder);
    shell::run(cargo.envs(QUICK_BUILD).env("CARGO_TARGET_DIR", &target))?;
    cache::remove_folder(&target)?;
    Ok(program)
}
