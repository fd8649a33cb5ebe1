//! Where things are: the clone, its build output, and what cargo knows about its packages.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{Context, Failure, Result};
use crate::{cache, shell};

/// The root of the clone, from cargo's own variable: never from where this program was compiled,
/// which CI shares.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    match manifest.as_deref().and_then(Path::parent) {
        Some(root) => Ok(root.to_owned()),
        None => env::current_dir().context(|| "current folder".into()),
    }
}

/// Whether CI runs us: nothing may be skipped, and build output outlives the clone.
pub(crate) fn is_ci() -> bool {
    env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// The folder of build output: `$CARGO_TARGET_DIR`; in CI a folder of the cache, as each clone is
/// new; else `target`.
pub(crate) fn target() -> Result<PathBuf> {
    let root = root()?;
    Ok(match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None if is_ci() => cache::root()?.join("target"),
        None => root.join("target"),
    })
}

/// Cargo in the root of the clone.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = shell::cargo();
    command.current_dir(root()?);
    if is_ci() {
        command.env("CARGO_TARGET_DIR", target()?);
    }
    Ok(command)
}

/// `cargo metadata` of the clone, for this machine only: foreign platforms would have to be
/// downloaded.
pub(crate) fn metadata(extra: &[&str]) -> Result<Value> {
    let host = host()?;
    let arguments = ["metadata", "--format-version", "1", "--filter-platform", &host];
    let text = shell::output(cargo()?.args(arguments).args(extra))?;
    serde_json::from_str(&text).context(|| "cargo metadata".into())
}

/// The folder and version of one package in the metadata.
pub(crate) fn package(metadata: &Value, name: &str) -> Result<(PathBuf, String)> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let package = packages.iter().find(|package| package["name"] == name);
    let found = package.and_then(|package| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        Some((manifest.parent()?.to_owned(), package["version"].as_str()?.to_owned()))
    });
    found.ok_or_else(|| Failure::new(format!("cargo metadata knows no package `{name}`")))
}

fn host() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = shell::output(Command::new(rustc).arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("`rustc -vV` names no host")?.to_owned())
}
