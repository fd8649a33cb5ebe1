//! Accepting connections, within bounds, until told to stop.
//!
//! A plain port speaks HTTP/1.1 only. With a certificate the handshake happens in the connection's
//! own task, and it says which version of HTTP follows.

mod addresses;
mod half_closed;
mod heads;
mod http2;
mod reply_body;
mod secure;
mod slow_peer;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use ipnet::IpNet;
use tavola_fair::Member;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::body::RequestBody;
use crate::config::Limits;
use crate::connection::{Connection, Scheme};
use crate::node::Node;
use crate::pipeline::{self, ConnectionBroken};
use crate::response_body::ResponseBody;
use crate::service::Service;
use crate::tls::TlsReloader;
use addresses::Addresses;
use half_closed::{Answering, ExchangeState, HalfClosed, arriving};
use heads::{FIELDS_MAX, HeadError};
use reply_body::ReplyBody;
use slow_peer::SlowPeerTimeout;

/// After `accept` failed (no file descriptors left) the server tries again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections beyond the bound are told so, this many at a time; the rest are closed without a
/// word.
const BUSY_ANSWERS_MAX: usize = 64;
/// All that such a connection gets.
const BUSY_ANSWER_TIME: Duration = Duration::from_secs(5);

/// A service, and what all connections to all services share.
#[derive(Debug)]
pub(crate) struct Endpoint<S> {
    pub(crate) node: Arc<Node>,
    pub(crate) service: Arc<S>,
}

impl<S> Clone for Endpoint<S> {
    fn clone(&self) -> Self {
        Self { node: Arc::clone(&self.node), service: Arc::clone(&self.service) }
    }
}

/// How many connections there may be, to all services together.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    connections: Arc<Semaphore>,
    addresses: Addresses,
    busy_answers: Arc<Semaphore>,
}

impl ConnectionLimits {
    pub(crate) fn new(limits: &Limits, trusted_proxies: &[IpNet]) -> Self {
        Self {
            connections: Arc::new(Semaphore::new(limits.connections)),
            addresses: Addresses::new(limits.connections_per_address, trusted_proxies.to_vec()),
            busy_answers: Arc::new(Semaphore::new(BUSY_ANSWERS_MAX)),
        }
    }
}

/// Serves a service on `listener` until `stop` turns true, then lets open requests finish. With
/// `tls` it speaks https only.
pub async fn serve<S: Service>(
    listener: TcpListener,
    tls: Option<Arc<TlsReloader>>,
    node: Arc<Node>,
    service: Arc<S>,
    mut stop: watch::Receiver<bool>,
) {
    let endpoint = Endpoint { node, service };
    let limits = &endpoint.node.connections;
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, peer)) = accepted_connection(accepted).await else { continue };
        let endpoint = endpoint.clone();
        let connection = Arc::clone(&limits.connections).try_acquire_owned().ok();
        let place = limits.addresses.enter(peer.ip()).zip(connection);
        match (place, &tls) {
            (Some(permit), None) => {
                let connection = Connection::new(peer, Scheme::Http);
                let stream = SlowPeerTimeout::new(stream, endpoint.node.limits.body_time);
                let served = serve_http1(stream, connection, endpoint, graceful.watcher());
                tokio::spawn(holding(permit, served));
            }
            (Some(permit), Some(tls)) => {
                let (tls, watcher) = (tls.any_http(), graceful.watcher());
                let secured = secure::serve(stream, peer, tls, endpoint, watcher, stop.clone());
                tokio::spawn(holding(permit, secured));
            }
            (None, tls) => {
                if let Ok(permit) = Arc::clone(&limits.busy_answers).try_acquire_owned() {
                    let refused = refuse_connection(stream, tls.clone(), endpoint);
                    tokio::spawn(holding(permit, refused));
                }
            }
        }
    }
    drop(listener);
    let drain_time = endpoint.node.limits.drain_time;
    let _all_finished = tokio::time::timeout(drain_time, graceful.shutdown()).await;
}

