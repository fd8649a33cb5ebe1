//! Every call of a short run in turn: of a first start, and of a start, some writes, and an orderly
//! end.

use std::fs;
use std::path::PathBuf;

use super::super::preload::{Call, Fault, FaultyDisk, FileKind};
use super::super::workload::Load;
use super::super::{Arena, Tally, Violation, verify as shown};
use super::{
    ACTIONS, Errand, Ready, examine, small_memtables, start, told, verify, wait_while_full,
    write_until_hit,
};
use tavola_testkit::client::Client;

/// A seed takes every so manyth call, beginning with its own; so many seeds take them all, and what
/// happens to a call goes round with the next ones.
const STRIDE: u64 = 16;
const CLIENTS: usize = 2;
const ERRAND: Errand = Errand { answers: 40, aftermath: 15, drop: None };

pub(super) fn attack(arena: &Arena, tally: &mut Tally) -> Result<(), Violation> {
    let faults = FaultyDisk::new(arena)?;
    first_starts(arena, &faults, tally)?;
    runs(arena, &faults, tally)
}

fn fault(arena: &Arena, pass: u64) -> Fault {
    let action = ACTIONS[((pass + arena.seed / STRIDE) % ACTIONS.len() as u64) as usize];
    Fault {
        calls: Call::ALL.to_vec(),
        files: FileKind::ALL.to_vec(),
        pass,
        action,
        for_ever: false,
    }
}

/// The calls that this seed takes.
fn turns(arena: &Arena, calls: u64) -> impl Iterator<Item = u64> {
    (arena.seed % STRIDE..calls).step_by(STRIDE as usize)
}

fn total(faults: &FaultyDisk) -> u64 {
    faults.counts().iter().map(|(.., count)| count).sum()
}

/// A data folder that could not be made must not be in the way of the next start.
fn first_starts(arena: &Arena, faults: &FaultyDisk, tally: &mut Tally) -> Result<(), Violation> {
    let data: PathBuf = arena.folder.join("first");
    let calls = first_start(arena, faults, &data, None)?;
    tally.peak("calls of a first start", calls);
    for pass in turns(arena, calls) {
        let fault = fault(arena, pass);
        let what = format!("call {pass} of a first start: {:?}", fault.action);
        told(first_start(arena, faults, &data, Some(&fault)), faults, &what)?;
        tally.add("faults in first starts", u64::from(faults.hits() > 0));
        let server =
            told(arena.spawn(small_memtables(&mut arena.serve_command_at(&data)?)), faults, &what)?;
        let mut client =
            Client::connect(&server.table).map_err(|_| Violation::new("no connection"))?;
        if !shown::tables(&mut client)?.is_empty() {
            return Err(Violation::new(format!("{what}: a new server has tables")));
        }
    }
    Ok(())
}

/// How many calls it took.
fn first_start(
    arena: &Arena,
    faults: &FaultyDisk,
    data: &PathBuf,
    fault: Option<&Fault>,
) -> Result<u64, Violation> {
    let _there_was_none = fs::remove_dir_all(data);
    faults.reset();
    if let Some(fault) = fault {
        faults.order(fault);
    }
    let mut command = arena.serve_command_at(data)?;
    let started = start(arena, faults.attach(small_memtables(&mut command), data), faults)?;
    let calls = total(faults);
    started.map_or(Ok(()), |server| super::terminate(arena, server))?;
    Ok(calls)
}

fn runs(arena: &Arena, faults: &FaultyDisk, tally: &mut Tally) -> Result<(), Violation> {
    let mut load = Load::new(arena, CLIENTS);
    let server = arena.start(small_memtables)?;
    load.prepare(&server.table)?;
    super::terminate(arena, server)?;
    run(arena, faults, None, &mut load, tally)?;
    let calls = total(faults);
    tally.peak("calls of a run", calls);
    for pass in turns(arena, calls) {
        let fault = fault(arena, pass);
        let what = format!("call {pass} of a run: {:?}", fault.action);
        told(run(arena, faults, Some(&fault), &mut load, tally), faults, &what)?;
        told(verify(arena, &mut load), faults, &what)?;
        tally.add("faults in runs", u64::from(faults.hits() > 0));
    }
    tally.merge(&load.tally());
    Ok(())
}

/// A start, some writes, and an orderly end.
fn run(
    arena: &Arena,
    faults: &FaultyDisk,
    fault: Option<&Fault>,
    load: &mut Load,
    tally: &mut Tally,
) -> Result<(), Violation> {
    faults.reset();
    if let Some(fault) = fault {
        faults.order(fault);
    }
    let mut command = arena.serve_command()?;
    let Some(server) =
        start(arena, faults.attach(small_memtables(&mut command), &arena.data()), faults)?
    else {
        tally.add("starts refused", 1);
        return Ok(());
    };
    write_until_hit(&server, faults, load, ERRAND)?;
    if let Some(fault) = fault.filter(|_| faults.hits() > 0)
        && let Ready::Full(_) = examine(&server, faults, fault, tally)?
    {
        wait_while_full(&server, tally)?;
    }
    super::terminate(arena, server)
}
