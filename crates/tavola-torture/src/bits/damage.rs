//! What is done to files, and which of it must be reported.

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
    /// The file is gone, or bytes of it.
    shortened: bool,
}

impl Damage {
    /// Damages one or several places of a folder. Table files in `obsolete` are not part of its
    /// data any more.
    pub(super) fn throw(
        rng: &mut fastrand::Rng,
        folder: &Path,
        obsolete: &BTreeSet<String>,
        tally: &mut Tally,
    ) -> Result<Self, Violation> {
        let target = |rng: &mut fastrand::Rng, kind| -> Result<Option<PathBuf>, Violation> {
            let is_data = |path: &PathBuf| {
                !path.file_name().is_some_and(|name| obsolete.contains(&*name.to_string_lossy()))
            };
            let files: Vec<PathBuf> = folder::files(folder)?
                .into_iter()
                .filter(|path| Kind::of(path) == Some(kind))
                .collect();
            let files: Vec<PathBuf> = files.into_iter().filter(is_data).collect();
            // An earlier hit may have removed the last.
            Ok((!files.is_empty()).then(|| files[rng.usize(..files.len())].clone()))
        };
        // What is worst to come back from, each on its own: bytes anywhere seldom are these.
        if let Some(shape) = Shape::throw(rng)
            && let Some(file) = target(rng, shape.kind())?
        {
            tally.add(shape.figure(), 1);
            return Ok(Self(vec![shape.hit(rng, file)?]));
        }
        let count = if rng.u8(..3) == 0 { rng.usize(2..6) } else { 1 };
        let mut hits = Vec::new();
        while hits.len() < count {
            let kind = KINDS[rng.usize(..KINDS.len())];
            if let Some(file) = target(rng, kind)? {
                hits.push(Hit::throw(rng, kind, file)?);
            }
        }
        Ok(Self(hits))
    }

    /// A file of data is gone as a whole, or may be: a record of files that is lost too does not
    /// say so.
    pub(super) fn hides_files(&self) -> bool {
        self.0.iter().any(|hit| hit.shortened && matches!(hit.kind, Kind::Table | Kind::Log))
    }

    /// A log lost its end.
    pub(super) fn shortens_logs(&self) -> bool {
        self.0.iter().any(|hit| hit.shortened && hit.kind == Kind::Log)
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
    fn throw(rng: &mut fastrand::Rng, kind: Kind, file: PathBuf) -> Result<Self, Violation> {
        let failed = |error| Violation::new(format!("cannot damage {}: {error}", file.display()));
        let before = fs::read(&file).map_err(failed)?;
        // Without the mark a log that lost its end cannot be told from one that never was longer:
        // docs/format.md.
        if rng.u8(..12) == 0 && kind != Kind::Synced {
            fs::remove_file(&file).map_err(failed)?;
            return Ok(Self {
                kind,
                file,
                what: "removed".to_owned(),
                changed: true,
                shortened: true,
            });
        }
        let (after, what) = change(rng, kind, before.clone());
        Self::write(kind, file, &before, &after, what)
    }

    fn write(
        kind: Kind,
        file: PathBuf,
        before: &[u8],
        after: &[u8],
        what: String,
    ) -> Result<Self, Violation> {
        fs::write(&file, after).map_err(|error| {
            Violation::new(format!("cannot damage {}: {error}", file.display()))
        })?;
        // Zeros to the end are as good as nothing.
        let shortened = after.len() < before.len()
            || before != after && after.last().is_none_or(|last| *last == 0);
        Ok(Self { kind, file, what, changed: before != after, shortened })
    }
}

/// What machines do to files when they die, and what hits the parts that lead to the rest.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// The end of a table file is cut off, zeroed or overwritten, and with it what leads to its
    /// rows.
    Tail,
    /// A bit of what leads to the rows, and bits of rows.
    FooterAndBlocks,
    /// The last bytes of the record of files are gone.
    ManifestEnd,
}

impl Shape {
    fn throw(rng: &mut fastrand::Rng) -> Option<Self> {
        [Self::Tail, Self::Tail, Self::FooterAndBlocks, Self::ManifestEnd]
            .get(rng.usize(..9))
            .copied()
    }