/// Without the pause a server that has no descriptors left would do nothing but ask for one.
pub(crate) async fn accepted_connection(
    accepted: std::io::Result<(TcpStream, SocketAddr)>,
) -> Option<(TcpStream, SocketAddr)> {
    match accepted {
        Ok((stream, peer)) => {
            // Small replies must not wait for an acknowledgement of the previous one.
            let _best_effort = stream.set_nodelay(true);
            Some((stream, peer))
        }
        Err(error) => {
            tracing::warn!(%error, "could not accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// A connection keeps its place until it ends.
async fn holding<P>(permit: P, connection: impl Future<Output = ()>) {
    let _held_while_open = permit;
    connection.await;
}

async fn serve_http1<T, S: Service>(
    stream: T,
    connection: Connection,
    endpoint: Endpoint<S>,
    graceful: Watcher,
) where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let http = http1_builder(&endpoint.node.limits);
    let peer = connection.peer;
    let heads = endpoint.node.heads.member(1);
    let exchange = Arc::new(ExchangeState::default());
    let stream = HalfClosed::new(stream, Arc::clone(&exchange));
    let service = service_fn(move |request| {
        let request = arriving(request, &exchange);
        let answer = answer(endpoint.clone(), connection.clone(), request, Arc::clone(&heads));
        let exchange = Arc::clone(&exchange);
        async move {
            let response = answer.await?;
            let sent = |body| ReplyBody::new(body, Answering::begin(exchange));
            Ok::<_, ConnectionBroken>(response.map(sent))
        }
    });
    let served = http.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = graceful.watch(served).await {
        ended(peer, &error);
    }
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    // Without `pipeline_flush`: it keeps an answer back while there are unread bytes, and when
    // those are the rest of a body that was refused, hyper closes without ever sending it.
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.header_bytes)
        .max_headers(FIELDS_MAX);
    http
}

async fn answer<B: RequestBody, S: Service>(
    Endpoint { node, service }: Endpoint<S>,
    connection: Connection,
    request: Request<B>,
    heads: Arc<Member>,
) -> Result<Response<ResponseBody>, ConnectionBroken> {
    Ok(match heads::admit(&request, &heads) {
        Ok(_until_answered) => pipeline::handle(node, service, connection, request).await?,
        Err(HeadError::Busy) => pipeline::busy_answer(&node, &*service).map(ResponseBody::full),
        Err(HeadError::TooLarge) => too_large().map(ResponseBody::full),
    })
}

/// What hyper answers by itself to a head that it could not even read.
fn too_large() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The client's own trouble, of which the log would be full.
fn ended(peer: SocketAddr, error: &dyn std::error::Error) {
    tracing::debug!(%peer, %error, "connection ended");
}

/// Answers one request of a connection that is over the bound, and closes it.
async fn refuse_connection<S: Service>(
    stream: TcpStream,
    tls: Option<Arc<TlsReloader>>,
    endpoint: Endpoint<S>,
) {
    let refused = async {
        match tls {
            None => refuse_on(stream, &endpoint).await,
            Some(tls) => {
                let handshake = secure::handshake(stream, tls.http1_only(), BUSY_ANSWER_TIME);
                if let Ok(stream) = handshake.await {
                    refuse_on(stream, &endpoint).await;
                }
            }
        }
    };
    // The client's own trouble: there is nothing left to do for it.
    let _ended = tokio::time::timeout(BUSY_ANSWER_TIME, refused).await;
}

async fn refuse_on<T, S: Service>(stream: T, endpoint: &Endpoint<S>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let Endpoint { node, service } = endpoint;
    let service = service_fn(|_request: Request<Incoming>| {
        let response = pipeline::busy_answer(node, &**service).map(Full::new);
        async move { Ok::<_, Infallible>(response) }
    });
    let http = http1_builder(&node.limits).keep_alive(false).to_owned();
    let _ended = http.serve_connection(TokioIo::new(stream), service).await;
}
