//! The contract of a store, on the embedded engine.

use async_trait::async_trait;
use tavola_core::TableId;
use tavola_embedded::{EmbeddedStore, Options};
use tavola_store::{Import, ImportError, Row, Store, StoreLayer};
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

impl StoreLayer for Temporary {
    fn below(&self) -> &dyn Store {
        &self.store
    }
}

#[async_trait]
impl Import for Temporary {
    async fn import(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        self.store.import(table, rows).await
    }
}

tavola_conformance::store_conformance!(fresh());
tavola_conformance::import_conformance!(fresh());
