//! The two servers before the cluster.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::nodes::{Nodes, send, wait_until};
use crate::client::Client;
use crate::server_process::{ServerProcess, serve_command};
use crate::torture::preload::ShiftedClock;
use crate::torture::{Arena, Violation};

pub(super) const COUNT: usize = 2;
const READY_TIME_MAX: Duration = Duration::from_secs(120);

/// What a server does wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    None,
    /// As `TAVOLA_MUTANT` names it.
    Mutant(&'static str),
}

/// How the servers are told to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Until one statement is answered: shorter than the cluster's own bounds, so that nodes outlive who asked.
    pub(super) statement_ms: u64,
    pub(super) answer_ms: u64,
}

/// The servers.
#[derive(Debug)]
pub(super) struct FrontEnds {
    servers: Vec<Option<ServerProcess>>,
    clocks: Vec<ShiftedClock>,
    settings: Settings,
}

#[derive(Debug)]
struct Settings {
    contact_points: String,
    patience: Patience,
    defect: Defect,
}

impl FrontEnds {
    /// Starts them.
    ///
    /// # Errors
    /// If one does not start.
    pub(super) fn start_all(
        arena: &Arena,
        server: &Path,
        nodes: &Nodes,
        patience: Patience,
        defect: Defect,
    ) -> Result<Self, Violation> {
        let settings = Settings { contact_points: nodes.contact_points(), patience, defect };
        let clocks = (0..COUNT).map(|index| ShiftedClock::named(arena, &format!("front-end-{index}")));
        let clocks = clocks.collect::<Result<_, _>>()?;
        let mut front_ends = Self { servers: (0..COUNT).map(|_| None).collect(), clocks, settings };
        // The first start of all makes the keyspace, which takes longer than the hasty ones wait.
        front_ends.settings.patience = Patience { statement_ms: 10_000, answer_ms: 20_000 };
        front_ends.start(arena, server, 0)?;
        front_ends.kill(0);
        front_ends.settings.patience = patience;
        for index in 0..COUNT {
            front_ends.start(arena, server, index)?;
        }
        Ok(front_ends)
    }

    /// Starts one that does not run; where it listens.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(&mut self, arena: &Arena, server: &Path, index: usize) -> Result<String, Violation> {
        let mut command = serve_command(server, &arena.folder.join("unused"));
        command.stderr(arena.append_to_log()?).env("TAVOLA_LOG__LEVEL", "warn");
        self.settings.apply(&mut command);
        self.clocks[index].attach(&mut command);
        let process = arena.spawn(&mut command)?;
        let authority = process.table.clone();
        self.servers[index] = Some(process);
        Ok(authority)
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, index: usize) {
        self.servers[index].take().into_iter().for_each(ServerProcess::kill);
    }

    pub(super) fn signal(&self, index: usize, signal: &str) -> Result<(), Violation> {
        self.servers[index].as_ref().map_or(Ok(()), |server| send(signal, server.pid()))
    }

    pub(super) fn set_clock(&self, index: usize, seconds: i64) {
        self.clocks[index].set(seconds);
    }

    /// Where those that run listen.
    pub(super) fn authorities(&self) -> Vec<&str> {
        self.servers.iter().flatten().map(|server| server.table.as_str()).collect()
    }

    /// Until all say that they can serve.
    ///
    /// # Errors
    /// If one does not.
    pub(super) fn wait_until_ready(&self) -> Result<(), Violation> {
        let is_ready = |server: &ServerProcess| {
            let request = format!("GET /ready HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.admin);
            let answer = Client::connect(&server.admin).and_then(|mut client| client.send(request.as_bytes()));
            answer.is_ok_and(|answer| answer.status().is_success())
        };
        let ready = wait_until(READY_TIME_MAX, || self.servers.iter().flatten().all(is_ready));
        ready.then_some(()).ok_or_else(|| Violation::new("the servers are not ready again, though all nodes are well"))
    }
}

impl Settings {
    fn apply(&self, command: &mut Command) {
        // What a mutant leaves behind must not meet others.
        let keyspace = match self.defect {
            Defect::None => "torture",
            Defect::Mutant(name) => {
                command.env("TAVOLA_MUTANT", name);
                "torture_mutants"
            }
        };
        command
            .args(["--store", "cassandra"])
            .env("TAVOLA_STORE__CONTACT_POINTS", &self.contact_points)
            .env("TAVOLA_STORE__KEYSPACE", keyspace)
            .env("TAVOLA_STORE__CREATE", "true")
            .env("TAVOLA_STORE__REPLICATION", "3")
            .env("TAVOLA_STORE__STATEMENT_MS", self.patience.statement_ms.to_string())
            .env("TAVOLA_STORE__ANSWER_MS", self.patience.answer_ms.to_string())
            // As low as it goes, so that partitions leave the directory and come back all the time.
            .env("TAVOLA_STORE__SWEEP_SECONDS", "1");
    }
}
