//! Requests fall on partitions by popularity, partitions on nodes by hash.

use super::random::Dice;

/// Tokens of a node in the ring, as Cassandra's default.
const TOKENS: usize = 16;
const NODES_MAX: usize = 2000;
/// Partitions beyond this rank are taken together as many that are equal: dealing them out singly
/// changes nothing.
const RANKS_MAX: usize = 200_000;

/// What is asked.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) accounts: usize,
    pub(super) partitions: usize,
    pub(super) requests: f64,
    pub(super) skew: f64,
    pub(super) writes: f64,
    pub(super) is_strict: bool,
    pub(super) copies: usize,
    pub(super) cassandra_cores: f64,
    pub(super) server_cores: f64,
    pub(super) busy: f64,
    pub(super) seed: u64,
}

impl Load {
    pub(super) fn check(&self) -> Result<(), String> {
        let is_share = |number: f64| (0.0..=1.0).contains(&number);
        match () {
            () if self.accounts == 0 || self.partitions == 0 || self.copies == 0 => {
                Err("at least one of each".into())
            }
            () if !is_share(self.writes) => Err("--writes is a share between 0 and 1".into()),
            () if !is_share(self.busy) || self.busy == 0.0 => {
                Err("--busy is a share between 0 and 1".into())
            }
            () if self.cassandra_cores <= 0.0 || self.server_cores <= 0.0 => {
                Err("machines have cores".into())
            }
            () => Ok(()),
        }
    }
}

/// What one thing costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// Core milliseconds of each replica.
    pub(super) write_ms: f64,
    pub(super) strict_ms: f64,
    pub(super) fast_ms: f64,
    /// Core milliseconds of a server.
    pub(super) server_ms: f64,
    /// A partition's writes a second, joined into batches.
    pub(super) partition_writes: f64,
}

impl Costs {
    /// From `cargo xtask bench cluster --nodes 3`; see docs/scale.md. That of a server is an
    /// estimate.
    pub(super) const MEASURED: Self = Self {
        write_ms: 4.6,
        strict_ms: 1.55,
        fast_ms: 0.75,
        server_ms: 0.25,
        partition_writes: 1760.0,
    };
}

/// What it takes.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) nodes: Option<usize>,
    pub(super) servers: usize,
    /// Requests a second.
    pub(super) hottest: f64,
    pub(super) busiest: f64,
    pub(super) busiest_with_one_down: f64,
}

pub(super) fn answer(load: &Load, costs: &Costs) -> Answer {
    let (popular, rest) = popularity(load);
    let hottest = popular.first().copied().unwrap_or_default() * load.requests;
    let server = costs.server_ms * load.requests / 1000.0 / (load.server_cores * load.busy);
    let servers = server.ceil().max(1.0) as usize + 1;
    let fits = |nodes: usize| {
        let (quiet, one_down) = busiest(load, costs, &popular, rest, nodes);
        (one_down <= load.busy).then_some((nodes, quiet, one_down))
    };
    // The work of the whole says where to begin; below that nothing fits.
    let total = load.requests * request_ms(load, costs) * load.copies as f64 / 1000.0;
    let least = ((total / (load.cassandra_cores * load.busy)).ceil() as usize).max(load.copies);
    let found = (least..=NODES_MAX).step_by(1.max(least / 50)).find_map(fits);
    let (nodes, quiet, one_down) =
        found.map_or((None, 0.0, 0.0), |(nodes, quiet, down)| (Some(nodes), quiet, down));
    Answer { nodes, servers, hottest, busiest: quiet, busiest_with_one_down: one_down }
}

/// Core milliseconds of each replica for an average request.
fn request_ms(load: &Load, costs: &Costs) -> f64 {
    let read = if load.is_strict { costs.strict_ms } else { costs.fast_ms };
    load.writes * costs.write_ms + (1.0 - load.writes) * read
}

