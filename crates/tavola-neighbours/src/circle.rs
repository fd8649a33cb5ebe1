//! Who is there: the list in the store, and a link to everybody on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::future::join_all;
use tavola_core::{PartitionKey, TableId};
use tavola_store::{FrontEnd, SharedStore};

use crate::link::Link;
use crate::proof::Secret;
use crate::rendezvous::score;

/// A front end that has not been heard of for so long is off the list.
const LISTED_TIME: Duration = Duration::from_secs(10);

/// The front ends that this one can reach.
#[derive(Debug)]
pub(crate) struct Circle {
    own: FrontEnd,
    secret: Secret,
    links: ArcSwap<Vec<Arc<Link>>>,
}

impl Circle {
    pub(crate) fn new(own: FrontEnd, secret: Secret) -> Self {
        Self { own, secret, links: ArcSwap::default() }
    }

    pub(crate) fn own(&self) -> &FrontEnd {
        &self.own
    }

    /// How many others there are.
    pub(crate) fn present(&self) -> usize {
        self.links.load().iter().filter(|link| link.is_open()).count()
    }

    /// Who should write a partition; `None`: we ourselves.
    pub(crate) fn writer_of(&self, table: TableId, partition_key: &PartitionKey) -> Option<Arc<Link>> {
        let links = self.links.load();
        let score = |id: &[u8; 16]| score(id, table, partition_key);
        let open = links.iter().filter(|link| link.is_open());
        let best = open.max_by_key(|link| score(&link.host().id))?;
        (score(&best.host().id) > score(&self.own.id)).then(|| Arc::clone(best))
    }

    /// Keeps us on the list, and links to all who are on it.
    pub(crate) async fn run(self: Arc<Self>, store: Arc<dyn SharedStore>, look_every: Duration) {
        let mut listed = Vec::new();
        let mut heard = Instant::now();
        loop {
            match store.call_roll(&self.own, LISTED_TIME).await {
                Ok(all) => {
                    listed = all;
                    heard = Instant::now();
                }
                Err(error) => tracing::debug!(%error, "the list of front ends cannot be had"),
            }
            if heard.elapsed() > LISTED_TIME {
                listed.clear();
            }
            self.link_to(&listed).await;
            tokio::time::sleep(look_every).await;
        }
    }

    async fn link_to(&self, listed: &[FrontEnd]) {
        let links = self.links.load_full();
        let mut kept: Vec<Arc<Link>> =
            links.iter().filter(|link| link.is_open() && listed.contains(link.host())).cloned().collect();
        let others = listed.iter().filter(|one| one.id != self.own.id);
        let missing = others.filter(|one| !kept.iter().any(|link| link.host() == *one));
        let met = join_all(missing.map(|one| self.meet(one))).await;
        kept.extend(met.into_iter().flatten());
        self.links.store(Arc::new(kept));
    }

    async fn meet(&self, other: &FrontEnd) -> Option<Arc<Link>> {
        match Link::meet(other.clone(), &self.secret).await {
            Ok(link) => {
                tracing::info!(
                    address = other.address,
                    "writes of shared partitions are exchanged with another front end"
                );
                Some(Arc::new(link))
            }
            // Those that were killed stay on the list for a while.
            Err(error) => {
                tracing::debug!(address = other.address, %error, "another front end is left out");
                None
            }
        }
    }
}
