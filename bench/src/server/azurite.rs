//! Microsoft's emulator, newest from npm, as a user would run it.
//!
//! It keeps tables in memory and writes them out now and then, so its inserts are not durable; ours
//! are.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::BenchServer;
use crate::folders;
use tavola_load::{Context, Failure, Result};

#[derive(Debug)]
pub(crate) struct Azurite {
    program: PathBuf,
    version: String,
}

impl Azurite {
    /// Installs it from npm unless it is there.
    pub(crate) fn install() -> Result<Self> {
        let folder = folders::cache("azurite")?;
        let modules = folder.join("node_modules");
        let program = modules.join(".bin/azurite-table");
        if !program.exists() {
            eprintln!("Installing azurite from npm into {}", folder.display());
            npm_install(&folder)?;
        }
        let manifest = modules.join("azurite/package.json");
        let text = fs::read_to_string(&manifest)
            .context(|| format!("cannot read {}", manifest.display()))?;
        let manifest: Value =
            serde_json::from_str(&text).context(|| "azurite's package.json".into())?;
        let version =
            format!("{} on node {}", manifest["version"].as_str().unwrap_or("?"), node_version()?);
        Ok(Self { program, version })
    }
}

fn npm_install(folder: &Path) -> Result {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--prefix"])
        .arg(folder)
        .arg("azurite")
        .current_dir(folder);
    let status = npm.status().context(|| "cannot run npm (Debian package `npm`)".into())?;
    if status.success() { Ok(()) } else { Err(Failure::new("npm could not install azurite")) }
}

fn node_version() -> Result<String> {
    let output =
        Command::new("node").arg("--version").output().context(|| "cannot run node".into())?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().trim_start_matches('v').to_owned())
}

impl BenchServer for Azurite {
    fn name(&self) -> &'static str {
        "azurite"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn command(&self, folder: &Path) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--tablePort"]);
        command.arg(free_port()?.to_string()).arg("--location").arg(folder);
        Ok(command)
    }

    fn listening_words(&self) -> &'static str {
        "successfully started on "
    }

    fn metrics_words(&self) -> Option<&'static str> {
        None
    }
}

/// A port that was free a moment ago: azurite does not print the one that it gets for port 0.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context(|| "no free port".into())?;
    Ok(listener.local_addr().context(|| "no free port".into())?.port())
}
