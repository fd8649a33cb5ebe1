//! `cargo xtask test`: every check that guards a merge, the same here and in CI.
//!
//! Each step runs in a process of its own, this program started again: the output of one that runs
//! beside others can be kept until there is room to show it, and a step that hangs is ended without
//! the others.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::failure::{Context, Failure, Result};
use crate::schedule::{self, Event, Lane, Order, Outcome, Report, Step};
use crate::{
    azurite, cache, conformance, deny, doc_snippets, example, fetch, fuzz, install, leaks,
    on_cassandra, progress, public_api, ratchet, rocksdb, sdk, secured, server, shell, tidy,
    torture, watchdog, workspace,
};

pub(crate) const HELP: &str = "\
cargo xtask test [--only STEP,STEP] [--keep-going] [--list]

Runs every check that guards a merge; installs what is missing after saying so. Some steps run
beside others: --list says which. The last line is `N passed, M failed`, counting steps.

  --only STEP,STEP  these steps only
  --keep-going      do not stop at the first step that fails
  --list            list the steps, what each may run beside, and why";

/// Several times what the longest step takes on a busy machine: beyond it, a step hangs.
const STEP_MAX: Duration = Duration::from_secs(40 * 60);

/// The plan. Cheap steps come first: a forgotten blank should not cost a build. Cargo locks the
/// build output of a profile, so that two steps which compile debug builds cannot gain anything
/// beside each other; one that compiles debug builds and one that compiles releases can.
const STEPS: [Step; 22] = [
    Step::front("prepare", "compilers, components, RocksDB", prepare),
    Step::front("fetch", "SDK packages, Azurite, Cassandra", fetch::check).beside(
        Lane::Network,
        "it waits for the network most of the time and takes no lock of cargo's build output",
    ),
    Step::front("fmt", "cargo fmt --check", || cargo(&["fmt", "--all", "--check"])),
    Step::front("tidy", "dependency rules, text", tidy::check),
    Step::front("deny", "licences, banned crates, sources", deny::check).beside(
        Lane::Side,
        "it waits for the network; its tool is compiled in a folder of its own, once",
    ),
    Step::front("release", "the release binaries", release)
        .beside(
            Lane::Side,
            "its last link takes minutes on one core, and the lock of release builds is its own",
        )
        .after(&[("tidy", "RocksDB must be there, and what is cheap to check comes first")]),
    Step::front("clippy", "all lints, warnings denied", clippy),
    Step::front("docs", "rustdoc, warnings denied", rustdoc),
    Step::front("public-api", "the client's public API, as listed", public_api::check),
    Step::front("build", "the tests of the workspace, not run", build_tests),
    Step::front("unit", "cargo test --workspace", unit)
        .after(&[("release", "tests have deadlines, and a link would take half of the machine")]),
    Step::front(
        "programs",
        "wire suite, issuer, torture, examples, a server with defects",
        programs,
    )
    .beside(Lane::Side, "fuzzing takes a fixed time, whatever runs beside it")
    .after(&[("unit", "both use the lock of debug builds")]),
    Step::front("ratchet", "instructions counted, none grown", ratchet::check)
        .beside(Lane::Side, "it counts instructions, not time, on one core")
        .after(&[("release", "it counts what was built there")]),
    Step::front("fuzz", "readers of bytes, coverage-guided", fuzz::check),
    Step::front("conformance", "wire suite and its ledger", conformance::check)
        .after(&[("programs", "it runs what was built there")]),
    Step::front("sdk", "the official SDKs", sdk::check)
        .after(&[("fetch", "it uses what was fetched")]),
    Step::front("azurite", "the client library on Azurite", azurite::check)
        .after(&[("fetch", "it uses what was fetched")]),
    Step::front("snippets", "commands in the documents", doc_snippets::check)
        .beside(Lane::Side, "its commands run one by one and most of them wait for a reply")
        .after(&[("fetch", "Python snippets use the SDK")]),
    Step::front("examples", "programs to watch, a few seconds each", example::check)
        .after(&[("programs", "it runs what was built there")]),
    Step::front("cassandra", "store, wire and Python on a node", on_cassandra::check)
        .after(&[("ratchet", "a node that lacks a core misses the deadlines of its clients")]),
    Step::front("torture", "the short form of every attack", torture::check)
        .after(&[("snippets", "it measures latencies under load, so that it runs alone")]),
    Step::front("leaks", "secrets in what was printed and answered", leaks::check),
];

#[derive(Debug)]
struct Options {
    only: Vec<String>,
    keep_going: bool,
}

