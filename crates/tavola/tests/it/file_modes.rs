//! Files are their owner's alone, whatever the umask says, and nothing is written through links.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::cli::{Done, in_folder, run};
use crate::common::client::Client;
use crate::common::{BINARY, RunningServer};

const SERVE: [&str; 8] =
    ["serve", "--table-port", "0", "--admin-port", "0", "--location", "data", "--log-file=log"];

/// `tavola` in `folder`, started by a shell that would let everybody do everything.
fn with_open_umask(folder: &Path, arguments: &[&str]) -> Command {
    let plain = in_folder(folder);
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 000; exec \"$0\" \"$@\"", BINARY])
        .args(arguments)
        .current_dir(folder);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A folder and everything below it.
fn all(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.extend(if path.is_dir() { all(&path) } else { vec![path] });
    }
    found
}

#[track_caller]
fn assert_private(folder: &Path) {
    for path in all(folder) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[track_caller]
fn write_rows(server: &RunningServer) {
    let mut client = Client::connect(&server.table).unwrap();
    client.create_table("rows");
}

#[test]
fn what_is_written_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = RunningServer::spawn(&mut with_open_umask(folder.path(), &SERVE));
    write_rows(&server);
    assert_private(&data);
    assert_eq!(mode(&folder.path().join("log")), 0o600);
    assert!(server.terminate().success());
    let again = RunningServer::spawn(&mut with_open_umask(folder.path(), &SERVE));
    write_rows(&again);
    assert_private(&data);
    assert!(again.terminate().success());
    let copied = ["store", "copy", "--from", "embedded:data", "--to", "embedded:copy"];
    assert_eq!(run(&mut with_open_umask(folder.path(), &copied)).code, Some(0));
    assert_private(&folder.path().join("copy"));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!log.contains("others could use"), "{log}");
}

/// A folder of an earlier version, which wrote by the umask.
#[test]
fn an_open_folder_is_closed_and_that_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    assert!(RunningServer::spawn(in_folder(folder.path()).args(SERVE)).terminate().success());
    for path in all(&data) {
        let open = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(open)).unwrap();
    }
    let doctor = || doctor(folder.path());
    let found = doctor().stdout;
    assert!(
        found.lines().any(|line| line.starts_with("warn  data folder: other users can access")),
        "{found}"
    );
    assert_eq!(run(in_folder(folder.path()).args(["check", "data"])).code, Some(0));
    assert_eq!(mode(&data), 0o755, "a check changes nothing");
    for _ in 0..2 {
        let server = RunningServer::spawn(in_folder(folder.path()).args(SERVE));
        assert_private(&data);
        assert!(server.terminate().success());
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log.matches("others could use files of the data folder").count(), 1, "{log}");
    let found = doctor().stdout;
    assert!(
        found
            .lines()
            .any(|line| line.starts_with("ok    data folder: only its owner can access data")),
        "{found}"
    );
}

fn doctor(folder: &Path) -> Done {
    let ports = [("TAVOLA_TABLE__PORT", "0"), ("TAVOLA_SERVER__ADMIN_PORT", "0")];
    run(in_folder(folder).arg("doctor").env("TAVOLA_STORE__LOCATION", "data").envs(ports))
}

