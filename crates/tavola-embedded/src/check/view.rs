//! The rows of a data folder, read without the engine: all table files and logs merged, the newest version of each key.
//!
//! Damaged parts are passed over and reported; everything else is there. Memory holds one block per table file that
//! overlaps others, and the writes of the logs, which the engine bounds.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tavola_core::EntityView;
use tavola_store::RowRef;

use crate::check::Progress;
use crate::check::inventory::Inventory;
use crate::check::logs::read_logs;
use crate::check::report::Report;
use crate::check::tables::{Chain, chains};
use crate::files::batch::{Entry, Kind};

/// Gets the key and the value of a row, and where to report what is wrong with it.
pub(crate) type OnRow<'a> = dyn FnMut(&[u8], &[u8], &mut Report) + 'a;

/// Reads every row that is there, in the order of keys.
pub(crate) fn for_each_row(
    inventory: &Inventory,
    report: &mut Report,
    progress: &mut dyn Progress,
    row: &mut OnRow<'_>,
) {
    let mut ranges = Vec::new();
    let chains = chains(&inventory.tables, &mut ranges, report);
    let written = read_logs(inventory, &mut ranges, report, progress);
    let mut merge = Merge::default();
    merge.add(Source::Logs(written.into_iter()), report, progress);
    for chain in chains {
        merge.add(Source::Tables(Box::new(Chain::new(chain))), report, progress);
    }
    while let Some(newest) = merge.next_key(report, progress) {
        let Kind::Put(value) = &newest.kind else { continue };
        let is_gone = ranges
            .iter()
            .any(|range| range.sequence > newest.sequence && range.start <= newest.key && newest.key < range.end);
        if !is_gone {
            row(&newest.key, value, report);
        }
    }
}

/// One ascending sequence of versions.
enum Source {
    Logs(std::vec::IntoIter<Entry>),
    Tables(Box<Chain>),
}

impl Source {
    fn next(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<Entry> {
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
}

/// The first of a source. The heap gives the smallest key first.
struct Head {
    entry: Entry,
    source: usize,
}

impl Merge {
    fn add(&mut self, mut source: Source, report: &mut Report, progress: &mut dyn Progress) {
        let first = source.next(report, progress);
        let index = self.sources.len();
        self.sources.push(source);
        self.heap.extend(first.map(|entry| Head { entry, source: index }));
    }

    fn pop(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<Entry> {
        let Head { entry, source } = self.heap.pop()?;
        let next = self.sources[source].next(report, progress);
        self.heap.extend(next.map(|entry| Head { entry, source }));
        Some(entry)
    }

    /// The newest version of the next key.
    fn next_key(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<Entry> {
        let mut newest = self.pop(report, progress)?;
        while self.heap.peek().is_some_and(|head| head.entry.key == newest.key) {
            if let Some(other) = self.pop(report, progress)
                && is_newer(&other, &newest)
            {
                newest = other;
            }
        }
        Some(newest)
    }
}

/// The engine forgets the sequence number of what is the oldest version of its key. As long as the record of files says
/// which files count, that is right; without it, files that no longer count may hold an older version with a number, and
/// our own version in the row tells.
fn is_newer(one: &Entry, other: &Entry) -> bool {
    let version = |entry: &Entry| match &entry.kind {
        Kind::Put(value) => RowRef::new("", "", value).ok().map(|row| row.timestamp()),
        Kind::Delete => None,
    };
    let by_version = version(one).zip(version(other)).map(|(one, other)| one > other);
    let numbers_tell = one.sequence > 0 && other.sequence > 0;
    by_version.filter(|_| !numbers_tell).unwrap_or(one.sequence > other.sequence)
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
