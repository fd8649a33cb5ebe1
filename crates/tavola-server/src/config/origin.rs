//! Where a value was written.

use std::fmt;
use std::path::PathBuf;

/// Where a value was written. Later variants win.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// A variable of Azurite.
    AzuriteVariable(String),
    /// A variable of ours.
    Variable(String),
    /// The command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "file {}, line {line}", path.display()),
            Self::AzuriteVariable(name) | Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}
