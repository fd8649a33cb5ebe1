//! A store is told whose write it carries out, so that it can share its places out between
//! accounts.

use std::sync::{Arc, Mutex};

use crate::common::Fixture;
use tavola_core::{EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{CommitFuture, MemoryStore, Store, StoreLayer};

/// A store that keeps the names of the tenants that it wrote for.
#[derive(Debug, Default)]
struct NamedStore {
    inner: MemoryStore,
    tenants: Mutex<Vec<String>>,
}

impl StoreLayer for NamedStore {
    fn below(&self) -> &dyn Store {
        &self.inner
    }

    fn on_commit_for<'a>(
        &'a self,
        tenant: &'a str,
        table: TableId,
        transaction: &'a EntityGroupTransaction,
        now: Timestamp,
    ) -> CommitFuture<'a> {
        self.tenants.lock().unwrap().push(tenant.to_owned());
        self.inner.commit_for(tenant, table, transaction, now)
    }
}

#[tokio::test]
async fn every_write_of_an_entity_names_its_account() {
    let store = Arc::new(NamedStore::default());
    let fixture = Fixture::new(Arc::clone(&store) as _);
    fixture.create("table").await.unwrap();
    fixture.insert("table", "p/1", 1).await.unwrap();
    fixture.insert("table", "p/1", 1).await.unwrap_err();
    assert_eq!(
        *store.tenants.lock().unwrap(),
        [fixture.account.as_str(), fixture.account.as_str()]
    );
}
