//! `tavola table ls`, `create`, `rm` and `stats`.

mod stats;

use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::TryStreamExt as _;
use serde_json::json;
use tavola_client::{DynEntity, TableServiceClient};

use crate::commands::delete_where::dry_run_flag;
use crate::commands::{described, output_flag, wants};
use crate::exit::Failure;
use crate::tables::{self, Stop};

const ABOUT: &str = "List, create, delete and measure tables";
const EXAMPLES: &str = "\
Examples:
  tavola table ls
      The names of all tables of the account
  tavola table create employees --if-missing
      Creates a table unless there is one
  tavola table stats employees
      Entities, partitions and properties of a table; reads all of it";
const LS_EXAMPLES: &str = "\
Examples:
  tavola table ls
      One name per line
  tavola table ls -o json --connection-string \"$connection\"
      Those of another server, for a script";
const CREATE_EXAMPLES: &str = "\
Examples:
  tavola table create employees
      Fails if there is one of this name
  tavola table create employees departments --if-missing
      Creates those that are missing";
const RM_EXAMPLES: &str = "\
Examples:
  tavola table rm employees --dry-run
      Says whether there is one; deletes nothing
  tavola table rm employees
      Deletes the table with all its entities";
const STATS_EXAMPLES: &str = "\
Examples:
  tavola table stats employees
      Entities, partitions, the largest partition, properties with their types; reads all of it
  tavola table stats employees -o json
      The same for a script";

pub(crate) fn command() -> Command {
    let names =
        || Arg::new("tables").required(true).num_args(1..).value_name("TABLE").help("The tables");
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let output = || output_flag(&["text", "json"]);
    let ls = described("ls", "List the tables of the account", LS_EXAMPLES).arg(output());
    let create = described("create", "Create tables", CREATE_EXAMPLES)
        .arg(names())
        .arg(flag("if-missing", "A table that is there already is no failure"));
    let rm = described("rm", "Delete tables with all their entities", RM_EXAMPLES)
        .arg(names())
        .arg(flag("if-exists", "A table that is not there is no failure"))
        .arg(dry_run_flag("Say which tables there are, and delete nothing"));
    let stats = described("stats", "Measure a table by reading all of it", STATS_EXAMPLES)
        .arg(tables::table_argument())
        .arg(output());
    let subcommands = [ls, create, rm, stats]
        .map(|command| command.after_help(tables::EXIT_CODES).args(tables::connection_flags()));
    described("table", ABOUT, EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(subcommands)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("ls", matches)) => {
            tables::with_tables(matches, |service| async move { list(matches, &service).await })
        }
        Some(("create", matches)) => {
            tables::with_tables(matches, |service| async move { create(matches, &service).await })
        }
        Some(("rm", matches)) => {
            tables::with_tables(matches, |service| async move { remove(matches, &service).await })
        }
        Some(("stats", matches)) => stats::run(matches),
        _ => unreachable!("clap asks for a known command"),
    }
}

fn named(matches: &ArgMatches) -> impl Iterator<Item = &str> {
    matches.get_many::<String>("tables").into_iter().flatten().map(String::as_str)
}

async fn list(matches: &ArgMatches, service: &TableServiceClient) -> Result<(), Stop> {
    let mut names = service.tables();
    if wants(matches, "json") {
        let all: Vec<String> = names.try_collect().await?;
        return tables::say(format!("{:#}", json!(all)));
    }
    while let Some(name) = names.try_next().await? {
        tables::say(name)?;
    }
    Ok(())
}

async fn create(matches: &ArgMatches, service: &TableServiceClient) -> Result<(), Stop> {
    for name in named(matches) {
        let is_new = if matches.get_flag("if-missing") {
            service.create_table_if_missing(name).await?
        } else {
            service.create_table(name).await?;
            true
        };
        tables::say(format!("{name} {}", if is_new { "created" } else { "was there" }))?;
    }
    Ok(())
}

async fn remove(matches: &ArgMatches, service: &TableServiceClient) -> Result<(), Stop> {
    for name in named(matches) {
        let was_there = if matches.get_flag("dry-run") {
            exists(service, name).await?
        } else {
            service.delete_table_if_exists(name).await?
        };
        let words = match (was_there, matches.get_flag("dry-run")) {
            (true, true) => "would be deleted with all its entities; nothing was",
            (true, false) => "deleted",
            (false, _) if matches.get_flag("if-exists") => "was not there",
            (false, _) => {
                let words = format!("there is no table {name}; `tavola table ls` lists them");
                return Err(Failure::System(words).into());
            }
        };
        tables::say(format!("{name} {words}"))?;
    }
    Ok(())
}

/// Asks for one entity: a table without any has an answer too.
async fn exists(service: &TableServiceClient, name: &str) -> Result<bool, Stop> {
    let table = service.table_client(name);
    let found = table.scan::<DynEntity>().select(Vec::new()).take(1).pages().try_next().await;
    match found {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some("TableNotFound") => Ok(false),
        Err(error) => Err(error.into()),
    }
}
