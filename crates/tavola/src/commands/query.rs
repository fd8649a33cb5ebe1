//! `tavola query`: the entities of a table, page after page.

use std::io::{BufWriter, IsTerminal as _, stdout};

use clap::{Arg, ArgMatches, Command, value_parser};
use futures_util::{Stream, StreamExt as _};
use tavola_client::{AnyFilter, DynEntity, Error, Page, Query, TableClient};

use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::progress_bar::Shown;
use crate::rows::{FORMATS, Format, Row, RowWriter};
use crate::tables::{self, Stop};

const ABOUT: &str = "Print the entities of a table, all pages of them";
const EXAMPLES: &str = "\
Examples:
  tavola query employees --top 20
      The first twenty entities, in columns
  tavola query employees --filter \"PartitionKey eq 'sales' and Age gt 30\" --select Name,Age
      Two properties of those that satisfy a condition; `tavola explain` says what it reads
  tavola query employees -o ndjson > employees.ndjson
      All entities with the types of their properties, one per line";
const DETAILS: &str = "\
Formats:
  table   columns for people: long texts are cut, types are not shown
  json    an array of entities in the service's own form, which keeps types
  ndjson  the same entities, one per line
  csv     columns for spreadsheets, without types; an absent property is an empty field, an empty
          text is \"\"

The columns of table and csv are those of --select, or those of the first page.";

pub(crate) fn command() -> Command {
    described("query", ABOUT, EXAMPLES)
        .after_help(format!("{DETAILS}\n\n{}", tables::EXIT_CODES))
        .arg(tables::table_argument())
        .arg(tables::filter_flag())
        .arg(
            Arg::new("select")
                .long("select")
                .value_name("NAMES")
                .value_delimiter(',')
                .help("Properties to read, separated by commas [default: all]"),
        )
        .arg(
            Arg::new("top")
                .long("top")
                .value_name("N")
                .value_parser(value_parser!(usize))
                .help("Print at most so many entities [default: all]"),
        )
        .arg(output_flag(FORMATS))
        .args(tables::connection_flags())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let filter = tables::optional_filter(matches)?;
    let names = matches.get_many::<String>("select");
    let select = names.map(|names| names.map(|name| name.trim().to_owned()).collect::<Vec<_>>());
    let top = matches.get_one::<usize>("top").copied();
    let format = Format::named(matches.get_one::<String>("output").map_or("table", String::as_str));
    tables::with_tables(matches, |service| async move {
        let table = service.table_client(tables::named_table(matches));
        let writer = RowWriter::new(BufWriter::new(stdout().lock()), format, select.clone());
        let mut shown = Shown::new();
        // On a terminal the entities themselves show how far it is.
        if !stdout().is_terminal() {
            shown.begin_counted("reading");
        }
        let query = limited(query(&table, filter), top);
        let done = match select {
            Some(names) => print(query.select(names).pages(), writer, &mut shown).await,
            None => print(query.pages(), writer, &mut shown).await,
        };
        shown.end();
        done
    })
}

/// The entities that satisfy a condition, or all.
pub(super) fn query(table: &TableClient, filter: Option<AnyFilter>) -> Query<'_, DynEntity> {
    match filter {
        Some(filter) => table.filter(filter),
        None => table.scan(),
    }
}

fn limited(query: Query<'_, DynEntity>, top: Option<usize>) -> Query<'_, DynEntity> {
    match top {
        Some(top) => query.take(top),
        None => query,
    }
}

async fn print<T: Into<Row>>(
    mut pages: impl Stream<Item = Result<Page<T>, Error>> + Unpin,
    mut writer: RowWriter<impl std::io::Write>,
    shown: &mut Shown,
) -> Result<(), Stop> {
    let mut count = 0;
    while let Some(page) = pages.next().await {
        let rows: Vec<Row> = page?.items.into_iter().map(Into::into).collect();
        writer.page(&rows)?;
        count += rows.len() as u64;
        shown.set_count(count);
    }
    let left_out = writer.end()?;
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(String::as_str).collect();
        eprintln!(
            "note: properties without a column, because no entity of the first page has them: {}; \
             name them with --select, or use -o ndjson",
            names.join(", ")
        );
    }
    Ok(())
}
