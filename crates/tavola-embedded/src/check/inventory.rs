//! Which files a data folder has, and which of them hold its data.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::check::missing::loss_of_file;
use crate::check::report::{Place, Report};
use crate::error::OpenError;
use crate::files::manifest::{LiveFile, Manifest, ManifestFlaw, current};
use crate::files::{name_of, numbered};
use crate::folder::DataFolder;
use crate::log_check::{self, Checked, LogError};
use crate::watermark::{self, WatermarkError};

/// The engine's files that hold data.
#[derive(Debug)]
pub(crate) struct Inventory {
    pub(crate) engine_path: PathBuf,
    pub(crate) tables: Vec<TableEntry>,
    /// The logs whose writes may not be in table files, oldest first, with their numbers.
    pub(crate) logs: Vec<(u64, PathBuf)>,
    /// Up to this sequence number everything is in table files, if that is known.
    pub(crate) flushed: Option<u64>,
    /// Up to this one writes were acknowledged, if that is known.
    pub(crate) synced: Option<u64>,
    /// Files are among these that may hold what was replaced or deleted since.
    pub(crate) files_unknown: bool,
    /// What the engine may be opened with; `None` if it must not be.
    pub(crate) checked: Option<Checked>,
}

/// A table file, and what the record of files says about it.
#[derive(Debug, Clone)]
pub(crate) struct TableEntry {
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
    pub(crate) recorded: Option<LiveFile>,
}

/// How far the record of files can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    /// It is lost or damaged. What is left of it never says that a file does not count.
    None,
    /// All its records are whole, and they do not fit to the files that are there. It may have lost
    /// its last edits, so that only files which it says were replaced do not count.
    Records,
    /// It says which files count.
    Full,
}

/// A file of the engine as people find it.
pub(crate) fn engine_file(name: &str, offset: Option<u64>) -> Place {
    Place::File { name: format!("store/{name}"), offset }
}

impl Inventory {
    /// Looks at all files that say something about others.
    pub(crate) fn take(folder: &DataFolder, report: &mut Report) -> Result<Self, OpenError> {
        let engine_path = folder.engine_path();
        let list = |kind| {
            numbered(&engine_path, kind).map_err(OpenError::io("read the folder", &engine_path))
        };
        let (all_tables, all_logs) = (list("sst")?, list("log")?);
        let synced = read_watermark(folder, report)?;
        let record = read_manifest(&engine_path, report)?;
        let checked =
            if record.is_some() { check_logs(&engine_path, synced, report)? } else { None };
        let (manifest, trust) =
            evaluate(record, checked.is_some(), (&all_tables, &all_logs), report);
        let log_number = if trust == Trust::None { 0 } else { manifest.log_number };
        let tables = select(&manifest, trust, all_tables, report);
        let logs = all_logs.into_iter().filter(|(number, _)| *number >= log_number).collect();
        check_texts(&engine_path, report)?;
        let is_recorded = |table: &TableEntry| manifest.files.contains_key(&table.number);
        let files_unknown = match trust {
            Trust::Full => false,
            Trust::Records => !tables.iter().all(is_recorded),
            Trust::None => true,
        };
        report.files_unknown = files_unknown && !tables.is_empty();
        let flushed = (!files_unknown).then_some(manifest.flushed);
        let checked = checked.filter(|_| trust == Trust::Full);
        Ok(Self { engine_path, tables, logs, flushed, synced, files_unknown, checked })
    }

    /// Bytes that a look at everything reads.
    pub(crate) fn bytes(&self) -> u64 {
        let tables = self.tables.iter().map(|table| &table.path);
        let logs = self.logs.iter().map(|(_, path)| path);
        tables.chain(logs).filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum()
    }
}

/// The record of files as far as it can be read, and what is wrong with it; `None` if there is
/// none.
fn read_manifest(engine_path: &Path, report: &mut Report) -> Result<Option<Recorded>, OpenError> {
    let place = engine_file("CURRENT", None);
    let name = match current(engine_path) {
        Ok(Ok(name)) => name,
        Ok(Err(found)) => {
            let found: String = found.chars().take(40).collect();
            report.damage(place, format!("it does not name a record of files, but {found:?}"));
            return Ok(None);
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            report.damage(place, "it is missing; it names the record of files");
            return Ok(None);
        }
        Err(error) => return Err(OpenError::io("read", &engine_path.join("CURRENT"))(error)),
    };
    let path = engine_path.join(&name);
    let (manifest, flaws) = match Manifest::read(&path) {
        Ok(read) => read,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            report.damage(place, format!("it names {name}, which is missing"));
            return Ok(None);
        }
        Err(error) => return Err(OpenError::io("read", &path)(error)),
    };
    report.counts.files += 2;
    report.counts.bytes += fs::metadata(&path).map_or(0, |file| file.len());
    report.counts.log_records += manifest.edits;
    if manifest.edits == 0 {
        report.damage(engine_file(&name, Some(0)), "it holds no record of files");
        return Ok(None);
    }
    Ok(Some(Recorded { name, manifest, flaws }))
}

/// A record of files.
struct Recorded {
    name: String,
    manifest: Manifest,
    flaws: Vec<ManifestFlaw>,
}

/// Files of one kind with their numbers, in order.
type Numbered = [(u64, PathBuf)];

