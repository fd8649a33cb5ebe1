//! The two nodes before the Cassandra nodes: processes that serve.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use http::Response;

use super::cassandra_nodes::{CassandraNodes, wait_until};
use super::process::{self, State, Stopped};
use crate::preload::ShiftedClock;
use crate::time::{date, distance};
use crate::{Arena, Violation};
use tavola_testkit::client::{Client, NoAnswer, shifted};
use tavola_testkit::server_process::{ServerProcess, serve_command};

pub(super) const COUNT: usize = 2;
/// Below those that the system gives to clients.
const PEER_PORTS_FROM: u64 = 20_000;
const PEER_PORTS: u64 = 10_000;
const READY_TIME_MAX: Duration = Duration::from_secs(120);
/// Until a server that nothing happens to has told its time, or its figures.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// A time that is told is so old at most. Clocks are set wrong by a minute at least.
const TIME_TOLD_OFF_MAX: Duration = Duration::from_secs(20);

/// What servers tell of the directory of partition keys, and of each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) registrations: u64,
    pub(super) retirements: u64,
    /// Writes that one carried out for the other.
    pub(super) for_peers: u64,
}

/// What the servers of a seed do for each other, as `store.affinity` names it. Every other seed
/// nothing, every fourth the writes of contended partitions, every fourth all that the other is
/// preferred for. Faults are an odd number, so that each comes with all of them.
fn affinity(seed: u64) -> Option<&'static str> {
    match seed % 4 {
        0 => Some("always"),
        2 => Some("contended"),
        _ => None,
    }
}

/// What a server does wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    None,
    /// As `TAVOLA_MUTANT` names it.
    Mutant(&'static str),
}

/// How long the nodes wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Until one statement is answered: shorter than the cluster's own bounds, so that Cassandra
    /// nodes go on with what no node waits for any more.
    pub(super) statement_ms: u64,
    pub(super) answer_ms: u64,
}

/// Both nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    servers: Vec<Option<ServerProcess>>,
    clocks: Vec<ShiftedClock>,
    settings: Settings,
}

#[derive(Debug)]
struct Settings {
    contact_points: String,
    peers: Option<Peers>,
    timeouts: Timeouts,
    defect: Defect,
}

impl Nodes {
    /// Starts them.
    ///
    /// # Errors
    /// If one does not start.
    pub(super) fn start_all(
        arena: &Arena,
        server: &Path,
        cassandra: &CassandraNodes,
        timeouts: Timeouts,
        defect: Defect,
    ) -> Result<Self, Violation> {
        let peers = affinity(arena.seed);
        let peers = peers.map(|affinity| Peers::with_keys(arena, server, affinity)).transpose()?;
        let has_peers = peers.is_some();
        let settings =
            Settings { contact_points: cassandra.contact_points(), peers, timeouts, defect };
        let clocks = (0..COUNT).map(|index| ShiftedClock::named(arena, &format!("node-{index}")));
        let clocks = clocks.collect::<Result<_, _>>()?;
        let mut nodes = Self { servers: (0..COUNT).map(|_| None).collect(), clocks, settings };
        // The first start of all makes the keyspace, which takes longer than the hasty ones wait.
        nodes.settings.timeouts = Timeouts { statement_ms: 10_000, answer_ms: 20_000 };
        nodes.start(arena, server, 0)?;
        nodes.kill(0)?;
        nodes.settings.timeouts = timeouts;
        for index in 0..COUNT {
            nodes.start(arena, server, index)?;
        }
        if has_peers {
            nodes.wait_until_they_met()?;
        }
        Ok(nodes)
    }

    fn wait_until_they_met(&self) -> Result<(), Violation> {
        let has_met = |server: &ServerProcess| {
            let answer = get(&server.admin, "/metrics").ok();
            let present = answer
                .and_then(|answer| figure(&String::from_utf8_lossy(answer.body()), "tavola_peers"));
            present == Some(COUNT as u64 - 1)
        };
        let met = wait_until(READY_TIME_MAX, || self.servers.iter().flatten().all(has_met));
        met.then_some(())
            .ok_or_else(|| Violation::new("the servers do not find each other, though all is well"))
    }

