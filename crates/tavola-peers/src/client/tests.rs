//! Both ends of a connection, one of which may do anything.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tavola_core::{
    EntityKey, EntityOperation, NewEntity, Outcome, PartitionKey, Precondition, Properties, RowKey,
};
use tavola_store::MemoryStore;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;
use crate::authority::Authority;
use crate::counters::Counters;
use crate::keys::{CERTIFICATE_FILE, KEY_FILE, PeerKeys, TRUST_FILE};
use crate::proof::Secret;
use crate::server::PeerServer;
use crate::tenants::Tenants;
use crate::transport::{Transport, tls_over};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A node of a store with that secret, without TLS.
fn node(id: u8, secret: u8, address: &str) -> LocalNode {
    let secret = Secret::new(&[secret; 32]).unwrap();
    let peer = Peer { id: [id; 16], address: address.to_owned() };
    LocalNode { peer, secret, transport: Transport::new(None, false) }
}

fn caller() -> LocalNode {
    node(2, 1, "127.0.0.1:2")
}

/// A server without TLS that has run for an hour, and what ends it.
async fn server() -> (Peer, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node(1, 1, &listener.local_addr().unwrap().to_string());
    let peer = node.peer.clone();
    (peer, serve(node, listener).1)
}

fn serve(node: LocalNode, listener: TcpListener) -> (Arc<Counters>, watch::Sender<bool>) {
    let counters = Arc::new(Counters::default());
    let server = PeerServer {
        node: Arc::new(node),
        store: Arc::new(MemoryStore::new()),
        counters: Arc::clone(&counters),
        tenants: Arc::new(Tenants::new(64)),
        started: Instant::now().checked_sub(Duration::from_secs(3600)).unwrap(),
        clock: || Timestamp::from_ticks(1_000).unwrap(),
    };
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(Arc::new(server).run(listener, stopped));
    (counters, stop)
}

/// A connection on which nothing was said yet.
async fn open(peer: &Peer) -> PeerClient {
    let channel = caller().transport.connect(&peer.address).await.unwrap();
    PeerClient::over(channel, peer.clone()).await.unwrap()
}

/// A busy machine may take longer than a handshake should.
async fn connect(peer: &Peer, own: &LocalNode) -> Result<PeerClient, PeerError> {
    loop {
        match PeerClient::connect(peer.clone(), own).await {
            Err(PeerError::Silent) => {}
            other => return other,
        }
    }
}

async fn forward(client: &PeerClient) -> String {
    let delete = EntityOperation::Delete(RowKey::new("r").unwrap(), Precondition::Exists);
    let transaction = EntityGroupTransaction::single(PartitionKey::new("p").unwrap(), delete);
    format!(
        "{:?}",
        client.commit("shop", TableId::new(300), &transaction, Timestamp::MIN, TIMEOUT).await
    )
}

#[tokio::test]
async fn only_a_caller_with_a_proof_is_served() {
    let (peer, _stop) = server().await;
    let client = connect(&peer, &caller()).await.unwrap();
    assert!(
        forward(&client).await.starts_with("Answered(Ok(Err(FailedOperation"),
        "{}",
        forward(&client).await
    );
    let stranger = open(&peer).await;
    assert_eq!(forward(&stranger).await, "Declined(\"403 Forbidden\")");
    let (status, _) = stranger.ask("prove", &[0u8; 32]).await.unwrap();
    assert_eq!(status, StatusCode::CONFLICT, "there was no hello");
    stranger.hello(&caller(), [0; 32]).await.unwrap();
    let (status, _) = stranger.ask("prove", &[0u8; 32]).await.unwrap();
    assert_eq!(status, StatusCode::FORBIDDEN, "that was a guess");
    assert_eq!(forward(&stranger).await, "Declined(\"403 Forbidden\")");
    let again = stranger.hello(&caller(), [0; 32]).await;
    assert!(
        matches!(again, Err(PeerError::Refused(StatusCode::CONFLICT))),
        "one handshake for each connection"
    );
}

