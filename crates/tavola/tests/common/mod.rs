//! Our binary, started for tests that speak to it over sockets.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of the fixture")]

pub(crate) mod admin;
pub(crate) mod cli;
pub(crate) mod cluster;
pub(crate) mod folder;
pub(crate) mod relay;
pub(crate) mod stores;

use std::ops::Deref;
use std::path::Path;
use std::process::{Command, ExitStatus};

pub(crate) use tavola_testkit::client;
pub(crate) use tavola_testkit::server_process::{ACCOUNT, KEY, OTHER_KEY};
use tavola_testkit::server_process::{ServerProcess, command, serve_command};

/// This build.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_tavola");

/// `tavola`, with nothing of this environment that could change what it does.
pub(crate) fn tavola() -> Command {
    command(BINARY)
}

/// A running server of this build.
#[derive(Debug)]
pub(crate) struct RunningServer(ServerProcess);

impl RunningServer {
    /// `tavola serve` on a data folder, with free ports and without an access log.
    pub(crate) fn start(location: &Path) -> Self {
        Self::start_with(location, |command| command)
    }

    /// The same, changed by `with`.
    pub(crate) fn start_with(
        location: &Path,
        with: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        Self::spawn(with(&mut serve_command(BINARY, location)))
    }

    /// Runs a command that announces its ports, until it has.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(ServerProcess::spawn(command).expect("the server starts"))
    }

    /// SIGKILL: nothing is flushed, nobody is told.
    pub(crate) fn kill(self) {
        self.0.kill();
    }

    /// SIGTERM, and how the process ended.
    pub(crate) fn terminate(self) -> ExitStatus {
        self.0.terminate()
    }
}

impl Deref for RunningServer {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.0
    }
}
