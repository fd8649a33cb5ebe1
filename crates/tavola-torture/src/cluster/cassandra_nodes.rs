//! The Cassandra nodes of a cluster that `cargo xtask cassandra up` made: their processes, and what they say
//! of each other.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cuts::Cuts;
use super::process::{self, State, Stopped, send};
use crate::Violation;

/// Of nodes that start on a machine that does much else.
const WELL_TIME_MAX: Duration = Duration::from_secs(240);
const DIE_TIME_MAX: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);
const ANSWER_TIME_MAX: Duration = Duration::from_millis(500);

/// All Cassandra nodes.
#[derive(Debug)]
pub(super) struct CassandraNodes {
    /// First those of the ring, then the spare.
    all: Vec<CassandraNode>,
    nodetool: PathBuf,
    pub(super) cuts: Cuts,
}

/// One Cassandra node.
#[derive(Debug)]
pub(super) struct CassandraNode {
    pub(super) number: u64,
    pub(super) address: Ipv4Addr,
    cql_port: u16,
    /// The group under which its process runs; see the script `start`.
    pub(super) group: u64,
    is_spare: bool,
    folder: PathBuf,
}

impl CassandraNodes {
    /// Reads the file that describes a cluster.
    ///
    /// # Errors
    /// If there is none, or it does not describe what is needed.
    pub(super) fn find(folder: &Path) -> Result<Self, Violation> {
        let file = folder.join("cluster.json");
        let unknown = || Violation::new(format!("{} does not describe a cluster", file.display()));
        let text = fs::read_to_string(&file).map_err(|_| unknown())?;
        let value: Value = serde_json::from_str(&text).map_err(|_| unknown())?;
        let nodes = value["nodes"].as_array().ok_or_else(unknown)?;
        let all: Vec<CassandraNode> = nodes
            .iter()
            .map(CassandraNode::from_json)
            .collect::<Option<_>>()
            .ok_or_else(unknown)?;
        let nodetool = value["nodetool"].as_str().ok_or_else(unknown)?.into();
        let cuts = Cuts::new(all.first().ok_or_else(unknown)?.address);
        Ok(Self { all, nodetool, cuts })
    }

    /// Those that hold the data.
    pub(super) fn ring(&self) -> &[CassandraNode] {
        let spare = self.all.iter().position(|node| node.is_spare).unwrap_or(self.all.len());
        &self.all[..spare]
    }

    pub(super) fn contact_points(&self) -> String {
        let points: Vec<String> = self.ring().iter().map(|node| node.cql().to_string()).collect();
        points.join(",")
    }

    /// Takes all rules of the packet filter away, and lets stopped nodes go on; whether something
    /// was cut.
    ///
    /// # Errors
    /// If rules remain, or a node cannot be sent a signal.
    pub(super) fn undo(&self) -> Result<bool, Violation> {
        let was_cut = self.cuts.heal()?;
        let live = self.all.iter().filter(|node| node.live_pid().is_some());
        live.map(|node| node.signal("-CONT")).fold(Ok(()), Result::and).map(|()| was_cut)
    }

    /// Undoes every fault, also those of an earlier run, and waits until all is well.
    ///
    /// # Errors
    /// If that does not come about.
    pub(super) fn heal(&self) -> Result<(), Violation> {
        let was_cut = self.undo()?;
        let dead: Vec<&CassandraNode> =
            self.ring().iter().filter(|node| node.live_pid().is_none()).collect();
        dead.iter().try_for_each(|node| node.start())?;
        // Asking all nodes takes seconds. A node that answers and was not touched is as well as the
        // last time.
        if was_cut || !dead.is_empty() || !self.ring().iter().all(CassandraNode::answers) {
            self.wait_until_well()?;
        }
        if self.spare().is_some_and(|spare| spare.live_pid().is_some()) {
            self.remove_spare()?;
        }
        Ok(())
    }

    /// Until every node of the ring serves clients and sees all others.
    ///
    /// # Errors
    /// If that takes too long.
    pub(super) fn wait_until_well(&self) -> Result<(), Violation> {
        let ring = self.ring();
        wait_until(WELL_TIME_MAX, || ring.iter().all(CassandraNode::answers))
            .then_some(())
            .ok_or_else(|| Violation::new("not all nodes came back"))?;
        let sees_all = |node: &CassandraNode| {
            let seen = self.up_and_normal(node);
            ring.iter().all(|other| seen.contains(&other.address))
        };
        let mut left = ring.iter();
        let mut next = left.next();
        let all = wait_until(WELL_TIME_MAX, || {
            while let Some(node) = next {
                if !sees_all(node) {
                    return false;
                }
                next = left.next();
            }
            true
        });
        all.then_some(()).ok_or_else(|| Violation::new("the nodes do not find each other again"))
    }

    /// SIGKILL of all nodes of the ring before the first of them is gone.
    ///
    /// # Errors
    /// If one was gone before, or does not go.
    pub(super) fn kill_ring(&self) -> Result<(), Violation> {
        self.ring().iter().try_for_each(|node| node.signal("-KILL"))?;
        self.ring().iter().try_for_each(|node| node.wait_until_gone("-KILL"))
    }

