//! Tavola's automation: `cargo xtask <command>`, the same commands for a newcomer, a contributor
//! and CI.

mod args;
mod azurite;
mod bench;
mod cache;
mod carriers;
mod cassandra;
mod check;
mod conformance;
mod deny;
mod doc_snippets;
mod example;
mod failure;
mod fetch;
mod fuzz;
mod install;
mod leaks;
mod ledger;
mod markdown;
mod on_cassandra;
mod progress;
mod public_api;
mod ratchet;
mod rocksdb;
mod schedule;
mod sdk;
mod secured;
mod serve;
mod server;
mod shell;
mod simulate;
mod test;
mod tidy;
mod tool;
mod toolchain;
mod torture;
mod unity;
mod watchdog;
mod workspace;

use std::env;
use std::process::ExitCode;

use args::Args;
use failure::{Failure, Result};

const HELP: &str = "\
cargo xtask <command>; `cargo xtask <command> --help` says more

  serve         build and run the server
  test          every check that guards a merge
  check         what a change touches: format, clippy, unit tests, tidy
  tidy          dependency rules, text
  conformance   the wire suite and its ledger of statements
  public-api    what the client library promises, against the list of it
  sdk           the official SDKs against our server
  azurite       our client library against Microsoft's emulator
  doc-snippets  the commands and snippets of the documents
  fuzz          readers of bytes against inputs that find their way
  torture       attacks on the server: kills, failing disks, damaged files, races
  example       programs to watch: scenarios of the table design guide
  bench         the benchmarks
  ratchet       instructions counted, against those that are stored
  cassandra     clusters of Apache Cassandra on this machine, for tests
  simulate      how many Cassandra nodes and Tavola nodes a load needs
  rocksdb       compile RocksDB once, for all of the above and for plain cargo";

struct Subcommand {
    name: &'static str,
    help: &'static str,
    run: fn(Args) -> Result,
}

const COMMANDS: [Subcommand; 17] = [
    Subcommand { name: "serve", help: serve::HELP, run: serve::command },
    Subcommand { name: "test", help: test::HELP, run: test::command },
    Subcommand { name: "check", help: check::HELP, run: check::command },
    Subcommand { name: "tidy", help: tidy::HELP, run: tidy::command },
    Subcommand { name: "conformance", help: conformance::HELP, run: conformance::command },
    Subcommand { name: "public-api", help: public_api::HELP, run: public_api::command },
    Subcommand { name: "sdk", help: sdk::HELP, run: sdk::command },
    Subcommand { name: "azurite", help: azurite::HELP, run: azurite::command },
    Subcommand { name: "doc-snippets", help: doc_snippets::HELP, run: doc_snippets::command },
    Subcommand { name: "fuzz", help: fuzz::HELP, run: fuzz::command },
    Subcommand { name: "torture", help: torture::HELP, run: torture::command },
    Subcommand { name: "example", help: example::HELP, run: example::command },
    Subcommand { name: "bench", help: bench::HELP, run: bench::command },
    Subcommand { name: "ratchet", help: ratchet::HELP, run: ratchet::command },
    Subcommand { name: "cassandra", help: cassandra::HELP, run: cassandra::command },
    Subcommand { name: "simulate", help: simulate::HELP, run: simulate::command },
    Subcommand { name: "rocksdb", help: rocksdb::HELP, run: rocksdb::command },
];

fn main() -> ExitCode {
    match run(Args::new(env::args().skip(1))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: Args) -> Result {
    let Some(name) =
        args.command().filter(|name| !matches!(name.as_str(), "--help" | "-h" | "help"))
    else {
        println!("{HELP}");
        return Ok(());
    };
    let found = COMMANDS.iter().find(|command| command.name == name);
    let command =
        found.ok_or_else(|| Failure::new(format!("unknown command `{name}`\n\n{HELP}")))?;
    if args.flag("--help") || args.flag("-h") {
        println!("{}", command.help);
        return Ok(());
    }
    (command.run)(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_the_help_and_has_its_own() {
        for command in &COMMANDS {
            assert!(HELP.contains(&format!("\n  {} ", command.name)), "{}", command.name);
            assert!(
                command.help.starts_with(&format!("cargo xtask {}", command.name)),
                "{}",
                command.name
            );
        }
    }
}
