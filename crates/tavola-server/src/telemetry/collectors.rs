//! Metrics that others count, read when they are asked for.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tavola_store::Backend;
use tavola_store::backend::encode_counter;

use super::{AccessLog, AuditLog};

/// The metrics of the store.
#[derive(Debug)]
pub(super) struct BackendMetrics(pub(super) Arc<dyn Backend>);

impl Collector for BackendMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}

/// Lines that the logs of requests lost.
#[derive(Debug)]
pub(super) struct LogLosses {
    pub(super) access: Option<Arc<AccessLog>>,
    pub(super) audit: Option<Arc<AuditLog>>,
}

impl Collector for LogLosses {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let dropped = self.access.as_ref().map_or(0, |log| log.dropped());
        let help = "Lines that the access log could not keep up with.";
        encode_counter(&mut encoder, "tavola_access_log_dropped", help, dropped)?;
        let lost = self.audit.as_ref().map_or(0, |log| log.lost());
        let help = "Lines that are missing in the audit log.";
        encode_counter(&mut encoder, "tavola_audit_log_lost", help, lost)
    }
}
