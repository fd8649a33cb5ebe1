//! Stores that several nodes use at a time, each through a [`Store`] of its own.

use std::time::Duration;

use async_trait::async_trait;
use tavola_core::{PartitionKey, TableId};

use crate::error::StoreError;
use crate::store::Store;

/// A node: a process that serves a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Another one at each start.
    pub id: [u8; 16],
    /// Where other nodes reach it: `ip:port`.
    pub address: String,
}

/// What nodes must know of each other, kept where all of them look anyway: in the store.
///
/// Nothing here decides about data. A node that is missing on the list, or on it though it has
/// gone, costs time and no more.
#[async_trait]
pub trait SharedStore: Store {
    /// Whether writes of another node conflicted with ours to this partition a moment ago.
    fn is_contended(&self, table: TableId, partition_key: &PartitionKey) -> bool;

    /// Puts a node on the list for `ttl`, and returns all nodes on it.
    async fn heartbeat(&self, own: &Peer, ttl: Duration) -> Result<Vec<Peer>, StoreError>;

    /// Takes a node from the list.
    async fn leave(&self, own: &Peer) -> Result<(), StoreError>;

    /// Known only to processes that can read the store.
    async fn shared_secret(&self) -> Result<Vec<u8>, StoreError>;
}