    /// Starts one that does not run; where it listens.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(
        &mut self,
        arena: &Arena,
        server: &Path,
        index: usize,
    ) -> Result<String, Violation> {
        let mut command = serve_command(server, &arena.folder.join("unused"));
        command.env("TAVOLA_LOG__LEVEL", "warn");
        self.settings.apply(&mut command, index);
        self.clocks[index].attach(&mut command);
        let process =
            arena.spawn(process::that_dies_with_us(&command).stderr(arena.append_to_log()?))?;
        let authority = process.table.clone();
        self.servers[index] = Some(process);
        Ok(authority)
    }

    /// SIGKILL of one that lives; it is gone when this returns.
    ///
    /// # Errors
    /// If it was gone before.
    pub(super) fn kill(&mut self, index: usize) -> Result<(), Violation> {
        let server = self.servers[index].take().ok_or_else(|| not_running(index))?;
        if State::of(server.pid()) == State::Dead {
            return Err(not_running(index));
        }
        server.kill();
        Ok(())
    }

    /// SIGSTOP; it has stopped when this returns.
    ///
    /// # Errors
    /// If it does not.
    pub(super) fn stop(&self, index: usize) -> Result<Stopped, Violation> {
        process::stop(self.server(index)?.pid())
    }

    pub(super) fn set_clock(&self, index: usize, seconds: i64) {
        self.clocks[index].set(seconds);
    }

    /// Whether a server's clock is wrong by so much, as it tells in its answers.
    ///
    /// # Errors
    /// If it is not: then a clock was set that the node does not read.
    pub(super) fn check_clock(&self, index: usize, seconds: i64) -> Result<(), Violation> {
        let server = self.server(index)?;
        let mut told = None;
        let is_wrong = wait_until(ANSWER_TIME_MAX, || {
            told = get(&server.table, "/").ok().and_then(|answer| date(&answer));
            told.is_some_and(|told| distance(told, shifted(seconds)) <= TIME_TOLD_OFF_MAX)
        });
        is_wrong.then_some(()).ok_or_else(|| {
            let told = told.map_or("nothing".to_owned(), httpdate::fmt_http_date);
            Violation::new(format!(
                "the clock of server {index} is not off by {seconds} s: it told {told}"
            ))
        })
    }

    /// What the servers that run have done since they started.
    ///
    /// # Errors
    /// If one does not tell.
    pub(super) fn figures(&self) -> Result<Figures, Violation> {
        let mut sum = Figures::default();
        for server in self.servers.iter().flatten() {
            let mut told = None;
            wait_until(ANSWER_TIME_MAX, || {
                let answer = get(&server.admin, "/metrics").ok();
                told = answer
                    .and_then(|answer| Figures::read(&String::from_utf8_lossy(answer.body())));
                told.is_some()
            });
            let told = told.ok_or_else(|| Violation::new("a server does not tell its figures"))?;
            sum.registrations += told.registrations;
            sum.retirements += told.retirements;
            sum.for_peers += told.for_peers;
        }
        Ok(sum)
    }

    fn server(&self, index: usize) -> Result<&ServerProcess, Violation> {
        self.servers[index].as_ref().ok_or_else(|| not_running(index))
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
            get(&server.admin, "/ready").is_ok_and(|answer| answer.status().is_success())
        };
        let ready = wait_until(READY_TIME_MAX, || self.servers.iter().flatten().all(is_ready));
        ready.then_some(()).ok_or_else(|| {
            Violation::new("the servers are not ready again, though all Cassandra nodes are well")
        })
    }
}

impl Figures {
    /// From what `/metrics` says; none if it says nothing of it.
    fn read(exposition: &str) -> Option<Self> {
        let figure = |name| figure(exposition, name);
        Some(Self {
            registrations: figure("tavola_store_registrations_total")?,
            retirements: figure("tavola_store_retirements_total")?,
            // Servers that do not know each other say nothing of it.
            for_peers: figure("tavola_peers_received_total").unwrap_or_default(),
        })
    }
}

fn figure(exposition: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    exposition.lines().find_map(value)
}

fn not_running(index: usize) -> Violation {
    Violation::new(format!("server {index} does not run"))
}

fn get(authority: &str, path: &str) -> Result<Response<Bytes>, NoAnswer> {
    Client::connect(authority)?.get(path)
}

/// How servers reach each other: over mutual TLS, with keys of their own.
#[derive(Debug)]
struct Peers {
    affinity: &'static str,
    addresses: [String; COUNT],
    /// A folder for each of them.
    keys: PathBuf,
}

impl Peers {
    /// Makes keys as an operator does.
    fn with_keys(arena: &Arena, server: &Path, affinity: &'static str) -> Result<Self, Violation> {
        // Keys are bound to addresses. No ports that the system gives to clients meanwhile.
        let port = |index: usize| PEER_PORTS_FROM + arena.seed % PEER_PORTS + index as u64;
        let addresses = std::array::from_fn(|index| format!("127.0.0.1:{}", port(index)));
        let keys = arena.folder.join("peer-keys");
        let mut init = Command::new(server);
        init.args(["store", "peer-keys", "init", "--folder"]).arg(&keys).args(&addresses);
        let made = init.output().map_err(|error| Violation::new(format!("peer-keys: {error}")))?;
        if !made.status.success() {
            let told = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(Violation::new(format!("peer-keys init failed: {told}")));
        }
        Ok(Self { affinity, addresses, keys })
    }

    fn apply(&self, command: &mut Command, index: usize) {
        let address = &self.addresses[index];
        command
            .env("TAVOLA_STORE__PEERS", address)
            .env("TAVOLA_STORE__PEER_KEYS", self.keys.join(address.replace(':', "_")))
            .env("TAVOLA_STORE__AFFINITY", self.affinity);
    }
}

impl Settings {
    fn apply(&self, command: &mut Command, index: usize) {
        // What a mutant leaves behind must not reach others.
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
            .env("TAVOLA_STORE__STATEMENT_MS", self.timeouts.statement_ms.to_string())
            .env("TAVOLA_STORE__ANSWER_MS", self.timeouts.answer_ms.to_string())
            // As low as it goes, so that partitions leave the directory and come back all the time.
            .env("TAVOLA_STORE__SWEEP_SECONDS", "1");
        if let Some(peers) = &self.peers {
            peers.apply(command, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_others() {
        let exposition = "# HELP tavola_store_registrations_total Partitions entered into the directory\n\
                          # TYPE tavola_store_registrations_total counter\n\
                          tavola_store_registrations_total 61\n\
                          tavola_store_retirements_total 17\n";
        let expected = Figures { registrations: 61, retirements: 17, for_peers: 0 };
        assert_eq!(Figures::read(exposition), Some(expected));
        let more = format!("{exposition}tavola_peers 1\ntavola_peers_received_total 5\n");
        assert_eq!(Figures::read(&more), Some(Figures { for_peers: 5, ..expected }));
        assert_eq!(Figures::read("tavola_store_registrations_total 61\n"), None);
    }
}
