//! Rivals that are Debian packages.

use std::process::Command;

use tavola_load::{Context, Failure, Result};

/// Installs a package unless what it brings is there.
pub(crate) fn install(package: &str, is_there: impl Fn() -> bool) -> Result {
    if is_there() {
        return Ok(());
    }
    eprintln!("Installing the Debian package {package}");
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--yes", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive");
    let status = apt.status().context(|| "cannot run apt-get".into())?;
    if status.success() && is_there() {
        Ok(())
    } else {
        Err(Failure::new(format!("cannot install {package}")))
    }
}
