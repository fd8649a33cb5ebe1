//! `tavola check`: is everything in a data folder as it was written? It changes nothing.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use tavola_embedded::check::{Finding, Loss, Losses, Place, Report, Severity};
use tavola_embedded::{OpenError, check};
use tavola_service::{Audit, Audited};

use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::flags;
use crate::open_store::cannot_open;
use crate::progress_bar::Shown;

const ABOUT: &str =
    "Check every checksum, every row and the catalogue of a data folder; changes nothing";
const EXAMPLES: &str = "\
Examples:
  tavola check
      The data folder that `tavola serve` would use
  tavola check /var/lib/tavola
      Another one
  tavola check /var/lib/tavola -o json
      The same for scripts";
const EXIT_CODES: &str = "\
The folder must not be in use: stop the server first, or check a copy.

Exit codes: 0 nothing is damaged, 1 the disk failed, 2 wrong usage,
3 damaged, in use, or of a newer version.";

const LOST_IN_LOGS: &str = "writes of the log before and after the damage are kept, each \
    transaction whole; those in the damage were acknowledged and are lost. So a row may be \
    missing, or older, or not deleted, and a dropped table may be \
    back, while later writes are kept";
const LOST_IN_TABLES: &str = "of rows in lost blocks an older state may appear, and deleted ones \
    may come back; a transaction that wrote rows inside and outside of such a block is then \
    incomplete. If rows of the catalogue are among them, a dropped table may come back with its rows";
const FILES_UNKNOWN: &str = "the record of files cannot be relied on, so that every table file \
    and log was read, and the newest state of each row is kept: rows that were deleted and tables \
    that were dropped may come back, and a missing file is not detected";
const LOG_END_UNKNOWN: &str = "SYNCED is damaged, which says how far writes were acknowledged: if \
    the log lost its end as well, that is not detected";

pub(crate) fn command() -> Command {
    described("check", ABOUT, EXAMPLES)
        .after_help(EXIT_CODES)
        .arg(location_argument())
        .arg(flags::config_file_flag())
        .arg(output_flag(&["text", "json"]))
}

/// The data folder, as an argument or from the configuration.
pub(crate) fn location_argument() -> Arg {
    Arg::new("location")
        .value_name("LOCATION")
        .value_parser(value_parser!(PathBuf))
        .help("Data folder [default: that of the configuration]")
}

pub(crate) fn location(matches: &ArgMatches) -> Result<PathBuf, Failure> {
    match matches.get_one::<PathBuf>("location") {
        Some(location) => Ok(location.clone()),
        None => Ok(PathBuf::from(flags::layers(matches)?.text("store.location"))),
    }
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = location(matches)?;
    let checked = examine(&folder).map_err(cannot_open)?;
    if matches.get_one::<String>("output").is_some_and(|format| format == "json") {
        println!("{:#}", checked.to_json(&folder));
    } else {
        checked.print();
    }
    checked.outcome(&folder)
}

/// A data folder that was looked at.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) report: Report,
    pub(crate) audited: Audited,
}

/// Looks at everything.
pub(crate) fn examine(folder: &Path) -> Result<Checked, OpenError> {
    let mut progress = Shown::new();
    let mut audit = Audit::default();
    let report = check::check(folder, &mut progress, &mut |table, row| audit.offer(table, row));
    progress.end();
    let mut report = report?;
    let audited = audit.finish(report.rows_by_table.keys().copied());
    for what in audited.findings.iter().cloned() {
        report.add(Finding {
            severity: Severity::Damage,
            place: Place::Catalogue,
            what,
            loss: None,
        });
    }
    Ok(Checked { report, audited })
}

impl Checked {
    /// How many tables live, and how many are dropped and not yet reclaimed.
    pub(crate) fn tables(&self) -> (usize, usize) {
        let living = self.audited.tables.values().filter(|table| table.name.is_some()).count();
        (living, self.audited.tables.len() - living)
    }

