//! Debian packages: asks what is missing, says so, installs it.

use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};
use crate::{cache, shell};

/// Makes sure that packages are there. `is_present` decides, so that a compiler from elsewhere is
/// as good as Debian's.
pub(crate) fn ensure(packages: &[&str], purpose: &str, is_present: impl Fn() -> bool) -> Result {
    if is_present() {
        return Ok(());
    }
    let wanted = packages.join(" ");
    if !shell::has_program("apt-get") {
        return Err(Failure::new(format!(
            "{purpose} needs the Debian packages `{wanted}` (or their like), and there is no apt-get here: install them by \
             hand and try again"
        )));
    }
    // Steps that run beside each other may want the same package.
    let lock = cache::root()?.join("debian.lock");
    let _lock = cache::lock(&lock, "Another process installs Debian packages")?;
    if is_present() {
        return Ok(());
    }
    println!("Installing Debian packages: {wanted} ({purpose})");
    install(packages)?;
    if is_present() {
        return Ok(());
    }
    Err(Failure::new(format!("{purpose}: still missing after installing `{wanted}`")))
}

fn install(packages: &[&str]) -> Result {
    let options = ["install", "-y", "--no-install-recommends"];
    if shell::run(apt_get()?.args(options).args(packages)).is_ok() {
        return Ok(());
    }
    // A fresh image has no package lists, and old lists name files that are gone.
    println!("Reading the package lists first, then once more");
    shell::run(apt_get()?.arg("update"))?;
    shell::run(apt_get()?.args(options).args(packages))
}

fn apt_get() -> Result<Command> {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else if shell::has_program("sudo") {
        let mut sudo = Command::new("sudo");
        sudo.arg("apt-get");
        sudo
    } else {
        return Err(Failure::new(
            "apt-get needs root, and there is no sudo here: run this command as root once",
        ));
    };
    command.args(["-q", "-o", "Dpkg::Use-Pty=0"]).env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
