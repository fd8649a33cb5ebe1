//! Our binary, started for tests that speak to it over sockets.

#![allow(dead_code, unused_imports, reason = "the targets beside `it` use a part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod admin;
pub(crate) mod cli;
pub(crate) mod cluster;
pub(crate) mod folder;
pub(crate) mod relay;
pub(crate) mod stores;

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::path::Path;
use std::process::{self, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use tavola_testkit::client;
pub(crate) use tavola_testkit::server_process::{ACCOUNT, KEY, OTHER_KEY};
use tavola_testkit::server_process::{ServerProcess, command, serve_command};

/// This build.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_tavola");

/// `tavola`, with nothing of this environment that could change what it does.
pub(crate) fn tavola() -> Command {
    command(BINARY)
}

/// A port of the loopback interface on which nothing listens.
///
/// The kernel hands out ports from 32768 up to sockets that bind port 0, which other tests of this
/// process do all the time. A lower port stays free until this test uses it.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 10_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        // Two test processes on one machine begin at different ports.
        let number =
            process::id().wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + number % COUNT).expect("it is below 30000");
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
    panic!("all ports from {FIRST} on are taken");
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
