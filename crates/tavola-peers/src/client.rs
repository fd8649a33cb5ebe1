//! The calling end of a connection: the handshake, and forwarding writes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::Serialize;
use tavola_core::{EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{Peer, StoreError};

use crate::message::{Answer, ForwardOutcome, Hello, Welcome, decode, encode, encode_commit, path};
use crate::node::LocalNode;
use crate::proof::{ChannelBinding, End, Session, nonce};
use crate::transport::{Channel, TransportError};

/// Until a handshake is over. To forward to a peer that takes longer saves nothing.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// What is forwarded must begin within it, or not at all.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(1);
/// A silent server is pinged, and taken for gone if it does not answer.
const PING_EVERY: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes on their way, of one write and of all.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// Versions of a hundred rows, or a sentence.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Why there is no connection, or no answer on it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("it did not answer in time")]
    Silent,
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("it answered {0}: it is of another version, or serves another store")]
    Refused(StatusCode),
    #[error("it was restarted")]
    Restarted,
    #[error("it does not know the secret of this keyspace")]
    WrongSecret,
    #[error("its answer cannot be read")]
    Unreadable,
}

impl PeerError {
    /// True if it is to be expected: nodes stop, restart and are killed. An operator should look at
    /// everything else.
    pub(crate) fn is_ordinary(&self) -> bool {
        matches!(
            self,
            Self::Silent
                | Self::Broken(_)
                | Self::Restarted
                | Self::Transport(TransportError::Unreachable(_))
        )
    }
}

/// A peer whose identity was checked.
#[derive(Debug)]
pub(crate) struct PeerClient {
    peer: Peer,
    requests: SendRequest<Full<Bytes>>,
    /// The server's clock was at `clock_ms` at this moment or after it.
    connected: Instant,
    clock_ms: u64,
}

impl PeerClient {
    /// Connects, and makes sure which node is at the other end.
    pub(crate) async fn connect(peer: Peer, own: &LocalNode) -> Result<Self, PeerError> {
        let connecting = async {
            let channel = own.transport.connect(&peer.address).await?;
            Self::handshake(channel, peer, own).await
        };
        tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await.unwrap_or(Err(PeerError::Silent))
    }

    /// Both ends prove that they know the secret, and that they mean each other.
    async fn handshake(channel: Channel, peer: Peer, own: &LocalNode) -> Result<Self, PeerError> {
        let binding = channel.binding;
        let mut client = Self::over(channel, peer).await?;
        let (session, welcome) = client.hello(own, binding).await?;
        if welcome.id != client.peer.id {
            return Err(PeerError::Restarted);
        }
        if !own.secret.accepts(&welcome.proof, End::Server, &session) {
            return Err(PeerError::WrongSecret);
        }
        client.clock_ms = welcome.clock_ms;
        match client.ask("prove", &own.secret.prove(End::Caller, &session)).await? {
            (StatusCode::NO_CONTENT, _) => Ok(client),
            (status, _) => Err(PeerError::Refused(status)),
        }
    }

    /// The server's welcome, and our view of the handshake.
    async fn hello(
        &self,
        own: &LocalNode,
        channel: ChannelBinding,
    ) -> Result<(Session, Welcome), PeerError> {
        let caller_nonce = nonce();
        let hello = Hello {
            caller_id: own.peer.id,
            caller_address: &own.peer.address,
            caller_nonce,
            server_address: &self.peer.address,
        };
        let (status, welcome) = self.ask("hello", &hello).await?;
        if status != StatusCode::OK {
            return Err(PeerError::Refused(status));
        }
        let welcome: Welcome = decode(&welcome).map_err(|_| PeerError::Unreadable)?;
        let (server, caller) = (self.peer.clone(), own.peer.clone());
        Ok((
            Session { channel, server, server_nonce: welcome.server_nonce, caller, caller_nonce },
            welcome,
        ))
    }

    /// HTTP/2 on a connection to whatever process listens there.
    async fn over(channel: Channel, peer: Peer) -> Result<Self, PeerError> {
        let (requests, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(channel.stream))
            .await?;
        // It ends when the client is dropped or the server is gone; pending requests then fail.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a peer ended");
            }
        });
        Ok(Self { peer, requests, connected: Instant::now(), clock_ms: 0 })
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Lets the peer carry out a transaction. Whatever happens after the bytes were given to the
    /// connection, the peer may have them.
    pub(crate) async fn commit(
        &self,
        tenant: &str,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
        timeout: Duration,
    ) -> ForwardOutcome {
        let begin_before = self.server_clock_ms() + millis(BEGIN_TIMEOUT);
        let Ok(body) = encode_commit(begin_before, tenant, table, transaction, now) else {
            return ForwardOutcome::Declined("it cannot be encoded".to_owned());
        };
        let mut requests = self.requests.clone();
        if let Err(error) = requests.ready().await {
            return ForwardOutcome::Declined(error.to_string());
        }
        let sent = match request("commit", body) {
            Ok(request) => requests.send_request(request),
            Err(error) => return ForwardOutcome::Declined(error.to_string()),
        };
        let answered = tokio::time::timeout(timeout, async { answer(sent.await?).await }).await;
        let why = match answered.unwrap_or(Err(PeerError::Silent)) {
            // What a server refuses to read it has not begun.
            Ok((status, _)) if status.is_client_error() => {
                return ForwardOutcome::Declined(status.to_string());
            }
            Ok((_, body)) => match decode::<Answer<'_>>(&body) {
                Ok(answer) => return answer.outcome(transaction.operations().len()),
                Err(unreadable) => unreadable.to_string(),
            },
            Err(error) => error.to_string(),
        };
        tracing::debug!(peer = self.peer.address, why, "a forwarded write was not answered");
        ForwardOutcome::Answered(Err(StoreError::UnknownOutcome))
    }

    /// Not before the server's clock, and not after it by more than the handshake took: both clocks
    /// only run forwards, at the same speed.
    fn server_clock_ms(&self) -> u64 {
        self.clock_ms + millis(self.connected.elapsed())
    }

    async fn ask(
        &self,
        what: &str,
        message: &impl Serialize,
    ) -> Result<(StatusCode, Bytes), PeerError> {
        let body = encode(message).map_err(|_| PeerError::Unreadable)?;
        let request = request(what, body).map_err(|_| PeerError::Unreadable)?;
        let mut requests = self.requests.clone();
        requests.ready().await?;
        answer(requests.send_request(request).await?).await
    }
}

async fn answer(response: Response<Incoming>) -> Result<(StatusCode, Bytes), PeerError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    Ok((status, body.map_err(|_| PeerError::Unreadable)?.to_bytes()))
}

fn request(what: &str, body: Vec<u8>) -> Result<Request<Full<Bytes>>, http::Error> {
    // HTTP/2 wants an authority; which node is meant was settled by the handshake.
    let uri = format!("http://peer{}", path(what));
    Request::builder().method(Method::POST).uri(uri).body(Full::new(body.into()))
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
