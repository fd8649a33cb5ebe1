//! `tavola explain`: what a query would read. Nothing is sent.

use clap::{ArgMatches, Command};
use serde_json::json;
use tavola_client::Explain;
use tavola_core::TableName;

use crate::commands::{described, output_flag, wants};
use crate::exit::Failure;
use crate::tables::{self, Stop};

const ABOUT: &str = "Say what a query would read, here and on Azure, without sending it";
const EXAMPLES: &str = "\
Examples:
  tavola explain employees --filter \"PartitionKey eq 'sales' and RowKey eq '000123'\"
      A point: the cheapest query there is
  tavola explain employees --filter \"Age gt 30\"
      A table scan, and what to do about it
  tavola explain employees --filter \"PartitionKey eq 'a' or PartitionKey eq 'b'\" -o json
      Where Tavola reads less than Azure does, for a script";
const DETAILS: &str = "\
Access, from cheap to expensive: point, row range, partition scan, partition range, table scan.

Exit codes: 0 explained, 2 wrong usage.";

pub(crate) fn command() -> Command {
    described("explain", ABOUT, EXAMPLES)
        .after_help(DETAILS)
        .arg(tables::table_argument())
        .arg(tables::filter_flag().required(true))
        .arg(output_flag(&["text", "json"]))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let table = tables::named_table(matches);
    TableName::parse(table).map_err(|_| {
        Failure::Usage(format!(
            "\"{table}\" cannot name a table: a letter first, then letters and digits, 3 to 63 in \
             all"
        ))
    })?;
    let filter = tables::required_filter(matches)?;
    let explain = filter.explain().map_err(|error| Failure::Usage(error.to_string()))?;
    let text = if wants(matches, "json") { json(table, &explain) } else { text(&explain) };
    match tables::say(text) {
        Ok(()) | Err(Stop::ReaderGone) => Ok(()),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

fn text(explain: &Explain) -> String {
    let mut lines = vec![
        format!("filter  {}", explain.filter.as_deref().unwrap_or("none")),
        format!("here    {}", explain.here),
        format!("azure   {}", explain.azure),
        format!("plan    {}", explain.plan),
    ];
    let advice = explain.advice.iter();
    lines.extend(advice.map(|advice| format!("advice  {}: {}", advice.evidence, advice.cure)));
    lines.join("\n")
}

fn json(table: &str, explain: &Explain) -> String {
    let advice = explain.advice.iter().map(
        |advice| json!({ "lint": advice.lint, "evidence": advice.evidence, "cure": advice.cure }),
    );
    let object = json!({
        "table": table,
        "filter": explain.filter,
        "here": explain.here.to_string(),
        "azure": explain.azure.to_string(),
        "plan": explain.plan,
        "advice": advice.collect::<Vec<_>>(),
    });
    format!("{object:#}")
}