    /// A node more, for a while.
    ///
    /// # Errors
    /// If it does not come, or does not go.
    pub(super) fn add_and_remove_spare(&self) -> Result<(), Violation> {
        let spare = self.spare().ok_or_else(|| Violation::new("the cluster has no spare node"))?;
        spare.start()?;
        let (first, ring) = (&self.all[0], self.ring());
        let has_come = wait_until(WELL_TIME_MAX, || {
            let seen = self.up_and_normal(first);
            seen.contains(&spare.address) && ring.iter().all(|node| seen.contains(&node.address))
        });
        if !has_come {
            return Err(Violation::new("the spare node does not join the ring"));
        }
        sleep(Duration::from_secs(5));
        self.remove_spare()
    }

    /// What it holds goes back to the others first.
    fn remove_spare(&self) -> Result<(), Violation> {
        let Some(spare) = self.spare() else { return Ok(()) };
        self.ask(spare, "decommission")?;
        spare.kill()?;
        let data = spare.folder.join("data");
        let emptied = fs::remove_dir_all(&data).and_then(|()| fs::create_dir_all(&data));
        emptied.map_err(|error| Violation::new(format!("cannot empty {}: {error}", data.display())))
    }

    fn spare(&self) -> Option<&CassandraNode> {
        self.all.iter().find(|node| node.is_spare)
    }

    fn ask(&self, node: &CassandraNode, what: &str) -> Result<String, Violation> {
        let asked = Command::new(&self.nodetool)
            .args([&node.number.to_string(), what])
            .stdin(Stdio::null())
            .output();
        let failed =
            |why: String| Violation::new(format!("nodetool {} {what}: {why}", node.number));
        let output = asked.map_err(|error| failed(error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        Err(failed(format!("{} {said} {}", output.status, String::from_utf8_lossy(&output.stderr))))
    }

    /// Which nodes are up and normal in the eyes of one; none if it does not say.
    fn up_and_normal(&self, node: &CassandraNode) -> Vec<Ipv4Addr> {
        let address =
            |line: &str| line.strip_prefix("UN ")?.split_whitespace().next()?.parse().ok();
        let status = self.ask(node, "status").unwrap_or_default();
        status.lines().filter_map(address).collect()
    }

    /// Copies the nodes' logs, for a person who looks for the cause of a finding.
    pub(super) fn keep_logs(&self, folder: &Path) {
        for node in &self.all {
            // Without it there is less to read; the finding remains.
            let _missing = fs::copy(
                node.folder.join("log").join("system.log"),
                folder.join(format!("node{}.log", node.number)),
            );
        }
    }
}

/// Faults outlive this process unless it undoes them.
impl Drop for CassandraNodes {
    fn drop(&mut self) {
        let _next_start_tries_again = self.undo();
    }
}

impl CassandraNode {
    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            number: value["number"].as_u64()?,
            address: value["address"].as_str()?.parse().ok()?,
            cql_port: value["cql_port"].as_u64()?.try_into().ok()?,
            group: value["group"].as_u64()?,
            is_spare: value["role"].as_str()? == "spare",
            folder: value["folder"].as_str()?.into(),
        })
    }

    fn cql(&self) -> SocketAddr {
        (self.address, self.cql_port).into()
    }

    /// Its process, unless it is gone: a zombie waits only to be counted, and numbers are given out
    /// again.
    fn live_pid(&self) -> Option<u32> {
        let pid = fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()?;
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let is_ours =
            String::from_utf8_lossy(&command_line).contains(&format!("{}/", self.folder.display()));
        (is_ours && State::of(pid) != State::Dead).then_some(pid)
    }

    fn answers(&self) -> bool {
        TcpStream::connect_timeout(&self.cql(), ANSWER_TIME_MAX).is_ok()
    }

    /// Starts it in a session of its own: it outlives us.
    pub(super) fn start(&self) -> Result<(), Violation> {
        let mut command = Command::new("setsid");
        command.arg("--fork").arg(self.folder.join("start"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.status().is_ok_and(|status| status.success());
        started
            .then_some(())
            .ok_or_else(|| Violation::new(format!("node {} cannot be started", self.number)))
    }

    /// SIGKILL of a node that lives; it is gone when this returns.
    ///
    /// # Errors
    /// If it was gone before, or does not go.
    pub(super) fn kill(&self) -> Result<(), Violation> {
        self.end("-KILL")
    }

    /// In order, as an operator does.
    pub(super) fn terminate(&self) -> Result<(), Violation> {
        self.end("-TERM")
    }

    fn end(&self, signal: &str) -> Result<(), Violation> {
        self.signal(signal)?;
        self.wait_until_gone(signal)
    }

    fn wait_until_gone(&self, signal: &str) -> Result<(), Violation> {
        let ended = wait_until(DIE_TIME_MAX, || self.live_pid().is_none());
        ended
            .then_some(())
            .ok_or_else(|| Violation::new(format!("node {} does not end by {signal}", self.number)))
    }

    /// SIGSTOP; it has stopped when this returns.
    ///
    /// # Errors
    /// If it does not.
    pub(super) fn stop(&self) -> Result<Stopped, Violation> {
        process::stop(self.pid()?)
    }

    fn signal(&self, signal: &str) -> Result<(), Violation> {
        send(signal, self.pid()?)
    }

    fn pid(&self) -> Result<u32, Violation> {
        self.live_pid().ok_or_else(|| Violation::new(format!("node {} is dead", self.number)))
    }
}

pub(super) fn wait_until(bound: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + bound;
    while !is_done() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(BETWEEN_LOOKS);
    }
    true
}
