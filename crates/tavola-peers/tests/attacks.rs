//! Attacks on the connections between nodes. Each has something: a place in the middle, a dead
//! node's port, recorded bytes, another node's keys, keys that were replaced. None may write a row
//! or have a row written through it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::keys::{ClusterKeys, free_address};
use common::{Place, SECRET, until, write};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tavola_core::{TableId, Timestamp};
use tavola_peers::keys::{CERTIFICATE_FILE, KEY_FILE, PeerKeys, TRUST_FILE};
use tavola_peers::{ForwardingStore, OpenError, Settings};
use tavola_store::{Peer, Store as _};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const PARTITIONS: usize = 64;

async fn write_all(store: &ForwardingStore) {
    for partition in 0..PARTITIONS {
        write(store, partition).await.unwrap().unwrap();
    }
}

/// The tries that a node makes to connect are seen where they arrive; a few of them show that it
/// does not get further.
const TRIES: usize = 3;

#[tokio::test]
async fn nodes_with_keys_write_for_each_other() {
    let (place, keys) = (Place::default(), ClusterKeys::new());
    let (one, other) = (place.node_with(&keys).await, place.node_with(&keys).await);
    until(|| one.stats().present == 1 && other.stats().present == 1).await;
    write_all(&one).await;
    assert!(one.stats().sent > 0);
    assert_eq!(one.stats().sent, other.stats().received);
    assert_eq!((one.stats().unanswered, one.stats().declined), (0, 0));
    assert!(one.stats().certificate_seconds_left.unwrap() > 29 * 24 * 3600);
}

/// An attacker in the keyspace's network passes all bytes on to the real node, from an address of
/// its own.
#[tokio::test]
async fn a_relay_is_not_taken_for_the_node_behind_it() {
    let (place, keys) = (Place::default(), ClusterKeys::new());
    let behind = place.node_with(&keys).await;
    until(|| !place.list.lock().unwrap().is_empty()).await;
    let id = place.list.lock().unwrap()[0].id;
    let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = relay.local_addr().unwrap().to_string();
    let target = behind.address().to_owned();
    let relayed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&relayed);
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = relay.accept().await {
            let Ok(mut server) = TcpStream::connect(&target).await else { continue };
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut caller, &mut server).await },
            );
        }
    });
    let misled = place.with_another_list();
    misled.list.lock().unwrap().push(Peer { id, address });
    let one = misled.node_with(&keys).await;
    until(|| relayed.load(Ordering::Relaxed) >= TRIES).await;
    write_all(&one).await;
    assert_eq!((one.stats().present, one.stats().sent, behind.stats().received), (0, 0, 0));
}

/// What a process that took over an address saw of the nodes that connect.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// Bytes that it could read after its handshake.
    bytes: AtomicUsize,
}

