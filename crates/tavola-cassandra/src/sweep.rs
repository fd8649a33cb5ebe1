//! Removes empty partitions from the directory, so that scans need not read them for ever.
//!
//! Scans report the partitions that they found empty. After a while such a partition is retired: a
//! conditional write marks its register, which succeeds only if nothing was written since it was
//! seen empty, and only then its entry of the directory is deleted. A later write finds it retired
//! and enters it anew, as another generation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::cluster::Partition;
use crate::error::Failure;
use crate::hints::Hint;
use crate::registration::{FIRST_GENERATION, Registration};
use crate::reply::{self, Reply};
use crate::stats::{Kind, count};
use crate::write::Writer;

/// Partitions that wait to be retired; later scans find those beyond it.
const FOUND_MAX: usize = 10_000;
const INTERVAL: Duration = Duration::from_secs(1);

/// Which partitions scans found empty, and since when.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    found: Mutex<HashMap<Partition, Instant>>,
}

impl Sweeper {
    pub(crate) fn found_empty(&self, partition: Partition) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < FOUND_MAX {
            found.entry(partition).or_insert_with(Instant::now);
        }
    }

    /// Takes those that were found long enough ago.
    fn take_due(&self, after: Duration) -> Vec<Partition> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let due = |since: &Instant| since.elapsed() >= after;
        let partitions = found
            .iter()
            .filter(|(_, since)| due(since))
            .map(|(partition, _)| partition.clone())
            .collect();
        found.retain(|_, since| !due(since));
        partitions
    }

    /// Works until it is cancelled.
    pub(crate) async fn run(self: Arc<Self>, writer: Arc<Writer>, after: Duration) {
        loop {
            tokio::time::sleep(INTERVAL.min(after)).await;
            for partition in self.take_due(after) {
                if let Err(reason) = writer.retire(&partition).await {
                    tracing::debug!(
                        ?partition,
                        reason,
                        "could not retire an empty partition; a later scan finds it again"
                    );
                }
            }
        }
    }
}

impl Writer {
    /// Retires a partition if it is still empty, and takes it out of the directory if it is
    /// retired.
    async fn retire(&self, partition: &Partition) -> Result<(), String> {
        let register = self.cluster.register(partition).await?;
        if register.has_rows {
            return Ok(());
        }
        let generation = match (Registration::of(register.generation), register.writer) {
            (Registration::Active(generation), Some(writer)) => {
                let values = (
                    generation.saturating_neg(),
                    partition.table,
                    &partition.key[..],
                    generation,
                    writer,
                );
                let result = self
                    .cluster
                    .execute(Kind::Retire, &self.cluster.statements.retire, values)
                    .await;
                self.is_retired(result)?.then_some(generation)
            }
            // A node entered it into the directory and has not written yet, or never will: its
            // first write must fail.
            (Registration::New, _) => {
                let version = self
                    .versions
                    .propose(tavola_core::Timestamp::MIN, 0, 1)
                    .map_err(|error| error.to_string())?;
                let retired = FIRST_GENERATION.saturating_neg();
                let (version, id) = (version.ticks().cast_signed(), Uuid::new_v4());
                let values = (retired, version, id, partition.table, &partition.key[..]);
                let result = self
                    .cluster
                    .execute(Kind::Retire, &self.cluster.statements.guard_new, values)
                    .await;
                self.is_retired(result)?.then_some(FIRST_GENERATION)
            }
            (Registration::Retired(generation), _) => Some(generation),
            (Registration::Active(_), None) => None,
        };
        let Some(generation) = generation else { return Ok(()) };
        self.cluster.leave(partition, self.slots, generation).await?;
        let version = register.version.unwrap_or_default();
        self.hints
            .set(partition, Hint { registration: Registration::Retired(generation), version });
        count(&self.cluster.counters.retirements, 1);
        Ok(())
    }

    /// True if it is retired. One whose outcome is unknown is left for the next scan: nothing was
    /// deleted.
    fn is_retired(
        &self,
        result: Result<scylla::response::query_result::QueryResult, scylla::errors::ExecutionError>,
    ) -> Result<bool, String> {
        let result = result.map_err(|error| error.to_string())?;
        Ok(matches!(reply::read(result).map_err(Failure::text)?, Reply::Applied))
    }
}
