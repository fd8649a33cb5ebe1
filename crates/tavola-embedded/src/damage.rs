//! A table file of which a block was found damaged while the store serves.
//!
//! The engine refuses writes for good when a compaction reads such a block, and no call in this
//! process ends that: its severity for a damaged block in a compaction is "unrecoverable". But it
//! only reads the block if it compacts. So once a read or a compaction has found a damaged file,
//! compactions are switched off: the file is left alone, and writes go on. A note in the data
//! folder keeps that over a restart.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use crate::error::OpenError;
use crate::files::structure::Structure;
use crate::folder::sync_folder;
use crate::private_files::create_file;

/// The note's name in the data folder.
pub(crate) const NAME: &str = "DAMAGED";
const UNFINISHED: &str = "DAMAGED.new";
const PREFIX: &str = "tavola-damaged: ";

/// What is known of the damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The table file's name.
    file: String,
    /// The engine's words.
    what: String,
}

impl Damage {
    /// From an error of the engine, if it names a table file.
    fn of(message: &str) -> Option<Self> {
        let (before, _) = message.split_once(".sst")?;
        let digits = before.len()
            - before.trim_end_matches(|character: char| character.is_ascii_digit()).len();
        let file = format!("{}.sst", &before[before.len() - digits..]);
        (digits > 0).then(|| Self { file, what: message.replace(['\n', '\r'], " ") })
    }

    fn parse(text: &str) -> Option<Self> {
        let (file, what) = text.strip_prefix(PREFIX)?.split_once('\n')?;
        Some(Self { file: file.to_owned(), what: what.trim_end().to_owned() })
    }

    fn text(&self) -> String {
        format!("{PREFIX}{}\n{}\n", self.file, self.what)
    }
}

/// The damage of a store, if it has any.
#[derive(Debug)]
pub(crate) struct DamageNote {
    folder: PathBuf,
    known: RwLock<Option<Damage>>,
}

impl DamageNote {
    /// Reads the note of a folder. A note about a file that is gone, or sound again, is out of
    /// date; `forget_old` removes it.
    pub(crate) fn read(folder: &Path, engine_path: &Path) -> Result<Self, OpenError> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(OpenError::io("read", &path)(error)),
        };
        let known =
            Damage::parse(&text).filter(|damage| is_damaged(&engine_path.join(&damage.file)));
        Ok(Self { folder: folder.to_owned(), known: RwLock::new(known) })
    }

    /// Removes a note that is out of date.
    pub(crate) fn forget_old(&self) {
        if !self.is_there() {
            let _was_none = fs::remove_file(self.folder.join(NAME));
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Notes an error of the engine. True if it is the first that names a damaged file.
    pub(crate) fn add(&self, message: &str) -> bool {
        let Some(damage) = Damage::of(message) else { return false };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() {
            return false;
        }
        if let Err(error) = self.write(&damage) {
            tracing::warn!(%error, "cannot write {NAME}; after a restart the damage must be found again");
        }
        *known = Some(damage);
        true
    }

    fn write(&self, damage: &Damage) -> Result<(), OpenError> {
        let unfinished = self.folder.join(UNFINISHED);
        let write = || {
            let mut file = create_file(&unfinished)?;
            file.write_all(damage.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, self.folder.join(NAME))
        };
        write().map_err(OpenError::io("write", &unfinished))?;
        sync_folder(&self.folder)
    }

    /// Which file it is, and what to do.
    pub(crate) fn advice(&self) -> Option<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Damage { file, what } = known.as_ref()?;
        let folder = self.folder.display();
        Some(format!(
            "the file {folder}/store/{file} is damaged ({what}). Rows in its damaged part cannot be read, and nothing is \
             compacted until that has an end. Stop the server; restore the folder from a backup, or see all of the damage \
             with `tavola check {folder}` and save the rest into a new folder with `tavola repair {folder}`"
        ))
    }
}

/// Looks at every block of a table file.
fn is_damaged(path: &Path) -> bool {
    if !path.exists() {
        return false;
    }
    Structure::read(path).map_or(true, |structure| {
        !structure.flaws.is_empty()
            || structure.data.iter().any(|block| structure.entries_of(block).is_err())
    })
}

#[cfg(test)]
mod tests {
    use super::{Damage, DamageNote, NAME};

    #[test]
    fn the_engine_names_the_file() {
        let message = "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4 in /data/store/000012.sst \
                       offset 4096 size 900";
        assert_eq!(Damage::of(message).unwrap().file, "000012.sst");
        for other in ["Corruption: bad entry in block", "Corruption: in .sst", ""] {
            assert_eq!(Damage::of(other), None, "{other}");
        }
        let damage = Damage::of(message).unwrap();
        assert_eq!(Damage::parse(&damage.text()), Some(damage));
    }

    #[test]
    fn a_note_is_kept_as_long_as_the_file_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let engine = folder.path().join("store");
        std::fs::create_dir(&engine).unwrap();
        std::fs::write(engine.join("000012.sst"), "not a table file").unwrap();
        let note = DamageNote::read(folder.path(), &engine).unwrap();
        assert!(
            !note.is_there()
                && note.add("it is bad: store/000012.sst")
                && !note.add("and store/000013.sst")
        );
        let after = DamageNote::read(folder.path(), &engine).unwrap();
        assert_eq!(after.advice(), note.advice());
        let advice = after.advice().unwrap();
        for part in ["store/000012.sst", "tavola check", "tavola repair"] {
            assert!(advice.contains(part), "{part}: {advice}");
        }
        std::fs::remove_file(engine.join("000012.sst")).unwrap();
        let gone = DamageNote::read(folder.path(), &engine).unwrap();
        assert_eq!(gone.advice(), None);
        gone.forget_old();
        assert!(!folder.path().join(NAME).exists());
    }
}
