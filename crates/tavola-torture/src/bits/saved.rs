//! What a repair announced, and what it made of the folder: whatever is missing, older or back must
//! be within the first.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{Tally, Violation};
use super::content::{Content, History, Key, Rows, current, scan};
use super::damage::Damage;
use tavola_testkit::client::Client;

/// What `tavola repair --dry-run` says will be lost.
#[derive(Debug)]
pub(super) struct Announced {
    /// At most so many rows; `None` if nothing says how many.
    rows: Option<u64>,
    /// Files may be missing without being noticed, and deleted rows may come back.
    files_unknown: bool,
    /// The log may have lost its end without being noticed.
    log_end_unknown: bool,
}

impl Announced {
    pub(super) fn of(report: &Value) -> Self {
        Self {
            rows: report["rows_lost_max"].as_u64(),
            files_unknown: report["files_unknown"] == true,
            log_end_unknown: report["log_end_unknown"] == true,
        }
    }
}

/// Rows that are not what they were when the server was killed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deviation {
    saved: u64,
    missing: u64,
    older: u64,
    /// Deleted, and there again.
    back: u64,
}

impl Deviation {
    /// Reads a repaired folder through a server: every read works, and shows what was once written.
    pub(super) fn measure(content: &Content, client: &mut Client) -> Result<Self, Violation> {
        let mut found: BTreeMap<&str, Rows> = BTreeMap::new();
        for table in &super::super::verify::tables(client)? {
            let rows = scan(client, table)?
                .ok_or_else(|| Violation::new(format!("the repaired {table} has errors")))?;
            if let Some(source) = source(content, table, &rows)? {
                found.entry(source).or_default().extend(rows);
            }
        }
        let mut deviation = Self::default();
        for (table, known) in &content.0 {
            deviation.add(known, found.get(table).unwrap_or(&Rows::new()));
        }
        Ok(deviation)
    }

    fn add(&mut self, known: &BTreeMap<Key, History>, found: &Rows) {
        self.saved += found.len() as u64;
        for (key, history) in known {
            match (current((key, history)), found.get(key)) {
                (None, None) => {}
                (Some(_), None) => self.missing += 1,
                (None, Some(_)) => self.back += 1,
                (Some((_, is)), Some(found)) => self.older += u64::from(is != found),
            }
        }
    }

    /// Held against what was announced before.
    pub(super) fn check(
        self,
        announced: &Announced,
        damage: &Damage,
        has_obsolete: bool,
    ) -> Result<(), Violation> {
        // Without a record of files, whole files go unnoticed, and files that no longer count bring
        // deleted rows back.
        let is_blind = announced.files_unknown && damage.hides_files()
            || announced.log_end_unknown && damage.shortens_logs();
        let back = if announced.files_unknown && has_obsolete { 0 } else { self.back };
        match announced.rows {
            Some(rows) if !is_blind && self.missing + self.older + back > rows => {
                Err(Violation::new(format!(
                    "the repair announced at most {rows} lost rows, and it is {self:?}"
                )))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn count(self, announced: &Announced, tally: &mut Tally) {
        tally.add("repairs", 1);
        tally.add("rows saved", self.saved);
        tally.add("rows missing", self.missing);
        tally.add("rows older", self.older);
        tally.add("deleted rows back", self.back);
        tally.add("rows announced as lost at most", announced.rows.unwrap_or(0));
        tally.add("repairs that could not say how many", u64::from(announced.rows.is_none()));
        let is_whole = self == Self { saved: self.saved, ..Self::default() };
        tally.add("repairs without a loss", u64::from(is_whole));
    }
}

/// The table whose rows these are. The name of a table may be lost; its rows are still those of one
/// of them.
fn source(content: &Content, table: &str, rows: &Rows) -> Result<Option<&'static str>, Violation> {
    let was_written = |known: &BTreeMap<Key, History>, (key, value): (&Key, &(i32, String))| {
        known.get(key).is_some_and(|history| history.iter().flatten().any(|once| once == value))
    };
    let mut foreign = None;
    for (name, known) in
        content.0.iter().filter(|(name, _)| **name == table || table.starts_with("Recovered"))
    {
        match rows.iter().find(|row| !was_written(known, *row)) {
            None => return Ok(Some(name)),
            row => foreign = row,
        }
    }
    match foreign {
        None if rows.is_empty() => Ok(None),
        row => Err(Violation::new(format!(
            "the repaired {table} has a row that was never written there: {row:?}"
        ))),
    }
}
