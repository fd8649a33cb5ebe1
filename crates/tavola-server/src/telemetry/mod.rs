//! One event per request, many readers: metrics and the access log.

mod access_log;
mod metrics;

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use http::{Method, StatusCode, Uri, Version};
use tavola_core::TableRequest;
use tavola_core::reply::Cost;
use tavola_protocol::rejection::Budget;
use tavola_protocol::{DenyReason, Rejection};

pub use access_log::{AccessLog, AccessLogFormat};
use metrics::Metrics;

use crate::node::Health;

/// What a request was about, as far as it was understood. Never holds a key, a signature or an entity's content.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// The operation's name; empty if the request was not understood.
    pub operation: &'static str,
    /// How many operations a transaction had.
    pub operations: Option<usize>,
    /// What answering cost.
    pub cost: Cost,
    /// Bytes of the body.
    pub request_bytes: u64,
    /// The service's code, if the answer is an error.
    pub error_code: Option<&'static str>,
    /// Why it was refused, if it was not let in.
    pub deny_reason: Option<DenyReason>,
    /// Whose bound was reached, if the answer is `ServerBusy`.
    pub throttled_by: Option<Bound>,
}

/// What a request can be too much for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The server or its store.
    Server,
    /// A budget of the account.
    Account,
    /// The budget of a partition.
    Partition,
}

impl Bound {
    const ALL: [Self; 3] = [Self::Server, Self::Account, Self::Partition];

    /// Why a request was answered with `ServerBusy`, if it was.
    pub(crate) fn behind(rejection: &Rejection) -> Option<Self> {
        match rejection {
            Rejection::OverBudget(Budget::Requests | Budget::Ingress | Budget::Egress) => Some(Self::Account),
            Rejection::OverBudget(Budget::PartitionEntities) => Some(Self::Partition),
            Rejection::ServerBusy { .. } | Rejection::StoreUnavailable | Rejection::StoreFull => Some(Self::Server),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Account => "account",
            Self::Partition => "partition",
        }
    }
}

impl Subject {
    /// Learns what the request is about.
    pub(crate) fn describe(&mut self, request: &TableRequest) {
        self.operation = request.name();
        if let TableRequest::Transaction(_, transaction) = request {
            self.operations = Some(transaction.operations().len());
        }
    }
}

/// Everything that is ever said about one request.
#[derive(Debug, Clone, Copy)]
pub struct RequestEvent<'a> {
    /// When it came.
    pub arrived: SystemTime,
    /// From whom; behind a trusted proxy, its client.
    pub client: IpAddr,
    /// Its verb.
    pub method: &'a Method,
    /// The version of HTTP.
    pub version: Version,
    /// Its target; readers mask what is secret in it.
    pub uri: &'a Uri,
    /// Our id of it.
    pub request_id: &'a str,
    /// The client's id of it.
    pub client_request_id: Option<&'a str>,
    /// The answer's status.
    pub status: StatusCode,
    /// Bytes of the answer's body.
    pub response_bytes: u64,
    /// Until the answer was ready.
    pub duration: Duration,
    /// What it was about.
    pub subject: &'a Subject,
}

/// Hears of every request.
#[derive(Debug)]
pub struct Telemetry {
    started: Instant,
    metrics: Metrics,
    access_log: Option<AccessLog>,
}

impl Telemetry {
    /// Counts requests, and writes them to the access log if there is one.
    #[must_use]
    pub fn new(access_log: Option<AccessLog>) -> Self {
        Self { started: Instant::now(), metrics: Metrics::new(), access_log }
    }

    /// Tells all readers.
    pub fn record(&self, event: &RequestEvent<'_>) {
        self.metrics.record(event);
        if let Some(access_log) = &self.access_log {
            access_log.record(event);
        }
    }

    /// Counts a request whose handler panicked.
    pub(crate) fn record_panic(&self) {
        self.metrics.record_panic();
    }

    /// How many requests met a defect of the server. Each was answered with `InternalError`; there should be none.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.metrics.panics()
    }

    /// How long the server has been up.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The metrics as OpenMetrics text, with the store's own and further lines behind them.
    #[must_use]
    pub fn exposition(&self, store: &dyn Health, more: &str) -> String {
        let dropped = self.access_log.as_ref().map_or(0, AccessLog::dropped);
        self.metrics.exposition(&store.counters(), &(store.exposition() + more), dropped)
    }
}
