//! Changed bytes: files of a data folder are flipped, zeroed, overwritten, cut and removed, and
//! then the server and the commands for damaged folders must be honest about it.
//!
//! - The server refuses, with the folder's name and a way on, or it opens; then every read is right
//!   or 500 `InternalError`. Nothing is wrong, and nothing is missing without an error.
//! - `tavola check` changes nothing, and reports damage whenever the server refuses or a read
//!   fails, and for every changed byte of a table file.
//! - `tavola repair` changes nothing; the folder that it makes opens, every row in it was once
//!   written, whole, and what is missing, older than it was, or back although it was deleted is no
//!   more than it announced before. `check` says the same.
//!
//! The folder to damage was left by a kill, so that its log has writes that no table file has. No
//! allowance is made for writes at the end of the log: all of them were acknowledged.

mod content;
mod damage;
mod folder;
mod saved;

use std::fs::{self, File};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::{Arena, Campaign, Tally, Violation};
use content::{Base, Content, Read};
use damage::Damage;
use saved::{Announced, Deviation};
use tavola_testkit::client::Client;
use tavola_testkit::server_process::{self, ServerProcess, Watchdog};

pub(super) const CAMPAIGN: Campaign = Campaign {
    name: "bits",
    about: "flips, zeroes, cuts and removes bytes of every kind of file; then nothing may be wrong or silently missing",
    short_seeds: 60,
    needs_cluster: false,
    must_happen: &[
        "tails of table files",
        "footers and blocks",
        "ends of records of files",
        "repairs without a loss",
    ],
    attack,
};

/// `tavola serve` and `tavola check` for a folder that must be looked at.
const DATA_EXIT: i32 = 3;

/// A command that takes longer on so little data never ends.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(180);

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let mut rng = arena.rng(0);
    let base = content::base(arena)?;
    folder::copy(&base.folder, &arena.data())?;
    let mut tally = Tally::default();
    let damage = Damage::throw(&mut rng, &arena.data(), &base.obsolete, &mut tally)?;
    let story = |violation: Violation| Violation::new(format!("{violation}; the damage: {damage}"));
    damage.count(&mut tally);
    let check = run(arena, &["check", "data", "-o", "json"]).map_err(story)?;
    let reported = check.status.code() == Some(DATA_EXIT);
    repair(arena, &base, &damage, &check, &mut tally).map_err(story)?;
    let seen = serve(arena, &base.content, &mut rng, &mut tally).map_err(story)?;
    if (seen == Seen::Failure || damage.must_be_reported()) && !reported {
        let said = String::from_utf8_lossy(&check.stdout).into_owned();
        return Err(story(Violation::new(format!(
            "`tavola check` reports nothing; the server: {seen:?}; it said: {said}"
        ))));
    }
    tally.add("damages reported", u64::from(reported));
    Ok(tally)
}

/// What became of serving a damaged folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Everything is there and right.
    Nothing,
    /// It refused, or a read failed.
    Failure,
}

