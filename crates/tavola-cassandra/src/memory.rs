//! What this process remembers of partitions: hints, each of them checked by the condition of the
//! write that uses it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cluster::Partition;

const SHARDS: usize = 16;
/// Beyond it a shard is forgotten, which costs each partition one refused write.
const REMEMBERED_PER_SHARD_MAX: usize = 16_384;

/// How the next write of a partition must be guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    /// The directory knows it under this generation.
    Standing(i32),
    /// It was never written.
    New,
    /// It was retired; this was its generation.
    Retired(i32),
}

impl Registration {
    /// From the column `gen`.
    pub(crate) fn of(generation: Option<i32>) -> Self {
        match generation {
            None => Self::New,
            Some(generation) if generation < 0 => Self::Retired(generation.saturating_neg()),
            Some(generation) => Self::Standing(generation),
        }
    }

    /// Whether the next write need not tell the directory first.
    pub(crate) fn is_standing(self) -> bool {
        matches!(self, Self::Standing(_))
    }

    /// What it is once a write has gone through.
    pub(crate) fn after_write(self) -> Self {
        Self::Standing(self.generation())
    }

    /// The generation that the next write has.
    pub(crate) fn generation(self) -> i32 {
        match self {
            Self::Standing(generation) => generation,
            Self::New => FIRST_GENERATION,
            Self::Retired(generation) => generation.saturating_add(1),
        }
    }
}

pub(crate) const FIRST_GENERATION: i32 = 1;

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
        Self { registration: Registration::Standing(FIRST_GENERATION), version: 0 };
}

/// One value for each partition, as long as there is room.
#[derive(Debug)]
pub(crate) struct Remembered<V> {
    shards: [Mutex<HashMap<Partition, V>>; SHARDS],
    hasher: RandomState,
}

pub(crate) type Hints = Remembered<Hint>;

impl<V> Default for Remembered<V> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl Hints {
    pub(crate) fn get(&self, partition: &Partition) -> Hint {
        self.known(partition).unwrap_or(Hint::GUESS)
    }
}

impl<V: Copy> Remembered<V> {
    pub(crate) fn known(&self, partition: &Partition) -> Option<V> {
        self.shard(partition).get(partition).copied()
    }

    pub(crate) fn set(&self, partition: &Partition, value: V) {
        let mut shard = self.shard(partition);
        if shard.len() >= REMEMBERED_PER_SHARD_MAX && !shard.contains_key(partition) {
            shard.clear();
        }
        shard.insert(partition.clone(), value);
    }

    pub(crate) fn forget_table(&self, table: i64) {
        for shard in &self.shards {
            shard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .retain(|partition, _| partition.table != table);
        }
    }

    fn shard(&self, partition: &Partition) -> MutexGuard<'_, HashMap<Partition, V>> {
        let index = self.hasher.hash_one(partition) as usize % SHARDS;
        // It is one value: a panic cannot leave half of it.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For so long after two front ends met on a partition they are expected to meet again.
const CONTENDED_TIME: Duration = Duration::from_secs(10);

/// Where somebody else's writes were in the way of ours, and when.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    met: Remembered<Instant>,
}

impl Contention {
    pub(crate) fn met(&self, partition: &Partition) {
        self.met.set(partition, Instant::now());
    }

    pub(crate) fn is_recent(&self, partition: &Partition) -> bool {
        self.met.known(partition).is_some_and(|met| met.elapsed() < CONTENDED_TIME)
    }
}
