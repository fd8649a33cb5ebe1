//! The store that was configured: opening it, what it says about itself, closing it.

use std::path::PathBuf;
use std::sync::Arc;

use tavola_core::{DateTime, Timestamp};
use tavola_embedded::{EmbeddedStore, OpenError};
use tavola_server::Health;
use tavola_server::config::{Compression, StoreConfig};
use tavola_server::node::AlwaysReady;
use tavola_service::migration::{unfinished_copy, unfinished_copy_address, unfinished_copy_source};
use tavola_service::{Clock, JUMP_MAX, SystemClock};
use tavola_store::{MemoryStore, Store};

use crate::cluster::ClusterStore;
use crate::exit::Failure;

/// A store, kept as what it is so that it can be closed.
pub(crate) enum OpenStore {
    Memory(Arc<MemoryStore>),
    Embedded(Arc<EmbeddedStore>),
    Cassandra(ClusterStore),
}

impl OpenStore {
    pub(crate) async fn open(config: &StoreConfig) -> Result<Self, Failure> {
        match config {
            StoreConfig::Memory => Ok(Self::Memory(Arc::new(MemoryStore::new()))),
            StoreConfig::Embedded {
                location,
                cache_bytes,
                compression,
                memtable_bytes,
                reserve_bytes,
                allow_future_versions,
            } => {
                let options = tavola_embedded::Options {
                    cache_bytes: *cache_bytes,
                    compression: compression_of(*compression),
                    memtable_bytes: *memtable_bytes,
                    reserve_bytes: *reserve_bytes,
                    versions_max: (!allow_future_versions).then(versions_max),
                    refused_row: Some(unfinished_copy_address()),
                    ..Default::default()
                };
                open_embedded(location.clone(), options).await
            }
            StoreConfig::Cassandra(config) => {
                Ok(Self::Cassandra(ClusterStore::open(config).await?))
            }
        }
    }

    pub(crate) fn entities(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::clone(store) as _,
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Cassandra(store) => store.entities(),
        }
    }

    /// For stores that can only be asked when they are open.
    pub(crate) async fn refuse_unfinished_copy(&self) -> Result<(), Failure> {
        match unfinished_copy(&*self.entities()).await {
            Ok(None) => Ok(()),
            Ok(Some(source)) => Err(is_unfinished_copy(&source)),
            Err(error) => Err(Failure::System(error.to_string())),
        }
    }

    pub(crate) fn health(&self) -> Arc<dyn Health> {
        match self {
            Self::Memory(_) => Arc::new(AlwaysReady),
            Self::Embedded(store) => Arc::new(EmbeddedHealth(Arc::clone(store))),
            Self::Cassandra(store) => Arc::new(store.clone()),
        }
    }

    /// Everything acknowledged is on disk already; this only saves the next start from replaying
    /// the log, and other front ends from finding out that this one has gone.
    pub(crate) async fn close(self) {
        match self {
            Self::Memory(_) => {}
            Self::Embedded(store) => {
                if let Err(error) = store.close() {
                    tracing::warn!(%error, "the next start will replay the log");
                }
            }
            Self::Cassandra(store) => store.close().await,
        }
    }
}

/// On a thread that may wait: a recovery takes a while, and meanwhile somebody may want the process
/// to end.
async fn open_embedded(
    location: PathBuf,
    options: tavola_embedded::Options,
) -> Result<OpenStore, Failure> {
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(location, options)).await;
    let opened = opened
        .map_err(|ended| Failure::System(format!("the store could not be opened: {ended}")))?;
    Ok(OpenStore::Embedded(Arc::new(opened.map_err(cannot_open)?)))
}

/// Versions beyond this are of a clock that was wrong, or this machine's is.
pub(crate) fn versions_max() -> Timestamp {
    let day = u64::try_from(JUMP_MAX.as_nanos() / 100).unwrap_or(u64::MAX);
    let ticks = SystemClock.now().ticks().saturating_add(day);
    Timestamp::from_ticks(ticks).unwrap_or(Timestamp::new(DateTime::MAX))
}

fn compression_of(configured: Compression) -> tavola_embedded::Compression {
    match configured {
        Compression::Lz4 => tavola_embedded::Compression::Lz4,
        Compression::Zstd => tavola_embedded::Compression::Zstd,
    }
}

/// Half of a store must not be served: what is missing would look deleted, and what is written
/// would be in the way.
fn is_unfinished_copy(source: &str) -> Failure {
    Failure::Data(format!(
        "the store is an unfinished copy of {source}: repeat `tavola store copy` to finish it"
    ))
}

/// A script can tell a folder that must be looked at from a disk or machine that must.
pub(crate) fn cannot_open(error: OpenError) -> Failure {
    let message = error.to_string();
    match error {
        OpenError::Io { .. }
        | OpenError::EngineIo { .. }
        | OpenError::DiskFull { .. }
        | OpenError::MissingCpuFeatures { .. } => Failure::System(message),
        OpenError::RefusedRow { row, .. } => match unfinished_copy_source(&row) {
            Ok(source) => is_unfinished_copy(&source),
            Err(error) => Failure::Data(error.to_string()),
        },
        _ => Failure::Data(message),
    }
}

#[derive(Debug)]
struct EmbeddedHealth(Arc<EmbeddedStore>);

impl Health for EmbeddedHealth {
    fn ready(&self) -> Result<(), String> {
        self.0.health()
    }

    fn warning(&self) -> Option<String> {
        self.0.warning()
    }

    fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let stats = self.0.stats();
        vec![
            ("tavola_store_commits", "Transactions that were written", stats.commits),
            ("tavola_store_refusals", "Transactions that the domain refused", stats.refusals),
            ("tavola_store_contended", "Transactions that found the queue full", stats.contended),
            ("tavola_store_syncs", "Groups that were written, each with one sync", stats.syncs),
            ("tavola_store_written_bytes", "Bytes of those groups", stats.bytes_written),
            ("tavola_store_gets_cached", "Point reads that memory answered", stats.gets_cached),
            (
                "tavola_store_gets_from_disk",
                "Point reads that had to ask the disk",
                stats.gets_from_disk,
            ),
            (
                "tavola_store_gets_in_place",
                "Point reads while files are in memory",
                stats.gets_in_place,
            ),
            (
                "tavola_store_scans_in_place",
                "Scans of a few rows while files are in memory",
                stats.scans_in_place,
            ),
            (
                "tavola_store_rows_scanned",
                "Rows that scans looked at, for whomever",
                stats.rows_scanned,
            ),
        ]
    }
}
