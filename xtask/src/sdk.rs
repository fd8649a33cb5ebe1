//! `cargo xtask sdk`: the official SDKs against our release build.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::args::Args;
use crate::failure::{Context, Failure, Result};
use crate::secured::{self, SecuredServer};
use crate::server::{self, Endpoint, Server};
use crate::toolchain::Language;
use crate::{cache, progress, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask sdk [python] [js] [go] [java]

Runs the SDK suites under tests/sdk (default: all) against our release build on a free port. Each
suite is tests/sdk/<language>/run.sh: it reads TAVOLA_ENDPOINT, TAVOLA_ACCOUNT, TAVOLA_KEY,
TAVOLA_CACHE and the variables of a second server with https and tokens (see tests/sdk/README.md),
and ends with the line `N passed, M failed`. A language that cannot be installed is skipped with its
reason; with CI set that is a failure.";

pub(crate) fn command(mut args: Args) -> Result {
    let names = args.positional();
    args.finish()?;
    let chosen = names.iter().map(|name| Language::parse(name)).collect::<Result<Vec<_>>>()?;
    run(if chosen.is_empty() { &Language::ALL } else { &chosen })
}

/// The check that guards a merge: all languages.
pub(crate) fn check() -> Result {
    run(&Language::ALL)
}

const RUST_CLIENT: &str = "every_type";

/// So many suites run at the same time: each waits for its server for about half of its time.
const SUITES_AT_A_TIME: usize = 2;

fn run(languages: &[Language]) -> Result {
    let (binary, issuer) = (server::build()?, secured::build_issuer()?);
    let programs = Programs { binary, issuer, rust_client: build_rust_client()? };
    let show = if languages.len() == 1 { Show::AsItComes } else { Show::AtTheEnd };
    let (left, results) = (Mutex::new(languages.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().ok()?.next();
    let worker = || -> Result {
        while let Some(language) = next() {
            let result = run_language(*language, show, &programs)?;
            results.lock().map_err(|_| "a suite panicked")?.push(result);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..SUITES_AT_A_TIME).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ended.into_iter().try_for_each(|ended| ended.map_err(|_| "a suite panicked")?)
    })?;
    summarise(&results.into_inner().map_err(|_| "a suite panicked")?)
}

/// When the output of a suite is shown: in one piece if another one runs at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    AsItComes,
    AtTheEnd,
}

type LanguageResult = (&'static str, Outcome, String);

/// What the suites start.
struct Programs {
    binary: PathBuf,
    issuer: PathBuf,
    rust_client: PathBuf,
}

/// The program of the Rust client that writes what other libraries read.
pub(crate) fn build_rust_client() -> Result<PathBuf> {
    // With the features of the whole workspace, as the other programs of the tests.
    shell::run(workspace::cargo()?.args(["build", "--workspace", "--example", RUST_CLIENT]))?;
    Ok(workspace::target()?.join("debug/examples").join(RUST_CLIENT))
}

/// On a server of its own: no language can lean on, or trip over, what another left behind.
fn run_language(language: Language, show: Show, programs: &Programs) -> Result<LanguageResult> {
    let Programs { binary, issuer, rust_client } = programs;
    let purpose = format!("sdk-{}", language.name());
    let server = Server::start(binary, &purpose)?;
    let secured = SecuredServer::start(binary, issuer, &purpose)?;
    let start = Instant::now();
    let outcome = run_suite(language, show, |suite| {
        server.endpoint.set_variables(suite);
        secured.set_variables(suite.env("TAVOLA_BINARY", binary));
        suite.env("TAVOLA_RUST_CLIENT", rust_client);
    });
    Ok((language.name(), outcome, progress::seconds(start.elapsed())))
}

/// Installs the toolchain and the packages of a suite, if they are missing.
pub(crate) fn install(language: Language) -> Result {
    let mut command = Command::new("bash");
    command.arg("run.sh").env("PATH", language.ensure()?).env("TAVOLA_INSTALL_ONLY", "1");
    command.env("TAVOLA_CACHE", cache::root()?).current_dir(folder(language)?);
    shell::run(&mut command)
}

fn folder(language: Language) -> Result<PathBuf> {
    Ok(workspace::root()?.join("tests/sdk").join(language.name()))
}

#[derive(Debug)]
enum Outcome {
    Ran(Counts),
    Skipped(String),
    Failed(String),
}

/// The numbers of a suite's last line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u32,
    failed: u32,
    skipped: u32,
}

pub(crate) fn run_python(endpoint: &Endpoint) -> Result {
    match run_suite(Language::Python, Show::AsItComes, |suite| endpoint.set_variables(suite)) {
        Outcome::Ran(counts) if counts.failed == 0 => Ok(()),
        other => Err(Failure::new(format!("the Python suite: {other:?}"))),
    }
}

fn run_suite(language: Language, show: Show, set_variables: impl FnOnce(&mut Command)) -> Outcome {
    let path = match language.ensure() {
        Ok(path) => path,
        Err(failure) => return Outcome::Skipped(failure.to_string()),
    };
    let mut command = Command::new("bash");
    command.arg("run.sh").env("PATH", path);
    set_variables(&mut command);
    run_script(&mut command, language, show)
        .unwrap_or_else(|failure| Outcome::Failed(failure.to_string()))
}

fn run_script(command: &mut Command, language: Language, show: Show) -> Result<Outcome> {
    command.env("TAVOLA_CACHE", cache::root()?).current_dir(folder(language)?);
    let (is_success, text) = run_showing(command, show, language)?;
    let last_line = text.lines().next_back().unwrap_or_default();
    Ok(match parse_counts(last_line) {
        Some(counts) if is_success || counts.failed > 0 => Outcome::Ran(counts),
        Some(_) => {
            Outcome::Failed("run.sh says that all passed, but its exit code does not".into())
        }
        None => Outcome::Failed(format!(
            "the last line of run.sh is not `N passed, M failed` but `{last_line}`"
        )),
    })
}

/// Gives whether it succeeded, and what it wrote.
fn run_showing(command: &mut Command, show: Show, language: Language) -> Result<(bool, String)> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.context(|| "cannot run run.sh".into())?;
    let stdout = child.stdout.take().ok_or("no output of run.sh")?;
    let mut text = format!("\n== {} ==\n", language.name());
    if show == Show::AsItComes {
        print!("{text}");
    }
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context(|| "output of run.sh".into())?;
        let line = String::from_utf8_lossy(&line);
        if show == Show::AsItComes {
            println!("{line}");
        }
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().context(|| "end of run.sh".into())?;
    if show == Show::AtTheEnd {
        print!("{text}");
    }
    Ok((status.success(), text))
}

