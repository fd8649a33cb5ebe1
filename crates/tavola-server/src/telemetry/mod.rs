//! One event per request, many readers: metrics, the access log and the audit log.

mod access_log;
mod audit;
mod collectors;
mod log_file;
mod metrics;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::request::Parts;
use http::{Method, StatusCode, Uri, Version};
use prometheus_client::collector::Collector;
use tavola_core::reply::Cost;
use tavola_core::{AccountName, ServiceKind};
use tavola_protocol::api_error::Budget;
use tavola_protocol::auth::{Presented, PresentedSas};
use tavola_protocol::{ApiError, DenyReason};
use tavola_store::Backend;

pub use access_log::{AccessLog, AccessLogFormat};
pub use audit::{AdminEvent, AuditLog, Principal, Target};
use collectors::{BackendMetrics, LogLosses};
pub use log_file::LogFile;
use metrics::Metrics;

use crate::auth_failures::AuthFailures;
use crate::proxy::Client;
use crate::service::Description;
use crate::throttle::Throttle;
use crate::tls::ClientCertificate;

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

impl Subject {
    /// Learns what the request is about.
    pub(crate) fn describe(&mut self, description: Description) {
        let Description { operation, is_write, operations, target } = description;
        (self.operation, self.is_write) = (operation, is_write);
        (self.operations, self.target) = (operations, target);
    }
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

/// Everything that is ever said about one request. It owns what it says, so that readers may keep
/// it.
#[derive(Debug, Clone)]
pub struct RequestEvent {
    /// The service that was asked.
    pub service: ServiceKind,
    /// When it came.
    pub arrived: SystemTime,
    /// From whom; behind a trusted proxy, its client.
    pub client: Client,
    /// The other end of the socket.
    pub peer: SocketAddr,
    /// The certificate that the client showed.
    pub client_certificate: Option<ClientCertificate>,
    /// Its first line; readers mask what is secret in it.
    pub method: Method,
    /// Where it went.
    pub uri: Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The credential that it showed, if a reader asked to be told.
    pub presented: Option<Box<PresentedCredential>>,
    /// The account that it is for, if the server has it.
    pub account: Option<AccountName>,
    /// Our id of it.
    pub request_id: String,
    /// The client's id of it.
    pub client_request_id: Option<String>,
    /// The answer's status.
    pub status: StatusCode,
    /// Bytes of the answer's body that were sent.
    pub response_bytes: u64,
    /// Until the answer was ready.
    pub duration: Duration,
    /// Until its last byte was handed to the connection.
    pub end_to_end: Duration,
    /// The connection was cut in the middle of the answer, because its body failed.
    pub is_cut: bool,
    /// What it was about.
    pub subject: Subject,
}

/// What a request shows as its credential, whether or not it is valid.
#[derive(Debug, Clone)]
pub struct PresentedCredential {
    /// Its kind.
    pub kind: Presented,
    /// What is not secret about a shared access signature.
    pub signature: Option<PresentedSas>,
}

impl PresentedCredential {
    fn of(service: ServiceKind, parts: &Parts) -> Self {
        Self {
            kind: Presented::of(service, parts),
            signature: PresentedSas::of(service, parts.uri.query()),
        }
    }
}

/// Reads the stream of events on the thread of the request, so it must neither wait nor fail. One
/// with slow work to do hands events to a thread of its own through a bounded queue, and counts
/// those that it loses.
pub trait EventReader: fmt::Debug + Send + Sync {
    /// Hears of a request.
    fn record(&self, event: &RequestEvent);
}

/// Hears of every request.
#[derive(Debug)]
pub struct Telemetry {
    started: Instant,
    metrics: Metrics,
    access_log: Option<Arc<AccessLog>>,
    audit_log: Option<Arc<AuditLog>>,
    readers: Vec<Arc<dyn EventReader>>,
}

impl Telemetry {
    /// Counts requests, and writes them to the access log if there is one.
    #[must_use]
    pub fn new(access_log: Option<AccessLog>) -> Self {
        let access_log = access_log.map(Arc::new);
        let telemetry = Self {
            started: Instant::now(),
            metrics: Metrics::new(),
            readers: Vec::new(),
            access_log: access_log.clone(),
            audit_log: None,
        };
        match access_log {
            Some(access_log) => telemetry.with_reader(access_log),
            None => telemetry,
        }
    }

    /// The same, with one more reader.
    #[must_use]
    pub fn with_reader(mut self, reader: Arc<dyn EventReader>) -> Self {
        self.readers.push(reader);
        self
    }

    /// The same, with an audit log if there is one.
    #[must_use]
    pub fn with_audit_log(self, audit_log: Option<AuditLog>) -> Self {
        let audit_log = audit_log.map(Arc::new);
        match audit_log.clone() {
            Some(reader) => Self { audit_log, ..self }.with_reader(reader),
            None => self,
        }
    }

    /// Tells all readers.
    pub fn record(&self, event: &RequestEvent) {
        self.metrics.record(event);
        for reader in &self.readers {
            reader.record(event);
        }
        trace(event);
    }

    /// Whether a reader wants to know what a request is about, down to its keys.
    pub(crate) fn wants_target(&self) -> bool {
        self.audit_log.is_some()
    }

    /// What the readers are told of a request's credential.
    pub(crate) fn presented(
        &self,
        service: ServiceKind,
        parts: &Parts,
    ) -> Option<Box<PresentedCredential>> {
        let is_wanted = self.audit_log.is_some();
        is_wanted.then(|| Box::new(PresentedCredential::of(service, parts)))
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
        throttle: &Arc<Throttle>,
        auth_failures: &Arc<AuthFailures>,
    ) {
        let (access, audit) = (self.access_log.clone(), self.audit_log.clone());
        let collectors: [Box<dyn Collector>; 4] = [
            Box::new(BackendMetrics(Arc::clone(backend))),
            Box::new(LogLosses { access, audit }),
            Box::new(Arc::clone(throttle)),
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
fn trace(event: &RequestEvent) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let subject = &event.subject;
    tracing::debug!(
        request_id = event.request_id,
        client = %event.client.ip,
        method = %event.method,
        uri = access_log::masked(&event.uri),
        status = event.status.as_u16(),
        operation = subject.operation,
        milliseconds = event.duration.as_secs_f64() * 1e3,
        error = subject.error_code,
        reason = subject.deny_reason.map(DenyReason::name),
        "request"
    );
}
