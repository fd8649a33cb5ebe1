//! A server of our own for one run, which can be killed and comes back with its data.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Checked;
use super::options::ACCOUNT;

/// On a busy machine, with a log to replay.
const START_SECONDS_MAX: u64 = 60;
const STOP_SECONDS_MAX: u64 = 10;

/// A running server. Dropping it stops it and removes its data.
#[derive(Debug)]
pub(super) struct Server {
    binary: PathBuf,
    /// `None` while it is down.
    child: Mutex<Option<Child>>,
    port: u16,
    admin_port: u16,
    folder: TempDir,
}

impl Server {
    pub(super) fn start(binary: Option<&Path>) -> Checked<Self> {
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => beside_this_program()?,
        };
        let folder = tempfile::Builder::new().prefix("tavola-example-").tempdir()?;
        fs::write(folder.path().join("tavola.toml"), "")?;
        let ports = (free_port()?, free_port()?);
        let (port, admin_port) = ports;
        let server = Self { binary, child: Mutex::new(None), port, admin_port, folder };
        server.restart()?;
        Ok(server)
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{ACCOUNT}", self.port)
    }

    /// `host:port` of its metrics.
    pub(super) fn admin(&self) -> String {
        format!("127.0.0.1:{}", self.admin_port)
    }

    /// `kill -9`.
    pub(super) fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it on its port and its data, and waits until it listens.
    pub(super) fn restart(&self) -> Checked {
        let folder = self.folder.path();
        let log = File::options().create(true).append(true).open(folder.join("server.log"))?;
        let mut command = Command::new(&self.binary);
        remove_settings(&mut command);
        command
            .arg("serve")
            .args(["--table-port", &self.port.to_string()])
            .args(["--admin-port", &self.admin_port.to_string()])
            .arg("--config")
            .arg(folder.join("tavola.toml"))
            .arg("--location")
            .arg(folder.join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        let is_listening = child.stdout.take().is_some_and(wait_until_it_listens);
        *self.child() = Some(child);
        if is_listening {
            return Ok(());
        }
        let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
        Err(format!("the server does not start; its log:\n{log}").into())
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child().take() {
            stop(&mut child);
        }
    }
}

fn wait_until_it_listens(stdout: ChildStdout) -> bool {
    let (sender, receiver) = mpsc::channel();
    // The thread reads on until the server ends: a full pipe would stop it.
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.contains("Table service") && line.contains("listening at") {
                let _ = sender.send(());
            }
        }
    });
    receiver.recv_timeout(Duration::from_secs(START_SECONDS_MAX)).is_ok()
}

fn beside_this_program() -> Checked<PathBuf> {
    let binary = env::current_exe()?.with_file_name("tavola");
    if binary.is_file() {
        return Ok(binary);
    }
    let text = "no server was named, and none is beside this program; `cargo xtask example` builds \
                one, --endpoint names one that runs, --in-memory needs none";
    Err(text.into())
}

/// What the user set for a server of their own must not reach this one.
fn remove_settings(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("TAVOLA_") || text.starts_with("AZURITE_") {
            command.env_remove(&name);
        }
    }
}

/// A port that was free a moment ago. The server keeps it when it comes back.
fn free_port() -> Checked<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn stop(child: &mut Child) {
    let _ = Command::new("kill").arg(child.id().to_string()).stderr(Stdio::null()).status();
    let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
    while Instant::now() < deadline {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}
