//! The official SDKs of other languages, for orientation: one program each, under `bench/sdk`, with
//! the packages that `cargo xtask sdk` installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tavola_load::{Context, Failure, Result, create_table};
use tavola_protocol::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

use super::bulk::PARALLEL;
use super::{Bench, Contender, Sample};
use crate::args::Rival;
use crate::folders;
use crate::server_target::TABLE;

#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    Get,
    Bulk,
}

/// What a program prints.
#[derive(Debug, Deserialize)]
struct Printed {
    things: f64,
    seconds: f64,
    cpu_seconds: f64,
}

/// Those that are asked for.
pub(super) fn targets<'a>(bench: &'a Bench<'a>, task: Task) -> Result<Vec<Contender<'a>>> {
    let known = [
        (Rival::Python, "Python SDK", "python"),
        (Rival::Js, "JavaScript SDK", "js"),
        (Rival::Go, "Go SDK", "go"),
    ];
    let wanted = known.into_iter().filter(|(rival, ..)| bench.args.against.contains(rival));
    let mut targets: Vec<Contender<'a>> = Vec::new();
    for (_, name, language) in wanted {
        let packages = folders::sdk_packages(language)?;
        if !packages.join("stamp").exists() {
            return Err(Failure::new(format!(
                "the packages are not there: `cargo xtask sdk {language}` installs them"
            )));
        }
        let table = format!("Sdk{language}");
        if matches!(task, Task::Bulk) {
            create_table(&bench.target.server.site, &table)?;
        }
        let program = move |round| {
            let table = if matches!(task, Task::Bulk) { &table } else { TABLE };
            let mut command = command(language, &packages)?;
            run(bench, task, command.env("BENCH_TABLE", table), round)
        };
        targets.push((name, Box::new(program)));
    }
    Ok(targets)
}

/// How each is started.
fn command(language: &str, packages: &Path) -> Result<Command> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk").join(language);
    let mut command = match language {
        "python" => {
            let mut python = Command::new(packages.join("venv/bin/python"));
            python.arg("-B").arg(folder.join("bench.py"));
            python
        }
        "js" => {
            let mut node = Command::new("node");
            node.arg(folder.join("bench.js")).env("NODE_PATH", packages.join("node_modules"));
            node
        }
        _ => Command::new(go_program(&folder, packages)?),
    };
    command.current_dir(&folder);
    Ok(command)
}

/// Compiles it; once for a run, as Go keeps what it compiled.
fn go_program(folder: &Path, packages: &Path) -> Result<PathBuf> {
    let program = packages.join("bench");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".").current_dir(folder);
    go.env("GOMODCACHE", packages.join("modules")).env("GOCACHE", packages.join("build"));
    let status = go.status().context(|| "cannot run go".into())?;
    if status.success() { Ok(program) } else { Err(Failure::new("go could not compile it")) }
}

fn run(bench: &Bench<'_>, task: Task, command: &mut Command, round: u32) -> Result<Sample> {
    let entities = bench.args.bulk_entities;
    let what = match task {
        Task::Get => "get",
        Task::Bulk => "bulk",
    };
    command
        .env("BENCH_TASK", what)
        .env("BENCH_ENDPOINT", bench.target.server.site.url())
        .env("BENCH_ACCOUNT", DEVELOPMENT_ACCOUNT)
        .env("BENCH_KEY", DEVELOPMENT_KEY)
        .env("BENCH_SECONDS", bench.args.seconds.to_string())
        .env("BENCH_ENTITIES", bench.target.entities.to_string())
        .env("BENCH_BULK_START", (u64::from(round) * entities).to_string())
        .env("BENCH_BULK_ENTITIES", entities.to_string())
        .env("BENCH_PARALLEL", PARALLEL.to_string());
    let output = command.output().context(|| "cannot run it".into())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let printed = text.lines().last().and_then(|line| serde_json::from_str::<Printed>(line).ok());
    let Some(Printed { things, seconds, cpu_seconds }) = printed else {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr).into_owned()));
    };
    Ok(Sample { cpu_us: cpu_seconds * 1e6 / things, per_second: things / seconds })
}
