//! `tavola serve`.

use clap::ArgMatches;
use tavola_server::Config;
use tavola_server::config::{Origin, Personality};

use crate::exit::Failure;
use crate::{flags, serve};

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let mut layers = flags::layers(matches)?;
    if matches.get_flag("silent") {
        layers.set("log.access", "false", Origin::Flag("--silent".to_owned()));
    }
    serve::run(&Config::resolve(&layers, Personality::Server)?)
}
