//! `cargo xtask example`: programs to watch, on a server of their own or on one that runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::failure::{Failure, Result};
use crate::{rocksdb, server, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask example [NAME | --all] [--seconds N] [--chaos] [--clean] [--endpoint WHERE]

Runs a program that shows a scenario of the table design guide. Without a name it lists them. The last
line says which invariants held how often; the exit code is 0 only if all did.

  --all             one after the other
  --seconds N       how long each works; default 10
  --chaos           kill workers all the time, and the server (kill -9) unless --endpoint names one
  --clean           delete the tables of the run at its end
  --endpoint WHERE  an address or a connection string; default: a server on a free port, built here
  --account NAME    the account at that address; default devstoreaccount1
  --key KEY         its key; default the development key

  cargo xtask example contoso
  cargo xtask example find --seconds 60 --chaos
  cargo xtask example --all --endpoint UseDevelopmentStorage=true --clean";

/// A line for each program, its name first.
const LIST: &str = include_str!("../../examples/programs.txt");
const PROGRAM: &str = "tavola-example";

/// Each runs for so long in `cargo xtask test`.
const SHORT_SECONDS: &str = "2";

pub(crate) fn command(mut args: Args) -> Result {
    let is_all = args.flag("--all");
    let options = options(&mut args)?;
    let named = args.positional();
    args.finish()?;
    let has_endpoint = options.iter().any(|word| word == "--endpoint");
    let chosen = match (named.as_slice(), is_all) {
        ([], false) => {
            print!("{LIST}");
            return Ok(());
        }
        ([], true) => names(),
        ([name], false) => vec![known(name)?],
        _ => return Err(Failure::new("one program, or --all; see --help")),
    };
    let server = if has_endpoint { None } else { Some(server::build_quickly()?) };
    run(&chosen, &build()?, server.as_deref(), &options)
}

/// The short form of each, with kills, on the release build.
pub(crate) fn check() -> Result {
    let options = ["--chaos", "--seconds", SHORT_SECONDS].map(OsString::from);
    run(&names(), &build()?, Some(&server::build()?), &options)
}

/// What is passed on.
fn options(args: &mut Args) -> Result<Vec<OsString>> {
    let mut options = Vec::new();
    for name in ["--chaos", "--clean"] {
        options.extend(args.flag(name).then(|| name.into()));
    }
    for name in ["--seconds", "--endpoint", "--account", "--key"] {
        if let Some(value) = args.value(name)? {
            options.extend([name.into(), value.into()]);
        }
    }
    Ok(options)
}

fn names() -> Vec<&'static str> {
    LIST.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

fn known(name: &str) -> Result<&'static str> {
    let found = names().into_iter().find(|known| *known == name);
    found.ok_or_else(|| Failure::new(format!("there is no program `{name}`; these are:\n\n{LIST}")))
}

/// Builds the programs and says where they are.
pub(crate) fn build() -> Result<PathBuf> {
    rocksdb::ensure()?;
    // With the features of the whole workspace, or what `cargo test --workspace` compiled would be
    // compiled again.
    shell::run(workspace::cargo()?.args(["build", "--workspace", "--bin", PROGRAM]))?;
    Ok(workspace::target()?.join("debug").join(PROGRAM))
}

fn run(names: &[&str], program: &Path, server: Option<&Path>, options: &[OsString]) -> Result {
    let mut failed = Vec::new();
    for name in names {
        let mut command = Command::new(program);
        command.arg(name).args(options);
        if let Some(server) = server {
            command.arg("--server").arg(server);
        }
        // Its options may have a key.
        if shell::run_unsaid(&mut command).is_err() {
            failed.push(*name);
        }
        println!();
    }
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(Failure::new(format!("failed: {}", failed.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names() {
        assert!(names().contains(&"contoso") && known("find").is_ok());
        let failure = known("finder").unwrap_err().to_string();
        assert!(
            failure.contains("no program `finder`") && failure.contains("contoso"),
            "{failure}"
        );
        let words = "find --seconds=3 --chaos --key k".split(' ').map(str::to_owned);
        let mut args = Args::new(words);
        assert_eq!(options(&mut args).unwrap(), ["--chaos", "--seconds", "3", "--key", "k"]);
        assert_eq!(args.positional(), ["find"]);
        args.finish().unwrap();
    }
}
