//! `cargo xtask test`: every check that guards a merge, the same here and in CI.

use std::env;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::failure::{Failure, Result};
use crate::{
    conformance, deny, doc_snippets, fuzz, install, leaks, on_cassandra, progress, ratchet,
    rocksdb, sdk, server, shell, tidy, torture, watchdog, workspace,
};

pub(crate) const HELP: &str = "\
cargo xtask test [--only STEP,STEP] [--keep-going] [--list]

Runs every check that guards a merge; installs what is missing after saying so. The last line is
`N passed, M failed`, counting steps.

  --only STEP,STEP  these steps only
  --keep-going      do not stop at the first step that fails
  --list            list the steps";

/// Several times what the longest step takes on a busy machine: beyond it, a step hangs.
const STEP_MAX: Duration = Duration::from_secs(40 * 60);

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result,
}

/// Cheap ones first: a forgotten blank should not cost a build.
const STEPS: [Step; 16] = [
    Step { name: "prepare", about: "compilers, components, RocksDB", run: prepare },
    Step { name: "fmt", about: "cargo fmt --check", run: || cargo(&["fmt", "--all", "--check"]) },
    Step { name: "tidy", about: "dependency rules, text", run: tidy::check },
    Step { name: "deny", about: "licences, banned crates, sources", run: deny::check },
    Step { name: "clippy", about: "all lints, warnings denied", run: clippy },
    Step { name: "docs", about: "rustdoc, warnings denied", run: rustdoc },
    Step { name: "unit", about: "cargo test --workspace", run: unit },
    Step { name: "fuzz", about: "readers of bytes, coverage-guided", run: fuzz::check },
    Step { name: "release", about: "the release binary", run: || server::build().map(drop) },
    Step { name: "ratchet", about: "instructions counted, none grown", run: ratchet::check },
    Step { name: "conformance", about: "wire suite and its ledger", run: conformance::check },
    Step { name: "sdk", about: "the official SDKs", run: sdk::check },
    Step { name: "cassandra", about: "store, wire and Python on a node", run: on_cassandra::check },
    Step { name: "torture", about: "the short form of every attack", run: torture::check },
    Step { name: "leaks", about: "secrets in what was printed and answered", run: leaks::check },
    Step { name: "snippets", about: "commands in the documents", run: doc_snippets::check },
];

#[derive(Debug)]
struct Options {
    only: Vec<String>,
    keep_going: bool,
}

#[derive(Debug)]
enum Outcome {
    Passed,
    Failed(String),
    /// An earlier step failed.
    NotRun,
}

pub(crate) fn command(mut args: Args) -> Result {
    let only = args.value("--only")?;
    let only: Vec<_> =
        only.iter().flat_map(|list| list.split(',')).map(|name| name.trim().to_owned()).collect();
    let options = Options { only, keep_going: args.flag("--keep-going") };
    let list = args.flag("--list");
    args.finish()?;
    let steps = choose(&options.only)?;
    if list {
        for (index, step) in steps.iter().enumerate() {
            println!("{:>2}  {:<12} {}", index + 1, step.name, step.about);
        }
        return Ok(());
    }
    // A search alone concerns the run before.
    if steps.iter().any(|step| step.name != "leaks") {
        leaks::begin()?;
    }
    summarise(&run_steps(&steps, &options))
}

fn choose(only: &[String]) -> Result<Vec<&'static Step>> {
    if let Some(unknown) = only.iter().find(|name| !STEPS.iter().any(|step| step.name == *name)) {
        let names = STEPS.map(|step| step.name).join(", ");
        return Err(Failure::new(format!("unknown step `{unknown}`: choose from {names}")));
    }
    Ok(STEPS
        .iter()
        .filter(|step| only.is_empty() || only.iter().any(|name| name == step.name))
        .collect())
}

struct Report {
    name: &'static str,
    outcome: Outcome,
    elapsed: Duration,
}

