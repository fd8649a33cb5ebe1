//! The directory: the partition keys of a table in their order, kept in slots that each hold a part
//! of them.

use std::collections::VecDeque;

use futures::future::try_join_all;
use tavola_store::StoreError;
use twox_hash::XxHash3_64;

use crate::cluster::{Cluster, Partition};
use crate::error::unavailable;
use crate::stats::{Kind, count};

/// Keys read from one slot at a time: few at first, because most scans want few.
const KEYS_FIRST: usize = 8;
const KEYS_MAX: usize = 512;

/// The slot of a partition key. It must never change: entries are stored under it.
fn slot_of(key: &[u8], slots: u16) -> i16 {
    let slot = XxHash3_64::oneshot(key) % u64::from(slots.max(1));
    i16::try_from(slot).unwrap_or(i16::MAX)
}

impl Cluster {
    /// Enters a partition into the directory. It must come before the partition's first row: a scan
    /// finds only partitions that are entered.
    pub(crate) async fn enter(
        &self,
        partition: &Partition,
        slots: u16,
        generation: i32,
    ) -> Result<(), String> {
        count(&self.counters.registrations, 1);
        let values = entry(partition, slots, generation);
        let entered = self.execute(Kind::Register, &self.statements.enter, values).await;
        entered.map(drop).map_err(|error| error.to_string())
    }

    /// Takes a retired partition out of the directory, with its earlier generations.
    pub(crate) async fn leave(
        &self,
        partition: &Partition,
        slots: u16,
        generation: i32,
    ) -> Result<(), String> {
        let values = entry(partition, slots, generation);
        let left = self.execute(Kind::Retire, &self.statements.leave, values).await;
        left.map(drop).map_err(|error| error.to_string())
    }
}

/// The columns of an entry.
fn entry(partition: &Partition, slots: u16, generation: i32) -> (i64, i16, &[u8], i32) {
    (partition.table, slot_of(&partition.key, slots), &partition.key, generation)
}

/// A walk through the keys of a table between two bounds.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    cluster: &'a Cluster,
    table: i64,
    /// Keys are below it.
    end: Vec<u8>,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    number: i16,
    /// Keys that were read and not returned yet.
    keys: VecDeque<Vec<u8>>,
    /// Where to read on; `None`: the slot has no more.
    next: Option<Vec<u8>>,
    /// How many are read the next time: twice as many as the last time, so that a walk reads at
    /// most as many keys too many as it needed.
    keys_at_a_time: usize,
}

impl Slot {
    fn is_dry(&self) -> bool {
        self.keys.is_empty() && self.next.is_some()
    }

    /// Soon dry: no more is left than a half of what was read last.
    fn is_low(&self) -> bool {
        self.keys.len() * 4 <= self.keys_at_a_time && self.next.is_some()
    }
}

impl<'a> Walk<'a> {
    /// From `start` on, up to `end` without it.
    pub(crate) fn new(
        cluster: &'a Cluster,
        table: i64,
        slots: u16,
        start: &[u8],
        end: Vec<u8>,
    ) -> Self {
        let slot = |number| Slot {
            number,
            keys: VecDeque::new(),
            next: Some(start.to_vec()),
            keys_at_a_time: KEYS_FIRST,
        };
        let slots = (0..i16::try_from(slots).unwrap_or(i16::MAX)).map(slot).collect();
        Self { cluster, table, end, slots }
    }

    /// The next key, or `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        self.fill().await?;
        let smallest =
            self.slots.iter_mut().filter(|slot| !slot.keys.is_empty()).min_by(|one, other| {
                // Both have one: see the filter.
                one.keys.front().cmp(&other.keys.front())
            });
        Ok(smallest.and_then(|slot| slot.keys.pop_front()))
    }

    /// Reads on once a slot has run out: without its next key the smallest is unknown. Hashing
    /// empties all slots at the same pace, so slots that are nearly empty are read with it, and a
    /// page waits a few times instead of once for each.
    async fn fill(&mut self) -> Result<(), StoreError> {
        if !self.slots.iter().any(Slot::is_dry) {
            return Ok(());
        }
        let (cluster, table, end) = (self.cluster, self.table, &self.end);
        let low = self.slots.iter_mut().filter(|slot| slot.is_low());
        try_join_all(low.map(|slot| read_on(cluster, table, end, slot))).await.map(drop)
    }
}

async fn read_on(
    cluster: &Cluster,
    table: i64,
    end: &[u8],
    slot: &mut Slot,
) -> Result<(), StoreError> {
    let failed = |error: &dyn ToString| {
        unavailable(format!("the partition directory: {}", error.to_string()))
    };
    let start = slot.next.take().unwrap_or_default();
    let limit = slot.keys_at_a_time;
    slot.keys_at_a_time = (limit * 2).min(KEYS_MAX);
    let values = (table, slot.number, &start[..], end, i32::try_from(limit).unwrap_or(i32::MAX));
    let result = cluster
        .execute(Kind::Directory, &cluster.statements.walk, values)
        .await
        .map_err(|error| failed(&error))?;
    let result = result.into_rows_result().map_err(|error| failed(&error))?;
    let is_last = result.rows_num() < limit;
    for row in result.rows::<(Vec<u8>,)>().map_err(|error| failed(&error))? {
        let (key,) = row.map_err(|error| failed(&error))?;
        // A key has a row for every generation that was not swept yet.
        if slot.keys.back() != Some(&key) {
            slot.keys.push_back(key);
        }
    }
    if !is_last && let Some(last) = slot.keys.back() {
        slot.next = Some(after(last));
    }
    Ok(())
}

/// The smallest bytes above `key`.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 1);
    bytes.extend_from_slice(key);
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{after, slot_of};

    #[test]
    fn slots_never_move() {
        // Clusters store these: a change would hide partitions from scans.
        let slots: Vec<i16> = ["", "a", "p", "customer-17", "2026-11-16"]
            .iter()
            .map(|key| slot_of(key.as_bytes(), 16))
            .collect();
        assert_eq!(slots, SLOTS);
        assert!((0..1000u32).all(|key| (0..16).contains(&slot_of(&key.to_be_bytes(), 16))));
    }

    const SLOTS: [i16; 5] = [2, 15, 7, 12, 3];

    #[test]
    fn nothing_is_between_a_key_and_what_is_after_it() {
        assert!(after(b"a") > b"a".to_vec());
        assert!(after(b"a") < b"a ".to_vec());
        assert_eq!(after(b""), [0]);
    }
}
