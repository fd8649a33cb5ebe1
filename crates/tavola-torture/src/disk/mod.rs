//! A disk that fails: the nth call fails, is cut short or comes late; a disk that is full.
//!
//! `sweep` takes every call of a short run in turn, `random` any call of a busy one, `full` a small
//! file system. What is asked of a server whose disk has failed is the same for all, and is written
//! here:
//!
//! - it ends neither by a signal nor by a panic, and leaves no client waiting;
//! - `/ready` says that it is not ready and why, and then nothing is acknowledged; or it says that
//!   it is ready, and then writes are taken;
//! - a client that is not told otherwise still reads what was acknowledged (the clients of the load
//!   compare);
//! - after a restart on a disk that works, everything that was acknowledged is there, and nothing
//!   that was refused.

mod full;
mod random;
mod sweep;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use tavola_core::{EntityOperation, Precondition, TableRequest};
use tavola_protocol::table::decode::{DecodeError, Decoded};

use super::author::SHARED;
use super::preload::{Action, Call, EINTR, EIO, ENOSPC, Fault, FaultyDisk, FileKind};
use super::workload::{Load, Progress, connect};
use super::{Arena, Campaign, Tally, Violation};
use tavola_testkit::client::{Client, entity_key, insert, name};
use tavola_testkit::server_process::{EndedEarly, ServerProcess};

/// Longer than any request may take.
const HANG: Duration = Duration::from_secs(40);
/// The engine looks every five seconds whether a full disk has room again.
const RECOVERY_TIME_MAX: Duration = Duration::from_secs(60);
const LOAD_TIME_MAX: Duration = Duration::from_secs(10);

/// What can happen to a call.
const ACTIONS: [Action; 7] = [
    Action::Fail(EIO),
    Action::Fail(ENOSPC),
    Action::Tear(ENOSPC),
    Action::Fail(EINTR),
    Action::Shorten,
    Action::Tear(EIO),
    Action::Delay(Duration::from_millis(100)),
];

pub(super) const CAMPAIGN: Campaign = Campaign {
    name: "disk",
    about: "a write, sync, rename or truncation fails, is cut short or late; a disk is full; then answers are compared",
    short_seeds: 3,
    needs_cluster: false,
    must_happen: &[],
    attack,
};

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let mut tally = Tally::default();
    sweep::attack(arena, &mut tally)?;
    random::attack(arena, &mut tally)?;
    if arena.seed % 4 == 1 {
        full::attack(arena, &mut tally)?;
    }
    Ok(tally)
}

/// How much a load does.
#[derive(Debug, Clone, Copy)]
struct Errand {
    /// Answers without a fault, if it does not come.
    answers: usize,
    /// Answers after it came.
    aftermath: usize,
    /// Batches of a large table that is filled and dropped meanwhile.
    drop: Option<usize>,
}

/// Lets clients write until the fault came, and some more.
fn write_until_hit(
    server: &ServerProcess,
    faults: &FaultyDisk,
    load: &mut Load,
    errand: Errand,
) -> Result<(), Violation> {
    let progress = &Progress::default();
    let stopped = thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let begun = Instant::now();
            let is_over = |answers| progress.answered() >= answers || progress.is_stopped();
            while faults.hits() == 0 && !is_over(errand.answers) && begun.elapsed() < LOAD_TIME_MAX
            {
                thread::sleep(Duration::from_millis(1));
            }
            progress.wait_for(progress.answered() + errand.aftermath, Duration::from_secs(3));
            progress.stop();
            Instant::now()
        });
        let written = match errand.drop {
            None => load.write(&server.table, progress),
            Some(batches) => load.write_and_drop(&server.table, progress, batches),
        };
        // Clients that are all in doubt write no more.
        progress.stop();
        written.map(|()| waiting.join().unwrap_or_else(|_| Instant::now()))
    })?;
    if stopped.elapsed() > HANG {
        return Err(Violation::new(format!(
            "a request had no answer for {} s",
            stopped.elapsed().as_secs()
        )));
    }
    Ok(())
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ready {
    Yes,
    /// It takes no writes until it is started again.
    Broken(String),
    /// Until there is room.
    Full(String),
}

