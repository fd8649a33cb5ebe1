//! What a disk holds after the power went, worked out from the record that `preload/lossy_disk.c`
//! writes.
//!
//! # The model
//!
//! - `fsync` and `fdatasync` of a file make durable what was written to it before they were called:
//!   bytes and length. They do not make its *name* durable.
//! - `fsync` of a folder makes the names in it durable as they were when it was called: files that
//!   were made, renamed or removed.
//! - Everything else may be lost. [`Losses::All`] loses all of it; [`Losses::Some`] loses a random
//!   part, because a disk may write what no sync asked for: any of the last changes of a file up
//!   to some moment, any sector of 512 bytes of them, the length with or without the bytes, any
//!   change of a name.
//! - A rename happens whole or not at all, and a sector is written whole or not at all.
//! - After a failed sync the bytes that it should have written are not made durable by later syncs.
//!
//! This is stricter than common file systems, which keep the name of a synced file. What the model
//! does not have: disks that acknowledge a flush and forget, and sectors that are damaged by the
//! loss of power.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Violation;

const SECTOR_BYTES: usize = 512;

/// What is forgotten of that which was not synced.
#[derive(Debug)]
pub(super) enum Losses<'a> {
    /// All of it.
    All,
    /// A random part.
    Some(&'a mut fastrand::Rng),
}

type Id = usize;

/// Files and folders below one folder, as they are and as they would be found after a loss of
/// power.
#[derive(Debug)]
pub(super) struct LossyDisk {
    root: PathBuf,
    objects: Vec<Object>,
    /// An inode's number is used again once its file is gone; this is the file that has it now.
    by_inode: HashMap<u64, Id>,
    /// Syncs that have begun: how many changes of the object they cover.
    tickets: HashMap<u64, usize>,
    /// Syncs that ended, for the tally.
    pub(super) syncs: u64,
}

#[derive(Debug)]
enum Object {
    File(Changing<Vec<u8>, Bytes>),
    Folder(Changing<Names, Rename>),
}

type Names = BTreeMap<String, Id>;

/// A change of a file.
#[derive(Debug, Clone)]
enum Bytes {
    Write { at: usize, bytes: Vec<u8> },
    Resize(usize),
}

/// A change of a folder: names that go, names that come.
#[derive(Debug, Clone, Default)]
struct Rename {
    goes: Option<String>,
    comes: Option<(String, Id)>,
}

trait Change<S> {
    fn apply(&self, to: &mut S);
}

impl Change<Vec<u8>> for Bytes {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Resize(length) => to.resize(*length, 0),
            Self::Write { at, bytes } => {
                let end = at + bytes.len();
                to.resize(to.len().max(end), 0);
                to[*at..end].copy_from_slice(bytes);
            }
        }
    }
}

impl Change<Names> for Rename {
    fn apply(&self, to: &mut Names) {
        if let Some(name) = &self.goes {
            to.remove(name);
        }
        if let Some((name, id)) = &self.comes {
            to.insert(name.clone(), *id);
        }
    }
}

/// Something durable, and the changes since.
#[derive(Debug)]
struct Changing<S, C> {
    durable: S,
    pending: Vec<C>,
    /// Changes that are durable already.
    settled: usize,
    /// Changes that a failed sync should have made durable: later syncs do not.
    orphaned: Vec<C>,
}

impl<S, C: Change<S>> Changing<S, C> {
    fn new(durable: S) -> Self {
        Self { durable, pending: Vec::new(), settled: 0, orphaned: Vec::new() }
    }

    /// How many changes there ever were.
    fn changes(&self) -> usize {
        self.settled + self.pending.len()
    }

    /// Makes all changes durable but those after the first `count`.
    fn settle(&mut self, count: usize) {
        // A later sync may have ended before this one.
        let newly = count.saturating_sub(self.settled);
        self.pending.drain(..newly).for_each(|change| change.apply(&mut self.durable));
        self.settled += newly;
    }
}

