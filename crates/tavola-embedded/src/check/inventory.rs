//! Which files a data folder has, and which of them hold its data.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::check::report::{Loss, Place, Report, span_text};
use crate::error::OpenError;
use crate::files::manifest::{LiveFile, Manifest, current};
use crate::files::{name_of, numbered};
use crate::folder::DataFolder;
use crate::log_check::{self, Checked, LogError};
use crate::mark::{self, MarkError};

/// The engine's files that hold data.
#[derive(Debug)]
pub(crate) struct Inventory {
    pub(crate) engine_path: PathBuf,
    pub(crate) tables: Vec<TableEntry>,
    /// The logs whose writes may not be in table files, oldest first.
    pub(crate) logs: Vec<PathBuf>,
    /// Up to this sequence number everything is in table files, if that is known.
    pub(crate) flushed: Option<u64>,
    /// Up to this one writes were acknowledged, if that is known.
    pub(crate) synced: Option<u64>,
    /// What the engine may be opened with; `None` if it must not be.
    pub(crate) checked: Option<Checked>,
}

/// A table file, and what the record of files says about it.
#[derive(Debug)]
pub(crate) struct TableEntry {
    pub(crate) path: PathBuf,
    pub(crate) recorded: Option<LiveFile>,
}

/// A file of the engine as people find it.
pub(crate) fn engine_file(name: &str, offset: Option<u64>) -> Place {
    Place::File { name: format!("store/{name}"), offset }
}

impl Inventory {
    /// Looks at all files that say something about others.
    pub(crate) fn take(folder: &DataFolder, report: &mut Report) -> Result<Self, OpenError> {
        let engine_path = &folder.engine_path();
        let failed = OpenError::io("read the folder", engine_path);
        let all_tables = numbered(engine_path, "sst").map_err(failed)?;
        let all_logs = numbered(engine_path, "log").map_err(OpenError::io("read the folder", engine_path))?;
        let manifest = read_manifest(engine_path, report)?;
        report.files_unknown = manifest.is_none() && !all_tables.is_empty();
        let tables = match &manifest {
            Some(manifest) => recorded_tables(engine_path, manifest, &all_tables, report),
            None => all_tables.into_iter().map(|(_, path)| TableEntry { path, recorded: None }).collect(),
        };
        let log_number = manifest.as_ref().map_or(0, |manifest| manifest.log_number);
        let logs = all_logs.into_iter().filter(|(number, _)| *number >= log_number).map(|(_, path)| path).collect();
        let synced = read_mark(folder, report)?;
        let checked = if manifest.is_some() { check_logs(engine_path, synced, report)? } else { None };
        check_texts(engine_path, report)?;
        let flushed = manifest.map(|manifest| manifest.flushed);
        Ok(Self { engine_path: engine_path.to_owned(), tables, logs, flushed, synced, checked })
    }

    /// Bytes that a look at everything reads.
    pub(crate) fn bytes(&self) -> u64 {
        let tables = self.tables.iter().map(|table| &table.path);
        tables.chain(&self.logs).filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum()
    }
}

/// The record of files; `None` if what it says cannot be trusted.
fn read_manifest(engine_path: &Path, report: &mut Report) -> Result<Option<Manifest>, OpenError> {
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
    if flaws.is_empty() {
        return Ok(Some(manifest));
    }
    // A crash may have torn the last edit; what it said was then not relied on by anything.
    if log_check::check_manifest(engine_path).is_ok() {
        report.note(engine_file(&name, Some(flaws[0].offset)), "the last edit was torn by a crash, which is harmless");
        return Ok(Some(manifest));
    }
    for flaw in flaws {
        report.damage(engine_file(&name, Some(flaw.offset)), flaw.what);
    }
    Ok(None)
}

fn recorded_tables(
    engine_path: &Path,
    manifest: &Manifest,
    found: &[(u64, PathBuf)],
    report: &mut Report,
) -> Vec<TableEntry> {
    let numbers: BTreeSet<u64> = found.iter().map(|(number, _)| *number).collect();
    for number in numbers.iter().filter(|number| !manifest.files.contains_key(number)) {
        let what = "no longer part of the data; the next start removes it";
        report.note(engine_file(&format!("{number:06}.sst"), None), what);
    }
    let mut tables = Vec::new();
    for (number, live) in &manifest.files {
        let name = format!("{number:06}.sst");
        if !numbers.contains(number) {
            let loss = Loss { rows: None, bytes: live.bytes, keys: span_text(&live.smallest, Some(&live.largest)) };
            report.lost(engine_file(&name, None), "the file is missing", loss);
            continue;
        }
        tables.push(TableEntry { path: engine_path.join(name), recorded: Some(live.clone()) });
    }
    tables
}

/// How far writes were acknowledged; `None` if nothing says.
fn read_mark(folder: &DataFolder, report: &mut Report) -> Result<Option<u64>, OpenError> {
    match mark::read(folder.path()) {
        Ok(synced) => {
            if mark::has_bad_line(folder.path()) {
                let what = "one of its two lines is not whole; the other one counts, and the next start writes it anew";
                report.damage(Place::File { name: mark::NAME.to_owned(), offset: None }, what);
            }
            Ok(synced)
        }
        Err(MarkError::Damaged(what)) => {
            report.damage(Place::File { name: mark::NAME.to_owned(), offset: Some(0) }, what);
            Ok(None)
        }
        Err(MarkError::Io(path, error)) => Err(OpenError::io("read", &path)(error)),
    }
}

/// The same question as at every start. What is wrong with single records, and what is lost, is found when they are read.
fn check_logs(engine_path: &Path, synced: Option<u64>, report: &mut Report) -> Result<Option<Checked>, OpenError> {
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
        if !(has("[Version]") && has("[DBOptions]") && has("[CFOptions \"default\"]") && has("[TableOptions/")) {
            let what = "not the text that the engine writes; it is not read, and the next start writes it anew";
            report.note(engine_file(&name, None), what);
        }
    }
    Ok(())
}
