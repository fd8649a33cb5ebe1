//! The emulator personality: Azurite's flags, spelt as there, turned into settings of ours.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use tavola_core::ServiceKind;
use tavola_server::config::{Layers, Origin, Personality, SERVED, service_setting};
use tavola_server::{Config, ConfigError};

use crate::announce::Announcer;
use crate::exit::Failure;
use crate::flags;
use crate::serve::{self, CommandLine};
use crate::store_config::SCHEMA;

/// The location is the working directory by default, often a project, so our data has a folder of
/// its own in it.
const DATA_FOLDER: &str = "__tavola_table__";

/// What `--debug` writes: everything of ours, and of others what is worth a warning.
const DEBUG_FILTER: &str =
    "warn,tavola=debug,tavola_server=debug,tavola_service=debug,tavola_embedded=debug";

/// What Azurite calls a service and its flags.
struct ServiceNames {
    service: ServiceKind,
    /// The program that serves this service alone.
    program: &'static str,
    host: &'static str,
    port: &'static str,
    keep_alive: &'static str,
}

const SERVICES: [ServiceNames; ServiceKind::ALL.len()] = [
    ServiceNames {
        service: ServiceKind::Blob,
        program: "azurite-blob",
        host: "blobHost",
        port: "blobPort",
        keep_alive: "blobKeepAliveTimeout",
    },
    ServiceNames {
        service: ServiceKind::Queue,
        program: "azurite-queue",
        host: "queueHost",
        port: "queuePort",
        keep_alive: "queueKeepAliveTimeout",
    },
    ServiceNames {
        service: ServiceKind::Table,
        program: "azurite-table",
        host: "tableHost",
        port: "tablePort",
        keep_alive: "tableKeepAliveTimeout",
    },
];

impl ServiceNames {
    fn is_served(&self) -> bool {
        SERVED.contains(&self.service)
    }

    /// The service that the program of that name serves alone.
    fn alone(called_as: &str) -> Option<&'static Self> {
        SERVICES.iter().find(|names| names.program == called_as && names.is_served())
    }
}

fn served() -> impl Iterator<Item = &'static ServiceNames> {
    SERVICES.iter().filter(|names| names.is_served())
}

/// Flags with a value that belong to services or features which do not exist yet.
fn not_yet() -> impl Iterator<Item = &'static str> {
    let flags = |names: &'static ServiceNames| [names.host, names.port, names.keep_alive];
    let absent = SERVICES.iter().filter(|names| !names.is_served());
    absent.flat_map(flags).chain(["extentMemoryLimit"])
}

/// Switches without effect here: they turn on what is always on.
const NO_OPERATION: [&str; 2] = ["skipApiVersionCheck", "disableTelemetry"];

/// What `-v` prints, alone on its line as Azurite does: scripts compare it with the versions that
/// they know. It is the version that this personality was held against.
const AZURITE_VERSION: &str = "3.35.0";

/// Until idle connections are closed.
const KEEP_ALIVE_SECONDS: &str = "5";

/// Runs as `azurite`, or as the program of one service, such as `azurite-table`.
pub(crate) fn run(called_as: &str, arguments: &[OsString]) -> Result<(), Failure> {
    let alone = ServiceNames::alone(called_as);
    let matches = command().try_get_matches_from(arguments)?;
    if matches.get_flag("version") {
        println!("{AZURITE_VERSION}");
        return Ok(());
    }
    warn_of_what_is_missing(&matches);
    let announcer = alone.map_or(Announcer::Azurite, |_| Announcer::AzuriteAlone);
    let resolve = Box::new(move |matches: &ArgMatches| resolve(matches, alone));
    serve::run(CommandLine { matches, resolve, announcer })
}

