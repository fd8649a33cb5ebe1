//! The emulator personality: Azurite's flags, spelt as there, turned into settings of ours.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use tavola_server::config::{Layers, Origin, Personality};
use tavola_server::{Config, ConfigError};

use crate::announce::Announcer;
use crate::exit::Failure;
use crate::flags;
use crate::serve::{self, CommandLine};

/// The location is the working directory by default, often a project, so our data has a folder of
/// its own in it.
const DATA_FOLDER: &str = "__tavola_table__";

/// What `--debug` writes: everything of ours, and of others what is worth a warning.
const DEBUG_FILTER: &str =
    "warn,tavola=debug,tavola_server=debug,tavola_service=debug,tavola_embedded=debug";

/// Flags with a value that belong to services or features which do not exist yet.
const NOT_YET_WITH_VALUE: [&str; 7] = [
    "blobHost",
    "queueHost",
    "blobPort",
    "queuePort",
    "blobKeepAliveTimeout",
    "queueKeepAliveTimeout",
    "extentMemoryLimit",
];
/// Switches without effect here: they turn on what is always on.
const NO_OPERATION: [&str; 2] = ["skipApiVersionCheck", "disableTelemetry"];

/// What `-v` prints, alone on its line as Azurite does: scripts compare it with the versions that
/// they know. It is the version that this personality was held against.
const AZURITE_VERSION: &str = "3.35.0";

/// Runs as `azurite` or `azurite-table`.
pub(crate) fn run(called_as: &str, arguments: &[OsString]) -> Result<(), Failure> {
    let matches = command().try_get_matches_from(arguments)?;
    if matches.get_flag("version") {
        println!("{AZURITE_VERSION}");
        return Ok(());
    }
    warn_of_what_is_missing(&matches);
    let announcer =
        if called_as == "azurite-table" { Announcer::AzuriteTable } else { Announcer::Azurite };
    serve::run(CommandLine { matches, resolve, announcer })
}

fn resolve(matches: &ArgMatches) -> Result<Config, ConfigError> {
    let mut config = Config::resolve(&layers(matches), Personality::Emulator)?;
    if matches.get_one::<String>("oauth").is_some() {
        if config.tls.is_none() {
            return Err(ConfigError::new(
                "--oauth needs https: give --cert and --key, or --cert and --pwd",
            ));
        }
        config.tokens.unsigned = true;
    }
    Ok(config)
}

fn command() -> Command {
    let value = |name: &'static str, what: &'static str| Arg::new(name).long(name).value_name(what);
    let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let command = Command::new("azurite")
        .disable_version_flag(true)
        .arg(
            switch("version")
                .short('v')
                .help("Print the version of Azurite that this one emulates"),
        )
        .about(concat!("Tavola ", env!("CARGO_PKG_VERSION"), ", with the flags of Azurite"))
        .arg(
            value("tableHost", "ADDRESS")
                .help("Address on which the Table service listens [default: 127.0.0.1]"),
        )
        .arg(
            value("tablePort", "PORT")
                .help("Port of the Table service; 0 picks a free one [default: 10002]"),
        )
        .arg(
            value("tableKeepAliveTimeout", "SECONDS")
                .help("Idle connections are closed after this [default: 5]"),
        )
        .arg(
            value("location", "FOLDER")
                .short('l')
                .help("Workspace folder [default: the current one]"),
        )
        .arg(
            value("adminHost", "ADDRESS")
                .help("Address for health and metrics [default: 127.0.0.1]"),
        )
        .arg(
            value("adminPort", "PORT")
                .help("Port for health and metrics; 0 picks a free one [default: 10003]"),
        )
        .arg(value("cert", "FILE").help("Serve https with this certificate: PEM, or a PFX file"))
        .arg(value("key", "FILE").help("The private key of a PEM certificate"))
        .arg(value("pwd", "PASSWORD").help("The password of a PFX file"))
        .arg(value("oauth", "LEVEL").value_parser(["basic"]).help(
            "Accept bearer tokens by their claims, without verifying signatures; needs --cert",
        ))
        .arg(switch("silent").short('s').help("No access log, and no other log but errors"))
        .arg(
            value("debug", "FILE")
                .short('d')
                .help("Write a log of every request and error to this file"),
        )
        .arg(
            switch("loose")
                .short('L')
                .help("Accepted: unknown headers and parameters are always ignored"),
        )
        .arg(switch("disableProductStyleUrl").help("Read the account from the path only"))
        .arg(switch("inMemoryPersistence").conflicts_with("location").help("Keep nothing on disk"));
    let command = NO_OPERATION.iter().fold(command, |command, name| {
        command.arg(switch(name).help("Accepted: no effect, always on"))
    });
    NOT_YET_WITH_VALUE.iter().fold(command, |command, name| {
        command.arg(value(name, "VALUE").help("Accepted with a warning: not implemented"))
    })
}

/// One line for all of them, because ten would not be read.
fn warn_of_what_is_missing(matches: &ArgMatches) {
    let given: Vec<String> = NOT_YET_WITH_VALUE
        .iter()
        .filter(|name| matches.get_one::<String>(name).is_some())
        .map(|name| format!("--{name}"))
        .chain(std::env::var_os("AZURITE_DB").map(|_| "AZURITE_DB".to_owned()))
        .collect();
    if !given.is_empty() {
        let given = given.join(", ");
        eprintln!("warning: only the Table service exists; without effect: {given}");
    }
}

/// Azurite prints no JSON and nothing about success, and tools that read its output expect that.
fn set_log(layers: &mut Layers, matches: &ArgMatches, debug: Origin) {
    let level = if matches.get_flag("silent") { "error" } else { "warn" };
    layers.set("log.level", level, Origin::Default);
    layers.set("log.format", "text", Origin::Default);
    if matches.get_one::<String>("debug").is_some() {
        // Of the libraries below, only what is worth a warning.
        layers.set("log.level", DEBUG_FILTER, debug);
    }
}

fn layers(matches: &ArgMatches) -> Layers {
    let mut layers = Layers::read(None, flags::environment());
    let flag = |name: &str| Origin::Flag(format!("--{name}"));
    let settings = [
        ("tableHost", "server.host"),
        ("tablePort", "server.table_port"),
        ("tableKeepAliveTimeout", "limits.header_seconds"),
        ("adminHost", "server.admin_host"),
        ("adminPort", "server.admin_port"),
        ("debug", "log.file"),
        ("cert", "tls.cert"),
        ("key", "tls.key"),
        ("pwd", "tls.password"),
    ];
    for (name, path) in settings {
        if let Some(value) = matches.get_one::<String>(name) {
            layers.set(path, value, flag(name));
        }
    }
    set_log(&mut layers, matches, flag("debug"));
    if matches.get_one::<String>("tableKeepAliveTimeout").is_none() {
        layers.set("limits.header_seconds", "5", Origin::Default);
    }
    for (name, path, value) in [
        ("silent", "log.access", "false"),
        ("disableProductStyleUrl", "server.path_style_only", "true"),
        ("inMemoryPersistence", "store.kind", "memory"),
    ] {
        if matches.get_flag(name) {
            layers.set(path, value, flag(name));
        }
    }
    let location = matches.get_one::<String>("location").map_or(".", String::as_str);
    let folder = Path::new(location).join(DATA_FOLDER);
    layers.set("store.location", folder.to_string_lossy(), flag("location"));
    layers
}
