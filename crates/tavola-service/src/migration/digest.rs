//! What a table holds, in two numbers that do not depend on the order of its rows.

use std::iter::Sum;

use tavola_core::EntityView;
use tavola_store::Row;
use twox_hash::XxHash3_64;

/// How many rows, and the sum of their hashes. A sum and no exclusive or: two equal rows would
/// vanish from that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    /// Rows.
    pub rows: u64,
    /// The sum of the hashes of every row's keys, version and value.
    pub hash: u64,
}

impl Digest {
    /// Takes one more row in.
    pub(super) fn add(&mut self, row: &Row) {
        let (partition_key, row_key, value) =
            (row.partition_key().as_bytes(), row.row_key().as_bytes(), row.value());
        let mut bytes = Vec::with_capacity(partition_key.len() + row_key.len() + value.len() + 9);
        bytes.extend_from_slice(partition_key);
        // No key has this byte, so that a pair of keys has one form.
        bytes.push(0);
        bytes.extend_from_slice(row_key);
        bytes.extend_from_slice(&row.timestamp().ticks().to_le_bytes());
        bytes.extend_from_slice(value);
        self.rows += 1;
        self.hash = self.hash.wrapping_add(XxHash3_64::oneshot(&bytes));
    }
}

impl Sum for Digest {
    fn sum<I: Iterator<Item = Self>>(digests: I) -> Self {
        digests.fold(Self::default(), |sum, one| Self {
            rows: sum.rows + one.rows,
            hash: sum.hash.wrapping_add(one.hash),
        })
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::{EdmValue, PartitionKey, Properties, PropertyName, RowKey, Timestamp};
    use tavola_store::Row;

    use super::Digest;

    fn row(partition_key: &str, row_key: &str, value: i32, ticks: u64) -> Row {
        let value = (PropertyName::new("N").unwrap(), EdmValue::Int32(value));
        let properties = Properties::new(vec![value]).unwrap();
        let keys = (PartitionKey::new(partition_key).unwrap(), RowKey::new(row_key).unwrap());
        Row::encode(&keys.0, &keys.1, &properties, Timestamp::from_ticks(ticks).unwrap())
    }

    fn digest(rows: &[Row]) -> Digest {
        let mut digest = Digest::default();
        rows.iter().for_each(|row| digest.add(row));
        digest
    }

    #[test]
    fn order_does_not_count_and_everything_else_does() {
        let (a, b) = (row("p", "a", 1, 10), row("p", "b", 2, 11));
        let one = |row: &Row| digest(std::slice::from_ref(row));
        let both = digest(&[a.clone(), b.clone()]);
        assert_eq!(both, digest(&[b.clone(), a.clone()]));
        assert_eq!([one(&a), one(&b)].into_iter().sum::<Digest>(), both);
        for other in
            [row("pa", "", 1, 10), row("p", "b", 1, 10), row("p", "a", 2, 10), row("p", "a", 1, 11)]
        {
            assert_ne!(one(&other), one(&a), "{other:?}");
        }
        assert_ne!(digest(&[a.clone(), a]), digest(&[]));
    }
}
