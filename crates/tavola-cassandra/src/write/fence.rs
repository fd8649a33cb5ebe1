//! Finding out what became of a write whose outcome was not told.
//!
//! Reading is not enough: when we gave up, the coordinator may still be trying, and the write may
//! land after the read. The fence makes sure that it cannot: it is the guard alone, at the versions
//! of the write, so only one of the two can ever be applied. After that a read tells which it was.

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
    /// Nobody can tell: somebody wrote after it and over it, or the cluster does not answer.
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
        assert_ne!(fence, attempt.id, "a fence is told from the write that it fences off");
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
        if self.put_up_fence(partition, attempt, fence).await? {
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
            // Others wrote after it. Its rows tell, unless they were overwritten too.
            None => self.look_for_rows(partition, attempt).await,
        }
    }

    /// True if the fence stands; false if the guard refused it.
    async fn put_up_fence(
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

    async fn look_for_rows(
        &self,
        partition: &Partition,
        attempt: &Attempt,
    ) -> Result<Resolution, String> {
        let keys: Vec<Vec<u8>> =
            attempt.planned().map(|(_, planned)| planned.row.clone()).collect();
        // A row whose bytes cannot be read is not the one that was written.
        let rows = self.cluster.rows("", partition, &keys).await?.rows;
        let found = attempt.planned().any(|(version, planned)| {
            match (&planned.document, rows.get(&planned.row)) {
                (Some(document), Some(row)) => {
                    row.timestamp() == version && row.value() == document
                }
                _ => false,
            }
        });
        Ok(if found { Resolution::Applied } else { Resolution::Unknown })
    }
}

/// What the register alone tells, once the fence has been refused and the write can no longer land.
fn resolution(attempt: &Attempt, register: Register) -> Option<Resolution> {
    let version = attempt.last.ticks();
    match register.version {
        // It would have left at least its own last version.
        None => Some(Resolution::NotApplied),
        Some(standing) if standing < version => Some(Resolution::NotApplied),
        // Of two writes at one version only one can have passed the guard, and it left its id.
        Some(standing) if standing == version && register.writer == Some(attempt.id) => {
            Some(Resolution::Applied)
        }
        Some(standing) if standing == version => Some(Resolution::NotApplied),
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
    fn what_the_register_tells() {
        let (ours, theirs) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let version = Timestamp::from_ticks(50).unwrap();
        let first = Timestamp::from_ticks(45).unwrap();
        let registration = Registration::Active(1);
        let attempt = Attempt { registration, first, last: version, id: ours, members: Vec::new() };
        for (standing, writer, expected) in [
            (None, None, Some(Resolution::NotApplied)),
            (Some(49), Some(theirs), Some(Resolution::NotApplied)),
            (Some(50), Some(ours), Some(Resolution::Applied)),
            (Some(50), Some(theirs), Some(Resolution::NotApplied)),
            (Some(51), Some(theirs), None),
        ] {
            let register =
                Register { generation: Some(1), version: standing, writer, has_rows: true };
            assert_eq!(resolution(&attempt, register), expected, "{standing:?} {writer:?}");
        }
    }
}
