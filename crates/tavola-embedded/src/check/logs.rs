//! The writes of the logs that may not be in table files yet.

use std::fs;

use crate::check::Progress;
use crate::check::inventory::{Inventory, engine_file};
use crate::check::report::{Loss, Report};
use crate::files::batch::{Batch, Entry, RangeDeletion};
use crate::files::log::{Record, records};
use crate::files::name_of;
use crate::watermark;

/// A change in a log has its kind, a length and at least eight bytes of key and one more.
const CHANGE_BYTES_MIN: u64 = 11;

/// What the logs hold.
pub(super) struct Written {
    /// By key and newest first, each with the number of its log.
    pub(super) writes: Vec<(Entry, u64)>,
    /// The sequence number of the next write, if that is known.
    pub(super) sequence_next: Option<u64>,
}

/// The writes of the logs.
pub(super) fn read_logs(
    inventory: &Inventory,
    ranges: &mut Vec<RangeDeletion>,
    report: &mut Report,
    progress: &mut dyn Progress,
) -> Written {
    let mut writes = Vec::new();
    let mut sequence_next = inventory.flushed.map(|flushed| flushed.saturating_add(1));
    let last = inventory.logs.len().saturating_sub(1);
    for (index, (number, path)) in inventory.logs.iter().enumerate() {
        let mut log = Log { name: name_of(path), sequence_next, ..Log::default() };
        let read = records(path, &mut |record| match record {
            Record::Whole { payload, offset } => {
                log.records += 1;
                match Batch::decode(payload) {
                    Some(batch) => {
                        log.goes_on(batch.sequence, batch.sequence_next, offset);
                        writes.extend(batch.entries.into_iter().map(|entry| (entry, *number)));
                        ranges.extend(batch.range_deletions);
                    }
                    None => log.undecoded.push((offset, payload.len() as u64)),
                }
            }
            Record::Flaw { offset, what } => log.flaw(offset, what),
        });
        match read {
            Ok(bytes) => {
                log.bytes = bytes;
                progress.advance(bytes);
                report.counts.bytes += bytes;
            }
            Err(error) => report.lost(
                engine_file(&log.name, None),
                format!("cannot be read: {error}"),
                Loss::default(),
            ),
        }
        report.counts.files += 1;
        report.counts.log_records += log.records;
        sequence_next = log.sequence_next;
        log.report(inventory.checked.is_some(), index == last, report);
    }
    writes.sort_by(|(one, _), (other, _)| {
        one.key.cmp(&other.key).then(other.sequence.cmp(&one.sequence))
    });
    Written { writes, sequence_next }
}

/// A log that was cut between two records is whole in itself; only the watermark shows how much is
/// missing. `in_tables` is the highest sequence number in a table file.
pub(super) fn report_lost_end(
    inventory: &Inventory,
    sequence_next: Option<u64>,
    in_tables: u64,
    report: &mut Report,
) {
    let Some(synced) = inventory.synced else { return };
    // The engine forgets numbers of old entries, so that in table files there may be none.
    let flushed =
        Some(in_tables).filter(|sequence| *sequence > 0).map(|sequence| sequence.saturating_add(1));
    let Some(next) = sequence_next.max(flushed) else { return };
    let missing = synced.saturating_add(1).saturating_sub(next);
    if missing > 0 {
        let place = match inventory.logs.last() {
            Some((_, path)) => {
                engine_file(&name_of(path), fs::metadata(path).ok().map(|file| file.len()))
            }
            None => engine_file("000000.log", None),
        };
        let what =
            format!("{} says that more writes were acknowledged than are here", watermark::NAME);
        // The other line, which is damaged, may have counted more.
        let rows = Some(missing).filter(|_| !report.log_end_unknown);
        report.lost(place, what, Loss { rows, ..Loss::default() });
    }
}

/// What was noticed in one log.
#[derive(Default)]
struct Log {
    name: String,
    bytes: u64,
    flaws: Vec<LogFlaw>,
    sequence_next: Option<u64>,
    records: u64,
    /// Records that are no writes of ours: where, and how long.
    undecoded: Vec<(u64, u64)>,
}

struct LogFlaw {
    offset: u64,
    what: &'static str,
    /// How many changes are missing here, known once a later write was read.
    changes: Option<u64>,
    /// The number of the write before is known, so the next one shows how many are missing.
    is_numbered: bool,
}

impl Log {
    fn flaw(&mut self, offset: u64, what: &'static str) {
        self.flaws.push(LogFlaw {
            offset,
            what,
            changes: None,
            is_numbered: self.sequence_next.is_some(),
        });
    }

    /// Sequence numbers have no gaps, so a gap shows how much is missing.
    fn goes_on(&mut self, sequence: u64, after: u64, offset: u64) {
        if let Some(next) = self.sequence_next {
            let mut missing = sequence.saturating_sub(next);
            for flaw in self
                .flaws
                .iter_mut()
                .rev()
                .filter(|flaw| flaw.changes.is_none() && flaw.is_numbered)
            {
                flaw.changes = Some(std::mem::take(&mut missing));
            }
            if missing > 0 {
                let what = "writes before this one are missing";
                self.flaws.push(LogFlaw {
                    offset,
                    what,
                    changes: Some(missing),
                    is_numbered: true,
                });
            }
        }
        self.sequence_next = Some(after);
    }

    fn report(self, opens: bool, is_last: bool, report: &mut Report) {
        let changes_in = |bytes: u64| Some(bytes / CHANGE_BYTES_MIN + 1);
        for (offset, bytes) in &self.undecoded {
            let what = "a record matches its checksum, but is no write of this software";
            let loss = Loss { rows: changes_in(*bytes), bytes: *bytes, keys: String::new() };
            report.lost(engine_file(&self.name, Some(*offset)), what, loss);
        }
        for flaw in self.flaws {
            let place = engine_file(&self.name, Some(flaw.offset));
            let bytes = self.bytes.saturating_sub(flaw.offset);
            match flaw.changes {
                Some(changes) if changes > 0 => report.lost(
                    place,
                    flaw.what,
                    Loss { rows: Some(changes), bytes: 0, keys: String::new() },
                ),
                // Evaluated as a whole before: a flaw behind which nothing is missing, in logs that
                // open, is a torn tail.
                _ if opens => {
                    report.note(
                        place,
                        "the last write was torn by a crash; it was never acknowledged",
                    );
                }
                // No later write shows how many are missing; there is no space for more than these,
                // and the watermark shows what was cut off.
                None if is_last || !flaw.is_numbered => report.lost(
                    place,
                    flaw.what,
                    Loss { rows: changes_in(bytes), bytes, keys: String::new() },
                ),
                _ => report.damage(place, flaw.what),
            }
        }
    }
}
