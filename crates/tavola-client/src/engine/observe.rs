//! What others see of a call: spans and numbers, after OpenTelemetry's conventions for database
//! clients. Neither keys nor filters nor values nor credentials are in them.

use http::Uri;
use tavola_protocol::table::decode::Decoded;
use tavola_protocol::table::receive::ReplyHead;
use tracing::Span;
use tracing::field::{self, Empty};

use super::Running;
use super::metrics::Called;
use crate::error::{Error, ErrorKind};
use crate::explain::Access;
use crate::store::{Cause, Failure, Reply};
use crate::unknown::Proof;

/// What the last answer said about itself.
#[derive(Debug, Default)]
pub(super) struct LastAnswer {
    status: Option<u16>,
    request_id: Option<String>,
}

/// Host and port of an endpoint; none of a service in the process.
pub(super) fn server_of(endpoint: &str) -> Option<(String, u16)> {
    let uri: Uri = endpoint.parse().ok()?;
    let port = uri.port_u16().or(match uri.scheme_str()? {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    })?;
    Some((uri.host()?.to_owned(), port))
}

impl Running<'_> {
    /// The span of the whole call.
    pub(super) fn span(&self) -> Span {
        let (subject, engine) = (self.subject, self.engine);
        let batch = subject.operations.len();
        tracing::info_span!(
            "table call",
            otel.name = %self.name(),
            otel.kind = "client",
            otel.status_code = Empty,
            db.system.name = "azure.tables",
            db.namespace = engine.traits.account.as_deref(),
            db.collection.name = subject.table.as_ref().map(field::display),
            db.operation.name = subject.operation,
            db.operation.batch.size = (batch > 0).then_some(batch),
            db.response.status_code = Empty,
            db.response.returned_rows = Empty,
            "error.type" = Empty,
            server.address = engine.server.as_ref().map(|(host, _)| host.as_str()),
            server.port = engine.server.as_ref().map(|(_, port)| *port),
            az.client_request_id = self.client_request_id.as_str(),
            az.service_request.id = Empty,
            tavola.access = subject.access.map(access_name),
            tavola.proof = Empty,
        )
    }

    /// The span of one attempt, inside that of the call.
    pub(super) fn attempt_span(&self, resend_count: u32) -> Span {
        let (subject, engine) = (self.subject, self.engine);
        tracing::info_span!(
            "attempt",
            otel.name = %self.name(),
            otel.kind = "client",
            otel.status_code = Empty,
            db.system.name = "azure.tables",
            db.namespace = engine.traits.account.as_deref(),
            db.collection.name = subject.table.as_ref().map(field::display),
            db.operation.name = subject.operation,
            db.response.status_code = Empty,
            "error.type" = Empty,
            server.address = engine.server.as_ref().map(|(host, _)| host.as_str()),
            server.port = engine.server.as_ref().map(|(_, port)| *port),
            az.client_request_id = self.client_request_id.as_str(),
            az.service_request.id = Empty,
            http.request.resend_count = resend_count,
        )
    }

    fn name(&self) -> String {
        match &self.subject.table {
            Some(table) => format!("{} {table}", self.subject.operation),
            None => self.subject.operation.to_owned(),
        }
    }

    /// Notes what an attempt came to.
    pub(super) fn observe_attempt(&mut self, span: &Span, result: &Result<Reply, Failure>) {
        let head = match result {
            Ok(reply) => Some(&reply.0.head),
            Err(failure) => failure.head.as_deref(),
        };
        let error = result.as_ref().err().map(failure_type);
        self.last = head.map(LastAnswer::of).unwrap_or_default();
        record(span, &self.last, error.filter(|error| !self.is_absence(error)));
    }

    /// Notes what the whole call came to.
    pub(super) fn observe_call(
        &self,
        span: &Span,
        end: Result<Option<Proof>, &Error>,
        rows: Option<usize>,
    ) {
        let error = end.as_ref().err().map(|error| error_type(error));
        let error = error.filter(|error| !self.is_absence(error));
        record(span, &self.last, error);
        if let Ok(Some(proof)) = end {
            span.record("tavola.proof", proof_name(proof));
        }
        if let Some(rows) = rows {
            span.record("db.response.returned_rows", rows);
        }
        self.engine.metrics.called(&Called {
            operation: self.subject.operation,
            table: self.subject.table.as_ref(),
            status: self.last.status,
            error,
            elapsed: self.elapsed(),
            rows,
        });
    }

    /// A get that finds nothing has an answer, not an error.
    fn is_absence(&self, error: &str) -> bool {
        self.subject.operation == "get" && error == "ResourceNotFound"
    }
}

impl LastAnswer {
    fn of(head: &ReplyHead) -> Self {
        Self { status: Some(head.status.as_u16()), request_id: head.request_id.clone() }
    }
}

fn record(span: &Span, answer: &LastAnswer, error: Option<&str>) {
    if let Some(status) = answer.status {
        span.record("db.response.status_code", status);
    }
    if let Some(id) = &answer.request_id {
        span.record("az.service_request.id", id.as_str());
    }
    if let Some(error) = error {
        span.record("error.type", error);
        span.record("otel.status_code", "ERROR");
    }
}

/// How many entities or tables an answer has; `None` if it is about something else.
pub(super) fn rows_of(decoded: &Decoded) -> Option<usize> {
    match decoded {
        Decoded::Entity(_) => Some(1),
        Decoded::Entities(rows, _) => Some(rows.len()),
        Decoded::Tables(names, _) => Some(names.len()),
        _ => None,
    }
}

fn failure_type(failure: &Failure) -> &str {
    match &*failure.cause {
        Cause::Service(error) if error.code.is_empty() => "service",
        Cause::Service(error) => &error.code,
        Cause::NotOurs { .. } => "not_ours",
        Cause::Connect { .. } => "connect",
        Cause::Transport(_) => "transport",
        Cause::Invalid(_) => "invalid",
        Cause::Credential(_) => "credential",
        Cause::Deadline => "deadline",
    }
}

fn error_type(error: &Error) -> &str {
    match (error.kind(), error.code()) {
        (ErrorKind::Unknown { .. }, _) => "unknown_outcome",
        (_, Some(code)) => code,
        (ErrorKind::NotOurs { .. }, None) => "not_ours",
        (ErrorKind::Connect, None) => "connect",
        (ErrorKind::Transport, None) => "transport",
        (ErrorKind::Invalid { .. }, None) => "invalid",
        (ErrorKind::Credential, None) => "credential",
        (ErrorKind::Deadline, None) => "deadline",
        (_, None) => "service",
    }
}

fn access_name(access: Access) -> &'static str {
    match access {
        Access::Point => "point",
        Access::RowRange => "row_range",
        Access::PartitionScan => "partition_scan",
        Access::PartitionRange => "partition_range",
        Access::TableScan => "table_scan",
    }
}

fn proof_name(proof: Proof) -> &'static str {
    match proof {
        Proof::Reply => "reply",
        Proof::WriteId => "write_id",
        Proof::Content => "content",
        Proof::State => "state",
    }
}

#[cfg(test)]
mod tests {
    use super::server_of;

    #[test]
    fn servers() {
        let server = |endpoint| server_of(endpoint).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(server("http://127.0.0.1:10002/a").unwrap(), "127.0.0.1 10002");
        assert_eq!(
            server("https://a.table.core.windows.net").unwrap(),
            "a.table.core.windows.net 443"
        );
        assert_eq!(server("local:"), None);
    }
}
