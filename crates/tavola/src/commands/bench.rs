//! `tavola bench`: how fast is my server? The load is that of `cargo xtask bench`, on a table of
//! its own.

mod interrupt;
mod report;
mod table;
mod workload;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tavola_core::request::TablesQuery;
use tavola_core::{ServiceKind, TableRequest};
use tavola_load::source::PAGE_ENTITIES;
use tavola_load::{Pace, Site};
use tavola_protocol::table::decode::DecodeError;
use tokio::runtime::Runtime;

use crate::account_access::{self, AccountAccess};
use crate::commands::doctor::server;
use crate::commands::{described, output_flag, wants};
use crate::exit::Failure;
use crate::http_client::HttpClient;
use crate::progress_bar::Shown;
use interrupt::Interrupt;
use report::Measured;
use table::BenchTable;
use workload::Workload;

const ABOUT: &str = "Measure throughput and latency of a server, in a temporary table";
const EXAMPLES: &str = "\
Examples:
  tavola bench
      The development account on this machine: five workloads of 5 s each
  tavola bench get mixed --rate 500 --seconds 30
      Latencies at 500 requests a second, measured from when each was due
  tavola bench get --endpoint https://10.0.0.7/shop --account shop --key-file key --ca-file ca.pem
      Point reads from an account of another machine, over https";
const DETAILS: &str = "\
Workloads, in the order of measuring:
  get     point reads of random entities
  scan    the whole table by pages of 1,000, on one connection
  filter  a scan for the 1 % that match a property, on one connection; only when named
  mixed   90 % point reads, 5 % inserts, 5 % queries of ten rows
  insert  new entities, one per request
  batch   new entities, 100 per entity group transaction, on at most 8 connections

Every reply is checked, and a wrong one ends the run. Without --rate, latencies are those of a
server under full load. The generator is one thread on this machine; its share of a core is shown.

An account key is required; shared access signatures and tokens are not accepted.

Exit codes: 0 measured, 1 the server failed or answered wrongly, 2 wrong usage.";

/// Half a gigabyte of entities.
const ENTITIES_MAX: u64 = 1_000_000;
/// Most systems give a process 1,024 descriptors.
const CONNECTIONS_MAX: i64 = 1_000;
const RATE_MAX: i64 = 1_000_000;
/// Requests are signed before a workload begins, and their date is valid for 15 minutes.
const SECONDS_MAX: f64 = 600.0;
const SECONDS_MIN: f64 = 0.1;

/// A server that takes longer for the first answer is not to be measured.
const FIRST_ANSWER_TIME: Duration = Duration::from_secs(10);
/// Random suffix of the table's name, so that it is unique.
const RANDOM_LETTERS: usize = 20;

pub(crate) fn command() -> Command {
    described("bench", ABOUT, EXAMPLES)
        .after_help(DETAILS)
        .arg(workload_argument())
        .args(load_flags())
        .args(account_access::connection_flags())
        .arg(allow_public_flag().help_heading("Target"))
        .arg(output_flag(&["text", "json"]))
}

fn workload_argument() -> Arg {
    Arg::new("workload")
        .value_name("WORKLOAD")
        .num_args(0..)
        .value_parser(Workload::ALL.map(Workload::name))
        .hide_possible_values(true)
        .help(format!(
            "What to measure [default: {}]",
            Workload::USUAL.map(Workload::name).join(" ")
        ))
}

fn load_flags() -> [Arg; 4] {
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading("Load")
    };
    [
        flag(
            "entities",
            "N",
            "Entities of 500 bytes in the table, a multiple of 1,000, at most a million",
        )
        .default_value("10000")
        .value_parser(parse_entities),
        flag("connections", "C", "Connections of get, mixed and insert, at most 1,000")
            .default_value("64")
            .value_parser(value_parser!(u16).range(1..=CONNECTIONS_MAX)),
        flag(
            "seconds",
            "S",
            "Length of each workload, at most 600; a scan that has begun is finished",
        )
        .default_value("5")
        .value_parser(parse_seconds),
        flag("rate", "R", "Send at this rate per second (open loop) [default: closed loop]")
            .value_parser(value_parser!(u32).range(1..=RATE_MAX)),
    ]
}

fn allow_public_flag() -> Arg {
    Arg::new("allow-public")
        .long("allow-public")
        .action(ArgAction::SetTrue)
        .help("Also measure a server on a public address: it may cost money and slow others down")
}

