//! Data folders of the measured servers, and the folder that keeps what was installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::{env, process};

use tavola_load::{Context, Result};

const PREFIX: &str = "tavola-bench-";

/// Parent of all data folders of this run, removed when dropped. Under the temporary folder:
/// `TMPDIR` chooses the disk.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        remove_leftovers();
        let path = env::temp_dir().join(format!("{PREFIX}{}", process::id()));
        create(&path)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A new, empty folder.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        // There may be one from an earlier start of the same server.
        let _ = fs::remove_dir_all(&path);
        create(&path)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A run that was interrupted could not clean up, and its tables may be large.
fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// `$TAVOLA_CACHE/bench/<name>`.
pub(crate) fn cache(name: &str) -> Result<PathBuf> {
    let path = cache_root()?.join("bench").join(name);
    create(&path)?;
    Ok(path)
}

/// The packages of an SDK suite, which `cargo xtask sdk` installs.
pub(crate) fn sdk_packages(language: &str) -> Result<PathBuf> {
    Ok(cache_root()?.join("sdk").join(language))
}

/// As `cargo xtask` chooses its cache.
fn cache_root() -> Result<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = variable("TAVOLA_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("tavola")))
        .or_else(|| Some(variable("HOME")?.join(".cache/tavola")))
        .ok_or("no cache folder: set TAVOLA_CACHE (neither XDG_CACHE_HOME nor HOME is set)")?;
    Ok(root)
}

fn create(path: &Path) -> Result {
    fs::create_dir_all(path).context(|| format!("cannot create {}", path.display()))
}
