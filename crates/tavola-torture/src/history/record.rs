//! What was asked, what was answered, and when.
//!
//! Everything is small numbers: partitions and rows count from zero and their keys sort likewise;
//! every write has a number of its own and writes that number into the properties that it sets, so
//! that a reader sees which client wrote what.

use std::fmt;
use std::ops::Range;

/// The properties that entities have. Every write sets the first, so it tells which write made this
/// version.
pub(super) const PROPERTIES: [&str; 5] = ["Last", "A", "B", "C", "D"];

/// The version of an entity in ticks; its ETag and its Timestamp are two texts of it.
pub(super) type Version = u64;

/// Nanoseconds since the seed began.
pub(super) type Moment = u64;

/// After everything.
pub(super) const NEVER: Moment = Moment::MAX;

/// For each property the number of the write that set it; 0 if it is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Content(pub(super) [u32; PROPERTIES.len()]);

impl Content {
    /// The number of the write that made this version.
    pub(super) fn last(self) -> u32 {
        self.0[0]
    }

    /// This content with what a newer write sets.
    pub(super) fn merged(mut self, newer: Self) -> Self {
        for (mine, new) in self.0.iter_mut().zip(newer.0) {
            if new != 0 {
                *mine = new;
            }
        }
        self
    }
}

/// An entity as a reader saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entity {
    pub(super) content: Content,
    pub(super) version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Replace,
    Merge,
    Delete,
}

/// `If-Match`: none, `*`, or a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    None,
    Exists,
    Version(Version),
}

/// One operation on one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) row: u8,
    pub(super) verb: Verb,
    pub(super) condition: Condition,
    /// What it sets; nothing for a delete.
    pub(super) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    Get(u8),
    /// One write, or a batch.
    Write(Vec<Write>),
    /// These rows, within one page of a scan.
    Page(Range<u8>),
}

/// Why a write was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DomainError {
    /// 409 `EntityAlreadyExists`
    Exists,
    /// 404 `ResourceNotFound`
    Missing,
    /// 412 `UpdateConditionNotSatisfied`
    Changed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Found(Option<Entity>),
    /// Every row of the page, in order.
    Rows(Vec<(u8, Entity)>),
    /// Done; the version that each operation was told, none for a delete.
    Written(Vec<Option<Version>>),
    /// Nothing was written, because this operation could not be done.
    Refused(usize, DomainError),
    /// No answer came.
    Unknown,
}

/// One call on one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) client: u8,
    pub(super) partition: u8,
    pub(super) ask: Ask,
    pub(super) answer: Answer,
    pub(super) invoked: Moment,
    /// When the answer came. Of a call without one: when the process that might have done it was
    /// dead.
    pub(super) returned: Moment,
}

impl Call {
    /// The writes that took effect, or may have.
    pub(super) fn possible_writes(&self) -> &[Write] {
        match (&self.ask, &self.answer) {
            (Ask::Write(writes), Answer::Written(_) | Answer::Unknown) => writes,
            _ => &[],
        }
    }
}

/// A place in a table: partition, row.
pub(super) type Place = (u8, u8);

/// One page of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) invoked: Moment,
    pub(super) returned: Moment,
    /// What it covers: from the scan's position to where the server said to go on.
    pub(super) covers: Range<Place>,
    pub(super) entities: Vec<(Place, Entity)>,
}

/// A whole scan, of one partition or of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) client: u8,
    /// `$top`
    pub(super) top: usize,
    pub(super) pages: Vec<Page>,
}

impl Page {
    /// What the page says about each partition, as a call of its own: a page is one moment of a
    /// partition.
    pub(super) fn calls(&self, client: u8, rows: u8) -> Vec<Call> {
        let (from, to) = (self.covers.start, self.covers.end);
        let partitions = from.0..=to.0;
        let calls = partitions.filter_map(|partition| {
            let first = if partition == from.0 { from.1 } else { 0 };
            let end = if partition == to.0 { to.1 } else { rows };
            let seen = self.entities.iter().filter(|((of, _), _)| *of == partition);
            let seen: Vec<(u8, Entity)> = seen.map(|((_, row), entity)| (*row, *entity)).collect();
            (first < end || !seen.is_empty()).then_some(Call {
                client,
                partition,
                ask: Ask::Page(first..end),
                answer: Answer::Rows(seen),
                invoked: self.invoked,
                returned: self.returned,
            })
        });
        calls.collect()
    }
}

