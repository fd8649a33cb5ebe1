//! `cargo xtask azurite`: the client library against Microsoft's emulator.

use std::path::PathBuf;
use std::process::Command;

use crate::args::Args;
use crate::failure::{Failure, Result};
use crate::server::{self, Process, ScratchFolder};
use crate::toolchain::Language;
use crate::{cache, rocksdb, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask azurite [-- arguments of the suite]

Installs Azurite from npm, starts it on a free port, and runs the cases of the client suite
(crates/tavola/tests/client_suite) on it; `cargo test -p tavola --test client_suite` runs the same
cases on our own server. Where Azurite differs, a case asserts what it does instead, and
COMPATIBILITY.md says why. Without npm it is skipped; with CI set that is a failure.";

/// Whose differences the suite knows.
const VERSION: &str = "3.37.0";

pub(crate) fn command(mut args: Args) -> Result {
    run(&args.passed_through())
}

/// The check that guards a merge.
pub(crate) fn check() -> Result {
    run(&[])
}

/// What later steps need, while earlier ones compile.
pub(crate) fn fetch() -> Result {
    install().map(drop)
}

fn run(arguments: &[String]) -> Result {
    let azurite = match install() {
        Ok(azurite) => azurite,
        Err(failure) if !workspace::is_ci() => {
            println!("skipped: {failure}");
            return Ok(());
        }
        Err(failure) => return Err(failure),
    };
    let folder = ScratchFolder::new("azurite")?;
    let mut command = Command::new(azurite);
    command.env("PATH", Language::Js.ensure()?);
    command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
    command
        .args(["--tablePort", &server::free_port()?.to_string(), "--location"])
        .arg(&folder.path);
    let process = Process::start(&mut command, &server::log("azurite")?, listening_address)?;
    let endpoint = format!("http://{}/{}", process.address, server::ACCOUNT);
    println!("Azurite {VERSION} at {endpoint}");
    rocksdb::ensure()?;
    let mut cargo = workspace::cargo()?;
    cargo.args(["test", "--package", "tavola", "--test", "client_suite", "--", "azurite"]);
    shell::run(cargo.args(arguments).env("TAVOLA_AZURITE", endpoint))
}

/// Installs it unless it is there; gives its program.
fn install() -> Result<PathBuf> {
    let path = Language::Js.ensure()?;
    let folder = cache::root()?.join(format!("azurite-{VERSION}"));
    let program = folder.join("node_modules/.bin/azurite-table");
    if program.exists() {
        return Ok(program);
    }
    println!("Installing azurite {VERSION} from npm into {}", folder.display());
    cache::create(&folder)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
    shell::run(npm.arg(format!("azurite@{VERSION}")).env("PATH", path).current_dir(&folder))?;
    if program.exists() {
        return Ok(program);
    }
    Err(Failure::new(format!("npm installed no {}", program.display())))
}

fn listening_address(line: &str) -> Option<&str> {
    let (_, address) = line.split_once("successfully started on ")?;
    let address = address.trim_start_matches("http://");
    address.split(['/', ' ']).next()
}

#[cfg(test)]
mod tests {
    use super::listening_address;

    #[test]
    fn its_address_is_found() {
        for line in [
            "Azurite Table service successfully started on 127.0.0.1:4013",
            "Azurite Table service successfully started on http://127.0.0.1:4013/ now",
        ] {
            assert_eq!(listening_address(line), Some("127.0.0.1:4013"));
        }
        assert_eq!(listening_address("Azurite Table service is starting on 127.0.0.1:1"), None);
    }
}
