//! When an attempt may be repeated, and how long to wait before. Pure: the clock is an argument.

use std::collections::HashMap;
use std::time::Duration;

/// How often a call is attempted, and how long it waits in between.
///
/// ```
/// use std::time::Duration;
/// use tavola_client::Retry;
///
/// let patient = Retry::default().attempts(8).total(Duration::from_secs(120));
/// let never = Retry::none();
/// # let _ = (patient, never);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    pub(crate) attempts: u32,
    pub(crate) first_delay: Duration,
    pub(crate) delay_max: Duration,
    pub(crate) total: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_delay: Duration::from_millis(200),
            delay_max: Duration::from_secs(30),
            total: Duration::from_secs(60),
        }
    }
}

impl Retry {
    /// One attempt.
    #[must_use]
    pub fn none() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// So many attempts, the first included.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    /// The longest first pause; each one after it may be twice as long.
    #[must_use]
    pub fn first_delay(self, first_delay: Duration) -> Self {
        Self { first_delay, ..self }
    }

    /// The longest pause.
    #[must_use]
    pub fn delay_max(self, delay_max: Duration) -> Self {
        Self { delay_max, ..self }
    }

    /// No attempt begins after this time.
    #[must_use]
    pub fn total(self, total: Duration) -> Self {
        Self { total, ..self }
    }

    /// The pause before attempt `attempt + 1`, with full jitter: anything up to twice the last.
    pub(crate) fn delay(&self, attempt: u32, random: u64) -> Duration {
        let doubled = self.first_delay.saturating_mul(1 << attempt.saturating_sub(1).min(20));
        let most = doubled.min(self.delay_max);
        // 53 random bits, as many as a double holds.
        most.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// A fifth of the recent calls may be repeated, and ten a second in any case: a service that is
/// down is not asked several times as much as one that is up.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    reserve: f64,
    earned: f64,
    at: Duration,
}

const RESERVE_PER_SECOND: f64 = 10.0;
const EARNED_PER_CALL: f64 = 0.2;
/// How fast calls are forgotten.
const RECENT_SECONDS: f64 = 10.0;

impl RetryBudget {
    pub(crate) fn new() -> Self {
        Self { reserve: RESERVE_PER_SECOND, earned: 0.0, at: Duration::ZERO }
    }

    pub(crate) fn on_call(&mut self, now: Duration) {
        self.pass(now);
        self.earned += EARNED_PER_CALL;
    }

    /// Takes one repetition, if there is one.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        self.pass(now);
        for bucket in [&mut self.earned, &mut self.reserve] {
            if *bucket >= 1.0 {
                *bucket -= 1.0;
                return true;
            }
        }
        false
    }

    fn pass(&mut self, now: Duration) {
        let seconds = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.reserve = (self.reserve + seconds * RESERVE_PER_SECOND).min(RESERVE_PER_SECOND);
        self.earned *= (-seconds / RECENT_SECONDS).exp();
    }
}

/// Partitions that the service asked to leave alone for a while.
#[derive(Debug, Default)]
pub(crate) struct Throttles {
    until: HashMap<(String, String), Duration>,
    /// When partitions were throttled, the last few.
    recent: Vec<((String, String), Duration)>,
    account: Duration,
}

/// So many partitions are remembered.
const PARTITIONS_MAX: usize = 1024;
/// So many throttled partitions within so much time: it is the account.
const ACCOUNT_PARTITIONS: usize = 3;
const ACCOUNT_WINDOW: Duration = Duration::from_secs(1);

impl Throttles {
    /// How long a request to this partition must wait.
    pub(crate) fn wait(&self, place: Option<&(String, String)>, now: Duration) -> Duration {
        let partition = place.and_then(|place| self.until.get(place)).copied().unwrap_or_default();
        partition.max(self.account).saturating_sub(now)
    }

    /// The service refused a request for lack of capacity.
    pub(crate) fn on_throttled(
        &mut self,
        place: Option<(String, String)>,
        now: Duration,
        delay: Duration,
    ) {
        let Some(place) = place else {
            self.account = self.account.max(now + delay);
            return;
        };
        self.recent
            .retain(|(known, at)| now.saturating_sub(*at) < ACCOUNT_WINDOW && *known != place);
        self.recent.push((place.clone(), now));
        if self.recent.len() >= ACCOUNT_PARTITIONS {
            self.account = self.account.max(now + delay);
            self.recent.clear();
        }
        if self.until.len() >= PARTITIONS_MAX && !self.until.contains_key(&place) {
            self.forget(now);
        }
        self.until.insert(place, now + delay);
    }

    /// Makes room: what is over goes, or else what is over first.
    fn forget(&mut self, now: Duration) {
        self.until.retain(|_, until| *until > now);
        if self.until.len() < PARTITIONS_MAX {
            return;
        }
        let first = self.until.iter().min_by_key(|(_, until)| **until);
        if let Some(place) = first.map(|(place, _)| place.clone()) {
            self.until.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// G91.
    #[test]
    fn pauses_double_up_to_a_limit() {
        let retry = Retry::default();
        let longest = |attempt| retry.delay(attempt, u64::MAX);
        for (attempt, expected) in [(1, 0.2), (2, 0.4), (3, 0.8), (8, 25.6), (9, 30.0), (40, 30.0)]
        {
            let difference = longest(attempt).as_secs_f64() - expected;
            assert!(difference.abs() < 1e-6, "{attempt}: {:?}", longest(attempt));
        }
        assert_eq!(retry.delay(5, 0), Duration::ZERO);
    }

    #[test]
    fn the_budget_is_a_fifth_and_ten_a_second() {
        let mut budget = RetryBudget::new();
        let taken =
            |budget: &mut RetryBudget, now| (0..1000).take_while(|_| budget.take(now)).count();
        assert_eq!(taken(&mut budget, seconds(1.0)), 10);
        assert_eq!(taken(&mut budget, seconds(1.0)), 0);
        assert_eq!(taken(&mut budget, seconds(1.5)), 5);
        for _ in 0..101 {
            budget.on_call(seconds(1.5));
        }
        assert_eq!(taken(&mut budget, seconds(1.5)), 20);
    }

    fn place(name: usize) -> (String, String) {
        ("t".to_owned(), name.to_string())
    }

    /// G170.
    #[test]
    fn three_partitions_within_a_second_are_the_account() {
        let mut throttles = Throttles::default();
        let two = seconds(2.0);
        throttles.on_throttled(Some(place(1)), seconds(10.0), two);
        throttles.on_throttled(Some(place(1)), seconds(10.1), two);
        throttles.on_throttled(Some(place(2)), seconds(10.2), two);
        assert_eq!(throttles.wait(Some(&place(1)), seconds(11.1)), seconds(1.0));
        assert_eq!(throttles.wait(Some(&place(3)), seconds(10.2)), Duration::ZERO);
        throttles.on_throttled(Some(place(4)), seconds(10.4), two);
        assert_eq!(throttles.wait(Some(&place(3)), seconds(10.4)), two);
        assert_eq!(throttles.wait(None, seconds(12.4)), Duration::ZERO);
    }

    /// G170.
    #[test]
    fn partitions_are_bounded() {
        let mut throttles = Throttles::default();
        for name in 0..5000 {
            throttles.on_throttled(Some(place(name)), seconds(name as f64), seconds(9000.0));
        }
        assert_eq!(throttles.until.len(), PARTITIONS_MAX);
        assert!(throttles.wait(Some(&place(4999)), seconds(5000.0)) > Duration::ZERO);
        assert_eq!(throttles.wait(Some(&place(0)), seconds(5000.0)), Duration::ZERO);
    }
}