impl LossyDisk {
    /// A disk on which everything below `root` is durable.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn load(root: &Path) -> Result<Self, Violation> {
        let mut disk = Self {
            root: root.to_owned(),
            objects: Vec::new(),
            by_inode: HashMap::new(),
            tickets: HashMap::new(),
            syncs: 0,
        };
        disk.load_object(root)
            .map_err(|error| Violation::new(format!("cannot read {}: {error}", root.display())))?;
        Ok(disk)
    }

    fn load_object(&mut self, path: &Path) -> std::io::Result<Id> {
        let inode = fs::metadata(path)?.ino();
        if path.is_file() {
            return Ok(self.add(inode, Object::File(Changing::new(fs::read(path)?))));
        }
        let id = self.add(inode, Object::Folder(Changing::new(Names::new())));
        let mut names = Names::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            names.insert(
                entry.file_name().to_string_lossy().into_owned(),
                self.load_object(&entry.path())?,
            );
        }
        self.objects[id] = Object::Folder(Changing::new(names));
        Ok(id)
    }

    fn add(&mut self, inode: u64, object: Object) -> Id {
        let id = self.objects.len();
        self.objects.push(object);
        self.by_inode.insert(inode, id);
        id
    }

    /// Takes in what the record says.
    ///
    /// # Errors
    /// If it speaks of something that this model does not know. Its last entry may be cut off.
    pub(super) fn replay(&mut self, record: &[u8]) -> Result<(), Violation> {
        let mut rest = record;
        while let Some((entry, after)) = Entry::read(rest) {
            self.take(&entry)
                .map_err(|what| Violation::new(format!("the record of the lossy disk: {what}")))?;
            rest = after;
        }
        Ok(())
    }

    fn take(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        match entry.kind {
            1 => self.made(entry, Object::File(Changing::new(Vec::new()))),
            2 => self.made(entry, Object::Folder(Changing::new(Names::new()))),
            3 => self.change_file(
                entry,
                Bytes::Write { at: entry.position()?, bytes: entry.payload.to_vec() },
            ),
            4 => self.change_file(entry, Bytes::Resize(entry.position()?)),
            5 => {
                let id = self.object(entry.inode)?;
                let changes = match &self.objects[id] {
                    Object::File(file) => file.changes(),
                    Object::Folder(folder) => folder.changes(),
                };
                self.tickets.insert(entry.at, changes);
                Ok(())
            }
            6 => self.synced(entry),
            7 => {
                let id = self.object(entry.inode)?;
                // A folder that cannot be synced stops its file system; a file's pages are
                // forgotten.
                if let Object::File(file) = &mut self.objects[id] {
                    file.settled += file.pending.len();
                    file.orphaned.append(&mut file.pending);
                }
                Ok(())
            }
            8 => {
                let (from, to) =
                    entry.text()?.split_once('\0').ok_or("a rename without a second name")?;
                self.renamed(from, to)
            }
            9 => {
                let (folder, name) = self.place(entry.text()?)?;
                self.change_folder(folder, Rename { goes: Some(name), comes: None })
            }
            10 => Err(format!("the model does not know {}", entry.text()?)),
            other => Err(format!("an entry of kind {other}")),
        }
    }

    fn made(&mut self, entry: &Entry<'_>, object: Object) -> Result<(), String> {
        let (folder, name) = self.place(entry.text()?)?;
        let id = self.add(entry.inode, object);
        self.change_folder(folder, Rename { goes: None, comes: Some((name, id)) })
    }

    fn renamed(&mut self, from: &str, to: &str) -> Result<(), String> {
        let ((from_folder, from_name), (to_folder, to_name)) = (self.place(from)?, self.place(to)?);
        if from_folder != to_folder {
            return Err(format!("the model does not know renames between folders: {from} to {to}"));
        }
        let id = *self
            .names_now(from_folder)?
            .get(&from_name)
            .ok_or(format!("{from} was never made"))?;
        self.change_folder(
            from_folder,
            Rename { goes: Some(from_name), comes: Some((to_name, id)) },
        )
    }

    fn synced(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        let covered = self.tickets.remove(&entry.at).ok_or("a sync that never began")?;
        self.syncs += 1;
        let id = self.object(entry.inode)?;
        match &mut self.objects[id] {
            Object::File(file) => file.settle(covered),
            Object::Folder(folder) => folder.settle(covered),
        }
        Ok(())
    }

    fn change_file(&mut self, entry: &Entry<'_>, change: Bytes) -> Result<(), String> {
        let id = self.object(entry.inode)?;
        match &mut self.objects[id] {
            Object::File(file) => file.pending.push(change),
            Object::Folder(_) => return Err("bytes were written to a folder".to_owned()),
        }
        Ok(())
    }

    fn change_folder(&mut self, id: Id, change: Rename) -> Result<(), String> {
        match &mut self.objects[id] {
            Object::Folder(folder) => folder.pending.push(change),
            Object::File(_) => return Err("a file was used as a folder".to_owned()),
        }
        Ok(())
    }

    fn object(&self, inode: u64) -> Result<Id, String> {
        self.by_inode.get(&inode).copied().ok_or(format!("inode {inode} was never made"))
    }

    /// The names of a folder as the running process sees them.
    fn names_now(&self, id: Id) -> Result<Names, String> {
        let Object::Folder(folder) = &self.objects[id] else {
            return Err("a file was used as a folder".to_owned());
        };
        let mut names = folder.durable.clone();
        folder.pending.iter().for_each(|change| change.apply(&mut names));
        Ok(names)
    }

    /// The folder and the name in it that a path means.
    fn place(&self, path: &str) -> Result<(Id, String), String> {
        let inside =
            Path::new(path).strip_prefix(&self.root).map_err(|_| format!("{path} is elsewhere"))?;
        let mut names: Vec<&str> =
            inside.iter().map(|name| name.to_str().unwrap_or_default()).collect();
        let name = names.pop().ok_or(format!("{path} is the folder itself"))?.to_owned();
        let mut id = 0;
        for folder in names {
            id = *self
                .names_now(id)?
                .get(folder)
                .ok_or(format!("{path} is in no folder that was made"))?;
        }
        Ok((id, name))
    }

    /// Replaces the real folder by what would be found after a loss of power.
    ///
    /// # Errors
    /// If the disk does not let us.
    pub(super) fn lose_power(&self, losses: &mut Losses<'_>) -> Result<(), Violation> {
        let rebuilt =
            fs::remove_dir_all(&self.root).and_then(|()| self.build(0, &self.root, losses));
        rebuilt.map_err(|error| {
            Violation::new(format!("cannot rebuild {}: {error}", self.root.display()))
        })
    }

    fn build(&self, id: Id, path: &Path, losses: &mut Losses<'_>) -> std::io::Result<()> {
        match &self.objects[id] {
            Object::File(file) => fs::write(path, found_bytes(file, losses)),
            Object::Folder(folder) => {
                fs::create_dir_all(path)?;
                for (name, id) in found_names(folder, losses) {
                    self.build(id, &path.join(name), losses)?;
                }
                Ok(())
            }
        }
    }
}

