//! The entities of all workloads: 500 bytes of JSON, made from a template by writing over it.

use crate::random::Random;

/// The JSON text of one entity, keys and annotations included.
pub const ENTITY_BYTES: usize = 500;
/// So that a batch of 100 never crosses into another partition.
pub const ROWS_PER_LOADED_PARTITION: u64 = 1_000;
/// New entities go to this many partitions in turn.
const WRITTEN_PARTITIONS: u64 = 1_000;
pub const BATCH_ENTITIES: u64 = 100;
/// One of so many entities has a given value of `Count`.
pub const MATCHES_ONE_OF: u64 = 100;
/// The partition of [`Family::Wide`].
pub const WIDE_PARTITION: &str = "w000000";

const FILLER_BYTES: usize = 1 << 20;
const PARTITION_DIGITS: usize = 6;
const ROW_DIGITS: usize = 9;
/// After the leading 1: a number of JSON does not begin with 0.
const COUNT_DIGITS: usize = 5;

/// Who writes an entity. Each family has partitions of its own, so that none meets another's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Before measuring: partitions of 1,000 rows, one after the other.
    Loaded,
    /// By single inserts: each to another partition than the one before.
    Inserted,
    /// By batches of 100: each batch to another partition than the one before.
    Batched,
    /// By single inserts: all to one partition.
    Hot,
    /// Before measuring: all in one partition.
    Wide,
}

/// Names an entity. All keys have the same length, so that a request can be made by writing over
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    prefix: u8,
    partition: u64,
    row: u64,
}

impl Family {
    pub fn key(self, index: u64) -> Key {
        let (prefix, partition) = match self {
            Self::Loaded => (b'p', index / ROWS_PER_LOADED_PARTITION),
            Self::Inserted => (b'i', index % WRITTEN_PARTITIONS),
            Self::Batched => (b'b', index / BATCH_ENTITIES % WRITTEN_PARTITIONS),
            Self::Hot => (b'h', 0),
            Self::Wide => (b'w', 0),
        };
        Key { prefix, partition, row: index }
    }
}

impl Key {
    /// The key as the path of a request has it.
    pub fn predicate(self) -> String {
        format!("(PartitionKey='{}',RowKey='{}')", self.partition_key(), self.row_key())
    }

    pub fn partition_key(self) -> String {
        format!("{}{:0PARTITION_DIGITS$}", char::from(self.prefix), self.partition)
    }

    pub fn row_key(self) -> String {
        format!("r{:0ROW_DIGITS$}", self.row)
    }
}

/// The text of an entity, and where its own parts go.
#[derive(Debug)]
pub struct EntityTemplate {
    text: Vec<u8>,
    partition_at: usize,
    row_at: usize,
    count_at: usize,
    filler_at: usize,
    filler: Vec<u8>,
}

impl Default for EntityTemplate {
    fn default() -> Self {
        Self::new()
    }
}

impl EntityTemplate {
    pub fn new() -> Self {
        let before_row =
            format!(r#"{{"PartitionKey":"x{}","RowKey":"#, "0".repeat(PARTITION_DIGITS));
        let fixed = r#","Count":100000,"Active":true,"Price":19.99,"Total":"9007199254740993","Total@odata.type":"Edm.Int64","When":"2026-01-02T03:04:05.678Z","When@odata.type":"Edm.DateTime","Text":""#;
        let before_filler = format!(r#"{before_row}"r{}"{fixed}"#, "0".repeat(ROW_DIGITS));
        let filler_bytes = ENTITY_BYTES - before_filler.len() - 2;
        let text = format!("{before_filler}{}\"}}", "x".repeat(filler_bytes)).into_bytes();
        let partition_at = r#"{"PartitionKey":""#.len();
        Self {
            text,
            partition_at,
            row_at: before_row.len() + 2,
            count_at: before_row.len() + 2 + ROW_DIGITS + r#"","Count":1"#.len(),
            filler_at: before_filler.len(),
            filler: filler(filler_bytes),
        }
    }

    /// Appends the text of one entity.
    pub fn render(&self, key: Key, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.text);
        let text = &mut out[start..];
        text[self.partition_at] = key.prefix;
        write_digits(&mut text[self.partition_at + 1..][..PARTITION_DIGITS], key.partition);
        write_digits(&mut text[self.row_at..][..ROW_DIGITS], key.row);
        write_digits(&mut text[self.count_at..][..COUNT_DIGITS], key.row % MATCHES_ONE_OF);
        let filler = self.text_of(key.row);
        text[self.filler_at..][..filler.len()].copy_from_slice(filler);
    }

    /// A window of the random text: neighbours on disk must not look alike, or compression would
    /// flatter the store.
    pub fn text_of(&self, row: u64) -> &[u8] {
        let bytes = ENTITY_BYTES - self.filler_at - 2;
        let at = Random::new(row).below(FILLER_BYTES as u64) as usize;
        &self.filler[at..at + bytes]
    }
}

fn filler(extra_bytes: usize) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
    let mut random = Random::new(1);
    (0..FILLER_BYTES + extra_bytes).map(|_| LETTERS[random.below(64) as usize]).collect()
}

fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn entity(family: Family, index: u64) -> Value {
        let mut text = Vec::new();
        EntityTemplate::new().render(family.key(index), &mut text);
        assert_eq!(text.len(), ENTITY_BYTES);
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn an_entity_is_json_with_its_own_keys() {
        let entity = entity(Family::Loaded, 1_234_567);
        assert_eq!(entity["PartitionKey"], "p001234");
        assert_eq!(entity["RowKey"], "r001234567");
        assert_eq!(entity["Count"], 100_067, "which one of a hundred has");
        assert_eq!(
            Family::Loaded.key(1_234_567).predicate(),
            "(PartitionKey='p001234',RowKey='r001234567')"
        );
    }

    #[test]
    fn entities_differ() {
        assert_ne!(entity(Family::Loaded, 1)["Text"], entity(Family::Loaded, 2)["Text"]);
    }

    #[test]
    fn a_batch_stays_in_its_partition() {
        for family in [Family::Loaded, Family::Batched, Family::Wide] {
            for batch in 0..50 {
                let first = family.key(batch * BATCH_ENTITIES);
                let last = family.key(batch * BATCH_ENTITIES + BATCH_ENTITIES - 1);
                assert_eq!(first.partition, last.partition);
            }
        }
    }

    #[test]
    fn inserts_change_their_partition_each_time() {
        assert_ne!(Family::Inserted.key(0).partition, Family::Inserted.key(1).partition);
        assert_eq!(Family::Hot.key(0).partition, Family::Hot.key(1).partition);
        assert_eq!(Family::Wide.key(7).partition_key(), WIDE_PARTITION);
    }
}
