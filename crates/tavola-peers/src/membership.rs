//! Which nodes there are: the list in the store, and a connection to every node on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::future::join_all;
use tavola_core::{PartitionKey, TableId};
use tavola_store::{Peer, SharedStore};

use crate::client::{PeerClient, PeerError};
use crate::keys::PeerKeys;
use crate::node::LocalNode;
use crate::rendezvous::score;

/// A node that has not sent a heartbeat for so long is off the list.
const HEARTBEAT_TTL: Duration = Duration::from_secs(10);

/// The nodes that this one can reach.
#[derive(Debug)]
pub(crate) struct Membership {
    node: Arc<LocalNode>,
    clients: ArcSwap<Vec<Arc<PeerClient>>>,
    /// Why peers are left out, so that each reason is logged once.
    problems: Mutex<HashMap<Peer, String>>,
}

impl Membership {
    pub(crate) fn new(node: Arc<LocalNode>) -> Self {
        Self { node, clients: ArcSwap::default(), problems: Mutex::default() }
    }

    pub(crate) fn own(&self) -> &Peer {
        &self.node.peer
    }

    /// How many other nodes are connected.
    pub(crate) fn present(&self) -> usize {
        self.clients.load().iter().filter(|client| client.is_open()).count()
    }

    /// What this node proves its identity with.
    pub(crate) fn keys(&self) -> Option<&PeerKeys> {
        self.node.transport.keys()
    }

    /// Which node should write a partition; `None`: this one.
    pub(crate) fn writer_of(
        &self,
        table: TableId,
        partition_key: &PartitionKey,
    ) -> Option<Arc<PeerClient>> {
        let clients = self.clients.load();
        let score = |id: &[u8; 16]| score(id, table, partition_key);
        let open = clients.iter().filter(|client| client.is_open());
        let best = open.max_by_key(|client| score(&client.peer().id))?;
        (score(&best.peer().id) > score(&self.node.peer.id)).then(|| Arc::clone(best))
    }

    /// Keeps this node on the list, and connects to all nodes on it.
    pub(crate) async fn run(
        self: Arc<Self>,
        store: Arc<dyn SharedStore>,
        heartbeat_every: Duration,
    ) {
        let mut listed = Vec::new();
        let mut listed_at = Instant::now();
        loop {
            match store.heartbeat(self.own(), HEARTBEAT_TTL).await {
                Ok(all) => {
                    listed = all;
                    listed_at = Instant::now();
                }
                Err(error) => tracing::debug!(%error, "the list of nodes cannot be read"),
            }
            if listed_at.elapsed() > HEARTBEAT_TTL {
                listed.clear();
            }
            if self.node.transport.reload().await {
                self.clients.store(Arc::default());
            }
            self.connect_to(&listed).await;
            tokio::time::sleep(heartbeat_every).await;
        }
    }

    async fn connect_to(&self, listed: &[Peer]) {
        self.problems().retain(|peer, _| listed.contains(peer));
        let clients = self.clients.load_full();
        let mut kept: Vec<Arc<PeerClient>> = clients
            .iter()
            .filter(|client| client.is_open() && listed.contains(client.peer()))
            .cloned()
            .collect();
        let others = listed.iter().filter(|one| one.id != self.node.peer.id);
        let missing = others.filter(|one| !kept.iter().any(|client| client.peer() == *one));
        let connected = join_all(missing.map(|one| self.connect(one))).await;
        kept.extend(connected.into_iter().flatten());
        self.clients.store(Arc::new(kept));
    }

    async fn connect(&self, peer: &Peer) -> Option<Arc<PeerClient>> {
        match PeerClient::connect(peer.clone(), &self.node).await {
            Ok(client) => {
                tracing::info!(
                    address = peer.address,
                    "connected to a peer: writes of contended partitions are exchanged with it"
                );
                self.problems().remove(peer);
                Some(Arc::new(client))
            }
            Err(error) => {
                self.report(peer, &error);
                None
            }
        }
    }

    /// A node that was killed stays on the list until its heartbeat is too old. What does not pass
    /// by itself is a warning, once.
    fn report(&self, peer: &Peer, error: &PeerError) {
        let (address, text) = (&peer.address, error.to_string());
        if error.is_ordinary() {
            tracing::debug!(address, error = text, "a peer is left out");
        } else if self.problems().insert(peer.clone(), text.clone()).as_ref() != Some(&text) {
            tracing::warn!(address, error = text, "a peer is left out");
        }
    }

    fn problems(&self) -> MutexGuard<'_, HashMap<Peer, String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
