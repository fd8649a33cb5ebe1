//! The rows of a data folder, read without the engine: all table files and logs merged, the newest
//! version of each key.
//!
//! Damaged parts are passed over and reported; everything else is there. Memory holds one block per
//! table file that overlaps others, and the writes of the logs, which the engine bounds.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tavola_core::EntityView;
use tavola_store::RowRef;

use crate::check::Progress;
use crate::check::inventory::Inventory;
use crate::check::logs::{Written, read_logs, report_lost_end};
use crate::check::report::{Loss, Place, Report};
use crate::check::tables::{Chain, chains};
use crate::files::batch::{Entry, Kind};

/// Gets the key and the value of a row, and where to report what is wrong with it. False ends the
/// reading.
pub(crate) type OnRow<'a> = dyn FnMut(&[u8], &[u8], &mut Report) -> bool + 'a;

/// Reads every row that is there, in the order of keys.
pub(crate) fn for_each_row(
    inventory: &Inventory,
    report: &mut Report,
    progress: &mut dyn Progress,
    row: &mut OnRow<'_>,
) {
    let mut ranges = Vec::new();
    let chains = chains(&inventory.tables, &mut ranges, report);
    let Written { writes, sequence_next } = read_logs(inventory, &mut ranges, report, progress);
    let mut merge = Merge { files_unknown: inventory.files_unknown, ..Merge::default() };
    merge.add(Source::Logs(writes.into_iter()), report, progress);
    for chain in chains {
        merge.add(Source::Tables(Box::new(Chain::new(chain))), report, progress);
    }
    while let Some(newest) = merge.next_key(report, progress) {
        let Kind::Put(value) = &newest.kind else { continue };
        let is_gone = ranges.iter().any(|range| {
            range.sequence > newest.sequence && range.start <= newest.key && newest.key < range.end
        });
        if !is_gone && !row(&newest.key, value, report) {
            return;
        }
    }
    report_lost_end(inventory, sequence_next, merge.highest_in_tables, report);
    merge.report_doubts(report);
}

/// One ascending sequence of versions.
enum Source {
    Logs(std::vec::IntoIter<(Entry, u64)>),
    Tables(Box<Chain>),
}

impl Source {
    fn next(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<(Entry, u64)> {
        match self {
            Self::Logs(writes) => writes.next(),
            Self::Tables(chain) => chain.next(report, progress),
        }
    }
}

/// Several sources as one.
#[derive(Default)]
struct Merge {
    sources: Vec<Source>,
    heap: BinaryHeap<Head>,
    files_unknown: bool,
    highest_in_tables: u64,
    /// Keys that were taken for deleted although nothing says which is newer, the row or its
    /// deletion.
    doubtful: u64,
}

/// The first of a source. The heap gives the smallest key first.
struct Head {
    entry: Entry,
    /// The number of the file in which it is.
    file: u64,
    source: usize,
}

impl Merge {
    fn add(&mut self, source: Source, report: &mut Report, progress: &mut dyn Progress) {
        self.sources.push(source);
        self.advance(self.sources.len() - 1, report, progress);
    }

    fn advance(&mut self, source: usize, report: &mut Report, progress: &mut dyn Progress) {
        let Some((entry, file)) = self.sources[source].next(report, progress) else { return };
        if matches!(self.sources[source], Source::Tables(_)) {
            self.highest_in_tables = self.highest_in_tables.max(entry.sequence);
        }
        self.heap.push(Head { entry, file, source });
    }

    fn pop(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<Head> {
        let head = self.heap.pop()?;
        self.advance(head.source, report, progress);
        Some(head)
    }

    /// The newest version of the next key.
    fn next_key(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<Entry> {
        let mut newest = self.pop(report, progress)?;
        let mut is_doubtful = false;
        while self.heap.peek().is_some_and(|head| head.entry.key == newest.entry.key) {
            let Some(other) = self.pop(report, progress) else { break };
            is_doubtful |=
                self.files_unknown && (is_doubt(&newest, &other) || is_doubt(&other, &newest));
            if is_newer(&other.entry, &newest.entry) {
                newest = other;
            }
        }
        self.doubtful += u64::from(is_doubtful && newest.entry.kind == Kind::Delete);
        Some(newest.entry)
    }

    fn report_doubts(&self, report: &mut Report) {
        if self.doubtful > 0 {
            let place = Place::File { name: "store".to_owned(), offset: None };
            let what = "rows are taken for deleted, and without the record of files nothing says whether they were written \
                        again later";
            report.lost(place, what, Loss { rows: Some(self.doubtful), ..Loss::default() });
        }
    }
}

/// The engine forgets the sequence number of what is the oldest version of its key. As long as the
/// record of files says which files count, that is right; without it, files that no longer count
/// may hold an older version with a number, and our own version in the row decides.
fn is_newer(one: &Entry, other: &Entry) -> bool {
    let version = |entry: &Entry| match &entry.kind {
        Kind::Put(value) => RowRef::new("", "", value).ok().map(|row| row.timestamp()),
        Kind::Delete => None,
    };
    let by_version = version(one).zip(version(other)).map(|(one, other)| one > other);
    let numbers_tell = one.sequence > 0 && other.sequence > 0;
    by_version.filter(|_| !numbers_tell).unwrap_or(one.sequence > other.sequence)
}

/// True if a row without a number may be newer than a deletion that has one: the file of the
/// deletion may have been merged into that of the row. Then it is older; a file that was begun
/// later holds what came later.
fn is_doubt(deletion: &Head, row: &Head) -> bool {
    deletion.entry.kind == Kind::Delete
        && row.entry.kind != Kind::Delete
        && row.entry.sequence == 0
        && deletion.file < row.file
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other.entry.key.cmp(&self.entry.key).then(self.entry.sequence.cmp(&other.entry.sequence))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}
