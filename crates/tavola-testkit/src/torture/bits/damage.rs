//! What is done to files, and which of it nobody may overlook.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::{Tally, Violation};
use super::folder;

/// Kinds of files, each as likely as the others however many there are of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Log,
    Table,
    Manifest,
    Current,
    Options,
    Identity,
    Marker,
    Synced,
}

const KINDS: [Kind; 10] = [
    // Most bytes are in the first three, and most ways to fail.
    Kind::Log,
    Kind::Log,
    Kind::Table,
    Kind::Table,
    Kind::Manifest,
    Kind::Current,
    Kind::Options,
    Kind::Identity,
    Kind::Marker,
    Kind::Synced,
];

impl Kind {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        Some(match name {
            "CURRENT" => Self::Current,
            "IDENTITY" => Self::Identity,
            "TAVOLA" => Self::Marker,
            "SYNCED" => Self::Synced,
            name if name.ends_with(".log") => Self::Log,
            name if name.ends_with(".sst") => Self::Table,
            name if name.starts_with("MANIFEST-") => Self::Manifest,
            name if name.starts_with("OPTIONS-") => Self::Options,
            _ => return None,
        })
    }

    fn figure(self) -> &'static str {
        match self {
            Self::Log => "damages of logs",
            Self::Table => "damages of table files",
            Self::Manifest => "damages of records of files",
            Self::Current => "damages of CURRENT",
            Self::Options => "damages of OPTIONS",
            Self::Identity => "damages of IDENTITY",
            Self::Marker => "damages of TAVOLA",
            Self::Synced => "damages of SYNCED",
        }
    }
}

/// Everything that was done to a folder.
#[derive(Debug)]
pub(super) struct Damage(Vec<Hit>);

#[derive(Debug)]
struct Hit {
    kind: Kind,
    file: PathBuf,
    what: String,
    /// Bytes are other than before.
    changed: bool,
}

impl Damage {
    /// Damages one or several places of a folder. Table files in `obsolete` are not part of its data any more.
    pub(super) fn throw(
        dice: &mut fastrand::Rng,
        folder: &Path,
        obsolete: &BTreeSet<String>,
    ) -> Result<Self, Violation> {
        let count = if dice.u8(..3) == 0 { dice.usize(2..6) } else { 1 };
        let mut hits = Vec::new();
        while hits.len() < count {
            let kind = KINDS[dice.usize(..KINDS.len())];
            let is_data =
                |path: &PathBuf| !path.file_name().is_some_and(|name| obsolete.contains(&*name.to_string_lossy()));
            let files: Vec<PathBuf> =
                folder::files(folder)?.into_iter().filter(|path| Kind::of(path) == Some(kind)).collect();
            let files: Vec<PathBuf> = files.into_iter().filter(is_data).collect();
            // An earlier hit may have removed the last.
            if !files.is_empty() {
                let file = files[dice.usize(..files.len())].clone();
                hits.push(Hit::throw(dice, kind, file)?);
            }
        }
        Ok(Self(hits))
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        self.0.iter().for_each(|hit| tally.add(hit.kind.figure(), 1));
    }

    /// Every byte of a table file is under a checksum; of the other files some bytes mean nothing.
    pub(super) fn must_be_reported(&self) -> bool {
        self.0.iter().any(|hit| hit.changed && hit.kind == Kind::Table)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, hit) in self.0.iter().enumerate() {
            let name = hit.file.file_name().unwrap_or_default().to_string_lossy();
            write!(f, "{}{name}: {}", if index == 0 { "" } else { ", " }, hit.what)?;
        }
        Ok(())
    }
}

impl Hit {
    fn throw(dice: &mut fastrand::Rng, kind: Kind, file: PathBuf) -> Result<Self, Violation> {
        let failed = |error| Violation::new(format!("cannot damage {}: {error}", file.display()));
        let before = fs::read(&file).map_err(failed)?;
        // Without the mark a log that lost its end cannot be told from one that never was longer: docs/format.md.
        if dice.u8(..12) == 0 && kind != Kind::Synced {
            fs::remove_file(&file).map_err(failed)?;
            return Ok(Self { kind, file, what: "removed".to_owned(), changed: true });
        }
        let (after, what) = change(dice, kind, before.clone());
        fs::write(&file, &after).map_err(failed)?;
        Ok(Self { kind, file, what, changed: before != after })
    }
}

fn change(dice: &mut fastrand::Rng, kind: Kind, mut bytes: Vec<u8>) -> (Vec<u8>, String) {
    if bytes.is_empty() {
        bytes.extend((0..dice.usize(1..100)).map(|_| dice.u8(..)));
        return (bytes, "bytes where none were".to_owned());
    }
    let at = dice.usize(..bytes.len());
    let end = (at + [1, 4, 64, 512, 5000][dice.usize(..5)]).min(bytes.len());
    let what = match dice.u8(..8) {
        0..3 => {
            let bit = dice.u8(..8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        3 => {
            bytes[at..end].fill(0);
            format!("bytes {at} to {end} zeroed")
        }
        4 => {
            bytes[at..end].fill_with(|| dice.u8(..));
            format!("bytes {at} to {end} overwritten")
        }
        5 => {
            bytes.truncate(at);
            format!("cut at byte {at}")
        }
        6 if matches!(kind, Kind::Log | Kind::Manifest) => {
            let end = record_end(dice, &bytes);
            bytes.truncate(end);
            format!("cut at the end of a record, byte {end}")
        }
        6 => {
            bytes.fill(0);
            "all zeroed".to_owned()
        }
        _ => {
            bytes.extend((0..dice.usize(1..600)).map(|_| dice.u8(..)));
            "bytes appended".to_owned()
        }
    };
    (bytes, what)
}

/// Where one of the records of a log ends, or its begin. Beyond the first block records are not looked for.
fn record_end(dice: &mut fastrand::Rng, log: &[u8]) -> usize {
    const HEADER_BYTES: usize = 7;
    const BLOCK_BYTES: usize = 32 * 1024;
    let mut ends = vec![0];
    let mut at = 0;
    while at + HEADER_BYTES <= log.len().min(BLOCK_BYTES) {
        at += HEADER_BYTES + usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]]));
        if at <= log.len() {
            ends.push(at);
        }
    }
    ends[dice.usize(..ends.len())]
}