/// The names in a folder after the power went.
fn found_names(folder: &Changing<Names, Rename>, losses: &mut Losses<'_>) -> Names {
    let mut names = folder.durable.clone();
    let Losses::Some(rng) = losses else { return names };
    // File systems with a journal keep an order; those without need not.
    let (kept, is_ordered) = (some_of(folder.pending.len(), rng), rng.bool());
    for change in &folder.pending[..kept] {
        if is_ordered || rng.bool() {
            change.apply(&mut names);
        }
    }
    names
}

/// The bytes of a file after the power went.
fn found_bytes(file: &Changing<Vec<u8>, Bytes>, losses: &mut Losses<'_>) -> Vec<u8> {
    let Losses::Some(rng) = losses else { return file.durable.clone() };
    let mut written = file.durable.clone();
    for changes in [&file.orphaned, &file.pending] {
        changes[..some_of(changes.len(), rng)].iter().for_each(|change| change.apply(&mut written));
    }
    let keeps_all = rng.bool();
    let mut found = file.durable.clone();
    found.resize(if rng.bool() { written.len() } else { found.len() }, 0);
    for start in (0..written.len()).step_by(SECTOR_BYTES) {
        let end = (start + SECTOR_BYTES).min(written.len());
        if keeps_all || rng.bool() {
            found.resize(found.len().max(end), 0);
            found[start..end].copy_from_slice(&written[start..end]);
        }
    }
    found
}

/// None, all, or anything between.
fn some_of(count: usize, rng: &mut fastrand::Rng) -> usize {
    match rng.u8(..4) {
        0 => 0,
        1 => count,
        _ => rng.usize(..=count),
    }
}

/// One entry of the record: four numbers of eight bytes, and a payload.
#[derive(Debug)]
struct Entry<'a> {
    kind: u64,
    inode: u64,
    at: u64,
    payload: &'a [u8],
}

impl<'a> Entry<'a> {
    /// `None` at the end, or if a kill cut the last one off.
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk::<32>()?;
        let number = |index: usize| {
            head[8 * index..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (payload, rest) = rest.split_at_checked(usize::try_from(number(3)).ok()?)?;
        Some((Self { kind: number(0), inode: number(1), at: number(2), payload }, rest))
    }

    fn position(&self) -> Result<usize, String> {
        usize::try_from(self.at).map_err(|_| "a file is too long".to_owned())
    }

    fn text(&self) -> Result<&'a str, String> {
        std::str::from_utf8(self.payload).map_err(|_| "a name is no text".to_owned())
    }
}

#[cfg(test)]
mod tests;
