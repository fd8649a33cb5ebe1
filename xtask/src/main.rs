//! Tavola's automation: `cargo xtask <command>`.

mod cache;
mod failure;
mod install;
mod progress;
mod rocksdb;
mod shell;
mod unity;
mod workspace;

use std::process::ExitCode;

fn main() -> ExitCode {
    match rocksdb::ensure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
