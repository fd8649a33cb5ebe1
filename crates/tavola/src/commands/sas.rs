//! `tavola sas table` and `tavola sas account`: shared access signatures, made without asking a
//! server.

mod account;
pub(crate) mod letters;
mod table;
mod terms;

use std::net::{IpAddr, Ipv4Addr};

use clap::{ArgMatches, Command};
use serde_json::json;
use tavola_core::{DateTime, ServiceKind};
use tavola_protocol::connection_string::Endpoint;
use tavola_protocol::{AccountKeys, Caller, ConnectionString};
use zeroize::Zeroizing;

use crate::account_access::{self, AccountAccess};
use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::{evaluate, human_time};
use terms::Terms;

const ABOUT: &str = "Create shared access signatures: URLs with limited access to an account";
const EXAMPLES: &str = "\
Examples:
  tavola sas table employees --permissions ra --expires-in 8h
      A URL that can read and add entities of a table for eight hours
  tavola sas table employees --from-partition sales --to-partition sales -o url
      Only the URL, for reading one partition
  tavola sas account --permissions rl --expires-in 7d -o connection-string
      A connection string that reads every table for a week";
const TABLE_ABOUT: &str = "Create a signature for the entities of one table";
const TABLE_EXAMPLES: &str = "\
Examples:
  tavola sas table employees --permissions raud --expires-in 30m
      Every operation on entities, for half an hour
  tavola sas table employees --from-partition sales --from-row 000100 --to-partition sales
      Reads one partition, from one of its rows on
  tavola sas table employees --policy readers -o url
      Permissions and times come from the table's policy `readers`, so that it can be revoked";
const ACCOUNT_ABOUT: &str = "Create a signature for every table of an account";
const ACCOUNT_EXAMPLES: &str = "\
Examples:
  tavola sas account
      Lists and reads tables for an hour
  tavola sas account --permissions rwdlacu --expires-in 1h --ip 127.0.0.1 -o connection-string
      All that can be done with tables and entities, from this machine
  tavola sas account --permissions r --resource-types o --expires-in 7d --https-only
      Reads entities only, for a week, and only over https";

const FORMATS: &[&str] = &["text", "json", "url", "sas", "connection-string"];

pub(crate) fn command() -> Command {
    let table = described("table", TABLE_ABOUT, TABLE_EXAMPLES)
        .args(table::flags())
        .args(terms::flags("1h, unless --policy"));
    let account = described("account", ACCOUNT_ABOUT, ACCOUNT_EXAMPLES)
        .args(account::flags())
        .args(terms::flags("1h"));
    let with_account = |command: Command| {
        command
            .args(account_access::key_flags("Account"))
            .args(account_access::account_flags("Account"))
            .arg(output_flag(FORMATS))
    };
    described("sas", ABOUT, EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(with_account(table))
        .subcommand(with_account(account))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let now = human_time::now();
    let (matches, made) = match matches.subcommand() {
        Some(("table", matches)) => (
            matches,
            table::make(matches, &account_access::resolve(matches, ServiceKind::Table)?, now)?,
        ),
        Some(("account", matches)) => (
            matches,
            account::make(matches, &account_access::resolve(matches, ServiceKind::Table)?, now)?,
        ),
        _ => unreachable!("clap asks for a known command"),
    };
    if matches.get_flag("https-only") && made.url.starts_with("http:") {
        eprintln!("note: the endpoint is plain http, over which this signature is refused");
    }
    print(&made, matches.get_one::<String>("output").map_or("text", String::as_str))
}

/// A signature, and what it opens in words.
struct Made {
    url: Zeroizing<String>,
    sas: Zeroizing<String>,
    connection_string: Zeroizing<String>,
    /// `None`: the policy says.
    expires: Option<DateTime>,
    opens: Vec<String>,
}

impl Made {
    /// `services`: letters of those that it opens; `resource`: the path of the table below the
    /// endpoint, or nothing.
    fn new(
        sas: String,
        access: &AccountAccess,
        services: &str,
        resource: &str,
        expires: Option<DateTime>,
        opens: Vec<String>,
    ) -> Result<Self, Failure> {
        let sas = Zeroizing::new(sas);
        let opened = access.endpoints.iter().filter(|(of, _)| services.contains(of.letter()));
        let string = ConnectionString::with_signature(&sas, &opened.cloned().collect::<Vec<_>>());
        let string = string.map_err(|error| Failure::Usage(error.to_string()))?;
        let url = Zeroizing::new(format!("{}?{}", resource_url(&access.endpoint, resource), &*sas));
        Ok(Self { url, sas, connection_string: string.to_text(), expires, opens })
    }
}

fn resource_url(endpoint: &Endpoint, resource: &str) -> String {
    // In host style the root has no other name than its slash.
    let needs_slash = !resource.is_empty() || endpoint.path().is_empty();
    format!("{endpoint}{}{resource}", if needs_slash { "/" } else { "" })
}

fn print(made: &Made, format: &str) -> Result<(), Failure> {
    let Made { url, sas, connection_string, expires, opens } = made;
    match format {
        "url" => println!("{}", &**url),
        "sas" => println!("{}", &**sas),
        "connection-string" => println!("{}", &**connection_string),
        "json" => {
            let expires = expires.map(|at| at.to_string());
            let object = json!({
                "url": &**url, "sas": &**sas, "connection_string": &**connection_string, "expires": expires,
            });
            println!("{object:#}");
        }
        _ => {
            println!(
                "URL:\n  {}\nConnection string:\n  {}\nWhat it permits:",
                &**url, &**connection_string
            );
            opens.iter().for_each(|line| println!("  {line}"));
        }
    }
    Ok(())
}

/// Applies the rules of the service, so that the command prints no signature that it would reject.
fn check(query: &str, access: &AccountAccess, terms: &Terms, now: DateTime) -> Result<(), Failure> {
    let keys =
        AccountKeys::parse(&access.key, None).map_err(|error| Failure::Usage(error.to_string()))?;
    let first_ip =
        terms.ip.split('-').next().and_then(|ip| ip.parse().ok()).unwrap_or(Ipv4Addr::LOCALHOST);
    let caller = Caller { ip: IpAddr::V4(first_ip), https: true };
    let at = terms.start.map_or(now, |start| start.max(now));
    match evaluate::evaluate(query, &access.account, &keys, caller, at) {
        Ok(_) => Ok(()),
        Err(api_error) => Err(Failure::Usage(format!(
            "the service would reject this signature: {}",
            evaluate::words(&api_error)
        ))),
    }
}
