//! A small file system that is full: writes are refused with the reason, reads go on, and when
//! there is room again the server takes writes by itself.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tavola_core::{EntityOperation, Precondition, TableRequest};
use tavola_protocol::table::decode::Decoded;

use super::super::author::SHARED;
use super::super::workload::{Load, Progress};
use super::super::{Arena, Tally, Violation};
use super::{
    Ready, connect, must_not_write, must_read, must_write, ready, remove_probe, terminate,
    wait_until_ready,
};
use tavola_testkit::client::{entity_key, insert, name};
use tavola_testkit::server_process::{EndedEarly, ServerProcess};

const MIB: u64 = 1024 * 1024;
const SIZE_MIB: u64 = 96;
const RESERVE_MIB: u64 = 16;
const CLIENTS: usize = 4;
const ATTEMPTS_MAX: usize = 20;
const FILL_TIME_MAX: Duration = Duration::from_secs(60);
const KEPT: &str = "probe/kept";

pub(super) fn attack(arena: &Arena, tally: &mut Tally) -> Result<(), Violation> {
    let Some(disk) = SmallDisk::mount(&arena.folder.join("small")) else {
        println!(
            "disk: no small file system can be mounted here (that needs root), so no full disk is tried"
        );
        tally.add("full disks not tried", 1);
        return Ok(());
    };
    let mut load = Load::new(arena, CLIENTS);
    // What servers on other disks said is no matter here.
    fs::write(arena.log(), "")
        .map_err(|error| Violation::new(format!("cannot empty the log: {error}")))?;
    reserve_is_kept(arena, &disk, &mut load)?;
    engine_meets_the_end(arena, &disk, &mut load)?;
    start_on_a_full_disk(arena, &disk, &mut load)?;
    tally.add("full disks", 3);
    tally.merge(&load.tally());
    Ok(())
}

/// The first line: writes are refused while there is still room for the engine.
fn reserve_is_kept(arena: &Arena, disk: &SmallDisk, load: &mut Load) -> Result<(), Violation> {
    let server = arena.spawn(&mut disk.command(arena, RESERVE_MIB)?)?;
    load.prepare(&server.table)?;
    must_write(&server)?;
    let kept = insert(KEPT, 1);
    write(&server, kept.0.clone(), kept.1)?;
    disk.leave_free(RESERVE_MIB * MIB + 4 * MIB)?;
    write_until_full(&server, load)?;
    disk.must_be_full(&server, RESERVE_MIB * MIB * 3 / 4)?;
    // What makes room is still let in.
    write(
        &server,
        kept.0,
        EntityOperation::Delete(entity_key(KEPT).row_key, Precondition::Exists),
    )?;
    disk.must_be_full(&server, RESERVE_MIB * MIB / 4)?;
    disk.leave_all_free()?;
    wait_until_ready(&server)?;
    must_write(&server)?;
    load.verify(&server.table)?;
    terminate(arena, server)?;
    let said = fs::read_to_string(arena.log()).unwrap_or_default();
    if !said.contains("the store refuses writes") || said.contains("the store stops taking writes")
    {
        return Err(Violation::new(format!("the log of a full disk: {}", arena.last_words())));
    }
    Ok(())
}

/// The second line: without a reserve the engine runs out of space, and recovers.
fn engine_meets_the_end(arena: &Arena, disk: &SmallDisk, load: &mut Load) -> Result<(), Violation> {
    let server = arena.spawn(&mut disk.command(arena, 0)?)?;
    load.verify(&server.table)?;
    disk.leave_free(2 * MIB)?;
    write_until_full(&server, load)?;
    disk.must_be_full(&server, 0)?;
    disk.leave_all_free()?;
    wait_until_ready(&server)?;
    must_write(&server)?;
    // What was in doubt is settled now, and must stay so.
    load.verify(&server.table)?;
    let (authority, progress) = (server.table.clone(), &Progress::default());
    thread::scope(|scope| {
        scope.spawn(move || {
            progress.wait_for(50, Duration::from_secs(5));
            server.kill();
            progress.stop();
        });
        load.write(&authority, progress)
    })?;
    let server = arena.spawn(&mut disk.command(arena, 0)?)?;
    load.verify(&server.table)?;
    terminate(arena, server)
}

/// It says what to do, and does no harm.
fn start_on_a_full_disk(arena: &Arena, disk: &SmallDisk, load: &mut Load) -> Result<(), Violation> {
    let server = arena.spawn(&mut disk.command(arena, 0)?)?;
    let progress = Progress::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            progress.wait_for(200, Duration::from_secs(5));
            progress.stop();
        });
        load.write(&server.table, &progress)
    })?;
    server.kill();
    disk.leave_free(0)?;
    match ServerProcess::spawn(&mut disk.command(arena, 0)?) {
        Ok(server) => drop(server),
        Err(EndedEarly { status, .. }) => {
            super::check_end(arena, status)?;
            let said = arena.last_words();
            if !said.contains("is full") || !said.contains("Make room and start again") {
                return Err(Violation::new(format!("a start on a full disk said: {said}")));
            }
        }
    }
    disk.leave_all_free()?;
    let server = arena.spawn(&mut disk.command(arena, RESERVE_MIB)?)?;
    load.verify(&server.table)?;
    terminate(arena, server)
}

