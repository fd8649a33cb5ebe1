//! `tavola store init`: the keyspace and its tables in a cluster.

use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::json;
use tavola_cassandra::{Created, Options};

use super::runtime;
use crate::cluster;
use crate::commands::doctor::cluster::tell;
use crate::commands::doctor::report::Report;
use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::flags;
use crate::store_config::ClusterConfig;

const ABOUT: &str =
    "Create the keyspace and its tables in a Cassandra cluster; does nothing if they exist";
const EXAMPLES: &str = "\
Examples:
  tavola store init --contact-points 10.0.0.1,10.0.0.2
      The keyspace `tavola` with three copies of each row
  tavola store init --config tavola.toml
      What `tavola serve` would use with this file
  tavola store init --contact-points 127.0.0.1 --keyspace trial --replication 1
      One copy, to try things on one node";
const AFTER: &str = "\
Existing tables are never changed. The command then checks the cluster, as `tavola doctor` does.

Exit codes: 0 the keyspace is there, 1 the cluster cannot be reached, 2 wrong usage,
3 the keyspace cannot be used, or not be created as requested.";

pub(crate) fn command() -> Command {
    let command = described("init", ABOUT, EXAMPLES).after_help(AFTER);
    let slots = Arg::new("slots")
        .long("slots")
        .value_name("COUNT")
        .value_parser(value_parser!(u16).range(1..=SLOTS_MAX))
        .help(
            "Slots of each table's partition directory; more for many millions of partitions \
         [default: 16]",
        );
    flags::with_cluster_settings(command, "Cluster").arg(slots).arg(output_flag(&["text", "json"]))
}

/// Every page of a scan asks each slot.
const SLOTS_MAX: i64 = 1024;

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let config = ClusterConfig::read(&flags::layers(matches)?)?;
    let mut options = cluster::options(&config)?;
    let slots = matches.get_one::<u16>("slots").copied();
    options.slots = slots.unwrap_or(options.slots);
    let (made, report) = runtime()?.block_on(init(&options))?;
    let note = slots.filter(|wanted| *wanted != made.slots).map(|wanted| {
        format!(
            "its directory keeps its {} slots: --slots {wanted} applies to a new keyspace only",
            made.slots
        )
    });
    if matches.get_one::<String>("output").is_some_and(|format| format == "json") {
        let made = json!({ "keyspace": options.keyspace, "keyspace_made": made.keyspace, "tables_made": made.tables,
            "slots": made.slots, "note": note, "doctor": report.to_json() });
        println!("{made:#}");
        return Ok(());
    }
    println!("{}", words(&options, &made));
    if let Some(note) = note {
        println!("{note}");
    }
    report.print("text");
    Ok(())
}

async fn init(options: &Options) -> Result<(Created, Report), Failure> {
    let made = tavola_cassandra::init(options).await.map_err(cluster::cannot_open)?;
    let inspection = tavola_cassandra::inspect(options).await.map_err(cluster::cannot_open)?;
    let mut report = Report::default();
    tell(&inspection, options, &mut report);
    Ok((made, report))
}

fn words(options: &Options, made: &Created) -> String {
    let (keyspace, tables) = (&options.keyspace, made.tables.join(", "));
    match (made.keyspace, made.tables.is_empty()) {
        (true, _) => {
            let copies = options.replication;
            format!(
                "created the keyspace {keyspace} (replicas in each data centre: {copies}) with \
                 the tables {tables}"
            )
        }
        (false, false) => format!("the keyspace {keyspace} exists; created the tables {tables}"),
        (false, true) => {
            format!("the keyspace {keyspace} and its tables exist: nothing to do")
        }
    }
}
