//! The files of a data folder are their owner's alone, and none of them is a link: through a link
//! another user could make us write to a file of their choice.
//!
//! The engine makes files of its own, by the process's umask; that of `tavola` leaves others
//! nothing.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::OpenError;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What the group and others may do.
const OTHERS: u32 = 0o077;

/// Creates a folder, and those above it that are missing.
pub(crate) fn create_folder(path: &Path) -> Result<(), OpenError> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)
        .map_err(OpenError::io("create the folder", path))
}

/// Creates a file in place of what is there.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Opens a file that exists for writing.
pub(crate) fn open_for_writing(path: &Path) -> io::Result<File> {
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new().write(true).custom_flags(no_link).open(path)
}

/// The first link in a data folder, or in a folder of it. The folder itself may be one: its owner
/// chose its name.
///
/// # Errors
/// If the folder cannot be read.
pub fn find_link(folder: &Path) -> io::Result<Option<PathBuf>> {
    Ok(content(folder)?
        .into_iter()
        .find(|(_, metadata)| metadata.is_symlink())
        .map(|(path, _)| path))
}

/// What others than the owner can use of a data folder, each with its mode.
///
/// # Errors
/// If the folder cannot be read.
pub fn open_to_others(folder: &Path) -> io::Result<Vec<(PathBuf, u32)>> {
    let itself = (folder.to_owned(), fs::metadata(folder)?);
    let all = std::iter::once(itself).chain(content(folder)?);
    let modes = all.filter(|(_, metadata)| !metadata.is_symlink());
    let modes = modes.map(|(path, metadata)| (path, metadata.permissions().mode() & 0o7777));
    Ok(modes.filter(|(_, mode)| mode & OTHERS != 0).collect())
}

pub(crate) fn refuse_links(folder: &Path) -> Result<(), OpenError> {
    match find_link(folder).map_err(OpenError::io("read the folder", folder))? {
        Some(link) => Err(OpenError::Link { link }),
        None => Ok(()),
    }
}

/// Takes the permissions from other users that an earlier version, or the maker of the folder, left
/// them. A folder of another owner, whose modes cannot be changed, is used all the same.
pub(crate) fn make_private(folder: &Path) -> Result<(), OpenError> {
    let unreadable = || OpenError::io("read the folder", folder);
    let open = open_to_others(folder).map_err(unreadable())?;
    let failed = open
        .iter()
        .filter_map(|(path, mode)| close_to_others(path, *mode).err())
        .fold(None, |_, error| Some(error));
    let remaining =
        if open.is_empty() { 0 } else { open_to_others(folder).map_err(unreadable())?.len() };
    let (folder, closed) = (folder.display(), open.len().saturating_sub(remaining));
    if closed > 0 {
        tracing::warn!(%folder, files = closed, "others could use files of the data folder; now only their owner can");
    }
    if remaining > 0 {
        let error = failed
            .map_or_else(|| "the file system keeps no modes".to_owned(), |error| error.to_string());
        tracing::warn!(%folder, files = remaining, error, "others can use files of the data folder; `chmod -R go= ` it");
    }
    Ok(())
}

fn close_to_others(path: &Path, mode: u32) -> io::Result<()> {
    match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
        // The engine may be removing it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Everything in a folder and in its folders: a data folder has no deeper ones.
fn content(folder: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut content = entries(folder)?;
    let folders = content.iter().filter(|(_, metadata)| metadata.is_dir());
    let deeper = folders.map(|(path, _)| entries(path)).collect::<io::Result<Vec<_>>>()?;
    content.extend(deeper.into_iter().flatten());
    Ok(content)
}

fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file system of its own has it, and it is root's.
        if entry.file_name() == "lost+found" {
            continue;
        }
        match entry.metadata() {
            Ok(metadata) => found.push((entry.path(), metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
