//! [`Store`](tavola_store::Store) on Apache Cassandra or ScyllaDB: any number of nodes over
//! one cluster. *Node* is a process that serves; a member of the cluster is a *Cassandra node*.
//!
//! A partition of the service is a partition of the cluster, and its rows are changed only by
//! conditional batches, so that an entity group transaction is one of them. Hashing scatters
//! partitions; a directory of partition keys beside the entities gives scans their order. A node
//! keeps nothing that another one would miss.
//!
//! Deliberately absent: what an operation means (`tavola_core::decide`), how keys and rows look as
//! bytes (`tavola_store`), and consensus, which is the cluster's.
//!
//! Reading order: `schema` and `statements` for what is stored in the cluster; `queue` and `write`
//! (a group of transactions from the queue to the answers) with `plan` (conditions) and
//! `registration`; `scan` with `directory`; `import` for rows of another store; `sweep` and `purge`
//! for what removes rows; `inspect` for what an operator should know; `heartbeat` for which nodes
//! serve the keyspace. `hints` and `contention` are caches: the cluster checks what they say.

mod cluster;
mod contention;
mod directory;
#[cfg(feature = "driver-baseline")]
pub mod driver_baseline;
mod error;
mod health;
mod heartbeat;
mod hints;
mod import;
mod inspect;
mod metrics;
#[cfg(feature = "mutants")]
mod mutants;
mod options;
mod plan;
mod purge;
mod queue;
mod register;
mod registration;
mod reply;
mod routing;
mod scan;
mod schema;
pub mod settings;
mod statements;
mod stats;
mod store;
mod sweep;
mod versions;
mod write;

pub use error::OpenError;
pub use inspect::{Finding, InspectedNode, Inspection, Risk, inspect};
pub use options::{Options, Reads};
pub use schema::{Created, init};
pub use settings::Config;
pub use stats::{LATENCY_EDGES_MS, Latency, Stats, WIDTH_EDGES};
pub use store::CassandraStore;
