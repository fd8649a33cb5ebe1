//! RocksDB, opened safely, with the few calls that we make.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rocksdb::{
    Cache, DB, DBPinnableSlice, ErrorKind, ReadOptions, WriteBatch, WriteOptions, properties,
};
use tavola_core::Timestamp;
use tavola_store::StoreError;

use crate::damage::DamageNote;
use crate::disk_space::{DiskSpace, FreeSpace};
use crate::error::OpenError;
use crate::folder::DataFolder;
use crate::group_commit::{Changed, Journal, WriteError};
use crate::inline_reads::InlineReadGovernor;
use crate::log_check::LogState;
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};
use crate::opening::{check_processor, open_db};
use crate::options::{Options, Walk, read_anywhere, read_cached, write_synced};
use crate::private_files::make_private;
use crate::row_cache::RowCache;
use crate::watermark::DurableWatermark;

/// Table id 0 belongs to the store itself; this is its one row: a format byte, then ticks, little
/// endian.
const LAST_VERSION_KEY: &[u8] = b"\0\0\0\0\0\0\0\0last-version";
const LAST_VERSION_FORMAT: u8 = 1;

/// The row that holds the highest version ever assigned.
pub(crate) fn last_version_entry(version: Timestamp) -> (&'static [u8], [u8; 9]) {
    let mut value = [LAST_VERSION_FORMAT; 9];
    value[1..].copy_from_slice(&version.ticks().to_le_bytes());
    (LAST_VERSION_KEY, value)
}

pub(crate) fn is_last_version_key(key: &[u8]) -> bool {
    key == LAST_VERSION_KEY
}

/// The version that [`last_version_entry`] wrote.
pub(crate) fn last_version_from(value: &[u8]) -> Option<Timestamp> {
    let (&LAST_VERSION_FORMAT, ticks) = value.split_first()? else { return None };
    Timestamp::from_ticks(u64::from_le_bytes(ticks.try_into().ok()?))
}

/// The open engine.
pub(crate) struct Engine {
    // Before the folder: fields are dropped in order, and the lock must outlive the engine's
    // threads.
    pub(crate) db: DB,
    cache: Cache,
    cached: ReadOptions,
    anywhere: ReadOptions,
    synced: WriteOptions,
    space: DiskSpace,
    watermark: DurableWatermark,
    /// The sequence number of the last write that was synced.
    synced_to: AtomicU64,
    pub(crate) inline_reads: InlineReadGovernor,
    pub(crate) rows: RowCache,
    damage: DamageNote,
    _folder: DataFolder,
}

