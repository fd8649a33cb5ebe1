//! Budgets: how much an account may ask for in a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tavola_protocol::rejection::Budget;
use tokio::time::Instant;

/// What can be saved up while nothing is asked.
const BURST: Duration = Duration::from_secs(1);

/// What an account may spend per second; 0 means no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Requests.
    pub requests: u64,
    /// Bytes of request bodies.
    pub ingress_bytes: u64,
    /// Bytes of answers.
    pub egress_bytes: u64,
}

/// The budgets of one account.
#[derive(Debug)]
pub struct Budgets {
    rates: Rates,
    requests: Bucket,
    ingress: Bucket,
    egress: Bucket,
}

impl Budgets {
    /// Budgets of which nothing is spent.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        let [requests, ingress, egress] =
            [rates.requests, rates.ingress_bytes, rates.egress_bytes].map(|rate| Bucket::new(rate, Instant::now()));
        Self { rates, requests, ingress, egress }
    }

    /// What they were made from.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// Takes one request with a body of this size, unless a budget is overdrawn.
    pub(crate) fn take_request(&self, body_bytes: u64) -> Result<(), Budget> {
        let now = Instant::now();
        if !self.egress.is_open(1, now) {
            return Err(Budget::Egress);
        }
        if !self.requests.take(1, now) {
            return Err(Budget::Requests);
        }
        if self.ingress.take(body_bytes, now) { Ok(()) } else { Err(Budget::Ingress) }
    }

    /// An answer was sent: later requests pay for it.
    pub(crate) fn charge_answer(&self, bytes: u64) {
        self.egress.charge(bytes, Instant::now());
    }
}

/// One budget: the time until which what was taken is paid for. A second can be saved up; who has nothing to pay may
/// take more than that at once and then waits until it is paid, so a body larger than the rate is slow, not impossible.
#[derive(Debug)]
struct Bucket {
    per_second: u64,
    since: Instant,
    /// Nanoseconds after `since`.
    paid_until: AtomicU64,
}

impl Bucket {
    fn new(per_second: u64, since: Instant) -> Self {
        Self { per_second, since, paid_until: AtomicU64::new(0) }
    }

    fn take(&self, amount: u64, now: Instant) -> bool {
        let open = self.is_open(amount, now);
        if open {
            self.charge(amount, now);
        }
        open
    }

    fn is_open(&self, amount: u64, now: Instant) -> bool {
        let saved = nanoseconds(BURST).saturating_sub(self.cost(amount));
        self.per_second == 0 || self.paid_until.load(Ordering::Relaxed) <= self.nanoseconds(now) + saved
    }

    fn charge(&self, amount: u64, now: Instant) {
        let (now, cost) = (self.nanoseconds(now), self.cost(amount));
        let _always_updates = self.paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_until| {
            Some(paid_until.max(now).saturating_add(cost))
        });
    }

    /// The time that pays for it.
    fn cost(&self, amount: u64) -> u64 {
        let second = u128::from(nanoseconds(Duration::from_secs(1)));
        let cost = (u128::from(amount) * second).checked_div(u128::from(self.per_second)).unwrap_or_default();
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.since))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tavola_protocol::rejection::Budget;
    use tokio::time::Instant;

    use super::{Bucket, Budgets, Rates};

    #[test]
    fn a_rate_with_a_burst() {
        let start = Instant::now();
        let bucket = Bucket::new(10, start);
        let taken = |at: Duration| (0..100).filter(|_| bucket.take(1, start + at)).count();
        assert_eq!(taken(Duration::ZERO), 10);
        assert_eq!(taken(Duration::from_millis(500)), 5);
        assert_eq!(taken(Duration::from_secs(60)), 10);
    }

    #[test]
    fn what_is_larger_than_the_rate_is_slow_not_impossible() {
        let start = Instant::now();
        let bucket = Bucket::new(10, start);
        assert!(bucket.take(100, start));
        assert!(!bucket.take(1, start + Duration::from_secs(9)));
        assert!(bucket.take(1, start + Duration::from_millis(9_100)));
    }

    #[test]
    fn each_budget_says_which() {
        let budgets = Budgets::new(Rates { requests: 1, ingress_bytes: 0, egress_bytes: 0 });
        assert_eq!(budgets.take_request(1 << 40), Ok(()));
        assert_eq!(budgets.take_request(0), Err(Budget::Requests));
        let budgets = Budgets::new(Rates { requests: 0, ingress_bytes: 1, egress_bytes: 1 });
        assert_eq!(budgets.take_request(1 << 20), Ok(()));
        assert_eq!(budgets.take_request(0), Err(Budget::Ingress));
        budgets.charge_answer(1 << 20);
        assert_eq!(budgets.take_request(0), Err(Budget::Egress));
        let open = Budgets::new(Rates::default());
        assert!((0..1000).all(|_| open.take_request(u64::MAX).is_ok()));
    }
}
