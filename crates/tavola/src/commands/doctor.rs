//! `tavola doctor`: says in words what is wrong. It changes nothing: servers are only asked what
//! can be read.

mod at_rest;
mod certificate;
pub(super) mod cluster;
mod connection;
mod home;
mod local;
mod operation;
pub(super) mod report;
mod rules;
pub(super) mod server;
mod signature;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};
use tavola_core::ServiceKind;
use tavola_protocol::connection_string::{Endpoint, Secret};
use tavola_protocol::{ConnectionString, connection_string};
use zeroize::Zeroizing;

use crate::account_access;
use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::flags;
use crate::http_client::{HttpClient, ca_file_flag};
use home::Home;
use operation::{Operation, Question};
use report::Report;
use target::Target;

const ABOUT: &str =
    "Diagnose problems: configuration, ports, clock, cluster, signatures, certificates";
const EXAMPLES: &str = "\
Examples:
  tavola doctor
      Configuration, ports, clock, modes of key files, certificate, and the cluster if there is one
  tavola doctor --sas-url \"$URL\" --operation insert --partition sales --row 000123
      Whether a shared access signature permits this, and if not, why
  tavola doctor --cert server.pem --key server.key --endpoint https://tables.example:10002/shop
      Whether clients will accept a certificate";
const EXIT_CODES: &str =
    "The first line is the result. The certificate that the configuration names is trusted.
Exit codes: 0 nothing is wrong, or the credential works; 1 something is wrong; 2 wrong usage.";

/// A server that takes longer for so little is not well.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Of a file with a password.
const PASSWORD_BYTES_MAX: u64 = 4096;

pub(crate) fn command() -> Command {
    let command = described("doctor", ABOUT, EXAMPLES).after_help(EXIT_CODES);
    flags::with_cluster_settings(command, "Cluster")
        .arg(flags::flag_of_setting("store.kind"))
        .args(credential_flags())
        .args(operation_flags())
        .args(certificate_flags())
        .arg(account_access::accounts_folder_flag())
        .arg(output_flag(&["text", "json"]))
}

fn flag(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn credential_flags() -> Vec<Arg> {
    let flags = [
        flag("connection-string", "STRING", "Connection string to check"),
        flag("sas-url", "URL", "URL with a shared access signature to check")
            .conflicts_with("connection-string"),
    ];
    flags.map(|flag| flag.help_heading("Credential")).into()
}

fn operation_flags() -> Vec<Arg> {
    let names = Operation::ALL.map(Operation::name);
    let flags = [
        flag("operation", "NAME", "Operation to check").value_parser(names),
        flag("table", "NAME", "Table of the operation [default: the signature's]"),
        flag("partition", "KEY", "PartitionKey of the entity").requires("row"),
        flag("row", "KEY", "RowKey of the entity").requires("partition"),
    ];
    flags.map(|flag| flag.help_heading("Operation")).into()
}

fn certificate_flags() -> Vec<Arg> {
    let file = |name, help| flag(name, "FILE", help).value_parser(value_parser!(PathBuf));
    let flags = [
        file("cert", "A certificate with its chain in PEM form, or a PFX file"),
        file("key", "Its private key in PEM form").requires("cert"),
        file("password-file", "The password of the PFX file").requires("cert"),
        flag("endpoint", "URL", "The endpoint that the certificate is for").requires("cert"),
        ca_file_flag(),
    ];
    flags.map(|flag| flag.help_heading("Certificates")).into()
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::System(format!("cannot start the runtime: {error}")))?;
    let report = runtime.block_on(examine(matches))?;
    report.print(matches.get_one::<String>("output").map_or("text", String::as_str));
    report.outcome()
}

async fn examine(matches: &ArgMatches) -> Result<Report, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let file = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let mut report = Report::default();
    let question = Question::of(matches)?;
    let home = Home::read(matches);
    let client = HttpClient::new(file("ca-file")).within(ANSWER_TIME).pinning(home.certificate());
    let endpoint = match (text("connection-string"), text("sas-url")) {
        (Some(string), _) => {
            connection_string(string, &question, &home, &client, &mut report).await
        }
        (None, Some(url)) => sas_url(url, &question, &home, &client, &mut report).await,
        (None, None) if question.is_asked() => {
            return Err(Failure::Usage(
                "--operation needs a credential: --connection-string or --sas-url".to_owned(),
            ));
        }
        (None, None) => None,
    };
    if let Some(cert) = file("cert") {
        let endpoint =
            text("endpoint").map(account_access::parse_endpoint).transpose()?.or(endpoint);
        let password = match file("password-file") {
            Some(file) => account_access::read_secret(&file, PASSWORD_BYTES_MAX)?,
            None => Zeroizing::default(),
        };
        let password = password.trim_end_matches(['\r', '\n']);
        certificate::examine(
            &cert,
            file("key").as_deref(),
            password,
            endpoint.as_ref(),
            &mut report,
        );
    } else if text("connection-string").is_none() && text("sas-url").is_none() {
        local::examine(&home, &client, &mut report).await;
    }
    Ok(report)
}

async fn connection_string(
    text: &str,
    question: &Question,
    home: &Home,
    client: &HttpClient,
    report: &mut Report,
) -> Option<Endpoint> {
    // What is asked of the server below are requests of tables.
    let parsed = ConnectionString::parse(text).and_then(|string| {
        let endpoint = string.endpoint(ServiceKind::Table)?.clone();
        Ok((string, endpoint))
    });
    let (string, endpoint) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            report.fail("connection string", error.to_string(), advice_on(&error));
            return None;
        }
    };
    let Some(account) = string.account().cloned() else {
        let advice = "add AccountName, or put the account into the endpoint's path or host";
        report.fail(
            "connection string",
            format!("nothing says which account {endpoint} is of"),
            advice,
        );
        return Some(endpoint);
    };
    match string.secret() {
        Secret::Key(key) => {
            report.ok("connection string", format!("a key of the account {account} at {endpoint}"));
            connection::examine_key(&account, &endpoint, key, question, client, report).await;
        }
        Secret::Signature(query) => {
            let target =
                Target { account, endpoint: endpoint.clone(), table: None, query: query.clone() };
            signature::examine(&target, question, home, client, report).await;
        }
    }
    Some(endpoint)
}

fn advice_on(error: &connection_string::ConnectionStringError) -> &'static str {
    use connection_string::ConnectionStringError as Error;
    match error {
        Error::NotAPair(_) | Error::SecretMissing | Error::NotAKey | Error::NotASignature => {
            "in a shell quote the string, because ; ends a command; `tavola conn` prints a valid \
             one"
        }
        _ => "`tavola conn` prints a valid one",
    }
}

async fn sas_url(
    url: &str,
    question: &Question,
    home: &Home,
    client: &HttpClient,
    report: &mut Report,
) -> Option<Endpoint> {
    match Target::parse(url, |name| home.has_account(name)) {
        Err(problem) => {
            report.fail("URL", problem.words(), problem.advice());
            None
        }
        Ok(target) => {
            signature::examine(&target, question, home, client, report).await;
            Some(target.endpoint)
        }
    }
}
