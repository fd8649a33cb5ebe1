//! What a group is going to write, while it is decided.

use rocksdb::WriteBatch;
use tavola_core::{Change, EntityOperation, Timestamp};
use tavola_store::decision::{decide_all, next_version};
use tavola_store::encoding::encode_value_into;
use tavola_store::{CommitResult, Row, StoreError};

use super::decided::{Decided, Reply};
use super::job::{Commit, Job};
use super::journal::{Changed, Journal, RangeDelete, WriteError};
use crate::engine::last_version_entry;
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};

/// Keys of one lookup: as many as the engine reads as one batch. It copies the values that it
/// finds, so a larger number would take more memory when large rows are inserted again.
const PROBED_AT_ONCE: usize = 32;

/// Looks up the rows of all inserts of a group. They almost never exist, and one lookup for all of
/// them costs a fraction of one for each.
pub(super) fn probe_insert_keys<J: Journal>(journal: &J, group: &mut [Job]) {
    let mut commits: Vec<&mut Commit> = group.iter_mut().filter_map(Job::as_commit).collect();
    let mut places = Vec::new();
    for (number, commit) in commits.iter().enumerate() {
        let is_insert =
            |operation: &EntityOperation| matches!(operation, EntityOperation::Insert(_));
        let operations = commit.transaction.operations().iter().enumerate();
        places.extend(
            operations
                .filter(|(_, operation)| is_insert(operation))
                .map(|(index, _)| (number, index)),
        );
    }
    // A single key is looked up as fast when its transaction is decided.
    if places.len() < 2 {
        return;
    }
    for places in places.chunks(PROBED_AT_ONCE) {
        let keys: Vec<&[u8]> =
            places.iter().map(|(number, index)| &commits[*number].keys[*index][..]).collect();
        let absent = journal.absent(&keys);
        assert_eq!(absent.len(), keys.len(), "the engine answers for every key");
        for ((number, index), is_absent) in places.iter().zip(absent) {
            let known = &mut commits[*number].is_absent;
            known.resize(index + 1, false);
            known[*index] = is_absent;
        }
    }
}

/// A batch that grows by one job after another.
pub(super) struct Draft<'a, J> {
    journal: &'a J,
    pub(super) batch: WriteBatch,
    pub(super) last_version: Timestamp,
    /// What earlier transactions of the group have changed. Later ones must see it, although the
    /// engine does not show it yet.
    pub(super) changed: Changed,
    /// Write even if nothing has changed.
    pub(super) is_probe: bool,
}

impl<'a, J: Journal> Draft<'a, J> {
    pub(super) fn new(journal: &'a J, last_version: Timestamp) -> Self {
        Self {
            journal,
            batch: WriteBatch::default(),
            last_version,
            changed: Changed::new(),
            is_probe: false,
        }
    }

    pub(super) fn add(&mut self, job: Job) -> Decided {
        match job {
            Job::Commit(mut commit) => {
                let result = self.transact(&mut commit);
                let writes = matches!(result, Ok(Ok(_)));
                Decided { reply: Reply::Commit(commit.answer, result), writes }
            }
            Job::Delete { deletion, answer } => {
                self.delete_range(deletion);
                Decided { reply: Reply::Delete(answer, Ok(())), writes: true }
            }
            Job::Import { table, rows, answer } => {
                let done = self.import(table, &rows);
                let writes = done.is_ok();
                Decided { reply: Reply::Import(answer, done), writes }
            }
            Job::Probe => {
                self.is_probe = true;
                Decided { reply: Reply::Probe, writes: false }
            }
        }
    }

    fn transact(&mut self, commit: &mut Commit) -> Result<CommitResult, StoreError> {
        let version = next_version(commit.now, self.last_version)?;
        assert!(version > self.last_version, "a version is never assigned twice");
        let operations = commit.transaction.operations().len();
        assert_eq!(commit.keys.len(), operations, "every operation has a key");
        let changes = decide_all(&commit.transaction, version, |index, operation| {
            self.row(&commit.keys[index], commit.is_absent.get(index) == Some(&true), |value| {
                Row::new(
                    commit.transaction.partition_key().as_str(),
                    operation.row_key().as_str(),
                    value,
                )
            })
        })?;
        let changes = match changes {
            Ok(changes) => changes,
            Err(failed) => return Ok(Err(failed)),
        };
        assert_eq!(changes.len(), operations, "a commit answers every operation");
        #[cfg(feature = "mutants")]
        if changes.len() > 1 && mutants::is(Mutant::SplitBatch) {
            self.write_first_half(&commit.keys, &changes)?;
        }
        for (key, change) in std::mem::take(&mut commit.keys).into_iter().zip(&changes) {
            self.apply(key, change);
        }
        self.last_version = version;
        Ok(Ok(changes.iter().map(Change::outcome).collect()))
    }

    /// The whole follows with the group, as if nothing had been written yet.
    #[cfg(feature = "mutants")]
    fn write_first_half(
        &mut self,
        keys: &[Vec<u8>],
        changes: &[Change<'_>],
    ) -> Result<(), StoreError> {
        for (key, change) in keys.iter().zip(changes).take(changes.len() / 2) {
            self.apply(key.clone(), change);
        }
        self.journal
            .write(std::mem::take(&mut self.batch), &self.changed)
            .map_err(|_| StoreError::UnknownOutcome)?;
        mutants::pause_between_halves();
        Ok(())
    }

    /// A row as earlier transactions of the group left it. `is_absent` if it did not exist before
    /// the group.
    fn row(
        &self,
        key: &[u8],
        is_absent: bool,
        row: impl Fn(&[u8]) -> Result<Row, StoreError>,
    ) -> Result<Option<Row>, StoreError> {
        if is_absent && !self.changed.contains_key(key) {
            return Ok(None);
        }
        self.value(key, |value| value.map(row).transpose())?
    }

    pub(super) fn value<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, StoreError> {
        match self.changed.get(key) {
            Some(changed) => Ok(read(changed.as_deref())),
            None => self.journal.value(key, read),
        }
    }

    fn apply(&mut self, key: Vec<u8>, change: &Change<'_>) {
        let value = match change {
            Change::Put { properties, timestamp } => {
                let mut value = Vec::new();
                encode_value_into(properties, *timestamp, &mut value);
                self.batch.put(&key, &value);
                Some(value)
            }
            Change::Delete => {
                self.batch.delete(&key);
                None
            }
        };
        self.changed.insert(key, value);
    }

    /// No request reads or writes these rows any more, so `changed` need not know them.
    fn delete_range(&mut self, deletion: RangeDelete) {
        match deletion {
            RangeDelete::Keys(keys) => keys.iter().for_each(|key| self.batch.delete(key)),
            RangeDelete::Range { start, end } => {
                assert!(start < end, "a range that is deleted is not empty");
                self.batch.delete_range(start, end);
            }
        }
    }

    /// True if there was something to write; it is on disk then.
    pub(super) fn write(mut self) -> Result<bool, WriteError> {
        if self.batch.is_empty() && !self.is_probe {
            return Ok(false);
        }
        // In the same batch, so that versions go on after a restart even if the rows are gone and
        // the clock went back.
        let (key, value) = last_version_entry(self.last_version);
        self.batch.put(key, value);
        self.journal.write(self.batch, &self.changed).map(|()| true)
    }
}