/// Clients write until `/ready` says that the disk is full, and some more.
fn write_until_full(server: &ServerProcess, load: &mut Load) -> Result<(), Violation> {
    let progress = &Progress::default();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let begun = Instant::now();
            let said = loop {
                match ready(server) {
                    Ok(Ready::Yes) if begun.elapsed() < FILL_TIME_MAX => {
                        thread::sleep(Duration::from_millis(5))
                    }
                    said => break said,
                }
            };
            // Readers go on, writers are turned away.
            progress.wait_for(progress.answered() + 40, Duration::from_secs(3));
            progress.stop();
            said
        });
        load.write(&server.table, progress)?;
        match waiting.join().map_err(|_| Violation::new("the watch over /ready panicked"))?? {
            Ready::Full(_) => Ok(()),
            other => {
                Err(Violation::new(format!("the disk should be full, and /ready says {other:?}")))
            }
        }
    })
}

fn write(
    server: &ServerProcess,
    partition_key: tavola_core::PartitionKey,
    operation: EntityOperation,
) -> Result<(), Violation> {
    let request = TableRequest::Write(name(SHARED), partition_key, operation);
    match connect(&server.table)?.ask(&request) {
        Ok(Ok(Decoded::Done(_))) => Ok(()),
        other => Err(Violation::new(format!("{request:?} is answered {other:?}"))),
    }
}

/// A file system in memory, with a file that takes what room there is.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// `None` if this process may not make one.
    fn mount(folder: &Path) -> Option<Self> {
        fs::create_dir_all(folder).ok()?;
        let size = format!("size={SIZE_MIB}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder).output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then(|| Self { folder: folder.to_owned() })
    }

    fn command(&self, arena: &Arena, reserve_mib: u64) -> Result<Command, Violation> {
        let mut command = arena.serve_command_at(&self.folder.join("data"))?;
        command.env("TAVOLA_STORE__MEMTABLE_KB", "1024");
        command.env("TAVOLA_STORE__RESERVE_MB", reserve_mib.to_string());
        Ok(command)
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    fn leave_all_free(&self) -> Result<(), Violation> {
        fs::remove_file(self.ballast())
            .map_err(|error| Violation::new(format!("cannot make room: {error}")))
    }

    /// Takes room until only so much is left, or gives some back.
    fn leave_free(&self, bytes: u64) -> Result<(), Violation> {
        let cannot = |error| Violation::new(format!("cannot fill the disk: {error}"));
        let mut ballast =
            File::options().create(true).append(true).open(self.ballast()).map_err(cannot)?;
        let free = self.free_bytes()?;
        if free < bytes {
            let length = ballast.metadata().map_err(cannot)?.len();
            return ballast.set_len(length.saturating_sub(bytes - free)).map_err(cannot);
        }
        let mut left = free - bytes;
        while left > 0 {
            let chunk = vec![0; left.min(MIB) as usize];
            match ballast.write(&chunk) {
                Ok(written) => left -= written as u64,
                // The server writes, too.
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                Err(error) => return Err(cannot(error)),
            }
        }
        Ok(())
    }

    /// Takes room until the server says that there is none; then what it says must be what it does.
    /// The engine may give room back at any time, because it tidies up; then some more is taken.
    fn must_be_full(&self, server: &ServerProcess, bytes: u64) -> Result<(), Violation> {
        for _ in 0..ATTEMPTS_MAX {
            self.leave_free(bytes)?;
            let Ready::Full(reason) = ready(server)? else { continue };
            let answer = must_not_write(server, &reason);
            must_read(&mut connect(&server.table)?)?;
            match answer {
                Ok(text) if text.contains("disk is full") => return Ok(()),
                Ok(text) => {
                    return Err(Violation::new(format!("a client on a full disk is told: {text}")));
                }
                Err(_) => remove_probe(server)?,
            }
        }
        Err(Violation::new(format!("with {bytes} bytes left on the disk the server takes writes")))
    }

    /// As `df` counts it.
    fn free_bytes(&self) -> Result<u64, Violation> {
        let output = Command::new("df")
            .args(["--block-size=1", "--output=avail"])
            .arg(&self.folder)
            .output();
        let output = output.map_err(|error| Violation::new(format!("cannot run df: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
        number.ok_or_else(|| Violation::new(format!("df said {text:?}")))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that was not asked to end still has its files open.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.folder).output();
    }
}
