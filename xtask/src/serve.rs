//! `cargo xtask serve`: from a fresh clone to a running server.

use std::process::Command;

use crate::args::Args;
use crate::failure::{Failure, Result};
use crate::server;

pub(crate) const HELP: &str = "\
cargo xtask serve [--] [arguments of `tavola serve`]

Installs what is missing, builds the server with a profile that links quickly, and runs it. What is
measured and released is built with `cargo build --release`. Data goes where `tavola serve --help`
says.";

pub(crate) fn command(mut args: Args) -> Result {
    let binary = server::build_quickly()?;
    let mut tavola = Command::new(binary);
    tavola.arg("serve").args(args.passed_through());
    Err(become_program(&mut tavola))
}

/// Replaces this process, so that signals and the exit code are the server's own.
#[cfg(unix)]
fn become_program(command: &mut Command) -> Failure {
    use std::os::unix::process::CommandExt;
    Failure::new(format!("cannot start the server: {}", command.exec()))
}

#[cfg(not(unix))]
fn become_program(command: &mut Command) -> Failure {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => Failure::new(format!("cannot start the server: {error}")),
    }
}
