//! `cargo deny`: licences, banned crates, sources and, where its database can be fetched,
//! advisories.

use std::path::Path;
use std::process::Command;

use crate::failure::Result;
use crate::tool::Tool;
use crate::{shell, workspace};

const TOOL: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

/// The check that guards a merge.
pub(crate) fn check() -> Result {
    let program = TOOL.ensure()?;
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