#[tokio::test]
async fn a_wrong_peer_is_forwarded_nothing() {
    let (peer, _stop) = server().await;
    let another = Peer { id: [2; 16], ..peer.clone() };
    assert!(matches!(connect(&another, &caller()).await, Err(PeerError::Restarted)));
    let foreign = node(2, 2, "127.0.0.1:2");
    assert!(matches!(connect(&peer, &foreign).await, Err(PeerError::WrongSecret)));
}

/// A process that gets a node to connect cannot pass its messages on to another node: the proof is
/// for the address that the caller meant.
#[tokio::test]
async fn a_hello_for_another_address_is_refused() {
    let (peer, _stop) = server().await;
    let relayed = open(&peer).await;
    let meant = PeerClient { peer: Peer { address: "127.0.0.1:1".to_owned(), ..peer }, ..relayed };
    let refused = meant.hello(&caller(), [0; 32]).await;
    assert!(
        matches!(refused, Err(PeerError::Refused(StatusCode::MISDIRECTED_REQUEST))),
        "{refused:?}"
    );
}

/// No client can name a system table, and no peer may write one for it.
#[tokio::test]
async fn system_tables_are_not_written_for_peers() {
    let (peer, _stop) = server().await;
    let client = connect(&peer, &caller()).await.unwrap();
    for table in [0, 1, 2, 3, 4, 255] {
        let delete = EntityOperation::Delete(RowKey::new("r").unwrap(), Precondition::None);
        let transaction = EntityGroupTransaction::single(PartitionKey::new("p").unwrap(), delete);
        let outcome =
            client.commit("shop", TableId::new(table), &transaction, Timestamp::MIN, TIMEOUT).await;
        assert_eq!(format!("{outcome:?}"), "Declined(\"403 Forbidden\")", "table {table}");
    }
}

/// A server that was stopped finds on its return what its callers have long given up.
#[tokio::test]
async fn what_comes_too_late_is_not_begun() {
    let (peer, _stop) = server().await;
    let mut client = connect(&peer, &caller()).await.unwrap();
    client.clock_ms -= 60_000;
    assert_eq!(forward(&client).await, "Declined(\"it came too late\")");
}

/// One node with a wrong clock would otherwise give its time to the partitions of all others.
#[tokio::test]
async fn a_caller_from_the_future_gets_our_time() {
    let (peer, _stop) = server().await;
    let client = connect(&peer, &caller()).await.unwrap();
    let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
    let (partition_key, new) = NewEntity::new(key, Properties::new(Vec::new()).unwrap()).unwrap();
    let transaction = EntityGroupTransaction::single(partition_key, EntityOperation::Insert(new));
    let late = Timestamp::from_ticks(9_000).unwrap();
    let outcome = client.commit("shop", TableId::new(300), &transaction, late, TIMEOUT).await;
    let ForwardOutcome::Answered(Ok(Ok(outcomes))) = outcome else { panic!("{outcome:?}") };
    assert_eq!(outcomes, [Outcome::Written(Timestamp::from_ticks(1_000).unwrap())]);
}

#[tokio::test]
async fn what_is_no_message_is_not_begun() {
    let (peer, _stop) = server().await;
    let client = connect(&peer, &caller()).await.unwrap();
    assert_eq!(client.ask("commit", &[7u8; 3]).await.unwrap().0, StatusCode::BAD_REQUEST);
    assert_eq!(client.ask("dance", &0u8).await.unwrap().0, StatusCode::NOT_FOUND);
    assert_eq!(
        client.ask("hello", &vec![0u8; 2000]).await.unwrap().0,
        StatusCode::PAYLOAD_TOO_LARGE
    );
}

