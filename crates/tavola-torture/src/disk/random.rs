//! Any call of a busy server: chosen kinds of calls on chosen kinds of files, once or from then on.

use super::super::preload::{Call, Fault, FaultyDisk, FileKind};
use super::super::workload::Load;
use super::super::{Arena, Tally, Violation};
use super::{
    ACTIONS, Errand, Ready, connect, examine, must_read, small_memtables, start, told, verify,
    wait_while_full, write_until_hit,
};
use tavola_testkit::server_process::ServerProcess;

const CLIENTS: usize = 8;
const FAULTS: usize = 4;

pub(super) fn attack(arena: &Arena, tally: &mut Tally) -> Result<(), Violation> {
    let mut rng = arena.rng(7);
    let faults = FaultyDisk::new(arena)?;
    let mut load = Load::new(arena, CLIENTS);
    let mut first = load_folder(arena)?;
    for _ in 0..FAULTS {
        let fault = throw(&mut rng);
        let what = format!("{fault:?}");
        told(run(arena, &faults, &fault, &mut load, &mut first, &mut rng, tally), &faults, &what)?;
        told(verify(arena, &mut load), &faults, &what)?;
        tally.add("faults under load", u64::from(faults.hits() > 0));
    }
    tally.merge(&load.tally());
    Ok(())
}

/// A folder of its own: that of the sweep belongs to other clients.
fn load_folder(arena: &Arena) -> Result<bool, Violation> {
    std::fs::remove_dir_all(arena.data())
        .map_err(|error| Violation::new(format!("cannot begin anew: {error}")))?;
    Ok(true)
}

fn throw(rng: &mut fastrand::Rng) -> Fault {
    let calls = match rng.u8(..6) {
        0 | 1 => vec![Call::Fsync, Call::Fdatasync],
        2 | 3 => vec![Call::Write, Call::Pwrite, Call::Writev],
        4 => vec![
            Call::Rename,
            Call::Ftruncate,
            Call::Fallocate,
            Call::Open,
            Call::Unlink,
            Call::Close,
        ],
        _ => Call::ALL.to_vec(),
    };
    let files = match rng.u8(..6) {
        0 => vec![FileKind::Log],
        1 => vec![FileKind::Table],
        2 => vec![FileKind::Manifest],
        3 => vec![FileKind::Info, FileKind::Small, FileKind::Folder],
        _ => FileKind::ALL.to_vec(),
    };
    Fault {
        calls,
        files,
        pass: rng.u64(0..60),
        action: ACTIONS[rng.usize(..ACTIONS.len())],
        for_ever: rng.bool(),
    }
}

fn run(
    arena: &Arena,
    faults: &FaultyDisk,
    fault: &Fault,
    load: &mut Load,
    is_first: &mut bool,
    rng: &mut fastrand::Rng,
    tally: &mut Tally,
) -> Result<(), Violation> {
    faults.reset();
    let mut command = arena.serve_command()?;
    let started =
        start(arena, faults.attach(small_memtables(&mut command), &arena.data()), faults)?;
    let Some(server) = started else {
        return Err(Violation::new("the server did not start on a disk that works"));
    };
    if std::mem::take(is_first) {
        load.prepare(&server.table)?;
    }
    faults.order(fault);
    let drop = (rng.u8(..3) == 0).then(|| rng.usize(5..130));
    write_until_hit(
        &server,
        faults,
        load,
        Errand { answers: rng.usize(50..500), aftermath: 40, drop },
    )?;
    if faults.hits() > 0 {
        evaluate(&server, faults, fault, tally)?;
    }
    if rng.bool() {
        server.kill();
        return Ok(());
    }
    super::terminate(arena, server)
}

fn evaluate(
    server: &ServerProcess,
    faults: &FaultyDisk,
    fault: &Fault,
    tally: &mut Tally,
) -> Result<(), Violation> {
    must_read(&mut connect(&server.table)?)?;
    // A fault that stays can come while the answer is looked at: then both answers are right.
    if fault.for_ever && !fault.is_harmless() {
        faults.heal();
    }
    if let Ready::Full(_) = examine(server, faults, fault, tally)? {
        wait_while_full(server, tally)?;
    }
    must_read(&mut connect(&server.table)?)
}
