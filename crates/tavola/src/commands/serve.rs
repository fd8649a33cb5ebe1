//! `tavola serve`.

use clap::ArgMatches;
use tavola_server::config::{Origin, Personality};
use tavola_server::{Config, ConfigError};

use crate::announce::Announcer;
use crate::exit::Failure;
use crate::flags;
use crate::serve::{self, CommandLine};

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    serve::run(CommandLine {
        matches: matches.clone(),
        resolve: Box::new(resolve),
        announcer: Announcer::Tavola,
    })
}

fn resolve(matches: &ArgMatches) -> Result<Config, ConfigError> {
    let mut layers = flags::layers_with_problems(matches);
    if matches.get_flag("silent") {
        layers.set("log.access", "false", Origin::Flag("--silent".to_owned()));
    }
    Config::resolve(&layers, Personality::Server)
}
