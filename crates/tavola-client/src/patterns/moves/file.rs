//! Files as a target.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::target::{Copied, Target, Version};
use crate::crypt::ENVELOPE;
use crate::entity::DynEntity;
use crate::key::EntityKey;
use crate::patterns::outbox::StepError;
use crate::runtime::BoxFuture;
use crate::value::Value;

const ENDING: &str = ".json";
const UNFINISHED: &str = ".tmp";

/// A folder as the target of moves: a file of JSON for each entity,
/// `{PartitionKey}/{RowKey}/{version}.json`, with characters that are unusual in file names escaped.
///
/// A file is never overwritten: each version has a name of its own, is complete and synced before it
/// gets that name, and the newest counts. So workers of several processes need no lock. Older
/// versions are deleted afterwards.
///
/// It is also an example of a target outside of tables. It blocks its thread while it writes; keys
/// that are longer than a file name may be are refused by the file system.
#[derive(Debug, Clone)]
pub struct FileTarget {
    folder: PathBuf,
}

impl FileTarget {
    /// This folder; it is created if need be.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn folder_of(&self, key: &EntityKey) -> PathBuf {
        self.folder.join(escaped(key.partition())).join(escaped(key.row()))
    }

    fn put_one(&self, copy: &Copied) -> Result<Version, StepError> {
        if let Some(Value::String(_)) = copy.entity.value(ENVELOPE) {
            return Err("the entity is encrypted, and a file would show it; move it by a worker \
                        without the keys, so that it stays encrypted"
                .into());
        }
        let key = EntityKey::new(copy.entity.partition(), copy.entity.row())?;
        let folder = self.folder_of(&key);
        fs::create_dir_all(&folder)?;
        if let Some(held) = newest(&folder)?
            && !copy.version.is_newer_than(&held)
        {
            return Ok(held);
        }
        let name = copy.version.to_string();
        // Two workers may write one version at a time; each has a file of its own until it is done.
        let own = format!("{name}-{}-{:?}{UNFINISHED}", std::process::id(), thread_id());
        let unfinished = folder.join(own);
        let mut file = File::create(&unfinished)?;
        file.write_all(copy.entity.to_json()?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, folder.join(format!("{name}{ENDING}")))?;
        // The folders of the key may be new as well.
        for folder in folder.ancestors().take(3) {
            sync_folder(folder)?;
        }
        let held = newest(&folder)?.unwrap_or_else(|| copy.version.clone());
        for old in versions(&folder)?.into_iter().filter(|old| held.is_newer_than(old)) {
            match fs::remove_file(folder.join(format!("{old}{ENDING}"))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(held)
    }

    fn get_one(&self, key: &EntityKey) -> Result<Option<Copied>, StepError> {
        let folder = self.folder_of(key);
        // The newest may be replaced between its name and its content.
        while let Some(version) = newest(&folder)? {
            match fs::read_to_string(folder.join(format!("{version}{ENDING}"))) {
                Ok(text) => return Ok(Some(Copied::kept(DynEntity::from_json(&text)?, version))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

fn thread_id() -> std::thread::ThreadId {
    std::thread::current().id()
}

fn versions(folder: &Path) -> Result<Vec<Version>, StepError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        if let Some(version) = name.to_str().and_then(|name| name.strip_suffix(ENDING)) {
            all.push(version.parse()?);
        }
    }
    Ok(all)
}

fn newest(folder: &Path) -> Result<Option<Version>, StepError> {
    let newer = |best: Version, next: Version| if next.is_newer_than(&best) { next } else { best };
    Ok(versions(folder)?.into_iter().reduce(newer))
}

/// Makes the name of a file durable, where the system has a way to.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Letters and digits as they are, other bytes as `%xx`; never empty, never a name of a system's own.
fn escaped(key: &str) -> String {
    let mut name = String::from("k");
    for byte in key.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

impl Target for FileTarget {
    fn put<'a>(&'a self, copy: &'a Copied) -> BoxFuture<'a, Result<Version, StepError>> {
        Box::pin(async move { self.put_one(copy) })
    }

    fn get<'a>(&'a self, key: &'a EntityKey) -> BoxFuture<'a, Result<Option<Copied>, StepError>> {
        Box::pin(async move { self.get_one(key) })
    }
}
