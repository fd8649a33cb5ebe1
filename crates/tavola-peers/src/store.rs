//! A store that forwards the writes of contended partitions to one node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{
    Blocking, CommitFuture, CommitResult, Peer, Row, Scan, ScanPage, SharedStore, Store, StoreError,
};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::counters::{Counters, PeerStats, count};
use crate::keys::{KeysError, PeerKeys};
use crate::membership::Membership;
use crate::message::ForwardOutcome;
use crate::node::LocalNode;
use crate::proof::Secret;
use crate::server::PeerServer;
use crate::tenants::Tenants;
use crate::transport::Transport;

/// Of writes without a tenant.
const NO_TENANT: &str = "";
/// Enough that writes of one partition share a batch, and so few that one behind all of them is not
/// late.
const PLACES: u64 = 2048;
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);

/// Which writes are forwarded to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// Those of partitions on which writes of several nodes conflicted a moment ago.
    Contended,
    /// All of partitions that a peer is preferred for.
    Always,
}

/// How this node takes part.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens for peers, and the address that it lists for them.
    pub address: SocketAddr,
    /// Which writes are forwarded.
    pub affinity: Affinity,
    /// Between two heartbeats.
    pub heartbeat_every: Duration,
    /// Until a peer has carried out a write: longer than the store takes at most.
    pub forward_timeout: Duration,
    /// What time it is here. Writes of a peer whose clock is ahead get this time, or it would push
    /// the versions of all our partitions into the future.
    pub clock: fn() -> Timestamp,
    /// Writes that it carries out for its peers at a time, shared out between tenants.
    pub places: u64,
    /// What this node proves with which node it is; without them it connects only within this
    /// machine.
    pub keys: Option<PeerKeys>,
    /// Also talk to peers without protection beyond this machine, while a cluster is switched over.
    pub accept_plain: bool,
}

impl Settings {
    /// What suits most: a list that is a few seconds old, and no forwarding where nothing
    /// conflicts.
    #[must_use]
    pub fn new(address: SocketAddr, forward_timeout: Duration, clock: fn() -> Timestamp) -> Self {
        Self {
            address,
            affinity: Affinity::Contended,
            heartbeat_every: HEARTBEAT_EVERY,
            forward_timeout,
            clock,
            places: PLACES,
            keys: None,
            accept_plain: false,
        }
    }
}

/// Why a node cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is not ours, or taken.
    #[error("cannot listen for peers on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A process on the network could read and change the messages between nodes.
    #[error(
        "{0} is beyond this machine, and this node has no keys for its peers; \
         `tavola store peer-keys init {0} …` makes those of all nodes"
    )]
    Unprotected(SocketAddr),
    /// The keys are another node's.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The store has no secret, or cannot be asked.
    #[error("cannot read the secret that peers prove themselves with: {0}")]
    Secret(#[from] StoreError),
}

/// A shared store that forwards some writes to a peer.
#[derive(Debug)]
pub struct ForwardingStore {
    store: Arc<dyn SharedStore>,
    membership: Arc<Membership>,
    counters: Arc<Counters>,
    tenants: Arc<Tenants>,
    affinity: Affinity,
    forward_timeout: Duration,
    stop: watch::Sender<bool>,
    heartbeat: JoinHandle<()>,
    server: Mutex<JoinHandle<()>>,
}

