//! The budgets of partitions: how many entities of each may be asked for in a second.
//!
//! The number of partitions has no bound, and the memory here has: a partition that owes nothing
//! says nothing and needs no place. At 2,000 entities a second one entity is paid for after half a
//! millisecond, so few partitions owe something at a time. Where more of them meet than there are
//! places, who owes least is forgotten: a budget can then be too generous for a moment, never too
//! strict, and not for the partitions that spend most.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tavola_core::{EntityView, PartitionKey, TableId};
use tavola_store::Row;

use crate::budget::{PaidUntil, Rate};
use crate::clock::Clock;
use crate::error::ServiceError;

/// Threads meet at a lock only for partitions of the same set.
const SETS: usize = 1024;
/// Partitions that can owe something in one set.
const SET_PARTITIONS: usize = 8;

/// What partitions owe.
#[derive(Debug)]
pub(crate) struct PartitionBudgets {
    clock: Arc<dyn Clock>,
    // Its keys are random, so nobody can choose partitions that meet.
    hasher: RandomState,
    /// Made when the first partition has a budget.
    sets: OnceLock<Box<[Mutex<Set>]>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Debt {
    /// The hash of the partition. Two that share 64 bits are not told apart, which nobody will live
    /// to see.
    partition: u64,
    paid: PaidUntil,
}

type Set = [Debt; SET_PARTITIONS];

impl PartitionBudgets {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, hasher: RandomState::new(), sets: OnceLock::new() }
    }

    /// Takes so many entities of a partition, which is asked for before the store is.
    ///
    /// # Errors
    /// If its budget has fewer.
    pub(crate) fn take(
        &self,
        rate: Rate,
        table: TableId,
        partition_key: &PartitionKey,
        entities: usize,
    ) -> Result<(), ServiceError> {
        if !rate.is_bounded() {
            return Ok(());
        }
        let (entities, now) = (entities as u64, self.clock.elapsed());
        self.with((table, partition_key.as_str()), |paid| {
            if !rate.admits(entities, *paid, now) {
                return Err(ServiceError::PartitionOverBudget);
            }
            *paid = rate.charged(entities, *paid, now);
            Ok(())
        })
    }

    /// These rows, in the order of their keys, were read of a table: who comes later to their
    /// partitions pays for them, except for those that were taken before. Of whom nothing was taken
    /// could not be refused; such readers leave a partition alone that is over its budget already,
    /// or they could pile up what it owes without end.
    pub(crate) fn charge(&self, rate: Rate, table: TableId, rows: &[Row], taken: usize) {
        if !rate.is_bounded() {
            return;
        }
        let now = self.clock.elapsed();
        for rows in rows.chunk_by(|one, next| one.partition_key() == next.partition_key()) {
            let entities = rows.len().saturating_sub(taken) as u64;
            self.with((table, rows[0].partition_key().as_str()), |paid| {
                if taken > 0 || rate.admits(1, *paid, now) {
                    *paid = rate.charged(entities, *paid, now);
                }
            });
        }
    }

    fn with<T>(&self, partition: (TableId, &str), spend: impl FnOnce(&mut PaidUntil) -> T) -> T {
        let partition = self.hasher.hash_one(partition);
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        // Nothing under this lock can panic half-way: poisoning would say nothing.
        let mut set =
            sets[partition as usize % SETS].lock().unwrap_or_else(PoisonError::into_inner);
        spend(paid_of(partition, &mut set))
    }
}

