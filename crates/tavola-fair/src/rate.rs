//! Budgets: how much may be spent in a second. One rule, for tenants and for keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What can be saved up while nothing is asked.
const BURST: Duration = Duration::from_secs(1);

/// How much may be spent in a second, or as much as anybody likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    per_second: u64,
}

impl Rate {
    /// Without bound.
    pub const UNBOUNDED: Self = Self { per_second: 0 };

    /// So much in a second; 0 means no bound.
    #[must_use]
    pub const fn per_second(per_second: u64) -> Self {
        Self { per_second }
    }

    /// True if there is something to count.
    #[must_use]
    pub const fn is_bounded(self) -> bool {
        self.per_second > 0
    }

    /// True if `amount` may be taken now from a budget that is paid until then. A second can be
    /// saved up; a budget that owes nothing gives more than that at once and is closed until it is
    /// paid, so what is larger than the rate is slow, not impossible.
    pub(crate) fn admits(self, amount: u64, paid: PaidUntil, now: Duration) -> bool {
        let saved = nanoseconds(BURST).saturating_sub(self.cost(amount));
        !self.is_bounded() || paid.0 <= nanoseconds(now).saturating_add(saved)
    }

    /// Until when what was taken is paid for, with `amount` more taken now.
    pub(crate) fn charged(self, amount: u64, paid: PaidUntil, now: Duration) -> PaidUntil {
        PaidUntil(paid.0.max(nanoseconds(now)).saturating_add(self.cost(amount)))
    }

    /// The time that pays for it.
    fn cost(self, amount: u64) -> u64 {
        let second = u128::from(nanoseconds(Duration::from_secs(1)));
        let cost = (u128::from(amount) * second)
            .checked_div(u128::from(self.per_second))
            .unwrap_or_default();
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

/// All that a budget remembers: the time until which what was taken is paid for, in nanoseconds of
/// the same clock as every `now`. Once it has passed it says nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct PaidUntil(u64);

/// One budget that many may spend from at once. Time is an argument: the time since some moment
/// before the bucket was made, which never goes back.
#[derive(Debug)]
pub struct Bucket {
    rate: Rate,
    /// The number in a `PaidUntil`.
    paid_until: AtomicU64,
}

impl Bucket {
    /// A budget of which nothing is spent.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, paid_until: AtomicU64::new(0) }
    }

    /// Takes `amount` if there is that much; says whether it did.
    pub fn take(&self, amount: u64, now: Duration) -> bool {
        let open = self.is_open(amount, now);
        if open {
            self.charge(amount, now);
        }
        open
    }

    /// True if `amount` could be taken now.
    #[must_use]
    pub fn is_open(&self, amount: u64, now: Duration) -> bool {
        self.rate.admits(amount, PaidUntil(self.paid_until.load(Ordering::Relaxed)), now)
    }

    /// `amount` was spent, whether or not there was that much: later requests pay for it.
    pub fn charge(&self, amount: u64, now: Duration) {
        let _always_updates =
            self.paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_until| {
                Some(self.rate.charged(amount, PaidUntil(paid_until), now).0)
            });
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bucket, Rate};

    #[test]
    fn a_rate_with_a_burst() {
        let bucket = Bucket::new(Rate::per_second(10));
        let taken = |at: Duration| (0..100).filter(|_| bucket.take(1, at)).count();
        assert_eq!(taken(Duration::ZERO), 10);
        assert_eq!(taken(Duration::from_millis(500)), 5);
        assert_eq!(taken(Duration::from_secs(60)), 10);
    }

    #[test]
    fn what_is_larger_than_the_rate_is_slow_not_impossible() {
        let bucket = Bucket::new(Rate::per_second(10));
        assert!(bucket.take(100, Duration::ZERO));
        assert!(!bucket.take(1, Duration::from_secs(9)));
        assert!(bucket.take(1, Duration::from_millis(9_100)));
    }

    #[test]
    fn without_a_bound_everything_may_be_taken() {
        let bucket = Bucket::new(Rate::UNBOUNDED);
        assert!((0..1000).all(|_| bucket.take(u64::MAX, Duration::ZERO)));
    }
}
