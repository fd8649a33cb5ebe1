//! `cargo xtask fuzz`: readers of bytes against inputs that libFuzzer makes from the code that they
//! reach.
//!
//! The counters come from LLVM's own pass, which a stable compiler can be told to run, and
//! libFuzzer is compiled by g++ from the sources in the crate `libfuzzer-sys`; so nothing has to be
//! installed that building Tavola does not need.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::args::Args;
use crate::failure::{Context, Failure, Result};
use crate::{cache, install, progress, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask fuzz [TARGET...] [--seconds N]
cargo xtask fuzz TARGET --input FILE

Builds the targets in fuzz/src/bin with coverage counters and runs each of them (default: all), one
per core at a time. Inputs start from fuzz/corpus and from those that earlier runs found, kept in
the cache folder. An input that makes a target panic, hang or grow is saved, and the command that
repeats it is printed.

  --seconds N   how long each target runs (default: 30)
  --input FILE  run the target on this one input";

/// A reader of bytes: the file of that name in `fuzz/src/bin`.
#[derive(Debug)]
struct Target {
    name: &'static str,
    /// How long it runs in `cargo xtask test`.
    seconds: u32,
    input_bytes_max: u32,
}

/// The longest first, so that no core is left waiting for one of them at the end.
const TARGETS: [Target; 12] = [
    Target { name: "authorization_header", seconds: 30, input_bytes_max: 1024 },
    Target { name: "shared_access_signature", seconds: 30, input_bytes_max: 1024 },
    Target { name: "bearer_token", seconds: 30, input_bytes_max: 4096 },
    Target { name: "handler", seconds: 25, input_bytes_max: 4096 },
    Target { name: "request", seconds: 15, input_bytes_max: 4096 },
    Target { name: "batch_body", seconds: 15, input_bytes_max: 8192 },
    Target { name: "entity_json", seconds: 15, input_bytes_max: 4096 },
    Target { name: "filter", seconds: 15, input_bytes_max: 4096 },
    Target { name: "xml", seconds: 15, input_bytes_max: 4096 },
    Target { name: "continuation_token", seconds: 8, input_bytes_max: 1024 },
    Target { name: "key_bytes", seconds: 8, input_bytes_max: 4096 },
    Target { name: "row_bytes", seconds: 8, input_bytes_max: 4096 },
];

const SECONDS_DEFAULT: u32 = 30;
/// For one input. Most take microseconds, and the machine may be busy.
const INPUT_SECONDS_MAX: u32 = 10;
const MEMORY_MEGABYTES_MAX: u32 = 1024;
/// Inputs kept between runs; beyond that, those that reach nothing of their own are dropped.
const KEPT_INPUTS_MAX: usize = 5000;
const LOG_LINES_SHOWN: usize = 40;

/// What makes a stable compiler insert the counters and comparisons that libFuzzer reads. Calls of
/// `memcmp` must stay calls, because libFuzzer learns the texts that the code looks for from those;
/// inlined, they are loads that tell nothing, and 38 million runs did not pass an `if` that looks
/// for one word of four bytes.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-force-attribute=memcmp:nobuiltin \
    -Cllvm-args=-force-attribute=bcmp:nobuiltin";

pub(crate) fn command(mut args: Args) -> Result {
    let seconds =
        args.value("--seconds")?.map_or(Ok(SECONDS_DEFAULT), |text| parse_seconds(&text))?;
    let input = args.value("--input")?;
    let names = args.positional();
    args.finish()?;
    let targets = choose(&names)?;
    match (input, &targets[..]) {
        (None, targets) => run(targets, |_| seconds),
        (Some(input), [target]) => repeat(target, Path::new(&input)),
        (Some(_), _) => Err(Failure::new("--input needs exactly one target")),
    }
}

/// The check that guards a merge: the targets' own text, then all of them.
pub(crate) fn check() -> Result {
    shell::run(cargo("fmt")?.arg("--check"))?;
    prepare()?;
    let clippy = ["--locked", "--target", "host-tuple", "--all-targets", "--", "-D", "warnings"];
    shell::run(cargo("clippy")?.args(clippy))?;
    run(&TARGETS.each_ref(), |target| target.seconds)
}

fn parse_seconds(text: &str) -> Result<u32> {
    // Zero would mean for ever.
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| {
        Failure::new(format!("--seconds needs a whole number above zero, not `{text}`"))
    })
}

