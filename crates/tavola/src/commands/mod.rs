//! The commands, one file each.

pub(crate) mod account;
pub(crate) mod advise;
pub(crate) mod bench;
pub(crate) mod cert;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod conn;
pub(crate) mod count;
pub(crate) mod delete_where;
pub(crate) mod doctor;
pub(crate) mod entity;
pub(crate) mod explain;
pub(crate) mod query;
pub(crate) mod repair;
pub(crate) mod sas;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod table;

use clap::{Arg, ArgMatches, Command};

/// Help begins with one sentence and examples; flags come after.
const HELP: &str =
    "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// A command with its sentence and its examples.
pub(crate) fn described(
    name: &'static str,
    about: &'static str,
    examples: &'static str,
) -> Command {
    Command::new(name).about(about).before_help(examples).help_template(HELP)
}

/// True if `-o` asks for this format.
pub(crate) fn wants(matches: &ArgMatches, format: &str) -> bool {
    matches.get_one::<String>("output").is_some_and(|wanted| wanted == format)
}

/// `-o`, for people and for scripts; the first format is what people get.
pub(crate) fn output_flag(formats: &'static [&'static str]) -> Arg {
    Arg::new("output")
        .short('o')
        .long("output")
        .value_name("FORMAT")
        .value_parser(formats.to_vec())
        .default_value(formats[0])
        .help("Output format")
}