fn run_steps(steps: &[&Step], options: &Options) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let has_failed = reports.iter().any(|report| matches!(report.outcome, Outcome::Failed(_)));
        if has_failed && !options.keep_going {
            reports.push(Report {
                name: step.name,
                outcome: Outcome::NotRun,
                elapsed: Duration::ZERO,
            });
            continue;
        }
        println!("\n[{}/{}] {}: {}", index + 1, steps.len(), step.name, step.about);
        let start = Instant::now();
        let outcome = watchdog::within(STEP_MAX, step.name, step.run);
        let outcome = match outcome {
            Ok(()) => Outcome::Passed,
            Err(failure) => Outcome::Failed(failure.to_string()),
        };
        let elapsed = start.elapsed();
        if let Outcome::Failed(reason) = &outcome {
            eprintln!("error: {reason}");
        }
        println!(
            "[{}/{}] {} took {}",
            index + 1,
            steps.len(),
            step.name,
            progress::seconds(elapsed)
        );
        reports.push(Report { name: step.name, outcome, elapsed });
    }
    reports
}

fn summarise(reports: &[Report]) -> Result {
    println!();
    for report in reports {
        println!(
            "{:<12} {:>12}  {}",
            report.name,
            progress::seconds(report.elapsed),
            describe(&report.outcome)
        );
    }
    let total = reports.iter().map(|report| report.elapsed).sum();
    println!("{:<12} {:>12}\n", "total", progress::seconds(total));
    let count =
        |is: fn(&Outcome) -> bool| reports.iter().filter(|report| is(&report.outcome)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    println!("{passed} passed, {failed} failed");
    // The table and the line above say it all; a message of our own would be the last line instead.
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed => "passed".into(),
        Outcome::Failed(reason) => format!("FAILED: {}", reason.lines().next().unwrap_or_default()),
        Outcome::NotRun => "not run".into(),
    }
}

fn prepare() -> Result {
    ensure_component("fmt", "rustfmt")?;
    ensure_component("clippy", "clippy")?;
    rocksdb::ensure()
}

/// A minimal toolchain comes without them.
fn ensure_component(subcommand: &str, component: &str) -> Result {
    let mut probe = shell::cargo();
    let status =
        probe.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    if !shell::has_program("rustup") {
        return Err(Failure::new(format!(
            "`cargo {subcommand}` is missing: install {component} for your toolchain"
        )));
    }
    println!("Installing the Rust component {component}");
    shell::run(Command::new("rustup").args(["component", "add", component]))
}

fn cargo(arguments: &[&str]) -> Result {
    shell::run(workspace::cargo()?.args(arguments))
}

/// Panics are part of the output, so all of it is kept for the search.
fn unit() -> Result {
    install::ensure(&["logrotate"], "the test of rotated logs", || {
        shell::has_program("logrotate")
    })?;
    let output = leaks::folder()?.join("output-unit");
    let mut cargo = workspace::cargo()?;
    cargo.args(["test", "--workspace"]).env(leaks::VARIABLE, leaks::folder()?);
    shell::run_recorded(&mut cargo, &output)
}

fn clippy() -> Result {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn rustdoc() -> Result {
    let flags = env::var("RUSTDOCFLAGS").unwrap_or_default();
    let mut cargo = workspace::cargo()?;
    cargo
        .args(["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", format!("{flags} -D warnings"));
    shell::run(&mut cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name_in_their_own_order() {
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            choose(&only).map(|steps| steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["tidy", "fmt"]).unwrap(), ["fmt", "tidy"]);
        assert_eq!(names(&[]).unwrap().len(), STEPS.len());
        assert!(names(&["typo"]).is_err());
    }

    const FAILING: Step = Step { name: "bad", about: "", run: || Err("broken".into()) };
    const GOOD: Step = Step { name: "good", about: "", run: || Ok(()) };

    fn outcomes(keep_going: bool) -> Vec<&'static str> {
        let options = Options { only: Vec::new(), keep_going };
        let reports = run_steps(&[&GOOD, &FAILING, &GOOD], &options);
        reports
            .iter()
            .map(|report| match report.outcome {
                Outcome::Passed => "passed",
                Outcome::Failed(_) => "failed",
                Outcome::NotRun => "not run",
            })
            .collect()
    }

    #[test]
    fn the_first_failure_stops_unless_told_otherwise() {
        assert_eq!(outcomes(false), ["passed", "failed", "not run"]);
        assert_eq!(outcomes(true), ["passed", "failed", "passed"]);
    }
}
