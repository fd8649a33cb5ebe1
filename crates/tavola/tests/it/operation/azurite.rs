//! Called by Azurite's names: its lines to the letter, as observed on 3.35.0, and nothing beside
//! them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use bytes::Bytes;
use http::Request;

use super::{read, wait_until};
use crate::common::client::Client;
use crate::common::{ACCOUNT, BINARY, free_port};

/// The binary under another name, with its outputs in files.
struct Azurite {
    folder: tempfile::TempDir,
    child: Child,
    port: u16,
}

fn command(folder: &Path, called: &str) -> Command {
    let link: PathBuf = folder.join(called);
    if !link.exists() {
        std::os::unix::fs::symlink(BINARY, &link).unwrap();
    }
    let mut command = Command::new(link);
    for (name, _) in super::tavola().get_envs() {
        command.env_remove(name);
    }
    command.env_remove("AZURITE_ACCOUNTS").env_remove("RUST_LOG").current_dir(folder);
    command
}

impl Azurite {
    fn start(called: &str, arguments: &[&str]) -> Self {
        // Azurite's lines name the port, so the server cannot pick one.
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let mut command = command(folder.path(), called);
        command
            .args(["--tablePort", &port.to_string()])
            .args(arguments)
            .env("TAVOLA_SERVER__ADMIN_PORT", "0");
        let file = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
        let child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
        let server = Self { folder, child, port };
        wait_until("it is listening", || server.out().contains("successfully"));
        server
    }

    fn out(&self) -> String {
        read(&self.folder.path().join("out"))
    }

    fn at(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn get(&self, path: &str) -> u16 {
        let request = Request::get(path).body(Bytes::new()).unwrap();
        Client::connect(&self.at()).unwrap().exchange(&request).unwrap().status().as_u16()
    }

    /// Standard output and error of the whole run.
    fn stop(mut self, signal: &str) -> (String, String, tempfile::TempDir) {
        Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(self.child.wait().unwrap().success());
        (self.out(), read(&self.folder.path().join("err")), self.folder)
    }
}

#[test]
fn start_up_and_closing_lines_are_azurites() {
    for (called, signal) in [("azurite", "-INT"), ("azurite-table", "-TERM")] {
        let server = Azurite::start(called, &["--silent"]);
        let at = server.at();
        Client::connect(&at).unwrap().create_table("table");
        assert_eq!(server.get(&format!("/{ACCOUNT}/Tables")), 401);
        let (out, err, _) = server.stop(signal);
        let [starting, started] = match called {
            "azurite" => ["is starting at http://", "is successfully listening at http://"],
            _ => ["is starting on ", "successfully started on "],
        };
        let expected = format!(
            "Azurite Table service {starting}{at}\nAzurite Table service {started}{at}\n\
             Azurite Table service is closing...\nAzurite Table service successfully closed\n"
        );
        assert_eq!(out, expected, "{called}");
        assert_eq!(err, "", "{called}: silent is silent");
    }
}

/// Standard output has the lines of requests in the common log format, and no JSON; standard error
/// only what is wrong.
#[test]
fn requests_are_logged_between_those_lines() {
    let server = Azurite::start("azurite-table", &[]);
    assert_eq!(server.get(&format!("/{ACCOUNT}/Tables")), 401);
    let (out, err, _) = server.stop("-INT");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 5, "{out}");
    // The line of the request is written beside the others, and may come after the first word about
    // closing.
    let request = lines[2..4].iter().find(|line| line.starts_with("127.0.0.1 - - ["));
    assert!(
        request.is_some_and(|line| line.contains("\"GET /devstoreaccount1/Tables HTTP/1.1\" 401 ")),
        "{out}"
    );
    assert_eq!(
        lines[4], "Azurite Table service successfully closed",
        "the access log is written before"
    );
    assert_eq!(err, "");
}

#[test]
fn the_debug_log_has_requests_and_errors() {
    let server = Azurite::start("azurite", &["--silent", "--debug", "deep/down/debug.log"]);
    Client::connect(&server.at()).unwrap().create_table("table");
    assert_eq!(server.get(&format!("/{ACCOUNT}/Tables?sig=topsecret")), 403);
    let (_, err, folder) = server.stop("-TERM");
    let log = read(&folder.path().join("deep/down/debug.log"));
    let line =
        |words: &[&str]| log.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(
        line(&["method=POST", "/devstoreaccount1/Tables", "status=201", "CreateTable"])
            || line(&["method=POST", "status=204", "CreateTable"]),
        "{log}"
    );
    assert!(
        line(&["method=GET", "sig=***", "status=403", "AuthenticationFailed", "reason"]),
        "{log}"
    );
    assert!(line(&["the request gets an error", "AuthenticationFailed", "is mandatory"]), "{log}");
    assert!(!log.contains("topsecret") && !log.lines().any(|line| line.starts_with('{')), "{log}");
    assert_eq!(err, "");
}

#[test]
fn a_version_that_scripts_compare() {
    let folder = tempfile::tempdir().unwrap();
    for (called, flag) in [("azurite", "-v"), ("azurite-table", "--version")] {
        let output = command(folder.path(), called).arg(flag).output().unwrap();
        assert!(output.status.success());
        let version = String::from_utf8(output.stdout).unwrap();
        let parts: Vec<u32> =
            version.trim_end().split('.').map(|part| part.parse().unwrap()).collect();
        assert!(parts.len() == 3 && parts[0] == 3, "{version}");
    }
}

/// Azurite has no such port, so a taken one must not keep a second emulator from starting; but it
/// was never told.
#[test]
fn a_taken_admin_port_is_told_in_words() {
    // If this fails, another process has the port: taken it is in any case.
    let _taken = TcpListener::bind("127.0.0.1:10003");
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path(), "azurite");
    command.args(["--tablePort", "0"]);
    let err = folder.path().join("err");
    let out = folder.path().join("out");
    command
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    wait_until("it is listening", || read(&out).contains("successfully"));
    let words = "127.0.0.1:10003 is in use by another process, so health and metrics are at http://127.0.0.1:";
    wait_until("it is told", || read(&err).contains(words));
    assert!(!read(&err).contains('{'), "{}", read(&err));
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(child.wait().unwrap().success());
}
