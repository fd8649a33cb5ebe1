//! Defects on purpose, each a mistake that a store like this one could have. The checkers of the
//! cluster's torture must report every one of them, which shows that their silence about the real
//! store means something.
//!
//! Compiled only with the feature `mutants`, which nothing turns on but `cargo xtask torture`;
//! chosen by the variable `TAVOLA_MUTANT`. Without the variable such a build is the real store.

#[cfg(not(debug_assertions))]
compile_error!("the feature `mutants` is for tests: no release build may have it");

use std::sync::OnceLock;

const VARIABLE: &str = "TAVOLA_MUTANT";

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A write whose outcome is unknown is taken for one that was not applied.
    TimeoutMeansNo,
    /// Its outcome is read without a fence before.
    NoFence,
    /// Writes without a condition go beside the conditional batch instead of into it.
    PlainWrite,
}

/// True if this process has that defect.
pub(crate) fn is(mutant: Mutant) -> bool {
    static CHOSEN: OnceLock<Option<Mutant>> = OnceLock::new();
    *CHOSEN.get_or_init(chosen) == Some(mutant)
}

fn chosen() -> Option<Mutant> {
    match std::env::var(VARIABLE).ok()?.as_str() {
        "timeout-means-no" => Some(Mutant::TimeoutMeansNo),
        "no-fence" => Some(Mutant::NoFence),
        "plain-write" => Some(Mutant::PlainWrite),
        _ => None,
    }
}
