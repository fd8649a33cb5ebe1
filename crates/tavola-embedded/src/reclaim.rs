//! Reclaiming the space of a dropped table, while the store serves.

use rocksdb::CompactOptions;
use tavola_core::{Cut, TableId};
use tavola_store::StoreError;
use tavola_store::keys::encode_cut;

use crate::engine::Engine;
use crate::group_commit::{GroupCommit, RangeDelete};
use crate::options::Walk;
use crate::scans::Scans;

/// Up to this many rows are deleted one by one: every later read of a file looks at its deleted
/// ranges, so the ranges of many small dropped tables would slow down all others.
const ROWS_ONE_BY_ONE_MAX: usize = 10_000;
/// Rows of one batch; other commits come between two of them.
const ROWS_PER_BATCH: usize = 1000;

/// Removes all rows of a table. Repeating it is harmless. For blocking threads.
pub(crate) fn purge(
    engine: &Engine,
    commits: &GroupCommit<Engine>,
    scans: &Scans,
    table: TableId,
) -> Result<(), StoreError> {
    let (start, end) = (encode_cut(table, &Cut::Start), encode_cut(table, &Cut::End));
    assert!(start < end, "a table has a range of keys");
    let keys = few_keys(engine, &start, &end)?;
    let is_small = keys.is_some();
    match keys {
        Some(keys) => keys
            .chunks(ROWS_PER_BATCH)
            .try_for_each(|keys| commits.delete_range(RangeDelete::Keys(keys.to_vec())))?,
        None => {
            commits.delete_range(RangeDelete::Range { start: start.clone(), end: end.clone() })?
        }
    }
    engine.rows.forget(&start, &end);
    if is_small { Ok(()) } else { reclaim_files(engine, scans, &start, &end) }
}

/// The keys of a small table; `None` if there are many.
fn few_keys(engine: &Engine, start: &[u8], end: &[u8]) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
    let mut keys = Vec::new();
    engine.for_each(start, end.to_vec(), Walk::WHOLE, |key, _| {
        keys.push(key.to_vec());
        Ok(keys.len() <= ROWS_ONE_BY_ONE_MAX)
    })?;
    debug_assert!(
        keys.iter().all(|key| (start..end).contains(&key.as_slice())),
        "a purge deletes rows of its table only"
    );
    Ok((keys.len() <= ROWS_ONE_BY_ONE_MAX).then_some(keys))
}

/// The rows are gone already, by a range tombstone that is newer than all of them. Files that hold
/// nothing else are now deleted at once; other rows share files with other tables and go when those
/// are compacted.
fn reclaim_files(
    engine: &Engine,
    scans: &Scans,
    start: &[u8],
    end: &[u8],
) -> Result<(), StoreError> {
    // Deleting files ignores snapshots. A scan that began before keeps the files it reads from, and
    // their space.
    scans.wait_for_running();
    engine.db.delete_file_in_range(start, end).map_err(|error| engine.store_error(error))?;
    if engine.must_not_compact() {
        return Ok(());
    }
    let mut options = CompactOptions::default();
    // Other compactions go on beside this one.
    options.set_exclusive_manual_compaction(false);
    engine.db.compact_range_opt(Some(start), Some(end), &options);
    Ok(())
}
