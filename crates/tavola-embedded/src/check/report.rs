//! What was found, in words and numbers that a person or a script can use.

use std::collections::BTreeMap;
use std::fmt;

use tavola_core::TableId;
use tavola_store::keys::decode_key;

/// Findings beyond this many are only counted: a disk of garbage must not fill memory with
/// sentences.
const FINDINGS_MAX: usize = 10_000;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Bytes are not what was written: data is missing, wrong or in danger.
    Damage,
    /// Worth knowing, and no danger to data.
    Note,
}

/// Where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of the folder, by its path in it.
    File {
        /// Such as `store/000012.sst`.
        name: String,
        /// The first byte that is concerned; `None` for the file as a whole.
        offset: Option<u64>,
    },
    /// A row, by its key in words.
    Row(String),
    /// The catalogue of tables.
    Catalogue,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, offset: Some(offset) } => write!(f, "{name} at byte {offset}"),
            Self::File { name, offset: None } => f.write_str(name),
            Self::Row(key) => f.write_str(key),
            Self::Catalogue => f.write_str("the catalogue of tables"),
        }
    }
}

/// What cannot be read any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// At most so many rows are missing, older than they were, or there although they were deleted;
    /// `None` if nothing says how many.
    pub rows: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
    /// In words: which tables and keys may be concerned; empty if nothing says.
    pub keys: String,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// What.
    pub what: String,
    /// What a repair could not save; `None` if nothing of the data is lost by it.
    pub loss: Option<Loss>,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that were read to their end.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks of table files whose checksum was verified.
    pub blocks: u64,
    /// Records of logs whose checksum was verified.
    pub log_records: u64,
    /// Rows that clients or the service can read.
    pub rows: u64,
}

/// All that was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// In the order in which they were found.
    pub findings: Vec<Finding>,
    /// Further findings that were only counted.
    pub findings_left_off: u64,
    /// How much was looked at.
    pub counts: Counts,
    /// What is lost, all findings together.
    pub losses: Losses,
    /// The bytes of all rows that can be read, not packed.
    pub row_bytes: u64,
    /// The bytes of the files in which they are.
    pub file_bytes: u64,
    /// True if a file is packed with zstd.
    pub has_zstd: bool,
    /// The rows of each table, the service's own included.
    pub rows_by_table: BTreeMap<TableId, u64>,
    /// True if the record of files cannot be relied on, so that table files and logs were read that
    /// it does not name: what they hold may have been deleted since, and a file that is missing as
    /// a whole is not noticed.
    pub files_unknown: bool,
    /// True if it is not known how far writes were acknowledged, so that a log which lost its end,
    /// or only the last group of writes, is not noticed.
    pub log_end_unknown: bool,
}

/// What cannot be read any more, summed up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// At most so many rows, where that can be known.
    pub rows_max: u64,
    /// Places where nothing says how many.
    pub unknown: u64,
}

impl Report {
    /// True if something is not what was written.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.findings_left_off > 0
            || self.findings.iter().any(|finding| finding.severity == Severity::Damage)
    }

    /// At most so many rows are missing, older than they were, or there although they were deleted,
    /// as far as can be seen; `None` if nothing says how many.
    #[must_use]
    pub fn rows_lost_max(&self) -> Option<u64> {
        (self.losses.unknown == 0).then_some(self.losses.rows_max)
    }

    /// Adds one.
    pub fn add(&mut self, finding: Finding) {
        match finding.loss.as_ref().map(|loss| loss.rows) {
            Some(Some(rows)) => self.losses.rows_max = self.losses.rows_max.saturating_add(rows),
            Some(None) => self.losses.unknown += 1,
            None => {}
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.findings_left_off += 1;
        }
    }

    pub(crate) fn damage(&mut self, place: Place, what: impl Into<String>) {
        self.add(Finding { severity: Severity::Damage, place, what: what.into(), loss: None });
    }

    pub(crate) fn lost(&mut self, place: Place, what: impl Into<String>, loss: Loss) {
        self.add(Finding {
            severity: Severity::Damage,
            place,
            what: what.into(),
            loss: Some(loss),
        });
    }

    pub(crate) fn note(&mut self, place: Place, what: impl Into<String>) {
        self.add(Finding { severity: Severity::Note, place, what: what.into(), loss: None });
    }
}

/// Key bytes in words. Bounds of blocks may be cut short anywhere, and damaged ones may be
/// anything.
pub(crate) fn key_text(key: &[u8]) -> String {
    if let Ok(key) = decode_key(key) {
        return format!(
            "table {}, PartitionKey {:?}, RowKey {:?}",
            key.table.number(),
            key.partition_key,
            key.row_key
        );
    }
    match key.split_first_chunk::<8>() {
        Some((table, [])) => format!("table {}", u64::from_be_bytes(*table)),
        Some((table, rest)) => {
            format!("table {}, key bytes {}", u64::from_be_bytes(*table), rest.escape_ascii())
        }
        None => format!("key bytes {}", key.escape_ascii()),
    }
}

/// The keys above one and up to another, in words.
pub(crate) fn span_text(above: &[u8], up_to: Option<&[u8]>) -> String {
    match (above, up_to) {
        ([], None) => "any keys".to_owned(),
        ([], Some(up_to)) => format!("keys up to ({})", key_text(up_to)),
        (above, None) => format!("keys above ({})", key_text(above)),
        (above, Some(up_to)) => {
            format!("keys above ({}) up to ({})", key_text(above), key_text(up_to))
        }
    }
}
