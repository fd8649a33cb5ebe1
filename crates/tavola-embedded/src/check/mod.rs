//! Looks at everything in a data folder and changes nothing: every checksum, every row, and whether
//! the engine reads the same rows.
//!
//! Reading order: here, then `inventory` (which files count), `view` (their rows, merged),
//! `missing` (what of them cannot be read), `report` (what was found).

mod inventory;
mod logs;
mod missing;
mod report;
mod rows;
mod tables;
mod view;

use std::path::Path;

use tavola_core::{TableId, Timestamp};
use tavola_store::RowRef;

use crate::engine::Engine;
use crate::error::OpenError;
use crate::folder::DataFolder;
use crate::log_check::{Checked, LogState};
use inventory::Inventory;
use rows::RowCheck;

pub use report::{Counts, Finding, Loss, Losses, Place, Report, Severity};

/// Hears how far the work has come.
pub trait Progress {
    /// A part of the work begins; `total` says how many of `unit` it has.
    fn begin(&mut self, what: &str, total: u64, unit: Unit);
    /// So many more are done.
    fn advance(&mut self, by: u64);
}

/// What progress is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of files.
    Bytes,
    /// Rows.
    Rows,
}

/// Checks a data folder. `row` gets every row that is sound, in the order of tables and keys.
///
/// # Errors
/// If the folder cannot be looked at: it is in use, not ours, of a newer format, or cannot be read.
/// Damage is no error here; the report names it.
pub fn check(
    path: &Path,
    progress: &mut dyn Progress,
    row: &mut dyn FnMut(TableId, &RowRef<'_>),
) -> Result<Report, OpenError> {
    let mut report = Report::default();
    let folder = DataFolder::existing(path, &mut report)?;
    let inventory = Inventory::take(&folder, &mut report)?;
    progress.begin("reading files", inventory.bytes(), Unit::Bytes);
    let rows = read(&inventory, &mut report, progress, &mut |table, decoded, _| {
        row(table, decoded);
        true
    });
    // A torn edit is cut off by the next start; before, the engine may not read the folder.
    if let Some(Checked { logs, torn_edit: None }) =
        inventory.checked.filter(|_| !report.is_damaged())
    {
        compare_with_engine(&inventory.engine_path, logs, &rows, &mut report, progress);
    }
    Ok(report)
}

/// Gives every sound row of a folder as it is stored, until `row` returns false, and a version that
/// none of them exceeds.
pub(crate) fn view_rows(
    path: &Path,
    progress: &mut dyn Progress,
    row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(Report, Option<Timestamp>), OpenError> {
    let mut report = Report::default();
    let folder = DataFolder::existing(path, &mut report)?;
    let inventory = Inventory::take(&folder, &mut report)?;
    progress.begin("saving rows of", inventory.bytes(), Unit::Bytes);
    let rows = read(&inventory, &mut report, progress, &mut |_, _, (key, value)| row(key, value));
    Ok((report, rows.version()))
}

/// Gets the table of a sound row, the row, and its key and value as they are stored. False ends the
/// reading.
type OnSoundRow<'a> = dyn FnMut(TableId, &RowRef<'_>, (&[u8], &[u8])) -> bool + 'a;

fn read(
    inventory: &Inventory,
    report: &mut Report,
    progress: &mut dyn Progress,
    sound: &mut OnSoundRow<'_>,
) -> RowCheck {
    report.file_bytes = inventory.bytes();
    let mut rows = RowCheck::default();
    view::for_each_row(inventory, report, progress, &mut |key, value, report| {
        let mut goes_on = true;
        rows.offer(key, value, report, &mut |table, row| goes_on = sound(table, row, (key, value)));
        goes_on
    });
    rows.finish(report);
    rows
}

/// What was read here must be what the engine reads.
fn compare_with_engine(
    engine_path: &Path,
    logs: LogState,
    rows: &RowCheck,
    report: &mut Report,
    progress: &mut dyn Progress,
) {
    let place = Place::File { name: "store".to_owned(), offset: None };
    progress.begin("asking the engine", rows.seen, Unit::Rows);
    let mut found = rows::Fingerprint::default();
    let read = Engine::read_only(engine_path, logs, &mut |key, value| {
        found.add(key, value);
        progress.advance(1);
    });
    match read {
        Err(error) => report.damage(place, format!("the engine does not read it: {error}")),
        Ok(()) if found != rows.fingerprint => {
            let what = "the engine reads other rows than the files hold: a defect of this software; keep the folder";
            report.damage(place, what);
        }
        Ok(()) => {}
    }
}
