//! A store on the cluster that `TAVOLA_CASSANDRA` names, with tables of its own.

#![allow(dead_code, reason = "each test file uses a part of the fixture")]

use async_trait::async_trait;
use tavola_cassandra::{CassandraStore, Options, Risk};
use tavola_core::{EntityAddress, EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{
    Blocking, CommitResult, Import, ImportError, Row, Scan, ScanPage, Store, StoreError,
};

/// The contact points of the cluster, in a variable.
pub(crate) const VARIABLE: &str = "TAVOLA_CASSANDRA";

/// A test's cluster: one node, so one copy.
pub(crate) fn options() -> Options {
    let contact_points = std::env::var(VARIABLE).unwrap_or_else(|_| "127.0.0.1:9042".to_owned());
    Options {
        contact_points: contact_points.split(',').map(str::to_owned).collect(),
        keyspace: "tavola_conformance".to_owned(),
        replication: 1,
        create: true,
        accepted_risks: Risk::ALL.to_vec(),
        ..Options::default()
    }
}

/// A store whose tables no other test has: every id is moved by a number of its own. Making a
/// keyspace for each test would take longer than the test.
#[derive(Debug)]
pub(crate) struct Isolated {
    store: CassandraStore,
    base: u64,
}

impl Isolated {
    /// A store without rows.
    pub(crate) async fn open() -> Self {
        let store = CassandraStore::open(options()).await.expect("the cluster is up");
        Self { store, base: uuid::Uuid::new_v4().as_u64_pair().0 }
    }

    fn table(&self, table: TableId) -> TableId {
        TableId::new(table.number().wrapping_add(self.base))
    }
}

#[async_trait]
impl Store for Isolated {
    async fn get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError> {
        self.store
            .get(
                &EntityAddress { table: self.table(address.table), key: address.key.clone() },
                blocking,
            )
            .await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.store.scan(&Scan { table: self.table(scan.table), ..scan.clone() }).await
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.store.commit(self.table(table), transaction, now).await
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.store.purge(self.table(table)).await
    }
}

#[async_trait]
impl Import for Isolated {
    async fn import(&self, table: TableId, rows: &[Row]) -> Result<(), ImportError> {
        self.store.import(self.table(table), rows).await
    }
}
