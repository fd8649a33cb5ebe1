//! A store above another one.

use std::fmt::Debug;

use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, TableId, Timestamp};

use crate::blocking::Blocking;
use crate::encoding::Row;
use crate::error::StoreError;
use crate::store::{CommitFuture, CommitResult, Scan, ScanPage, Store};

/// A store that passes every call on to the one below, but for those that it takes into its own
/// hands: a layer writes down only what it changes.
#[async_trait]
pub trait StoreLayer: Debug + Send + Sync + 'static {
    /// The store below.
    fn below(&self) -> &dyn Store;

    /// [`Store::get`].
    async fn on_get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError> {
        self.below().get(address, blocking).await
    }

    /// [`Store::scan`].
    async fn on_scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.below().scan(scan).await
    }

    /// [`Store::commit`].
    async fn on_commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.below().commit(table, transaction, now).await
    }

    /// [`Store::commit_for`]. A layer that changes commits need not change this one too.
    fn on_commit_for<'a>(
        &'a self,
        _tenant: &'a str,
        table: TableId,
        transaction: &'a EntityGroupTransaction,
        now: Timestamp,
    ) -> CommitFuture<'a> {
        self.on_commit(table, transaction, now)
    }

    /// [`Store::purge`].
    async fn on_purge(&self, table: TableId) -> Result<(), StoreError> {
        self.below().purge(table).await
    }
}

#[async_trait]
impl<L: StoreLayer> Store for L {
    async fn get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError> {
        self.on_get(address, blocking).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.on_scan(scan).await
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.on_commit(table, transaction, now).await
    }

    fn commit_for<'a>(
        &'a self,
        tenant: &'a str,
        table: TableId,
        transaction: &'a EntityGroupTransaction,
        now: Timestamp,
    ) -> CommitFuture<'a> {
        self.on_commit_for(tenant, table, transaction, now)
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.on_purge(table).await
    }
}
