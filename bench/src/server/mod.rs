//! The servers that are measured: how each is started, and one that runs.

mod azurite;
pub(crate) mod null;
mod tavola;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use azurite::Azurite;
pub(crate) use tavola::Tavola;

use tavola_load::{Context, Result, Site, list_tables};

const START_MAX: Duration = Duration::from_secs(60);

/// A program that serves tables.
pub(crate) trait BenchServer {
    fn name(&self) -> &'static str;
    fn version(&self) -> &str;
    /// The command that serves the development account from a folder, on any free port.
    fn command(&self, folder: &Path) -> Result<Command>;
    /// The text before its address in the line that says that it listens.
    fn listening_words(&self) -> &'static str;
    /// The text before the address of its metrics in a later line, if it has any.
    fn metrics_words(&self) -> Option<&'static str>;
}

/// A server that runs; dropping it ends it.
#[derive(Debug)]
pub(crate) struct RunningServer {
    process: Process,
    error_log: PathBuf,
    pub(crate) site: Site,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) times: StartTimes,
}

/// Both counted from before the process was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTimes {
    pub(crate) listening: Duration,
    pub(crate) first_reply: Duration,
}

impl RunningServer {
    /// Starts a server on an empty folder, and waits for its first good reply.
    pub(crate) fn start(server: &dyn BenchServer, folder: &Path) -> Result<Self> {
        // Beside the data: a server may insist on an empty folder.
        let error_log = folder.with_extension("log");
        let errors = File::create(&error_log).context(|| "cannot create a log".into())?;
        let mut command = server.command(folder)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let started = Instant::now();
        let child = command.spawn().context(|| format!("cannot start {}", server.name()))?;
        let mut process = Process(child);
        let stdout = process.0.stdout.take().ok_or("the server has no output")?;
        let found = first_lines(stdout, server, started);
        let found =
            found.context(|| format!("{} did not start: {}", server.name(), tail(&error_log)))?;
        let site = Site::development(found.address)?;
        list_tables(&site).context(|| format!("{} does not answer", server.name()))?;
        let times = StartTimes { listening: found.after, first_reply: started.elapsed() };
        Ok(Self { process, error_log, site, admin: found.admin, times })
    }

    /// With SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// As a user would, and waits for it.
    pub(crate) fn stop(mut self) -> Result {
        let process = rustix::process::Pid::from_child(&self.process.0);
        rustix::process::kill_process(process, rustix::process::Signal::TERM)
            .context(|| "cannot stop".into())?;
        self.process.0.wait().context(|| "cannot wait".into())?;
        Ok(())
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.0.id()
    }

    /// The end of what the server wrote to its error stream.
    pub(crate) fn last_errors(&self) -> String {
        tail(&self.error_log)
    }
}

#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    /// The data is thrown away, so there is nothing to be polite about.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Found {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    after: Duration,
}

fn first_lines(stdout: ChildStdout, server: &dyn BenchServer, started: Instant) -> Result<Found> {
    let lines = read_lines(stdout);
    let (address, at) = wait_for(&lines, server.listening_words(), started)?;
    let admin = server.metrics_words().map(|words| wait_for(&lines, words, started)).transpose()?;
    let admin = admin.map(|(address, _)| address);
    Ok(Found { address, admin, after: at.duration_since(started) })
}

/// Lines with the time of their coming. The thread reads on until the server ends: a full pipe
/// would stop it.
fn read_lines(stdout: ChildStdout) -> Receiver<(String, Instant)> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
            let _ = sender.send((line, Instant::now()));
        }
    });
    receiver
}

fn wait_for(
    lines: &Receiver<(String, Instant)>,
    words: &str,
    started: Instant,
) -> Result<(SocketAddr, Instant)> {
    loop {
        let left = START_MAX.saturating_sub(started.elapsed());
        let (line, at) = lines.recv_timeout(left).context(|| format!("no line with `{words}`"))?;
        if let Some(address) = address_after(&line, words) {
            return Ok((address, at));
        }
    }
}

fn address_after(line: &str, words: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(words)?;
    let rest = rest.trim_start_matches("http://");
    rest.split(['/', ' ']).next()?.parse().ok()
}

/// This program, to be started again as something else.
pub(crate) fn this_program() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().context(|| "cannot find this program".into())?))
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::address_after;

    #[test]
    fn addresses_are_found_in_start_up_lines() {
        let port = |line, words| address_after(line, words).map(|address| address.port());
        assert_eq!(
            port("Table service is listening at http://127.0.0.1:4012", "listening at "),
            Some(4012)
        );
        let line = "Azurite Table service successfully started on 127.0.0.1:4013";
        assert_eq!(port(line, "started on "), Some(4013));
        let line =
            "Health and metrics: http://127.0.0.1:4014/ready and http://127.0.0.1:4014/metrics";
        assert_eq!(port(line, "metrics: "), Some(4014));
        assert_eq!(port("Table service is starting at http://127.0.0.1:1", "listening at "), None);
    }
}
