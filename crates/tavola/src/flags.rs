//! The command line of `tavola`. Flags of `serve` come from the list of settings: each is defined
//! once.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tavola_server::ConfigError;
use tavola_server::config::{LOGGING, Layers, Origin, SettingGroup};
use tavola_store::Setting;

use crate::commands;
use crate::store_config::SCHEMA;

const SERVE_EXAMPLES: &str = "\
Examples:
  tavola serve
      The development account on 127.0.0.1:10002, data in ./tavola-data
  tavola serve --location /var/lib/tavola --table-port 0
      Another data folder, any free port (it is printed)
  TAVOLA_ACCOUNTS__SHOP__KEY1=$(openssl rand -base64 48) tavola serve --host 0.0.0.0
      A configured account, reachable from other machines; `tavola account add` writes a file instead
  tavola serve --tls-cert tavola-cert.pem --tls-key tavola-key.pem
      https, with the files that `tavola cert` makes

Every setting can also be set in a TOML file ([section] key) or in a variable:
docs/configuration.md lists them.
Precedence: flag, TAVOLA_*, AZURITE_*, file, default.

SIGHUP reloads configuration, accounts and certificate and reopens log files, or changes nothing if
there is a mistake. The log names the settings that need a restart. SIGUSR1 only reopens log files.
A certificate is also reloaded when its file changes. No connection is closed.

Exit codes: 0 stopped by a signal, 1 a port or disk failed, 2 wrong usage or configuration,
3 the data folder is damaged, in use, or written by a newer version.";

const CONFIG_EXAMPLES: &str = "\
Examples:
  tavola config init
      Write tavola.toml: every setting as a comment, with its meaning and default
  tavola config check --config tavola.toml
      Validate a file
  tavola config show
      Every setting and its value
  tavola config show --origin
      The same, with the origin of each value";

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("tavola")
        .version(env!("CARGO_PKG_VERSION"))
        .about("The Azure Table service on your own machines")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve())
        .subcommand(config())
        .subcommand(commands::account::command())
        .subcommand(commands::cert::command())
        .subcommand(commands::sas::command())
        .subcommand(commands::conn::command())
        .subcommand(commands::doctor::command())
        .subcommand(commands::check::command())
        .subcommand(commands::repair::command())
        .subcommand(commands::store::command())
        .subcommand(commands::bench::command())
        .subcommand(commands::table::command())
        .subcommand(commands::entity::command())
        .subcommand(commands::query::command())
        .subcommand(commands::explain::command())
        .subcommand(commands::count::command())
        .subcommand(commands::delete_where::command())
        .subcommand(commands::advise::command())
        .subcommand(crate::completion::command())
}

fn serve() -> Command {
    let command = Command::new("serve")
        .about("Serve tables until SIGINT or SIGTERM")
        .after_help(SERVE_EXAMPLES);
    with_settings(command).arg(
        Arg::new("silent")
            .short('s')
            .long("silent")
            .action(ArgAction::SetTrue)
            .help_heading(LOGGING)
            .help("No access log; same as --access-log false"),
    )
}

fn config() -> Command {
    let origin = Arg::new("origin")
        .long("origin")
        .action(ArgAction::SetTrue)
        .help("Show the origin of each value");
    let init = Command::new("init").about("Write a file with every setting as a comment").arg(
        Arg::new("file")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .default_value("tavola.toml")
            .help("File to write; it must not exist"),
    );
    Command::new("config")
        .about("Create, check and show the configuration")
        .after_help(CONFIG_EXAMPLES)
        .subcommand_required(true)
        .subcommand(init)
        .subcommand(
            Command::new("reference")
                .about("Print docs/configuration.md: every setting")
                .hide(true),
        )
        .subcommand(with_settings(Command::new("check").about("Check the configuration and exit")))
        .subcommand(
            with_settings(Command::new("show").about("Print every setting, secrets masked"))
                .arg(origin),
        )
}

fn with_settings(command: Command) -> Command {
    with_flags_of(command, |_| true)
}

/// The configuration file, and the flags of those settings alone that the command is about.
pub(crate) fn with_some_settings(command: Command, paths: &'static [&'static str]) -> Command {
    with_flags_of(command, |setting| paths.contains(&setting.path))
}

/// The settings that name a cluster and what is made in it, and those that say how it is reached.
const CLUSTER: &[&str] = &["store.contact_points", "store.keyspace", "store.replication"];
const ACCESS: &[&str] = &[
    "store.data_centre",
    "store.user",
    "store.password_file",
    "store.tls",
    "store.ca_file",
    "store.accept_risks",
];

