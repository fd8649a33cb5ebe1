//! The tables of an account, for the commands that read and write them: how they are reached, and
//! what a failure is called.

use std::fmt::Display;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches};
use tavola_client::{
    Account, AnyFilter, ClientOptions, ConnectionOptions, Credential, Error, ErrorKind, Retry,
    TableServiceClient,
};
use tavola_core::ServiceKind;

use crate::account_access;
use crate::completion;
use crate::exit::Failure;

/// The codes with which these commands end.
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 the server failed or refused, or there is no such thing, 2 wrong usage.";

/// Far above the 1 MiB of an entity, whatever its escapes.
const INPUT_BYTES_MAX: u64 = 16 << 20;
/// Somebody waits: a server that is away for longer is reported.
const ATTEMPTS: u32 = 3;

/// Why a command ends before its work is done.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(Failure),
    /// Nobody reads what it prints, as behind `| head`: no failure.
    ReaderGone,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(explained(&error))
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Failed(Failure::System(format!("cannot write the output: {error}"))),
        }
    }
}

/// The flags that say which account, and how it is reached.
pub(crate) fn connection_flags() -> Vec<Arg> {
    let allow_http = Arg::new("allow-http")
        .long("allow-http")
        .action(ArgAction::SetTrue)
        .help_heading("Target")
        .help("Also use http to another machine: everybody on the way can read the data");
    account_access::connection_flags().into_iter().chain([allow_http]).collect()
}

/// The table that a command is about.
pub(crate) fn table_argument() -> Arg {
    let argument = Arg::new("table").required(true).value_name("TABLE").help("Name of the table");
    argument.add(completion::table_names())
}

/// The condition of a command.
pub(crate) fn filter_flag() -> Arg {
    Arg::new("filter")
        .long("filter")
        .value_name("FILTER")
        .help("Condition, as in $filter: PartitionKey eq 'sales' and Age gt 30")
}

/// The table that was named.
pub(crate) fn named_table(matches: &ArgMatches) -> &str {
    matches.get_one::<String>("table").map(String::as_str).unwrap_or_default()
}

/// The condition that was typed; an empty one is none.
pub(crate) fn optional_filter(matches: &ArgMatches) -> Result<Option<AnyFilter>, Failure> {
    let text = matches.get_one::<String>("filter").filter(|text| !text.trim().is_empty());
    text.map(|text| parse_filter(text)).transpose()
}

/// A condition without which the command has no meaning.
pub(crate) fn required_filter(matches: &ArgMatches) -> Result<AnyFilter, Failure> {
    let text = matches.get_one::<String>("filter").map(String::as_str);
    parse_filter(text.unwrap_or_default())
}

fn parse_filter(text: &str) -> Result<AnyFilter, Failure> {
    AnyFilter::parse(text).map_err(|error| Failure::Usage(format!("--filter: {error}")))
}

/// Does some work with the tables of the account that the flags name.
pub(crate) fn with_tables<F>(
    matches: &ArgMatches,
    work: impl FnOnce(TableServiceClient) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Stop>>,
{
    let account = account(matches, Retry::default().attempts(ATTEMPTS))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::System(format!("cannot start the runtime: {error}")))?;
    let done = runtime.block_on(async {
        // The library speaks to programmers.
        let with_flag = |error: Error| {
            let words = error.to_string().replace("ClientOptions::allow_http", "--allow-http");
            Failure::Usage(words)
        };
        work(account.tables().map_err(with_flag)?).await
    });
    match done {
        Ok(()) | Err(Stop::ReaderGone) => Ok(()),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// The account that the flags name.
pub(crate) fn account(matches: &ArgMatches, retry: Retry) -> Result<Account, Failure> {
    let (endpoint, credential) = match account_access::signature(matches, ServiceKind::Table)? {
        Some((endpoint, signature)) => (endpoint, Credential::sas(signature.as_str())),
        None => {
            let access = account_access::resolve(matches, ServiceKind::Table)?;
            let credential = Credential::key(access.account.as_str(), access.key.as_str());
            (access.endpoint, credential)
        }
    };
    let account = Account::new(endpoint.as_str(), Some(credential))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(account.with_options(options(matches)?.retry(retry)))
}

fn options(matches: &ArgMatches) -> Result<ClientOptions, Failure> {
    let mut connection = ConnectionOptions::default();
    if let Some(file) = matches.get_one::<PathBuf>("ca-file") {
        let cannot_read =
            |error| Failure::Usage(format!("cannot read {}: {error}", file.display()));
        connection = connection.certificates(std::fs::read(file).map_err(cannot_read)?);
    }
    let user_agent = concat!("tavola/", env!("CARGO_PKG_VERSION"));
    let options = ClientOptions::default().connection(connection).user_agent(user_agent);
    Ok(if matches.get_flag("allow-http") { options.allow_http() } else { options })
}

/// What happened, and what to do about it.
fn explained(error: &Error) -> Failure {
    let advice = match (error.kind(), error.status(), error.code()) {
        (ErrorKind::Invalid { .. }, ..) => return Failure::Usage(error.to_string()),
        (ErrorKind::Connect, ..) => {
            "; start a server with `tavola serve`, or name another with --endpoint or \
             --connection-string"
        }
        (ErrorKind::NotOurs { .. }, ..) => "; check the port",
        (_, Some(401 | 403), _) => "; `tavola doctor --connection-string` says why",
        (_, _, Some("TableNotFound")) => {
            "; `tavola table ls` lists the tables, `tavola table create` creates one"
        }
        (_, _, Some("TableBeingDeleted")) => "; try again in a minute",
        _ if error.is_throttled() => "; try again later",
        _ => "",
    };
    Failure::System(format!("{error}{advice}"))
}

/// Prints a line, or many.
pub(crate) fn say(text: impl Display) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// The text of an argument, or of standard input for `-`.
pub(crate) fn text_of(argument: &str) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    io::stdin()
        .take(INPUT_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
    Ok(text)
}
