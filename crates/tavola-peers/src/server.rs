//! The listening end of a connection: a caller must prove that it is a node of this store, then its
//! transactions are carried out.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tavola_core::{TableId, Timestamp};
use tavola_store::{Peer, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::client::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, millis};
use crate::counters::{Counters, count};
use crate::keys::PeerKeys;
use crate::message::{Commit, Hello, Welcome, decline, decode, encode, encode_answer, path};
use crate::node::LocalNode;
use crate::proof::{ChannelBinding, End, Nonce, Proof, Session, nonce};
use crate::tenants::Tenants;
use crate::transport::Channel;

/// Nodes are few.
const CONNECTIONS_MAX: usize = 256;
/// Writes of one connection at a time.
const STREAMS_MAX: u32 = 4096;
/// Until a caller has proved what it is.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// What a caller may send before it has.
const HELLO_BYTES_MAX: usize = 1 << 10;
/// Of a request: our own have a path and a length.
const HEAD_BYTES_MAX: u32 = 8 << 10;
/// A transaction brings 4 MiB as JSON; encoded it is smaller, but for names that are repeated for
/// each row.
const COMMIT_BYTES_MAX: usize = 16 << 20;
/// After a failure to accept, such as a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Forwarded writes that are under way at the end may take so long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct PeerServer {
    pub(crate) node: Arc<LocalNode>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) tenants: Arc<Tenants>,
    /// The zero of the clock that only runs forwards.
    pub(crate) started: Instant,
    /// What time it is.
    pub(crate) clock: fn() -> Timestamp,
}

/// One connection, and whether its caller has proved to be a node of this store.
struct PeerSession {
    channel: ChannelBinding,
    /// The address in the caller's certificate; `None` without TLS.
    certified: Option<SocketAddr>,
    server_nonce: Nonce,
    handshake: OnceLock<Session>,
    is_authenticated: AtomicBool,
}

