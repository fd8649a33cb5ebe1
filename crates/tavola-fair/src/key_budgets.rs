//! The budgets of keys: how much of each may be spent in a second, such as entities of a partition.
//!
//! The number of keys has no bound, and the memory here has: a key that owes nothing says nothing
//! and needs no place. At 2,000 in a second one is paid for after half a millisecond, so few keys
//! owe something at a time. Where more of them meet than there are places, the one that owes least
//! is forgotten: a budget can then be too generous for a moment, never too strict, and not for the
//! keys of which most is spent.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::rate::{PaidUntil, Rate};

/// Threads meet at a lock only for keys of the same set.
const SETS: usize = 1024;
/// Keys that can owe something in one set.
const SET_KEYS: usize = 8;

/// What the keys of all tenants owe.
#[derive(Debug)]
pub struct KeyBudgets {
    since: Instant,
    // Its keys are random, so nobody can choose keys that meet.
    hasher: RandomState,
    /// Made when the first key has a budget.
    sets: OnceLock<Box<[Mutex<Set>]>>,
}

/// The budget of each key of one tenant: what a service spends from.
#[derive(Debug, Clone, Copy)]
pub struct KeyBudget<'a> {
    rate: Rate,
    /// None without a bound.
    budgets: Option<&'a KeyBudgets>,
}

/// A key has less than was asked for; nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverBudget;

/// A key: the id of its container, which no other container of any tenant ever has, and its name
/// in there.
type Key<'a> = (u64, &'a str);

#[derive(Debug, Clone, Copy, Default)]
struct Debt {
    /// The hash of the key. Two that share 64 bits are not told apart, which nobody will live to
    /// see.
    key: u64,
    paid: PaidUntil,
}

type Set = [Debt; SET_KEYS];

impl Default for KeyBudgets {
    fn default() -> Self {
        Self { since: Instant::now(), hasher: RandomState::new(), sets: OnceLock::new() }
    }
}

impl KeyBudgets {
    /// The budget of each key, where so much of a key may be spent.
    #[must_use]
    pub fn at(&self, rate: Rate) -> KeyBudget<'_> {
        KeyBudget { rate, budgets: rate.is_bounded().then_some(self) }
    }

    fn take(&self, rate: Rate, key: Key<'_>, amount: u64, now: Duration) -> Result<(), OverBudget> {
        self.with(key, |paid| {
            if !rate.admits(amount, *paid, now) {
                return Err(OverBudget);
            }
            *paid = rate.charged(amount, *paid, now);
            Ok(())
        })
    }

    fn charge(&self, rate: Rate, key: Key<'_>, amount: u64, taken: u64, now: Duration) {
        self.with(key, |paid| {
            if taken > 0 || rate.admits(1, *paid, now) {
                *paid = rate.charged(amount.saturating_sub(taken), *paid, now);
            }
        });
    }

    fn with<T>(&self, key: Key<'_>, spend: impl FnOnce(&mut PaidUntil) -> T) -> T {
        let key = self.hasher.hash_one(key);
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        // Nothing under this lock can panic half-way: poisoning would say nothing.
        let mut set = sets[key as usize % SETS].lock().unwrap_or_else(PoisonError::into_inner);
        spend(paid_of(key, &mut set))
    }
}

impl KeyBudget<'_> {
    /// Everything may be taken, and nothing is remembered.
    pub const UNBOUNDED: KeyBudget<'static> = KeyBudget { rate: Rate::UNBOUNDED, budgets: None };

    /// True if there is something to count.
    #[must_use]
    pub const fn is_bounded(self) -> bool {
        self.budgets.is_some()
    }

    /// Takes so much of a key.
    ///
    /// # Errors
    /// If its budget has less.
    pub fn take(self, container: u64, key: &str, amount: u64) -> Result<(), OverBudget> {
        match self.budgets {
            Some(budgets) => {
                budgets.take(self.rate, (container, key), amount, budgets.since.elapsed())
            }
            None => Ok(()),
        }
    }

    /// So much of each of these keys was spent: later requests for them pay for it, except for what
    /// was `taken` of each before. A request that took nothing could not be refused; it charges
    /// nothing to a key that is over its budget already, or such requests could pile up what the key
    /// owes without end.
    pub fn charge<'k>(
        self,
        container: u64,
        spent: impl Iterator<Item = (&'k str, u64)>,
        taken: u64,
    ) {
        let Some(budgets) = self.budgets else { return };
        let now = budgets.since.elapsed();
        for (key, amount) in spent {
            budgets.charge(self.rate, (container, key), amount, taken, now);
        }
    }
}

