//! Which node writes a partition: the one with the highest score. When a node comes or goes, only
//! its own partitions move.

use tavola_core::{PartitionKey, TableId};
use twox_hash::XxHash3_64;

/// A node's score for a partition. All nodes must compute the same.
pub(crate) fn score(node: &[u8; 16], table: TableId, partition_key: &PartitionKey) -> u64 {
    let mut named = Vec::with_capacity(24 + partition_key.as_str().len());
    named.extend_from_slice(node);
    named.extend_from_slice(&table.number().to_le_bytes());
    named.extend_from_slice(partition_key.as_str().as_bytes());
    XxHash3_64::oneshot(&named)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId::new(300);

    fn winner(nodes: &[u8], key: usize) -> u8 {
        let key = PartitionKey::new(key.to_string()).unwrap();
        nodes.iter().copied().max_by_key(|id| score(&[*id; 16], TABLE, &key)).unwrap()
    }

    #[test]
    fn each_gets_its_share() {
        let wins = |id| (0..3_000).filter(|key| winner(&[1, 2, 3], *key) == id).count();
        for id in 1..=3 {
            assert!((800..1_200).contains(&wins(id)), "{id} has {} of 3000", wins(id));
        }
    }

    #[test]
    fn a_node_that_leaves_moves_only_its_own_partitions() {
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

    /// Nodes of two versions must agree while one replaces the other.
    const SCORE: u64 = 15_241_809_783_903_185_182;
}