    fn kind(self) -> Kind {
        match self {
            Self::Tail | Self::FooterAndBlocks => Kind::Table,
            Self::ManifestEnd => Kind::Manifest,
        }
    }

    fn figure(self) -> &'static str {
        match self {
            Self::Tail => "tails of table files",
            Self::FooterAndBlocks => "footers and blocks",
            Self::ManifestEnd => "ends of records of files",
        }
    }

    fn hit(self, rng: &mut fastrand::Rng, file: PathBuf) -> Result<Hit, Violation> {
        let before = fs::read(&file).map_err(|error| {
            Violation::new(format!("cannot damage {}: {error}", file.display()))
        })?;
        let mut after = before.clone();
        let what = match self {
            Self::Tail => spoil_tail(rng, &mut after),
            Self::FooterAndBlocks => flip_both(rng, &mut after),
            Self::ManifestEnd => {
                let cut = rng.usize(1..25).min(after.len());
                after.truncate(after.len() - cut);
                format!("{cut} bytes cut off the end")
            }
        };
        Hit::write(self.kind(), file, &before, &after, what)
    }
}

fn spoil_tail(rng: &mut fastrand::Rng, bytes: &mut Vec<u8>) -> String {
    const TAIL_BYTES_MAX: usize = 64 * 1024;
    let tail = rng.usize(1..=bytes.len().min(TAIL_BYTES_MAX));
    let at = bytes.len() - tail;
    match rng.u8(..3) {
        0 => {
            bytes.truncate(at);
            format!("the last {tail} bytes cut off")
        }
        1 => {
            bytes[at..].fill(0);
            format!("the last {tail} bytes zeroed")
        }
        _ => {
            bytes[at..].fill_with(|| rng.u8(..));
            format!("the last {tail} bytes overwritten")
        }
    }
}

/// One bit of the footer, or of the blocks before it that say what there is, and one or two
/// anywhere.
fn flip_both(rng: &mut fastrand::Rng, bytes: &mut [u8]) -> String {
    const FOOTER_BYTES: usize = 53;
    let behind = [FOOTER_BYTES, FOOTER_BYTES, 1500][rng.usize(..3)].min(bytes.len());
    let mut places = vec![bytes.len() - rng.usize(1..=behind)];
    places.extend((0..rng.usize(1..3)).map(|_| rng.usize(..bytes.len())));
    for at in &places {
        bytes[*at] ^= 1 << rng.u8(..8);
    }
    format!("bits of the bytes {places:?} flipped")
}

fn change(rng: &mut fastrand::Rng, kind: Kind, mut bytes: Vec<u8>) -> (Vec<u8>, String) {
    if bytes.is_empty() {
        bytes.extend((0..rng.usize(1..100)).map(|_| rng.u8(..)));
        return (bytes, "bytes where none were".to_owned());
    }
    let at = rng.usize(..bytes.len());
    let end = (at + [1, 4, 64, 512, 5000][rng.usize(..5)]).min(bytes.len());
    let what = match rng.u8(..8) {
        0..3 => {
            let bit = rng.u8(..8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        3 => {
            bytes[at..end].fill(0);
            format!("bytes {at} to {end} zeroed")
        }
        4 => {
            bytes[at..end].fill_with(|| rng.u8(..));
            format!("bytes {at} to {end} overwritten")
        }
        5 => {
            bytes.truncate(at);
            format!("cut at byte {at}")
        }
        6 if matches!(kind, Kind::Log | Kind::Manifest) => {
            let end = record_end(rng, &bytes);
            bytes.truncate(end);
            format!("cut at the end of a record, byte {end}")
        }
        6 => {
            bytes.fill(0);
            "all zeroed".to_owned()
        }
        _ => {
            bytes.extend((0..rng.usize(1..600)).map(|_| rng.u8(..)));
            "bytes appended".to_owned()
        }
    };
    (bytes, what)
}

/// Where one of the records of a log ends, or its begin. Beyond the first block records are not
/// looked for.
fn record_end(rng: &mut fastrand::Rng, log: &[u8]) -> usize {
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
    ends[rng.usize(..ends.len())]
}
