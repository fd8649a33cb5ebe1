//! Libraries that are preloaded into a server: a disk that fails, one that forgets, and a clock
//! that somebody sets.
//!
//! They are C, because they replace functions of the C library; each says at its top what it
//! does. They are compiled when a campaign needs them, by the compiler that compiled the engine.
//! Numbers in files that they share with us are in the order of the machine, and all machines that
//! the engine is built for are little endian.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Arena, Violation};

const FAULTY_DISK: &str = include_str!("../preload/faulty_disk.c");
const LOSSY_DISK: &str = include_str!("../preload/lossy_disk.c");
const SHIFTED_CLOCK: &str = include_str!("../preload/shifted_clock.c");

/// Compiles a library into the folder of an attack.
fn compile(arena: &Arena, name: &str, source: &str) -> Result<PathBuf, Violation> {
    let (c, library) =
        (arena.folder.join(format!("{name}.c")), arena.folder.join(format!("{name}.so")));
    fs::write(&c, source)
        .map_err(|error| Violation::new(format!("cannot write {}: {error}", c.display())))?;
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(&library)
        .arg(&c)
        .arg("-ldl")
        .output();
    match compiled {
        Ok(output) if output.status.success() => Ok(library),
        Ok(output) => {
            Err(Violation::new(format!("cc: {}", String::from_utf8_lossy(&output.stderr))))
        }
        Err(error) => Err(Violation::new(format!(
            "cannot run cc ({error}), which compiles the libraries of this campaign: install a C compiler (package gcc)"
        ))),
    }
}

/// Adds a library in front of those that a command preloads already.
fn preload(command: &mut Command, library: &Path) {
    let others =
        command.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, value)| value);
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others {
        all.push(":");
        all.push(others);
    }
    command.env("LD_PRELOAD", all);
}

/// What can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
#[allow(missing_docs, reason = "each is a call of the C library")]
pub(super) enum Call {
    Write,
    Pwrite,
    Writev,
    Fsync,
    Fdatasync,
    SyncFileRange,
    Rename,
    Ftruncate,
    Fallocate,
    Open,
    Unlink,
    Close,
}

impl Call {
    /// All of them, in the order of `faulty_disk.c`.
    pub(super) const ALL: [Self; 12] = [
        Self::Write,
        Self::Pwrite,
        Self::Writev,
        Self::Fsync,
        Self::Fdatasync,
        Self::SyncFileRange,
        Self::Rename,
        Self::Ftruncate,
        Self::Fallocate,
        Self::Open,
        Self::Unlink,
        Self::Close,
    ];
}

/// On which files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub(super) enum FileKind {
    /// The engine's write-ahead logs.
    Log = 1,
    /// Its table files.
    Table,
    /// Its record of files.
    Manifest,
    /// CURRENT, OPTIONS, IDENTITY, and our marker.
    Small,
    /// Its text log.
    Info,
    /// Folders.
    Folder,
    /// The rest.
    Other,
}

impl FileKind {
    /// All of them, in the order of `faulty_disk.c`.
    pub(super) const ALL: [Self; 7] = [
        Self::Log,
        Self::Table,
        Self::Manifest,
        Self::Small,
        Self::Info,
        Self::Folder,
        Self::Other,
    ];
    /// With the files that are not ours.
    const COUNT: u64 = Self::ALL.len() as u64 + 1;
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// It fails with this errno.
    Fail(i32),
    /// It writes a half, and says so.
    Shorten,
    /// It writes a half, and the next one fails with this errno.
    Tear(i32),
    /// It comes later.
    Delay(Duration),
}

/// Errors of disks, as Linux numbers them.
pub(super) const EINTR: i32 = 4;
/// Input or output error.
pub(super) const EIO: i32 = 5;
/// No space left.
pub(super) const ENOSPC: i32 = 28;