/// How far a record of files can be believed. It is one of several that must agree: the files that
/// it names must be there, and the writes that were acknowledged must be in them or in the logs. An
/// edit that a crash tore was relied on by nothing, so that all of this holds without it; if it
/// does not, the edit was damaged later.
fn evaluate(
    record: Option<Recorded>,
    logs_fit: bool,
    (tables, logs): (&Numbered, &Numbered),
    report: &mut Report,
) -> (Manifest, Trust) {
    let Some(Recorded { name, manifest, flaws }) = record else {
        return (Manifest::default(), Trust::None);
    };
    let is_there =
        |number: &u64| tables.binary_search_by_key(number, |(number, _)| *number).is_ok();
    let is_understood = manifest.edits == manifest.records;
    // The engine does not open without a log that it knows to be synced, whatever is in it.
    let has_log = |(number, synced): (&u64, &u64)| {
        let bytes = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        logs.iter().any(|(found, path)| found == number && bytes(path) >= *synced)
    };
    let has_logs = manifest.logs.iter().all(has_log);
    if !has_logs {
        let what = "it names a log that is missing, or shorter than it was; the engine does not open without it";
        report.damage(engine_file(&name, None), what);
    }
    let fits = logs_fit && is_understood && has_logs && manifest.files.keys().all(is_there);
    let trust = match (flaws.first(), fits) {
        (None, true) => Trust::Full,
        (None, false) => Trust::Records,
        (Some(flaw), true) => {
            let what = "the last edit was torn by a crash, which is harmless";
            report.note(engine_file(&name, Some(flaw.offset)), what);
            Trust::Full
        }
        (Some(_), false) => {
            for flaw in flaws {
                report.damage(engine_file(&name, Some(flaw.offset)), flaw.what);
            }
            Trust::None
        }
    };
    (manifest, trust)
}

/// The table files that are read.
fn select(
    manifest: &Manifest,
    trust: Trust,
    found: Vec<(u64, PathBuf)>,
    report: &mut Report,
) -> Vec<TableEntry> {
    let numbers: BTreeSet<u64> = found.iter().map(|(number, _)| *number).collect();
    for (number, live) in manifest.files.iter().filter(|(number, _)| !numbers.contains(number)) {
        let what = match trust {
            Trust::None => {
                "the file is missing; its rows are lost, unless they were merged into another file since"
            }
            _ => "the file is missing",
        };
        report.lost(engine_file(&format!("{number:06}.sst"), None), what, loss_of_file(live));
    }
    let mut tables = Vec::new();
    for (number, path) in found {
        let live = manifest.files.get(&number);
        let counts = match trust {
            Trust::None => true,
            Trust::Records => live.is_some() || !manifest.removed.contains_key(&number),
            Trust::Full => live.is_some(),
        };
        if counts {
            let recorded = live.or_else(|| manifest.removed.get(&number)).cloned();
            tables.push(TableEntry { path, number, recorded });
        } else {
            let what = "no longer part of the data; the next start removes it";
            report.note(engine_file(&name_of(&path), None), what);
        }
    }
    tables
}

/// How far writes were acknowledged; `None` if nothing says.
fn read_watermark(folder: &DataFolder, report: &mut Report) -> Result<Option<u64>, OpenError> {
    match watermark::read(folder.path()) {
        Ok(synced) => {
            if watermark::has_bad_line(folder.path()) {
                let what = "one of its two lines is not whole; the other one counts, and the next start writes it anew";
                report.damage(Place::File { name: watermark::NAME.to_owned(), offset: None }, what);
                // If it was the newer one, the last group of writes is not covered.
                report.log_end_unknown = true;
            }
            Ok(synced)
        }
        Err(WatermarkError::Damaged(what)) => {
            report.damage(Place::File { name: watermark::NAME.to_owned(), offset: Some(0) }, what);
            report.log_end_unknown = true;
            Ok(None)
        }
        Err(WatermarkError::Io(path, error)) => Err(OpenError::io("read", &path)(error)),
    }
}

/// The same question as at every start. What is wrong with single records, and what is lost, is
/// found when they are read.
fn check_logs(
    engine_path: &Path,
    synced: Option<u64>,
    report: &mut Report,
) -> Result<Option<Checked>, OpenError> {
    match log_check::check(engine_path, synced) {
        Ok(checked) => Ok(Some(checked)),
        Err(LogError::Damaged(what)) => {
            let place = Place::File { name: "store".to_owned(), offset: None };
            report.damage(place, format!("the folder does not open: {what}"));
            Ok(None)
        }
        Err(LogError::Io(path, error)) => Err(OpenError::io("read", &path)(error)),
    }
}

/// Files that the engine writes for people and for itself, and does not need to open.
fn check_texts(engine_path: &Path, report: &mut Report) -> Result<(), OpenError> {
    let failed = || OpenError::io("read the folder", engine_path);
    for entry in fs::read_dir(engine_path).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let name = name_of(&path);
        if !name.starts_with("OPTIONS-") {
            continue;
        }
        let bytes = fs::read(&path).map_err(OpenError::io("read", &path))?;
        report.counts.files += 1;
        report.counts.bytes += bytes.len() as u64;
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let has = |section: &str| text.lines().any(|line| line.starts_with(section));
        if !(has("[Version]")
            && has("[DBOptions]")
            && has("[CFOptions \"default\"]")
            && has("[TableOptions/"))
        {
            let what = "not the text that the engine writes; it is not read, and the next start writes it anew";
            report.note(engine_file(&name, None), what);
        }
    }
    Ok(())
}
