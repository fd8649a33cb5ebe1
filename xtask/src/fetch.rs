//! Gets from the network what later steps need, while earlier ones compile.

use crate::failure::Result;
use crate::toolchain::Language;
use crate::{azurite, cassandra, sdk};

/// Passes whatever happens: a step that needs what could not be had asks for it again, and knows
/// whether it can do without.
pub(crate) fn check() -> Result {
    for language in Language::ALL {
        note(language.name(), sdk::install(language));
    }
    note("Azurite", azurite::fetch());
    note("Cassandra", cassandra::fetch());
    Ok(())
}

fn note(what: &str, fetched: Result) {
    match fetched {
        Ok(()) => println!("{what}: there"),
        Err(failure) => println!("{what}: not now ({failure})"),
    }
}