fn resolve(matches: &ArgMatches, alone: Option<&ServiceNames>) -> Result<Config, ConfigError> {
    let mut config = Config::resolve(&layers(matches, alone), Personality::Emulator)?;
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

fn value(name: &'static str, what: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(what)
}

/// The flags of a service that is served.
fn service_flags(names: &'static ServiceNames) -> [Arg; 3] {
    let (title, port) = (names.service.title(), names.service.default_port());
    [
        value(names.host, "ADDRESS")
            .help(format!("Address on which the {title} service listens [default: 127.0.0.1]")),
        value(names.port, "PORT")
            .help(format!("Port of the {title} service; 0 picks a free one [default: {port}]")),
        value(names.keep_alive, "SECONDS").help(format!(
            "Idle connections are closed after this [default: {KEEP_ALIVE_SECONDS}]"
        )),
    ]
}

fn command() -> Command {
    let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let command = Command::new("azurite")
        .disable_version_flag(true)
        .arg(
            switch("version")
                .short('v')
                .help("Print the version of Azurite that this one emulates"),
        )
        .about(concat!("Tavola ", env!("CARGO_PKG_VERSION"), ", with the flags of Azurite"))
        .args(served().flat_map(service_flags))
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
    command.args(
        not_yet().map(|name| value(name, "VALUE").help("Accepted with a warning: not implemented")),
    )
}

/// One line for all of them, because ten would not be read.
fn warn_of_what_is_missing(matches: &ArgMatches) {
    let given: Vec<String> = not_yet()
        .filter(|name| matches.get_one::<String>(name).is_some())
        .map(|name| format!("--{name}"))
        .chain(std::env::var_os("AZURITE_DB").map(|_| "AZURITE_DB".to_owned()))
        .collect();
    if !given.is_empty() {
        let (given, exist) = (given.join(", "), what_exists(SERVED));
        eprintln!("warning: only the {exist}; without effect: {given}");
    }
}

fn what_exists(services: &[ServiceKind]) -> String {
    let titles: Vec<&str> = services.iter().map(|service| service.title()).collect();
    match titles.as_slice() {
        [only] => format!("{only} service exists"),
        several => format!("{} services exist", several.join(" and ")),
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

/// The flags of services as settings. The program of one service serves no other.
fn set_services(layers: &mut Layers, matches: &ArgMatches, alone: Option<&ServiceNames>) {
    for names in served() {
        for (name, key) in [(names.host, "host"), (names.port, "port")] {
            if let Some(value) = matches.get_one::<String>(name) {
                layers.set(&service_setting(names.service, key), value, flag(name));
            }
        }
        if let Some(alone) = alone.filter(|alone| alone.service != names.service) {
            let origin = Origin::Flag(alone.program.to_owned());
            layers.set(&service_setting(names.service, "enabled"), "false", origin);
        }
    }
    // All connections have one limit here: the longest that was asked for. A value that is no number
    // is the longest, so that it is reported.
    let given = served().filter_map(|names| {
        matches.get_one::<String>(names.keep_alive).map(|value| (value, names.keep_alive))
    });
    match given.max_by_key(|(value, _)| value.parse().unwrap_or(u64::MAX)) {
        Some((value, name)) => layers.set("limits.header_seconds", value, flag(name)),
        None => layers.set("limits.header_seconds", KEEP_ALIVE_SECONDS, Origin::Default),
    }
}

fn flag(name: &str) -> Origin {
    Origin::Flag(format!("--{name}"))
}

fn layers(matches: &ArgMatches, alone: Option<&ServiceNames>) -> Layers {
    let mut layers = Layers::read(&SCHEMA, None, flags::environment());
    set_services(&mut layers, matches, alone);
    let settings = [
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

#[cfg(test)]
mod tests {
    use tavola_core::ServiceKind;

    use super::{SERVED, SERVICES, ServiceNames, not_yet, what_exists};

    #[test]
    fn every_service_is_named_as_azurite_names_it() {
        for (names, service) in SERVICES.iter().zip(ServiceKind::ALL) {
            let name = service.name();
            assert_eq!(names.service, service);
            assert_eq!(names.program, format!("azurite-{name}"));
            assert_eq!(names.host, format!("{name}Host"));
            assert_eq!(names.port, format!("{name}Port"));
            assert_eq!(names.keep_alive, format!("{name}KeepAliveTimeout"));
            let is_served = SERVED.contains(&service);
            assert_eq!(not_yet().any(|flag| flag == names.port), !is_served);
            assert_eq!(ServiceNames::alone(names.program).is_some(), is_served);
        }
        assert!(ServiceNames::alone("azurite").is_none());
    }

    #[test]
    fn what_is_served_is_told_in_words() {
        assert_eq!(what_exists(&[ServiceKind::Table]), "Table service exists");
        assert_eq!(
            what_exists(&[ServiceKind::Queue, ServiceKind::Table]),
            "Queue and Table services exist"
        );
    }
}
