//! Finds out what became of a write whose outcome is unknown.
//!
//! To read is not enough: the coordinator may still be trying after we gave up, and apply the write
//! after the read. The fence is the guard alone, at the versions of the write, so that the cluster
//! applies at most one of the two. After the fence a read shows which it was.

use std::time::{Duration, Instant};

use tavola_core::EntityView;
use uuid::Uuid;

use super::Writer;
use super::attempt::Attempt;
use crate::cluster::Partition;
use crate::error::Failure;
use crate::hints::Hint;
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};
use crate::register::Register;
use crate::registration::Registration;
use crate::reply::{self, Reply};
use crate::stats::{Kind, count};

/// Between tries while the cluster does not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// It was applied.
    Applied,
    /// It was not, and cannot be any more.
    NotApplied,
    /// It cannot be known: another write replaced its rows, or the cluster does not answer.
    Unknown,
}

impl Writer {
    /// Finds out what became of `attempt`, as long as there is time.
    pub(crate) async fn resolve(
        &self,
        partition: &Partition,
        attempt: &Attempt,
        deadline: Instant,
    ) -> Resolution {
        #[cfg(feature = "mutants")]
        if mutants::is(Mutant::TimeoutMeansNo) {
            return Resolution::NotApplied;
        }
        // One id for all tries: whichever of them is applied, it was the fence.
        let fence = Uuid::new_v4();
        assert_ne!(fence, attempt.id, "the register tells a fence from its write");
        loop {
            match self.try_resolve(partition, attempt, fence).await {
                Ok(resolution) => return resolution,
                Err(reason) => tracing::debug!(reason, "still unknown"),
            }
            if Instant::now() + PAUSE >= deadline {
                return Resolution::Unknown;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_resolve(
        &self,
        partition: &Partition,
        attempt: &Attempt,
        fence: Uuid,
    ) -> Result<Resolution, String> {
        if self.write_fence(partition, attempt, fence).await? {
            let registration = attempt.registration.after_write();
            self.hints.set(partition, Hint { registration, version: attempt.last.ticks() });
            return Ok(Resolution::NotApplied);
        }
        let register = self.cluster.register(partition).await?;
        self.hints.set(
            partition,
            Hint {
                registration: Registration::of(register.generation),
                version: register.version.unwrap_or_default(),
            },
        );
        match resolution(attempt, register) {
            Some(resolution) => Ok(resolution),
            // Another write came after it. Its rows show it, unless that write replaced them.
            None => self.find_rows(partition, attempt).await,
        }
    }

    /// True if the fence is stored; false if the cluster refused its guard.
    async fn write_fence(
        &self,
        partition: &Partition,
        attempt: &Attempt,
        fence: Uuid,
    ) -> Result<bool, String> {
        #[cfg(feature = "mutants")]
        if mutants::is(Mutant::NoFence) {
            return Ok(false);
        }
        count(&self.cluster.counters.fences, 1);
        let (guard, values) = attempt.guard(&self.cluster, partition, fence);
        let result = self
            .cluster
            .execute(Kind::Fence, guard, values)
            .await
            .map_err(|error| error.to_string())?;
        match reply::read(result).map_err(Failure::text)? {
            Reply::Applied => Ok(true),
            Reply::Refused(_) => Ok(false),
        }
    }

    /// Looks for a row exactly as the attempt wrote it.
    async fn find_rows(
        &self,
        partition: &Partition,
        attempt: &Attempt,
    ) -> Result<Resolution, String> {
        let keys: Vec<Vec<u8>> = attempt.writes().map(|(_, write)| write.row.clone()).collect();
        // A row whose bytes cannot be read is not the one that was written.
        let rows = self.cluster.rows("", partition, &keys).await?.rows;
        let found = attempt.writes().any(|(version, write)| {
            match (&write.document, rows.get(&write.row)) {
                (Some(document), Some(row)) => {
                    row.timestamp() == version && row.value() == document
                }
                _ => false,
            }
        });
        Ok(if found { Resolution::Applied } else { Resolution::Unknown })
    }
}

/// What the register alone shows, once the fence was refused and the write can no longer be
/// applied.
fn resolution(attempt: &Attempt, register: Register) -> Option<Resolution> {
    let version = attempt.last.ticks();
    match register.version {
        // The write would have left at least its own last version.
        None => Some(Resolution::NotApplied),
        Some(highest) if highest < version => Some(Resolution::NotApplied),
        // Of two writes at one version the guard admitted only one, and that one left its id.
        Some(highest) if highest == version && register.writer == Some(attempt.id) => {
            Some(Resolution::Applied)
        }
        Some(highest) if highest == version => Some(Resolution::NotApplied),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::Timestamp;
    use uuid::Uuid;

    use super::{Attempt, Register, Resolution, resolution};
    use crate::registration::Registration;

    #[test]
    fn what_the_register_shows() {
        let (ours, theirs) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let version = Timestamp::from_ticks(50).unwrap();
        let first = Timestamp::from_ticks(45).unwrap();
        let registration = Registration::Active(1);
        let attempt = Attempt { registration, first, last: version, id: ours, members: Vec::new() };
        for (highest, writer, expected) in [
            (None, None, Some(Resolution::NotApplied)),
            (Some(49), Some(theirs), Some(Resolution::NotApplied)),
            (Some(50), Some(ours), Some(Resolution::Applied)),
            (Some(50), Some(theirs), Some(Resolution::NotApplied)),
            (Some(51), Some(theirs), None),
        ] {
            let register =
                Register { generation: Some(1), version: highest, writer, has_rows: true };
            assert_eq!(resolution(&attempt, register), expected, "{highest:?} {writer:?}");
        }
    }
}
