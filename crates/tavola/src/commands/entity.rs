//! `tavola entity get`, `put` and `rm`: one entity by its key.

use clap::{Arg, ArgAction, ArgMatches, Command};
use tavola_client::{DynEntity, ETag, IfMatch, Mode, TableClient, TableServiceClient};

use crate::commands::delete_where::dry_run_flag;
use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::rows::{Format, Row, RowWriter};
use crate::tables::{self, Stop};

const ABOUT: &str = "Read, write and delete one entity";
const EXAMPLES: &str = "\
Examples:
  tavola entity get employees sales 000123
      As JSON, with the types of its properties
  tavola entity put employees '{\"PartitionKey\": \"sales\", \"RowKey\": \"000123\", \"Age\": 42}'
      Writes it, whether or not there is one
  tavola entity rm employees sales 000123
      Deletes it";
const TYPES: &str = "\
Types: a text is an Edm.String, true and false are an Edm.Boolean, a whole number of 32 bits is an
Edm.Int32, another number an Edm.Double. Other types are named beside the property, as the service
does it and `entity get` prints it: \"Visits@odata.type\": \"Edm.Int64\", \"Visits\": \"7\"
(Edm.Int64, Edm.DateTime, Edm.Guid, Edm.Binary). Timestamp and odata.etag are passed over.";
const GET_EXAMPLES: &str = "\
Examples:
  tavola entity get employees sales 000123
      As JSON, with its types, its Timestamp and its version (odata.etag)
  tavola entity get employees sales 000123 | tavola entity put copies -
      Copies it into another table";
const PUT_EXAMPLES: &str = "\
Examples:
  tavola entity put employees '{\"PartitionKey\": \"sales\", \"RowKey\": \"000123\", \"Age\": 42}'
      Writes it, whether or not there is one
  tavola entity put employees - --merge < changes.json
      Changes some properties; the others stay";
const RM_EXAMPLES: &str = "\
Examples:
  tavola entity rm employees sales 000123 --dry-run
      Says whether there is one; deletes nothing
  tavola entity rm employees sales 000123 --if-match \"$etag\"
      Deletes it, unless somebody changed it since `entity get` printed that odata.etag";

pub(crate) fn command() -> Command {
    let key = |name: &'static str, value: &'static str| {
        Arg::new(name).required(true).value_name(value).help(format!("{value} of the entity"))
    };
    let keyed = |command: Command| {
        let command = command.arg(tables::table_argument());
        command.arg(key("partition", "PartitionKey")).arg(key("row", "RowKey"))
    };
    let get = described("get", "Print an entity", GET_EXAMPLES)
        .arg(output_flag(&["json", "ndjson", "table", "csv"]));
    let rm = described("rm", "Delete an entity", RM_EXAMPLES)
        .arg(if_match_flag())
        .arg(dry_run_flag("Say whether there is one, and delete nothing"));
    let ended =
        |command: Command| command.after_help(tables::EXIT_CODES).args(tables::connection_flags());
    described("entity", ABOUT, EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(ended(keyed(get)))
        .subcommand(put_command())
        .subcommand(ended(keyed(rm)))
}

fn put_command() -> Command {
    let flag = |name: &'static str, other: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).conflicts_with(other).help(help)
    };
    described("put", "Write an entity", PUT_EXAMPLES)
        .after_help(format!("{TYPES}\n\n{}", tables::EXIT_CODES))
        .arg(tables::table_argument())
        .arg(
            Arg::new("entity")
                .required(true)
                .value_name("JSON")
                .help("The entity with both keys, or - to read it from standard input"),
        )
        .arg(flag("insert", "merge", "Fail if there is one with this key"))
        .arg(flag("merge", "insert", "Leave properties that are not given as they are"))
        .arg(if_match_flag().conflicts_with("insert"))
        .args(tables::connection_flags())
}

fn if_match_flag() -> Arg {
    Arg::new("if-match")
        .long("if-match")
        .value_name("ETAG")
        .help("Only this version, or * for any that is there")
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("get", matches)) => {
            tables::with_tables(matches, |service| async move { get(matches, &service).await })
        }
        Some(("put", matches)) => {
            let text = matches.get_one::<String>("entity").map_or("", String::as_str);
            let entity = DynEntity::from_json(&tables::text_of(text)?)
                .map_err(|error| Failure::Usage(format!("the entity: {error}")))?;
            tables::with_tables(
                matches,
                |service| async move { put(matches, &service, &entity).await },
            )
        }
        Some(("rm", matches)) => {
            tables::with_tables(matches, |service| async move { remove(matches, &service).await })
        }
        _ => unreachable!("clap asks for a known command"),
    }
}

/// The table and the keys that were named.
fn place<'a>(
    matches: &'a ArgMatches,
    service: &TableServiceClient,
) -> (TableClient, (&'a str, &'a str)) {
    let text = |name| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    (service.table_client(tables::named_table(matches)), (text("partition"), text("row")))
}

fn if_match(matches: &ArgMatches) -> Option<IfMatch> {
    let text = matches.get_one::<String>("if-match")?;
    Some(match text.as_str() {
        "*" => IfMatch::Any,
        tag => IfMatch::Version(ETag::new(tag)),
    })
}

fn not_found(table: &TableClient, (partition, row): (&str, &str)) -> Stop {
    let name = table.name();
    Failure::System(format!("{name} has no entity ('{partition}', '{row}')")).into()
}

async fn get(matches: &ArgMatches, service: &TableServiceClient) -> Result<(), Stop> {
    let (table, key) = place(matches, service);
    let found = table.get::<DynEntity>(key).await?.ok_or_else(|| not_found(&table, key))?;
    let row = Row::from(found);
    match Format::named(matches.get_one::<String>("output").map_or("json", String::as_str)) {
        // One entity, not a list of one: `entity put` takes it.
        Format::Json | Format::Ndjson => tables::say(row.json()?),
        format => {
            let mut writer = RowWriter::new(std::io::stdout().lock(), format, None);
            writer.page(&[row])?;
            writer.end().map(drop)
        }
    }
}

async fn put(
    matches: &ArgMatches,
    service: &TableServiceClient,
    entity: &DynEntity,
) -> Result<(), Stop> {
    let table = service.table_client(tables::named_table(matches));
    let mode = if matches.get_flag("merge") { Mode::Merge } else { Mode::Replace };
    let written = match if_match(matches) {
        _ if matches.get_flag("insert") => table.insert(entity).await?,
        Some(if_match) => table.update(entity, mode, if_match).await?,
        None => table.upsert(entity, mode).await?,
    };
    // The version, for the next `--if-match`.
    tables::say(written.etag.map_or_else(|| "written".to_owned(), |etag| etag.to_string()))
}

async fn remove(matches: &ArgMatches, service: &TableServiceClient) -> Result<(), Stop> {
    let (table, key) = place(matches, service);
    if matches.get_flag("dry-run") {
        let found = table.get::<DynEntity>(key).await?.ok_or_else(|| not_found(&table, key))?;
        return tables::say(format!("{} would be deleted; nothing was", found.key()));
    }
    let if_match = if_match(matches).unwrap_or(IfMatch::Any);
    table.delete_at::<DynEntity>(key, if_match).await?;
    tables::say("1 deleted")
}