/// Everything that happened with one seed.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) partitions: u8,
    pub(super) rows: u8,
    pub(super) kills: u64,
    /// Gets and writes.
    pub(super) calls: Vec<Call>,
    pub(super) scans: Vec<Scan>,
}

impl Record {
    /// The calls of one partition in the order in which they were made, pages included.
    pub(super) fn of_partition(&self, partition: u8) -> Vec<Call> {
        let pages = self
            .scans
            .iter()
            .flat_map(|scan| scan.pages.iter().map(|page| page.calls(scan.client, self.rows)));
        let mut calls: Vec<Call> = self.calls.iter().cloned().chain(pages.flatten()).collect();
        calls.retain(|call| call.partition == partition);
        calls.sort_by_key(|call| (call.invoked, call.returned));
        calls
    }
}

/// `{Last 7, A 7, C 3}`
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = PROPERTIES.iter().zip(self.0).filter(|(_, number)| *number != 0);
        let words: Vec<String> = set.map(|(name, number)| format!("{name} {number}")).collect();
        write!(f, "{{{}}}", words.join(", "))
    }
}

/// The digits that differ between the versions of one seed.
fn short(version: Version) -> String {
    format!("v{:010}", version % 10_000_000_000)
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.content, short(self.version))
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match (self.verb, self.condition) {
            (Verb::Insert, _) => "insert",
            (Verb::Replace, Condition::None) => "insert-or-replace",
            (Verb::Replace, _) => "replace",
            (Verb::Merge, Condition::None) => "insert-or-merge",
            (Verb::Merge, _) => "merge",
            (Verb::Delete, _) => "delete",
        };
        write!(f, "{verb} r{:02}", self.row)?;
        match self.condition {
            Condition::None => {}
            Condition::Exists => write!(f, " if *")?,
            Condition::Version(version) => write!(f, " if {}", short(version))?,
        }
        if self.verb == Verb::Delete { Ok(()) } else { write!(f, " {}", self.content) }
    }
}

/// `client 3  1.234567 to 1.234999 s  get r02: {Last 7} v0123456789`
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |moment: Moment| {
            format!("{}.{:06}", moment / 1_000_000_000, moment / 1_000 % 1_000_000)
        };
        let returned = if self.returned == NEVER {
            "never".to_owned()
        } else {
            format!("{} s", seconds(self.returned))
        };
        write!(f, "client {:<2} {} to {returned}  ", self.client, seconds(self.invoked))?;
        match &self.ask {
            Ask::Get(row) => write!(f, "get r{row:02}")?,
            Ask::Page(rows) => write!(f, "page r{:02} to before r{:02}", rows.start, rows.end)?,
            Ask::Write(writes) => {
                let words: Vec<String> = writes.iter().map(Write::to_string).collect();
                let batch = if writes.len() > 1 { "batch: " } else { "" };
                write!(f, "{batch}{}", words.join("; "))?;
            }
        }
        match &self.answer {
            Answer::Found(None) => write!(f, " -> nothing"),
            Answer::Found(Some(entity)) => write!(f, " -> {entity}"),
            Answer::Rows(rows) => {
                let words: Vec<String> =
                    rows.iter().map(|(row, entity)| format!("r{row:02} {entity}")).collect();
                write!(f, " -> [{}]", words.join("; "))
            }
            Answer::Written(versions) => match versions.iter().flatten().next() {
                Some(version) => write!(f, " -> done, {}", short(*version)),
                None => write!(f, " -> done"),
            },
            Answer::Refused(index, domain_error) => {
                write!(f, " -> operation {index} refused: {domain_error:?}")
            }
            Answer::Unknown => write!(f, " -> no answer"),
        }
    }
}
