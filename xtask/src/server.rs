//! A server of our own for one test run: release build, free ports, a data folder that is gone
//! afterwards.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Context, Failure, Result};
use crate::{cache, rocksdb, shell, workspace};

/// The development account of the service's own emulator; public, and known to every SDK.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
pub(crate) const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A key that protects nothing: the server that knows it lives as long as a test run.
const SECOND_KEY: &str = "c2Vjb25kIGtleSBvZiB0aGUgZGV2ZWxvcG1lbnQgYWNjb3VudCwgZm9yIHRlc3RzIG9ubHk=";

/// The profile that links quickly.
const QUICK_PROFILE: &str = "serve";

const START_SECONDS_MAX: u64 = 30;
const STOP_SECONDS_MAX: u64 = 10;

/// Builds the release binary and says where it is.
pub(crate) fn build() -> Result<PathBuf> {
    rocksdb::ensure()?;
    shell::run(workspace::cargo()?.args(["build", "--release", "--package", "tavola"]))?;
    binary()
}

/// Builds a binary that is there sooner and runs slower: the profile `serve`.
pub(crate) fn build_quickly() -> Result<PathBuf> {
    rocksdb::ensure()?;
    shell::run(workspace::cargo()?.args([
        "build",
        "--profile",
        QUICK_PROFILE,
        "--package",
        "tavola",
    ]))?;
    Ok(workspace::target()?.join(QUICK_PROFILE).join("tavola"))
}

pub(crate) fn binary() -> Result<PathBuf> {
    Ok(workspace::target()?.join("release").join("tavola"))
}

/// Where a suite finds its server.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// `http://host:port/account`, without a slash at the end.
    pub(crate) url: String,
    pub(crate) account: String,
    pub(crate) key: String,
    /// The account's other key, where it has one.
    pub(crate) second_key: Option<String>,
    /// `host:port` of the status and metrics pages, where they are known.
    pub(crate) admin: Option<String>,
}

impl Endpoint {
    /// Tells a child process where the server is.
    pub(crate) fn set_variables(&self, command: &mut Command) {
        command
            .env("TAVOLA_ENDPOINT", &self.url)
            .env("TAVOLA_ACCOUNT", &self.account)
            .env("TAVOLA_KEY", &self.key);
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }
}

/// A running server; dropping it stops it and removes its data.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    /// Before its folder, so that it has stopped when that goes.
    _process: Process,
    /// Holds its data and configuration.
    _folder: ScratchFolder,
}

impl Server {
    /// As a newcomer starts it: no configuration, the development account.
    ///
    /// `purpose` names its log below the build output, which stays there to find the cause
    /// of a failure.
    pub(crate) fn start(binary: &Path, purpose: &str) -> Result<Self> {
        Self::start_configured(binary, &log(purpose)?, "")
    }

    /// The same account, configured with a second key.
    pub(crate) fn start_with_two_keys(binary: &Path, purpose: &str) -> Result<Self> {
        Self::start_with_settings(binary, purpose, "")
    }

    /// The same with more settings, which are sections of the configuration file.
    pub(crate) fn start_with_settings(
        binary: &Path,
        purpose: &str,
        sections: &str,
    ) -> Result<Self> {
        let config = format!(
            "[accounts.{ACCOUNT}]\nkey1 = \"{KEY}\"\nkey2 = \"{SECOND_KEY}\"\n\n{sections}"
        );
        let mut server = Self::start_configured(binary, &log(purpose)?, &config)?;
        server.endpoint.second_key = Some(SECOND_KEY.into());
        Ok(server)
    }

    fn start_configured(binary: &Path, log: &Path, config: &str) -> Result<Self> {
        let folder = ScratchFolder::new("server")?;
        let config_file = folder.path.join("tavola.toml");
        cache::write_if_changed(&config_file, config)?;
        let admin = format!("127.0.0.1:{}", free_port()?);
        let mut command = Command::new(binary);
        remove_settings(&mut command);
        command.args([
            "serve",
            "--table-port",
            "0",
            "--admin-port",
            admin.rsplit(':').next().unwrap_or_default(),
        ]);
        command.arg("--config").arg(config_file).arg("--location").arg(folder.path.join("data"));
        let process = Process::start(&mut command, log, listening_address)?;
        println!("server at {}, its log is {}", process.address, log.display());
        let endpoint = Endpoint {
            url: format!("{}/{ACCOUNT}", process.address),
            account: ACCOUNT.into(),
            key: KEY.into(),
            second_key: None,
            admin: Some(admin),
        };
        Ok(Self { endpoint, _process: process, _folder: folder })
    }
}

/// The log of a process, below the build output.
pub(crate) fn log(purpose: &str) -> Result<PathBuf> {
    let logs = workspace::target()?.join("server-logs");
    cache::create(&logs)?;
    Ok(logs.join(format!("{purpose}.log")))
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

/// A running program that said where it listens; dropping it stops it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
}

/// Finds the address in a line that a program prints when it listens.
type FindAddress = fn(&str) -> Option<&str>;

