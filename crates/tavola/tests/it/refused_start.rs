//! A start that is refused changes no byte of the data folder, says which code it ends with, and
//! what to do.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::cli::{Done, run};
use crate::common::client::Client;
use crate::common::folder::{TABLE, content, copy, differences, engine_files, make};
use crate::common::stores::with_store;
use crate::common::{BINARY, RunningServer, tavola};
use tavola_core::{
    EdmValue, EntityGroupTransaction, EntityOperation, NewEntity, Properties, PropertyName,
};
use tavola_service::{Clock, SystemClock};
use tavola_store::Store;
use tavola_testkit::server_process::{Watchdog, serve_command};

/// A code for scripts: the folder must be looked at, or the machine must.
const DATA: i32 = 3;
const SYSTEM: i32 = 1;

/// Starts a server that must be refused, and compares everything in the folder before and after.
#[track_caller]
fn refused(
    what: &str,
    folder: &Path,
    code: i32,
    words: &[&str],
    with: impl FnOnce(&mut Command) -> &mut Command,
) {
    let before = content(folder);
    let done = ends(with(&mut serve_command(BINARY, folder)));
    let after = content(folder);
    assert_eq!(done.code, Some(code), "{what}: {done:?}");
    assert_eq!(differences(&before, &after), Vec::<PathBuf>::new(), "{what}: {}", done.stderr);
    for words in words {
        assert!(done.stderr.contains(words), "{what}: no «{words}» in {}", done.stderr);
    }
}

