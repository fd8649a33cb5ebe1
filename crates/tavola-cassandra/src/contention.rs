//! Partitions that another node writes too, so that its writes were in the way of ours. A node with
//! peers forwards writes of such partitions; without this knowledge they are only slower.

use std::time::{Duration, Instant};

use tavola_store::BoundedCache;

use crate::cluster::Partition;
use crate::hints::PARTITIONS_MAX;

/// For so long after two nodes conflicted on a partition they are expected to conflict again.
const CONTENDED_TIME: Duration = Duration::from_secs(10);

/// When another node's write to a partition was last in the way of ours.
#[derive(Debug)]
pub(crate) struct Contention {
    last_conflict: BoundedCache<Partition, Instant>,
}

impl Default for Contention {
    fn default() -> Self {
        Self { last_conflict: BoundedCache::new(PARTITIONS_MAX) }
    }
}

impl Contention {
    pub(crate) fn note_conflict(&self, partition: &Partition) {
        self.last_conflict.insert(partition.clone(), Instant::now());
    }

    pub(crate) fn is_recent(&self, partition: &Partition) -> bool {
        self.last_conflict.get(partition).is_some_and(|at| at.elapsed() < CONTENDED_TIME)
    }
}
