//! One event per request, many readers: metrics, the access log and the audit log.

mod access_log;
mod audit;
mod collectors;
mod log_file;
mod metrics;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use http::request::Parts;
use prometheus_client::collector::Collector;
use tavola_core::reply::Cost;
use tavola_core::{AccountName, TableRequest};
use tavola_protocol::api_error::Budget;
use tavola_protocol::{ApiError, DenyReason};
use tavola_store::Backend;

pub use access_log::{AccessLog, AccessLogFormat};
pub use audit::{AdminEvent, AuditLog, Principal, Target};
use collectors::{BackendMetrics, LogLosses};
pub use log_file::LogFile;
use metrics::Metrics;

use crate::auth_failures::AuthFailures;
use crate::connection::Connection;
use crate::proxy::Client;
use crate::tenants::Tenants;

/// What a request was about, as far as it was understood. Never holds a key, a signature or an
/// entity's content.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// The operation's name; empty if the request was not understood.
    pub operation: &'static str,
    /// True if the request can change something.
    pub is_write: bool,
    /// Who was let in.
    pub principal: Option<Principal>,
    /// The table and keys, if there is an audit log.
    pub target: Option<Box<Target>>,
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
    pub(crate) fn behind(api_error: &ApiError) -> Option<Self> {
        match api_error {
            ApiError::OverBudget(Budget::Requests | Budget::Ingress | Budget::Egress) => {
                Some(Self::Account)
            }
            ApiError::OverBudget(Budget::PartitionEntities) => Some(Self::Partition),
            ApiError::ServerBusy { .. } | ApiError::StoreUnavailable | ApiError::StoreFull => {
                Some(Self::Server)
            }
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
    pub(crate) fn describe(&mut self, request: &TableRequest, telemetry: &Telemetry) {
        self.operation = request.name();
        self.is_write = request.is_write();
        // Whether the request is denied, and has a line for that, is known only at its end.
        self.target = telemetry.audit_log.as_ref().map(|_| Box::new(Target::of(request)));
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
    pub client: Client,
    /// The other end of the socket.
    pub connection: &'a Connection,
    /// Its head; readers mask what is secret in it.
    pub parts: &'a Parts,
    /// The account that it is for, if the server has it.
    pub account: Option<&'a AccountName>,
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
    access_log: Option<Arc<AccessLog>>,
    audit_log: Option<Arc<AuditLog>>,
}

impl Telemetry {
    /// Counts requests, and writes them to the access log if there is one.
    #[must_use]
    pub fn new(access_log: Option<AccessLog>) -> Self {
        let access_log = access_log.map(Arc::new);
        Self { started: Instant::now(), metrics: Metrics::new(), access_log, audit_log: None }
    }

    /// The same, with an audit log if there is one.
    #[must_use]
    pub fn with_audit_log(self, audit_log: Option<AuditLog>) -> Self {
        Self { audit_log: audit_log.map(Arc::new), ..self }
    }

    /// Tells all readers.
    pub fn record(&self, event: &RequestEvent<'_>) {
        self.metrics.record(event);
        if let Some(access_log) = &self.access_log {
            access_log.record(event);
        }
        if let Some(audit_log) = &self.audit_log {
            audit_log.record(event);
        }
        trace(event);
    }

    /// A client was refused before its first request, because of its certificate.
    pub(crate) fn record_handshake(&self, peer: IpAddr, reason: &rustls::Error) {
        self.metrics.record_handshake();
        if let Some(audit_log) = &self.audit_log {
            audit_log.record_handshake(peer, reason);
        }
    }

    /// Tells the audit log of an act on the server itself.
    pub fn record_admin(&self, event: &AdminEvent<'_>) {
        if let Some(audit_log) = &self.audit_log {
            audit_log.record_admin(event);
        }
    }

    /// Opens the file of the audit log anew, after somebody moved it away.
    pub fn reopen_audit_log(&self) {
        if let Some(audit_log) = &self.audit_log {
            audit_log.reopen();
        }
    }

    /// Waits for a moment until the access log and the audit log are written; the last thing that a
    /// server does.
    pub fn flush(&self) {
        if let Some(access_log) = &self.access_log {
            access_log.flush();
        }
        if let Some(audit_log) = &self.audit_log {
            audit_log.flush();
        }
    }

    /// Counts a request whose handler panicked.
    pub(crate) fn record_panic(&self) {
        self.metrics.record_panic();
    }

    /// How many requests met a defect of the server. Each was answered with `InternalError`; there
    /// should be none.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.metrics.panics()
    }

    /// How long the server has been up.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Registers the metrics that are read when they are asked for.
    pub(crate) fn collect_from(
        &mut self,
        backend: &Arc<dyn Backend>,
        tenants: &Arc<Tenants>,
        auth_failures: &Arc<AuthFailures>,
    ) {
        let (access, audit) = (self.access_log.clone(), self.audit_log.clone());
        let collectors: [Box<dyn Collector>; 4] = [
            Box::new(BackendMetrics(Arc::clone(backend))),
            Box::new(LogLosses { access, audit }),
            Box::new(Arc::clone(tenants)),
            Box::new(Arc::clone(auth_failures)),
        ];
        for collector in collectors {
            self.metrics.collect_from(collector);
        }
    }

    /// All metrics as OpenMetrics text.
    #[must_use]
    pub fn exposition(&self) -> String {
        self.metrics.exposition()
    }
}

/// A request in the log of what the server does, which tells more if it is asked to.
fn trace(event: &RequestEvent<'_>) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let subject = event.subject;
    tracing::debug!(
        request_id = event.request_id,
        client = %event.client.ip,
        method = %event.parts.method,
        uri = access_log::masked(&event.parts.uri),
        status = event.status.as_u16(),
        operation = subject.operation,
        milliseconds = event.duration.as_secs_f64() * 1e3,
        error = subject.error_code,
        reason = subject.deny_reason.map(DenyReason::name),
        "request"
    );
}
