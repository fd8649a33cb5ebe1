//! Ranges of keys: what a scan reads.

use std::cmp::Ordering;

use crate::key::{EntityKey, PartitionKey, RowKey};

/// A place between entities, in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// Before the first entity of the table.
    Start,
    /// Before this key, whether or not such an entity exists. With an empty RowKey: before the
    /// partition.
    Before(EntityKey),
    /// After this key, whether or not such an entity exists.
    After(EntityKey),
    /// After every entity of this partition.
    AfterPartition(PartitionKey),
    /// After the last entity of the table.
    End,
}

impl Cut {
    /// Before every entity of this partition.
    #[must_use]
    pub fn before_partition(partition_key: PartitionKey) -> Self {
        Self::Before(EntityKey::new(partition_key, RowKey::default()))
    }

    /// True if the entity at `key` stands behind this cut.
    #[must_use]
    pub fn is_before(&self, key: &EntityKey) -> bool {
        match self {
            Self::Start => true,
            Self::Before(at) => at <= key,
            Self::After(at) => at < key,
            Self::AfterPartition(partition_key) => partition_key < &key.partition_key,
            Self::End => false,
        }
    }

    /// The cut as a tuple whose order is the order of cuts: table edge, partition, partition edge,
    /// row, row edge.
    fn rank(&self) -> (u8, Option<&PartitionKey>, u8, Option<&RowKey>, u8) {
        match self {
            Self::Start => (0, None, 0, None, 0),
            Self::Before(at) => (1, Some(&at.partition_key), 0, Some(&at.row_key), 0),
            Self::After(at) => (1, Some(&at.partition_key), 0, Some(&at.row_key), 1),
            Self::AfterPartition(partition_key) => (1, Some(partition_key), 1, None, 0),
            Self::End => (2, None, 0, None, 0),
        }
    }
}

impl Ord for Cut {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Cut {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The entities between two cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub start: Cut,
    /// Where it ends.
    pub end: Cut,
}

impl KeyRange {
    /// The whole table.
    pub const ALL: Self = Self { start: Cut::Start, end: Cut::End };

    /// One entity.
    #[must_use]
    pub fn point(key: EntityKey) -> Self {
        Self { start: Cut::Before(key.clone()), end: Cut::After(key) }
    }

    /// One partition.
    #[must_use]
    pub fn partition(partition_key: PartitionKey) -> Self {
        Self {
            start: Cut::before_partition(partition_key.clone()),
            end: Cut::AfterPartition(partition_key),
        }
    }

    /// True if the entity at `key` lies inside.
    #[must_use]
    pub fn contains(&self, key: &EntityKey) -> bool {
        self.start.is_before(key) && !self.end.is_before(key)
    }

    /// True if no key lies inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// The partition in which the whole range lies, if it lies in one.
    #[must_use]
    pub fn sole_partition(&self) -> Option<&PartitionKey> {
        let first = match &self.start {
            Cut::Before(key) | Cut::After(key) => &key.partition_key,
            Cut::Start | Cut::AfterPartition(_) | Cut::End => return None,
        };
        match &self.end {
            Cut::Before(key) | Cut::After(key) => (key.partition_key == *first).then_some(first),
            Cut::AfterPartition(last) => (last == first).then_some(first),
            Cut::Start | Cut::End => None,
        }
    }

    /// What both ranges hold.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let start = (&self.start).max(&other.start).clone();
        let end = (&self.end).min(&other.end).clone();
        Self { start, end }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, KeyRange};
    use crate::key::{EntityKey, PartitionKey, RowKey};

    fn partition(key: &str) -> PartitionKey {
        PartitionKey::new(key).unwrap()
    }

    fn key(pk: &str, rk: &str) -> EntityKey {
        EntityKey::new(partition(pk), RowKey::new(rk).unwrap())
    }

    #[test]
    fn cuts_are_in_the_order_of_the_keys_around_them() {
        let cuts = [
            Cut::Start,
            Cut::Before(key("", "")),
            Cut::After(key("", "")),
            Cut::AfterPartition(partition("")),
            Cut::before_partition(partition("a")),
            Cut::Before(key("a", "b")),
            Cut::After(key("a", "b")),
            Cut::Before(key("a", "bb")),
            Cut::AfterPartition(partition("a")),
            Cut::Before(key("aa", "")),
            Cut::End,
        ];
        assert!(cuts.is_sorted());
        assert!(cuts.windows(2).all(|pair| pair[0] < pair[1]));
        // The order of cuts and the question "is this key behind it?" agree.
        let before = Cut::Before(key("a", "b"));
        for cut in &cuts {
            assert_eq!(cut.is_before(&key("a", "b")), *cut <= before, "{cut:?}");
        }
    }

    #[test]
    fn ranges() {
        let range = KeyRange::partition(partition("a"));
        assert!(range.contains(&key("a", "")));
        assert!(!range.contains(&key("aa", "")));
        assert!(KeyRange::point(key("a", "b")).contains(&key("a", "b")));
        assert!(!KeyRange::point(key("a", "b")).contains(&key("a", "")));
        assert!(range.intersection(&KeyRange::partition(partition("b"))).is_empty());
        assert_eq!(range.intersection(&KeyRange::ALL), range);
    }

    #[test]
    fn a_range_lies_in_one_partition_or_not() {
        let sole = |start: Cut, end: Cut| {
            KeyRange { start, end }.sole_partition().map(|key| key.as_str().to_owned())
        };
        let a = Some("a".to_owned());
        assert_eq!(sole(Cut::Before(key("a", "b")), Cut::After(key("a", "b"))), a);
        assert_eq!(sole(Cut::After(key("a", "b")), Cut::Before(key("a", "c"))), a);
        assert_eq!(
            sole(Cut::before_partition(partition("a")), Cut::AfterPartition(partition("a"))),
            a
        );
        assert_eq!(
            sole(Cut::before_partition(partition("a")), Cut::AfterPartition(partition("b"))),
            None
        );
        assert_eq!(sole(Cut::Before(key("a", "b")), Cut::Before(key("b", "b"))), None);
        assert_eq!(sole(Cut::Start, Cut::AfterPartition(partition(""))), None);
        assert_eq!(KeyRange::ALL.sole_partition(), None);
    }
}
