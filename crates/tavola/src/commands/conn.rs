//! `tavola conn`: the connection string of an account, and the lines to paste into a program.

mod snippets;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Map, Value, json};
use tavola_core::ServiceKind;
use tavola_protocol::ConnectionString;

use crate::account_access;
use crate::commands::{described, output_flag};
use crate::exit::Failure;
use snippets::{SDKS, Snippet};

const ABOUT: &str = "Print the connection string of an account, and code that uses it";
const EXAMPLES: &str = "\
Examples:
  tavola conn
      The connection string, alone
  tavola conn --sdk python
      Lines that connect from Python and list the tables
  tavola conn --endpoint http://tables.example:10002/devstoreaccount1 --sdk all -o json
      For every library, as the server is reached from elsewhere, for a script";

pub(crate) fn command() -> Command {
    let sdks = SDKS.iter().map(|sdk| sdk.name).chain(["all"]).collect::<Vec<_>>();
    described("conn", ABOUT, EXAMPLES)
        .arg(
            Arg::new("sdk")
                .long("sdk")
                .value_name("SDK")
                .value_parser(sdks)
                .help("Lines for this library"),
        )
        .args(account_access::account_flags("Account"))
        .arg(output_flag(&["text", "json"]))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    // The string names every service; the lines to paste are of libraries for tables.
    let access = account_access::resolve_configured(matches, ServiceKind::Table)?;
    let string = ConnectionString::with_key(&access.account, &access.key, &access.endpoints);
    let string = string.map_err(|error| Failure::Usage(error.to_string()))?.to_text();
    let wanted = matches.get_one::<String>("sdk").map(String::as_str);
    let chosen = SDKS.iter().filter(|sdk| wanted == Some("all") || wanted == Some(sdk.name));
    let snippets =
        chosen.map(|sdk| Snippet::of(sdk, &string, &access)).collect::<Result<Vec<_>, _>>()?;
    eprintln!(
        "note: this contains a key of the account {}, which permits everything in the account",
        access.account
    );
    match matches.get_one::<String>("output").map(String::as_str) {
        Some("json") => {
            let texts: Map<String, Value> = snippets
                .iter()
                .map(|snippet| (snippet.sdk.to_owned(), snippet.text.as_str().into()))
                .collect();
            println!("{:#}", json!({ "connection_string": &**string, "snippets": texts }));
        }
        _ if snippets.is_empty() => println!("{}", &**string),
        _ => {
            let texts: Vec<&str> = snippets.iter().map(|snippet| snippet.text.as_str()).collect();
            print!("{}", texts.join("\n"));
        }
    }
    Ok(())
}