/// The configuration file, and the flags that name a cluster and say how it is reached.
pub(crate) fn with_cluster_settings(command: Command, heading: &'static str) -> Command {
    let flags = CLUSTER.iter().map(|path| flag_of_setting(path).help_heading(heading));
    with_access_settings(flags.fold(command, Command::arg), heading)
}

/// The configuration file, and the flags that say how a cluster is reached which was named
/// otherwise.
pub(crate) fn with_access_settings(command: Command, heading: &'static str) -> Command {
    let flags = ACCESS.iter().map(|path| flag_of_setting(path).help_heading(heading));
    flags.fold(command.arg(config_file_flag()), Command::arg)
}

/// The flag of one setting, as `serve` has it.
pub(crate) fn flag_of_setting(path: &str) -> Arg {
    let (heading, setting) = settings_by_heading()
        .find(|(_, setting)| setting.path == path)
        .expect("the paths of commands are settings");
    flag_of(heading, setting, setting.flag.expect("settings that commands name have flags"))
}

fn with_flags_of(command: Command, wanted: impl Fn(&Setting) -> bool) -> Command {
    let settings = settings_by_heading().filter(|(_, setting)| wanted(setting));
    let flags =
        settings.filter_map(|(heading, setting)| Some(flag_of(heading, setting, setting.flag?)));
    let command = flags.fold(command.arg(config_file_flag()), Command::arg);
    let old_names = SCHEMA.old_names().iter();
    let renamed = old_names.filter(|old| SCHEMA.find(old.now).is_some_and(&wanted));
    let flags =
        renamed.filter_map(|old| old.flag.map(|flag| Arg::new(old.path).long(flag).hide(true)));
    flags.fold(command, Command::arg)
}

/// Every setting, and the heading under which help lists it.
fn settings_by_heading() -> impl Iterator<Item = (&'static str, &'static Setting)> {
    let of_group = |group: &'static SettingGroup| {
        group.settings.iter().map(|setting| (group.heading, setting))
    };
    SCHEMA.groups().iter().flat_map(of_group)
}

/// `--config`, for every command that reads the configuration.
pub(crate) fn config_file_flag() -> Arg {
    Arg::new("config").long("config").value_name("FILE").value_parser(value_parser!(PathBuf)).help(
        "Configuration file [env: TAVOLA_CONFIG] [searched: ./tavola.toml, the user's and \
         /etc/tavola]",
    )
}

fn flag_of(heading: &'static str, setting: &'static Setting, flag: &'static str) -> Arg {
    let default = match setting.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let help =
        format!("{}{default} [env: {}] [file: {}]", setting.help, setting.variable(), setting.path);
    let arg = Arg::new(setting.path)
        .long(flag)
        .value_name(setting.value)
        .help(help)
        .help_heading(heading);
    // A switch needs no value.
    if setting.value == "BOOL" { arg.num_args(0..=1).default_missing_value("true") } else { arg }
}

/// All layers: file, environment, flags.
pub(crate) fn layers(matches: &ArgMatches) -> Result<Layers, ConfigError> {
    layers_with_problems(matches).checked()
}

/// The same, for callers that report all problems together: [`Layers::problems`] has those of
/// reading.
pub(crate) fn layers_with_problems(matches: &ArgMatches) -> Layers {
    let file = config_file(matches.get_one::<PathBuf>("config").cloned());
    let mut layers = Layers::read(&SCHEMA, file.as_deref(), environment());
    let current = SCHEMA.settings().map(|setting| (setting.path, setting.flag));
    let old = SCHEMA.old_names().iter().map(|old| (old.path, old.flag));
    for (path, flag) in old.chain(current) {
        let Some(flag) = flag else { continue };
        // A command has the flags of the settings that it is about.
        if let Ok(Some(value)) = matches.try_get_one::<String>(path) {
            layers.set(path, value, Origin::Flag(format!("--{flag}")));
        }
    }
    layers.read_account_folder();
    layers
}

/// Variables whose value is not Unicode cannot be ours.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The file that was named, or else the first that exists of those that are searched.
fn config_file(named: Option<PathBuf>) -> Option<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user_folder =
        variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
    let searched = [
        Some(PathBuf::from("tavola.toml")),
        user_folder.map(|folder| folder.join("tavola").join("tavola.toml")),
        Some(PathBuf::from("/etc/tavola/tavola.toml")),
    ];
    named
        .or_else(|| variable("TAVOLA_CONFIG"))
        .or_else(|| searched.into_iter().flatten().find(|file| file.is_file()))
}
