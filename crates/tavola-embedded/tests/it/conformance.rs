//! The contract of a store, on the embedded engine.

use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, TableId, Timestamp};
use tavola_embedded::{EmbeddedStore, Options};
use tavola_store::{
    Blocking, CommitResult, Import, ImportError, Row, Scan, ScanPage, Store, StoreError,
};
use tempfile::TempDir;

/// A store whose folder goes with it.
#[derive(Debug)]
struct Temporary {
    store: EmbeddedStore,
    _folder: TempDir,
}

fn fresh() -> Temporary {
    let folder = TempDir::new().expect("there is room for a folder");
    let store = EmbeddedStore::open(folder.path().join("data"), Options::default())
        .expect("the folder is new");
    Temporary { store, _folder: folder }
}

#[async_trait]
impl Store for Temporary {
    async fn get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError> {
        self.store.get(address, blocking).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.store.scan(scan).await
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.store.commit(table, transaction, now).await
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.store.purge(table).await
    }
}

#[async_trait]
impl Import for Temporary {
    async fn import(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        self.store.import(table, rows).await
    }
}

tavola_testkit::store_conformance!(fresh());
tavola_testkit::import_conformance!(fresh());
