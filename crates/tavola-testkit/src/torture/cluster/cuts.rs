//! Nodes that do not hear each other: rules of the packet filter, on this cluster's loopback addresses only.
//!
//! Nodes send from 127.0.0.1, whoever they are; so what a node sends is told by the group of its process. The rules are in
//! a chain of our own, which goes with them.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use super::nodes::Node;
use crate::torture::Violation;

const CHAIN: &str = "TAVOLA-TORTURE";
/// Where nodes speak to each other.
const STORAGE_PORT: &str = "7000";

/// How a node is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    FromEverybody,
    /// Clients still reach it.
    FromPeers,
    /// It hears its peers, and they do not hear it.
    Mute,
    /// They hear it, and it does not hear them.
    Deaf,
}

/// The packet filter, as far as it concerns one cluster.
#[derive(Debug)]
pub(super) struct Cuts {
    /// `127.0.211.0/24`
    block: String,
}

impl Cuts {
    pub(super) fn new(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        Self { block: format!("{a}.{b}.{c}.0/24") }
    }

    /// Drops packets from now on.
    ///
    /// # Errors
    /// If the packet filter cannot be had.
    pub(super) fn cut(&self, node: &Node, how: Cut) -> Result<(), Violation> {
        if iptables(&["-n", "-L", CHAIN]).is_err() {
            iptables(&["-N", CHAIN])?;
            iptables(&["-I", "OUTPUT", "-o", "lo", "-j", CHAIN])?;
        }
        let (address, group) = (node.address.to_string(), node.group.to_string());
        let says = ["-m", "owner", "--gid-owner", &group, "-d", &self.block, "-p", "tcp", "--dport", STORAGE_PORT];
        let hears = ["-d", &address, "-p", "tcp", "--dport", STORAGE_PORT];
        let confirms = ["-s", &address, "-p", "tcp", "--sport", STORAGE_PORT];
        let rules: &[&[&str]] = match how {
            Cut::FromEverybody => &[&says, &["-d", &address], &["-s", &address]],
            Cut::FromPeers => &[&says, &hears, &confirms],
            Cut::Mute => &[&says],
            Cut::Deaf => &[&hears],
        };
        rules.iter().try_for_each(|rule| iptables(&[&["-A", CHAIN], *rule, &["-j", "DROP"]].concat()))
    }

    /// Drops nothing more; whether something was cut.
    ///
    /// # Errors
    /// If rules remain.
    pub(super) fn heal(&self) -> Result<bool, Violation> {
        if iptables(&["-n", "-L", CHAIN]).is_err() {
            return Ok(false);
        }
        iptables(&["-F", CHAIN])?;
        // As often as it was put in.
        while iptables(&["-D", "OUTPUT", "-o", "lo", "-j", CHAIN]).is_ok() {}
        iptables(&["-X", CHAIN]).map(|()| true)
    }
}

fn iptables(words: &[&str]) -> Result<(), Violation> {
    let failed = |why: String| Violation::new(format!("iptables {}: {why}", words.join(" ")));
    let output = Command::new("iptables").arg("-w").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
}
