//! What the client library promises: its public API as a list in the repository, so that a change
//! is seen where it is reviewed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::failure::{Context, Failure, Result};
use crate::tool::Tool;
use crate::{cache, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask public-api [--update]

Lists the public API of tavola-client with all its features and compares it with
crates/tavola-client/public-api.txt. Fails on a difference, and if a type of tavola-core or
tavola-protocol is in it. Needs a nightly compiler; without one it says so and does nothing.

  --update  store the list; the commit message then says what changed";

/// Reads what rustdoc of the nightly compilers of spring 2026 writes.
const TOOL: Tool = Tool { name: "cargo-public-api", version: "0.52.0" };
const PACKAGE: &str = "tavola-client";
const FILE: &str = "crates/tavola-client/public-api.txt";
/// Crates whose types may change in any release.
const INTERNAL: [&str; 2] = ["tavola_core::", "tavola_protocol::"];
/// So many lines of a difference are shown.
const SHOWN_MAX: usize = 40;

pub(crate) fn command(mut args: Args) -> Result {
    let update = args.flag("--update");
    args.finish()?;
    let Some(listed) = list()? else { return Ok(()) };
    refuse_internal_types(&listed)?;
    let file = workspace::root()?.join(FILE);
    if update {
        return cache::write_if_changed(&file, &listed);
    }
    compare(&file, &listed)
}

/// The check that guards a merge.
pub(crate) fn check() -> Result {
    command(Args::new([]))
}

/// One item a line; `None` if there is no compiler that can list them.
fn list() -> Result<Option<String>> {
    let mut nightly = Command::new("rustup");
    nightly.args(["run", "nightly", "rustc", "--version"]).stderr(Stdio::null());
    if !nightly.stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("There is no nightly compiler here; the public API is not compared");
        return Ok(None);
    }
    let mut command = Command::new(TOOL.ensure()?);
    // It writes beside the output of other compilers, and takes no lock of theirs.
    let target = workspace::target()?.join("public-api");
    command
        .current_dir(workspace::root()?)
        .args(["public-api", "--package", PACKAGE, "--all-features", "-sss", "--color=never"])
        .env("CARGO_TARGET_DIR", &target);
    shell::output(&mut command).map(Some)
}

fn refuse_internal_types(listed: &str) -> Result {
    let is_internal = |line: &&str| INTERNAL.iter().any(|name| line.contains(name));
    let found: Vec<_> = listed.lines().filter(is_internal).collect();
    if found.is_empty() {
        return Ok(());
    }
    let count = found.len();
    Err(Failure::new(format!(
        "{count} public items show types of internal crates, which change in any release:\n{}",
        shown(&found)
    )))
}

fn compare(file: &Path, listed: &str) -> Result {
    let stored = fs::read_to_string(file).context(|| format!("cannot read {}", file.display()))?;
    let difference = difference(&stored, listed);
    if difference.is_empty() {
        println!("{} public items, as in {FILE}", listed.lines().count());
        return Ok(());
    }
    let lines: Vec<_> = difference.iter().map(String::as_str).collect();
    Err(Failure::new(format!(
        "the public API of {PACKAGE} is not the one of {FILE}:\n{}\n\
         If that is meant: cargo xtask public-api --update",
        shown(&lines)
    )))
}

/// The lines of one list that the other has not: the order of a list says nothing.
fn difference(stored: &str, listed: &str) -> Vec<String> {
    let only = |one: &str, other: &str, sign: char| -> Vec<String> {
        let other: std::collections::HashSet<_> = other.lines().collect();
        let only = one.lines().filter(|line| !other.contains(line));
        only.map(|line| format!("{sign} {line}")).collect()
    };
    [only(stored, listed, '-'), only(listed, stored, '+')].concat()
}

fn shown(lines: &[&str]) -> String {
    let mut text = lines.iter().take(SHOWN_MAX).copied().collect::<Vec<_>>().join("\n");
    if lines.len() > SHOWN_MAX {
        text.push_str(&format!("\nand {} more", lines.len() - SHOWN_MAX));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_line_by_line() {
        assert!(difference("pub a\npub b\n", "pub a\npub b\n").is_empty());
        assert_eq!(difference("pub a\npub b\n", "pub c\npub a\n"), ["- pub b", "+ pub c"]);
        let many: Vec<_> = (0..50).map(|_| "pub x").collect();
        assert!(shown(&many).ends_with("and 10 more"));
    }

    #[test]
    fn types_of_internal_crates_are_refused() {
        assert!(refuse_internal_types("pub fn a() -> tavola_client::Error\n").is_ok());
        let failure = refuse_internal_types("pub fn a() -> tavola_core::Filter\n").unwrap_err();
        assert!(failure.to_string().contains("tavola_core::Filter"));
    }
}
