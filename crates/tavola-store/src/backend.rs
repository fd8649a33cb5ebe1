//! What a backend gives beside the methods of [`Store`].
//!
//! A [`Backend`] is a store with the operations of a process around it: readiness, metrics, import,
//! closing. The server and the commands know stores only by this trait, so a new backend is one
//! crate and one line where stores are opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::error::StoreError;
use crate::import::Import;
use crate::store::Store;

/// An open store as a process holds it. Its metrics are what it encodes as a [`Collector`].
#[async_trait]
pub trait Backend: Collector {
    /// The store itself.
    fn store(self: Arc<Self>) -> Arc<dyn Store>;

    /// The same as the target of an import; `None` if rows cannot be moved into it.
    fn import(self: Arc<Self>) -> Option<Arc<dyn Import>> {
        None
    }

    /// Whether the store takes reads and writes.
    ///
    /// # Errors
    /// The reason why not, as a sentence for an operator.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// What is wrong although the store serves, and what to do about it.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Whether other processes serve the same data.
    fn sharing(&self) -> Sharing {
        Sharing::Exclusive
    }

    /// Finishes the writes that wait, and refuses further ones. Reads are served until the store is
    /// dropped. May block.
    ///
    /// # Errors
    /// If the next open has something to recover. Everything that was acknowledged is safe.
    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Whether other processes serve the data of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Only this process writes it.
    Exclusive,
    /// Other processes write it too.
    Shared {
        /// How long a process may rely on tables and properties that it has read.
        lease: Duration,
    },
}

/// Encodes a counter that a collector reads when it is asked. `help` ends with a full stop, like
/// that of registered metrics.
///
/// # Errors
/// If the text cannot be written.
pub fn encode_counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> fmt::Result {
    let counter = ConstCounter::new(value);
    counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
}

/// The same for a gauge.
///
/// # Errors
/// If the text cannot be written.
pub fn encode_gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}
