//! [`Store`](tavola_store::Store) on Apache Cassandra or ScyllaDB: any number of front ends over
//! one cluster.
//!
//! A partition of the service is a partition of the cluster, and its rows are changed only by
//! conditional batches, so that an entity group transaction is one of them. Hashing puts partitions
//! where it likes; a directory of partition keys beside the entities gives scans their order.
//! Nothing that counts is kept in this process.
//!
//! Deliberately absent: what an operation means (`tavola_core::decide`), how keys and rows look as
//! bytes (`tavola_store`), and consensus, which is the cluster's.
//!
//! Reading order: `schema` and `statements` for what lies in the cluster; `write` (a group of
//! transactions from the queue to the answers) with `plan` (conditions), `fence` (unknown outcomes)
//! and `queue`; `scan` with `directory`; `import` for rows of another store; `sweep` and `purge`
//! for what takes rows away; `inspect` for what an operator should know; `heartbeat` for which
//! nodes serve the keyspace.

mod cluster;
mod directory;
mod error;
mod fence;
mod health;
mod heartbeat;
mod import;
mod inspect;
mod memory;
mod metrics;
#[cfg(feature = "mutants")]
mod mutants;
mod options;
mod plan;
mod purge;
mod queue;
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
#[cfg(feature = "yardstick")]
pub mod yardstick;

pub use error::OpenError;
pub use inspect::{Finding, Inspection, NodeSeen, Risk, inspect};
pub use options::{Options, Reads};
pub use schema::{Made, init};
pub use settings::Config;
pub use stats::{LATENCY_EDGES_MS, Latency, Stats, WIDTH_EDGES};
pub use store::CassandraStore;
