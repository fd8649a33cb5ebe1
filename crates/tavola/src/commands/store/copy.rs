//! `tavola store copy`: everything from one store into another, with versions as they are.

use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};
use tavola_core::Timestamp;
use tavola_service::migration::{self, Digest, MoveError, Moved, MovedTable, Resumption};
use tavola_service::{Clock, SystemClock};
use tavola_store::{Backend, StoreError};

use super::place::Place;
use super::runtime;
use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::flags;
use crate::progress_bar::Shown;

const ABOUT: &str = "Copy a store into another; ETags and Timestamps stay the same";
const EXAMPLES: &str = "\
Examples:
  tavola store copy --from embedded:tavola-data --to cassandra:10.0.0.1:9042,10.0.0.2/tavola
      From this machine into a cluster, whose keyspace `tavola store init` has made
  tavola store copy --from cassandra:10.0.0.1:9042/tavola --to embedded:/var/lib/tavola-2
      And back into a new data folder
  tavola store copy --from embedded:tavola-data --to embedded:/mnt/disk2/tavola -o json
      To another disk, with output for a script";
const AFTER: &str = "\
Stop every server of both stores first: later writes are not copied, and show as a difference.
The target must be empty, or contain a part of the same copy: repeat the command after an
interruption to resume. With --rewrite-versions an ETag that a client has of such an entity no
longer matches, as after any change. No server starts on the target before everything is copied and
verified. Accounts and their keys are settings, not data: copy the configuration too.

Settings of clusters (user, password file, TLS, accepted risks) apply to both sides.

Exit codes: 0 everything was copied and is the same, 1 a store failed (repeat it), 2 wrong usage,
3 there are differences, or the target contains something else.";

pub(crate) fn command() -> Command {
    let place = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("STORE")
            .required(true)
            .value_parser(Place::parse)
            .help(help)
    };
    let rewrite = Arg::new("rewrite-versions")
        .long("rewrite-versions")
        .action(ArgAction::SetTrue)
        .help("Set Timestamps of the future to now, after a clock that was ahead");
    let command = described("copy", ABOUT, EXAMPLES)
        .after_help(AFTER)
        .arg(place("from", "embedded:FOLDER or cassandra:HOST[:PORT][,HOST[:PORT]]/KEYSPACE"))
        .arg(place("to", "The same forms"))
        .arg(rewrite);
    flags::with_access_settings(command, "Cluster").arg(output_flag(&["text", "json"]))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let place = |name: &str| matches.get_one::<Place>(name).expect("clap asks for both");
    let (from, to) = (place("from"), place("to"));
    if from.is_same(to) {
        return Err(Failure::Usage("--from and --to are the same store".to_owned()));
    }
    let layers = flags::layers(matches)?;
    let moved = runtime()?.block_on(async {
        let from_store = from.open_source(&layers).await?;
        let to_store = to.open_target(&layers).await?;
        let versions_max = matches.get_flag("rewrite-versions").then(|| SystemClock.now());
        let moved = copy(from_store.clone(), to_store.clone(), from, versions_max).await;
        close(&*to_store).await?;
        close(&*from_store).await?;
        moved
    })?;
    if matches.get_one::<String>("output").is_some_and(|format| format == "json") {
        println!("{:#}", to_json(&moved, from, to));
    } else {
        print(&moved);
    }
    outcome(&moved, to)
}

async fn copy(
    from: Arc<dyn Backend>,
    to: Arc<dyn Backend>,
    source: &Place,
    versions_max: Option<Timestamp>,
) -> Result<Moved, Failure> {
    let mut progress = Shown::new();
    let cannot_import = || Failure::Usage("nothing can be copied into this store".to_owned());
    let (from, to) = (from.store(), to.import().ok_or_else(cannot_import)?);
    let source = source.to_string();
    let moved =
        migration::copy(&*from, &*to, &source, versions_max, &SystemClock, &mut progress).await;
    progress.end();
    moved.map_err(cannot_copy)
}

/// What was copied is on disk already; this saves the next start from replaying the log.
async fn close(store: &dyn Backend) -> Result<(), Failure> {
    store.close().await.map_err(|error| Failure::System(error.to_string()))
}

/// A store that failed may be well again; everything else is for people to look at.
fn cannot_copy(error: MoveError) -> Failure {
    match error {
        MoveError::Service(tavola_service::ServiceError::Store(StoreError::Corrupt(_))) => {
            Failure::Data(error.to_string())
        }
        MoveError::Service(_) => Failure::System(format!("{error}. Repeat the command to resume")),
        _ => Failure::Data(error.to_string()),
    }
}

fn print(moved: &Moved) {
    let heading = ["account", "table", "rows", "hash", "copy"].map(str::to_owned);
    let lines: Vec<[String; 5]> =
        std::iter::once(heading).chain(moved.tables.iter().map(line)).collect();
    let width =
        |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or_default();
    let widths: [usize; 5] = std::array::from_fn(width);
    for [account, table, rows, hash, copy] in &lines {
        let [first, second, third, fourth, _] = widths;
        println!("{account:<first$}  {table:<second$}  {rows:>third$}  {hash:<fourth$}  {copy}");
    }
    let rows: u64 = moved.tables.iter().map(|table| table.source.rows).sum();
    let tables = moved.tables.iter().filter(|table| table.account.is_some()).count();
    match moved.different().count() {
        0 if moved.course == Resumption::WasThere => {
            println!("the target already contained all {tables} tables and {rows} rows")
        }
        0 => println!("copied and verified {tables} tables, {rows} rows"),
        different => println!("{different} of them differ"),
    }
}

fn line(table: &MovedTable) -> [String; 5] {
    let copy = match table.target {
        Some(target) if target == table.source => "the same".to_owned(),
        Some(target) => format!("DIFFERENT: {} rows, hash {}", target.rows, hex(target)),
        None => "not verified".to_owned(),
    };
    let (account, name) = match &table.account {
        Some(account) => (account.clone(), table.name.clone()),
        None => ("-".to_owned(), format!("({})", table.name)),
    };
    [account, name, table.source.rows.to_string(), hex(table.source), copy]
}

fn hex(digest: Digest) -> String {
    format!("{:016x}", digest.hash)
}

fn to_json(moved: &Moved, from: &Place, to: &Place) -> Value {
    let digest = |digest: Digest| json!({ "rows": digest.rows, "hash": hex(digest) });
    let table = |table: &MovedTable| {
        json!({
            "account": table.account,
            "table": table.name,
            "id": table.id.number(),
            "source": digest(table.source),
            "target": table.target.map(digest),
            "same": table.is_equal(),
        })
    };
    json!({
        "ok": moved.different().next().is_none(),
        "from": from.to_string(),
        "to": to.to_string(),
        "course": match moved.course {
            Resumption::Whole => "whole",
            Resumption::Resumed => "resumed",
            Resumption::WasThere => "was there",
        },
        "tables": moved.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn outcome(moved: &Moved, to: &Place) -> Result<(), Failure> {
    let different: Vec<String> = moved.different().map(ToString::to_string).collect();
    if different.is_empty() {
        return Ok(());
    }
    Err(Failure::Data(format!(
        "not the same in {to}: {}. One of the stores was written meanwhile; empty the target and \
         start again",
        different.join(", ")
    )))
}
