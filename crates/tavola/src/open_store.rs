//! The store that was configured: opening and closing it.

use std::path::PathBuf;
use std::sync::Arc;

use tavola_core::{DateTime, Timestamp};
use tavola_embedded::{EmbeddedStore, OpenError};
use tavola_service::migration::{unfinished_copy, unfinished_copy_address, unfinished_copy_source};
use tavola_service::{Clock, JUMP_MAX, SystemClock};
use tavola_store::{Backend, MemoryStore, Store};

use crate::cluster::ClusterStore;
use crate::exit::Failure;
use crate::store_config::StoreConfig;

/// Opens the store that was configured. Only this function knows which one it is.
pub(crate) async fn open(config: &StoreConfig) -> Result<Arc<dyn Backend>, Failure> {
    match config {
        StoreConfig::Memory => Ok(Arc::new(MemoryStore::new())),
        StoreConfig::Embedded(config) => {
            let options = tavola_embedded::Options {
                versions_max: (!config.allow_future_versions).then(versions_max),
                refused_row: Some(unfinished_copy_address()),
                ..config.options.clone()
            };
            open_embedded(config.location.clone(), options).await
        }
        StoreConfig::Cassandra(config) => Ok(Arc::new(ClusterStore::open(config).await?)),
    }
}

/// For stores that can only be asked when they are open.
pub(crate) async fn refuse_unfinished_copy(store: &dyn Store) -> Result<(), Failure> {
    match unfinished_copy(store).await {
        Ok(None) => Ok(()),
        Ok(Some(source)) => Err(is_unfinished_copy(&source)),
        Err(error) => Err(Failure::System(error.to_string())),
    }
}

/// Everything acknowledged is on disk already. Closing only saves the next start from replaying the
/// log, and other nodes from finding out that this one has gone.
pub(crate) async fn close(backend: &dyn Backend) {
    if let Err(error) = backend.close().await {
        tracing::warn!(%error, "the next start will replay the log");
    }
}

/// On a blocking thread: a recovery takes a while, and a signal may end the process meanwhile.
async fn open_embedded(
    location: PathBuf,
    options: tavola_embedded::Options,
) -> Result<Arc<dyn Backend>, Failure> {
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(location, options)).await;
    let opened = opened
        .map_err(|ended| Failure::System(format!("the store could not be opened: {ended}")))?;
    Ok(Arc::new(opened.map_err(cannot_open)?))
}

/// Versions beyond this are of a clock that was wrong, or this machine's is.
pub(crate) fn versions_max() -> Timestamp {
    let day = u64::try_from(JUMP_MAX.as_nanos() / 100).unwrap_or(u64::MAX);
    let ticks = SystemClock.now().ticks().saturating_add(day);
    Timestamp::from_ticks(ticks).unwrap_or(Timestamp::new(DateTime::MAX))
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
