//! Front ends that share a store, and send each other the writes that would otherwise be in each other's way.
//!
//! A partition of a shared store is written by one conditional write after another. A front end joins the writes that wait
//! with it; two front ends refuse each other's. So the writes of a partition on which front ends have met go to one of them,
//! which all find by the same rule. Whoever cannot be reached is left out: every front end can do everything.
//!
//! What is sent is a transaction whose sender was authenticated and whose meaning was checked, and the answer is the
//! store's. Deliberately absent: requests of clients, and reads, which are in nobody's way.
//!
//! Reading order: `store` (when a write is sent on), `rendezvous` (to whom), `circle` (who is there), `link` and `host`
//! (both ends of a connection), `message` and `proof` (what is said on it).

mod circle;
mod counters;
mod host;
mod link;
mod message;
mod proof;
mod rendezvous;
mod store;

pub use counters::NeighbourStats;
pub use store::{Affinity, NeighbourlyStore, OpenError, Settings};