impl Engine {
    /// Opens a data folder. Nothing of it has changed if this fails.
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        check_processor()?;
        let folder = DataFolder::open(path)?;
        let (db, damage, cache) = match open_db(&folder, options) {
            Ok(opened) => opened,
            Err(error) => {
                folder.roll_back();
                return Err(error);
            }
        };
        damage.forget_old();
        make_private(path)?;
        let synced_to = AtomicU64::new(db.latest_sequence_number());
        let watermark = DurableWatermark::open(path, db.latest_sequence_number())?;
        let (cached, anywhere, synced) = (read_cached(), read_anywhere(), write_synced());
        let space = DiskSpace::new(path, options);
        let (inline_reads, rows) = (
            InlineReadGovernor::new(options.reads_in_place),
            RowCache::new(options.row_cache_bytes()),
        );
        Ok(Self {
            db,
            cache,
            cached,
            anywhere,
            synced,
            space,
            watermark,
            synced_to,
            inline_reads,
            rows,
            damage,
            _folder: folder,
        })
    }

    /// Reads every row of a folder without changing anything in it.
    pub(crate) fn read_only(
        engine_path: &Path,
        logs: LogState,
        row: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), rocksdb::Error> {
        let options = Options::default();
        let db = DB::open_for_read_only(
            &options.engine(&options.cache(), false, logs),
            engine_path,
            false,
        )?;
        let mut read = read_anywhere();
        read.fill_cache(false);
        let mut iterator = db.raw_iterator_opt(read);
        iterator.seek_to_first();
        while let Some((key, value)) = iterator.item() {
            row(key, value);
            iterator.next();
        }
        iterator.status()
    }

    /// The highest version ever assigned.
    pub(crate) fn last_version(&self, folder: &Path) -> Result<Timestamp, OpenError> {
        last_version_of(&self.db)
            .map_err(|what| OpenError::Damaged { folder: folder.to_owned(), what })
    }

    /// Which file is damaged and what to do, if that is known.
    pub(crate) fn damage(&self) -> Option<String> {
        self.damage.advice()
    }

    /// True if nothing may be compacted: a compaction would read a damaged block, and the engine
    /// would then refuse writes.
    pub(crate) fn must_not_compact(&self) -> bool {
        self.damage.is_there()
    }

    /// The engine's error as the store's. If it names a damaged file, that is noted.
    pub(crate) fn store_error(&self, error: rocksdb::Error) -> StoreError {
        self.note_damage(&error);
        store_error(error)
    }

    fn read_error(&self, error: rocksdb::Error) -> ReadError {
        match error.kind() {
            ErrorKind::Incomplete => ReadError::TakesLonger,
            _ => ReadError::Failed(self.store_error(error)),
        }
    }

    fn write_error(&self, error: rocksdb::Error) -> WriteError {
        self.note_damage(&error);
        let (is_full, message) = (is_no_space(&error), error.into_string());
        if is_full { WriteError::NoSpace(message) } else { WriteError::Failed(message) }
    }

    /// Switches compactions off, so that none reads the damaged block.
    fn note_damage(&self, error: &rocksdb::Error) {
        if error.kind() != ErrorKind::Corruption || !self.damage.add(error.as_ref()) {
            return;
        }
        tracing::error!(
            advice = self.damage.advice(),
            "a table file is damaged; from now on nothing is compacted"
        );
        if let Err(error) = self.db.set_options(&[("disable_auto_compactions", "true")]) {
            tracing::error!(%error, "compactions cannot be stopped");
        }
    }

    /// A value from memory; `Err(TakesLonger)` if the disk must be read.
    pub(crate) fn get_cached(&self, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, ReadError> {
        self.db.get_pinned_opt(key, &self.cached).map_err(|error| self.read_error(error))
    }

    /// A value from wherever it is, on a thread that others wait for. The governor of inline reads
    /// hears how long it took.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        self.inline_reads
            .watch(|| self.db.get_pinned_opt(key, &self.anywhere))
            .map_err(|error| self.store_error(error))
    }

    /// The same on a blocking thread.
    pub(crate) fn get_blocking(
        &self,
        key: &[u8],
    ) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        self.db.get_pinned_opt(key, &self.anywhere).map_err(|error| self.store_error(error))
    }

    /// Calls `row` with each key and value from `start` up to `end`, until it returns false. May
    /// wait for the disk.
    ///
    /// The rows are those of one moment: an iterator of the engine is a snapshot.
    ///
    /// # Errors
    /// `TakesLonger` only for a walk that says how many deleted rows it steps over.
    pub(crate) fn for_each(
        &self,
        start: &[u8],
        end: Vec<u8>,
        walk: Walk,
        mut row: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), ReadError> {
        #[cfg(debug_assertions)]
        let mut order = KeyOrder { start: start.to_vec(), end: end.clone(), last: None };
        let mut iterator = self.db.raw_iterator_opt(walk.read_options(end));
        iterator.seek(start);
        while let Some((key, value)) = iterator.item() {
            #[cfg(debug_assertions)]
            order.check(key)?;
            if !row(key, value)? {
                return Ok(());
            }
            iterator.next();
        }
        // An iterator also ends at a damaged block; its status tells the two apart.
        iterator.status().map_err(|error| self.read_error(error))
    }

    /// Writes memtables to files, so that the next open has nothing to recover.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.db.flush().map_err(|error| self.store_error(error))?;
        self.watermark.close(self.synced_to.load(Ordering::Relaxed));
        Ok(())
    }

    pub(crate) fn block_cache_bytes(&self) -> u64 {
        self.cache.get_usage() as u64
    }

    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.property(properties::CUR_SIZE_ALL_MEM_TABLES)
    }

    pub(crate) fn table_file_bytes(&self) -> u64 {
        self.property(properties::TOTAL_SST_FILES_SIZE)
    }

    fn property(&self, name: &properties::PropName) -> u64 {
        self.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }
}

