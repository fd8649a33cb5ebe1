//! What this node remembers of partitions, to send the right guard at the first try.
//!
//! A hint may be old or evicted at any time: the guard of the write that uses it checks it in the
//! cluster, and a wrong one costs one refused batch, whose reply brings the right one.

use tavola_store::BoundedCache;

use crate::cluster::Partition;
use crate::registration::{FIRST_GENERATION, Registration};

/// Partitions that are remembered.
pub(crate) const PARTITIONS_MAX: usize = 1 << 18;

/// What is remembered of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) registration: Registration,
    /// The highest version that we know of.
    pub(crate) version: u64,
}

impl Hint {
    /// The best guess about a partition that nothing is known of: most were written before.
    pub(crate) const GUESS: Self =
        Self { registration: Registration::Active(FIRST_GENERATION), version: 0 };
}

/// The hints about partitions that were written lately.
#[derive(Debug)]
pub(crate) struct Hints {
    partitions: BoundedCache<Partition, Hint>,
}

impl Default for Hints {
    fn default() -> Self {
        Self { partitions: BoundedCache::new(PARTITIONS_MAX) }
    }
}

impl Hints {
    /// What is remembered, or the best guess.
    pub(crate) fn get_or_guess(&self, partition: &Partition) -> Hint {
        self.get(partition).unwrap_or(Hint::GUESS)
    }

    pub(crate) fn get(&self, partition: &Partition) -> Option<Hint> {
        self.partitions.get(partition)
    }

    pub(crate) fn set(&self, partition: &Partition, hint: Hint) {
        self.partitions.insert(partition.clone(), hint);
    }

    pub(crate) fn forget_table(&self, table: i64) {
        self.partitions.retain(|partition, _| partition.table != table);
    }
}

#[cfg(test)]
mod tests {
    use super::{Hint, Hints};
    use crate::cluster::Partition;
    use crate::registration::Registration;

    fn partition(table: i64) -> Partition {
        Partition { table, key: (*b"p").into() }
    }

    #[test]
    fn a_dropped_table_is_forgotten_and_no_other() {
        let hints = Hints::default();
        let hint = Hint { registration: Registration::Active(2), version: 7 };
        hints.set(&partition(300), hint);
        hints.set(&partition(301), hint);
        hints.forget_table(300);
        assert_eq!(hints.get_or_guess(&partition(300)), Hint::GUESS);
        assert_eq!(hints.get(&partition(301)), Some(hint));
    }
}