fn choose(names: &[String]) -> Result<Vec<&'static Target>> {
    if let Some(unknown) =
        names.iter().find(|name| !TARGETS.iter().any(|target| target.name == *name))
    {
        let known = TARGETS.each_ref().map(|target| target.name).join(", ");
        return Err(Failure::new(format!("unknown target `{unknown}`: choose from {known}")));
    }
    Ok(TARGETS
        .iter()
        .filter(|target| names.is_empty() || names.iter().any(|name| name == target.name))
        .collect())
}

/// Cargo on the workspace of the targets, with its flags and a folder of its own for build output.
fn cargo(subcommand: &str) -> Result<Command> {
    let mut cargo = workspace::cargo()?;
    cargo.args([subcommand, "--manifest-path", "fuzz/Cargo.toml"]);
    // The one variable that would win over ours.
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", RUSTFLAGS);
    cargo.env("CARGO_TARGET_DIR", folder()?);
    Ok(cargo)
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("fuzz"))
}

fn prepare() -> Result {
    let has_compiler = || env::var_os("CXX").is_some() || shell::has_program("c++");
    install::ensure(&["g++"], "compiling libFuzzer", has_compiler)?;
    let root = workspace::root()?;
    let read =
        |path: &str| fs::read_to_string(root.join(path)).context(|| format!("cannot read {path}"));
    check_lock(&read("Cargo.lock")?, &read("fuzz/Cargo.lock")?)?;
    // A package that the server has newly got.
    let metadata = shell::output(cargo("metadata")?.args(["--locked", "--format-version", "1"]));
    metadata.map(drop).context(|| format!("fuzz/Cargo.lock may be out of date: {FOLLOW_LOCK}"))
}

const FOLLOW_LOCK: &str = "`cp Cargo.lock fuzz/ && cargo update --workspace --manifest-path fuzz/Cargo.toml` makes it follow";

/// The targets must be linked with what the server is linked with.
fn check_lock(server: &str, targets: &str) -> Result {
    let server = locked_versions(server);
    for (name, versions) in locked_versions(targets) {
        if server.get(name).is_some_and(|known| !versions.is_subset(known)) {
            let problem =
                format!("fuzz/Cargo.lock has another version of `{name}` than Cargo.lock");
            return Err(Failure::new(format!("{problem}: {FOLLOW_LOCK}")));
        }
    }
    Ok(())
}

fn locked_versions(lock: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut versions = BTreeMap::<_, BTreeSet<_>>::new();
    let mut name = "";
    for line in lock.lines() {
        if let Some(text) = line.strip_prefix("name = ") {
            name = text.trim_matches('"');
        } else if let Some(text) = line.strip_prefix("version = ") {
            versions.entry(name).or_default().insert(text.trim_matches('"'));
        }
    }
    versions
}

/// Builds all targets; gives their programs by name.
fn build() -> Result<BTreeMap<String, PathBuf>> {
    prepare()?;
    println!("Building the fuzz targets into {}", folder()?.display());
    // With a target named, even this machine's own, the flags do not reach build scripts, which
    // have no libFuzzer.
    let arguments = [
        "--locked",
        "--target",
        "host-tuple",
        "--bins",
        "--message-format",
        "json-render-diagnostics",
    ];
    let messages = shell::output(cargo("build")?.args(arguments))?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let programs = messages.filter_map(|message| {
        let program = message["executable"].as_str()?;
        Some((message["target"]["name"].as_str()?.to_owned(), PathBuf::from(program)))
    });
    Ok(programs.collect())
}

/// Runs one target on one input, with the terminal shared.
fn repeat(target: &Target, input: &Path) -> Result {
    let programs = build()?;
    File::open(input).context(|| format!("cannot read {}", input.display()))?;
    shell::run(limited(target, &programs)?.arg(input))
}

fn limited(target: &Target, programs: &BTreeMap<String, PathBuf>) -> Result<Command> {
    let program = programs
        .get(target.name)
        .ok_or_else(|| format!("cargo built no target `{}`", target.name))?;
    let mut command = Command::new(program);
    command
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-rss_limit_mb={MEMORY_MEGABYTES_MAX}"));
    Ok(command)
}