/// Runs a server that must end by itself; one that serves is ended after a while, so that the test
/// fails.
fn ends(command: &mut Command) -> Done {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdog = Watchdog::new(child.id(), Duration::from_secs(60));
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

fn overwrite(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

fn flip(file: &Path, at: usize) {
    overwrite(file, |bytes| bytes[at] ^= 0x10);
}

fn first(folder: &Path, part: &str) -> PathBuf {
    engine_files(folder, part)
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("no {part} in {}", folder.display()))
}

/// The log with writes that are nowhere else.
fn log(folder: &Path) -> PathBuf {
    let logs = engine_files(folder, ".log");
    logs.into_iter()
        .rfind(|log| fs::metadata(log).is_ok_and(|log| log.len() > 0))
        .expect("a log with writes")
}

type Damage = (&'static str, fn(&Path), &'static [&'static str]);

const DAMAGES: &[Damage] = &[
    ("the MANIFEST's first record", |folder| flip(&first(folder, "MANIFEST"), 9), &["MANIFEST"]),
    (
        "an empty MANIFEST",
        |folder| fs::write(first(folder, "MANIFEST"), "").unwrap(),
        &["MANIFEST"],
    ),
    ("no MANIFEST", |folder| fs::remove_file(first(folder, "MANIFEST")).unwrap(), &["CURRENT"]),
    (
        "CURRENT",
        |folder| fs::write(folder.join("store/CURRENT"), "MANIFEST-9").unwrap(),
        &["CURRENT"],
    ),
    ("no CURRENT", |folder| fs::remove_file(folder.join("store/CURRENT")).unwrap(), &["CURRENT"]),
    ("the log", |folder| flip(&log(folder), 40), &[".log"]),
    (
        "a cut log",
        |folder| overwrite(&log(folder), |bytes| bytes.truncate(bytes.len() / 2)),
        &["SYNCED"],
    ),
    ("no log", |folder| fs::remove_file(log(folder)).unwrap(), &[]),
    ("no table file", |folder| fs::remove_file(first(folder, ".sst")).unwrap(), &[".sst"]),
    (
        "a cut table file",
        |folder| overwrite(&first(folder, ".sst"), |bytes| bytes.truncate(100)),
        &[".sst"],
    ),
    ("no engine", |folder| fs::remove_dir_all(folder.join("store")).unwrap(), &["SYNCED"]),
    ("an empty engine", empty_engine, &["SYNCED"]),
    ("SYNCED", |folder| overwrite(&folder.join("SYNCED"), |bytes| bytes.fill(b'x')), &["SYNCED"]),
    ("TAVOLA", |folder| fs::write(folder.join("TAVOLA"), "tavola").unwrap(), &["TAVOLA"]),
];

fn empty_engine(folder: &Path) {
    fs::remove_dir_all(folder.join("store")).unwrap();
    fs::create_dir(folder.join("store")).unwrap();
}

/// A torn edit was cut off before the engine was asked, which then refused.
fn torn_edit_and_missing_file(folder: &Path) {
    overwrite(&first(folder, "MANIFEST"), |bytes| {
        bytes.extend_from_slice(&[1, 2, 3, 4, 0xdc, 0x05, 1]);
        for (length, byte) in [(300, 7), (1000, 0), (200, 7)] {
            bytes.resize(bytes.len() + length, byte);
        }
    });
    fs::remove_file(first(folder, ".sst")).unwrap();
}

#[test]
fn damage_is_refused_untouched() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    make(&base);
    let torn: Damage = ("a torn edit and a missing file", torn_edit_and_missing_file, &[".sst"]);
    for (number, (what, damage, words)) in DAMAGES.iter().chain([&torn]).enumerate() {
        let folder = home.path().join(format!("damaged-{number}"));
        copy(&base, &folder);
        damage(&folder);
        let path = folder.display().to_string();
        let advice =
            [path.as_str(), "is damaged", "Nothing was changed", "tavola check", "tavola repair"];
        refused(what, &folder, DATA, &[&advice, *words].concat(), |command| command);
    }
    assert_eq!(
        Client::connect(&RunningServer::start(&base).table).unwrap().read_all(TABLE).len(),
        360,
        "undamaged"
    );
}

#[test]
fn what_is_not_ours_or_in_use_is_refused_untouched() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    make(&data);
    let newer = home.path().join("newer");
    copy(&data, &newer);
    fs::write(newer.join("TAVOLA"), "tavola-format: 7\n").unwrap();
    refused(
        "a newer format",
        &newer,
        DATA,
        &["format 7", "use the version that wrote it"],
        |command| command,
    );
    let foreign = home.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.docx"), "chapter 1").unwrap();
    refused("a foreign folder", &foreign, DATA, &["thesis.docx"], |command| command);
    let file = home.path().join("file");
    fs::write(&file, "not a folder").unwrap();
    let done = ends(&mut serve_command(BINARY, &file));
    assert_eq!(
        (done.code, fs::read(&file).unwrap()),
        (Some(SYSTEM), b"not a folder".to_vec()),
        "{done:?}"
    );
    let server = RunningServer::start(&data);
    refused("a locked folder", &data, DATA, &["in use by another process"], |command| command);
    drop(server);
}

/// A copy that was cut short is refused before the engine may write.
#[test]
fn half_of_a_copy_is_refused_untouched() {
    let home = tempfile::tempdir().unwrap();
    let half = home.path().join("half");
    let address = tavola_service::migration::unfinished_copy_address();
    let property = |name: &str, value| (PropertyName::new(name).unwrap(), value);
    let properties = Properties::new(vec![
        property("Source", EdmValue::String("embedded:source".to_owned())),
        property("Rows", EdmValue::Int64(1)),
        property("Hash", EdmValue::Int64(1)),
    ]);
    let (partition_key, entity) = NewEntity::new(address.key, properties.unwrap()).unwrap();
    let mark = EntityGroupTransaction::single(partition_key, EntityOperation::Insert(entity));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    with_store(&half, |store| {
        runtime.block_on(store.commit(address.table, &mark, SystemClock.now())).unwrap().unwrap();
    });
    let words = ["unfinished copy of embedded:source", "tavola store copy"];
    refused("half of a copy", &half, DATA, &words, |command| command);
}

/// Runs as somebody who owns nothing here.
fn as_nobody(command: &Command) -> Command {
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    nobody.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nobody.env(name, value),
            None => nobody.env_remove(name),
        };
    }
    nobody
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn refuses_nobody(what: &str, folder: &Path, path: &Path) {
    let before = content(folder);
    let done: Done = ends(&mut as_nobody(&serve_command(BINARY, folder)));
    assert_eq!(done.code, Some(SYSTEM), "{what}: {done:?}");
    assert!(
        done.stderr.contains(&*path.to_string_lossy()),
        "{what}: {} is not named: {}",
        path.display(),
        done.stderr
    );
    assert!(done.stderr.contains("runs as user 65534"), "{what}: {}", done.stderr);
    assert_eq!(differences(&before, &content(folder)), Vec::<PathBuf>::new(), "{what}");
    let done = run(&mut as_nobody(tavola().arg("check").arg(folder)));
    assert_ne!(done.code, Some(DATA), "{what}: {done:?}");
    assert!(!done.stderr.contains("there is no data folder"), "{what}: {}", done.stderr);
}

