//! The one binary. Called as `tavola` it is the server and its commands; called as `azurite` or
//! `azurite-table` it takes that emulator's flags and prints its start-up lines.

mod account_access;
mod announce;
mod azurite;
mod cluster;
mod commands;
mod completion;
mod descriptors;
mod evaluate;
mod exit;
mod flags;
mod http_client;
mod human_time;
mod logging;
mod new_file;
mod open_store;
mod progress_bar;
mod rows;
mod serve;
mod signals;
mod store_config;
mod tables;

use std::path::Path;
use std::process::ExitCode;

use exit::Failure;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let called_as = arguments
        .first()
        .and_then(|path| Path::new(path).file_stem())
        .and_then(|name| name.to_str());
    let result = match called_as {
        Some(name) if name.starts_with("azurite") => {
            keep_files_private();
            azurite::run(name, &arguments)
        }
        _ => {
            completion::answer_shell();
            run(&arguments)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What this process writes is its owner's alone, whatever the shell's umask says: data, logs,
/// keys.
fn keep_files_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

fn run(arguments: &[std::ffi::OsString]) -> Result<(), Failure> {
    let matches = flags::command().try_get_matches_from(arguments)?;
    // Certificates are for others to read; the command gives each file its mode.
    if matches.subcommand_name() != Some("cert") {
        keep_files_private();
    }
    match matches.subcommand() {
        Some(("serve", matches)) => commands::serve::run(matches),
        Some(("account", matches)) => commands::account::run(matches),
        Some(("cert", matches)) => commands::cert::run(matches),
        Some(("config", matches)) => commands::config::run(matches),
        Some(("sas", matches)) => commands::sas::run(matches),
        Some(("conn", matches)) => commands::conn::run(matches),
        Some(("check", matches)) => commands::check::run(matches),
        Some(("repair", matches)) => commands::repair::run(matches),
        Some(("doctor", matches)) => commands::doctor::run(matches),
        Some(("store", matches)) => commands::store::run(matches),
        Some(("bench", matches)) => commands::bench::run(matches),
        Some(("table", matches)) => commands::table::run(matches),
        Some(("entity", matches)) => commands::entity::run(matches),
        Some(("query", matches)) => commands::query::run(matches),
        Some(("explain", matches)) => commands::explain::run(matches),
        Some(("count", matches)) => commands::count::run(matches),
        Some(("advise", matches)) => commands::advise::run(matches),
        Some(("completions", matches)) => completion::run(matches),
        Some(("delete-where", matches)) => commands::delete_where::run(matches),
        _ => unreachable!("clap asks for a known command"),
    }
}
