//! The power goes: everything that was not synced is lost, all of it or a random part. A
//! kill alone shows nothing of this, because the kernel keeps what a killed process wrote.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::lossy_disk::{Losses, LossyDisk};
use super::preload::{Action, Call, EIO, Fault, FaultyDisk, FileKind, LossyDiskRecorder};
use super::workload::{Load, Progress};
use super::{Arena, Campaign, Tally, Violation};
use tavola_testkit::server_process::ServerProcess;

const CLIENTS: usize = 8;
/// Losses of power in the life of one data folder.
const LIVES: usize = 5;
const ANSWERS_TIME_MAX: Duration = Duration::from_secs(5);

pub(super) const CAMPAIGN: Campaign = Campaign {
    name: "power",
    about: "SIGKILL under load, then everything that was not synced is thrown away; then every answer is compared",
    short_seeds: 4,
    needs_cluster: false,
    must_happen: &[],
    attack,
};

/// One data folder on a disk that loses power.
struct Machine<'a> {
    arena: &'a Arena,
    recorder: LossyDiskRecorder,
    faults: FaultyDisk,
    /// Holds the data folder, whose own name must survive too.
    root: PathBuf,
    memtable_kb: &'static str,
    sync: Duration,
}

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let mut rng = arena.rng(0);
    let machine = Machine {
        arena,
        recorder: LossyDiskRecorder::new(arena)?,
        faults: FaultyDisk::new(arena)?,
        root: arena.folder.join("disk"),
        memtable_kb: if rng.u8(..3) > 0 { "64" } else { "65536" },
        sync: Duration::from_micros(rng.u64(0..1500)),
    };
    machine.begin_anew()?;
    let mut tally = Tally::default();
    if arena.seed == 1 {
        machine.must_bite(&mut rng, &mut tally)?;
    }
    let mut load = Load::new(arena, CLIENTS);
    for life in 0..LIVES {
        machine.live(life, &mut load, &mut rng, &mut tally)?;
        while rng.u8(..3) == 0 {
            machine.fail_in_recovery(&mut rng, &mut tally)?;
        }
    }
    // The last comparison is on a disk that works.
    let server = arena.spawn(&mut machine.command()?)?;
    load.verify(&server.table)?;
    drop(server);
    tally.merge(&load.tally());
    Ok(tally)
}