    pub(crate) fn damages(&self) -> u64 {
        let damages = self
            .report
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Damage)
            .count();
        damages as u64 + self.report.findings_left_off
    }

    pub(crate) fn print(&self) {
        let (living, dropped) = self.tables();
        for finding in &self.report.findings {
            println!("{}", finding_text(finding));
        }
        if self.report.findings_left_off > 0 {
            println!("damage  and {} more", self.report.findings_left_off);
        }
        let counts = &self.report.counts;
        println!(
            "checked {} files of {} bytes: {} blocks, {} log records, {} rows; tables: {} living, \
             {} dropped",
            counts.files,
            counts.bytes,
            counts.blocks,
            counts.log_records,
            counts.rows,
            living,
            dropped,
        );
        if self.damages() == 0 {
            println!("no damage found");
        } else {
            println!("{}", self.losses());
            self.warnings().iter().for_each(|warning| println!("mind    {warning}"));
        }
    }

    /// How many rows are lost, in words that are true whatever was in the lost bytes.
    pub(crate) fn losses(&self) -> String {
        let Losses { rows_max, unknown } = self.report.losses;
        let places =
            if unknown == 1 { "in 1 place".to_owned() } else { format!("in {unknown} places") };
        match (rows_max, unknown) {
            (0, 0) => "no row is lost".to_owned(),
            (0, _) => format!("rows are lost, and their number is unknown: {places}"),
            (rows, 0) => {
                format!(
                    "at most {rows} rows are lost: missing, older than they were, or deleted and \
                     restored"
                )
            }
            (rows, _) => format!(
                "rows are lost: missing, older than they were, or deleted and restored; at most \
                 {rows} where it is known, and an unknown number {places}"
            ),
        }
    }

    /// What people must know before they go on with what was saved.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let lost_in = |ending: &str| {
            let is_there =
                |place: &Place| matches!(place, Place::File { name, .. } if name.ends_with(ending));
            self.report
                .findings
                .iter()
                .any(|finding| finding.loss.is_some() && is_there(&finding.place))
        };
        let warnings = [
            (lost_in(".log"), LOST_IN_LOGS),
            (lost_in(".sst") || self.report.findings_left_off > 0, LOST_IN_TABLES),
            (self.report.files_unknown, FILES_UNKNOWN),
            (self.report.log_end_unknown, LOG_END_UNKNOWN),
        ];
        warnings
            .into_iter()
            .filter(|(applies, _)| *applies)
            .map(|(_, warning)| warning.to_owned())
            .collect()
    }

    fn to_json(&self, folder: &Path) -> Value {
        let counts = &self.report.counts;
        let (living, dropped) = self.tables();
        json!({
            "ok": self.damages() == 0,
            "folder": folder.display().to_string(),
            "findings": self.report.findings.iter().map(|finding| finding_json(finding, folder)).collect::<Vec<_>>(),
            "findings_left_off": self.report.findings_left_off,
            "rows_lost_max": self.report.rows_lost_max(),
            "losses": self.losses(),
            "warnings": self.warnings(),
            "files": counts.files,
            "bytes": counts.bytes,
            "blocks": counts.blocks,
            "log_records": counts.log_records,
            "rows": counts.rows,
            "tables": living,
            "tables_dropped": dropped,
        })
    }

    fn outcome(&self, folder: &Path) -> Result<(), Failure> {
        match self.damages() {
            0 => Ok(()),
            damages => {
                let places = if damages == 1 {
                    "1 place is".to_owned()
                } else {
                    format!("{damages} places are")
                };
                Err(Failure::Data(format!(
                    "{places} damaged in {}. {}",
                    folder.display(),
                    advice(folder)
                )))
            }
        }
    }
}

/// How to go on.
fn advice(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Nothing was changed. Restore the folder from a backup; or see with `tavola repair \
         {folder} --dry-run` what can be saved into a new one"
    )
}

/// One line.
pub(crate) fn finding_text(finding: &Finding) -> String {
    let level = level(finding);
    let loss = finding.loss.as_ref().map(loss_text).filter(|text| !text.is_empty());
    let loss = loss.map(|text| format!(" (lost: {text})")).unwrap_or_default();
    format!("{level:<6}  {}: {}{loss}", finding.place, finding.what)
}

fn level(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Damage => "damage",
        Severity::Note => "note",
    }
}

/// What is lost, as far as it is known. Zero rows: another finding includes them.
pub(crate) fn loss_text(loss: &Loss) -> String {
    let rows = match loss.rows {
        Some(0) => None,
        Some(rows) => Some(format!("at most {rows} rows")),
        None => Some("an unknown number of rows".to_owned()),
    };
    let bytes = (loss.bytes > 0).then(|| format!("{} bytes", loss.bytes));
    let keys = (!loss.keys.is_empty()).then(|| loss.keys.clone());
    [rows, bytes, keys].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(crate) fn finding_json(finding: &Finding, folder: &Path) -> Value {
    let (file, offset) = match &finding.place {
        Place::File { name, offset } => (Some(name), *offset),
        _ => (None, None),
    };
    let is_damage = finding.severity == Severity::Damage;
    json!({
        "level": level(finding),
        "place": finding.place.to_string(),
        "file": file,
        "offset": offset,
        "says": finding.what,
        "lost": finding.loss.as_ref().map(|loss| json!({ "rows": loss.rows, "bytes": loss.bytes, "keys": loss.keys })),
        "advice": is_damage.then(|| advice(folder)),
    })
}