pub(crate) fn command(mut args: Args) -> Result {
    if let Some(step) = args.value("--step")? {
        let reason = args.value("--reason")?.ok_or("--step needs --reason")?;
        args.finish()?;
        return run_here(&step, Path::new(&reason));
    }
    let only = args.value("--only")?;
    let only: Vec<_> =
        only.iter().flat_map(|list| list.split(',')).map(|name| name.trim().to_owned()).collect();
    let options = Options { only, keep_going: args.flag("--keep-going") };
    let is_list = args.flag("--list");
    args.finish()?;
    let steps = choose(&options.only)?;
    if is_list {
        list(&steps);
        return Ok(());
    }
    // A search alone concerns the run before.
    if steps.iter().any(|step| step.name != "leaks") {
        leaks::begin()?;
    }
    let start = Instant::now();
    let reports = run_steps(&steps, &options)?;
    summarise(&reports, start.elapsed())
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

fn list(steps: &[&Step]) {
    let order = Order::new(&STEPS);
    for (index, step) in steps.iter().enumerate() {
        println!("{:>2}  {:<12} {}", index + 1, step.name, step.about);
        let beside = beside(step, steps, &order);
        if step.lane != Lane::Front && !beside.is_empty() {
            println!("{:>17}may run beside {}: {}", "", beside.join(", "), step.beside);
        }
        for (other, why) in step.after {
            println!("{:>17}after {other}: {why}", "");
        }
    }
}

/// Those of the steps that may run at the same time as one of them.
fn beside(step: &Step, steps: &[&Step], order: &Order) -> Vec<&'static str> {
    let others = steps.iter().filter(|other| order.allows_beside(step.name, other.name));
    others.map(|other| other.name).collect()
}

fn run_steps(steps: &[&Step], options: &Options) -> Result<Vec<Report>> {
    let order = Order::new(&STEPS);
    let runner = Runner::new()?;
    let is_shown = |step: &Step| step.lane == Lane::Front || beside(step, steps, &order).is_empty();
    let execute = |step: &Step| runner.run(step, is_shown(step));
    let mut terminal = Terminal::new(steps, &is_shown, &runner);
    let tell = |event: Event<'_>| terminal.tell(event);
    Ok(schedule::run(steps, &order, options.keep_going, execute, tell))
}

/// Starts this program again for each step.
#[derive(Debug)]
struct Runner {
    folder: PathBuf,
    program: PathBuf,
}

impl Runner {
    fn new() -> Result<Self> {
        let folder = workspace::target()?.join("test-steps");
        cache::remove_folder(&folder)?;
        cache::create(&folder)?;
        // A copy: the steps compile the workspace, of which this program is a part.
        let program = folder.join("xtask");
        let this = env::current_exe().context(|| "this program".into())?;
        fs::copy(&this, &program).context(|| format!("cannot copy {}", this.display()))?;
        Ok(Self { folder, program })
    }

    /// Where the output of a step is kept that is not shown while it runs.
    fn output(&self, step: &Step) -> PathBuf {
        self.folder.join(format!("{}.log", step.name))
    }

    fn run(&self, step: &Step, is_shown: bool) -> Result {
        let reason = self.folder.join(format!("{}.reason", step.name));
        let mut command = Command::new(&self.program);
        command.args(["test", "--step", step.name, "--reason"]).arg(&reason);
        if !is_shown {
            let file = self.output(step);
            let cannot_write = || format!("cannot write {}", file.display());
            let output = File::create(&file).context(cannot_write)?;
            let errors = output.try_clone().context(cannot_write)?;
            command.stdin(Stdio::null()).stdout(output).stderr(errors);
        }
        let status = command.status().context(|| "cannot start this program again".into())?;
        if status.success() {
            return Ok(());
        }
        // A step that had to be ended leaves no reason.
        let reason = fs::read_to_string(&reason).ok();
        Err(Failure::new(reason.unwrap_or_else(|| format!("it ended with {status}"))))
    }
}

/// The process of one step.
fn run_here(name: &str, reason: &Path) -> Result {
    let step = STEPS.iter().find(|step| step.name == name);
    let step = step.ok_or_else(|| Failure::new(format!("unknown step `{name}`")))?;
    let outcome = watchdog::within(STEP_MAX, step.name, step.run);
    if let Err(failure) = &outcome {
        fs::write(reason, failure.to_string())
            .context(|| format!("cannot write {}", reason.display()))?;
    }
    outcome
}

/// What the person at the terminal is told. The output of a step that runs beside others appears
/// as a whole, when no step is shown that it could interrupt.
struct Terminal<'a> {
    steps: &'a [&'a Step],
    is_shown: &'a dyn Fn(&Step) -> bool,
    runner: &'a Runner,
    shown_now: usize,
    kept: Vec<&'static str>,
}