/// What a key has paid. A key without a place gets that of the key that owes least.
fn paid_of(key: u64, set: &mut Set) -> &mut PaidUntil {
    let known = set.iter().position(|debt| debt.key == key);
    let at = known.unwrap_or_else(|| {
        let least = (0..SET_KEYS).min_by_key(|&at| set[at].paid).unwrap_or_default();
        set[least] = Debt { key, paid: PaidUntil::default() };
        least
    });
    &mut set[at].paid
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: u64 = 300;
    const RATE: Rate = Rate::per_second(10);

    /// With a clock that a test turns.
    #[derive(Default)]
    struct Budgets {
        budgets: KeyBudgets,
        now: Duration,
    }

    impl Budgets {
        fn set(&mut self, milliseconds: u64) {
            self.now = Duration::from_millis(milliseconds);
        }

        fn takes(&self, container: u64, key: &str) -> bool {
            self.budgets.take(RATE, (container, key), 1, self.now).is_ok()
        }

        /// How many of a hundred single takings succeed now.
        fn taken(&self, container: u64, key: &str) -> usize {
            (0..100).filter(|_| self.takes(container, key)).count()
        }

        /// One was spent for each name in the list.
        fn charge(&self, keys: &[&str], taken: u64) {
            for run in keys.chunk_by(|one, next| one == next) {
                let key = (TABLE, run[0]);
                self.budgets.charge(RATE, key, run.len() as u64, taken, self.now);
            }
        }
    }

    #[test]
    fn keys_have_budgets_of_their_own() {
        let mut budgets = Budgets::default();
        budgets.set(5_000);
        assert_eq!(budgets.taken(TABLE, "hot"), 10);
        assert_eq!(budgets.taken(TABLE, "hot"), 0);
        assert_eq!(budgets.taken(TABLE, "cold"), 10);
        assert_eq!(budgets.taken(301, "hot"), 10, "another table");
        budgets.set(5_300);
        assert_eq!(budgets.taken(TABLE, "hot"), 3);
        budgets.set(60_000);
        assert_eq!(budgets.taken(TABLE, "hot"), 10);
    }

    #[test]
    fn later_requests_pay_for_what_was_spent() {
        let mut budgets = Budgets::default();
        budgets.charge(&["a", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b"], 0);
        assert_eq!(budgets.taken(TABLE, "a"), 9);
        assert_eq!(budgets.taken(TABLE, "b"), 0, "eleven were read");
        budgets.set(200);
        assert_eq!(budgets.taken(TABLE, "b"), 1);
        assert!(budgets.takes(TABLE, "c"));
        budgets.charge(&["c", "c"], 1);
        assert_eq!(budgets.taken(TABLE, "c"), 8, "what was taken before is not charged again");
        budgets.charge(&["c"; 6], 1);
        budgets.set(700);
        assert_eq!(
            budgets.taken(TABLE, "c"),
            0,
            "the request that took the last pays for all that it led to"
        );
        budgets.set(800);
        assert_eq!(budgets.taken(TABLE, "c"), 1);
    }

    /// Scans of a table are not refused. An hour of them must not close a key for another four.
    #[test]
    fn requests_that_cannot_be_refused_pile_up_no_debt() {
        let mut budgets = Budgets::default();
        for _ in 0..1000 {
            budgets.charge(&["p"; 8], 0);
        }
        assert!(!budgets.takes(TABLE, "p"));
        budgets.set(1_600);
        assert_eq!(budgets.taken(TABLE, "p"), 10);
    }

    #[test]
    fn without_a_bound_nothing_is_remembered() {
        let budgets = KeyBudgets::default();
        for unbounded in [budgets.at(Rate::UNBOUNDED), KeyBudget::UNBOUNDED] {
            assert!((0..1000).all(|_| unbounded.take(TABLE, "p", 100).is_ok()));
            unbounded.charge(TABLE, [("p", 1)].into_iter(), 0);
        }
        assert!(budgets.sets.get().is_none(), "not even the memory for it is taken");
    }

    /// More keys owe something than there are places: the crowd is let in, the hot one is not
    /// forgotten.
    #[test]
    fn a_crowd_does_not_refill_the_budget_of_a_hot_key() {
        let budgets = Budgets::default();
        assert_eq!(budgets.taken(TABLE, "hot"), 10);
        for number in 0..10 * SETS * SET_KEYS {
            let is_taken = budgets.takes(TABLE, &number.to_string());
            assert!(is_taken, "{number} is asked for the first time");
        }
        assert!(!budgets.takes(TABLE, "hot"));
    }

    #[test]
    fn the_key_that_owes_least_loses_its_place() {
        let mut set = Set::default();
        let owe = |amount| RATE.charged(amount, PaidUntil::default(), Duration::ZERO);
        for key in 1..=SET_KEYS as u64 {
            *paid_of(key, &mut set) = owe(key);
        }
        assert_eq!(*paid_of(3, &mut set), owe(3), "a known key keeps its place");
        *paid_of(100, &mut set) = owe(5);
        let mut keys = set.map(|debt| debt.key);
        keys.sort_unstable();
        assert_eq!(keys, [2, 3, 4, 5, 6, 7, 8, 100]);
    }

    /// Threads together get what one alone would get.
    #[test]
    fn a_budget_is_exact_among_threads() {
        let budgets = KeyBudgets::default();
        let take = || {
            let rate = Rate::per_second(1000);
            let taken = |_: &i32| budgets.take(rate, (TABLE, "p"), 1, Duration::ZERO).is_ok();
            (0..1000).filter(taken).count()
        };
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenants_keys_are_spent_from_at_its_rate() {
        let budgets = KeyBudgets::default();
        let (slow, fast) = (budgets.at(RATE), budgets.at(Rate::per_second(100)));
        assert_eq!(slow.take(TABLE, "p", 10), Ok(()));
        assert_eq!(slow.take(TABLE, "p", 1), Err(OverBudget));
        fast.charge(301, [("p", 50), ("q", 101)].into_iter(), 0);
        assert_eq!(fast.take(301, "p", 50), Ok(()));
        assert_eq!(fast.take(301, "q", 1), Err(OverBudget));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(slow.take(TABLE, "p", 1), Ok(()));
    }
}