/// These gave code 3, "cannot open", or "there is no data folder".
#[test]
fn files_of_others_are_the_machines_trouble() {
    if !is_root() {
        eprintln!("not tried: only root can make files of others");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    chmod(home.path(), 0o755);
    let base = home.path().join("base");
    make(&base);
    let everything = |folder: &Path, folder_mode: u32, file_mode: u32| {
        chmod(folder, folder_mode);
        for (path, bytes) in content(folder) {
            chmod(&path, if bytes.is_none() { folder_mode } else { file_mode });
        }
    };
    let scene = |name: &str, folder_mode: u32, file_mode: u32| {
        let folder = home.path().join(name);
        copy(&base, &folder);
        everything(&folder, folder_mode, file_mode);
        folder
    };
    let closed = scene("closed", 0o700, 0o600);
    refuses_nobody("a folder that nobody may enter", &closed, &closed);
    let readable = scene("readable", 0o755, 0o644);
    refuses_nobody("a folder that may only be read", &readable, &readable);
    for part in [".sst", ".log", "MANIFEST", "CURRENT"] {
        let folder = scene(&format!("one{part}"), 0o777, 0o666);
        let file = first(&folder, part);
        chmod(&file, 0o600);
        refuses_nobody(&format!("a closed {part}"), &folder, &file);
    }
    let folder = scene("mark", 0o777, 0o666);
    chmod(&folder.join("SYNCED"), 0o644);
    let before = content(&folder);
    let done = ends(&mut as_nobody(&serve_command(BINARY, &folder)));
    assert_eq!(
        (done.code, differences(&before, &content(&folder)).len()),
        (Some(SYSTEM), 0),
        "{done:?}"
    );
    assert!(done.stderr.contains("SYNCED"), "{}", done.stderr);
    let nowhere = home.path().join("closed/new");
    let done = ends(&mut as_nobody(&serve_command(BINARY, &nowhere)));
    assert_eq!(done.code, Some(SYSTEM), "{done:?}");
    assert!(
        done.stderr.contains("Permission denied") && done.stderr.contains("closed/new"),
        "{}",
        done.stderr
    );
}

/// A small file system in memory, gone with the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        if !is_mounted {
            eprintln!("not tried: no small file system can be mounted here, that needs root");
        }
        is_mounted.then(|| Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn remount(&self, mode: &str) {
        let done = Command::new("mount")
            .args(["-o", &format!("remount,{mode}")])
            .arg(self.path())
            .status()
            .unwrap();
        assert!(done.success());
    }

    fn fill(&self) {
        let mut ballast = File::create(self.path().join("ballast")).unwrap();
        while std::io::Write::write_all(&mut ballast, &[7; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn a_read_only_file_system_is_named() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let folder = disk.path().join("data");
    make(&folder);
    disk.remount("ro");
    let path = folder.display().to_string();
    refused("a read-only file system", &folder, SYSTEM, &[&path, "mounted read-only"], |command| {
        command
    });
    let nowhere = disk.path().join("new");
    let done = ends(&mut serve_command(BINARY, &nowhere));
    assert_eq!(done.code, Some(SYSTEM), "{done:?}");
    assert!(done.stderr.contains("Read-only file system"), "{}", done.stderr);
    disk.remount("rw");
}

#[test]
fn a_full_disk_is_called_full() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let folder = disk.path().join("data");
    make(&folder);
    // A log that was not closed holds room in reserve, which the next start gives back and then
    // has.
    let start = |folder: &Path| {
        RunningServer::start_with(folder, |command| command.env("TAVOLA_STORE__RESERVE_MB", "1"))
    };
    assert!(start(&folder).terminate().success());
    disk.fill();
    refused("a full disk", &folder, SYSTEM, &["is full", "Make room and start again"], |command| {
        command
    });
    // A first start on it leaves nothing that would look damaged later.
    let new = disk.path().join("new");
    let done = ends(&mut serve_command(BINARY, &new));
    assert_eq!(done.code, Some(SYSTEM), "{done:?}");
    assert!(done.stderr.contains("is full"), "{}", done.stderr);
    assert!(!new.exists(), "{:?}", content(&new).keys());
    fs::remove_file(disk.path().join("ballast")).unwrap();
    for folder in [&folder, &new] {
        assert!(start(folder).terminate().success());
    }
}

/// It said "choose another port".
#[test]
fn too_few_descriptors_are_named() {
    let home = tempfile::tempdir().unwrap();
    for limit in [8, 10, 14, 20, 40, 63] {
        let serve = serve_command(BINARY, &home.path().join("data"));
        let mut limited = Command::new("prlimit");
        limited
            .args([format!("--nofile={limit}:{limit}"), "--".to_owned()])
            .arg(serve.get_program())
            .args(serve.get_args());
        let child = limited.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // One that has enough of them serves, until it is killed.
        let _watchdog = Watchdog::new(child.id(), Duration::from_secs(10));
        let output = child.wait_with_output().unwrap();
        let (code, said) =
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        let is_named =
            said.contains("Too many open files") && !said.contains("choose another port");
        assert!(code.is_none() || (code == Some(SYSTEM) && is_named), "{limit}: {code:?} {said}");
    }
}

#[test]
fn a_port_in_use_makes_no_data_folder() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = home.path().join("data");
    for variable in ["TAVOLA_TABLE__PORT", "TAVOLA_SERVER__ADMIN_PORT"] {
        let mut command = tavola();
        command.args(["serve", "--location"]).arg(&folder);
        command
            .env("TAVOLA_TABLE__PORT", "0")
            .env("TAVOLA_SERVER__ADMIN_PORT", "0")
            .env(variable, &port);
        let done = run(&mut command);
        assert_eq!(done.code, Some(SYSTEM), "{done:?}");
        assert!(
            done.stderr.contains(&port) && done.stderr.contains("choose another port"),
            "{}",
            done.stderr
        );
        assert!(!folder.exists(), "{variable}");
    }
}
