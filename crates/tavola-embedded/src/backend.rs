//! The embedded store as a backend: readiness, metrics, closing.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tavola_store::backend::encode_counter;
use tavola_store::{Backend, Import, Store, StoreError};

use crate::store::EmbeddedStore;

#[async_trait]
impl Backend for EmbeddedStore {
    fn store(self: Arc<Self>) -> Arc<dyn Store> {
        self
    }

    fn import(self: Arc<Self>) -> Option<Arc<dyn Import>> {
        Some(self)
    }

    fn ready(&self) -> Result<(), String> {
        self.health()
    }

    fn warning(&self) -> Option<String> {
        EmbeddedStore::warning(self)
    }

    async fn close(&self) -> Result<(), StoreError> {
        EmbeddedStore::close(self)
    }
}

impl Collector for EmbeddedStore {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.stats();
        let counters = [
            ("tavola_store_commits", "Transactions that were written.", stats.commits),
            ("tavola_store_refusals", "Transactions that the domain refused.", stats.refusals),
            ("tavola_store_contended", "Transactions that found the queue full.", stats.contended),
            ("tavola_store_syncs", "Groups that were written, each with one sync.", stats.syncs),
            ("tavola_store_written_bytes", "Bytes of those groups.", stats.bytes_written),
            ("tavola_store_gets_cached", "Point reads that memory answered.", stats.gets_cached),
            (
                "tavola_store_gets_from_disk",
                "Point reads that had to ask the disk.",
                stats.gets_from_disk,
            ),
            (
                "tavola_store_gets_in_place",
                "Point reads while files are in memory.",
                stats.gets_in_place,
            ),
            (
                "tavola_store_scans_in_place",
                "Scans of a few rows while files are in memory.",
                stats.scans_in_place,
            ),
            ("tavola_store_rows_scanned", "Rows that scans looked at.", stats.rows_scanned),
        ];
        counters
            .into_iter()
            .try_for_each(|(name, help, value)| encode_counter(&mut encoder, name, help, value))
    }
}
