//! Log files: made with their folders, and opened anew after somebody has moved them away.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{read, serve, wait_until};
use crate::common::client::Client;
use crate::common::{ACCOUNT, RunningServer};

/// The file of the documentation, which is what operators install.
const LOGROTATE: &str = include_str!("../../../../../docs/operations/logrotate.conf");

struct Logs {
    folder: tempfile::TempDir,
    server: RunningServer,
    log: PathBuf,
    access: PathBuf,
}

impl Logs {
    /// A server whose logs are in a folder that does not exist yet.
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tavola.toml");
        let text = "[store]\nkind = \"memory\"\n[log]\nfile = \"logs/deep/tavola.log\"\naccess_file = \"logs/deep/access.log\"\n";
        std::fs::write(&file, text).unwrap();
        let server = RunningServer::spawn(&mut serve(folder.path(), &file));
        let (log, access) = (
            folder.path().join("logs/deep/tavola.log"),
            folder.path().join("logs/deep/access.log"),
        );
        Self { folder, server, log, access }
    }

    fn request(&self, table: &str) {
        Client::connect(&self.server.table).unwrap().create_table(table);
    }

    /// One request for this table is in that file, and in no other.
    fn wait_for_lines(&self, file: &Path, tables: usize) {
        wait_until("the lines are there", || {
            read(file).matches("op=CreateTable").count() == tables
        });
    }
}

#[test]
fn a_log_that_was_moved_is_opened_anew() {
    for signal in ["-HUP", "-USR1"] {
        let logs = Logs::start();
        logs.request("one");
        logs.wait_for_lines(&logs.access, 1);
        let (old_log, old_access) =
            (logs.folder.path().join("log.1"), logs.folder.path().join("access.1"));
        std::fs::rename(&logs.log, &old_log).unwrap();
        std::fs::rename(&logs.access, &old_access).unwrap();
        logs.request("two");
        logs.wait_for_lines(&old_access, 2);
        logs.server.signal(signal);
        let word = if signal == "-HUP" { "configuration reloaded" } else { "log files reopened" };
        wait_until("the log goes on in a new file", || read(&logs.log).contains(word));
        wait_until("there is a new access log", || logs.access.exists());
        logs.request("three");
        logs.wait_for_lines(&logs.access, 1);
        assert_eq!(read(&old_access).matches("op=CreateTable").count(), 2);
        assert!(read(&old_log).contains("listening") && !read(&logs.log).contains("listening"));
    }
}

/// The documented file, with our paths and this server's process in it, carried out by logrotate
/// itself where there is one.
#[test]
fn the_documented_rotation_works() {
    let logs = Logs::start();
    logs.request("one");
    logs.wait_for_lines(&logs.access, 1);
    let signal = format!("kill -USR1 {}", logs.server.pid());
    let config = LOGROTATE
        .replace("/var/log/tavola/", &format!("{}/logs/deep/", logs.folder.path().display()))
        .replace("systemctl kill --signal=USR1 tavola.service", &signal);
    assert!(config.contains(&signal) && !config.contains("/var/log"), "{config}");
    let file = logs.folder.path().join("logrotate.conf");
    std::fs::write(&file, &config).unwrap();
    let state = logs.folder.path().join("state");
    let mut logrotate = Command::new("logrotate");
    logrotate.args(["--force", "--state"]).arg(&state).arg(&file).stdout(Stdio::null());
    // It refuses files that others can write to.
    Command::new("chmod").arg("600").arg(&file).status().unwrap();
    match logrotate.status() {
        Ok(status) => assert!(status.success(), "{config}"),
        Err(_not_installed) => {
            for log in [&logs.log, &logs.access] {
                std::fs::rename(log, format!("{}.1", log.display())).unwrap();
            }
            assert!(Command::new("sh").args(["-c", &signal]).status().unwrap().success());
        }
    }
    wait_until("there is a new access log", || logs.access.exists());
    wait_until("the log goes on", || read(&logs.log).contains("log files reopened"));
    logs.request("two");
    logs.wait_for_lines(&logs.access, 1);
    let rotated = PathBuf::from(format!("{}.1", logs.access.display()));
    assert!(read(&rotated).contains(&format!("/{ACCOUNT}/Tables")), "{}", read(&rotated));
}
