//! The admin port: health and metrics, nothing that changes anything.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::node::Node;

const CONNECTIONS_MAX: usize = 256;
const HEADER_TIME: Duration = Duration::from_secs(10);
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the admin port until `stop` turns true.
pub async fn serve_admin(listener: TcpListener, node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let (Ok((stream, _peer)), Ok(permit)) = (accepted, Arc::clone(&connections).try_acquire_owned()) else {
            continue;
        };
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            let _held_while_open = permit;
            let service = service_fn(|request: Request<Incoming>| {
                let response = answer(&node, request.method(), request.uri().path()).map(Full::new);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
            let _ended = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(node: &Node, method: &Method, path: &str) -> Response<Bytes> {
    if method != Method::GET && method != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
    }
    match path {
        "/alive" => text(StatusCode::OK, "alive\n".to_owned()),
        "/ready" | "/readyz" | "/healthz" => ready(node),
        "/status" => status(node),
        "/metrics" => metrics(node),
        _ => text(StatusCode::NOT_FOUND, "try /alive, /ready, /status or /metrics\n".to_owned()),
    }
}

/// 200 if the store serves, 503 with the reason if not.
pub(crate) fn ready(node: &Node) -> Response<Bytes> {
    match node.health.ready() {
        Ok(()) => text(StatusCode::OK, "ready\n".to_owned()),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

fn status(node: &Node) -> Response<Bytes> {
    let (ready, reason) = match node.health.ready() {
        Ok(()) => (true, String::new()),
        Err(reason) => (false, reason.replace(['"', '\\', '\n'], " ")),
    };
    let version = env!("CARGO_PKG_VERSION");
    let in_flight = node.limits.requests_in_flight - node.in_flight.available_permits();
    let accounts = node.accounts().names().count();
    let body = format!(
        "{{\"version\":\"{version}\",\"ready\":{ready},\"reason\":\"{reason}\",\"accounts\":{accounts},\
         \"requests_in_flight\":{in_flight},\"uptime_seconds\":{}}}\n",
        node.telemetry.uptime().as_secs()
    );
    with_type(StatusCode::OK, "application/json", body)
}

fn metrics(node: &Node) -> Response<Bytes> {
    with_type(StatusCode::OK, METRICS_TYPE, node.telemetry.exposition(&node.health.counters()))
}

fn text(status: StatusCode, body: String) -> Response<Bytes> {
    with_type(status, "text/plain; charset=utf-8", body)
}

fn with_type(status: StatusCode, content_type: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