/// Shares of requests of the most popular partitions, and what is left for all others together.
fn popularity(load: &Load) -> (Vec<f64>, f64) {
    let count = load.accounts.saturating_mul(load.partitions);
    let weight = |rank: usize| ((rank + 1) as f64).powf(-load.skew);
    let popular: Vec<f64> = (0..count.min(RANKS_MAX)).map(weight).collect();
    // The sum of the tail by its integral, which is close where ranks are large.
    let (from, to) = (popular.len() as f64, count as f64);
    let tail = match load.skew {
        skew if (skew - 1.0).abs() < 1e-9 => (to / from).ln(),
        skew => (to.powf(1.0 - skew) - from.powf(1.0 - skew)) / (1.0 - skew),
    };
    let sum = popular.iter().sum::<f64>() + tail;
    (popular.iter().map(|weight| weight / sum).collect(), tail / sum)
}

/// How busy the busiest node is, with all nodes and with the worst one down.
fn busiest(load: &Load, costs: &Costs, popular: &[f64], rest: f64, nodes: usize) -> (f64, f64) {
    let ring = ring(load.seed, nodes);
    let mut work = vec![rest / nodes as f64 * load.copies as f64; nodes];
    let mut dice = Dice(load.seed ^ 0xA5A5_A5A5);
    for share in popular {
        for owner in owners(&ring, dice.next(), load.copies.min(nodes)) {
            work[owner] += share;
        }
    }
    let scale = load.requests * request_ms(load, costs) / 1000.0 / load.cassandra_cores;
    let most = work.iter().copied().fold(0.0, f64::max) * scale;
    // Reads and coordination of one lost node fall on the others of each set of replicas: one part
    // in `copies - 1` more.
    let more =
        1.0 + 1.0 / (load.copies.max(2) - 1) as f64 * (load.copies as f64 / nodes as f64).min(1.0);
    (most, most * more)
}

fn ring(seed: u64, nodes: usize) -> Vec<(u64, usize)> {
    let mut dice = Dice(seed);
    let mut ring: Vec<(u64, usize)> = (0..nodes)
        .flat_map(|node| (0..TOKENS).map(move |_| node))
        .map(|node| (dice.next(), node))
        .collect();
    ring.sort_unstable();
    ring
}

/// The first different nodes from a token on.
fn owners(ring: &[(u64, usize)], token: u64, count: usize) -> Vec<usize> {
    let start = ring.partition_point(|(at, _)| *at < token);
    let mut owners: Vec<usize> = Vec::with_capacity(count);
    for (_, node) in ring[start..].iter().chain(&ring[..start]) {
        if !owners.contains(node) {
            owners.push(*node);
            if owners.len() == count {
                break;
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> Load {
        Load {
            accounts: 10,
            partitions: 1000,
            requests: 10_000.0,
            skew: 0.0,
            writes: 0.2,
            is_strict: true,
            copies: 3,
            cassandra_cores: 8.0,
            server_cores: 4.0,
            busy: 0.6,
            seed: 1,
        }
    }

    #[test]
    fn shares_are_shares() {
        for skew in [0.0, 0.5, 1.0, 1.5] {
            let (popular, rest) = popularity(&Load { skew, accounts: 1000, ..load() });
            let sum = popular.iter().sum::<f64>() + rest;
            assert!((sum - 1.0).abs() < 1e-9, "skew {skew}: {sum}");
            assert!(popular.is_sorted_by(|one, next| one >= next));
        }
    }

    #[test]
    fn more_load_needs_more_machines() {
        let nodes =
            |requests| answer(&Load { requests, ..load() }, &Costs::MEASURED).nodes.unwrap();
        assert_eq!(nodes(1.0), 3, "copies need a node each");
        assert!(nodes(10_000.0) < nodes(100_000.0));
        // Never below what the work adds up to.
        let total = 10_000.0 * request_ms(&load(), &Costs::MEASURED) * 3.0 / 1000.0;
        assert!(nodes(10_000.0) as f64 >= total / (8.0 * 0.6));
    }

    #[test]
    fn a_hot_partition_is_no_matter_of_nodes() {
        let skewed = Load { skew: 3.0, requests: 1_000_000.0, ..load() };
        let answer = answer(&skewed, &Costs::MEASURED);
        assert!(answer.hottest > 500_000.0);
        assert_eq!(answer.nodes, None);
    }

    #[test]
    fn owners_differ() {
        let ring = ring(7, 5);
        for token in [0, u64::MAX / 3, u64::MAX] {
            let mut owners = owners(&ring, token, 3);
            owners.sort_unstable();
            owners.dedup();
            assert_eq!(owners.len(), 3);
        }
    }
}
