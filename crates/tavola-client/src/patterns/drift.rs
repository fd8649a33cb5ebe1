//! What `verify` and `rebuild` of all patterns say, and how they write beside others.

use crate::error::{Error, Outcome};

/// What a look at the rows of a pattern found: rows that are there because of others, such as index
/// rows and copies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DriftReport {
    /// Rows that were read.
    pub read: usize,
    /// Rows that are missing.
    pub missing: usize,
    /// Rows without the entity that they are for.
    pub orphan: usize,
    /// Rows that say something else than their entity.
    pub stale: usize,
    /// Values of a unique index that two entities have. Nobody but you can mend that.
    pub duplicate: usize,
    /// How many of these were mended.
    pub mended: usize,
    /// The requests that it took.
    pub requests: usize,
}

impl DriftReport {
    /// True if nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.missing + self.orphan + self.stale + self.duplicate == 0
    }
}

impl DriftReport {
    /// Takes over what another part of the look found.
    #[cfg(feature = "json")]
    pub(super) fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.missing += other.missing;
        self.orphan += other.orphan;
        self.stale += other.stale;
        self.duplicate += other.duplicate;
        self.mended += other.mended;
        self.requests += other.requests;
    }
}

/// False if a row was not as it was read; then nothing was applied.
pub(super) fn applied<T>(result: Result<T, Error>) -> Result<bool, Error> {
    match result {
        Ok(_) => Ok(true),
        Err(error)
            if matches!(error.status(), Some(404 | 409 | 412))
                && error.outcome() == Outcome::NotApplied =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