/// Each name that is written, as a link to a file of somebody else's.
#[test]
fn nothing_is_written_through_links() {
    let folder = tempfile::tempdir().unwrap();
    let (data, target) = (folder.path().join("data"), folder.path().join("target"));
    assert!(RunningServer::spawn(in_folder(folder.path()).args(SERVE)).terminate().success());
    let engine_file = |start: &str| {
        let is_it = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(start);
        all(&data.join("store")).into_iter().find(is_it).unwrap()
    };
    let names = ["LOG", "CURRENT", "MANIFEST", "IDENTITY", "LOCK"].map(engine_file);
    for path in
        names.into_iter().chain([data.join("TAVOLA"), data.join("SYNCED"), data.join("store")])
    {
        let kept = folder.path().join("kept");
        std::fs::rename(&path, &kept).unwrap();
        if kept.is_dir() {
            std::fs::create_dir(&target).unwrap();
        } else {
            std::fs::copy(&kept, &target).unwrap();
        }
        let before = content(&target);
        symlink(&target, &path).unwrap();
        let done = run(in_folder(folder.path()).args(SERVE));
        assert_eq!(done.code, Some(3), "{} {done:?}", path.display());
        let named = Path::new("data").join(path.strip_prefix(&data).unwrap());
        assert!(
            done.stderr.contains(&format!("{} is a symbolic link", named.display())),
            "{done:?}"
        );
        assert_eq!(content(&target), before, "{}", path.display());
        let found = doctor(folder.path()).stdout;
        assert!(
            found
                .lines()
                .any(|line| line.starts_with("fail  data folder:") && line.contains("link")),
            "{found}"
        );
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&kept, &path).unwrap();
        if target.is_dir() { std::fs::remove_dir(&target) } else { std::fs::remove_file(&target) }
            .unwrap();
    }
    assert!(RunningServer::spawn(in_folder(folder.path()).args(SERVE)).terminate().success());
}

/// The bytes of a file, or how much is in a folder.
fn content(path: &Path) -> Vec<u8> {
    if path.is_dir() {
        all(path).len().to_le_bytes().to_vec()
    } else {
        std::fs::read(path).unwrap()
    }
}

/// Left by somebody who may write where the data folder is going to be.
#[test]
fn an_unfinished_marker_is_no_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let (data, target) = (folder.path().join("data"), folder.path().join("target"));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(&target, "precious").unwrap();
    symlink(&target, data.join("TAVOLA.new")).unwrap();
    symlink(&target, data.join("SYNCED.new")).unwrap();
    let done = run(in_folder(folder.path()).args(SERVE));
    assert_ne!(done.code, Some(0), "{done:?}");
    std::fs::remove_file(data.join("SYNCED.new")).unwrap();
    assert!(RunningServer::spawn(in_folder(folder.path()).args(SERVE)).terminate().success());
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    assert_private(&data);
}

/// The folder as a whole may lie elsewhere: its owner says so.
#[test]
fn the_folder_itself_may_be_a_link() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    symlink("disk", folder.path().join("data")).unwrap();
    let server = RunningServer::spawn(in_folder(folder.path()).args(SERVE));
    write_rows(&server);
    assert_private(&folder.path().join("disk"));
}

#[test]
fn readable_keys_and_certificates_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert_eq!(run(in_folder(folder.path()).args(["account", "add", "shop"])).code, Some(0));
    assert_eq!(run(in_folder(folder.path()).arg("cert")).code, Some(0));
    let open = |name: &str, mode: u32| {
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open("tavola-accounts/shop.toml", 0o644);
    open("tavola-key.pem", 0o640);
    open("tavola-cert.pem", 0o666);
    let mut command = in_folder(folder.path());
    command.args(SERVE).args(["--tls-cert", "tavola-cert.pem", "--tls-key", "tavola-key.pem"]);
    let _server = RunningServer::spawn(&mut command);
    let log = std::fs::read_to_string(path("log")).unwrap();
    assert!(
        log.contains("shop.toml contains keys, and other users can read it (mode 644)"),
        "{log}"
    );
    assert!(log.contains("the private key can be read by others"), "{log}");
    let tls = [("TAVOLA_TLS__CERT", "tavola-cert.pem"), ("TAVOLA_TLS__KEY", "tavola-key.pem")];
    let ports = [("TAVOLA_TABLE__PORT", "0"), ("TAVOLA_SERVER__ADMIN_PORT", "0")];
    let found = run(in_folder(folder.path()).arg("doctor").envs(tls).envs(ports)).stdout;
    for words in [
        "warn  keys: tavola-accounts/shop.toml contains keys, and other users can read it (mode 644)",
        "warn  key: other users can read the private key in tavola-key.pem",
        "warn  certificate: other users can replace the certificate in tavola-cert.pem",
    ] {
        assert!(found.lines().any(|line| line.starts_with(words)), "no «{words}» in\n{found}");
    }
}
