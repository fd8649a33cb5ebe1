//! Nodes that share a store, and forward to each other the writes that would otherwise conflict.
//!
//! A partition of a shared store is written by one conditional write after another. A node batches
//! the writes that wait for a partition; batches of two nodes refuse each other. So the writes of a
//! contended partition go to one node, which all find by the same rule. A node that cannot be
//! reached is left out: every node can write everything.
//!
//! What is forwarded is a transaction whose client was authenticated and whose meaning was checked,
//! and the answer is the store's. Deliberately absent: requests of clients, and reads, which
//! conflict with nothing.
//!
//! Reading order: `store` (when a write is forwarded), `rendezvous` (to which node), `membership`
//! (which nodes there are), `client` and `server` (both ends of a connection), `tenants` (which
//! writes wait), `transport` (TLS), `message` and `proof` (the messages on it), `keys` and
//! `authority` (what nodes prove with which nodes they are).

pub mod authority;
mod client;
mod counters;
mod identity;
pub mod keys;
mod membership;
mod message;
mod metrics;
mod node;
mod proof;
mod rendezvous;
mod server;
pub mod settings;
mod store;
mod tenants;
mod transport;

pub use counters::PeerStats;
pub use store::{Affinity, ForwardingStore, OpenError, Settings};
