//! What a group adds to the store's counters.

use super::decided::{Decided, Reply};
use crate::stats::{Counters, count};

/// Counts a group that was written with one sync.
pub(super) fn count_writers(counters: &Counters, decided: &[Decided], bytes: usize) {
    let writers = decided.iter().filter(|decided| decided.writes).count();
    counters.group_written(writers as u64, bytes);
}

/// Counts transactions that were written, and those that the domain refused.
pub(super) fn count_results(counters: &Counters, decided: &[Decided]) {
    for decided in decided {
        match &decided.reply {
            Reply::Commit(_, Ok(Ok(_))) => count(&counters.commits, 1),
            Reply::Commit(_, Ok(Err(_))) => count(&counters.refusals, 1),
            _ => {}
        }
    }
}
