//! Folders: copied, and compared by a hash of everything in them.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use super::super::Violation;

/// Every file below a folder, sorted.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, Violation> {
    let failed = |error| Violation::new(format!("cannot read {}: {error}", folder.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

/// Copies a folder to a place where none is.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Violation> {
    for file in files(from)? {
        let target = to.join(file.strip_prefix(from).expect("it lies in there"));
        let made = target
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::copy(&file, &target).map(|_| ()));
        made.map_err(|error| Violation::new(format!("cannot copy {}: {error}", file.display())))?;
    }
    Ok(())
}

/// A hash of names and contents.
pub(super) fn hash(folder: &Path) -> Result<u64, Violation> {
    let mut hasher = DefaultHasher::new();
    for file in files(folder)? {
        let bytes = fs::read(&file)
            .map_err(|error| Violation::new(format!("cannot read {}: {error}", file.display())))?;
        (file, bytes).hash(&mut hasher);
    }
    Ok(hasher.finish())
}
