//! The admin port. Health and metrics are for everybody who can reach it; what changes something
//! needs a credential. Nothing is for pages of other sites (`guard`).

mod change;
mod connections;
mod guard;
mod used_signatures;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::listener::accepted_connection;
use crate::node::Node;
use change::Change;
use connections::{Connections, Place};
use guard::OriginCheck;
use used_signatures::UsedSignatures;

const HEADER_TIME: Duration = Duration::from_secs(10);
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What all connections of the port share.
#[derive(Debug)]
struct AdminPort {
    node: Arc<Node>,
    /// The address of ours that is asked.
    listens_on: IpAddr,
    used_signatures: UsedSignatures,
}

/// Who asks, and when.
#[derive(Debug, Clone, Copy)]
struct Caller {
    peer: IpAddr,
    now: SystemTime,
}

/// Serves the admin port until `stop` turns true.
pub async fn serve_admin(listener: TcpListener, node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    let connections = Arc::new(Connections::default());
    let listens_on =
        listener.local_addr().map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip());
    let used_signatures = UsedSignatures::new(SystemTime::now());
    let port = Arc::new(AdminPort { node, listens_on, used_signatures });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let Some((stream, peer)) = accepted_connection(accepted).await else { continue };
        let Some(place) = connections.enter(peer.ip()) else { continue };
        let port = Arc::clone(&port);
        tokio::spawn(async move {
            tokio::select! {
                () = serve_connection(stream, &port, peer.ip(), &place) => {}
                () = place.is_needed() => {}
            }
        });
    }
}

async fn serve_connection(stream: TcpStream, port: &AdminPort, peer: IpAddr, place: &Place) {
    let service = service_fn(move |request: Request<Incoming>| async move {
        let caller = Caller { peer, now: SystemTime::now() };
        Ok::<_, Infallible>(
            answer(port, caller, &request.into_parts().0, place).await.map(Full::new),
        )
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
    let _ended = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(port: &AdminPort, caller: Caller, parts: &Parts, place: &Place) -> Response<Bytes> {
    if parts.headers.get_all(header::HOST).iter().nth(1).is_some() {
        return text(StatusCode::BAD_REQUEST, "more than one Host header\n".to_owned());
    }
    let door = OriginCheck { listens_on: port.listens_on, names: &port.node.admin_names };
    if let Err(stranger) = door.check(&parts.uri, &parts.headers) {
        return text(StatusCode::FORBIDDEN, stranger.text().to_owned());
    }
    let (path, query) = (parts.uri.path(), parts.uri.query());
    match (&parts.method, Change::parse(path, query)) {
        (&Method::POST, Some(change)) => {
            change::carry_out(port, caller, parts, &change, place).await
        }
        (_, Some(_)) => text(StatusCode::METHOD_NOT_ALLOWED, "only POST\n".to_owned()),
        (&Method::GET | &Method::HEAD, None) => page(&port.node, path),
        (_, None) => text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
    }
}

fn page(node: &Node, path: &str) -> Response<Bytes> {
    match path {
        "/alive" => text(StatusCode::OK, "alive\n".to_owned()),
        "/ready" | "/readyz" | "/healthz" => ready(node),
        "/status" => status(node),
        "/metrics" => metrics(node),
        _ => text(StatusCode::NOT_FOUND, "try /alive, /ready, /status or /metrics\n".to_owned()),
    }
}

/// 200 if the store serves, 503 with the reason if not. What is wrong meanwhile stands below.
pub(crate) fn ready(node: &Node) -> Response<Bytes> {
    match node.backend.ready() {
        Ok(()) => {
            let warning = node.backend.warning().map(|warning| format!("warning: {warning}\n"));
            text(StatusCode::OK, format!("ready\n{}", warning.unwrap_or_default()))
        }
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

fn status(node: &Node) -> Response<Bytes> {
    let (ready, reason) = match node.backend.ready() {
        Ok(()) => (true, String::new()),
        Err(reason) => (false, reason.replace(['"', '\\', '\n'], " ")),
    };
    let version = env!("CARGO_PKG_VERSION");
    let in_flight = node.open_requests.load(Ordering::Relaxed);
    let accounts = node.accounts().names().count();
    let body = format!(
        "{{\"version\":\"{version}\",\"ready\":{ready},\"reason\":\"{reason}\",\"accounts\":{accounts},\
         \"requests_in_flight\":{in_flight},\"uptime_seconds\":{}}}\n",
        node.telemetry.uptime().as_secs()
    );
    with_type(StatusCode::OK, "application/json", body)
}

fn metrics(node: &Node) -> Response<Bytes> {
    with_type(StatusCode::OK, METRICS_TYPE, node.telemetry.exposition())
}

fn text(status: StatusCode, body: String) -> Response<Bytes> {
    with_type(status, "text/plain; charset=utf-8", body)
}

fn with_type(status: StatusCode, content_type: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
