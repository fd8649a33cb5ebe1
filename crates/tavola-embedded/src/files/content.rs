//! What a block that is not an index holds.

use super::batch::{RANGE_DELETE, RangeDeletion};
use super::block::{IndexForm, entries, pairs};
use super::bytes::Bytes;
use super::manifest::split_key;

/// What a block that was found by its checksum holds.
pub(super) enum Content {
    Rows { last: Vec<u8> },
    Properties(Properties),
    DeletedRanges(Vec<RangeDeletion>),
    Other,
}

impl Content {
    pub(super) fn of(block: &[u8]) -> Self {
        let Some(pairs) = pairs(block).filter(|pairs| !pairs.is_empty()) else {
            return Self::Other;
        };
        if let Some(properties) = Properties::of(&pairs) {
            return Self::Properties(properties);
        }
        if let Some(rows) = entries(block) {
            let ascending = rows.windows(2).all(|pair| pair[0].key <= pair[1].key);
            let last = rows.into_iter().next_back().filter(|_| ascending);
            return last.map_or(Self::Other, |last| Self::Rows { last: last.key });
        }
        pairs
            .into_iter()
            .map(range_deletion)
            .collect::<Option<_>>()
            .map_or(Self::Other, Self::DeletedRanges)
    }
}

/// What the properties of a file say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Properties {
    pub(super) form: TableForm,
    /// How many entries its blocks of rows have.
    pub(crate) entries: u64,
    pub(crate) range_deletions: u64,
    /// The number that the file was written under.
    pub(crate) number: Option<u64>,
}

/// How its indexes are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableForm {
    pub(super) index: IndexForm,
    pub(super) two_levels: bool,
}

impl TableForm {
    /// What our options ask for.
    pub(super) const OURS: Self = Self {
        index: IndexForm { keys_have_trailer: false, values_are_differences: true },
        two_levels: true,
    };
}

impl Properties {
    pub(super) fn of(pairs: &[(Vec<u8>, &[u8])]) -> Option<Self> {
        const TWO_LEVELS: u32 = 2;
        let value = |name: &str| {
            pairs.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| Bytes(value))
        };
        // A property that is not there is zero.
        let number = |name: &str| value(name).map_or(Some(0), |mut value| value.varint64());
        let index_type = value("rocksdb.block.based.table.index.type")?.fixed32()?;
        let (entries, range_deletions) =
            (number("rocksdb.num.entries")?, number("rocksdb.num.range-deletions")?);
        let index = IndexForm {
            keys_have_trailer: number("rocksdb.index.key.is.user.key")? == 0,
            values_are_differences: number("rocksdb.index.value.is.delta.encoded")? != 0,
        };
        Some(Self {
            form: TableForm { index, two_levels: index_type == TWO_LEVELS },
            entries: entries.checked_sub(range_deletions)?,
            range_deletions,
            number: value("rocksdb.original.file.number").and_then(|mut number| number.varint64()),
        })
    }
}

pub(super) fn range_deletion((key, end): (Vec<u8>, &[u8])) -> Option<RangeDeletion> {
    let (start, trailer) = split_key(&key)?;
    (trailer as u8 == RANGE_DELETE).then(|| RangeDeletion {
        start: start.to_vec(),
        end: end.to_vec(),
        sequence: trailer >> 8,
    })
}
