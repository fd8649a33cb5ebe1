//! The guest's end of a connection: meeting the host, and sending it writes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::Serialize;
use tavola_core::{EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{FrontEnd, StoreError};
use tokio::net::TcpStream;

use crate::message::{Answer, Greeting, Told, Welcome, decode, encode, encode_commit, path};
use crate::proof::{End, Secret, nonce};

/// Until a meeting is over. A front end that takes longer is no help.
const MEETING_TIME: Duration = Duration::from_secs(1);
/// What is sent must be begun within it, or not at all.
const BEGINNING_TIME: Duration = Duration::from_secs(1);
/// A host that says nothing is asked whether it lives, and taken for gone if it does not answer.
const PING_EVERY: Duration = Duration::from_secs(1);
const PING_TIME: Duration = Duration::from_secs(2);
/// Bytes on their way, of one write and of all.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// Versions of a hundred rows, or a sentence.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Why there is no link, or no answer on it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("it cannot be reached: {0}")]
    Unreachable(#[from] std::io::Error),
    #[error("it did not answer in time")]
    Silent,
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("it answered {0}: it is of another version, or serves another store")]
    Refused(StatusCode),
    #[error("it is not who was expected: it does not know the store's secret, or was started anew")]
    Stranger,
    #[error("it said what cannot be understood")]
    Unreadable,
}

/// A host that was met.
#[derive(Debug)]
pub(crate) struct Link {
    host: FrontEnd,
    requests: SendRequest<Full<Bytes>>,
    /// The host's clock was at `clock_ms` at this moment or after it.
    met: Instant,
    clock_ms: u64,
}

impl Link {
    /// Connects, and makes sure who is at the other end.
    pub(crate) async fn meet(host: FrontEnd, secret: &Secret) -> Result<Self, LinkError> {
        tokio::time::timeout(MEETING_TIME, Self::meet_at_leisure(host, secret)).await.unwrap_or(Err(LinkError::Silent))
    }

    async fn meet_at_leisure(host: FrontEnd, secret: &Secret) -> Result<Self, LinkError> {
        let mut link = Self::connect(host).await?;
        let guest = nonce();
        let (status, welcome) = link.ask("meet", &Greeting { guest }).await?;
        if status != StatusCode::OK {
            return Err(LinkError::Refused(status));
        }
        let welcome: Welcome = decode(&welcome).map_err(|_| LinkError::Unreadable)?;
        if welcome.id != link.host.id || !secret.accepts(&welcome.proof, End::Host, &welcome.host, &guest) {
            return Err(LinkError::Stranger);
        }
        link.clock_ms = welcome.clock_ms;
        let proof = secret.prove(End::Guest, &welcome.host, &guest);
        match link.ask("enter", &proof).await? {
            (StatusCode::NO_CONTENT, _) => Ok(link),
            (status, _) => Err(LinkError::Refused(status)),
        }
    }

    /// A connection to somebody.
    async fn connect(host: FrontEnd) -> Result<Self, LinkError> {
        let stream = TcpStream::connect(&host.address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIME)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await?;
        // It ends when the link is dropped, or the host is gone; those who wait hear of it.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to another front end ended");
            }
        });
        Ok(Self { host, requests, met: Instant::now(), clock_ms: 0 })
    }

    pub(crate) fn host(&self) -> &FrontEnd {
        &self.host
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Lets the host carry out a transaction. Whatever happens after the bytes were given to the connection, the host may
    /// have them.
    pub(crate) async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
        patience: Duration,
    ) -> Told {
        let begin_before = self.host_clock_ms() + millis(BEGINNING_TIME);
        let Ok(body) = encode_commit(begin_before, table, transaction, now) else {
            return Told::Declined("it cannot be said".to_owned());
        };
        let mut requests = self.requests.clone();
        if let Err(error) = requests.ready().await {
            return Told::Declined(error.to_string());
        }
        let sent = match request("commit", body) {
            Ok(request) => requests.send_request(request),
            Err(error) => return Told::Declined(error.to_string()),
        };
        let answered = tokio::time::timeout(patience, async { answer(sent.await?).await }).await;
        let why = match answered.unwrap_or(Err(LinkError::Silent)) {
            // What a host refuses to hear it has not begun.
            Ok((status, _)) if status.is_client_error() => return Told::Declined(status.to_string()),
            Ok((_, body)) => match decode::<Answer<'_>>(&body) {
                Ok(answer) => return answer.told(transaction.operations().len()),
                Err(unreadable) => unreadable.to_string(),
            },
            Err(error) => error.to_string(),
        };
        tracing::debug!(host = self.host.address, why, "a write that was sent on was not answered");
        Told::Answered(Err(StoreError::UnknownOutcome))
    }

    /// Not before the host's clock, and not after it by more than the meeting took: both clocks only run forwards, at the
    /// same speed.
    fn host_clock_ms(&self) -> u64 {
        self.clock_ms + millis(self.met.elapsed())
    }

    async fn ask(&self, what: &str, message: &impl Serialize) -> Result<(StatusCode, Bytes), LinkError> {
        let body = encode(message).map_err(|_| LinkError::Unreadable)?;
        let request = request(what, body).map_err(|_| LinkError::Unreadable)?;
        let mut requests = self.requests.clone();
        requests.ready().await?;
        answer(requests.send_request(request).await?).await
    }
}

