//! `tavola config check` and `tavola config show`.

use clap::ArgMatches;
use tavola_server::Config;
use tavola_server::config::{Personality, StoreConfig};
use tavola_server::tls::TlsReloader;

use crate::cluster;
use crate::exit::Failure;
use crate::flags;

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("check", matches)) => check(matches),
        Some(("show", matches)) => show(matches),
        _ => unreachable!("clap asks for a known command"),
    }
}

fn check(matches: &ArgMatches) -> Result<(), Failure> {
    let layers = flags::layers(matches)?;
    let config = Config::resolve(&layers, Personality::Server)?;
    config.tls.as_ref().map(TlsReloader::open).transpose()?;
    if let StoreConfig::Cassandra(cluster) = &config.store {
        cluster::peer_keys(cluster)?;
    }
    for note in &config.notes {
        println!("note: {note}");
    }
    println!("the configuration is good: {} account(s), tables at {}", config.accounts.names().count(), config.table);
    Ok(())
}

/// Shows values that would not work too: that is when people look.
fn show(matches: &ArgMatches) -> Result<(), Failure> {
    let layers = flags::layers(matches)?;
    for (path, value, origin) in layers.shown() {
        if matches.get_flag("origin") {
            println!("{path} = {value:?}  # {origin}");
        } else {
            println!("{path} = {value:?}");
        }
    }
    Ok(())
}
