//! The listening end of a connection: a caller must prove what it is, then its transactions are carried out.

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
use tavola_store::Store;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::client::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, millis};
use crate::counters::{Counters, count};
use crate::message::{Commit, Hello, Welcome, decline, decode, encode, encode_answer, path};
use crate::proof::{End, Nonce, Proof, Secret, nonce};

/// Nodes are few.
const CONNECTIONS_MAX: usize = 256;
/// Writes of one connection at a time.
const STREAMS_MAX: u32 = 4096;
/// Until a caller has proved what it is.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// What a caller may send before it has.
const HELLO_BYTES_MAX: usize = 1 << 10;
/// A transaction brings 4 MiB as JSON; encoded it is smaller, but for names that are repeated for each row.
const COMMIT_BYTES_MAX: usize = 16 << 20;
/// After a failure to accept, such as a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Forwarded writes that are under way at the end may take so long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct PeerServer {
    pub(crate) id: [u8; 16],
    pub(crate) secret: Secret,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) counters: Arc<Counters>,
    /// The zero of the clock that only runs forwards.
    pub(crate) started: Instant,
    /// What time it is.
    pub(crate) clock: fn() -> Timestamp,
}

/// One caller, and whether it has proved to be a node of this store.
struct PeerSession {
    server_nonce: Nonce,
    caller_nonce: OnceLock<Nonce>,
    is_authenticated: AtomicBool,
}

impl PeerServer {
    /// Takes connections until told to stop; returns once those that are open are done.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stopped(&mut stop) => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                    let (server, stop) = (Arc::clone(&self), stop.clone());
                    tokio::spawn(async move {
                        server.receive(stream, peer, stop).await;
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

    async fn receive(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, mut stop: watch::Receiver<bool>) {
        let _slower = stream.set_nodelay(true);
        let session = Arc::new(PeerSession {
            server_nonce: nonce(),
            caller_nonce: OnceLock::new(),
            is_authenticated: AtomicBool::new(false),
        });
        let (server, caller) = (self, Arc::clone(&session));
        let service = service_fn(move |request| Arc::clone(&server).answer(Arc::clone(&caller), request));
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let too_long = async {
            tokio::time::sleep(HANDSHAKE_TIMEOUT).await;
            if session.is_authenticated.load(Ordering::Acquire) {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = served.as_mut() => ended,
            () = too_long => {
                tracing::debug!(%peer, "a connection without a handshake was closed");
                return;
            }
            () = stopped(&mut stop) => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection of a peer ended");
        }
    }

    async fn answer(
        self: Arc<Self>,
        session: Arc<PeerSession>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, http::Error> {
        let (status, body) = self.reply(&session, request).await.unwrap_or_else(|status| (status, Vec::new()));
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
        if asked == path("meet") {
            return self.hello(session, &body).map(|welcome| (StatusCode::OK, welcome));
        }
        if asked == path("enter") {
            return self.enter(session, &body).map(|()| (StatusCode::NO_CONTENT, Vec::new()));
        }
        Err(StatusCode::NOT_FOUND)
    }

    fn hello(&self, session: &PeerSession, body: &[u8]) -> Result<Vec<u8>, StatusCode> {
        let hello: Hello = decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
        session.caller_nonce.set(hello.caller).map_err(|_| StatusCode::CONFLICT)?;
        let proof = self.secret.prove(End::Server, &session.server_nonce, &hello.caller);
        let welcome = Welcome { id: self.id, server: session.server_nonce, proof, clock_ms: self.clock_ms() };
        encode(&welcome).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn enter(&self, session: &PeerSession, body: &[u8]) -> Result<(), StatusCode> {
        let proof: Proof = decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
        let caller_nonce = session.caller_nonce.get().ok_or(StatusCode::CONFLICT)?;
        if !self.secret.accepts(&proof, End::Caller, &session.server_nonce, caller_nonce) {
            return Err(StatusCode::FORBIDDEN);
        }
        session.is_authenticated.store(true, Ordering::Release);
        Ok(())
    }

    async fn commit(&self, body: &[u8]) -> Result<Vec<u8>, StatusCode> {
        let unreadable = |_| StatusCode::BAD_REQUEST;
        let commit: Commit<'_> = decode(body).map_err(unreadable)?;
        let failed = |_| StatusCode::INTERNAL_SERVER_ERROR;
        if self.clock_ms() > commit.begin_before_ms {
            return decline("it came too late").map_err(failed);
        }
        let (transaction, now) = commit.transaction().map_err(unreadable)?;
        count(&self.counters.received);
        let verdict = self.store.commit(TableId::new(commit.table), &transaction, now.min((self.clock)())).await;
        encode_answer(&verdict).map_err(failed)
    }

    fn clock_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

/// Waits for the word to stop, or for the end of its sender.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _sender_gone = stop.wait_for(|stop| *stop).await;
}

async fn read(request: Request<Incoming>, bytes_max: usize) -> Result<Bytes, StatusCode> {
    let body = Limited::new(request.into_body(), bytes_max).collect().await;
    Ok(body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?.to_bytes())
}
