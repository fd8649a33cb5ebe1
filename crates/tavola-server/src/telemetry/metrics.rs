//! Counters and histograms for Prometheus. Labels are words of ours and names of accounts: never a
//! key, a table or an address.

use std::sync::atomic::AtomicU64;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use tavola_core::AccountName;
use tavola_protocol::DenyReason;

use super::{Bound, EventReader, RequestEvent};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    status: u16,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    /// An account that the server has, or [`NO_ACCOUNT`]: what a stranger writes into a URL is no
    /// label.
    account: String,
    reason: &'static str,
}

/// No account's name begins with a hyphen.
const NO_ACCOUNT: &str = "-";
/// Why a client was refused before it could say anything.
const CERTIFICATE: &str = "certificate";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BoundLabels {
    bound: &'static str,
}

const DURATION_BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
const BATCH_BUCKETS: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0];

#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<OperationLabels, Histogram, fn() -> Histogram>,
    queries: Family<ClassLabels, Counter>,
    throttled: Family<BoundLabels, Counter>,
    authentication_failures: Family<FailureLabels, Counter>,
    batch_operations: Histogram,
    rows_read: Counter<u64, AtomicU64>,
    rows_returned: Counter<u64, AtomicU64>,
    request_bytes: Counter<u64, AtomicU64>,
    response_bytes: Counter<u64, AtomicU64>,
    panics: Counter<u64, AtomicU64>,
}

impl EventReader for Metrics {
    fn record(&self, event: &RequestEvent) {
        let subject = &event.subject;
        let operation = if subject.operation.is_empty() { "Unknown" } else { subject.operation };
        let code = subject.error_code.unwrap_or("Success");
        self.requests
            .get_or_create(&RequestLabels { operation, status: event.status.as_u16(), code })
            .inc();
        self.durations
            .get_or_create(&OperationLabels { operation })
            .observe(event.duration.as_secs_f64());
        if let Some(class) = subject.cost.class {
            self.queries.get_or_create(&ClassLabels { class: class.name() }).inc();
        }
        if let Some(bound) = subject.throttled_by {
            self.throttled.get_or_create(&BoundLabels { bound: bound.name() }).inc();
        }
        if let Some(reason) = subject.deny_reason.filter(|reason| is_failure(*reason)) {
            self.failed(
                event.account.as_ref().map_or(NO_ACCOUNT, AccountName::as_str),
                reason.name(),
            );
        }
        if let Some(operations) = subject.operations {
            self.batch_operations.observe(operations as f64);
        }
        self.rows_read.inc_by(subject.cost.rows_read);
        self.rows_returned.inc_by(subject.cost.rows_returned);
        self.request_bytes.inc_by(subject.request_bytes);
        self.response_bytes.inc_by(event.response_bytes);
    }
}

impl Metrics {
    pub(super) fn new() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            queries: Family::default(),
            throttled: Family::default(),
            authentication_failures: Family::default(),
            batch_operations: Histogram::new(BATCH_BUCKETS),
            rows_read: Counter::default(),
            rows_returned: Counter::default(),
            request_bytes: Counter::default(),
            response_bytes: Counter::default(),
            panics: Counter::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        let duration = "Time until the answer was ready";
        let http = self.durations.clone();
        registry.register_with_unit("http_server_request_duration", duration, Unit::Seconds, http);
        let registry = registry.sub_registry_with_prefix("tavola");
        registry.register(
            "requests",
            "Requests by operation, status and the service's code",
            self.requests.clone(),
        );
        registry.register(
            "queries",
            "Queries by the way they reach their rows",
            self.queries.clone(),
        );
        let throttled = "Requests answered with ServerBusy, by whose bound was reached";
        registry.register("throttled", throttled, self.throttled.clone());
        // A counter that appears with its first count hides that count from rates.
        for bound in Bound::ALL {
            drop(self.throttled.get_or_create(&BoundLabels { bound: bound.name() }));
        }
        let failures = "Requests whose credential did not hold, by account and reason";
        registry.register(
            "authentication_failures",
            failures,
            self.authentication_failures.clone(),
        );
        registry.register(
            "batch_operations",
            "Operations of a transaction",
            self.batch_operations.clone(),
        );
        registry.register("rows_read", "Rows looked at by queries", self.rows_read.clone());
        registry.register("rows_returned", "Rows sent by queries", self.rows_returned.clone());
        registry.register_with_unit(
            "request",
            "Bytes of bodies received",
            Unit::Bytes,
            self.request_bytes.clone(),
        );
        registry.register_with_unit(
            "response",
            "Bytes of bodies sent",
            Unit::Bytes,
            self.response_bytes.clone(),
        );
        registry.register(
            "panics",
            "Requests that met a defect of the server",
            self.panics.clone(),
        );
    }

    pub(super) fn record_panic(&self) {
        self.panics.inc();
    }

    pub(super) fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// A certificate that a client did not have, or that does not hold.
    pub(super) fn record_handshake(&self) {
        self.failed(NO_ACCOUNT, CERTIFICATE);
    }

    fn failed(&self, account: &str, reason: &'static str) {
        self.authentication_failures
            .get_or_create(&FailureLabels { account: account.to_owned(), reason })
            .inc();
    }

    /// Metrics that `collector` reads at each request for metrics.
    pub(super) fn collect_from(&mut self, collector: Box<dyn Collector>) {
        self.registry.register_collector(collector);
    }

    /// All metrics as OpenMetrics text.
    pub(super) fn exposition(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a String takes any text");
        text
    }
}

/// Nobody was authenticated.
fn is_failure(reason: DenyReason) -> bool {
    reason.is_authentication() || reason == DenyReason::UnknownAccount
}
