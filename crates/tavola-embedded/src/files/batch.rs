//! The writes of a write-ahead log: one record is one batch, which was applied whole.
//!
//! ```text
//! sequence  8 bytes  of the first change; each further one has the next
//! count     4 bytes
//! per change: kind (1 byte), key, and for a put the value, for a range its end; each with a varint length
//! ```

use super::bytes::Bytes;

/// What was done to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Put(Vec<u8>),
    Delete,
}

/// A version of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    /// Later ones are newer. 0 once no older version can exist.
    pub(crate) sequence: u64,
    pub(crate) kind: Kind,
}

/// Everything from `start` up to `end` that is older is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeDeletion {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) sequence: u64,
}

/// One write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) sequence: u64,
    /// The sequence number of the next write.
    pub(crate) sequence_next: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) range_deletions: Vec<RangeDeletion>,
}

/// Kinds of entries, in logs and in table files.
pub(super) const DELETE: u8 = 0;
pub(super) const PUT: u8 = 1;
/// A deletion of a key that was written once. We never ask for it.
pub(super) const SINGLE_DELETE: u8 = 7;
pub(super) const RANGE_DELETE: u8 = 0xf;

impl Batch {
    /// Takes a record's payload apart; `None` if it is not a batch as our group commit makes them.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(payload);
        let (sequence, count) = (bytes.fixed64()?, bytes.fixed32()?);
        let sequence_next = sequence.checked_add(u64::from(count))?;
        let mut batch = Self { sequence, sequence_next, ..Self::default() };
        for sequence in sequence..sequence_next {
            let (kind, key) = (bytes.byte()?, bytes.prefixed()?.to_vec());
            match kind {
                PUT => {
                    let kind = Kind::Put(bytes.prefixed()?.to_vec());
                    batch.entries.push(Entry { key, sequence, kind });
                }
                DELETE => batch.entries.push(Entry { key, sequence, kind: Kind::Delete }),
                RANGE_DELETE => {
                    let end = bytes.prefixed()?.to_vec();
                    batch.range_deletions.push(RangeDeletion { start: key, end, sequence });
                }
                _ => return None,
            }
        }
        bytes.is_empty().then_some(batch)
    }
}

#[cfg(test)]
mod tests {
    use rocksdb::WriteBatch;

    use super::*;

    fn put(key: &[u8], sequence: u64, value: &[u8]) -> Entry {
        Entry { key: key.to_vec(), sequence, kind: Kind::Put(value.to_vec()) }
    }

    /// As the engine writes it, with a sequence number that the engine would give.
    fn sample() -> Vec<u8> {
        let mut batch = WriteBatch::default();
        batch.put(b"a", b"one");
        batch.delete(b"b");
        batch.delete_range(b"c".to_vec(), b"d".to_vec());
        batch.put(b"e", vec![7; 300]);
        let mut payload = batch.data().to_vec();
        payload[..8].copy_from_slice(&41_u64.to_le_bytes());
        payload
    }

    #[test]
    fn a_batch_of_the_engine() {
        let batch = Batch::decode(&sample()).unwrap();
        assert_eq!((batch.sequence, batch.sequence_next), (41, 45));
        let deleted = Entry { key: b"b".to_vec(), sequence: 42, kind: Kind::Delete };
        assert_eq!(batch.entries, [put(b"a", 41, b"one"), deleted, put(b"e", 44, &[7; 300])]);
        let range = RangeDeletion { start: b"c".to_vec(), end: b"d".to_vec(), sequence: 43 };
        assert_eq!(batch.range_deletions, [range]);
    }

    #[test]
    fn what_is_not_whole_is_no_batch() {
        let sample = sample();
        for end in 0..sample.len() {
            assert_eq!(Batch::decode(&sample[..end]), None, "cut at {end}");
        }
        assert_eq!(Batch::decode(&[&sample[..], &[0]].concat()), None, "more than was counted");
        let mut other = sample;
        other[12] = 2;
        assert_eq!(Batch::decode(&other), None, "a kind that we do not write");
    }
}
