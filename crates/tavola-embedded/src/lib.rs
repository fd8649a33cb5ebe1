//! [`Store`](tavola_store::Store) on the embedded engine, RocksDB: the default, for one machine.
//!
//! Deliberately absent: what an operation means (`tavola_core::decide`), and how keys and rows look
//! as bytes (`tavola_store`). What is here: opening a data folder safely, group commit, reads that
//! do not block the threads of sockets, and reclaiming space. `docs/format.md` draws every byte on
//! disk.
//!
//! Reading order: `store` with `row_cache` and `inline_reads`; `group_commit` with `queue`,
//! `disk_space` and `write_halt`; what opening needs: `folder`, `private_files`, `opening`,
//! `log_check`, `watermark`, `attempt`, `options`. For blocks that are damaged while it serves:
//! `damage`. For folders that do not open: `check`, `repair`, and `files`, which reads the engine's
//! files without the engine.

mod attempt;
mod backend;
pub mod check;
mod damage;
mod disk_space;
mod engine;
#[cfg(feature = "engine-baseline")]
pub mod engine_baseline;
mod error;
mod files;
mod folder;
mod group_commit;
mod inline_reads;
mod log_check;
#[cfg(feature = "mutants")]
mod mutants;
mod opening;
mod options;
pub mod private_files;
mod queue;
mod reclaim;
pub mod repair;
mod row_cache;
mod scans;
pub mod settings;
mod stats;
mod store;
mod watermark;
mod write_halt;

pub use error::OpenError;
pub use opening::last_version;
pub use options::{Compression, Options};
pub use settings::Config;
pub use stats::Stats;
pub use store::EmbeddedStore;