/// `12 passed, 0 failed` or `12 passed, 0 failed, 3 skipped`.
fn parse_counts(line: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    let mut seen = 0;
    for part in line.trim().split(", ") {
        let (number, word) = part.split_once(' ')?;
        let place = match word {
            "passed" => &mut counts.passed,
            "failed" => &mut counts.failed,
            "skipped" => &mut counts.skipped,
            _ => return None,
        };
        *place = number.parse().ok()?;
        seen += 1;
    }
    (seen >= 2).then_some(counts)
}

fn summarise(results: &[(&str, Outcome, String)]) -> Result {
    println!();
    let mut bad = Vec::new();
    for (name, outcome, elapsed) in results {
        println!("{name:<8} {:<60} {elapsed}", describe(outcome));
        if is_bad(outcome, workspace::is_ci()) {
            bad.push(*name);
        }
    }
    if bad.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("SDK suites that did not pass: {}", bad.join(", "))))
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ran(counts) => {
            format!(
                "{} passed, {} failed, {} skipped",
                counts.passed, counts.failed, counts.skipped
            )
        }
        Outcome::Skipped(reason) => format!("skipped: {reason}"),
        Outcome::Failed(reason) => format!("failed: {reason}"),
    }
}

/// A language that cannot be had is a fact of a user's machine, but a hole in CI. So is a case that
/// a suite skips.
fn is_bad(outcome: &Outcome, is_ci: bool) -> bool {
    match outcome {
        Outcome::Ran(counts) => {
            counts.failed > 0 || counts.passed == 0 || (is_ci && counts.skipped > 0)
        }
        Outcome::Skipped(_) => is_ci,
        Outcome::Failed(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_understood() {
        assert_eq!(
            parse_counts("12 passed, 1 failed"),
            Some(Counts { passed: 12, failed: 1, skipped: 0 })
        );
        assert_eq!(
            parse_counts("2 passed, 0 failed, 3 skipped"),
            Some(Counts { passed: 2, failed: 0, skipped: 3 })
        );
        for line in ["", "12 passed", "all good", "x passed, 0 failed", "1 passed, 2 broken"] {
            assert_eq!(parse_counts(line), None, "{line}");
        }
    }

    #[test]
    fn a_skip_is_a_failure_in_ci_only() {
        let skipped = Outcome::Skipped("no java".into());
        assert!(is_bad(&skipped, true));
        assert!(!is_bad(&skipped, false));
    }

    #[test]
    fn a_suite_that_ran_nothing_did_not_pass() {
        assert!(is_bad(&Outcome::Ran(Counts::default()), false));
    }
}
