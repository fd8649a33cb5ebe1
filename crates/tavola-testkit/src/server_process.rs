//! A real server process on free ports, for tests that speak to it over sockets.

#![allow(clippy::missing_panics_doc, reason = "for tests, which fail by panicking")]

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::record;

/// The development account, which every test server has unless it is told otherwise.
pub const ACCOUNT: &str = "devstoreaccount1";
/// The development account's public key.
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// A key that only tests use.
pub const OTHER_KEY: &str = "YSBrZXkgb2YgYW4gYWNjb3VudCBpbiB0ZXN0cywgbG9uZw==";

/// `tavola`, with nothing of this environment that could change what it does.
#[must_use]
pub fn command(binary: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TAVOLA_")
            || name.to_string_lossy().starts_with("AZURITE_")
        {
            command.env_remove(name);
        }
    }
    command
}

/// `tavola serve` on a data folder, with free ports and without an access log.
#[must_use]
pub fn serve_command(binary: impl AsRef<OsStr>, location: &Path) -> Command {
    let mut command = command(binary);
    command.args(["serve", "--table-port", "0", "--admin-port", "0", "--location"]).arg(location);
    match record::folder() {
        None => command.arg("--silent"),
        // Everything that we could ever say, for the search for secrets; it reads our standard
        // error too.
        Some(_) => command.env("TAVOLA_LOG__LEVEL", "info,tavola=debug,tavola_server=debug"),
    };
    command
}

/// A start that takes longer never ends.
const START_TIME_MAX: Duration = Duration::from_secs(180);

/// Kills a process that takes too long; until it goes out of scope.
#[derive(Debug)]
pub struct Watchdog {
    _in_time: mpsc::Sender<()>,
}

impl Watchdog {
    /// Kills the process with this id after this time.
    #[must_use]
    pub fn new(pid: u32, time_max: Duration) -> Self {
        let (in_time, ended) = mpsc::channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(time_max) == Err(mpsc::RecvTimeoutError::Timeout) {
                // It may have ended by itself just now.
                let _gone = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            }
        });
        Self { _in_time: in_time }
    }
}

/// A running server, killed when it goes out of scope.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    /// What it printed until it was ready.
    pub start_up: Vec<String>,
    /// `127.0.0.1:PORT` of the Table service.
    pub table: String,
    /// `127.0.0.1:PORT` of health and metrics.
    pub admin: String,
}

/// The server ended before it was ready.
#[derive(Debug)]
pub struct EndedEarly {
    /// How.
    pub status: ExitStatus,
    /// What it printed; its standard error is the caller's.
    pub printed: Vec<String>,
}

impl ServerProcess {
    /// Runs a command that announces its ports, until it has.
    ///
    /// # Errors
    /// If it ended before.
    pub fn spawn(command: &mut Command) -> Result<Self, EndedEarly> {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary can be started");
        let _watchdog = Watchdog::new(child.id(), START_TIME_MAX);
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut server =
            Self { child, start_up: Vec::new(), table: String::new(), admin: String::new() };
        if !server.wait_until_announced(&mut lines) {
            let status = server.child.wait().expect("the server ends");
            return Err(EndedEarly { status, printed: std::mem::take(&mut server.start_up) });
        }
        // A thread must read on, or the server's access log would fill the pipe.
        std::thread::spawn(move || keep(lines));
        Ok(server)
    }

    fn wait_until_announced(&mut self, lines: &mut BufReader<ChildStdout>) -> bool {
        while self.table.is_empty() || (self.admin.is_empty() && self.prints_admin()) {
            let mut line = String::new();
            let read = lines.read_line(&mut line).expect("standard output can be read");
            if read == 0 {
                return false;
            }
            let line = line.trim_end().to_owned();
            if line.contains("listening at http") {
                self.table = authority(&line);
            }
            if let Some((_, address)) = line.split_once("Table service successfully started on ") {
                self.table = address.to_owned();
            }
            if line.starts_with("Health and metrics") {
                self.admin = authority(&line);
            }
            self.start_up.push(line);
        }
        true
    }

    fn prints_admin(&self) -> bool {
        !self.start_up.iter().any(|line| line.starts_with("Azurite"))
    }

    /// The base URL of the development account.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}/{ACCOUNT}", self.table)
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the process holds in memory.
    #[must_use]
    pub fn resident_kilobytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("the process lives");
        let line =
            status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory is told");
        line.split_whitespace()
            .nth(1)
            .and_then(|number| number.parse().ok())
            .expect("as a number of kB")
    }

    /// SIGKILL: nothing is flushed.
    pub fn kill(mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server ends");
    }

    /// Sends a signal: `-HUP`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.pid().to_string()])
            .status()
            .expect("kill can be run");
        assert!(sent.success());
    }

    /// SIGTERM, and how the process ended.
    #[must_use]
    pub fn terminate(mut self) -> ExitStatus {
        self.signal("-TERM");
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("the server can be waited for") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not stop within 30 s of SIGTERM");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Into the record of the run, or nowhere.
fn keep(mut lines: BufReader<ChildStdout>) {
    let file = record::file("access-log")
        .map(|file| OpenOptions::new().create(true).append(true).open(file));
    let _ended = match file {
        Some(file) => std::io::copy(&mut lines, &mut file.expect("the record can be written")),
        None => std::io::copy(&mut lines, &mut std::io::sink()),
    };
}

fn authority(line: &str) -> String {
    let rest = line.split("://").nth(1).expect("the line has a URL");
    rest.split(['/', ' ']).next().expect("the URL has an authority").to_owned()
}
