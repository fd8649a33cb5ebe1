//! `tavola delete-where`: deletes what satisfies a condition.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use tavola_client::{DeleteReport, DynEntity};

use crate::commands::{described, output_flag, wants};
use crate::exit::Failure;
use crate::progress_bar::Shown;
use crate::tables::{self, Stop};

const ABOUT: &str = "Delete the entities that satisfy a condition";
const EXAMPLES: &str = "\
Examples:
  tavola delete-where logs --filter \"PartitionKey lt '2025'\" --dry-run
      How many there are; deletes nothing
  tavola delete-where logs --filter \"PartitionKey lt '2025'\"
      Deletes them, a hundred of a partition in one transaction
  tavola delete-where logs --filter \"Level eq 'debug'\" --at-most 10000
      Ends after ten thousand";
const DETAILS: &str = "\
Each entity is deleted in the version that satisfied the condition; one that somebody changes
meanwhile is tested again, and spared if it no longer does. The whole is not atomic: what was
deleted before a failure stays deleted, and the command can be repeated.";

pub(crate) fn command() -> Command {
    described("delete-where", ABOUT, EXAMPLES)
        .after_help(format!("{DETAILS}\n\n{}", tables::EXIT_CODES))
        .arg(tables::table_argument())
        .arg(tables::filter_flag().required(true))
        .arg(dry_run_flag("Count, and delete nothing"))
        .arg(
            Arg::new("at-most")
                .long("at-most")
                .value_name("N")
                .value_parser(value_parser!(usize))
                .help("Delete at most so many entities [default: all]"),
        )
        .arg(output_flag(&["text", "json"]))
        .args(tables::connection_flags())
}

/// `--dry-run`, for everything that destroys.
pub(super) fn dry_run_flag(help: &'static str) -> Arg {
    Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help(help)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let filter = tables::required_filter(matches)?;
    let is_dry = matches.get_flag("dry-run");
    let at_most = matches.get_one::<usize>("at-most").copied();
    let is_json = wants(matches, "json");
    tables::with_tables(matches, |service| async move {
        let table = service.table_client(tables::named_table(matches));
        let mut shown = Shown::new();
        shown.begin_counted(if is_dry { "counting" } else { "deleting" });
        let watch = |report: &DeleteReport| {
            let count = if is_dry { report.found } else { report.deleted };
            shown.set_count(count as u64);
        };
        let mut deletion = table.delete_where::<DynEntity>(filter).watch(watch);
        if let Some(at_most) = at_most {
            deletion = deletion.at_most(at_most);
        }
        let report = if is_dry { deletion.dry_run().run().await } else { deletion.run().await };
        shown.end();
        say(report?, is_dry, is_json, at_most)
    })
}

fn say(
    report: DeleteReport,
    is_dry: bool,
    is_json: bool,
    at_most: Option<usize>,
) -> Result<(), Stop> {
    let DeleteReport { found, deleted, spared, .. } = report;
    if is_json {
        let object = json!({
            "found": found, "deleted": deleted, "spared": spared, "dry_run": is_dry,
        });
        return tables::say(format!("{object:#}"));
    }
    if at_most == Some(found) {
        eprintln!("note: ended at --at-most; there may be more");
    }
    if is_dry {
        return tables::say(format!("{found} would be deleted; nothing was"));
    }
    let others = match spared {
        0 => String::new(),
        spared => format!("; {spared} spared, because somebody changed or deleted them first"),
    };
    tables::say(format!("{deleted} deleted{others}"))
}
