//! `tavola config init`, `check`, `show` and `reference`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use tavola_server::Config;
use tavola_server::config::Personality;
use tavola_server::tls::TlsReloader;

use crate::cluster;
use crate::exit::Failure;
use crate::store_config::{SCHEMA, StoreConfig};
use crate::{flags, logging};

/// Keys may be written into it.
const FILE_MODE: u32 = 0o600;

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("init", matches)) => {
            init(matches.get_one::<PathBuf>("file").expect("the file has a default"))
        }
        Some(("check", matches)) => check(matches),
        Some(("show", matches)) => show(matches),
        Some(("reference", _)) => {
            print!("{}", SCHEMA.reference());
            Ok(())
        }
        _ => unreachable!("clap asks for a known command"),
    }
}

fn init(file: &Path) -> Result<(), Failure> {
    let created = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(file);
    let written = created.and_then(|mut created| created.write_all(SCHEMA.template().as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::Usage(format!("{} already exists; name another file", file.display()))
        }
        _ => Failure::System(format!("cannot write {}: {error}", file.display())),
    })?;
    println!(
        "{} has every setting as a comment; `tavola config check` validates it",
        file.display()
    );
    Ok(())
}

fn check(matches: &ArgMatches) -> Result<(), Failure> {
    let layers = flags::layers_with_problems(matches);
    let config = Config::resolve(&layers, Personality::Server)?;
    logging::check(&config.log)?;
    config.tls.as_ref().map(TlsReloader::open).transpose()?;
    if let StoreConfig::Cassandra(cluster) = &StoreConfig::read(&config.layers)? {
        cluster::peer_keys(cluster)?;
    }
    for note in &config.notes {
        println!("note: {note}");
    }
    println!(
        "the configuration is valid: {} account(s), {}",
        config.accounts.names().count(),
        crate::announce::listeners(&config)
    );
    Ok(())
}

/// Shows values that would not work too: that is when people look. What is printed is a
/// configuration itself; what it cannot hold, because it is masked, is a comment.
fn show(matches: &ArgMatches) -> Result<(), Failure> {
    let layers = flags::layers_with_problems(matches);
    for value in layers.shown() {
        if matches.get_flag("origin") {
            println!("{}  # {}", value.line(), value.origin);
        } else {
            println!("{}", value.line());
        }
    }
    layers.notes().iter().for_each(|note| eprintln!("note: {note}"));
    layers.checked().map(|_| ()).map_err(Failure::from)
}