/// Keys of a node at an address where nothing listens yet, and the folder that holds them.
fn keys(authority: &Authority, address: SocketAddr) -> (PeerKeys, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let issued = authority.issue(address, 30).unwrap();
    std::fs::write(folder.path().join(TRUST_FILE), authority.certificate()).unwrap();
    std::fs::write(folder.path().join(CERTIFICATE_FILE), issued.certificate).unwrap();
    std::fs::write(folder.path().join(KEY_FILE), issued.key.as_bytes()).unwrap();
    (PeerKeys::open(folder.path(), address).unwrap(), folder)
}

/// A node with keys, and a listener at its address.
async fn node_with_keys(authority: &Authority) -> (LocalNode, TcpListener, PeerKeys) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (keys, _folder) = keys(authority, address);
    let transport = Transport::new(Some(keys.clone()), false);
    (LocalNode { transport, ..node(1, 1, &address.to_string()) }, listener, keys)
}

/// A node with a good certificate says that it is another one.
#[tokio::test]
async fn a_caller_is_the_node_of_its_certificate() {
    let authority = Authority::create(30).unwrap();
    let (server, listener, _keys) = node_with_keys(&authority).await;
    let peer = server.peer.clone();
    let _running = serve(server, listener);
    let (caller, _unused, _keys) = node_with_keys(&authority).await;
    let honest = LocalNode { peer: Peer { id: [2; 16], ..caller.peer.clone() }, ..caller };
    let client = connect(&peer, &honest).await.unwrap();
    assert!(forward(&client).await.starts_with("Answered"));
    let liar =
        LocalNode { peer: Peer { id: [2; 16], address: "127.0.0.1:2".to_owned() }, ..honest };
    let refused = connect(&peer, &liar).await;
    assert!(matches!(refused, Err(PeerError::Refused(StatusCode::FORBIDDEN))), "{refused:?}");
}

/// Records what is written, as an attacker on the network would.
struct Recorder {
    stream: TcpStream,
    written: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Recorder {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(ctx, into)
    }
}

impl AsyncWrite for Recorder {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(ctx, bytes))?;
        self.written.lock().unwrap().extend_from_slice(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }
}

/// Everything that a node said in a session in which it had a row written, said again.
#[tokio::test]
async fn recorded_bytes_say_nothing_again() {
    let authority = Authority::create(30).unwrap();
    for is_tls in [true, false] {
        let (server, listener, _keys) = node_with_keys(&authority).await;
        let server = if is_tls { server } else { node(1, 1, &server.peer.address) };
        let peer = server.peer.clone();
        let (counters, _stop) = serve(server, listener);
        let written = Arc::new(Mutex::new(Vec::new()));
        let stream = TcpStream::connect(&peer.address).await.unwrap();
        let recorder = Recorder { stream, written: Arc::clone(&written) };
        let (own, _unused, keys) = node_with_keys(&authority).await;
        let own = LocalNode { peer: Peer { id: [2; 16], ..own.peer.clone() }, ..own };
        let channel = if is_tls {
            tls_over(recorder, &keys, peer.address.parse().unwrap()).await.unwrap()
        } else {
            Channel { stream: Box::new(recorder), binding: [0; 32], certified: None }
        };
        let client = PeerClient::handshake(channel, peer.clone(), &own).await.unwrap();
        assert!(forward(&client).await.starts_with("Answered"));
        drop(client);
        let recorded = written.lock().unwrap().clone();
        let is_readable = recorded.windows(8).any(|bytes| bytes == b"/tavola/");
        assert!(!is_tls || !is_readable, "what was sent can be read on the way");
        let mut again = TcpStream::connect(&peer.address).await.unwrap();
        again.write_all(&recorded).await.unwrap();
        // The server hangs up, at the latest when nothing was proved in time.
        let _broken = tokio::time::timeout(TIMEOUT, again.read_to_end(&mut Vec::new()))
            .await
            .expect("it hangs up");
        assert_eq!(counters.received.load(Ordering::Relaxed), 1, "TLS: {is_tls}");
    }
}
