//! Three Cassandra nodes behind two nodes that serve, while something goes wrong with one of the
//! five.
//!
//! Clients race on two tables and move amounts between the rows of a third; meanwhile one fault
//! happens, chosen by the seed, and is healed again. Then everything is read through both
//! nodes, and what all clients heard must be explained. Cassandra nodes are started once, by `cargo
//! xtask torture cluster`; each seed has tables of its own.
//!
//! Reading order: `fault` (what goes wrong), `scene` (one seed from its beginning to its end),
//! `cassandra_nodes`, `cuts`, `process` and `nodes` (what it is done to), `bank` (are transactions
//! whole?), `mutants` (does all this find anything?).

mod bank;
mod cassandra_nodes;
mod cuts;
mod fault;
mod mutants;
mod nodes;
mod process;
mod scene;

use std::path::{Path, PathBuf};

use super::{Arena, Campaign, Tally, Violation};

pub use fault::{FAULT_NAMES, current_fault_name, seed_has_fault};
pub(super) use mutants::MUTANTS;

use cassandra_nodes::CassandraNodes;
use fault::Fault;
use nodes::Defect;
use scene::{FOR_PEERS, REGISTERED_AGAIN, RETIRED, play};

/// Every fault once.
pub(super) const CAMPAIGN: Campaign = Campaign {
    name: "cluster",
    about: "three Cassandra nodes and two servers, of which one is killed, stopped, cut off or wrong about the time",
    short_seeds: Fault::ALL.len() as u64,
    needs_cluster: true,
    must_happen: &[RETIRED, REGISTERED_AGAIN, FOR_PEERS],
    attack,
};

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let fault = Fault::of_seed(arena.seed);
    let outcome = play(arena, &arena.server, fault, Defect::None);
    let begin = format!("cluster: seed {:<4} {:<16}", arena.seed, fault.name());
    let result = outcome.inspect_err(|_| println!("{begin} could not be played"))?;
    let mut tally = result.inspect_err(|_| println!("{begin} BROKEN"))?;
    println!(
        "{begin} {:>5} calls {:>4} unknown {:>4} busy {:>4} transfers {:>4} for a peer {:>2} undecided: clean",
        tally.get("calls checked"),
        tally.get("writes without answer"),
        tally.get("answers 503"),
        tally.get("transfers"),
        tally.get(FOR_PEERS),
        tally.get("partitions undecided"),
    );
    tally.add(fault.figure(), 1);
    Ok(tally)
}

/// Undoes what an attack that was killed left behind: rules of the packet filter, and nodes that
/// were stopped.
///
/// # Errors
/// If rules remain, or there is no such cluster.
pub fn undo_faults(cluster: &Path) -> Result<(), Violation> {
    CassandraNodes::find(cluster)?.undo().map(drop)
}

/// Where the cluster is: the folder that `cargo xtask cassandra up` made.
fn folder(arena: &Arena) -> Result<&PathBuf, Violation> {
    let missing =
        || Violation::new("there is no cluster; `cargo xtask torture cluster` starts one");
    arena.cluster.as_ref().ok_or_else(missing)
}