fn run(targets: &[&'static Target], seconds: impl Fn(&Target) -> u32 + Sync) -> Result {
    let programs = build()?;
    let cores = thread::available_parallelism().map_or(1, usize::from).min(targets.len());
    println!("Running {} targets, {cores} at a time", targets.len());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut failed = Vec::new();
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(failure) = run_target(target, seconds(target), &programs) {
                println!("{}: {failure}", target.name);
                failed.push(target.name);
            }
        }
        failed
    };
    let failed: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        // A worker that panicked has said so; which target it had is unknown.
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|_| vec!["a worker"]))
            .collect()
    });
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("fuzzing found something in {}", failed.join(", "))))
}

fn run_target(target: &Target, seconds: u32, programs: &BTreeMap<String, PathBuf>) -> Result {
    let start = Instant::now();
    let seeds = workspace::root()?.join("fuzz/corpus").join(target.name);
    let kept = cache::root()?.join("fuzz").join(target.name);
    let found = folder()?.join("found").join(target.name);
    cache::create(&kept)?;
    cache::create(&found)?;
    // Another clone may be at it too; what it leaves of the folder will do.
    if let Err(failure) = drop_useless(target, &kept, programs) {
        println!("{}: {failure}", target.name);
        cache::create(&kept)?;
    }
    let log = folder()?.join(format!("{}.log", target.name));
    let mut command = limited(target, programs)?;
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={}", target.input_bytes_max));
    // The input is saved; repeating it can print the backtrace.
    command.env("RUST_BACKTRACE", "0");
    command.arg("-print_final_stats=1").arg(format!("-artifact_prefix={}/", found.display()));
    // New inputs go to the first folder only.
    let is_success = run_logged(command.arg(&kept).arg(&seeds), &log)?;
    let text = fs::read(&log).context(|| format!("cannot read {}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    let figures = Figures::parse(&text);
    if let Some(figures) = &figures {
        println!("{:<24} {} in {}", target.name, figures, progress::seconds(start.elapsed()));
    }
    match (is_success, figures) {
        (true, Some(_)) => Ok(()),
        (true, None) => Err(Failure::new(format!("tells no figures: see {}", log.display()))),
        (false, _) => Err(Failure::new(describe_failure(target, &text, &log))),
    }
}

fn run_logged(command: &mut Command, log: &Path) -> Result<bool> {
    let file = File::create(log).context(|| format!("cannot write {}", log.display()))?;
    let output = file.try_clone().context(|| format!("cannot write {}", log.display()))?;
    let status = command.stdin(Stdio::null()).stdout(output).stderr(file).status();
    Ok(status.context(|| format!("cannot start {}", command.get_program().display()))?.success())
}

/// Bounds what is kept: libFuzzer copies the inputs that together reach all that these reach, and
/// we drop the others.
fn drop_useless(target: &Target, kept: &Path, programs: &BTreeMap<String, PathBuf>) -> Result {
    let reading = || format!("cannot read {}", kept.display());
    let count = fs::read_dir(kept).context(reading)?.count();
    if count <= KEPT_INPUTS_MAX {
        return Ok(());
    }
    let useful = kept.with_extension("useful");
    // What an interrupted run left behind.
    let _ = fs::remove_dir_all(&useful);
    cache::create(&useful)?;
    let log = folder()?.join(format!("{}.merge.log", target.name));
    if !run_logged(limited(target, programs)?.arg("-merge=1").arg(&useful).arg(kept), &log)? {
        return Err(Failure::new(format!(
            "cannot tell useful inputs from others: see {}",
            log.display()
        )));
    }
    println!(
        "{:<24} {count} kept inputs, {} of them useful",
        target.name,
        fs::read_dir(&useful).context(reading)?.count()
    );
    fs::remove_dir_all(kept)
        .and_then(|()| fs::rename(&useful, kept))
        .context(|| format!("cannot replace {}", kept.display()))
}

/// The end of the log, where the input is, and how to see it fail again.
fn describe_failure(target: &Target, log_text: &str, log: &Path) -> String {
    let is_progress =
        |line: &&str| ["#", "INFO:", "WARNING:"].iter().any(|start| line.starts_with(start));
    let lines: Vec<&str> = log_text.lines().filter(|line| !is_progress(line)).collect();
    let end = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
    let input =
        log_text.lines().find_map(|line| Some(line.split_once("Test unit written to ")?.1.trim()));
    match input {
        Some(input) => format!(
            "failed:\n{end}\n\nThe input is {input}; to repeat it:\n  cargo xtask fuzz {} --input {input}\n\
             Once understood, keep it as a seed in fuzz/corpus/{}\n",
            target.name, target.name
        ),
        None => format!("failed without an input:\n{end}\n\nThe log is {}\n", log.display()),
    }
}

/// What libFuzzer says at the end of a run.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    executions: u64,
    executions_per_second: u64,
    /// Places in the code between which control passed.
    edges: u64,
}

impl Figures {
    fn parse(log: &str) -> Option<Self> {
        let statistic = |name: &str| {
            let after = log
                .lines()
                .rev()
                .find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name))?;
            after.trim_start_matches(':').trim().parse().ok()
        };
        let edges = log
            .lines()
            .rev()
            .find_map(|line| line.split_once(" cov: ")?.1.split(' ').next()?.parse().ok());
        Some(Self {
            executions: statistic("number_of_executed_units")?,
            executions_per_second: statistic("average_exec_per_sec")?,
            edges: edges?,
        })
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { executions, executions_per_second, edges } = self;
        write!(f, "{executions:>9} runs, {executions_per_second:>6}/s, {edges:>5} edges")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_file_and_seeds() {
        let fuzz = workspace::root().unwrap().join("fuzz");
        let names = |folder: &str| -> BTreeSet<String> {
            let entries =
                fs::read_dir(fuzz.join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
            let names =
                entries.map(|name| name.to_str().unwrap().trim_end_matches(".rs").to_owned());
            names.filter(|name| !name.starts_with('.')).collect()
        };
        let known: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
        assert_eq!(names("src/bin"), known);
        assert_eq!(names("corpus"), known);
    }

    #[test]
    fn targets_are_chosen_by_name() {
        let count = |names: &[&str]| {
            choose(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
                .map(|t| t.len())
        };
        assert_eq!(count(&[]).unwrap(), TARGETS.len());
        assert_eq!(count(&["xml", "filter"]).unwrap(), 2);
        assert!(count(&["typo"]).is_err());
        assert!(parse_seconds("0").is_err() && parse_seconds("x").is_err());
        assert_eq!(parse_seconds("7").unwrap(), 7);
    }

    #[test]
    fn figures_are_found_in_a_log() {
        let log = "#6\tINITED cov: 819 ft: 1050 corp: 5/937b exec/s: 0 rss: 28Mb\n\
                   #816394\tDONE   cov: 1697 ft: 4020 corp: 1623/203Kb lim: 390 exec/s: 51024 rss: 30Mb\n\
                   stat::number_of_executed_units: 816394\nstat::average_exec_per_sec:     51024\n";
        let figures = Figures::parse(log).unwrap();
        assert_eq!(
            figures,
            Figures { executions: 816_394, executions_per_second: 51_024, edges: 1697 }
        );
        assert_eq!(Figures::parse("INFO: Seed: 1\n"), None);
    }

    #[test]
    fn a_failure_says_how_to_repeat_it() {
        let log = "#9\tNEW cov: 5\npanicked\nartifact_prefix='/f/'; Test unit written to /f/crash-1\nBase64: AA==\n";
        let text = describe_failure(&TARGETS[0], log, Path::new("/log"));
        assert!(
            text.contains("\n  cargo xtask fuzz authorization_header --input /f/crash-1\n"),
            "{text}"
        );
        assert!(text.contains("panicked") && !text.contains("NEW cov"), "{text}");
        assert!(
            describe_failure(&TARGETS[0], "ERROR: no interesting inputs", Path::new("/log"))
                .contains("/log")
        );
    }

    #[test]
    fn the_lock_files_agree_where_they_meet() {
        let lock = |packages: &[(&str, &str)]| -> String {
            packages
                .iter()
                .map(|(name, version)| {
                    format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n")
                })
                .collect()
        };
        let server = lock(&[("a", "1.0.0"), ("a", "2.0.0"), ("b", "1.0.0")]);
        check_lock(&server, &lock(&[("a", "2.0.0"), ("only-here", "1.0.0")])).unwrap();
        assert!(check_lock(&server, &lock(&[("a", "2.0.1")])).is_err());
    }
}