/// Listens at the address of a node that is gone, with whatever keys it has.
async fn take_over(address: SocketAddr, config: Option<ServerConfig>) -> Arc<Seen> {
    let listener = TcpListener::bind(address).await.unwrap();
    let acceptor = config.map(|config| TlsAcceptor::from(Arc::new(config)));
    let seen = Arc::new(Seen::default());
    let shared = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (seen, acceptor) = (Arc::clone(&shared), acceptor.clone());
            tokio::spawn(async move {
                let mut byte = [0];
                let read = match acceptor {
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(mut stream) => stream.read(&mut byte).await.unwrap_or(0),
                        Err(_) => 0,
                    },
                    // A process without the key cannot read these bytes; it stays silent.
                    None => {
                        let _kept = stream;
                        seen.connections.fetch_add(1, Ordering::Relaxed);
                        return std::future::pending().await;
                    }
                };
                seen.bytes.fetch_add(read, Ordering::Relaxed);
                seen.connections.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    seen
}

/// A server that shows the certificate in a folder, and takes any client.
fn server_with(folder: &Path) -> ServerConfig {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(folder.join(CERTIFICATE_FILE)).unwrap().collect();
    let key = PrivateKeyDer::from_pem_file(folder.join(KEY_FILE)).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(chain.unwrap(), key).unwrap();
    config.alpn_protocols = vec![b"tavola-peers".to_vec(), b"h2".to_vec()];
    config
}

/// A node dies, stays on the list for a while, and another process listens at its address: without
/// keys, with keys of an authority of its own, with the keys of another node of the cluster.
#[tokio::test]
async fn whoever_takes_over_a_dead_nodes_port_is_sent_nothing() {
    let keys = ClusterKeys::new();
    let (another_node, foreign) = (free_address(), ClusterKeys::new());
    keys.of(another_node);
    for attacker in ["no key", "an authority of its own", "another node's keys"] {
        let place = Place::default();
        let (one, dead) = (place.node_with(&keys).await, place.node_with(&keys).await);
        until(|| one.stats().present == 1).await;
        let address: SocketAddr = dead.address().parse().unwrap();
        drop(dead);
        until(|| one.stats().present == 0 && std::net::TcpListener::bind(address).is_ok()).await;
        let config = match attacker {
            "no key" => None,
            "another node's keys" => Some(server_with(&keys.folder(another_node))),
            _ => {
                foreign.of(address);
                Some(server_with(&foreign.folder(address)))
            }
        };
        let seen = take_over(address, config).await;
        until(|| seen.connections.load(Ordering::Relaxed) >= TRIES).await;
        write_all(&one).await;
        assert_eq!((one.stats().present, one.stats().unanswered), (0, 0), "{attacker}");
        assert_eq!(seen.bytes.load(Ordering::Relaxed), 0, "{attacker} could read what was sent");
    }
}

/// A node of another cluster that knows the secret, as after a keyspace was copied, and one with no
/// keys at all.
#[tokio::test]
async fn nodes_of_another_authority_and_plain_ones_are_refused() {
    let (place, keys, foreign) = (Place::default(), ClusterKeys::new(), ClusterKeys::new());
    let (one, friend) = (place.node_with(&keys).await, place.node_with(&keys).await);
    until(|| one.stats().present == 1 && friend.stats().present == 1).await;
    let stranger = place.node_with(&foreign).await;
    let plain = place.node().await;
    let refused = || (one.stats().refused, stranger.stats().refused);
    // Each of them tries both others, and each of the others tries them.
    until(|| refused().0 > 2 * TRIES as u64 && refused().1 > 0).await;
    for store in [&one, &friend, &stranger, &plain] {
        write_all(store).await;
    }
    assert_eq!((one.stats().present, friend.stats().present), (1, 1));
    for other in [&stranger, &plain] {
        let stats = other.stats();
        assert_eq!((stats.present, stats.sent, stats.received), (0, 0, 0), "{stats:?}");
    }
}

/// Node by node, in two steps, as docs/operations/cassandra.md says; then the old keys open
/// nothing, not even those of a node that belongs to the cluster.
#[tokio::test]
async fn keys_are_rotated_without_a_pause_and_old_ones_are_refused_then() {
    let (place, old, new) = (Place::default(), ClusterKeys::new(), ClusterKeys::new());
    let stores = [place.node_with(&old).await, place.node_with(&old).await];
    let addresses =
        [0, 1].map(|index: usize| stores[index].address().parse::<SocketAddr>().unwrap());
    let stolen_address = free_address();
    let stolen = old.of(stolen_address);
    let works = async |step: &str| {
        let sent = || stores.iter().map(|store| store.stats().sent).sum::<u64>();
        // Connections are made anew with the new keys; what is forwarded meanwhile goes over the
        // old ones, or stays.
        until(|| stores.iter().all(|store| store.stats().present == 1)).await;
        let before = sent();
        for store in &stores {
            write_all(store).await;
        }
        assert!(sent() > before, "{step}: nothing is forwarded any more");
    };
    works("before").await;
    let in_use =
        async |index: usize, times: u64| until(|| stores[index].stats().key_changes >= times).await;
    for (index, address) in addresses.into_iter().enumerate() {
        old.begin_rotation(&new, address);
        in_use(index, 1).await;
        works("first step").await;
    }
    for (index, address) in addresses.into_iter().enumerate() {
        old.finish_rotation(&new, address);
        in_use(index, 2).await;
        works("second step").await;
    }
    assert_eq!(stores.iter().map(|store| store.stats().unanswered).sum::<u64>(), 0);
    let refused = stores[0].stats().refused;
    let thief = place.node_at(stolen_address, Some(stolen), false).await.unwrap();
    until(|| stores[0].stats().refused >= refused + TRIES as u64).await;
    write_all(&thief).await;
    assert_eq!((thief.stats().present, thief.stats().sent), (0, 0));
}

/// Some heartbeats, in which changed files are looked at.
async fn settled() {
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}

/// Half of a copy is not used, and open connections go on meanwhile.
#[tokio::test]
async fn keys_that_do_not_fit_together_are_not_used() {
    let (place, keys) = (Place::default(), ClusterKeys::new());
    let (one, other) = (place.node_with(&keys).await, place.node_with(&keys).await);
    until(|| one.stats().present == 1 && other.stats().present == 1).await;
    let folder = keys.folder(one.address().parse().unwrap());
    let elsewhere = ClusterKeys::new();
    let address = one.address().parse().unwrap();
    elsewhere.of(address);
    std::fs::copy(elsewhere.folder(address).join(KEY_FILE), folder.join(KEY_FILE)).unwrap();
    settled().await;
    write_all(&one).await;
    assert_eq!(one.stats().present, 1);
    std::fs::remove_file(folder.join(TRUST_FILE)).unwrap();
    settled().await;
    write_all(&one).await;
    assert_eq!((one.stats().present, one.stats().unanswered), (1, 0));
}

/// A cluster is switched over node by node: one with keys that still takes plain peers, one
/// without, one with keys alone.
#[tokio::test]
async fn a_cluster_is_switched_over_node_by_node() {
    let (place, keys) = (Place::default(), ClusterKeys::new());
    let plain = place.node().await;
    let own = free_address();
    let between = place.node_at(own, Some(keys.of(own)), true).await.unwrap();
    until(|| plain.stats().present == 1 && between.stats().present == 1).await;
    let strict = place.node_with(&keys).await;
    until(|| between.stats().present == 2 && strict.stats().present == 1).await;
    for store in [&plain, &between, &strict] {
        write_all(store).await;
    }
    assert_eq!(
        (plain.stats().present, strict.stats().present),
        (1, 1),
        "those two do not talk to each other"
    );
    assert!(plain.stats().sent > 0 && strict.stats().sent > 0 && between.stats().sent > 0);
}

#[tokio::test]
async fn beyond_this_machine_nobody_listens_without_keys() {
    let address = SocketAddr::from(([192, 0, 2, 1], 10010));
    let settings = Settings::new(address, std::time::Duration::from_secs(60), || Timestamp::MIN);
    let refused =
        ForwardingStore::open(Place::default().view(SECRET), &settings).await.unwrap_err();
    assert!(matches!(refused, OpenError::Unprotected(_)));
    assert!(
        refused.to_string().contains("`tavola store peer-keys init 192.0.2.1:10010"),
        "{refused}"
    );
    let (keys, own) = (ClusterKeys::new(), free_address());
    keys.of(own);
    let another = PeerKeys::open(&keys.folder(own), address).unwrap_err().to_string();
    assert!(
        another.contains(&format!("is for the node at {own}"))
            && another.contains("peer-keys issue"),
        "{another}"
    );
}

/// No client can name them, so no peer may write them for one.
#[tokio::test]
async fn system_tables_are_written_where_the_request_came() {
    let (one, other) = Place::default().two().await;
    for partition in 0..PARTITIONS {
        let upsert = common::upsert(partition);
        one.commit(TableId::CATALOG, &upsert, Timestamp::MIN).await.unwrap().unwrap();
        other.commit(TableId::SERVICE_PROPERTIES, &upsert, Timestamp::MIN).await.unwrap().unwrap();
    }
    assert_eq!((one.stats().sent, other.stats().sent), (0, 0));
}
