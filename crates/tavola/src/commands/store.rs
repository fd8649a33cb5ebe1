//! `tavola store`: making the place where entities are kept, moving them to another, and the keys
//! of its nodes.

mod copy;
mod init;
mod peer_keys;
mod place;

use clap::{ArgMatches, Command};

use crate::commands::described;
use crate::exit::Failure;

const ABOUT: &str = "Create a keyspace, copy a store into another, and create keys for nodes";
const EXAMPLES: &str = "\
Examples:
  tavola store init --contact-points 10.0.0.1,10.0.0.2
      Create the keyspace and its tables in a Cassandra cluster
  tavola store copy --from embedded:tavola-data --to cassandra:10.0.0.1:9042,10.0.0.2/tavola
      Copy everything from this machine into a cluster
  tavola store copy --from cassandra:10.0.0.1:9042/tavola --to embedded:/var/lib/tavola-2 -o json
      And back, with output for a script";

pub(crate) fn command() -> Command {
    described("store", ABOUT, EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(init::command())
        .subcommand(copy::command())
        .subcommand(peer_keys::command())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("init", matches)) => init::run(matches),
        Some(("copy", matches)) => copy::run(matches),
        Some(("peer-keys", matches)) => peer_keys::run(matches),
        _ => unreachable!("clap asks for a known command"),
    }
}

/// What asks a cluster runs on this.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::System(format!("cannot start the runtime: {error}")))
}
