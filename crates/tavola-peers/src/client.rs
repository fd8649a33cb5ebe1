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
use tokio::net::TcpStream;

use crate::message::{Answer, ForwardOutcome, Hello, Welcome, decode, encode, encode_commit, path};
use crate::proof::{End, Secret, nonce};

/// Until a handshake is over. A peer that takes longer is no help.
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
    #[error("it cannot be reached: {0}")]
    Unreachable(#[from] std::io::Error),
    #[error("it did not answer in time")]
    Silent,
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("it answered {0}: it is of another version, or serves another store")]
    Refused(StatusCode),
    #[error("it is another node than expected: it does not know the store's secret, or was restarted")]
    WrongPeer,
    #[error("its answer cannot be read")]
    Unreadable,
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
    pub(crate) async fn connect(peer: Peer, secret: &Secret) -> Result<Self, PeerError> {
        tokio::time::timeout(HANDSHAKE_TIMEOUT, Self::handshake(peer, secret)).await.unwrap_or(Err(PeerError::Silent))
    }

    async fn handshake(peer: Peer, secret: &Secret) -> Result<Self, PeerError> {
        let mut client = Self::open(peer).await?;
        let caller = nonce();
        let (status, welcome) = client.ask("meet", &Hello { caller }).await?;
        if status != StatusCode::OK {
            return Err(PeerError::Refused(status));
        }
        let welcome: Welcome = decode(&welcome).map_err(|_| PeerError::Unreadable)?;
        if welcome.id != client.peer.id || !secret.accepts(&welcome.proof, End::Server, &welcome.server, &caller) {
            return Err(PeerError::WrongPeer);
        }
        client.clock_ms = welcome.clock_ms;
        let proof = secret.prove(End::Caller, &welcome.server, &caller);
        match client.ask("enter", &proof).await? {
            (StatusCode::NO_CONTENT, _) => Ok(client),
            (status, _) => Err(PeerError::Refused(status)),
        }
    }

    /// A connection to whatever process listens there.
    async fn open(peer: Peer) -> Result<Self, PeerError> {
        let stream = TcpStream::connect(&peer.address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
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

    /// Lets the peer carry out a transaction. Whatever happens after the bytes were given to the connection, the peer may
    /// have them.
    pub(crate) async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
        timeout: Duration,
    ) -> ForwardOutcome {
        let begin_before = self.server_clock_ms() + millis(BEGIN_TIMEOUT);
        let Ok(body) = encode_commit(begin_before, table, transaction, now) else {
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
            Ok((status, _)) if status.is_client_error() => return ForwardOutcome::Declined(status.to_string()),
            Ok((_, body)) => match decode::<Answer<'_>>(&body) {
                Ok(answer) => return answer.outcome(transaction.operations().len()),
                Err(unreadable) => unreadable.to_string(),
            },
            Err(error) => error.to_string(),
        };
        tracing::debug!(peer = self.peer.address, why, "a forwarded write was not answered");
        ForwardOutcome::Answered(Err(StoreError::UnknownOutcome))
    }

    /// Not before the server's clock, and not after it by more than the handshake took: both clocks only run forwards, at
    /// the same speed.
    fn server_clock_ms(&self) -> u64 {
        self.clock_ms + millis(self.connected.elapsed())
    }

    async fn ask(&self, what: &str, message: &impl Serialize) -> Result<(StatusCode, Bytes), PeerError> {
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
mod tests {
    use std::sync::Arc;

    use tavola_core::{EntityKey, EntityOperation, NewEntity, Outcome, PartitionKey, Precondition, Properties, RowKey};
    use tavola_store::MemoryStore;
    use tokio::net::TcpListener;
    use tokio::sync::watch;

    use super::*;
    use crate::counters::Counters;
    use crate::server::PeerServer;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn secret(byte: u8) -> Secret {
        Secret::new(&[byte; 32]).unwrap()
    }

    /// A server that has run for an hour, and what ends it.
    async fn server() -> (Peer, watch::Sender<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = PeerServer {
            id: [1; 16],
            secret: secret(1),
            store: Arc::new(MemoryStore::new()),
            counters: Arc::new(Counters::default()),
            started: Instant::now().checked_sub(Duration::from_secs(3600)).unwrap(),
            clock: || Timestamp::from_ticks(1_000).unwrap(),
        };
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(Arc::new(server).run(listener, stopped));
        (Peer { id: [1; 16], address }, stop)
    }

    async fn forward(client: &PeerClient) -> String {
        let delete = EntityOperation::Delete(RowKey::new("r").unwrap(), Precondition::Exists);
        let transaction = EntityGroupTransaction::single(PartitionKey::new("p").unwrap(), delete);
        format!("{:?}", client.commit(TableId::new(300), &transaction, Timestamp::MIN, TIMEOUT).await)
    }

    #[tokio::test]
    async fn only_a_caller_with_a_proof_is_served() {
        let (peer, _stop) = server().await;
        let client = PeerClient::connect(peer.clone(), &secret(1)).await.unwrap();
        assert!(forward(&client).await.starts_with("Answered(Ok(Err(FailedOperation"), "{}", forward(&client).await);
        let stranger = PeerClient::open(peer).await.unwrap();
        assert_eq!(forward(&stranger).await, "Declined(\"403 Forbidden\")");
        let (status, _) = stranger.ask("enter", &[0u8; 32]).await.unwrap();
        assert_eq!(status, StatusCode::CONFLICT, "there was no hello");
        stranger.ask("meet", &Hello { caller: nonce() }).await.unwrap();
        let (status, _) = stranger.ask("enter", &[0u8; 32]).await.unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "that was a guess");
        assert_eq!(forward(&stranger).await, "Declined(\"403 Forbidden\")");
        let (status, _) = stranger.ask("meet", &Hello { caller: nonce() }).await.unwrap();
        assert_eq!(status, StatusCode::CONFLICT, "one handshake for each connection");
    }

    #[tokio::test]
    async fn a_wrong_peer_is_forwarded_nothing() {
        let (peer, _stop) = server().await;
        let another = Peer { id: [2; 16], ..peer.clone() };
        assert!(matches!(PeerClient::connect(another, &secret(1)).await, Err(PeerError::WrongPeer)));
        assert!(matches!(PeerClient::connect(peer, &secret(2)).await, Err(PeerError::WrongPeer)));
    }

    /// A server that was stopped finds on its return what its callers have long given up.
    #[tokio::test]
    async fn what_comes_too_late_is_not_begun() {
        let (peer, _stop) = server().await;
        let mut client = PeerClient::connect(peer, &secret(1)).await.unwrap();
        client.clock_ms -= 60_000;
        assert_eq!(forward(&client).await, "Declined(\"it came too late\")");
    }

    /// One node with a wrong clock would otherwise give its time to the partitions of all others.
    #[tokio::test]
    async fn a_caller_from_the_future_gets_our_time() {
        let (peer, _stop) = server().await;
        let client = PeerClient::connect(peer, &secret(1)).await.unwrap();
        let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
        let (partition_key, new) = NewEntity::new(key, Properties::new(Vec::new()).unwrap()).unwrap();
        let transaction = EntityGroupTransaction::single(partition_key, EntityOperation::Insert(new));
        let late = Timestamp::from_ticks(9_000).unwrap();
        let outcome = client.commit(TableId::new(300), &transaction, late, TIMEOUT).await;
        let ForwardOutcome::Answered(Ok(Ok(outcomes))) = outcome else { panic!("{outcome:?}") };
        assert_eq!(outcomes, [Outcome::Written(Timestamp::from_ticks(1_000).unwrap())]);
    }

    #[tokio::test]
    async fn what_is_no_message_is_not_begun() {
        let (peer, _stop) = server().await;
        let client = PeerClient::connect(peer, &secret(1)).await.unwrap();
        assert_eq!(client.ask("commit", &[7u8; 3]).await.unwrap().0, StatusCode::BAD_REQUEST);
        assert_eq!(client.ask("dance", &0u8).await.unwrap().0, StatusCode::NOT_FOUND);
        assert_eq!(client.ask("meet", &vec![0u8; 2000]).await.unwrap().0, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
