//! What goes wrong, and for how long.

use std::thread::sleep;
use std::time::Duration;

use super::cuts::Cut;
use super::process::Stopped;
use super::scene::Scene;
use crate::{Tally, Violation};

/// Longer than any timeout: of clients, of nodes, and of Cassandra nodes for each other.
const LONGER_THAN_ANY_TIMEOUT: Duration = Duration::from_secs(13);
/// A cut or a stop that the other Cassandra nodes notice.
const LONG_ENOUGH_TO_BE_CALLED_DOWN: Duration = Duration::from_secs(25);
const MINUTE: i64 = 60;
/// Clients let a server's clock be off by a quarter of an hour.
const CLOCK_MINUTES_MAX: i64 = 10;
const CLOCK_JUMPS: u64 = 4;

// What the tally calls what was seen to go wrong.
const KILLS: &str = "processes killed";
const STOPS: &str = "processes stopped";

/// One thing that goes wrong. A *node* is a Cassandra node here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    KillNode,
    KillAllNodes,
    KillServer,
    StopNode,
    StopServer,
    CutNode,
    CutMajority,
    CutOneWay,
    HastyClients,
    HastyServers,
    WrongClock,
    RollingRestart,
    AddAndRemove,
}

/// The names of all faults, as `--faults` takes them.
pub const FAULT_NAMES: [&str; Fault::ALL.len()] = {
    let mut names = [""; Fault::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Fault::ALL[index].name();
        index += 1;
    }
    names
};

/// Whether a seed brings one of these faults.
#[must_use]
pub fn seed_has_fault(seed: u64, faults: &[String]) -> bool {
    faults.iter().any(|name| name == Fault::of_seed(seed).name())
}

/// Older entries of the log of runs call servers front ends.
#[must_use]
pub fn current_fault_name(name: &str) -> &str {
    match name {
        "kill-front-end" => "kill-server",
        "stop-front-end" => "stop-server",
        "hasty-front-ends" => "hasty-servers",
        name => name,
    }
}

impl Fault {
    pub(super) const ALL: [Self; 13] = [
        Self::KillNode,
        Self::KillServer,
        Self::StopNode,
        Self::StopServer,
        Self::HastyClients,
        Self::HastyServers,
        Self::CutNode,
        Self::CutMajority,
        Self::CutOneWay,
        Self::WrongClock,
        Self::KillAllNodes,
        Self::RollingRestart,
        Self::AddAndRemove,
    ];

    /// Each in turn.
    pub(super) fn of_seed(seed: u64) -> Self {
        let count = Self::ALL.len() as u64;
        Self::ALL[usize::try_from((seed + count - 1) % count).unwrap_or_default()]
    }

