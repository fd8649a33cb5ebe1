//! The folder outside the clone where slow things are kept: RocksDB, SDK packages, CI's build
//! output.
//!
//! Everything in it can be deleted at any time; the next command makes it again.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::failure::{Context, Result};

/// `$TAVOLA_CACHE`, else `$XDG_CACHE_HOME/tavola`, else `~/.cache/tavola`; created when missing.
pub(crate) fn root() -> Result<PathBuf> {
    let folder =
        choose(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
            .ok_or("no cache folder: set TAVOLA_CACHE (neither XDG_CACHE_HOME nor HOME is set)")?;
    let folder =
        std::path::absolute(&folder).context(|| format!("cache folder {}", folder.display()))?;
    create(&folder)?;
    Ok(folder)
}

fn choose(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    variable("TAVOLA_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("tavola")))
        .or_else(|| Some(variable("HOME")?.join(".cache/tavola")))
}

pub(crate) fn create(folder: &Path) -> Result {
    fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))
}

/// With all that is in it; one that is not there is removed already.
pub(crate) fn remove_folder(folder: &Path) -> Result {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder).context(|| format!("cannot remove {}", folder.display()))
}

/// Writes only when the content differs: a touched file would make cargo or g++ build again.
pub(crate) fn write_if_changed(file: &Path, content: &str) -> Result {
    if fs::read_to_string(file).is_ok_and(|present| present == content) {
        return Ok(());
    }
    fs::write(file, content).context(|| format!("cannot write {}", file.display()))
}

/// One at a time: a second process says what it waits for, and then finds the work done.
pub(crate) fn lock(path: &Path, in_the_way: &str) -> Result<File> {
    let file = File::create(path).context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        println!("{in_the_way}; waiting for it");
        file.lock().context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_wins() {
        let only = |wanted: &'static str| {
            move |name: &str| (name == wanted).then(|| PathBuf::from("/base"))
        };
        assert_eq!(choose(only("TAVOLA_CACHE")), Some("/base".into()));
        assert_eq!(choose(only("XDG_CACHE_HOME")), Some("/base/tavola".into()));
        assert_eq!(choose(only("HOME")), Some("/base/.cache/tavola".into()));
        assert_eq!(choose(|_| Some("/base".into())), Some("/base".into()));
        assert_eq!(choose(|_| None), None);
    }
}
