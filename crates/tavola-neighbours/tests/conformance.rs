//! The contract of stores, where about half of the writes take the way over a neighbour.

mod common;

use async_trait::async_trait;
use common::Place;
use tavola_core::{EntityAddress, EntityGroupTransaction, TableId, Timestamp};
use tavola_neighbours::NeighbourlyStore;
use tavola_store::{Row, Scan, ScanPage, Store, StoreError, Verdict};

/// One front end that is asked, and one that it sends writes to.
#[derive(Debug)]
struct Two {
    asked: NeighbourlyStore,
    _other: NeighbourlyStore,
}

async fn two() -> Two {
    let (asked, other) = Place::default().two().await;
    Two { asked, _other: other }
}

#[async_trait]
impl Store for Two {
    async fn get(&self, address: &EntityAddress) -> Result<Option<Row>, StoreError> {
        self.asked.get(address).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.asked.scan(scan).await
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        self.asked.commit(table, transaction, now).await
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.asked.purge(table).await
    }
}

tavola_testkit::store_conformance!(two().await);