impl PeerServer {
    /// Accepts connections until it is stopped; returns once the open ones are done.
    pub(crate) async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        mut stop: watch::Receiver<bool>,
    ) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stopped(&mut stop) => break,
            };
            match accepted {
                Ok((stream, remote)) => {
                    let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                    let (server, stop) = (Arc::clone(&self), stop.clone());
                    tokio::spawn(async move {
                        server.receive(stream, remote, stop).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of a peer");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
        let _some_remain = tokio::time::timeout(DRAIN_TIMEOUT, places.acquire_many(all)).await;
    }

    async fn receive(
        self: Arc<Self>,
        stream: TcpStream,
        remote: SocketAddr,
        mut stop: watch::Receiver<bool>,
    ) {
        // Before the keys are looked at: a change after this ends the connection.
        let other_keys = other_keys(self.node.transport.keys().map(PeerKeys::generation));
        let accepting = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.node.transport.accept(stream));
        let channel = match accepting.await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return self.refuse(remote, &error.to_string()),
            Err(_) => return self.refuse(remote, "it did not finish its handshake"),
        };
        let session = Arc::new(PeerSession::new(&channel));
        let (server, caller) = (Arc::clone(&self), Arc::clone(&session));
        let service =
            service_fn(move |request| Arc::clone(&server).answer(Arc::clone(&caller), request));
        let mut served = pin!(http2().serve_connection(TokioIo::new(channel.stream), service));
        let ended = tokio::select! {
            ended = served.as_mut() => ended,
            () = session.unproved_for_too_long() => return self.refuse(remote, "it did not prove what it is"),
            () = either(stopped(&mut stop), other_keys) => {
                served.as_mut().graceful_shutdown();
                tokio::time::timeout(DRAIN_TIMEOUT, served).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%remote, %error, "a connection of a peer ended");
        }
    }

    /// Any process that reaches the port can cause this, so it is counted, and logged only at level
    /// debug.
    fn refuse(&self, remote: SocketAddr, reason: &str) {
        count(&self.counters.refused);
        tracing::debug!(%remote, reason, "a connection to the port for peers was refused");
    }

    async fn answer(
        self: Arc<Self>,
        session: Arc<PeerSession>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, http::Error> {
        let (status, body) =
            self.reply(&session, request).await.unwrap_or_else(|status| (status, Vec::new()));
        Response::builder().status(status).body(Full::new(body.into()))
    }

    async fn reply(
        &self,
        session: &PeerSession,
        request: Request<Incoming>,
    ) -> Result<(StatusCode, Vec<u8>), StatusCode> {
        let asked = request.uri().path().to_owned();
        if request.method() != Method::POST {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        if asked == path("commit") {
            if !session.is_authenticated.load(Ordering::Acquire) {
                return Err(StatusCode::FORBIDDEN);
            }
            let body = read(request, COMMIT_BYTES_MAX).await?;
            return self.commit(&body).await.map(|answer| (StatusCode::OK, answer));
        }
        let body = read(request, HELLO_BYTES_MAX).await?;
        if asked == path("hello") {
            return self.hello(session, &body).map(|welcome| (StatusCode::OK, welcome));
        }
        if asked == path("prove") {
            return self.prove(session, &body).map(|()| (StatusCode::NO_CONTENT, Vec::new()));
        }
        Err(StatusCode::NOT_FOUND)
    }

    /// The caller must mean this node, and be the node that its certificate is for.
    fn hello(&self, session: &PeerSession, body: &[u8]) -> Result<Vec<u8>, StatusCode> {
        let hello: Hello<'_> = decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
        if hello.server_address != self.node.peer.address {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        if session.certified.is_some_and(|certified| hello.caller_address.parse() != Ok(certified))
        {
            return Err(StatusCode::FORBIDDEN);
        }
        let handshake = Session {
            channel: session.channel,
            server: self.node.peer.clone(),
            server_nonce: session.server_nonce,
            caller: Peer { id: hello.caller_id, address: hello.caller_address.to_owned() },
            caller_nonce: hello.caller_nonce,
        };
        let proof = self.node.secret.prove(End::Server, &handshake);
        session.handshake.set(handshake).map_err(|_| StatusCode::CONFLICT)?;
        let welcome = Welcome {
            id: self.node.peer.id,
            server_nonce: session.server_nonce,
            proof,
            clock_ms: self.clock_ms(),
        };
        encode(&welcome).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn prove(&self, session: &PeerSession, body: &[u8]) -> Result<(), StatusCode> {
        let proof: Proof = decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
        let handshake = session.handshake.get().ok_or(StatusCode::CONFLICT)?;
        if !self.node.secret.accepts(&proof, End::Caller, handshake) {
            return Err(StatusCode::FORBIDDEN);
        }
        session.is_authenticated.store(true, Ordering::Release);
        Ok(())
    }

    async fn commit(&self, body: &[u8]) -> Result<Vec<u8>, StatusCode> {
        let unreadable = |_| StatusCode::BAD_REQUEST;
        let commit: Commit<'_> = decode(body).map_err(unreadable)?;
        let failed = |_| StatusCode::INTERNAL_SERVER_ERROR;
        let table = TableId::new(commit.table);
        if table.is_system() {
            tracing::warn!(
                table = commit.table,
                "a peer asked to write a system table, which none of this version does"
            );
            return Err(StatusCode::FORBIDDEN);
        }
        let (transaction, now) = commit.transaction().map_err(unreadable)?;
        let Some(_place) = self.tenants.place(commit.tenant, body.len()).await else {
            return decline("its tenant has its share of forwarded writes").map_err(failed);
        };
        if self.clock_ms() > commit.begin_before_ms {
            return decline("it came too late").map_err(failed);
        }
        count(&self.counters.received);
        let result = self.store.commit(table, &transaction, now.min((self.clock)())).await;
        encode_answer(&result).map_err(failed)
    }

    fn clock_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

impl PeerSession {
    fn new(channel: &Channel) -> Self {
        Self {
            channel: channel.binding,
            certified: channel.certified,
            server_nonce: nonce(),
            handshake: OnceLock::new(),
            is_authenticated: AtomicBool::new(false),
        }
    }

    /// Never ends for a caller that proves in time what it is.
    async fn unproved_for_too_long(&self) {
        tokio::time::sleep(HANDSHAKE_TIMEOUT).await;
        if self.is_authenticated.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }
}

fn http2() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}

/// Ends when other keys come into use; never without keys.
async fn other_keys(generation: Option<watch::Receiver<u64>>) {
    match generation {
        Some(mut generation) => {
            let _keys_gone = generation.changed().await;
        }
        None => std::future::pending().await,
    }
}

async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        () = one => {}
        () = other => {}
    }
}

/// Waits for the signal to stop, or for the end of its sender.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _sender_gone = stop.wait_for(|stop| *stop).await;
}

async fn read(request: Request<Incoming>, bytes_max: usize) -> Result<Bytes, StatusCode> {
    let body = Limited::new(request.into_body(), bytes_max).collect().await;
    Ok(body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?.to_bytes())
}
