//! SIGKILL at random moments: under load, while the server recovers, while it flushes and compacts,
//! while it drops.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::workload::{Load, Progress};
use super::{Arena, Campaign, Tally, Violation};
use tavola_testkit::server_process::ServerProcess;

const CLIENTS: usize = 12;
/// Lives of one data folder.
const LIVES: usize = 10;
const ANSWERS_TIME_MAX: Duration = Duration::from_secs(5);

pub(super) const CAMPAIGN: Campaign = Campaign {
    name: "kill",
    about: "SIGKILL under load, in recovery, in flushes and compactions, in drops; then every answer is compared",
    short_seeds: 2,
    needs_cluster: false,
    must_happen: &[],
    attack,
};

/// When the process is killed: after so many answers, and a little later.
#[derive(Debug, Clone, Copy)]
struct Moment {
    answers: usize,
    later: Duration,
    /// Batches of a large table that is filled and dropped meanwhile.
    drop: Option<usize>,
}

impl Moment {
    fn throw(rng: &mut fastrand::Rng) -> Self {
        let later = Duration::from_micros(rng.u64(0..10_000));
        match rng.u8(..10) {
            0 => Self { answers: rng.usize(100..400), later, drop: Some(3) },
            // Beyond the number of rows that a purge deletes one by one.
            1 => Self { answers: rng.usize(300..2000), later, drop: Some(110) },
            _ => Self { answers: rng.usize(1..500), later, drop: None },
        }
    }
}

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let mut rng = arena.rng(0);
    // The smallest memtables there are: something is always being flushed or compacted.
    let memtable_kb = if rng.bool() { "64" } else { "65536" };
    let mut load = Load::new(arena, CLIENTS);
    let mut tally = Tally::default();
    for life in 0..LIVES {
        let files = table_files(arena);
        let server = start(arena, memtable_kb)?;
        if life == 0 {
            load.prepare(&server.table)?;
        } else {
            tally.add(
                "kills that left unfinished files",
                u64::from(!files.is_subset(&table_files(arena))),
            );
            load.verify(&server.table)?;
        }
        kill_at(Moment::throw(&mut rng), server, &mut load, &mut tally)?;
        while rng.u8(..3) == 0 {
            kill_in_recovery(arena, memtable_kb, Duration::from_micros(rng.u64(0..40_000)))?;
            tally.add("kills", 1);
            tally.add("kills in recovery", 1);
        }
    }
    let server = start(arena, memtable_kb)?;
    load.verify(&server.table)?;
    if !server.terminate().success() {
        return Err(Violation::new(format!("the server did not end well: {}", arena.last_words())));
    }
    // What was closed in order is the same, too.
    let server = start(arena, memtable_kb)?;
    load.verify(&server.table)?;
    drop(server);
    tally.merge(&load.tally());
    Ok(tally)
}

fn start(arena: &Arena, memtable_kb: &str) -> Result<ServerProcess, Violation> {
    arena.start(|command| settings(command, memtable_kb))
}

fn settings<'a>(command: &'a mut Command, memtable_kb: &str) -> &'a mut Command {
    command.env("TAVOLA_STORE__MEMTABLE_KB", memtable_kb)
}

fn kill_at(
    moment: Moment,
    server: ServerProcess,
    load: &mut Load,
    tally: &mut Tally,
) -> Result<(), Violation> {
    let authority = server.table.clone();
    let progress = &Progress::default();
    thread::scope(|scope| {
        scope.spawn(move || {
            progress.wait_for(moment.answers, ANSWERS_TIME_MAX);
            thread::sleep(moment.later);
            server.kill();
            progress.stop();
        });
        match moment.drop {
            None => load.write(&authority, progress),
            Some(batches) => load.write_and_drop(&authority, progress, batches),
        }
    })?;
    tally.add("kills", 1);
    tally.add("kills in drops", u64::from(moment.drop.is_some()));
    Ok(())
}

/// A start that is killed before it can serve.
fn kill_in_recovery(arena: &Arena, memtable_kb: &str, after: Duration) -> Result<(), Violation> {
    let mut command = arena.serve_command()?;
    let child = settings(&mut command, memtable_kb).stdout(Stdio::null()).spawn();
    let mut child =
        child.map_err(|error| Violation::new(format!("the server cannot be started: {error}")))?;
    thread::sleep(after);
    let killed = child.kill().and_then(|()| child.wait());
    killed
        .map(|_| ())
        .map_err(|error| Violation::new(format!("the server cannot be killed: {error}")))
}

/// The engine's table files. One that is gone after a recovery belonged to work that the kill cut
/// off.
fn table_files(arena: &Arena) -> BTreeSet<OsString> {
    let entries = fs::read_dir(arena.data().join("store")).into_iter().flatten();
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    names.filter(|name| name.to_string_lossy().ends_with(".sst")).collect()
}
