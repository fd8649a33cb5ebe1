//! A store in memory that several nodes share, with a list of them.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "each file of tests uses a part")]

pub(crate) mod keys;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use keys::{ClusterKeys, free_address};
use tavola_core::{
    DateTime, EdmValue, EntityGroupTransaction, EntityKey, EntityOperation, NewEntity,
    PartitionKey, Precondition, Properties, PropertyName, RowKey, TableId, Timestamp,
};
use tavola_peers::keys::PeerKeys;
use tavola_peers::{Affinity, ForwardingStore, OpenError, Settings};
use tavola_store::{CommitResult, MemoryStore, Peer, SharedStore, Store, StoreError, StoreLayer};
use tokio::sync::Semaphore;

pub(crate) const TABLE: TableId = TableId::new(300);
/// Writes that a node carries out for others at a time.
pub(crate) const PLACES: u64 = 64;
/// What all nodes of the store know.
pub(crate) const SECRET: &[u8] = b"known to both";

/// One node's view of the shared store.
#[derive(Debug)]
pub(crate) struct Shared {
    rows: Arc<MemoryStore>,
    list: Arc<Mutex<Vec<Peer>>>,
    secret: Vec<u8>,
    pub(crate) is_contended: AtomicBool,
    /// What the next commits fail with.
    pub(crate) failure: Mutex<Option<fn() -> StoreError>>,
    /// Commits of these partitions end with the last permit of this.
    pub(crate) stuck: (Mutex<Vec<PartitionKey>>, Semaphore),
}

/// What all nodes share.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) rows: Arc<MemoryStore>,
    pub(crate) list: Arc<Mutex<Vec<Peer>>>,
}

impl Place {
    pub(crate) fn view(&self, secret: &[u8]) -> Arc<Shared> {
        Arc::new(Shared {
            rows: Arc::clone(&self.rows),
            list: Arc::clone(&self.list),
            secret: secret.to_vec(),
            is_contended: AtomicBool::new(true),
            failure: Mutex::new(None),
            stuck: (Mutex::default(), Semaphore::new(0)),
        })
    }

    pub(crate) async fn node(&self) -> ForwardingStore {
        open(self.view(SECRET), Affinity::Always).await
    }

    /// A node with keys of its own.
    pub(crate) async fn node_with(&self, keys: &ClusterKeys) -> ForwardingStore {
        loop {
            let address = free_address();
            match self.node_at(address, Some(keys.of(address)), false).await {
                // Another test took the address meanwhile.
                Err(OpenError::Listen { .. }) => {}
                opened => return opened.unwrap(),
            }
        }
    }

    pub(crate) async fn node_at(
        &self,
        address: SocketAddr,
        keys: Option<PeerKeys>,
        accept_plain: bool,
    ) -> Result<ForwardingStore, OpenError> {
        let settings = Settings { keys, accept_plain, ..settings(address, Affinity::Always) };
        ForwardingStore::open(self.view(SECRET), &settings).await
    }

    /// The same rows, and a list that another process may write.
    pub(crate) fn with_another_list(&self) -> Self {
        Self { rows: Arc::clone(&self.rows), list: Arc::default() }
    }

    /// Two nodes that are connected.
    pub(crate) async fn two(&self) -> (ForwardingStore, ForwardingStore) {
        let (one, other) = (self.node().await, self.node().await);
        until(|| one.stats().present == 1 && other.stats().present == 1).await;
        (one, other)
    }
}

pub(crate) async fn open(view: Arc<Shared>, affinity: Affinity) -> ForwardingStore {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    ForwardingStore::open(view, &settings(address, affinity)).await.unwrap()
}

fn settings(address: SocketAddr, affinity: Affinity) -> Settings {
    Settings {
        affinity,
        places: PLACES,
        heartbeat_every: Duration::from_millis(10),
        ..Settings::new(address, Duration::from_secs(60), || Timestamp::new(DateTime::MAX))
    }
}

/// Waits for a state; longer than it takes on any machine.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come to that");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn upsert(partition: usize) -> EntityGroupTransaction {
    let key = EntityKey::new(
        PartitionKey::new(partition.to_string()).unwrap(),
        RowKey::new("row").unwrap(),
    );
    let properties =
        Properties::new(vec![(PropertyName::new("Value").unwrap(), EdmValue::Int32(1))]).unwrap();
    let (partition_key, new) = NewEntity::new(key, properties).unwrap();
    EntityGroupTransaction::single(partition_key, EntityOperation::Replace(new, Precondition::None))
}

pub(crate) async fn write(store: &dyn Store, partition: usize) -> Result<CommitResult, StoreError> {
    store.commit(TABLE, &upsert(partition), Timestamp::MIN).await
}

#[async_trait]
impl StoreLayer for Shared {
    fn below(&self) -> &dyn Store {
        &*self.rows
    }

    async fn on_commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        let is_stuck = self.stuck.0.lock().unwrap().contains(transaction.partition_key());
        if is_stuck {
            drop(self.stuck.1.acquire().await.unwrap());
        }
        let failure = *self.failure.lock().unwrap();
        match failure {
            Some(failure) => Err(failure()),
            None => self.rows.commit(table, transaction, now).await,
        }
    }
}

#[async_trait]
impl SharedStore for Shared {
    fn is_contended(&self, _: TableId, _: &PartitionKey) -> bool {
        self.is_contended.load(Ordering::Relaxed)
    }

    async fn heartbeat(&self, own: &Peer, _: Duration) -> Result<Vec<Peer>, StoreError> {
        let mut list = self.list.lock().unwrap();
        if !list.contains(own) {
            list.push(own.clone());
        }
        Ok(list.clone())
    }

    async fn leave(&self, own: &Peer) -> Result<(), StoreError> {
        self.list.lock().unwrap().retain(|one| one != own);
        Ok(())
    }

    async fn shared_secret(&self) -> Result<Vec<u8>, StoreError> {
        Ok(self.secret.clone())
    }
}
