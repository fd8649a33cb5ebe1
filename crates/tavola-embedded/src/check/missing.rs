//! What of a table file cannot be read: every range of bytes, and how many rows they had at most.

use std::ops::Range;

use crate::check::inventory::{TableEntry, engine_file};
use crate::check::report::{Loss, Report, span_text};
use crate::files::manifest::{LiveFile, rows_of_tail_max};
use crate::files::structure::{DataBlock, Part, Structure};

/// More rows a block cannot have: it is closed when it has 16 KiB or less before packing, and of a
/// row that shares most of its key with the one before at least these bytes are in it: three
/// lengths, one byte of the key, eight of its number and kind.
const BLOCK_ROWS_MAX: u64 = 16 * 1024 / 12 + 2;

/// What of a file was read, and what was not.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) entries_read: u64,
    /// Of blocks that could be read.
    pub(super) bytes_read: u64,
    /// Blocks that the index names and that are not what was written, and why.
    pub(super) lost: Vec<(DataBlock, String)>,
}

/// A part of a file that held rows, or may have.
struct Hole {
    bytes: Range<u64>,
    keys: String,
    what: String,
}

impl Account {
    /// Reports every part that cannot be read, and with the first of them how many rows are lost in
    /// all of them.
    pub(super) fn report(self, structure: &Structure, table: &TableEntry, report: &mut Report) {
        let name = structure.file.name();
        let recorded = recorded(structure, table);
        let holes = holes(structure, recorded, &self.lost);
        let mut rows = self.rows_max(structure, recorded, &holes);
        if rows == Some(0) {
            for hole in holes {
                report.damage(
                    engine_file(&name, Some(hole.bytes.start)),
                    format!("{}; no row is lost by it", hole.what),
                );
            }
            return;
        }
        if holes.is_empty() {
            let what = "entries of it are not in any block that can be found";
            return report.lost(engine_file(&name, None), what, Loss { rows, ..Loss::default() });
        }
        let together =
            if holes.len() == 1 { "" } else { " (the count is for all such parts of the file)" };
        for hole in holes {
            let bytes = hole.bytes.end - hole.bytes.start;
            // Counted once; that nothing can be known is said once too.
            let loss = Loss { rows, bytes, keys: hole.keys };
            rows = Some(0);
            report.lost(
                engine_file(&name, Some(hole.bytes.start)),
                format!("{}{together}", hole.what),
                loss,
            );
        }
    }

    /// At most so many rows of the file cannot be read; `None` if nothing says.
    fn rows_max(
        &self,
        structure: &Structure,
        recorded: Option<&LiveFile>,
        holes: &[Hole],
    ) -> Option<u64> {
        if let Some(properties) = structure.properties {
            return Some(properties.entries.saturating_sub(self.entries_read));
        }
        if holes.is_empty() {
            return Some(0);
        }
        let in_file = match recorded {
            Some(live) => Some(live.rows_max()),
            None if structure.rows_may_be_cut() => None,
            // What is not rows is among what was not read as rows.
            None => Some(rows_of_tail_max(structure.file.bytes.saturating_sub(self.bytes_read))),
        };
        let in_file = in_file.map(|rows| rows.saturating_sub(self.entries_read));
        let only_blocks = holes.len() == self.lost.len();
        let in_blocks = only_blocks.then(|| BLOCK_ROWS_MAX.saturating_mul(holes.len() as u64));
        in_file.into_iter().chain(in_blocks).min()
    }
}

/// What the record of files says about this very file.
pub(super) fn recorded<'a>(structure: &Structure, table: &'a TableEntry) -> Option<&'a LiveFile> {
    table.recorded.as_ref().filter(|live| !is_other(structure, table, live))
}

/// True if a whole file is there in the place of the one that was recorded.
fn is_other(structure: &Structure, table: &TableEntry, live: &LiveFile) -> bool {
    let has_other_number = structure
        .properties
        .and_then(|properties| properties.number)
        .is_some_and(|number| number != table.number);
    has_other_number || (structure.has_end && structure.file.bytes != live.bytes)
}