impl Process {
    pub(crate) fn start(
        command: &mut Command,
        log: &Path,
        find_address: FindAddress,
    ) -> Result<Self> {
        let cannot_log = || format!("cannot write {}", log.display());
        let errors = File::create(log).context(cannot_log)?;
        let lines = errors.try_clone().context(cannot_log)?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
        let mut child =
            child.context(|| format!("cannot start {}", command.get_program().display()))?;
        let stdout = child.stdout.take().ok_or("the server has no output")?;
        match wait_until_listening(stdout, lines, find_address) {
            Ok(address) => Ok(Self { child, address }),
            Err(failure) => {
                stop(&mut child);
                Err(Failure::new(format!("{failure}; its log is {}", log.display())))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn wait_until_listening(
    stdout: ChildStdout,
    log: File,
    find_address: FindAddress,
) -> Result<String> {
    let (sender, receiver) = mpsc::channel();
    // The thread reads on until the server ends: a full pipe would stop it.
    thread::spawn(move || report_address(stdout, log, find_address, &sender));
    first_address(&receiver)
}

fn report_address(
    stdout: ChildStdout,
    mut log: File,
    find_address: FindAddress,
    sender: &Sender<String>,
) {
    for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
        let _ = writeln!(log, "{line}");
        if let Some(address) = find_address(&line) {
            let _ = sender.send(address.to_owned());
        }
    }
}

fn first_address(receiver: &Receiver<String>) -> Result<String> {
    receiver.recv_timeout(Duration::from_secs(START_SECONDS_MAX)).map_err(|_| {
        Failure::new("the server ended, or was silent for 30 s, before it said where it listens")
    })
}

/// The address in a start-up line of the Table service; lines of other services do not count.
fn listening_address(line: &str) -> Option<&str> {
    let (service, address) = line.split_once("listening at ")?;
    let address = address.split_whitespace().next()?.trim_end_matches('/');
    (service.contains("Table service") && address.starts_with("http")).then_some(address)
}

/// A port that was free a moment ago. The Table service chooses its own and says so; this one is
/// never printed.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context(|| "no free port".into())?;
    Ok(listener.local_addr().context(|| "no free port".into())?.port())
}

/// Politely first, so that each run also exercises the shutdown.
fn stop(child: &mut Child) {
    let _ = Command::new("kill").arg(child.id().to_string()).stderr(Stdio::null()).status();
    let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
    while Instant::now() < deadline {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    eprintln!(
        "warning: the server did not stop within {STOP_SECONDS_MAX} s of SIGTERM; killing it"
    );
    let _ = child.kill();
    let _ = child.wait();
}

/// A new folder under the system's temporary folder, removed when dropped.
#[derive(Debug)]
pub(crate) struct ScratchFolder {
    pub(crate) path: PathBuf,
}

impl ScratchFolder {
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tavola-xtask-{}-{number}-{purpose}", std::process::id());
        let path = env::temp_dir().join(name);
        cache::create(&path)?;
        Ok(Self { path })
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that behaves like the server as far as we look.
    #[cfg(unix)]
    fn stand_in(folder: &ScratchFolder, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let program = folder.path.join("stand-in");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    #[cfg(unix)]
    fn a_server_is_started_and_stopped_with_its_data() {
        // One test for both cases: a program cannot be started while another thread's child still
        // has it open.
        let folder = ScratchFolder::new("stand-in").unwrap();
        let log = folder.path.join("log");
        // The last argument is the data folder.
        let script = "for data; do :; done\nmkdir \"$data\"\necho starting\n\
                      echo Table service is listening at http://127.0.0.1:7\nexec sleep 60";
        let server = Server::start_configured(&stand_in(&folder, script), &log, "").unwrap();
        assert_eq!(server.endpoint.url, "http://127.0.0.1:7/devstoreaccount1");
        let (pid, data) = (server._process.child.id(), server._folder.path.join("data"));
        assert!(data.is_dir());
        drop(server);
        assert!(!data.exists());
        assert!(!Path::new(&format!("/proc/{pid}")).exists());

        let failure = Server::start_configured(&stand_in(&folder, "exit 3"), &log, "").unwrap_err();
        assert!(failure.to_string().contains("the server ended"), "{failure}");
    }

    #[test]
    fn only_the_table_service_counts() {
        let line = "Table service is successfully listening at http://127.0.0.1:40123";
        assert_eq!(listening_address(line), Some("http://127.0.0.1:40123"));
        assert_eq!(listening_address("Admin service is listening at http://127.0.0.1:1"), None);
        assert_eq!(listening_address("Table service is starting"), None);
    }

    #[test]
    fn an_endpoint_knows_its_address() {
        let url = "http://127.0.0.1:40123/devstoreaccount1".to_owned();
        let endpoint = Endpoint {
            url,
            account: String::new(),
            key: String::new(),
            second_key: None,
            admin: None,
        };
        assert_eq!(endpoint.address(), "127.0.0.1:40123");
    }
}
