//! The table files, one after another where their keys allow it, and every block in them.

use std::cmp::Reverse;
use std::fs;
use std::vec::IntoIter;

use crate::check::Progress;
use crate::check::inventory::{TableEntry, engine_file};
use crate::check::missing::{Account, loss_of_file, recorded, report_flaws, report_other};
use crate::check::report::{Loss, Report, key_text};
use crate::files::batch::{Entry, RangeDeletion};
use crate::files::name_of;
use crate::files::structure::{DataBlock, Structure};

/// Table files in which keys only ascend, one after another.
pub(super) type FilesInOrder = Vec<Bounded>;

/// A table file and the range of its keys.
#[derive(Debug)]
pub(super) struct Bounded {
    first: Vec<u8>,
    last: Vec<u8>,
    table: TableEntry,
}

/// Arranges the files in as few chains as their overlaps allow, and looks at everything in them but
/// the rows.
pub(super) fn chains(
    tables: &[TableEntry],
    ranges: &mut Vec<RangeDeletion>,
    report: &mut Report,
) -> Vec<FilesInOrder> {
    let mut bounds: Vec<_> =
        tables.iter().filter_map(|table| look_at(table, ranges, report)).collect();
    bounds.sort_by(|one, other| one.first.cmp(&other.first));
    let mut chains: Vec<FilesInOrder> = Vec::new();
    for file in bounds {
        let fits =
            |chain: &&mut FilesInOrder| chain.last().is_some_and(|last| last.last < file.first);
        match chains.iter_mut().find(fits) {
            Some(chain) => chain.push(file),
            None => chains.push(vec![file]),
        }
    }
    chains
}

fn look_at(
    table: &TableEntry,
    ranges: &mut Vec<RangeDeletion>,
    report: &mut Report,
) -> Option<Bounded> {
    let name = name_of(&table.path);
    report.counts.files += 1;
    let structure = match Structure::read(&table.path) {
        Ok(structure) => structure,
        Err(flaw) => {
            let bytes = fs::metadata(&table.path).map_or(0, |file| file.len());
            let unknown = Loss { rows: None, bytes, keys: String::new() };
            let loss = table.recorded.as_ref().map_or(unknown, loss_of_file);
            report.lost(
                engine_file(&name, Some(0)),
                format!("nothing in it can be read: {}", flaw.into_text()),
                loss,
            );
            return None;
        }
    };
    report.counts.bytes += structure.file.bytes;
    report.counts.blocks += structure.other_blocks;
    report.has_zstd |=
        structure.data.first().is_some_and(|block| structure.file.is_zstd(block.handle));
    report_other(&structure, table, report);
    report_flaws(&structure, report);
    ranges.extend(structure.range_deletions.iter().map(|range| within(range, table)));
    let first_block = structure.data.first().and_then(|block| structure.entries_of(block).ok());
    let first = first_block.and_then(|entries| Some(entries.first()?.key.clone()));
    let last = structure.data.last().and_then(|block| block.up_to.clone());
    let (recorded_first, recorded_last) = recorded(&structure, table)
        .map(|live| (live.smallest.clone(), live.largest.clone()))
        .unzip();
    Some(Bounded {
        first: recorded_first.or(first).unwrap_or_default(),
        last: recorded_last.or(last).unwrap_or_default(),
        table: table.clone(),
    })
}

/// A deleted range counts within the bounds of its file only: beyond them other files were
/// rewritten without it.
fn within(range: &RangeDeletion, table: &TableEntry) -> RangeDeletion {
    let mut range = range.clone();
    if let Some(live) = &table.recorded {
        range.start = range.start.max(live.smallest.clone());
        let mut last = live.largest.clone();
        if !live.largest_is_bound {
            last.push(0);
        }
        range.end = range.end.min(last);
    }
    range
}

/// Table files one after another, one block of one of them in memory.
pub(super) struct Chain {
    files: IntoIter<Bounded>,
    open: Option<OpenTable>,
}

struct OpenTable {
    structure: Structure,
    table: TableEntry,
    blocks: IntoIter<DataBlock>,
    entries: IntoIter<Entry>,
    bytes_shown: u64,
    last: Option<(Vec<u8>, u64)>,
    account: Account,
}

impl Chain {
    pub(super) fn new(files: FilesInOrder) -> Self {
        Self { files: files.into_iter(), open: None }
    }

    /// The next entry, and the number of the file in which it is.
    pub(super) fn next(
        &mut self,
        report: &mut Report,
        progress: &mut dyn Progress,
    ) -> Option<(Entry, u64)> {
        loop {
            if let Some(open) = &mut self.open
                && let Some(entry) = open.next(report, progress)
            {
                return Some((entry, open.table.number));
            }
            if let Some(done) = self.open.take() {
                done.finish(report, progress);
            }
            let table = self.files.next()?.table;
            // What is wrong with the file as a whole was reported when it was looked at first.
            self.open =
                Structure::read(&table.path).ok().map(|structure| OpenTable::new(structure, table));
        }
    }
}

impl OpenTable {
    fn new(structure: Structure, table: TableEntry) -> Self {
        let (blocks, entries) = (structure.data.clone().into_iter(), Vec::new().into_iter());
        Self {
            structure,
            table,
            blocks,
            entries,
            bytes_shown: 0,
            last: None,
            account: Account::default(),
        }
    }

    fn next(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<Entry> {
        loop {
            if let Some(entry) = self.entries.next() {
                self.check_order(&entry, report);
                self.account.entries_read += 1;
                return Some(entry);
            }
            let block = self.blocks.next()?;
            let bytes = block.handle.end() - block.handle.offset;
            progress.advance(bytes);
            self.bytes_shown += bytes;
            match self.structure.entries_of(&block) {
                Ok(entries) => {
                    report.counts.blocks += 1;
                    self.account.bytes_read += bytes;
                    self.entries = entries.into_iter();
                }
                Err(flaw) => self.account.lost.push((block, flaw.into_text())),
            }
        }
    }

    /// Checksums say that bytes are those that were written, not that they were written to the
    /// right file.
    fn check_order(&mut self, entry: &Entry, report: &mut Report) {
        if let Some((key, sequence)) = &self.last
            && (&entry.key, Reverse(entry.sequence)) <= (key, Reverse(*sequence))
        {
            let place = engine_file(&self.structure.file.name(), None);
            report.damage(place, format!("its keys do not ascend at ({})", key_text(&entry.key)));
        }
        self.last = Some((entry.key.clone(), entry.sequence));
    }

    fn finish(self, report: &mut Report, progress: &mut dyn Progress) {
        progress.advance(self.structure.file.bytes.saturating_sub(self.bytes_shown));
        self.account.report(&self.structure, &self.table, report);
    }
}
