//! The writes of the logs that may not be in table files yet.

use std::fs;

use crate::check::Progress;
use crate::check::inventory::{Inventory, engine_file};
use crate::check::report::{Loss, Report};
use crate::files::batch::{Batch, Entry, RangeDeletion};
use crate::files::log::{Record, records};
use crate::files::name_of;
use crate::mark;

/// The writes of the logs, by key and newest first.
pub(super) fn read_logs(
    inventory: &Inventory,
    ranges: &mut Vec<RangeDeletion>,
    report: &mut Report,
    progress: &mut dyn Progress,
) -> Vec<Entry> {
    let mut writes = Vec::new();
    let mut sequence_next = inventory.flushed.map(|flushed| flushed.saturating_add(1));
    let last = inventory.logs.len().saturating_sub(1);
    for (index, path) in inventory.logs.iter().enumerate() {
        let mut log = Log { name: name_of(path), flaws: Vec::new(), sequence_next, records: 0, undecoded: Vec::new() };
        let read = records(path, &mut |record| match record {
            Record::Whole { payload, offset } => {
                log.records += 1;
                match Batch::decode(payload) {
                    Some(batch) => {
                        log.goes_on(batch.sequence, batch.sequence_next, offset);
                        writes.extend(batch.entries);
                        ranges.extend(batch.range_deletions);
                    }
                    None => log.undecoded.push(offset),
                }
            }
            Record::Flaw { offset, what } => log.flaws.push(LogFlaw { offset, what, changes: None }),
        });
        match read {
            Ok(bytes) => {
                progress.advance(bytes);
                report.counts.bytes += bytes;
            }
            Err(error) => report.damage(engine_file(&log.name, None), format!("cannot be read: {error}")),
        }
        report.counts.files += 1;
        report.counts.log_records += log.records;
        sequence_next = log.sequence_next;
        log.report(inventory.checked.is_some(), index == last, report);
    }
    report_lost_end(inventory, sequence_next, report);
    writes.sort_by(|one, other| one.key.cmp(&other.key).then(other.sequence.cmp(&one.sequence)));
    writes
}

/// A log that was cut between two records is whole in itself; only the mark tells how much is missing.
fn report_lost_end(inventory: &Inventory, sequence_next: Option<u64>, report: &mut Report) {
    let (Some(synced), Some(next)) = (inventory.synced, sequence_next) else { return };
    let missing = synced.saturating_add(1).saturating_sub(next);
    if missing > 0 {
        let place = match inventory.logs.last() {
            Some(path) => engine_file(&name_of(path), fs::metadata(path).ok().map(|file| file.len())),
            None => engine_file("000000.log", None),
        };
        let what = format!("{} says that more writes were acknowledged than are here", mark::NAME);
        report.lost(place, what, Loss { rows: Some(missing), ..Loss::default() });
    }
}

/// What was noticed in one log.
struct Log {
    name: String,
    flaws: Vec<LogFlaw>,
    sequence_next: Option<u64>,
    records: u64,
    undecoded: Vec<u64>,
}

struct LogFlaw {
    offset: u64,
    what: &'static str,
    /// How many changes are missing here, known once a later write was read.
    changes: Option<u64>,
}

impl Log {
    /// Sequence numbers have no gaps, so that a gap tells how much is missing.
    fn goes_on(&mut self, sequence: u64, after: u64, offset: u64) {
        let missing = self.sequence_next.map_or(0, |next| sequence.saturating_sub(next));
        if missing > 0 {
            match self.flaws.iter_mut().rev().find(|flaw| flaw.changes.is_none()) {
                Some(flaw) => flaw.changes = Some(missing),
                None => self.flaws.push(LogFlaw {
                    offset,
                    what: "writes before this one are missing",
                    changes: Some(missing),
                }),
            }
        }
        self.sequence_next = Some(after);
    }

    fn report(self, opens: bool, is_last: bool, report: &mut Report) {
        for offset in self.undecoded {
            let what = "a record matches its checksum, but is no write of this software";
            report.lost(engine_file(&self.name, Some(offset)), what, Loss::default());
        }
        for flaw in self.flaws {
            let place = engine_file(&self.name, Some(flaw.offset));
            match flaw.changes {
                Some(changes) => {
                    report.lost(place, flaw.what, Loss { rows: Some(changes), bytes: 0, keys: String::new() })
                }
                // Judged as a whole before: a flaw behind which nothing is missing, in logs that open, is a torn tail.
                None if opens => {
                    report.note(place, "the last write was torn by a crash; nobody was told that it was done");
                }
                None if is_last => report.lost(place, flaw.what, Loss::default()),
                None => report.damage(place, flaw.what),
            }
        }
    }
}