/// Asks until the server has made up its mind.
fn ready(server: &ServerProcess) -> Result<Ready, Violation> {
    let begun = Instant::now();
    loop {
        let response = connect(&server.admin)?
            .get("/ready")
            .map_err(|_| Violation::new("/ready does not answer"))?;
        let text = String::from_utf8_lossy(response.body()).trim_end().to_owned();
        match response.status().as_u16() {
            200 => return Ok(Ready::Yes),
            503 if text.contains("trying whether it still writes") => {}
            503 if text.contains("until the server is started again") => {
                return Ok(Ready::Broken(text));
            }
            503 if text.contains(" is full: ") => return Ok(Ready::Full(text)),
            other => return Err(Violation::new(format!("/ready says {other} {text:?}"))),
        }
        if begun.elapsed() > RECOVERY_TIME_MAX {
            return Err(Violation::new(format!("/ready does not make up its mind: {text}")));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the server is ready again, by itself.
fn wait_until_ready(server: &ServerProcess) -> Result<(), Violation> {
    match leave_full(server)? {
        Ready::Yes => Ok(()),
        other => {
            Err(Violation::new(format!("there is room again, and the server says: {other:?}")))
        }
    }
}

/// Waits until the server has recovered from a fault that looked like a full disk. The fault can
/// have hit the engine's own recovery, too; then it must say so.
fn wait_while_full(server: &ServerProcess, tally: &mut Tally) -> Result<(), Violation> {
    let is_ready = leave_full(server)? == Ready::Yes;
    tally.add(
        if is_ready { "full disks recovered from" } else { "full disks that need a restart" },
        1,
    );
    Ok(())
}

fn leave_full(server: &ServerProcess) -> Result<Ready, Violation> {
    let begun = Instant::now();
    loop {
        let said = ready(server)?;
        if !matches!(said, Ready::Full(_)) {
            return Ok(said);
        }
        if begun.elapsed() > RECOVERY_TIME_MAX {
            return Err(Violation::new(format!(
                "there is room again, and the server says: {said:?}"
            )));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// What it says of itself must be what it does; and a log that could not be synced is nothing to go
/// on after.
fn examine(
    server: &ServerProcess,
    faults: &FaultyDisk,
    fault: &Fault,
    tally: &mut Tally,
) -> Result<Ready, Violation> {
    let said = ready(server)?;
    let is_sync_of_log =
        matches!(faults.last_hit(), Some((Call::Fsync | Call::Fdatasync, FileKind::Log)));
    match &said {
        Ready::Yes if is_sync_of_log && fault.action == Action::Fail(EIO) => {
            return Err(Violation::new("a sync of the log failed, and the server goes on"));
        }
        Ready::Broken(reason) if fault.is_harmless() => {
            return Err(Violation::new(format!("nothing failed, and {reason}")));
        }
        Ready::Yes => {
            must_write(server)?;
            tally.add("faults survived", 1);
        }
        Ready::Broken(reason) => {
            must_not_write(server, reason)?;
            tally.add("faults after which nothing was acknowledged", 1);
        }
        Ready::Full(_) => tally.add("faults taken for a full disk", 1),
    }
    Ok(said)
}

const PROBE: &str = "probe/probe";

/// A row comes and goes.
fn must_write(server: &ServerProcess) -> Result<(), Violation> {
    let (partition_key, operation) = insert(PROBE, 1);
    let key = entity_key(PROBE);
    let delete = EntityOperation::Delete(key.row_key, Precondition::Exists);
    for operation in [operation, delete] {
        let request = TableRequest::Write(name(SHARED), partition_key.clone(), operation);
        match connect(&server.table)?.ask(&request) {
            Ok(Ok(Decoded::Done(_))) => {}
            other => {
                return Err(Violation::new(format!(
                    "the server is ready, and a write is answered {other:?}"
                )));
            }
        }
    }
    Ok(())
}

/// Takes the row back that was written because there was room.
fn remove_probe(server: &ServerProcess) -> Result<(), Violation> {
    let key = entity_key(PROBE);
    let delete = EntityOperation::Delete(key.row_key, Precondition::Exists);
    let request = TableRequest::Write(name(SHARED), key.partition_key, delete);
    match connect(&server.table)?.ask(&request) {
        Ok(Ok(Decoded::Done(_))) => Ok(()),
        other => Err(Violation::new(format!("a deletion on a full disk is answered {other:?}"))),
    }
}

/// Nothing is acknowledged; the answer says so.
fn must_not_write(server: &ServerProcess, reason: &str) -> Result<String, Violation> {
    let (partition_key, operation) = insert(PROBE, 1);
    let request = TableRequest::Write(name(SHARED), partition_key, operation);
    match connect(&server.table)?.ask(&request) {
        Ok(Err(DecodeError::Service(error))) if error.status.as_u16() == 503 => Ok(error.message),
        other => Err(Violation::new(format!("{reason}; and a write is answered {other:?}"))),
    }
}

/// A server that was told to end ends, by itself and in order.
fn terminate(arena: &Arena, server: ServerProcess) -> Result<(), Violation> {
    let status = catch_unwind(AssertUnwindSafe(|| server.terminate()))
        .map_err(|_| Violation::new("the server does not end on SIGTERM"))?;
    check_end(arena, status)
}

/// Neither a signal nor a panic.
fn check_end(arena: &Arena, status: ExitStatus) -> Result<(), Violation> {
    let said = std::fs::read_to_string(arena.log()).unwrap_or_default();
    if status.code().is_none() || said.contains("panicked") {
        return Err(Violation::new(format!(
            "the server ended with {status}; it said: {}",
            arena.last_words()
        )));
    }
    Ok(())
}

/// A start on a disk that may fail: the server, or `None` if it refused.
fn start(
    arena: &Arena,
    command: &mut Command,
    faults: &FaultyDisk,
) -> Result<Option<ServerProcess>, Violation> {
    match ServerProcess::spawn(command) {
        Ok(server) => Ok(Some(server)),
        Err(EndedEarly { status, .. }) if faults.hits() > 0 && !status.success() => {
            check_end(arena, status)?;
            Ok(None)
        }
        Err(EndedEarly { status, .. }) => Err(Violation::new(format!(
            "the server did not start ({status}); it said: {}",
            arena.last_words()
        ))),
    }
}

/// The smallest memtables there are, so that flushes and compactions are among the calls.
fn small_memtables(command: &mut Command) -> &mut Command {
    command.env("TAVOLA_STORE__MEMTABLE_KB", "64")
}

/// After a restart on a disk that works everything must be right.
fn verify(arena: &Arena, load: &mut Load) -> Result<(), Violation> {
    let server = arena.start(small_memtables)?;
    load.verify(&server.table)?;
    server.kill();
    Ok(())
}

/// What was hit, for the message of a violation.
fn told<T>(result: Result<T, Violation>, faults: &FaultyDisk, what: &str) -> Result<T, Violation> {
    result.map_err(|violation| {
        Violation::new(format!("{what}, hit {:?}: {violation}", faults.last_hit()))
    })
}

/// A table must be readable whatever the disk does to writes.
fn must_read(client: &mut Client) -> Result<(), Violation> {
    let missing = TableRequest::GetEntity(name(SHARED), entity_key("probe/absent"));
    match client.ask(&missing) {
        Ok(Err(DecodeError::Service(error))) if error.code == "ResourceNotFound" => Ok(()),
        other => Err(Violation::new(format!("a read is answered {other:?}"))),
    }
}
