//! One, two and four front ends: each for itself, and as neighbours.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tavola_neighbours::{Affinity, NeighbourlyStore, Settings};
use tavola_store::{SharedStore, Store};

use crate::report::{Goal, print};
use crate::round::Round;
use crate::workloads::{Field, HOT, HOT_WRITERS, now, partition, upsert};

const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);

/// How front ends live with each other.
const WAYS: [(&str, Option<Affinity>); 3] =
    [("apart", None), ("neighbours", Some(Affinity::Contended)), ("neighbours, always", Some(Affinity::Always))];

pub(crate) async fn scale(field: &Field) -> Result<Vec<Round>, String> {
    let key = partition("hot".to_owned());
    upsert(&*field.stores[0], HOT, &key, "first").await?;
    let (mut spread, mut hot) = (Vec::new(), Vec::new());
    for _ in 0..field.rounds {
        spread.push(field.spread_over(field.apart(1), "1 front end", HOT_WRITERS).await?);
        hot.push(field.hot_through(field.apart(1), "1 front end", &key).await?);
        for front_ends in [2, 4] {
            for (way, affinity) in WAYS {
                let name = format!("{front_ends} {way}");
                let Some(affinity) = affinity else {
                    spread.push(field.spread_over(field.apart(front_ends), &name, HOT_WRITERS).await?);
                    hot.push(field.hot_through(field.apart(front_ends), &name, &key).await?);
                    continue;
                };
                let neighbours = meet(field, front_ends, affinity).await?;
                let stores = || neighbours.iter().map(|store| Arc::clone(store) as Arc<dyn Store>).collect();
                spread.push(field.spread_over(stores(), &name, HOT_WRITERS).await?);
                hot.push(field.hot_through(stores(), &name, &key).await?);
                for store in &neighbours {
                    store.close().await;
                }
            }
        }
    }
    print("Upserts spread over partitions, 64 writers, front ends in turns", &spread, &[]);
    let goal = |contestant| Goal { contestant, against: "1 front end", at_least: 0.8 };
    let goals = ["2 apart", "2 neighbours", "2 neighbours, always", "4 apart", "4 neighbours", "4 neighbours, always"];
    print("Upserts of one partition, 64 writers", &hot, &goals.map(goal));
    spread.extend(hot);
    Ok(spread)
}

/// Front ends that have found each other.
async fn meet(field: &Field, front_ends: usize, affinity: Affinity) -> Result<Vec<Arc<NeighbourlyStore>>, String> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = Settings { affinity, look_every: LOOK_EVERY, ..Settings::new(address, PATIENCE, now) };
    let mut neighbours = Vec::new();
    for store in &field.stores[..front_ends] {
        let store = Arc::clone(store) as Arc<dyn SharedStore>;
        let neighbour = NeighbourlyStore::open(store, &settings).await.map_err(|error| error.to_string())?;
        neighbours.push(Arc::new(neighbour));
    }
    while neighbours.iter().any(|one| one.stats().present + 1 != front_ends as u64) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(neighbours)
}