async fn answer(response: Response<Incoming>) -> Result<(StatusCode, Bytes), LinkError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    Ok((status, body.map_err(|_| LinkError::Unreadable)?.to_bytes()))
}

fn request(what: &str, body: Vec<u8>) -> Result<Request<Full<Bytes>>, http::Error> {
    // HTTP/2 wants an authority; who is meant has been settled by the meeting.
    let uri = format!("http://neighbour{}", path(what));
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
    use crate::host::Host;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn secret(byte: u8) -> Secret {
        Secret::new(&[byte; 32]).unwrap()
    }

    /// A host that has served for an hour, and what ends it.
    async fn host() -> (FrontEnd, watch::Sender<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let host = Host {
            id: [1; 16],
            secret: secret(1),
            store: Arc::new(MemoryStore::new()),
            counters: Arc::new(Counters::default()),
            started: Instant::now().checked_sub(Duration::from_secs(3600)).unwrap(),
            clock: || Timestamp::from_ticks(1_000).unwrap(),
        };
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(Arc::new(host).run(listener, stopped));
        (FrontEnd { id: [1; 16], address }, stop)
    }

    async fn told(link: &Link) -> String {
        let delete = EntityOperation::Delete(RowKey::new("r").unwrap(), Precondition::Exists);
        let transaction = EntityGroupTransaction::single(PartitionKey::new("p").unwrap(), delete);
        format!("{:?}", link.commit(TableId::new(300), &transaction, Timestamp::MIN, PATIENCE).await)
    }

    #[tokio::test]
    async fn only_who_has_entered_is_heard() {
        let (front_end, _stop) = host().await;
        let link = Link::meet(front_end.clone(), &secret(1)).await.unwrap();
        assert!(told(&link).await.starts_with("Answered(Ok(Err(FailedOperation"), "{}", told(&link).await);
        let stranger = Link::connect(front_end).await.unwrap();
        assert_eq!(told(&stranger).await, "Declined(\"403 Forbidden\")");
        let (status, _) = stranger.ask("enter", &[0u8; 32]).await.unwrap();
        assert_eq!(status, StatusCode::CONFLICT, "nobody was greeted");
        stranger.ask("meet", &Greeting { guest: nonce() }).await.unwrap();
        let (status, _) = stranger.ask("enter", &[0u8; 32]).await.unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "that was a guess");
        assert_eq!(told(&stranger).await, "Declined(\"403 Forbidden\")");
        let (status, _) = stranger.ask("meet", &Greeting { guest: nonce() }).await.unwrap();
        assert_eq!(status, StatusCode::CONFLICT, "one meeting for each connection");
    }

    #[tokio::test]
    async fn who_is_not_who_was_expected_is_sent_nothing() {
        let (front_end, _stop) = host().await;
        let another = FrontEnd { id: [2; 16], ..front_end.clone() };
        assert!(matches!(Link::meet(another, &secret(1)).await, Err(LinkError::Stranger)));
        assert!(matches!(Link::meet(front_end, &secret(2)).await, Err(LinkError::Stranger)));
    }

    /// A host that was stopped finds on its return what its guests have long given up.
    #[tokio::test]
    async fn what_comes_too_late_is_not_begun() {
        let (front_end, _stop) = host().await;
        let mut link = Link::meet(front_end, &secret(1)).await.unwrap();
        link.clock_ms -= 60_000;
        assert_eq!(told(&link).await, "Declined(\"it came too late\")");
    }

    /// One front end with a wrong clock would otherwise give its time to the partitions of all others.
    #[tokio::test]
    async fn a_guest_from_the_future_gets_our_time() {
        let (front_end, _stop) = host().await;
        let link = Link::meet(front_end, &secret(1)).await.unwrap();
        let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
        let (partition_key, new) = NewEntity::new(key, Properties::new(Vec::new()).unwrap()).unwrap();
        let transaction = EntityGroupTransaction::single(partition_key, EntityOperation::Insert(new));
        let late = Timestamp::from_ticks(9_000).unwrap();
        let told = link.commit(TableId::new(300), &transaction, late, PATIENCE).await;
        let Told::Answered(Ok(Ok(outcomes))) = told else { panic!("{told:?}") };
        assert_eq!(outcomes, [Outcome::Written(Timestamp::from_ticks(1_000).unwrap())]);
    }

    #[tokio::test]
    async fn what_is_no_message_is_not_begun() {
        let (front_end, _stop) = host().await;
        let link = Link::meet(front_end, &secret(1)).await.unwrap();
        assert_eq!(link.ask("commit", &[7u8; 3]).await.unwrap().0, StatusCode::BAD_REQUEST);
        assert_eq!(link.ask("dance", &0u8).await.unwrap().0, StatusCode::NOT_FOUND);
        assert_eq!(link.ask("meet", &vec![0u8; 2000]).await.unwrap().0, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
