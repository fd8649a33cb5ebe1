//! `tavola account add`, `list`, `rotate` and `remove`: the files of the accounts folder.

use clap::{Arg, ArgAction, ArgMatches, Command};
use tavola_core::AccountName;
use tavola_server::config::account_folder::KeyNumber;
use tavola_server::config::{AccountFolder, Layers, Personality, accounts};

use crate::exit::Failure;
use crate::flags;

const EXAMPLES: &str = "\
Examples:
  tavola account add shop
      A new account with two new keys; prints the first one, once
  tavola account list
      The accounts that the server would serve, and where each is defined
  tavola account rotate shop --key 2
      A new second key; the first one stays valid
  tavola account remove shop
      Removes its file and its keys; its tables stay in the store

A running server applies changes on SIGHUP, or on these requests (docs/security.md: how to sign):
  POST http://127.0.0.1:10003/reload
  POST http://127.0.0.1:10003/accounts/shop/rotate?key=2";

pub(crate) fn command() -> Command {
    let name = || Arg::new("name").required(true).value_name("NAME").help("The account");
    let add = Command::new("add")
        .about("Create an account with new keys")
        .arg(name())
        .arg(
            Arg::new("read-only")
                .long("read-only")
                .action(ArgAction::SetTrue)
                .help("Reject every write"),
        )
        .arg(
            Arg::new("allow-ip")
                .long("allow-ip")
                .value_name("ADDRESS")
                .action(ArgAction::Append)
                .help("Allow only this address or range (10.0.0.0/8); may be repeated"),
        )
        .arg(
            Arg::new("requests-per-second")
                .long("requests-per-second")
                .value_name("COUNT")
                .value_parser(clap::value_parser!(u64))
                .help("Requests beyond it get 503 ServerBusy"),
        )
        .arg(
            Arg::new("partition-entities-per-second")
                .long("partition-entities-per-second")
                .value_name("COUNT")
                .value_parser(clap::value_parser!(u64))
                .help("Requests for more entities of one partition get 503 ServerBusy"),
        );
    let remove =
        Command::new("remove").about("Remove an account and its keys; its tables stay").arg(name());
    let rotate = Command::new("rotate").about("Replace a key of an account").arg(name()).arg(
        Arg::new("key")
            .long("key")
            .value_name("1|2")
            .required(true)
            .value_parser(["1", "2"])
            .help("Number of the key to replace"),
    );
    Command::new("account")
        .about("Add, list and remove accounts, and rotate their keys")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .subcommand(with_folder(add))
        .subcommand(with_folder(
            Command::new("list").about("List the accounts, without their keys"),
        ))
        .subcommand(with_folder(rotate))
        .subcommand(with_folder(remove))
}

fn with_folder(command: Command) -> Command {
    flags::with_some_settings(command, &["server.accounts_folder"])
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("add", matches)) => add(matches),
        Some(("list", matches)) => list(matches),
        Some(("rotate", matches)) => rotate(matches),
        Some(("remove", matches)) => remove(matches),
        _ => unreachable!("clap asks for a known command"),
    }
}

fn add(matches: &ArgMatches) -> Result<(), Failure> {
    let (layers, account) = (flags::layers(matches)?, name(matches)?);
    accounts::check_name(account.as_str(), Personality::Server).map_err(Failure::Usage)?;
    if layers.accounts().any(|(name, _)| name == account.as_str()) {
        return Err(Failure::Usage(format!("the account {account} already exists")));
    }
    let mut settings = Vec::new();
    if matches.get_flag("read-only") {
        settings.push(("read_only", "true".to_owned()));
    }
    if let Some(ips) = matches.get_many::<String>("allow-ip") {
        let quoted: Vec<String> =
            ips.map(|ip| checked_ip(ip).map(|ip| format!("\"{ip}\""))).collect::<Result<_, _>>()?;
        settings.push(("allowed_ips", format!("[{}]", quoted.join(", "))));
    }
    for (flag, field) in [
        ("requests-per-second", "requests_per_second"),
        ("partition-entities-per-second", "partition_entities_per_second"),
    ] {
        if let Some(rate) = matches.get_one::<u64>(flag) {
            settings.push((field, rate.to_string()));
        }
    }
    let folder = folder(&layers);
    let key = folder.add(&account, &settings)?;
    println!("{}", &*key);
    eprintln!("key 1 of {account}, shown only once; both keys are in {}", folder.path().display());
    eprintln!("a running server applies it on SIGHUP");
    Ok(())
}

/// What the server would refuse at its next start is refused here.
fn checked_ip(text: &str) -> Result<&str, Failure> {
    match tavola_server::config::ip_range(text) {
        Some(_) => Ok(text),
        None => Err(Failure::Usage(format!(
            "--allow-ip: \"{text}\" is not an address or a range such as 10.0.0.0/8"
        ))),
    }
}

fn list(matches: &ArgMatches) -> Result<(), Failure> {
    let layers = flags::layers(matches)?;
    let mut none = true;
    for (name, origin) in layers.accounts() {
        none = false;
        println!("{name}  # {origin}");
    }
    if none {
        eprintln!("no account is configured: the development account is served, on loopback only");
    }
    Ok(())
}

fn rotate(matches: &ArgMatches) -> Result<(), Failure> {
    let (layers, account) = (flags::layers(matches)?, name(matches)?);
    let number = matches.get_one::<String>("key").and_then(|text| KeyNumber::parse(text));
    let number = number.expect("clap takes 1 and 2 only");
    let folder = folder(&layers);
    let key = folder.rotate(&account, number)?;
    println!("{}", &*key);
    eprintln!(
        "{} of {account}, shown only once; the old one is valid until the server reloads",
        number.field()
    );
    Ok(())
}

/// Also an account that would keep a server from starting, because of its name or its keys.
fn remove(matches: &ArgMatches) -> Result<(), Failure> {
    let (layers, account) = (flags::layers_with_problems(matches), name(matches)?);
    let folder = folder(&layers);
    folder.remove(&account)?;
    println!("removed {account} from {}", folder.path().display());
    eprintln!(
        "a running server accepts its keys until SIGHUP; its tables stay in the store, without \
         access"
    );
    if folder.accounts()?.is_empty() {
        eprintln!(
            "no account is left in that folder: a server without any serves the development \
             account, on loopback"
        );
    }
    Ok(())
}

fn folder(layers: &Layers) -> AccountFolder {
    AccountFolder::new(layers.text("server.accounts_folder"))
}

fn name(matches: &ArgMatches) -> Result<AccountName, Failure> {
    let text = matches.get_one::<String>("name").map(String::as_str).unwrap_or_default();
    AccountName::parse(text).ok_or_else(|| {
        Failure::Usage(format!(
            "\"{text}\" cannot be an account: letters, digits and inner hyphens only"
        ))
    })
}