impl Machine<'_> {
    fn command(&self) -> Result<Command, Violation> {
        let mut command = self.arena.serve_command_at(&self.root.join("data"))?;
        command.env("TAVOLA_STORE__MEMTABLE_KB", self.memtable_kb);
        Ok(command)
    }

    fn recorded_command(&self) -> Result<Command, Violation> {
        let mut command = self.command()?;
        self.recorder.attach(&mut command, &self.root, self.sync);
        self.faults.attach(&mut command, &self.root);
        Ok(command)
    }

    fn begin_anew(&self) -> Result<(), Violation> {
        let _there_was_none = fs::remove_dir_all(&self.root);
        fs::create_dir(&self.root)
            .map_err(|error| Violation::new(format!("cannot make the disk: {error}")))
    }

    /// A server whose log is not synced must be found out, or this campaign proves nothing.
    fn must_bite(&self, rng: &mut fastrand::Rng, tally: &mut Tally) -> Result<(), Violation> {
        let mut load = Load::new(self.arena, CLIENTS);
        let mut disk = LossyDisk::load(&self.root)?;
        self.faults.reset();
        let mut command = self.recorded_command()?;
        command.env("TAVOLA_STORE__MEMTABLE_KB", "65536").env("TAVOLA_LOSSY_DEAF", ".log");
        let server = self.arena.spawn(&mut command)?;
        load.prepare(&server.table)?;
        kill_after(server, &mut load, rng.usize(50..200), None, Duration::ZERO)?;
        disk.replay(&self.recorder.record()?)?;
        disk.lose_power(&mut Losses::All)?;
        let lost =
            self.arena.spawn(&mut self.command()?).and_then(|server| load.verify(&server.table));
        if lost.is_ok() {
            return Err(Violation::new("a server that does not sync its log was not found out"));
        }
        tally.add("servers that do not sync, found out", 1);
        self.begin_anew()
    }

    /// From one start to the loss of power.
    fn live(
        &self,
        life: usize,
        load: &mut Load,
        rng: &mut fastrand::Rng,
        tally: &mut Tally,
    ) -> Result<(), Violation> {
        let disk = LossyDisk::load(&self.root)?;
        self.faults.reset();
        let server = self.arena.spawn(&mut self.recorded_command()?)?;
        if life == 0 {
            load.prepare(&server.table)?;
        } else {
            load.verify(&server.table)?;
        }
        if rng.u8(..4) == 0 {
            self.faults.order(&failing_sync(rng));
        }
        let (answers, later) = (rng.usize(1..400), Duration::from_micros(rng.u64(0..10_000)));
        let drops = (rng.u8(..6) == 0).then(|| rng.usize(2..40));
        kill_after(server, load, answers, drops, later)?;
        tally.add("syncs that failed before", u64::from(self.faults.hits() > 0));
        self.lose_power(disk, &self.recorder.record()?, rng, tally)
    }

    /// A start that is cut off by the loss of power.
    fn fail_in_recovery(
        &self,
        rng: &mut fastrand::Rng,
        tally: &mut Tally,
    ) -> Result<(), Violation> {
        let disk = LossyDisk::load(&self.root)?;
        self.faults.reset();
        let mut command = self.recorded_command()?;
        let child = command.stdout(Stdio::null()).spawn();
        let mut child = child
            .map_err(|error| Violation::new(format!("the server cannot be started: {error}")))?;
        thread::sleep(Duration::from_micros(rng.u64(0..60_000)));
        let killed = child.kill().and_then(|()| child.wait());
        killed.map_err(|error| Violation::new(format!("the server cannot be killed: {error}")))?;
        tally.add("in recovery", 1);
        // A start that was killed at once has recorded nothing.
        self.lose_power(disk, &self.recorder.record().unwrap_or_default(), rng, tally)
    }

    fn lose_power(
        &self,
        mut disk: LossyDisk,
        record: &[u8],
        rng: &mut fastrand::Rng,
        tally: &mut Tally,
    ) -> Result<(), Violation> {
        disk.replay(record)?;
        let loses_all = rng.bool();
        disk.lose_power(&mut if loses_all { Losses::All } else { Losses::Some(rng) })?;
        tally.add("losses of power", 1);
        tally.add("losses of everything not synced", u64::from(loses_all));
        tally.add("syncs", disk.syncs);
        Ok(())
    }
}

/// SIGKILL after so many answers, and a little later; a large table may come and go meanwhile.
fn kill_after(
    server: ServerProcess,
    load: &mut Load,
    answers: usize,
    drops: Option<usize>,
    later: Duration,
) -> Result<(), Violation> {
    let authority = server.table.clone();
    let progress = &Progress::default();
    thread::scope(|scope| {
        scope.spawn(move || {
            progress.wait_for(answers, ANSWERS_TIME_MAX);
            thread::sleep(later);
            server.kill();
            progress.stop();
        });
        match drops {
            None => load.write(&authority, progress),
            Some(batches) => load.write_and_drop(&authority, progress, batches),
        }
    })
}

/// A sync that fails, after which the bytes that it should have written are gone.
fn failing_sync(rng: &mut fastrand::Rng) -> Fault {
    let files = match rng.u8(..4) {
        0 => vec![FileKind::Log],
        1 => vec![FileKind::Table],
        2 => vec![FileKind::Manifest],
        _ => FileKind::ALL.to_vec(),
    };
    Fault {
        calls: vec![Call::Fsync, Call::Fdatasync],
        files,
        pass: rng.u64(0..40),
        action: Action::Fail(EIO),
        for_ever: false,
    }
}