/// Reports a file that is not the one that was recorded under its name.
pub(super) fn report_other(structure: &Structure, table: &TableEntry, report: &mut Report) {
    let Some(live) = table.recorded.as_ref() else { return };
    let name = structure.file.name();
    if is_other(structure, table, live) {
        let what = format!(
            "another file is in its place: it has {} bytes, and {} were recorded",
            structure.file.bytes, live.bytes
        );
        return report.lost(engine_file(&name, None), what, loss_of_file(live));
    }
    if structure.file.bytes != live.bytes {
        let what =
            format!("it has {} bytes, and {} were recorded", structure.file.bytes, live.bytes);
        report.damage(engine_file(&name, None), what);
    }
}

/// All rows of a file.
pub(super) fn loss_of_file(live: &LiveFile) -> Loss {
    Loss {
        rows: Some(live.rows_max()),
        bytes: live.bytes,
        keys: span_text(&live.smallest, Some(&live.largest)),
    }
}

fn holes(
    structure: &Structure,
    recorded: Option<&LiveFile>,
    lost: &[(DataBlock, String)],
) -> Vec<Hole> {
    let rows_end = recorded.map(|live| live.bytes.saturating_sub(live.tail_bytes.unwrap_or(0)));
    let blocks = lost.iter().map(|(block, what)| Hole {
        bytes: block.handle.offset..block.handle.end(),
        keys: span_text(&block.above, block.up_to.as_deref()),
        what: format!("a block of rows: {what}"),
    });
    let had_rows = |range: &&Range<u64>| rows_end.is_none_or(|end| range.start < end);
    let unreadable = structure.unreadable.iter().filter(had_rows).map(|range| {
        let (above, up_to) = structure.keys_around(range);
        let what = "in these bytes, which may have been rows, no block can be found".to_owned();
        Hole { bytes: range.clone(), keys: span_text(above, up_to), what }
    });
    let cut = cut_off(structure, recorded, rows_end).map(|(bytes, what)| {
        let (above, _) = structure.keys_around(&bytes);
        let up_to = recorded.map(|live| live.largest.as_slice());
        Hole { keys: span_text(above, up_to), bytes, what }
    });
    blocks.chain(unreadable).chain(cut).collect()
}

/// What was cut off the end of a file, as far as it may have been rows.
fn cut_off(
    structure: &Structure,
    recorded: Option<&LiveFile>,
    rows_end: Option<u64>,
) -> Option<(Range<u64>, String)> {
    let end = structure.file.bytes;
    match (recorded, rows_end) {
        (Some(_), Some(rows_end)) if end < rows_end && structure.rows_may_be_cut() => {
            Some((end..rows_end, "here the file was cut off, and rows followed".to_owned()))
        }
        (None, _) if structure.rows_may_be_cut() => Some((
            end..end,
            "nothing says whether rows were cut off the end of the file".to_owned(),
        )),
        _ => None,
    }
}

/// Reports what is wrong with everything but the rows.
pub(super) fn report_flaws(structure: &Structure, report: &mut Report) {
    let name = structure.file.name();
    for flaw in &structure.flaws {
        let what = format!("the {}: {}", flaw.part.name(), flaw.what);
        report.damage(engine_file(&name, Some(flaw.offset)), what);
    }
    if structure.ranges_may_be_lost() {
        let flaw = structure.flaws.iter().find(|flaw| flaw.part == Part::DeletedRanges);
        let what = match flaw {
            Some(_) => "the ranges that were deleted when tables were dropped are lost",
            None => "nothing says whether ranges were deleted here when tables were dropped",
        };
        let keys = "rows of dropped tables may come back; rows of living tables are not lost by it"
            .to_owned();
        let (offset, bytes) = flaw.map(|flaw| (flaw.offset, flaw.bytes)).unzip();
        let loss = Loss { rows: Some(0), bytes: bytes.unwrap_or(0), keys };
        report.lost(engine_file(&name, offset), what, loss);
    }
}