    /// As `--faults` names it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::KillNode => "kill-node",
            Self::KillAllNodes => "kill-all-nodes",
            Self::KillServer => "kill-server",
            Self::StopNode => "stop-node",
            Self::StopServer => "stop-server",
            Self::CutNode => "cut-node",
            Self::CutMajority => "cut-majority",
            Self::CutOneWay => "cut-one-way",
            Self::HastyClients => "hasty-clients",
            Self::HastyServers => "hasty-servers",
            Self::WrongClock => "wrong-clock",
            Self::RollingRestart => "rolling-restart",
            Self::AddAndRemove => "add-and-remove",
        }
    }

    /// What the tally calls its seeds.
    pub(super) const fn figure(self) -> &'static str {
        match self {
            Self::KillNode => "seeds of kill-node",
            Self::KillAllNodes => "seeds of kill-all-nodes",
            Self::KillServer => "seeds of kill-server",
            Self::StopNode => "seeds of stop-node",
            Self::StopServer => "seeds of stop-server",
            Self::CutNode => "seeds of cut-node",
            Self::CutMajority => "seeds of cut-majority",
            Self::CutOneWay => "seeds of cut-one-way",
            Self::HastyClients => "seeds of hasty-clients",
            Self::HastyServers => "seeds of hasty-servers",
            Self::WrongClock => "seeds of wrong-clock",
            Self::RollingRestart => "seeds of rolling-restart",
            Self::AddAndRemove => "seeds of add-and-remove",
        }
    }

    /// Whether Cassandra nodes must find each other again after it.
    pub(super) fn concerns_nodes(self) -> bool {
        !matches!(
            self,
            Self::KillServer
                | Self::StopServer
                | Self::HastyClients
                | Self::HastyServers
                | Self::WrongClock
        )
    }

    /// Lets it go wrong, and makes it well again; what was seen to have gone wrong.
    ///
    /// # Errors
    /// If it did not go wrong, or what was killed does not come back, or a rule or a signal cannot
    /// be given.
    pub(super) fn strike(
        self,
        scene: &mut Scene<'_>,
        rng: &mut fastrand::Rng,
    ) -> Result<Tally, Violation> {
        let cassandra_node = rng.usize(..scene.cassandra.ring().len());
        let node = rng.usize(..2);
        let mut seen = Tally::default();
        match self {
            Self::HastyClients => sleep(Duration::from_secs(15)),
            Self::HastyServers => seen.add(STOPS, hesitating_nodes(scene, rng)?),
            Self::KillNode => {
                scene.cassandra.ring()[cassandra_node].kill()?;
                sleep(Duration::from_millis(rng.u64(..8_000)));
                scene.cassandra.ring()[cassandra_node].start()?;
                seen.add(KILLS, 1);
            }
            Self::KillAllNodes => {
                scene.cassandra.kill_ring()?;
                sleep(Duration::from_millis(rng.u64(..2_000)));
                scene.cassandra.ring().iter().try_for_each(|node| node.start())?;
                seen.add(KILLS, scene.cassandra.ring().len() as u64);
            }
            Self::KillServer => {
                for _ in 0..2 {
                    scene.kill_node(node)?;
                    sleep(Duration::from_millis(rng.u64(..4_000)));
                    scene.start_node(node)?;
                    sleep(Duration::from_secs(3));
                    seen.add(KILLS, 1);
                }
            }
            Self::StopNode => {
                let stopped = scene.cassandra.ring()[cassandra_node].stop()?;
                sleep(if rng.bool() {
                    LONGER_THAN_ANY_TIMEOUT
                } else {
                    LONG_ENOUGH_TO_BE_CALLED_DOWN
                });
                stopped.go_on()?;
                seen.add(STOPS, 1);
            }
            Self::StopServer => {
                let stopped = scene.nodes.stop(node)?;
                sleep(LONGER_THAN_ANY_TIMEOUT);
                stopped.go_on()?;
                seen.add(STOPS, 1);
            }
            Self::CutNode | Self::CutMajority | Self::CutOneWay => {
                seen.add("packets dropped", self.cut(scene, cassandra_node, rng)?);
            }
            Self::WrongClock => seen.add("wrong times told", wrong_clock(scene, node, rng)?),
            Self::RollingRestart => {
                rolling_restart(scene)?;
                seen.add("nodes restarted", scene.cassandra.ring().len() as u64);
            }
            Self::AddAndRemove => {
                scene.cassandra.add_and_remove_spare()?;
                seen.add("nodes joined and gone", 1);
            }
        }
        Ok(seen)
    }

    /// How many packets were dropped.
    fn cut(
        self,
        scene: &Scene<'_>,
        cassandra_node: usize,
        rng: &mut fastrand::Rng,
    ) -> Result<u64, Violation> {
        let ring = scene.cassandra.ring();
        let how = match self {
            // Also from clients, or only from its peers: then it takes requests that it cannot
            // carry out.
            Self::CutNode | Self::CutMajority if rng.bool() => Cut::FromEverybody,
            Self::CutNode | Self::CutMajority => Cut::FromPeers,
            _ if rng.bool() => Cut::Mute,
            _ => Cut::Deaf,
        };
        scene.cassandra.cuts.cut(&ring[cassandra_node], how)?;
        if self == Self::CutMajority {
            scene.cassandra.cuts.cut(&ring[(cassandra_node + 1) % ring.len()], how)?;
        }
        sleep(if rng.bool() { LONGER_THAN_ANY_TIMEOUT } else { LONG_ENOUGH_TO_BE_CALLED_DOWN });
        let dropped = scene.cassandra.cuts.dropped();
        scene.cassandra.cuts.heal()?;
        dropped
    }
}

/// Two of three stop for as long as a server waits. The third has begun what it was asked, and ends
/// it when they go on. How many stops there were.
fn hesitating_nodes(scene: &Scene<'_>, rng: &mut fastrand::Rng) -> Result<u64, Violation> {
    let ring = scene.cassandra.ring();
    let mut stops = 0;
    for _ in 0..20 {
        let coordinator = rng.usize(..ring.len());
        let others = ring.iter().enumerate().filter(|(index, _)| *index != coordinator);
        let stopped: Vec<_> = others.map(|(_, node)| node.stop()).collect::<Result<_, _>>()?;
        sleep(Duration::from_millis(rng.u64(150..600)));
        stops += stopped.len() as u64;
        stopped.into_iter().try_for_each(Stopped::go_on)?;
        sleep(Duration::from_millis(rng.u64(200..800)));
    }
    Ok(stops)
}

/// Back and forth by minutes, while clients of both servers write the same rows. How often the
/// server told a wrong time.
fn wrong_clock(scene: &Scene<'_>, node: usize, rng: &mut fastrand::Rng) -> Result<u64, Violation> {
    for _ in 0..CLOCK_JUMPS {
        let minutes = rng.i64(1..=CLOCK_MINUTES_MAX);
        let sign = if rng.bool() { 1 } else { -1 };
        scene.nodes.set_clock(node, sign * minutes * MINUTE);
        scene.nodes.check_clock(node, sign * minutes * MINUTE)?;
        sleep(Duration::from_secs(4));
    }
    scene.nodes.set_clock(node, 0);
    Ok(CLOCK_JUMPS)
}

fn rolling_restart(scene: &Scene<'_>) -> Result<(), Violation> {
    for node in scene.cassandra.ring() {
        node.terminate()?;
        node.start()?;
        scene.cassandra.wait_until_well()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_log_of_runs_are_known() {
        for old in ["kill-front-end", "stop-front-end", "hasty-front-ends", "cut-node"] {
            assert!(FAULT_NAMES.contains(&current_fault_name(old)), "{old}");
        }
    }

    #[test]
    fn seeds_bring_every_fault_in_turn() {
        let names: Vec<&str> = (1..=13).map(|seed| Fault::of_seed(seed).name()).collect();
        assert_eq!(names, FAULT_NAMES);
        assert_eq!(Fault::of_seed(14), Fault::of_seed(1));
        assert_eq!(Fault::of_seed(0), Fault::of_seed(13));
        assert!(seed_has_fault(2, &["kill-node".into(), "kill-server".into()]));
        assert!(!seed_has_fault(3, &["kill-node".into(), "kill-server".into()]));
    }
}
