//! One, two and four nodes: each for itself, and as peers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tavola_peers::{Affinity, ForwardingStore, Settings};
use tavola_store::{SharedStore, Store};

use crate::report::{Goal, print};
use crate::round::Round;
use crate::workloads::{Field, HOT, HOT_WRITERS, now, partition, upsert};

const HEARTBEAT_EVERY: Duration = Duration::from_millis(100);
const FORWARD_TIMEOUT: Duration = Duration::from_secs(30);

/// What nodes do for each other.
const WAYS: [(&str, Option<Affinity>); 3] = [
    ("apart", None),
    ("peers", Some(Affinity::Contended)),
    ("peers, always", Some(Affinity::Always)),
];

pub(crate) async fn scale(field: &Field) -> Result<Vec<Round>, String> {
    let key = partition("hot".to_owned());
    upsert(&*field.stores[0], HOT, &key, "first").await?;
    let (mut spread, mut hot) = (Vec::new(), Vec::new());
    for _ in 0..field.rounds {
        spread.push(field.spread_over(field.apart(1), "1 node", HOT_WRITERS).await?);
        hot.push(field.hot_through(field.apart(1), "1 node", &key).await?);
        for nodes in [2, 4] {
            for (way, affinity) in WAYS {
                let name = format!("{nodes} {way}");
                let Some(affinity) = affinity else {
                    spread.push(field.spread_over(field.apart(nodes), &name, HOT_WRITERS).await?);
                    hot.push(field.hot_through(field.apart(nodes), &name, &key).await?);
                    continue;
                };
                let peers = connect(field, nodes, affinity).await?;
                let stores =
                    || peers.iter().map(|store| Arc::clone(store) as Arc<dyn Store>).collect();
                spread.push(field.spread_over(stores(), &name, HOT_WRITERS).await?);
                hot.push(field.hot_through(stores(), &name, &key).await?);
                for store in &peers {
                    store.close().await;
                }
            }
        }
    }
    print("Upserts spread over partitions, 64 writers, nodes in turns", &spread, &[]);
    let goal = |target| Goal { target, against: "1 node", at_least: 0.8 };
    let goals = ["2 apart", "2 peers", "2 peers, always", "4 apart", "4 peers", "4 peers, always"];
    print("Upserts of one partition, 64 writers", &hot, &goals.map(goal));
    spread.extend(hot);
    Ok(spread)
}

/// Nodes that have found each other.
async fn connect(
    field: &Field,
    nodes: usize,
    affinity: Affinity,
) -> Result<Vec<Arc<ForwardingStore>>, String> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = Settings {
        affinity,
        heartbeat_every: HEARTBEAT_EVERY,
        ..Settings::new(address, FORWARD_TIMEOUT, now)
    };
    let mut peers = Vec::new();
    for store in &field.stores[..nodes] {
        let store = Arc::clone(store) as Arc<dyn SharedStore>;
        let peer =
            ForwardingStore::open(store, &settings).await.map_err(|error| error.to_string())?;
        peers.push(Arc::new(peer));
    }
    while peers.iter().any(|one| one.stats().present + 1 != nodes as u64) {
        tokio::time::sleep(HEARTBEAT_EVERY).await;
    }
    Ok(peers)
}
