//! How much space the disk has, and what may still be written.
//!
//! An engine that runs out of space in the middle of a write leaves that write's outcome unknown.
//! So the last bytes are a reserve: below it writes are refused before they reach the engine, which
//! leaves nothing in doubt, costs reads nothing, and ends by itself when there is space again
//! (docs/decisions/005-a-full-disk.md). Half of the reserve is for writes that free space; the rest
//! is the engine's, which must be able to flush its memtables.

use std::path::{Path, PathBuf};

use crate::options::Options;

/// What may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreeSpace {
    /// Everything.
    Enough,
    /// Only what frees space: deletions, and the small rows of system tables that the drop of a
    /// table needs.
    OnlyToShrink,
    /// Nothing.
    Exhausted,
}

/// The disk of a data folder.
#[derive(Debug)]
pub(crate) struct DiskSpace {
    folder: PathBuf,
    reserve_bytes: u64,
    /// What the engine needs to flush its memtables.
    engine_bytes: u64,
}

impl DiskSpace {
    pub(crate) fn new(folder: &Path, options: &Options) -> Self {
        let (reserve_bytes, engine_bytes) = (options.reserve_bytes, options.memtables_bytes());
        Self { folder: folder.to_owned(), reserve_bytes, engine_bytes }
    }

    pub(crate) fn free_space(&self) -> FreeSpace {
        // If the file system does not report it, the engine finds out.
        self.free_bytes()
            .map_or(FreeSpace::Enough, |free_bytes| free_space(free_bytes, self.reserve_bytes))
    }

    /// True if there is enough for an engine that ran out of space to recover.
    pub(crate) fn is_enough_for_engine(&self) -> bool {
        self.free_bytes()
            .is_none_or(|free_bytes| free_bytes >= self.reserve_bytes.max(self.engine_bytes))
    }

    /// The state in words for people.
    pub(crate) fn describe(&self) -> String {
        const MIB: u64 = 1024 * 1024;
        let (free, reserve) =
            (self.free_bytes().unwrap_or(0) / MIB, self.reserve_bytes.div_ceil(MIB));
        format!(
            "the disk of {} is full: {free} MiB are free and {reserve} MiB are kept in reserve (store.reserve_mb). Make \
             room; writes are taken again as soon as there is some",
            self.folder.display()
        )
    }

    fn free_bytes(&self) -> Option<u64> {
        free_bytes(&self.folder)
    }
}

/// Bytes that may still be written to the file system of a folder, if it can say.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let status = rustix::fs::statvfs(folder).ok()?;
    // Some file systems count nothing.
    (status.f_blocks > 0).then(|| status.f_bavail.saturating_mul(status.f_frsize))
}

fn free_space(free_bytes: u64, reserve_bytes: u64) -> FreeSpace {
    if free_bytes >= reserve_bytes {
        FreeSpace::Enough
    } else if free_bytes >= reserve_bytes / 2 {
        FreeSpace::OnlyToShrink
    } else {
        FreeSpace::Exhausted
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskSpace, FreeSpace, free_space};
    use crate::options::Options;

    #[test]
    fn half_of_the_reserve_is_for_freeing_space() {
        for (free_bytes, expected) in [
            (101, FreeSpace::Enough),
            (100, FreeSpace::Enough),
            (99, FreeSpace::OnlyToShrink),
            (50, FreeSpace::OnlyToShrink),
        ] {
            assert_eq!(free_space(free_bytes, 100), expected, "{free_bytes}");
        }
        assert_eq!(
            (free_space(49, 100), free_space(0, 100)),
            (FreeSpace::Exhausted, FreeSpace::Exhausted)
        );
        assert_eq!(
            free_space(0, 0),
            FreeSpace::Enough,
            "without a reserve nothing is refused before the engine does"
        );
    }

    #[test]
    fn asks_the_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let space = |reserve_bytes| {
            DiskSpace::new(folder.path(), &Options { reserve_bytes, ..Options::default() })
        };
        assert_eq!(space(1).free_space(), FreeSpace::Enough);
        let greedy = space(u64::MAX);
        assert_eq!(greedy.free_space(), FreeSpace::Exhausted);
        assert!(greedy.describe().contains("is full"), "{}", greedy.describe());
        assert!(!greedy.is_enough_for_engine());
        let nowhere = DiskSpace { folder: folder.path().join("absent"), ..greedy };
        assert_eq!(nowhere.free_space(), FreeSpace::Enough, "it cannot say");
    }
}
