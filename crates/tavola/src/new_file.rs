//! Files that commands make.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// A file that will be written.
pub(crate) struct NewFile {
    path: PathBuf,
    content: Zeroizing<String>,
    /// Only for its owner.
    is_secret: bool,
}

impl NewFile {
    pub(crate) fn public(path: PathBuf, content: String) -> Self {
        Self { path, content: Zeroizing::new(content), is_secret: false }
    }

    pub(crate) fn secret(path: PathBuf, content: Zeroizing<String>) -> Self {
        Self { path, content, is_secret: true }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// A server that watches the file sees the old content or the new, and a secret is never open
    /// to others, even for a moment.
    pub(crate) fn write(&self) -> std::io::Result<()> {
        let mut unfinished = self.path.clone().into_os_string();
        unfinished.push(format!(".{}", std::process::id()));
        let written = self
            .create(Path::new(&unfinished))
            .and_then(|mut created| created.write_all(self.content.as_bytes()))
            .and_then(|()| std::fs::rename(&unfinished, &self.path));
        if written.is_err() {
            let _best_effort = std::fs::remove_file(&unfinished);
        }
        written
    }

    fn create(&self, path: &Path) -> std::io::Result<File> {
        let mode = if self.is_secret { 0o600 } else { 0o644 };
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
    }
}