fn parse_entities(text: &str) -> Result<u64, String> {
    let entities: u64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if entities == 0 || entities > ENTITIES_MAX || !entities.is_multiple_of(PAGE_ENTITIES) {
        return Err(format!(
            "a multiple of {PAGE_ENTITIES}, up to {ENTITIES_MAX}: the table has whole pages"
        ));
    }
    Ok(entities)
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let range = SECONDS_MIN..=SECONDS_MAX;
    if range.contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("between {SECONDS_MIN} and {SECONDS_MAX} s"))
    }
}

/// What to do.
#[derive(Debug)]
struct Plan {
    workloads: Vec<Workload>,
    entities: u64,
    connections: usize,
    duration: Duration,
    pace: Pace,
}

impl Plan {
    fn of(matches: &ArgMatches) -> Self {
        let named: Vec<&String> = matches.get_many("workload").into_iter().flatten().collect();
        let wanted = |workload: &Workload| match &named[..] {
            [] => Workload::USUAL.contains(workload),
            names => names.iter().any(|name| *name == workload.name()),
        };
        let seconds = matches.get_one::<f64>("seconds").copied().unwrap_or(SECONDS_MIN);
        let rate = matches.get_one::<u32>("rate");
        Self {
            workloads: Workload::ALL.into_iter().filter(wanted).collect(),
            entities: matches.get_one::<u64>("entities").copied().unwrap_or(PAGE_ENTITIES),
            connections: matches.get_one::<u16>("connections").copied().unwrap_or(1).into(),
            duration: Duration::from_secs_f64(seconds),
            pace: rate.map_or(Pace::Closed, |rate| Pace::PerSecond(f64::from(*rate))),
        }
    }
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let plan = Plan::of(matches);
    let access = account_access::resolve(matches, ServiceKind::Table)?;
    let client =
        HttpClient::new(matches.get_one::<PathBuf>("ca-file").cloned()).within(FIRST_ANSWER_TIME);
    let site = site(&access, &client)?;
    if !matches.get_flag("allow-public") {
        refuse_public(site.addresses())?;
    }
    // One thread, for signals: the generator takes the main one.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::System(format!("cannot start the runtime: {error}")))?;
    runtime.block_on(greet(&access, &client))?;
    let site = site.reach().map_err(|failure| Failure::System(failure.to_string()))?;
    let is_json = wants(matches, "json");
    if !is_json {
        report::say(&report::heading(&access, &plan));
    }
    let measured = measure_and_drop(&runtime, &site, &plan, |measured| {
        if !is_json {
            report::say(&measured.line());
            measured.notes(plan.pace).iter().for_each(|note| eprintln!("note: {note}"));
        }
    })?;
    if is_json {
        report::say(&report::json(&access, &plan, &measured));
    }
    Ok(())
}

/// Finds the server's addresses; sends it nothing.
fn site(access: &AccountAccess, client: &HttpClient) -> Result<Site, Failure> {
    let trust = access.endpoint.is_https().then(|| client.trust()).transpose();
    let trust = trust.map_err(|error| Failure::Usage(error.to_string()))?;
    let site = Site::new(access.endpoint.as_str(), access.account.as_str(), &access.key, trust);
    site.map_err(|failure| Failure::Usage(failure.to_string()))
}

/// Load where others work, or where each request is paid for, must be meant.
fn refuse_public(addresses: &[SocketAddr]) -> Result<(), Failure> {
    let Some(address) = addresses.iter().find(|address| !is_near(address.ip())) else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "{} is neither this machine nor a private network. This load costs money on an account \
         that is paid by request, and slows down other users of the server; to run it \
         nevertheless, add --allow-public",
        address.ip()
    )))
}

fn is_near(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
        }
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
                || ip.is_unspecified()
        }
    }
}

/// One small question before the load, whose failures have words of their own.
async fn greet(access: &AccountAccess, client: &HttpClient) -> Result<(), Failure> {
    let request = TableRequest::QueryTables(TablesQuery { top: Some(1), ..TablesQuery::default() });
    let AccountAccess { account, endpoint, .. } = access;
    let message =
        match server::ask_with_key(&request, endpoint, account, &access.signing_key()?, client)
            .await
        {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(DecodeError::Service(error))) => {
                let (answer, advice) =
                    (server::short(&error), "`tavola doctor --connection-string` says more");
                match error.status.as_u16() {
                    401 | 403 => {
                        format!("{endpoint} rejects the key of {account} with {answer}; {advice}")
                    }
                    404 => format!("{endpoint} has no account {account}: {answer}; {advice}"),
                    // What a server of https says to plain http.
                    400 if !endpoint.is_https() => {
                        format!("{endpoint} answers with {answer}; is it meant to be https?")
                    }
                    _ => format!("{endpoint} answers with {answer}; {advice}"),
                }
            }
            Ok(Err(_)) => {
                format!("the response of {endpoint} is not one of a Table service; check the port")
            }
            Err(error) => match server::advice_on(&error) {
                "" => error.to_string(),
                advice => format!("{error}; {advice}"),
            },
        };
    Err(Failure::System(message))
}