/// A fault that is ordered.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    /// Which calls are meant.
    pub(super) calls: Vec<Call>,
    /// On which files.
    pub(super) files: Vec<FileKind>,
    /// So many of them are left alone first.
    pub(super) pass: u64,
    /// What happens to the next one.
    pub(super) action: Action,
    /// And to all after it.
    pub(super) for_ever: bool,
}

impl Fault {
    /// Nothing fails by it.
    pub(super) fn is_harmless(&self) -> bool {
        matches!(self.action, Action::Delay(_) | Action::Shorten)
    }
}

/// A disk that fails on demand, while the server runs.
#[derive(Debug)]
pub(super) struct FaultyDisk {
    library: PathBuf,
    path: PathBuf,
    control: File,
}

// The cells of `faulty_disk.c`.
const CALL_MASK: u64 = 0;
const FILE_MASK: u64 = 1;
const PASS: u64 = 2;
const ACTION: u64 = 3;
const ERROR: u64 = 4;
const FOR_EVER: u64 = 5;
const DELAY_MS: u64 = 6;
const MATCHED: u64 = 7;
const HITS: u64 = 8;
const HIT_CALL: u64 = 9;
const HIT_FILE: u64 = 10;
const COUNTS: u64 = 16;
const CELLS: usize = 512;

impl FaultyDisk {
    /// A disk without a fault.
    ///
    /// # Errors
    /// If the library cannot be compiled.
    pub(super) fn new(arena: &Arena) -> Result<Self, Violation> {
        let library = compile(arena, "faulty_disk", FAULTY_DISK)?;
        let path = arena.folder.join("faulty_disk.control");
        let control = new_file(&path, &[0; 8 * CELLS])?;
        Ok(Self { library, path, control })
    }

    /// Puts it under a server's folder.
    pub(super) fn attach<'a>(&self, command: &'a mut Command, root: &Path) -> &'a mut Command {
        preload(command, &self.library);
        command.env("TAVOLA_DISK_ROOT", root).env("TAVOLA_DISK_CONTROL", &self.path)
    }

    /// Counts from zero again, without a fault.
    pub(super) fn reset(&self) {
        self.control.write_all_at(&[0; 8 * CELLS], 0).expect("the control file can be written");
    }

    /// Orders a fault; calls are counted from now.
    pub(super) fn order(&self, fault: &Fault) {
        self.set(CALL_MASK, 0);
        let (action, error, delay) = match fault.action {
            Action::Fail(error) => (0, error, Duration::ZERO),
            Action::Shorten => (1, 0, Duration::ZERO),
            Action::Tear(error) => (2, error, Duration::ZERO),
            Action::Delay(time) => (3, 0, time),
        };
        self.set(FILE_MASK, fault.files.iter().map(|file| 1 << *file as u64).sum());
        self.set(PASS, fault.pass);
        self.set(ACTION, action);
        self.set(ERROR, u64::from(error.unsigned_abs()));
        self.set(FOR_EVER, u64::from(fault.for_ever));
        self.set(DELAY_MS, delay.as_millis() as u64);
        self.set(MATCHED, 0);
        self.set(HITS, 0);
        // Last: this arms it.
        self.set(CALL_MASK, fault.calls.iter().map(|call| 1 << *call as u64).sum());
    }

    /// The disk is well again.
    pub(super) fn heal(&self) {
        self.set(CALL_MASK, 0);
    }

    /// How many calls were hit by the fault.
    #[must_use]
    pub(super) fn hits(&self) -> u64 {
        self.get(HITS)
    }

    /// What was hit last.
    #[must_use]
    pub(super) fn last_hit(&self) -> Option<(Call, FileKind)> {
        let (call, file) = (self.get(HIT_CALL), self.get(HIT_FILE));
        let call = Call::ALL.into_iter().find(|known| *known as u64 == call)?;
        let file = FileKind::ALL.into_iter().find(|known| *known as u64 == file)?;
        (self.hits() > 0).then_some((call, file))
    }

    /// How often a call was made on files of a kind.
    #[must_use]
    pub(super) fn count(&self, call: Call, file: FileKind) -> u64 {
        self.get(COUNTS + call as u64 * FileKind::COUNT + file as u64)
    }

    /// Calls that were made, with their number.
    #[must_use]
    pub(super) fn counts(&self) -> Vec<(Call, FileKind, u64)> {
        let pairs = Call::ALL.into_iter().flat_map(|call| FileKind::ALL.map(|file| (call, file)));
        let counted = pairs.map(|(call, file)| (call, file, self.count(call, file)));
        counted.filter(|(.., count)| *count > 0).collect()
    }

    fn get(&self, cell: u64) -> u64 {
        let mut bytes = [0; 8];
        self.control.read_exact_at(&mut bytes, 8 * cell).expect("the control file can be read");
        u64::from_le_bytes(bytes)
    }

    fn set(&self, cell: u64, value: u64) {
        self.control
            .write_all_at(&value.to_le_bytes(), 8 * cell)
            .expect("the control file can be written");
    }
}