impl<'a> Terminal<'a> {
    fn new(steps: &'a [&'a Step], is_shown: &'a dyn Fn(&Step) -> bool, runner: &'a Runner) -> Self {
        Self { steps, is_shown, runner, shown_now: 0, kept: Vec::new() }
    }

    fn tell(&mut self, event: Event<'_>) {
        match event {
            Event::Began(step) if (self.is_shown)(step) => {
                self.shown_now += 1;
                println!("\n{} {}: {}", self.number(step), step.name, step.about);
            }
            Event::Began(step) => {
                let file = self.runner.output(step);
                println!(
                    "{} {} begins; its output: {}",
                    self.number(step),
                    step.name,
                    file.display()
                );
            }
            Event::Ended(step, report) => self.tell_end(step, report),
        }
    }

    fn tell_end(&mut self, step: &Step, report: &Report) {
        if (self.is_shown)(step) {
            self.shown_now -= 1;
        } else {
            self.kept.push(step.name);
        }
        if let Outcome::Failed(reason) = &report.outcome {
            // Its own output has the whole of it.
            eprintln!("error: {}: {}", step.name, first_line(reason));
        }
        let elapsed = progress::seconds(report.elapsed);
        println!("{} {} took {elapsed}{}", self.number(step), step.name, describe_beside(report));
        if self.shown_now == 0 {
            self.show_kept();
        }
    }

    fn show_kept(&mut self) {
        for name in self.kept.drain(..) {
            let step = self.steps.iter().find(|step| step.name == name);
            let output = step.map(|step| fs::read(self.runner.output(step)).unwrap_or_default());
            println!("\n----- output of {name}");
            print!("{}", String::from_utf8_lossy(&output.unwrap_or_default()));
            println!("----- end of {name}");
        }
    }

    /// `[3/20]`
    fn number(&self, step: &Step) -> String {
        let index = self.steps.iter().position(|other| other.name == step.name).unwrap_or_default();
        format!("[{}/{}]", index + 1, self.steps.len())
    }
}

fn describe_beside(report: &Report) -> String {
    match report.beside.as_slice() {
        [] => String::new(),
        others => format!(" (beside {})", others.join(", ")),
    }
}

fn summarise(reports: &[Report], elapsed: Duration) -> Result {
    println!();
    for report in reports {
        println!(
            "{:<12} {:>12}  {}{}",
            report.name,
            progress::seconds(report.elapsed),
            describe(&report.outcome),
            describe_beside(report)
        );
    }
    let in_a_row = reports.iter().map(|report| report.elapsed).sum();
    println!("{:<12} {:>12}", "total", progress::seconds(elapsed));
    println!("{:<12} {:>12}\n", "sum", progress::seconds(in_a_row));
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
        Outcome::Failed(reason) => format!("FAILED: {}", first_line(reason)),
        Outcome::NotRun => "not run".into(),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
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

/// Without running them, while the release is linked.
fn build_tests() -> Result {
    cargo(&["test", "--workspace", "--no-run"])
}

/// The server, and the program that counts instructions of its parts: two links at the same time.
fn release() -> Result {
    ratchet::build()?;
    // Nothing is left to do, unless the other program asked for features that this one has not.
    server::build().map(drop)
}

/// What later steps start, so that they need not wait for a compiler.
fn programs() -> Result {
    conformance::build_suite()?;
    secured::build_issuer()?;
    example::build()?;
    sdk::build_rust_client()?;
    torture::build_programs()
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

/// The wire suite once more, without any crate of ours.
fn clippy() -> Result {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    let alone = ["--package", "tavola-conformance", "--no-default-features"];
    cargo(&[&["clippy"][..], &alone, &["--", "-D", "warnings"]].concat())
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

    #[test]
    fn the_plan_has_a_reason_for_everything() {
        for (index, step) in STEPS.iter().enumerate() {
            assert_eq!(step.lane != Lane::Front, !step.beside.is_empty(), "{}", step.name);
            for (other, why) in step.after {
                let is_earlier = STEPS[..index].iter().any(|earlier| earlier.name == *other);
                assert!(is_earlier && !why.is_empty(), "{} after {other}", step.name);
            }
        }
    }

    /// What each step of the plan may run beside, written out: a change of the plan is seen here.
    #[test]
    fn what_runs_beside_what() {
        let (order, steps) = (Order::new(&STEPS), STEPS.each_ref());
        for (name, expected) in [
            ("release", "fetch, clippy, docs, public-api, build"),
            ("unit", "fetch"),
            ("programs", "fetch, fuzz"),
            ("ratchet", "fetch, fuzz, conformance, sdk, azurite, examples"),
            ("snippets", "fuzz, conformance, sdk, azurite, examples, cassandra"),
            ("cassandra", "snippets"),
            ("torture", ""),
            ("leaks", ""),
        ] {
            let step = steps.iter().find(|step| step.name == name).unwrap();
            assert_eq!(beside(step, &steps, &order).join(", "), expected, "{name}");
        }
    }
}