/// A command of ours, which must end by itself, in words, and leave the damaged folder as it is.
fn run(arena: &Arena, arguments: &[&str]) -> Result<Output, Violation> {
    let before = folder::hash(&arena.data())?;
    let mut command = server_process::command(&arena.server);
    // No server is there to be asked.
    command
        .current_dir(&arena.folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(io_error)?;
    let watchdog = Watchdog::new(child.id(), COMMAND_TIME_MAX);
    let output = child.wait_with_output().map_err(io_error)?;
    drop(watchdog);
    if folder::hash(&arena.data())? != before {
        return Err(Violation::new(format!(
            "`tavola {}` changed the damaged folder",
            arguments.join(" ")
        )));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if !matches!(output.status.code(), Some(0 | DATA_EXIT)) || said.contains("panicked") {
        return Err(Violation::new(format!(
            "`tavola {}` ended with {}: {said}",
            arguments.join(" "),
            output.status
        )));
    }
    Ok(output)
}

fn io_error(error: std::io::Error) -> Violation {
    Violation::new(format!("the attack itself failed: {error}"))
}

fn repair(
    arena: &Arena,
    base: &Base,
    damage: &Damage,
    check: &Output,
    tally: &mut Tally,
) -> Result<(), Violation> {
    let dry = run(arena, &["repair", "data", "--dry-run", "-o", "json"])?;
    let done = run(arena, &["repair", "data", "--into", "saved", "--yes"])?;
    let saved = arena.folder.join("saved");
    if dry.status.code() != done.status.code() {
        return Err(Violation::new(format!(
            "a dry run ended with {}, the real one with {}",
            dry.status, done.status
        )));
    }
    if !saved.exists() {
        // A sound folder needs none, and this program cannot evaluate a marker of a newer format.
        let is_right = check.status.success() || done.status.code() == Some(DATA_EXIT);
        return if is_right {
            Ok(())
        } else {
            Err(Violation::new("a damaged folder was not repaired"))
        };
    }
    let (plan, checked) = (json(&dry)?, json(check)?);
    if plan["rows_lost_max"] != checked["rows_lost_max"] {
        return Err(Violation::new(format!(
            "`check` counts other losses than `repair`: {checked:#} and {plan:#}"
        )));
    }
    let mut command = server_process::serve_command(&arena.server, &saved);
    let server = ServerProcess::spawn(log_to(arena, &mut command)?).map_err(|ended| {
        Violation::new(format!(
            "the repaired folder does not open: {}; {}",
            ended.status,
            arena.last_words()
        ))
    })?;
    let deviation = Deviation::measure(&base.content, &mut connect(&server)?)?;
    let announced = Announced::of(&plan);
    deviation.check(&announced, damage, !base.obsolete.is_empty())?;
    deviation.count(&announced, tally);
    ends_well(server, arena)
}

fn json(output: &Output) -> Result<serde_json::Value, Violation> {
    serde_json::from_slice(&output.stdout).map_err(|error| {
        Violation::new(format!(
            "it prints no JSON: {error}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    })
}

fn log_to<'a>(arena: &Arena, command: &'a mut Command) -> Result<&'a mut Command, Violation> {
    let log = File::options().create(true).append(true).open(arena.log()).map_err(io_error)?;
    Ok(command.stderr(log).env("TAVOLA_LOG__LEVEL", "error"))
}

/// Starts the server on the damaged folder, and again on what it made of it: what one start lets
/// pass must not become wrong by the next.
fn serve(
    arena: &Arena,
    content: &Content,
    rng: &mut fastrand::Rng,
    tally: &mut Tally,
) -> Result<Seen, Violation> {
    let mut seen = Seen::Nothing;
    for life in 0..2 {
        // The smallest memtables make it compact damaged files.
        let memtable_kb = if rng.bool() { "64" } else { "65536" };
        let _ignored = fs::remove_file(arena.log());
        let mut command = arena.serve_command()?;
        let server =
            match ServerProcess::spawn(command.env("TAVOLA_STORE__MEMTABLE_KB", memtable_kb)) {
                Ok(server) => server,
                Err(ended) => {
                    refused_well(arena, ended.status)?;
                    tally.add("folders refused", 1);
                    return Ok(Seen::Failure);
                }
            };
        let read = content.verify_damaged(&mut connect(&server)?, rng)?;
        tally.add("rows read", read.rows);
        tally.add("reads that failed", read.errors);
        if read != (Read { errors: 0, ..read }) {
            seen = Seen::Failure;
        }
        tally.add("folders opened", u64::from(life == 0));
        ends_well(server, arena)?;
    }
    Ok(seen)
}

fn connect(server: &ServerProcess) -> Result<Client, Violation> {
    Client::connect(&server.table).map_err(|_| Violation::new("the server takes no connection"))
}

fn ends_well(server: ServerProcess, arena: &Arena) -> Result<(), Violation> {
    let status = server.terminate();
    if status.success() {
        Ok(())
    } else {
        Err(Violation::new(format!("it ended with {status}: {}", arena.last_words())))
    }
}

/// A refusal is for a person: which folder, and how to go on.
fn refused_well(arena: &Arena, status: std::process::ExitStatus) -> Result<(), Violation> {
    let said = arena.last_words();
    let names_folder = said.contains(&*arena.data().to_string_lossy());
    let says_how =
        ["from a backup", "use the version that wrote it", "Name an empty or new folder"];
    let says_how = says_how.iter().any(|words| said.contains(words));
    if status.code() == Some(DATA_EXIT) && names_folder && says_how {
        return Ok(());
    }
    Err(Violation::new(format!("the server refused without a way on: {status}: {said}")))
}
