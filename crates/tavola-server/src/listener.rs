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
use tavola_fair::Member;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::body::RequestBody;
use crate::config::Limits;
use crate::connection::{Connection, Scheme};
use crate::handler::{self, ConnectionBroken};
use crate::node::Node;
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

/// Serves the Table service on `listener` until `stop` turns true, then lets open requests finish.
/// With `tls` it speaks https only.
pub async fn serve_tables(
    listener: TcpListener,
    tls: Option<Arc<TlsReloader>>,
    node: Arc<Node>,
    mut stop: watch::Receiver<bool>,
) {
    let connections = Arc::new(Semaphore::new(node.limits.connections));
    let addresses =
        Addresses::new(node.limits.connections_per_address, node.trusted_proxies.clone());
    let busy_answers = Arc::new(Semaphore::new(BUSY_ANSWERS_MAX));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, peer)) = accepted_connection(accepted).await else { continue };
        let node = Arc::clone(&node);
        let place =
            addresses.enter(peer.ip()).zip(Arc::clone(&connections).try_acquire_owned().ok());
        match (place, &tls) {
            (Some(permit), None) => {
                let connection = Connection::new(peer, Scheme::Http);
                let stream = SlowPeerTimeout::new(stream, node.limits.body_time);
                tokio::spawn(holding(
                    permit,
                    serve_http1(stream, connection, node, graceful.watcher()),
                ));
            }
            (Some(permit), Some(tls)) => {
                let secured = secure::serve(
                    stream,
                    peer,
                    tls.any_http(),
                    node,
                    graceful.watcher(),
                    stop.clone(),
                );
                tokio::spawn(holding(permit, secured));
            }
            (None, tls) => {
                if let Ok(permit) = Arc::clone(&busy_answers).try_acquire_owned() {
                    tokio::spawn(holding(permit, refuse_connection(stream, tls.clone(), node)));
                }
            }
        }
    }
    drop(listener);
    let _all_finished = tokio::time::timeout(node.limits.drain_time, graceful.shutdown()).await;
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

async fn serve_http1<S>(stream: S, connection: Connection, node: Arc<Node>, graceful: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let http = http1_builder(&node.limits);
    let peer = connection.peer;
    let heads = node.heads.member(1);
    let exchange = Arc::new(ExchangeState::default());
    let stream = HalfClosed::new(stream, Arc::clone(&exchange));
    let service = service_fn(move |request| {
        let request = arriving(request, &exchange);
        let answer = answer(Arc::clone(&node), connection.clone(), request, Arc::clone(&heads));
        let exchange = Arc::clone(&exchange);
        async move {
            Ok::<_, ConnectionBroken>(
                answer.await?.map(|body| ReplyBody::new(body, Answering::begin(exchange))),
            )
        }
    });
    if let Err(error) = graceful.watch(http.serve_connection(TokioIo::new(stream), service)).await {
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

async fn answer<B: RequestBody>(
    node: Arc<Node>,
    connection: Connection,
    request: Request<B>,
    heads: Arc<Member>,
) -> Result<Response<Bytes>, ConnectionBroken> {
    Ok(match heads::admit(&request, &heads) {
        Ok(_until_answered) => handler::handle(node, connection, request).await?,
        Err(HeadError::Busy) => handler::busy_answer(&node),
        Err(HeadError::TooLarge) => too_large(),
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
async fn refuse_connection(stream: TcpStream, tls: Option<Arc<TlsReloader>>, node: Arc<Node>) {
    let refused = async {
        match tls {
            None => refuse_on(stream, &node).await,
            Some(tls) => {
                if let Ok(stream) =
                    secure::handshake(stream, tls.http1_only(), BUSY_ANSWER_TIME).await
                {
                    refuse_on(stream, &node).await;
                }
            }
        }
    };
    // The client's own trouble: there is nothing left to do for it.
    let _ended = tokio::time::timeout(BUSY_ANSWER_TIME, refused).await;
}

async fn refuse_on<S: AsyncRead + AsyncWrite + Unpin>(stream: S, node: &Node) {
    let service = service_fn(|_request: Request<Incoming>| {
        let response = handler::busy_answer(node).map(Full::new);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1_builder(&node.limits)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ended = connection.await;
}
