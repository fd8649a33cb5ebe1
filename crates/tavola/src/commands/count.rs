//! `tavola count`: how many entities there are.

use clap::{ArgMatches, Command};
use futures_util::TryStreamExt as _;

use crate::commands::{described, query};
use crate::exit::Failure;
use crate::progress_bar::Shown;
use crate::tables::{self, Stop};

const ABOUT: &str = "Count the entities of a table";
const EXAMPLES: &str = "\
Examples:
  tavola count employees
      All entities; the service keeps no count, so that every key is read
  tavola count employees --filter \"PartitionKey eq 'sales'\"
      Those of a partition
  tavola count employees --filter \"Age ge 65\" --connection-string UseDevelopmentStorage=true
      Those that satisfy a condition, on another server";

pub(crate) fn command() -> Command {
    described("count", ABOUT, EXAMPLES)
        .after_help(tables::EXIT_CODES)
        .arg(tables::table_argument())
        .arg(tables::filter_flag())
        .args(tables::connection_flags())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let filter = tables::optional_filter(matches)?;
    tables::with_tables(matches, |service| async move {
        let table = service.table_client(tables::named_table(matches));
        let mut shown = Shown::new();
        shown.begin_counted("counting");
        // Keys only: no property is sent.
        let mut pages = query::query(&table, filter).select(Vec::new()).pages();
        let mut count = 0;
        let counted: Result<(), Stop> = async {
            while let Some(page) = pages.try_next().await? {
                count += page.items.len() as u64;
                shown.set_count(count);
            }
            Ok(())
        }
        .await;
        shown.end();
        counted?;
        tables::say(count)
    })
}