/// Holds the engine to its promise: keys rise, and stay within the range. Damaged files can break
/// it, so this is no assertion.
#[cfg(debug_assertions)]
struct KeyOrder {
    start: Vec<u8>,
    end: Vec<u8>,
    last: Option<Vec<u8>>,
}

#[cfg(debug_assertions)]
impl KeyOrder {
    fn check(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let is_in_range = self.start.as_slice() <= key && key < self.end.as_slice();
        let is_in_order = self.last.as_deref().is_none_or(|last| last < key);
        if !is_in_range || !is_in_order {
            return Err(StoreError::Corrupt("the engine gave keys out of order".to_owned()));
        }
        self.last = Some(key.to_vec());
        Ok(())
    }
}

impl Journal for Engine {
    fn value<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, StoreError> {
        self.get(key).map(|value| read(value.as_deref()))
    }

    fn absent(&self, keys: &[&[u8]]) -> Vec<bool> {
        let values = self.inline_reads.watch(|| self.db.multi_get_opt(keys, &self.anywhere));
        // A key in a damaged block is not absent; the commit reads it again and gets the error.
        values.into_iter().map(|value| matches!(value, Ok(None))).collect()
    }

    fn write(&self, batch: WriteBatch, changed: &Changed) -> Result<(), WriteError> {
        let _until_written = self.rows.writing(changed.keys());
        #[cfg(feature = "mutants")]
        if mutants::is(Mutant::AckBeforeSync) {
            return mutants::write_late(self, batch).map_err(|error| self.write_error(error));
        }
        self.db.write_opt(batch, &self.synced).map_err(|error| self.write_error(error))?;
        // Only the leader writes, so the engine's last sequence number is that of this batch.
        let latest = self.db.latest_sequence_number();
        let previous = self.synced_to.swap(latest, Ordering::Relaxed);
        assert!(latest > previous, "a synced batch has new sequence numbers");
        Ok(())
    }

    fn note_synced(&self) {
        self.watermark.advance(self.synced_to.load(Ordering::Relaxed));
    }

    fn free_space(&self) -> FreeSpace {
        self.space.free_space()
    }

    fn describe_free_space(&self) -> String {
        self.space.describe()
    }

    fn has_space_to_recover(&self) -> bool {
        self.space.is_enough_for_engine()
    }

    fn damage(&self) -> Option<String> {
        Engine::damage(self)
    }

    fn background_errors(&self) -> u64 {
        self.property(properties::BACKGROUND_ERRORS)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("folder", &self._folder).finish_non_exhaustive()
    }
}

/// Why an inline read gave nothing.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It would take longer than was allowed: the disk must be read, or there are many deleted rows
    /// in the range.
    TakesLonger,
    Failed(StoreError),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// For reads on blocking threads, which never get `TakesLonger`.
impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TakesLonger => {
                Self::Unavailable { reason: "a read was not finished".to_owned(), source: None }
            }
            ReadError::Failed(error) => error,
        }
    }
}

pub(crate) fn store_error(error: rocksdb::Error) -> StoreError {
    match error.kind() {
        ErrorKind::Corruption => StoreError::Corrupt(error.into_string()),
        _ => StoreError::unavailable("the storage engine failed", error),
    }
}

/// Only the text of the engine's error tells a full disk from other failures. The engine recovers
/// from this one by itself.
fn is_no_space(error: &rocksdb::Error) -> bool {
    error.kind() == ErrorKind::IOError
        && error.as_ref().starts_with("IO error: No space left on device")
}

/// The highest version ever assigned; or what is wrong with its record.
pub(crate) fn last_version_of(db: &DB) -> Result<Timestamp, String> {
    match db.get_pinned(LAST_VERSION_KEY) {
        Ok(None) => Ok(Timestamp::MIN),
        Ok(Some(value)) => last_version_from(&value).ok_or_else(|| {
            "the record of the last version is not one that this software writes".to_owned()
        }),
        Err(error) => Err(error.into_string()),
    }
}
