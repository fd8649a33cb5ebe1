//! A store that lets a neighbour carry out the writes on which front ends would meet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{FrontEnd, Row, Scan, ScanPage, SharedStore, Store, StoreError, Verdict};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::circle::Circle;
use crate::counters::{Counters, NeighbourStats, count};
use crate::host::Host;
use crate::message::Told;
use crate::proof::Secret;

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Which writes are sent to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// Those of partitions on which front ends have met.
    Contended,
    /// All of partitions that a neighbour is preferred for.
    Always,
}

/// How this front end takes part.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens for others, and what it tells them.
    pub address: SocketAddr,
    /// Which writes are sent on.
    pub affinity: Affinity,
    /// Between two looks at the list of front ends.
    pub look_every: Duration,
    /// Until a neighbour has carried out a write: longer than the store takes at most.
    pub patience: Duration,
    /// What time it is here. Writes of a neighbour whose clock is ahead get this time, or it would lead the versions of all
    /// our partitions into the future.
    pub clock: fn() -> Timestamp,
}

impl Settings {
    /// What suits most: a list that is a few seconds old, and no way round where nobody is in the way.
    #[must_use]
    pub fn new(address: SocketAddr, patience: Duration, clock: fn() -> Timestamp) -> Self {
        Self { address, affinity: Affinity::Contended, look_every: LOOK_EVERY, patience, clock }
    }
}

/// Why a front end cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is not ours, or taken.
    #[error("cannot listen for other front ends on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The store has no secret, or cannot be asked.
    #[error("cannot learn what front ends prove themselves with: {0}")]
    Secret(#[from] StoreError),
}

/// A shared store, of which some writes take the way over a neighbour.
#[derive(Debug)]
pub struct NeighbourlyStore {
    store: Arc<dyn SharedStore>,
    circle: Arc<Circle>,
    counters: Arc<Counters>,
    affinity: Affinity,
    patience: Duration,
    stop: watch::Sender<bool>,
    roll: JoinHandle<()>,
    host: Mutex<JoinHandle<()>>,
}

impl NeighbourlyStore {
    /// Listens for other front ends, and looks for them.
    ///
    /// # Errors
    /// If the address cannot be had, or the store does not tell its secret.
    pub async fn open(store: Arc<dyn SharedStore>, settings: &Settings) -> Result<Self, OpenError> {
        let address = settings.address;
        let cannot_listen = |source| OpenError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let secret = store.shared_secret().await?;
        let secret = Secret::new(&secret)
            .ok_or_else(|| StoreError::Corrupt("the secret of front ends cannot be a key".to_owned()))?;
        let own = FrontEnd { id: *Uuid::new_v4().as_bytes(), address: address.to_string() };
        let counters = Arc::new(Counters::default());
        let host = Arc::new(Host {
            id: own.id,
            secret: secret.clone(),
            store: Arc::clone(&store) as _,
            counters: Arc::clone(&counters),
            started: Instant::now(),
            clock: settings.clock,
        });
        let circle = Arc::new(Circle::new(own, secret));
        let (stop, stopped) = watch::channel(false);
        let roll = tokio::spawn(Arc::clone(&circle).run(Arc::clone(&store), settings.look_every));
        let host = Mutex::new(tokio::spawn(host.run(listener, stopped)));
        let Settings { affinity, patience, .. } = *settings;
        Ok(Self { store, circle, counters, affinity, patience, stop, roll, host })
    }

    /// Where others reach this front end.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.circle.own().address
    }

    /// What front ends have done for each other.
    #[must_use]
    pub fn stats(&self) -> NeighbourStats {
        self.counters.read(self.circle.present())
    }

    /// Takes leave: others send nothing more, and what they have sent is finished.
    pub async fn close(&self) {
        self.roll.abort();
        if let Err(error) = self.store.leave(self.circle.own()).await {
            tracing::debug!(%error, "other front ends find out by themselves");
        }
        let _host_gone = self.stop.send(true);
        let _panicked = (&mut *self.host.lock().await).await;
    }
}

impl Drop for NeighbourlyStore {
    fn drop(&mut self) {
        self.roll.abort();
        let _host_gone = self.stop.send(true);
    }
}

#[async_trait]
impl Store for NeighbourlyStore {
    async fn get(&self, address: &EntityAddress) -> Result<Option<Row>, StoreError> {
        self.store.get(address).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.store.scan(scan).await
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let partition_key = transaction.partition_key();
        if self.affinity == Affinity::Contended && !self.store.is_contended(table, partition_key) {
            return self.store.commit(table, transaction, now).await;
        }
        let Some(writer) = self.circle.writer_of(table, partition_key) else {
            return self.store.commit(table, transaction, now).await;
        };
        match writer.commit(table, transaction, now, self.patience).await {
            Told::Answered(verdict) => {
                let is_unknown = matches!(verdict, Err(StoreError::UnknownOutcome));
                count(if is_unknown { &self.counters.unanswered } else { &self.counters.sent });
                verdict
            }
            Told::Declined(reason) => {
                count(&self.counters.declined);
                tracing::debug!(reason, "a write was not taken by another front end");
                self.store.commit(table, transaction, now).await
            }
        }
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.store.purge(table).await
    }
}
