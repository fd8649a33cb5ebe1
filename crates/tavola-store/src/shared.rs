//! Stores that several front ends use at a time, each through a [`Store`] of its own.

use std::time::Duration;

use async_trait::async_trait;
use tavola_core::{PartitionKey, TableId};

use crate::error::StoreError;
use crate::store::Store;

/// A process that serves a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FrontEnd {
    /// Another one at each start.
    pub id: [u8; 16],
    /// Where others reach it: `host:port`.
    pub address: String,
}

/// What front ends must know of each other, kept where all of them look anyway: in the store.
///
/// Nothing here decides about data. A front end that is missing on the list, or on it though it has gone, costs time and
/// no more.
#[async_trait]
pub trait SharedStore: Store {
    /// Whether somebody else's writes were in the way of ours to this partition a moment ago.
    fn is_contended(&self, table: TableId, partition_key: &PartitionKey) -> bool;

    /// Puts a front end on the list for `time`, and returns who is on it.
    async fn call_roll(&self, own: &FrontEnd, time: Duration) -> Result<Vec<FrontEnd>, StoreError>;

    /// Takes a front end from the list.
    async fn leave(&self, own: &FrontEnd) -> Result<(), StoreError>;

    /// What those who can read the store know, and nobody else.
    async fn shared_secret(&self) -> Result<Vec<u8>, StoreError>;
}