/// What a partition has paid, in the place of who owes least if it has none yet.
fn paid_of(partition: u64, set: &mut Set) -> &mut PaidUntil {
    let known = set.iter().position(|debt| debt.partition == partition);
    let at = known.unwrap_or_else(|| {
        let least = (0..SET_PARTITIONS).min_by_key(|&at| set[at].paid).unwrap_or_default();
        set[least] = Debt { partition, paid: PaidUntil::default() };
        least
    });
    &mut set[at].paid
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use tavola_core::{Properties, RowKey, Timestamp};

    use super::*;

    const TABLE: TableId = TableId::new(300);
    const RATE: Rate = Rate::per_second(10);

    #[derive(Debug, Default)]
    struct TestClock(AtomicU64);

    impl TestClock {
        fn set(&self, milliseconds: u64) {
            self.0.store(milliseconds, Ordering::SeqCst);
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> Timestamp {
            Timestamp::MIN
        }

        fn elapsed(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    fn budgets() -> (PartitionBudgets, Arc<TestClock>) {
        let clock = Arc::new(TestClock::default());
        (PartitionBudgets::new(Arc::clone(&clock) as _), clock)
    }

    fn partition(key: &str) -> PartitionKey {
        PartitionKey::new(key).unwrap()
    }

    fn rows(partition_keys: &[&str]) -> Vec<Row> {
        let none = Properties::new(Vec::new()).unwrap();
        partition_keys
            .iter()
            .map(|key| Row::encode(&partition(key), &RowKey::default(), &none, Timestamp::MIN))
            .collect()
    }

    fn takes(budgets: &PartitionBudgets, key: &str) -> bool {
        budgets.take(RATE, TABLE, &partition(key), 1).is_ok()
    }

    /// How many of a hundred single entities are to be had now.
    fn taken(budgets: &PartitionBudgets, table: TableId, key: &str) -> usize {
        (0..100).filter(|_| budgets.take(RATE, table, &partition(key), 1).is_ok()).count()
    }

    #[test]
    fn partitions_have_budgets_of_their_own() {
        let (budgets, clock) = budgets();
        clock.set(5_000);
        assert_eq!(taken(&budgets, TABLE, "hot"), 10);
        assert_eq!(taken(&budgets, TABLE, "hot"), 0);
        assert_eq!(taken(&budgets, TABLE, "cold"), 10);
        assert_eq!(taken(&budgets, TableId::new(301), "hot"), 10, "another table");
        clock.set(5_300);
        assert_eq!(taken(&budgets, TABLE, "hot"), 3);
        clock.set(60_000);
        assert_eq!(taken(&budgets, TABLE, "hot"), 10);
    }

    #[test]
    fn rows_that_were_read_are_paid_for_by_who_comes_later() {
        let (budgets, clock) = budgets();
        budgets.charge(
            RATE,
            TABLE,
            &rows(&["a", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b"]),
            0,
        );
        assert_eq!(taken(&budgets, TABLE, "a"), 9);
        assert_eq!(taken(&budgets, TABLE, "b"), 0, "eleven were read");
        clock.set(200);
        assert_eq!(taken(&budgets, TABLE, "b"), 1);
        assert!(takes(&budgets, "c"));
        budgets.charge(RATE, TABLE, &rows(&["c", "c"]), 1);
        assert_eq!(taken(&budgets, TABLE, "c"), 8, "what was taken before is not charged again");
        budgets.charge(RATE, TABLE, &rows(&["c"; 6]), 1);
        clock.set(700);
        assert_eq!(
            taken(&budgets, TABLE, "c"),
            0,
            "whoever took the last pays for all that it led to"
        );
        clock.set(800);
        assert_eq!(taken(&budgets, TABLE, "c"), 1);
    }

    /// Scans of a table are not refused. An hour of them must not close a partition for another
    /// four.
    #[test]
    fn who_cannot_be_refused_piles_up_no_debt() {
        let (budgets, clock) = budgets();
        for _ in 0..1000 {
            budgets.charge(RATE, TABLE, &rows(&["p"; 8]), 0);
        }
        assert!(!takes(&budgets, "p"));
        clock.set(1_600);
        assert_eq!(taken(&budgets, TABLE, "p"), 10);
    }

    #[test]
    fn without_a_bound_nothing_is_remembered() {
        let (budgets, _) = budgets();
        assert!(
            (0..1000).all(|_| budgets.take(Rate::UNBOUNDED, TABLE, &partition("p"), 100).is_ok())
        );
        budgets.charge(Rate::UNBOUNDED, TABLE, &rows(&["p"]), 0);
        assert!(budgets.sets.get().is_none(), "not even the memory for it is taken");
    }

    /// More partitions owe something than there are places: the crowd is let in, the hot one is not
    /// forgotten.
    #[test]
    fn a_crowd_does_not_fill_the_purse_of_a_hot_partition() {
        let (budgets, _) = budgets();
        assert_eq!(taken(&budgets, TABLE, "hot"), 10);
        for number in 0..10 * SETS * SET_PARTITIONS {
            assert!(takes(&budgets, &number.to_string()), "{number} asks for the first time");
        }
        assert!(!takes(&budgets, "hot"));
    }

    #[test]
    fn who_owes_least_gives_the_place_away() {
        let mut set = Set::default();
        let owe = |entities| RATE.charged(entities, PaidUntil::default(), Duration::ZERO);
        for partition in 1..=SET_PARTITIONS as u64 {
            *paid_of(partition, &mut set) = owe(partition);
        }
        assert_eq!(*paid_of(3, &mut set), owe(3), "who is known keeps the place");
        *paid_of(100, &mut set) = owe(5);
        let mut standing = set.map(|debt| debt.partition);
        standing.sort_unstable();
        assert_eq!(standing, [2, 3, 4, 5, 6, 7, 8, 100]);
    }

    /// Threads together get what one alone would get.
    #[test]
    fn a_budget_is_exact_among_threads() {
        let (budgets, _) = budgets();
        let take = || {
            (0..1000)
                .filter(|_| budgets.take(Rate::per_second(1000), TABLE, &partition("p"), 1).is_ok())
                .count()
        };
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
    }
}
