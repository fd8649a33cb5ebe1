//! What an attack is given: a seed, a folder of its own, and the programs to attack.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Violation;
use tavola_testkit::server_process::{ServerProcess, serve_command};

/// Where one attack takes place.
#[derive(Debug)]
pub struct Arena {
    /// From it follows every choice of the attack.
    pub seed: u64,
    /// True in the short form, which every merge runs.
    pub is_short: bool,
    /// The server to attack.
    pub server: PathBuf,
    /// A server with defects to be found, if it was built.
    pub mutants: Option<PathBuf>,
    /// The folder of a cluster, if one was started.
    pub cluster: Option<PathBuf>,
    /// A folder of this attack: kept if it finds something, removed otherwise.
    pub folder: PathBuf,
}

impl Arena {
    /// The random numbers of this attack. `purpose` keeps its threads from drawing the same ones.
    #[must_use]
    pub fn rng(&self, purpose: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose)
    }

    /// Where the server keeps its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What the servers of this attack wrote to standard error.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// `tavola serve` on this attack's data folder, changed by `with`; it is ready when this
    /// returns.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub fn start(
        &self,
        with: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<ServerProcess, Violation> {
        let mut command = self.serve_command()?;
        self.spawn(with(&mut command))
    }

    /// Runs a command that was made here; the server is ready when this returns.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub fn spawn(&self, command: &mut Command) -> Result<ServerProcess, Violation> {
        ServerProcess::spawn(command).map_err(|ended| {
            let said = self.last_words();
            Violation::new(format!("the server did not start: {}; it said: {said}", ended.status))
        })
    }

    /// The command of [`Arena::start`], for attacks on the start itself.
    ///
    /// # Errors
    /// If the log of the servers cannot be written.
    pub fn serve_command(&self) -> Result<Command, Violation> {
        self.serve_command_at(&self.data())
    }

    /// The same on another data folder.
    ///
    /// # Errors
    /// If the log of the servers cannot be written.
    pub fn serve_command_at(&self, data: &Path) -> Result<Command, Violation> {
        let mut command = serve_command(&self.server, data);
        command.stderr(self.append_to_log()?).env("TAVOLA_LOG__LEVEL", "warn");
        Ok(command)
    }

    /// For what servers write to standard error.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append_to_log(&self) -> Result<File, Violation> {
        let log = File::options().create(true).append(true).open(self.log());
        log.map_err(|error| {
            Violation::new(format!("cannot write {}: {error}", self.log().display()))
        })
    }

    /// The end of what the servers said.
    #[must_use]
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}
