//! Whether the cluster can serve. A task asks in the background, so that a probe does not wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::cluster::{Cluster, Partition};

const INTERVAL: Duration = Duration::from_secs(1);
/// An answer that is older says nothing.
const STALE: Duration = Duration::from_secs(10);

/// The last answer of the cluster.
#[derive(Debug)]
pub(crate) struct Health {
    last: ArcSwap<Probe>,
}

#[derive(Debug)]
struct Probe {
    at: Instant,
    result: Result<(), String>,
}

impl Default for Health {
    fn default() -> Self {
        Self { last: ArcSwap::from_pointee(Probe { at: Instant::now(), result: Ok(()) }) }
    }
}

impl Health {
    /// Asks until it is cancelled.
    pub(crate) async fn run(self: Arc<Self>, cluster: Arc<Cluster>) {
        loop {
            // A linearizable read takes the first half of what a conditional write takes, from the
            // same replicas.
            let result = cluster.register(&probe()).await.map(drop);
            self.last.store(Arc::new(Probe { at: Instant::now(), result }));
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Whether reads and writes are served.
    pub(crate) fn state(&self, cluster: &Cluster) -> Result<(), String> {
        cluster.check_all_ranges()?;
        let last = self.last.load();
        if last.at.elapsed() > STALE {
            return Err("the cluster has not answered for ten seconds".to_owned());
        }
        last.result.clone().map_err(|reason| format!("the cluster does not answer: {reason}"))
    }
}

/// A partition that no client writes: table 0 is the store's own.
fn probe() -> Partition {
    Partition { table: 0, key: (*b"probe").into() }
}
