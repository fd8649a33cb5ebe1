//! Accepting connections, within bounds, until told to stop.
//!
//! A plain port speaks HTTP/1.1 only. With a certificate the handshake happens in the connection's own task, and it says
//! which version of HTTP follows.

mod http2;
mod patient;
mod secure;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::body::ReplyBody;
use crate::config::Limits;
use crate::connection::{Connection, Scheme};
use crate::handler;
use crate::node::Node;
use crate::tls::TlsReloader;
use patient::Patient;

/// Headers of one request; SDKs send about fifteen.
const HEADERS_MAX: usize = 256;
/// After `accept` failed (no file descriptors left) the server tries again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections beyond the bound are told so, this many at a time; the rest are closed without a word.
const BUSY_ANSWERS_MAX: usize = 64;
/// All that such a connection gets.
const BUSY_ANSWER_TIME: Duration = Duration::from_secs(5);

/// Serves the Table service on `listener` until `stop` turns true, then lets open requests finish. With `tls` it speaks
/// https only.
pub async fn serve_tables(
    listener: TcpListener,
    tls: Option<Arc<TlsReloader>>,
    node: Arc<Node>,
    mut stop: watch::Receiver<bool>,
) {
    let connections = Arc::new(Semaphore::new(node.limits.connections));
    let busy_answers = Arc::new(Semaphore::new(BUSY_ANSWERS_MAX));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, peer)) = accepted_connection(accepted).await else { continue };
        let node = Arc::clone(&node);
        match (Arc::clone(&connections).try_acquire_owned(), &tls) {
            (Ok(permit), None) => {
                let connection = Connection { peer, scheme: Scheme::Http };
                let stream = Patient::new(stream, node.limits.body_time);
                tokio::spawn(holding(permit, serve_http1(stream, connection, node, graceful.watcher())));
            }
            (Ok(permit), Some(tls)) => {
                let secured = secure::serve(stream, peer, tls.any_http(), node, graceful.watcher(), stop.clone());
                tokio::spawn(holding(permit, secured));
            }
            (Err(_full), tls) => {
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
async fn holding(permit: OwnedSemaphorePermit, connection: impl Future<Output = ()>) {
    let _held_while_open = permit;
    connection.await;
}

async fn serve_http1<S>(stream: S, connection: Connection, node: Arc<Node>, graceful: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let http = http1_builder(&node.limits);
    let service = service_fn(move |request| answer(Arc::clone(&node), connection, request));
    if let Err(error) = graceful.watch(http.serve_connection(TokioIo::new(stream), service)).await {
        ended(connection.peer, &error);
    }
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    // Without `pipeline_flush`: it keeps an answer back while there are unread bytes, and when those are the rest of a
    // body that was refused, hyper closes without ever sending it.
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.header_bytes)
        .max_headers(HEADERS_MAX);
    http
}

async fn answer(
    node: Arc<Node>,
    connection: Connection,
    request: Request<Incoming>,
) -> Result<Response<ReplyBody>, handler::ConnectionBroken> {
    Ok(handler::handle(node, connection, request).await?.map(ReplyBody::new))
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
                if let Ok(stream) = secure::handshake(stream, tls.http1_only(), BUSY_ANSWER_TIME).await {
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
    let connection = http1_builder(&node.limits).keep_alive(false).serve_connection(TokioIo::new(stream), service);
    let _ended = connection.await;
}
