//! The versions that this process proposes: not below its clock, each above the one before.
//!
//! The guard makes versions of a partition grow, whatever clocks do. It would refuse a clock that
//! is behind again and again, so each refusal moves ours forward, within a bound.

use std::sync::atomic::{AtomicU64, Ordering};

use tavola_core::Timestamp;
use tavola_store::StoreError;
use tavola_store::decision::next_version;

/// In ticks of 100 ns: half a second.
const OFFSET_MAX: u64 = 5_000_000;

#[derive(Debug, Default)]
pub(crate) struct Versions {
    last: AtomicU64,
    offset: AtomicU64,
}

impl Versions {
    /// The next `count` versions, of which the first is returned: not below `now`, above `floor`,
    /// and above all that this process took from its clock before.
    pub(crate) fn propose(
        &self,
        now: Timestamp,
        floor: u64,
        count: usize,
    ) -> Result<Timestamp, StoreError> {
        let offset = self.offset.load(Ordering::Relaxed);
        let now = Timestamp::from_ticks(now.ticks().saturating_add(offset)).unwrap_or(now);
        let more = count.saturating_sub(1);
        loop {
            let last = self.last.load(Ordering::Acquire);
            let of_clock =
                next_version(now, Timestamp::from_ticks(last).unwrap_or(Timestamp::MIN))?;
            // A partition whose versions are ahead, because of another node's clock, must not move
            // those of all others.
            let first = of_clock
                .max(next_version(now, Timestamp::from_ticks(floor).unwrap_or(Timestamp::MIN))?);
            nth(first, more)?;
            // The next caller takes one above ours.
            let taken = nth(of_clock, more)?.ticks();
            assert!(taken > last, "no version is taken twice");
            assert!(
                Timestamp::from_ticks(floor).is_none_or(|floor| first > floor),
                "versions of a partition only grow"
            );
            if self.last.compare_exchange(last, taken, Ordering::AcqRel, Ordering::Acquire).is_ok()
            {
                return Ok(first);
            }
        }
    }

    /// The guard refused a version: the partition has seen `highest` already, while our clock said
    /// `now`.
    pub(crate) fn fell_behind(&self, now: Timestamp, highest: u64) {
        let behind = highest.saturating_add(1).saturating_sub(now.ticks());
        let before = self.offset.fetch_max(behind.min(OFFSET_MAX), Ordering::Relaxed);
        if behind > OFFSET_MAX && before < OFFSET_MAX {
            tracing::warn!(
                behind_ms = behind / 10_000,
                "a partition's last version is far ahead of this machine's clock: synchronise the clocks of the nodes"
            );
        }
    }
}

/// The version so many above the first.
pub(crate) fn nth(first: Timestamp, index: usize) -> Result<Timestamp, StoreError> {
    let ticks = first.ticks().saturating_add(index as u64);
    Timestamp::from_ticks(ticks).ok_or_else(|| StoreError::Unavailable {
        reason: "no version is left".into(),
        source: None,
    })
}

#[cfg(test)]
mod tests {
    use tavola_core::Timestamp;

    use super::{OFFSET_MAX, Versions};

    fn at(ticks: u64) -> Timestamp {
        Timestamp::from_ticks(ticks).unwrap()
    }

    #[test]
    fn versions_rise_and_follow_the_clock() {
        let versions = Versions::default();
        assert_eq!(versions.propose(at(1000), 0, 1).unwrap(), at(1000));
        assert_eq!(versions.propose(at(1000), 0, 1).unwrap(), at(1001));
        assert_eq!(versions.propose(at(500), 0, 1).unwrap(), at(1002));
        assert_eq!(versions.propose(at(500), 2000, 1).unwrap(), at(2001));
        assert_eq!(
            versions.propose(at(500), 0, 1).unwrap(),
            at(1004),
            "another partition does not follow"
        );
        assert_eq!(versions.propose(at(9000), 2000, 10).unwrap(), at(9000));
        assert_eq!(versions.propose(at(9000), 2000, 1).unwrap(), at(9010), "ten were taken");
    }

    #[test]
    fn a_clock_behind_is_moved_within_a_bound() {
        let versions = Versions::default();
        versions.fell_behind(at(1000), 1499);
        assert_eq!(versions.propose(at(2000), 0, 1).unwrap(), at(2500));
        versions.fell_behind(at(1000), 1100);
        assert_eq!(versions.propose(at(3000), 0, 1).unwrap(), at(3500), "it never goes back");
        versions.fell_behind(at(0), u64::MAX - 1);
        assert_eq!(versions.propose(at(5000), 0, 1).unwrap(), at(5000 + OFFSET_MAX));
    }
}
