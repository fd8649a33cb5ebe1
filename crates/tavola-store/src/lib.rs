//! The seam under the service: the [`Store`] trait with its contract, its errors, the encoding of
//! entities, and [`MemoryStore`], the reference that a reader can follow.
//!
//! Deliberately absent: any engine, any wire format, and any meaning. What an operation does is
//! decided by [`tavola_core::decide`]; a store reads rows, calls it, and writes what it says.

pub mod backend;
pub mod blocking;
pub mod bounded_cache;
pub mod decision;
pub mod encoding;
pub mod error;
pub mod import;
pub mod keys;
pub mod layer;
pub mod leased_cache;
pub mod memory;
pub mod page;
pub mod settings;
pub mod shared;
pub mod stop;
pub mod store;

pub use backend::{Backend, Sharing};
pub use blocking::Blocking;
pub use bounded_cache::BoundedCache;
pub use encoding::{Row, RowFilter, RowRef};
pub use error::StoreError;
pub use import::{Import, ImportError};
pub use layer::StoreLayer;
pub use leased_cache::LeasedCache;
pub use memory::MemoryStore;
pub use settings::{Setting, SettingValues};
pub use shared::{Peer, SharedStore};
pub use stop::{StopOnDrop, StopToken};
pub use store::{CommitFuture, CommitResult, SHORT_SCAN_ROWS, Scan, ScanPage, Store};
