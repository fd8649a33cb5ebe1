//! `tavola advise`: what could be better about the keys of tables.

use clap::{ArgMatches, Command};
use futures_util::TryStreamExt as _;
use serde_json::json;
use tavola_client::{Advice, TableServiceClient};

use crate::commands::{described, output_flag, wants};
use crate::exit::Failure;
use crate::progress_bar::Shown;
use crate::tables::{self, Stop};

const ABOUT: &str = "Look at the keys of tables and say what could be better";
const EXAMPLES: &str = "\
Examples:
  tavola advise employees
      Keys that grow, one partition for everything, one entity per partition, unpadded numbers
  tavola advise
      The same for each table of the account
  tavola advise -o json --connection-string UseDevelopmentStorage=true
      Those of another server, for a script";
const DETAILS: &str = "\
It reads up to 50 pages of keys of a table, no property. `tavola explain` gives advice on queries.

Exit codes: 0 looked, whatever was found, 1 the server failed or refused, 2 wrong usage.";

pub(crate) fn command() -> Command {
    described("advise", ABOUT, EXAMPLES)
        .after_help(DETAILS)
        .arg(tables::table_argument().required(false).help("Name of the table; default: all"))
        .arg(output_flag(&["text", "json"]))
        .args(tables::connection_flags())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    tables::with_tables(matches, |service| async move {
        let names = match tables::named_table(matches) {
            "" => service.tables().try_collect().await?,
            name => vec![name.to_owned()],
        };
        let found = advice(&service, &names).await?;
        let text = if wants(matches, "json") { json(&found) } else { text(&found, names.len()) };
        tables::say(text)
    })
}

/// What was found, with the names of the tables.
async fn advice(
    service: &TableServiceClient,
    names: &[String],
) -> Result<Vec<(String, Advice)>, Stop> {
    let mut shown = Shown::new();
    shown.begin_counted("tables");
    let mut all = Vec::new();
    for (done, name) in names.iter().enumerate() {
        let advice = service.table_client(name.as_str()).advise_on_keys().await;
        let advice = advice.inspect_err(|_| shown.end())?;
        all.extend(advice.into_iter().map(|advice| (name.clone(), advice)));
        shown.set_count(done as u64 + 1);
    }
    shown.end();
    Ok(all)
}

fn text(found: &[(String, Advice)], tables: usize) -> String {
    if found.is_empty() {
        let noun = if tables == 1 { "table" } else { "tables" };
        return format!("nothing to say about the keys of {tables} {noun}");
    }
    let one = |(_, advice): &(String, Advice)| {
        let Advice { lint, evidence, reason, cure, .. } = advice;
        format!("{lint}\n  {evidence}\n  why   {reason}\n  cure  {cure}")
    };
    found.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn json(found: &[(String, Advice)]) -> String {
    let one = |(table, advice): &(String, Advice)| {
        let Advice { lint, evidence, reason, cure, .. } = advice;
        json!({ "table": table, "lint": lint, "evidence": evidence, "reason": reason, "cure": cure })
    };
    format!("{:#}", serde_json::Value::Array(found.iter().map(one).collect()))
}