/// Creates the table, measures, and drops it whatever came of it.
fn measure_and_drop(
    runtime: &Runtime,
    site: &Site,
    plan: &Plan,
    tell: impl FnMut(&Measured),
) -> Result<Vec<Measured>, Failure> {
    let name = table_name()?;
    let interrupt = Interrupt::listen(runtime, &name)?;
    let created = BenchTable::create(site, &name, plan, &interrupt);
    let mut table = created
        .map_err(|failure| Failure::System(format!("cannot create the table {name}: {failure}")))?;
    let mut shown = Shown::new();
    let measured = measure(&mut table, &mut shown, tell);
    // Also after a failure in the midst of something.
    shown.end();
    match (measured, table.drop()) {
        (Ok(measured), Ok(())) => Ok(measured),
        (Err(message), Ok(())) => Err(Failure::System(format!("{message}. The table was dropped"))),
        (measured, Err(failure)) => {
            let message = measured.err().map(|message| format!("{message}. ")).unwrap_or_default();
            let remains = "could not be dropped and remains; delete it with any client";
            Err(Failure::System(format!("{message}The table {name} {remains}: {failure}")))
        }
    }
}

fn measure(
    table: &mut BenchTable<'_>,
    shown: &mut Shown,
    mut tell: impl FnMut(&Measured),
) -> Result<Vec<Measured>, String> {
    let stopped = || Err("stopped by a signal".to_owned());
    table.fill(shown).map_err(|failure| format!("filling: {failure}{}", advice_on(&failure)))?;
    let mut all = Vec::new();
    for workload in &table.plan.workloads {
        if table.interrupt.is_asked() {
            return stopped();
        }
        let measured = table.measure(*workload, shown);
        let measured = measured
            .map_err(|failure| format!("{}: {failure}{}", workload.name(), advice_on(&failure)))?;
        if table.interrupt.is_asked() {
            return stopped();
        }
        tell(&measured);
        all.push(measured);
    }
    Ok(all)
}

fn advice_on(failure: &tavola_load::Failure) -> &'static str {
    match failure.status() {
        Some(429 | 503) => {
            "; the server is busy or the account over its budget: measure below it with --rate, \
             or with fewer --connections"
        }
        Some(401 | 403) => "; the key was valid before: was it changed meanwhile?",
        _ => "",
    }
}

/// `tavolabench` and random letters.
fn table_name() -> Result<String, Failure> {
    let mut bytes = [0; RANDOM_LETTERS];
    let no_randomness = |error| Failure::System(format!("the system gives no randomness: {error}"));
    getrandom::fill(&mut bytes).map_err(no_randomness)?;
    let letters = bytes.iter().map(|byte| char::from(b'a' + byte % 26));
    Ok("tavolabench".chars().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near() {
        for near in [
            "127.0.0.1",
            "::1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.9",
            "169.254.1.1",
            "fd00::1",
            "fe80::1",
        ] {
            assert!(is_near(near.parse().unwrap()), "{near}");
        }
        for far in ["8.8.8.8", "172.32.0.1", "100.64.0.1", "2001:db8::1", "::ffff:8.8.8.8"] {
            assert!(!is_near(far.parse().unwrap()), "{far}");
        }
        assert!(is_near("::ffff:127.0.0.1".parse().unwrap()));
        let one_is_public: [SocketAddr; 2] =
            ["127.0.0.1:1".parse().unwrap(), "203.0.113.7:1".parse().unwrap()];
        assert!(
            refuse_public(&one_is_public[..1]).is_ok() && refuse_public(&one_is_public).is_err()
        );
    }

    #[test]
    fn names_are_legal_and_never_the_same() {
        let (one, other) = (table_name().unwrap(), table_name().unwrap());
        assert_ne!(one, other);
        assert!(tavola_core::TableName::parse(&one).is_ok());
    }

    #[test]
    fn workloads_are_measured_in_their_order() {
        let plan = |line: &str| {
            let matches = command().try_get_matches_from(line.split(' '));
            Plan::of(&matches.unwrap()).workloads
        };
        assert_eq!(plan("bench"), Workload::USUAL);
        assert_eq!(
            plan("bench batch filter get get"),
            [Workload::Get, Workload::Filter, Workload::Batch]
        );
    }
}
