//! Waits for Cassandra nodes, with a bound on everything and a message from time to time.

use std::thread;
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::node::Node;
use super::shape::Shape;
use super::{cql, ring};
use crate::failure::{Failure, Result};
use crate::progress;

/// One node needs 5 s, three together 15 s on two idle cores. The bound is for those that are busy.
const ANSWER_MAX: Duration = Duration::from_secs(240);
const MEET_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(20);
const KILL_MAX: Duration = Duration::from_secs(10);

const BETWEEN_WORDS: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A start script waits so long for an earlier process of its node; then it writes its id.
const PID_MAX: Duration = Duration::from_secs(15);

/// Until each of the nodes answers clients.
pub(super) fn until_all_answer(nodes: &[&Node], shape: &Shape) -> Result {
    let start = Instant::now();
    let is_ready = |node: &Node| {
        node.answers(shape.tls) && (!shape.password || has_superuser(node, nodes, shape))
    };
    let mut waiting = nodes.to_vec();
    let mut clock = Clock::new(start);
    while !waiting.is_empty() {
        for node in &waiting {
            check_alive(node, start)?;
        }
        waiting.retain(|node| {
            let is_waiting = !is_ready(node);
            if !is_waiting {
                println!(
                    "node {} answers at {} ({})",
                    node.number,
                    node.place.cql(),
                    progress::seconds(start.elapsed())
                );
            }
            is_waiting
        });
        if let Some(node) = waiting.first() {
            clock
                .look(ANSWER_MAX, || format!("for CQL of {}", numbers(&waiting)))
                .map_err(|failure| with_log(&failure.to_string(), node))?;
        }
    }
    Ok(())
}

/// The first superuser is made some time after a node answers.
fn has_superuser(node: &Node, nodes: &[&Node], shape: &Shape) -> bool {
    if shape.tls {
        // A login would need cryptography. The node that makes the user says so, and its log lives
        // as long as its data.
        return nodes.iter().any(|node| node.log_says("Created default superuser role"));
    }
    cql::admits(node.place.cql(), "cassandra", "cassandra")
}

fn check_alive(node: &Node, start: Instant) -> Result {
    if node.live_pid().is_some() || (node.pid().is_none() && start.elapsed() < PID_MAX) {
        return Ok(());
    }
    Err(with_log("it died", node))
}

fn with_log(what: &str, node: &Node) -> Failure {
    let (number, tail, log) = (node.number, node.log_tail(), node.log());
    Failure::new(format!(
        "node {number} at {}: {what}. The end of its log:\n{tail}\nAll of it: {}",
        node.place.cql(),
        log.display()
    ))
}

/// Until every node of the ring sees every other one up. One that has just begun to answer may know
/// only some of them, and a write to all of them would be refused.
pub(super) fn until_all_have_met(cluster: &Cluster) -> Result {
    let start = Instant::now();
    let ring: Vec<&Node> = cluster.ring().collect();
    if ring.len() < 2 {
        return Ok(());
    }
    let nodetool = cluster.nodetool();
    let sees_all = |node: &Node| {
        let seen = ring::seen_by(&nodetool, node.number);
        ring.iter().all(|other| seen.contains(&other.place.address))
    };
    let mut waiting = ring.clone();
    let mut clock = Clock::new(start);
    while !waiting.is_empty() {
        let answers: Vec<bool> = thread::scope(|scope| {
            let threads: Vec<_> =
                waiting.iter().map(|node| scope.spawn(|| sees_all(node))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(false)).collect()
        });
        let mut answers = answers.into_iter();
        waiting.retain(|_| !answers.next().unwrap_or(false));
        if let Some(node) = waiting.first() {
            clock
                .look(MEET_MAX, || format!("until {} sees all others", numbers(&waiting)))
                .map_err(|failure| with_log(&failure.to_string(), node))?;
        }
    }
    println!("all {} nodes see each other ({})", ring.len(), progress::seconds(start.elapsed()));
    Ok(())
}

/// Asks the nodes to end; those that do not are killed.
pub(super) fn until_all_have_stopped(nodes: &[Node]) -> Result {
    let live = || nodes.iter().filter(|node| node.live_pid().is_some());
    for node in live() {
        // A stopped process takes no signal but this one.
        node.signal("-CONT");
        node.signal("-TERM");
    }
    if wait_until(STOP_MAX, || live().next().is_none()) {
        return Ok(());
    }
    for node in live() {
        println!(
            "node {} did not end within {}; killing it",
            node.number,
            progress::seconds(STOP_MAX)
        );
        node.signal("-KILL");
    }
    if wait_until(KILL_MAX, || live().next().is_none()) {
        return Ok(());
    }
    let left: Vec<&Node> = live().collect();
    Err(Failure::new(format!("{} cannot be killed", numbers(&left))))
}

fn wait_until(bound: Duration, is_done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + bound;
    while !is_done() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    true
}

fn numbers(nodes: &[&Node]) -> String {
    let numbers: Vec<_> = nodes.iter().map(|node| node.number.to_string()).collect();
    format!("node {}", numbers.join(", "))
}

/// Between two looks at what is waited for.
struct Clock {
    start: Instant,
    last_word: Instant,
}

impl Clock {
    fn new(start: Instant) -> Self {
        Self { start, last_word: start }
    }

    /// Sleeps a little; says what is waited for when that was long ago; fails when it takes too
    /// long.
    fn look(&mut self, bound: Duration, waiting: impl Fn() -> String) -> Result {
        let elapsed = self.start.elapsed();
        if elapsed > bound {
            return Err(Failure::new(format!(
                "gave up waiting {} after {}",
                waiting(),
                progress::seconds(elapsed)
            )));
        }
        if self.last_word.elapsed() > BETWEEN_WORDS {
            println!("waiting {} ({})", waiting(), progress::seconds(elapsed));
            self.last_word = Instant::now();
        }
        thread::sleep(BETWEEN_LOOKS);
        Ok(())
    }
}
