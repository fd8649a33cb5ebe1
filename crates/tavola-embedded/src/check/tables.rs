//! The table files, one after another where their keys allow it, and every block in them.

use std::cmp::Reverse;
use std::fs;
use std::path::PathBuf;
use std::vec::IntoIter;

use crate::check::Progress;
use crate::check::inventory::{TableEntry, engine_file};
use crate::check::report::{Loss, Report, key_text, span_text};
use crate::files::batch::{Entry, RangeDeletion};
use crate::files::name_of;
use crate::files::structure::{DataBlock, Part, Structure};

/// Table files in which keys only ascend, one after another.
pub(super) type FilesInOrder = Vec<Bounded>;

/// A table file and the keys between which its own lie.
#[derive(Debug)]
pub(super) struct Bounded {
    first: Vec<u8>,
    last: Vec<u8>,
    path: PathBuf,
}

/// Arranges the files in as few chains as their overlaps allow, and looks at everything in them but the rows.
pub(super) fn chains(tables: &[TableEntry], ranges: &mut Vec<RangeDeletion>, report: &mut Report) -> Vec<FilesInOrder> {
    let mut bounds: Vec<_> = tables.iter().filter_map(|table| look_at(table, ranges, report)).collect();
    bounds.sort_by(|one, other| one.first.cmp(&other.first));
    let mut chains: Vec<FilesInOrder> = Vec::new();
    for file in bounds {
        let fits = |chain: &&mut FilesInOrder| chain.last().is_some_and(|last| last.last < file.first);
        match chains.iter_mut().find(fits) {
            Some(chain) => chain.push(file),
            None => chains.push(vec![file]),
        }
    }
    chains
}

fn look_at(table: &TableEntry, ranges: &mut Vec<RangeDeletion>, report: &mut Report) -> Option<Bounded> {
    let name = name_of(&table.path);
    report.counts.files += 1;
    let structure = match Structure::read(&table.path) {
        Ok(structure) => structure,
        Err(flaw) => {
            let bytes = fs::metadata(&table.path).map_or(0, |file| file.len());
            let keys = table.recorded.as_ref().map(|live| span_text(&live.smallest, Some(&live.largest)));
            let loss = Loss { rows: None, bytes, keys: keys.unwrap_or_default() };
            report.lost(engine_file(&name, Some(0)), format!("nothing in it can be read: {}", flaw.into_text()), loss);
            return None;
        }
    };
    report.counts.bytes += structure.file.bytes;
    report.counts.blocks += structure.other_blocks;
    if let Some(live) = table.recorded.as_ref().filter(|live| live.bytes != structure.file.bytes) {
        let what = format!("it has {} bytes, and {} were recorded", structure.file.bytes, live.bytes);
        report.damage(engine_file(&name, None), what);
    }
    for flaw in &structure.flaws {
        let what = format!("the {}: {}", flaw.part.name(), flaw.what);
        let place = engine_file(&name, Some(flaw.offset));
        match flaw.part {
            Part::DeletedRanges => report.lost(place, what, loss_of_ranges(flaw.bytes)),
            _ => report.damage(place, what),
        }
    }
    ranges.extend(structure.range_deletions.iter().map(|range| within(range, table)));
    let first_block = structure.data.first().and_then(|block| structure.entries_of(block).ok());
    let first = first_block.and_then(|entries| Some(entries.first()?.key.clone()));
    let last = structure.data.last().and_then(|block| block.up_to.clone());
    let (recorded_first, recorded_last) =
        table.recorded.as_ref().map(|live| (live.smallest.clone(), live.largest.clone())).unzip();
    Some(Bounded {
        first: recorded_first.or(first).unwrap_or_default(),
        last: recorded_last.or(last).unwrap_or_default(),
        path: table.path.clone(),
    })
}

fn loss_of_ranges(bytes: u64) -> Loss {
    Loss { rows: None, bytes, keys: "rows of dropped tables may come back; no living table has any there".to_owned() }
}

/// A deleted range counts within the bounds of its file only: beyond them other files were rewritten without it.
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
    blocks: IntoIter<DataBlock>,
    entries: IntoIter<Entry>,
    entries_read: u64,
    bytes_read: u64,
    last: Option<(Vec<u8>, u64)>,
    /// Where rows are missing, for the loss that is known at the end of the file.
    lost: Vec<(DataBlock, String)>,
}

impl Chain {
    pub(super) fn new(files: FilesInOrder) -> Self {
        Self { files: files.into_iter(), open: None }
    }

    pub(super) fn next(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<Entry> {
        loop {
            if let Some(open) = &mut self.open {
                if let Some(entry) = open.next(report, progress) {
                    return Some(entry);
                }
                open.finish(report, progress);
            }
            // What is wrong with the file as a whole was reported when it was looked at first.
            self.open = Structure::read(&self.files.next()?.path).ok().map(OpenTable::new);
        }
    }
}

impl OpenTable {
    fn new(mut structure: Structure) -> Self {
        let blocks = std::mem::take(&mut structure.data).into_iter();
        let entries = Vec::new().into_iter();
        Self { structure, blocks, entries, entries_read: 0, bytes_read: 0, last: None, lost: Vec::new() }
    }

    fn next(&mut self, report: &mut Report, progress: &mut dyn Progress) -> Option<Entry> {
        loop {
            if let Some(entry) = self.entries.next() {
                self.check_order(&entry, report);
                self.entries_read += 1;
                return Some(entry);
            }
            let block = self.blocks.next()?;
            let bytes = block.handle.end() - block.handle.offset;
            progress.advance(bytes);
            self.bytes_read += bytes;
            match self.structure.entries_of(&block) {
                Ok(entries) => {
                    report.counts.blocks += 1;
                    self.entries = entries.into_iter();
                }
                Err(flaw) => self.lost.push((block, flaw.into_text())),
            }
        }
    }

    /// Checksums say that bytes are those that were written, not that they were written to the right file.
    fn check_order(&mut self, entry: &Entry, report: &mut Report) {
        if let Some((key, sequence)) = &self.last
            && (&entry.key, Reverse(entry.sequence)) <= (key, Reverse(*sequence))
        {
            let place = engine_file(&self.structure.file.name(), None);
            report.damage(place, format!("its keys do not ascend at ({})", key_text(&entry.key)));
        }
        self.last = Some((entry.key.clone(), entry.sequence));
    }

    fn finish(&mut self, report: &mut Report, progress: &mut dyn Progress) {
        progress.advance(self.structure.file.bytes.saturating_sub(self.bytes_read));
        let name = self.structure.file.name();
        let missing = self.structure.entries.map(|expected| expected.saturating_sub(self.entries_read));
        let mut rows = missing;
        let is_one = self.lost.len() == 1;
        for (block, what) in self.lost.drain(..) {
            let bytes = block.handle.end() - block.handle.offset;
            let keys = span_text(&block.above, block.up_to.as_deref());
            // The properties count the rows of the file, not of each block.
            let loss = Loss { rows: rows.take(), bytes, keys };
            let together = if is_one { "" } else { " (the count is for all such blocks of the file)" };
            report.lost(
                engine_file(&name, Some(block.handle.offset)),
                format!("a block of rows: {what}{together}"),
                loss,
            );
        }
        if let Some(missing) = rows.filter(|missing| *missing > 0) {
            let what = format!("{missing} of its entries are not in any block that can be found");
            report.lost(engine_file(&name, None), what, Loss { rows: Some(missing), ..Loss::default() });
        }
    }
}
