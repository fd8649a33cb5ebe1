//! A store is told whose write it carries out, so that it can share its places out between
//! accounts.

use std::sync::{Arc, Mutex};

use crate::common::Fixture;
use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{
    Blocking, CommitFuture, CommitResult, MemoryStore, Row, Scan, ScanPage, Store, StoreError,
};

/// A store that keeps the names of the tenants that it wrote for.
#[derive(Debug, Default)]
struct NamedStore {
    inner: MemoryStore,
    tenants: Mutex<Vec<String>>,
}

#[async_trait]
impl Store for NamedStore {
    async fn get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError> {
        self.inner.get(address, blocking).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.inner.scan(scan).await
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.inner.commit(table, transaction, now).await
    }

    fn commit_for<'a>(
        &'a self,
        tenant: &'a str,
        table: TableId,
        transaction: &'a EntityGroupTransaction,
        now: Timestamp,
    ) -> CommitFuture<'a> {
        self.tenants.lock().unwrap().push(tenant.to_owned());
        self.inner.commit_for(tenant, table, transaction, now)
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.inner.purge(table).await
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