/// The half of a lossy disk that runs inside the server: it writes the record.
#[derive(Debug)]
pub(super) struct LossyDiskRecorder {
    library: PathBuf,
    record: PathBuf,
}

impl LossyDiskRecorder {
    /// A recorder without a record.
    ///
    /// # Errors
    /// If the library cannot be compiled.
    pub(super) fn new(arena: &Arena) -> Result<Self, Violation> {
        let library = compile(arena, "lossy_disk", LOSSY_DISK)?;
        Ok(Self { library, record: arena.folder.join("lossy_disk.record") })
    }

    /// Puts it under a server's folder, with a new record.
    pub(super) fn attach<'a>(
        &self,
        command: &'a mut Command,
        root: &Path,
        sync: Duration,
    ) -> &'a mut Command {
        let _there_was_none = fs::remove_file(&self.record);
        preload(command, &self.library);
        command
            .env("TAVOLA_LOSSY_ROOT", root)
            .env("TAVOLA_LOSSY_RECORD", &self.record)
            .env("TAVOLA_LOSSY_SYNC_US", sync.as_micros().to_string())
    }

    /// What was recorded.
    ///
    /// # Errors
    /// If there is no record: then nothing was tested.
    pub(super) fn record(&self) -> Result<Vec<u8>, Violation> {
        fs::read(&self.record)
            .map_err(|error| Violation::new(format!("no record of the lossy disk: {error}")))
    }
}

/// A clock that is set while the server runs.
#[derive(Debug)]
pub struct ShiftedClock {
    library: PathBuf,
    path: PathBuf,
    shift: File,
}

impl ShiftedClock {
    /// A clock that shows the time of this machine.
    ///
    /// # Errors
    /// If the library cannot be compiled.
    pub fn new(arena: &Arena) -> Result<Self, Violation> {
        Self::named(arena, "shifted_clock")
    }

    /// The same, where an attack has several.
    ///
    /// # Errors
    /// If the library cannot be compiled.
    pub(super) fn named(arena: &Arena, name: &str) -> Result<Self, Violation> {
        let library = compile(arena, name, SHIFTED_CLOCK)?;
        let path = arena.folder.join(format!("{name}.shift"));
        let shift = new_file(&path, &[0; 8])?;
        Ok(Self { library, path, shift })
    }

    /// Gives it to a server.
    pub fn attach<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        preload(command, &self.library);
        command.env("TAVOLA_CLOCK_SHIFT", &self.path)
    }

    /// Sets it so many seconds before or after the time of this machine.
    pub fn set(&self, seconds: i64) {
        let nanoseconds = seconds.saturating_mul(1_000_000_000);
        self.shift.write_all_at(&nanoseconds.to_le_bytes(), 0).expect("the clock can be set");
    }
}

fn new_file(path: &Path, content: &[u8]) -> Result<File, Violation> {
    let file =
        fs::write(path, content).and_then(|()| File::options().read(true).write(true).open(path));
    file.map_err(|error| Violation::new(format!("cannot make {}: {error}", path.display())))
}