impl ForwardingStore {
    /// Listens for peers, and looks for them.
    ///
    /// # Errors
    /// If the address cannot be bound, or the secret of the store cannot be read.
    pub async fn open(store: Arc<dyn SharedStore>, settings: &Settings) -> Result<Self, OpenError> {
        let address = settings.address;
        if settings.keys.is_none() && !settings.accept_plain && !address.ip().is_loopback() {
            return Err(OpenError::Unprotected(address));
        }
        let cannot_listen = |source| OpenError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        if let Some(keys) = &settings.keys {
            keys.check_owner(address)?;
        }
        let secret = store.shared_secret().await?;
        let secret = Secret::new(&secret).ok_or_else(|| {
            StoreError::Corrupt("the secret of the nodes cannot be a key".to_owned())
        })?;
        let node = Arc::new(LocalNode {
            peer: Peer { id: *Uuid::new_v4().as_bytes(), address: address.to_string() },
            secret,
            transport: Transport::new(settings.keys.clone(), settings.accept_plain),
        });
        let (counters, tenants) =
            (Arc::new(Counters::default()), Arc::new(Tenants::new(settings.places)));
        let server = Arc::new(PeerServer {
            node: Arc::clone(&node),
            store: Arc::clone(&store) as _,
            counters: Arc::clone(&counters),
            tenants: Arc::clone(&tenants),
            started: Instant::now(),
            clock: settings.clock,
        });
        let membership = Arc::new(Membership::new(node));
        let (stop, stopped) = watch::channel(false);
        let heartbeat =
            tokio::spawn(Arc::clone(&membership).run(Arc::clone(&store), settings.heartbeat_every));
        let server = Mutex::new(tokio::spawn(server.run(listener, stopped)));
        let Settings { affinity, forward_timeout, .. } = *settings;
        Ok(Self {
            store,
            membership,
            counters,
            tenants,
            affinity,
            forward_timeout,
            stop,
            heartbeat,
            server,
        })
    }

    /// Where peers reach this node.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.membership.own().address
    }

    /// Counters of forwarded writes.
    #[must_use]
    pub fn stats(&self) -> PeerStats {
        self.counters.read(self.membership.present(), self.membership.keys())
    }

    /// What the tenants of other nodes have of our places for forwarded writes.
    #[must_use]
    pub fn tenants(&self) -> Vec<(String, tavola_fair::Stats)> {
        self.tenants.stats()
    }

    /// Here, or at the node that is preferred for the partition.
    async fn write(
        &self,
        tenant: &str,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        let partition_key = transaction.partition_key();
        let is_contended = || self.store.is_contended(table, partition_key);
        // Tables are made and dropped so rarely that they can conflict; so no node has to take such
        // writes from another.
        if table.is_system() || self.affinity == Affinity::Contended && !is_contended() {
            return self.store.commit(table, transaction, now).await;
        }
        let Some(writer) = self.membership.writer_of(table, partition_key) else {
            return self.store.commit(table, transaction, now).await;
        };
        match writer.commit(tenant, table, transaction, now, self.forward_timeout).await {
            ForwardOutcome::Answered(result) => {
                let is_unknown = matches!(result, Err(StoreError::UnknownOutcome));
                count(if is_unknown { &self.counters.unanswered } else { &self.counters.sent });
                result
            }
            ForwardOutcome::Declined(reason) => {
                count(&self.counters.declined);
                tracing::debug!(reason, "a peer did not take a write");
                self.store.commit(table, transaction, now).await
            }
        }
    }

    /// Leaves the list: peers forward nothing more, and what they have forwarded is finished.
    pub async fn close(&self) {
        self.heartbeat.abort();
        if let Err(error) = self.store.leave(self.membership.own()).await {
            tracing::debug!(%error, "peers find out by themselves");
        }
        let _server_gone = self.stop.send(true);
        let _panicked = (&mut *self.server.lock().await).await;
    }
}

impl Drop for ForwardingStore {
    fn drop(&mut self) {
        self.heartbeat.abort();
        let _server_gone = self.stop.send(true);
    }
}

#[async_trait]
impl Store for ForwardingStore {
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
        self.commit_for(NO_TENANT, table, transaction, now).await
    }

    fn commit_for<'a>(
        &'a self,
        tenant: &'a str,
        table: TableId,
        transaction: &'a EntityGroupTransaction,
        now: Timestamp,
    ) -> CommitFuture<'a> {
        Box::pin(self.write(tenant, table, transaction, now))
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.store.purge(table).await
    }
}
