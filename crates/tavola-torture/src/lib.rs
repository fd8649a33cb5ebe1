//! Attacks on the real server process: what it acknowledged must be there, what it says must be
//! true.
//!
//! A *campaign* is one way to attack. It runs once per *seed*, from which every choice of the
//! attack follows; what the machine's scheduler does does not follow from it, so a repeated seed
//! repeats the plan, not every interleaving. A campaign counts what it did in a [`Tally`] and ends
//! with the first [`Violation`] of a promise.
//!
//! Reading order: `campaign` and `arena` (what an attack is given and gives back), `runner`,
//! `ledger` (what a client was told), `author` and `workload` (what clients ask for), `verify`,
//! then the campaigns.

#![allow(clippy::missing_panics_doc, reason = "for tests, which fail by panicking")]

mod arena;
mod author;
mod bits;
mod campaign;
mod cluster;
mod disk;
mod history;
mod kill;
mod ledger;
mod load;
mod lossy_disk;
mod mutants;
mod power;
mod preload;
mod runner;
mod time;
mod verify;
mod workload;

pub use arena::Arena;
pub use campaign::{Campaign, Tally, Violation};
pub use cluster::{FAULT_NAMES, current_fault_name, seed_has_fault, undo_faults};
pub use preload::ShiftedClock;
pub use runner::{Outcome, Plan, run};

/// All campaigns, in the order in which `all` runs them; those that need a cluster run only by
/// name.
pub const CAMPAIGNS: [Campaign; 10] = [
    kill::CAMPAIGN,
    disk::CAMPAIGN,
    power::CAMPAIGN,
    bits::CAMPAIGN,
    time::CAMPAIGN,
    history::HISTORY,
    history::MUTANTS,
    load::CAMPAIGN,
    cluster::CAMPAIGN,
    cluster::MUTANTS,
];
