//! Cassandra nodes that do not hear each other: rules of the packet filter, on this cluster's loopback
//! addresses only.
//!
//! All Cassandra nodes send from 127.0.0.1, so that the group of a node's process tells what it
//! sends. The rules are in a chain of our own, which goes with them. Each has a name, by which it
//! is told what it dropped.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use super::cassandra_nodes::CassandraNode;
use crate::Violation;

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

// What a rule drops. Every node says something to its peers each second, and they to it: these
// rules are never idle while their node is cut. Whether the other two see a packet depends on what
// was on its way, as a node does not answer what it did not hear.
const SAYS: &str = "says";
const HEARS: &str = "hears";
const CONFIRMS: &str = "confirms";
const ANSWERS: &str = "answers";
const NEVER_IDLE: [&str; 2] = [SAYS, HEARS];

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
    pub(super) fn cut(&self, node: &CassandraNode, how: Cut) -> Result<(), Violation> {
        if iptables(&["-n", "-L", CHAIN]).is_err() {
            iptables(&["-N", CHAIN])?;
            iptables(&["-I", "OUTPUT", "-o", "lo", "-j", CHAIN])?;
        }
        let (address, group) = (node.address.to_string(), node.group.to_string());
        let says = [
            "-m",
            "owner",
            "--gid-owner",
            &group,
            "-d",
            &self.block,
            "-p",
            "tcp",
            "--dport",
            STORAGE_PORT,
        ];
        let hears = ["-d", &address, "-p", "tcp", "--dport", STORAGE_PORT];
        let confirms = ["-s", &address, "-p", "tcp", "--sport", STORAGE_PORT];
        let rules: &[(&str, &[&str])] = match how {
            Cut::FromEverybody => {
                &[(SAYS, &says), (HEARS, &["-d", &address]), (ANSWERS, &["-s", &address])]
            }
            Cut::FromPeers => &[(SAYS, &says), (HEARS, &hears), (CONFIRMS, &confirms)],
            Cut::Mute => &[(SAYS, &says)],
            Cut::Deaf => &[(HEARS, &hears)],
        };
        rules.iter().try_for_each(|(name, rule)| {
            let name = format!("node{}:{name}", node.number);
            let end = ["-m", "comment", "--comment", &name, "-j", "DROP"];
            iptables(&[&["-A", CHAIN], *rule, &end].concat()).map(drop)
        })
    }

    /// How many packets were dropped since the cut.
    ///
    /// # Errors
    /// If a rule that cannot have been idle was: then nothing was cut.
    pub(super) fn dropped(&self) -> Result<u64, Violation> {
        count_dropped(&iptables(&["-n", "-v", "-x", "-L", CHAIN])?)
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
        iptables(&["-X", CHAIN]).map(|_| true)
    }
}

/// The sum over the rules that `iptables -L` lists with their counters.
fn count_dropped(listing: &str) -> Result<u64, Violation> {
    let rule = |line: &str| {
        let packets: u64 = line.split_whitespace().next()?.parse().ok()?;
        let name = line.split_once("/* ")?.1.split_once(" */")?.0.to_owned();
        Some((name, packets))
    };
    let rules: Vec<(String, u64)> = listing.lines().filter_map(rule).collect();
    let is_idle = |(name, packets): &&(String, u64)| {
        *packets == 0
            && NEVER_IDLE.iter().any(|never_idle| name.ends_with(&format!(":{never_idle}")))
    };
    if rules.is_empty() {
        return Err(Violation::new("nothing was cut: the packet filter has no rules"));
    }
    match rules.iter().find(is_idle) {
        Some((name, _)) => {
            Err(Violation::new(format!("nothing was cut: the rule {name} dropped no packet")))
        }
        None => Ok(rules.iter().map(|(_, packets)| packets).sum()),
    }
}

/// What it prints.
fn iptables(words: &[&str]) -> Result<String, Violation> {
    let failed = |why: String| Violation::new(format!("iptables {}: {why}", words.join(" ")));
    let output = Command::new("iptables").arg("-w").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(rules: &[(u64, &str)]) -> String {
        let head = "Chain TAVOLA-TORTURE (1 references)\n    pkts      bytes target     prot opt in     out     source\n";
        let line = |(packets, name): &(u64, &str)| {
            format!(
                "{packets:>8} {:>8} DROP       6    --  *      *       0.0.0.0/0  127.0.211.2  /* {name} */\n",
                60
            )
        };
        rules.iter().map(line).fold(head.to_owned(), |all, line| all + &line)
    }

    #[test]
    fn what_rules_dropped_adds_up() {
        let dropped = |rules: &[(u64, &str)]| {
            count_dropped(&listing(rules)).map_err(|violation| violation.to_string())
        };
        assert_eq!(
            dropped(&[(120, "node2:says"), (7, "node2:hears"), (0, "node2:confirms")]),
            Ok(127)
        );
        assert_eq!(dropped(&[(5, "node1:hears"), (0, "node1:answers")]), Ok(5));
    }

    /// A packet filter that takes the rules and never applies them would have made every seed with
    /// a cut a clean one.
    #[test]
    fn a_cut_that_drops_nothing_is_no_cut() {
        let cut_in_half =
            vec![(9, "node2:says"), (9, "node2:hears"), (9, "node3:says"), (0, "node3:hears")];
        let cases = [
            (vec![(0, "node2:says")], "node2:says"),
            (cut_in_half, "node3:hears"),
            (vec![], "no rules"),
        ];
        for (rules, named) in cases {
            let refused = count_dropped(&listing(&rules)).expect_err("nothing was cut").to_string();
            assert!(refused.contains(named), "{refused}");
        }
    }
}
