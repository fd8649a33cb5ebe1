//! Which front end writes a partition: the one with the highest score. When one comes or goes, only its own partitions
//! change hands.

use tavola_core::{PartitionKey, TableId};
use twox_hash::XxHash3_64;

/// How much a front end wants a partition. All front ends must find the same.
pub(crate) fn score(front_end: &[u8; 16], table: TableId, partition_key: &PartitionKey) -> u64 {
    let mut named = Vec::with_capacity(24 + partition_key.as_str().len());
    named.extend_from_slice(front_end);
    named.extend_from_slice(&table.number().to_le_bytes());
    named.extend_from_slice(partition_key.as_str().as_bytes());
    XxHash3_64::oneshot(&named)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId::new(300);

    fn winner(front_ends: &[u8], key: usize) -> u8 {
        let key = PartitionKey::new(key.to_string()).unwrap();
        front_ends.iter().copied().max_by_key(|id| score(&[*id; 16], TABLE, &key)).unwrap()
    }

    #[test]
    fn each_gets_its_share() {
        let wins = |id| (0..3_000).filter(|key| winner(&[1, 2, 3], *key) == id).count();
        for id in 1..=3 {
            assert!((800..1_200).contains(&wins(id)), "{id} has {} of 3000", wins(id));
        }
    }

    #[test]
    fn who_goes_takes_only_its_own_partitions_along() {
        for key in 0..1_000 {
            let before = winner(&[1, 2, 3], key);
            if before != 3 {
                assert_eq!(winner(&[1, 2], key), before);
            }
        }
    }

    #[test]
    fn scores_are_the_same_in_every_version() {
        let key = PartitionKey::new("Köln").unwrap();
        assert_eq!(score(&[7; 16], TABLE, &key), SCORE);
    }

    /// Front ends of two versions must agree while one replaces the other.
    const SCORE: u64 = 15_241_809_783_903_185_182;
}
