//! What every request leaves behind.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::StatusCode;
use tavola_core::ServiceKind;
use tavola_core::filter::plan::AccessClass;
use tavola_core::reply::Cost;
use tavola_server::connection::Scheme;
use tavola_server::proxy::Client;
use tavola_server::telemetry::{AccessLog, AccessLogFormat, RequestEvent, Subject, Telemetry};

use super::input;
use crate::counted::Run;
use crate::failure::Result;

/// Counters and histograms, which are always on.
pub(super) fn record(run: &Run<'_>) -> Result {
    record_with(run, &Telemetry::new(None))
}

/// With a line of the access log, up to handing it to the thread that writes it.
pub(super) fn record_logged(run: &Run<'_>) -> Result {
    record_with(run, &Telemetry::new(Some(AccessLog::start(AccessLogFormat::Text)?)))
}

fn record_with(run: &Run<'_>, telemetry: &Telemetry) -> Result {
    let (parts, _) = input::get(1, input::MINIMAL_METADATA, input::now())?.into_parts();
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000));
    let cost = Cost { class: Some(AccessClass::Point), rows_read: 1, rows_returned: 1 };
    let subject = Subject { operation: "QueryEntity", cost, ..Subject::default() };
    let event = RequestEvent {
        arrived: input::now(),
        client: Client { ip: peer.ip(), scheme: Scheme::Http },
        service: ServiceKind::Table,
        peer,
        client_certificate: None,
        method: parts.method,
        uri: parts.uri,
        version: parts.version,
        presented: None,
        account: None,
        request_id: "0b5f6c1e-7a52-4d7c-9a43-5c1b2f0e6d11".to_owned(),
        client_request_id: Some("f2e84b70-e1cf-11f1-b04d-02fc00000001".to_owned()),
        status: StatusCode::OK,
        response_bytes: 500,
        duration: Duration::from_micros(180),
        end_to_end: Duration::from_micros(190),
        is_cut: false,
        subject,
    };
    run.count(|| telemetry.record(black_box(&event)))
}
