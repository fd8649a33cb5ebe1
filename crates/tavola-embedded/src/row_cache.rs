//! A cache of whole rows, by key. A hit looks at no index, no filter and no block.
//!
//! Why a reader never gets a stale row:
//!
//! - A writer announces itself on the stripes of its rows and evicts the rows. Until it has
//!   written, no reader inserts rows of these stripes.
//! - A reader that misses inserts a placeholder before it reads, and then replaces it with the row.
//!   A writer evicts placeholders too, and a row whose placeholder is gone is not inserted.
//!
//! So a cached row was read after the last write of it was carried out, or before the next one
//! began.
//!
//! Once the cache is full, a row is inserted at its second read within a while: inserting rows that
//! are read once would cost more than it could ever save.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use quick_cache::sync::{Cache, GuardResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};
use tavola_store::Row;

/// More than a usual group has rows, so that a write keeps few other rows out.
const STRIPES: usize = 4096;
/// What a row costs beside its bytes: its place in the table and in the list of rows, and the
/// rounding of two allocations.
const ROW_OVERHEAD_BYTES: u64 = 160;
/// Only decides how many keys `recent` remembers.
const ROW_BYTES_USUAL: u64 = 512;

/// A bounded cache of rows by their key bytes.
pub(crate) struct RowCache {
    rows: Cache<Vec<u8>, Row, Weight, DefaultHashBuilder, Fullness>,
    hasher: DefaultHashBuilder,
    is_full: Fullness,
    /// Part of the hash of a key that was read recently, indexed by another part of it.
    recent: Box<[AtomicU16]>,
    /// How many writers each stripe has.
    writes: Box<[AtomicU32]>,
}

/// The stripes of rows that are being written, until it is dropped.
#[must_use]
pub(crate) struct Writing<'a> {
    stripes: Vec<&'a AtomicU32>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        for stripe in &self.stripes {
            let writers = stripe.fetch_sub(1, Ordering::SeqCst);
            assert!(writers > 0, "a stripe counts its writers");
        }
    }
}

/// True once a row was evicted for another.
#[derive(Clone, Default)]
struct Fullness(Arc<AtomicBool>);

impl Lifecycle<Vec<u8>, Row> for Fullness {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _key: Vec<u8>, _row: Row) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Vec<u8>, Row> for Weight {
    fn weight(&self, key: &Vec<u8>, row: &Row) -> u64 {
        (key.len() + row.size_bytes()) as u64 + ROW_OVERHEAD_BYTES
    }
}

impl RowCache {
    /// A cache of so many bytes; it takes them by use.
    pub(crate) fn new(bytes: usize) -> Self {
        let (bytes, hasher) = (bytes as u64, DefaultHashBuilder::default());
        let (rows_usual, is_full) =
            ((bytes / (ROW_BYTES_USUAL + ROW_OVERHEAD_BYTES)) as usize, Fullness::default());
        let rows = Cache::with(rows_usual, bytes, Weight, hasher.clone(), is_full.clone());
        let recent = (0..rows_usual.next_power_of_two()).map(|_| AtomicU16::new(0)).collect();
        Self {
            rows,
            hasher,
            is_full,
            recent,
            writes: (0..STRIPES).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Row> {
        self.rows.get(key)
    }

    /// Calls `read`, and keeps the row unless a writer changes it meanwhile.
    pub(crate) fn fill<E>(
        &self,
        key: &[u8],
        read: impl FnOnce() -> Result<Option<Row>, E>,
    ) -> Result<Option<Row>, E> {
        const DO_NOT_WAIT: Option<Duration> = Some(Duration::ZERO);
        let hash = self.hasher.hash_one(key);
        if self.is_full.0.load(Ordering::Relaxed) && !self.seen_recently(hash) {
            return read();
        }
        match self.rows.get_value_or_guard(key, DO_NOT_WAIT) {
            GuardResult::Value(row) => Ok(Some(row)),
            // Another reader has the placeholder. Threads that serve sockets do not wait for it.
            GuardResult::Timeout => read(),
            GuardResult::Guard(_placeholder) if self.is_being_written(hash) => read(),
            GuardResult::Guard(placeholder) => {
                let row = read()?;
                if let Some(row) = &row {
                    // Fails if a writer evicted the placeholder: the row may be stale for others,
                    // and is this reader's alone.
                    let _not_kept = placeholder.insert(row.clone());
                }
                Ok(row)
            }
        }
    }

    /// Evicts rows that are about to be written, and keeps them out until the guard is dropped.
    pub(crate) fn writing<'a>(
        &self,
        keys: impl ExactSizeIterator<Item = &'a Vec<u8>>,
    ) -> Writing<'_> {
        let mut writing = Writing { stripes: Vec::with_capacity(keys.len()) };
        for key in keys {
            let stripe = self.stripe(self.hasher.hash_one(key.as_slice()));
            stripe.fetch_add(1, Ordering::SeqCst);
            writing.stripes.push(stripe);
            self.rows.remove(key.as_slice());
        }
        writing
    }

    /// Evicts the rows of a range. For a range that no request reads any more: a row that is being
    /// read stays.
    pub(crate) fn forget(&self, start: &[u8], end: &[u8]) {
        assert!(start < end, "a range is not empty");
        self.rows.retain(|key, _| !(start..end).contains(&key.as_slice()));
        self.is_full.0.store(false, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.rows.weight()
    }

    fn is_being_written(&self, hash: u64) -> bool {
        self.stripe(hash).load(Ordering::SeqCst) > 0
    }

    fn stripe(&self, hash: u64) -> &AtomicU32 {
        &self.writes[hash as usize % STRIPES]
    }

    /// True if this key was read recently; notes that it is read now.
    fn seen_recently(&self, hash: u64) -> bool {
        let (slot, tag) = (hash as usize % self.recent.len(), (hash >> 48) as u16);
        self.recent[slot].swap(tag, Ordering::Relaxed) == tag
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tavola_core::{PartitionKey, Properties, RowKey, Timestamp};
    use tavola_store::Row;

    use super::RowCache;

    const KEY: &[u8] = b"key";

    fn row(version: u64) -> Row {
        let (partition_key, row_key) = (PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
        Row::encode(
            &partition_key,
            &row_key,
            &Properties::default(),
            Timestamp::from_ticks(version).unwrap(),
        )
    }

    type Found = Result<Option<Row>, Infallible>;

    fn found(row: Option<Row>) -> Found {
        Ok(row)
    }

    fn keys() -> [Vec<u8>; 1] {
        [KEY.to_vec()]
    }

    fn holds(cache: &RowCache, version: u64) -> bool {
        cache.get(KEY) == Some(row(version))
    }

    #[test]
    fn what_was_read_is_kept_and_what_is_not_there_is_not() {
        let cache = RowCache::new(1 << 20);
        assert_eq!(cache.fill(KEY, || found(None)).unwrap(), None);
        assert_eq!(cache.get(KEY), None);
        assert_eq!(cache.fill(KEY, || found(Some(row(1)))).unwrap(), Some(row(1)));
        assert!(holds(&cache, 1));
        assert_eq!(cache.fill(KEY, || -> Found { panic!("it is here") }).unwrap(), Some(row(1)));
        assert!(cache.bytes() > row(1).size_bytes() as u64);
        cache.forget(b"a", b"k");
        assert!(holds(&cache, 1), "the range ends before it");
        cache.forget(b"k", b"l");
        assert_eq!(cache.get(KEY), None);
    }

    #[test]
    fn a_writer_evicts_a_row_and_keeps_it_out() {
        let cache = RowCache::new(1 << 20);
        cache.fill(KEY, || found(Some(row(1)))).unwrap();
        let writing = cache.writing(keys().iter());
        assert_eq!(cache.get(KEY), None);
        assert_eq!(
            cache.fill(KEY, || found(Some(row(1)))).unwrap(),
            Some(row(1)),
            "read, and not kept"
        );
        assert_eq!(cache.get(KEY), None);
        drop(writing);
        cache.fill(KEY, || found(Some(row(2)))).unwrap();
        assert!(holds(&cache, 2));
    }

    #[test]
    fn a_row_that_was_read_before_a_write_is_not_inserted_after_it() {
        let cache = RowCache::new(1 << 20);
        let read = || {
            let old = row(1);
            drop(cache.writing(keys().iter()));
            found(Some(old))
        };
        assert_eq!(cache.fill(KEY, read).unwrap(), Some(row(1)));
        assert_eq!(cache.get(KEY), None);
    }

    #[test]
    fn bounded() {
        let cache = RowCache::new(64 << 10);
        let ask = |number: u32| cache.fill(&number.to_be_bytes(), || found(Some(row(1)))).unwrap();
        for number in 0..10_000 {
            ask(number);
        }
        assert!(cache.bytes() <= 64 << 10);
        assert!(cache.bytes() > 32 << 10);
        let is_here = |number: u32| cache.get(&number.to_be_bytes()).is_some();
        ask(10_001);
        assert!(!is_here(10_001), "a full cache inserts nothing at the first read");
        ask(10_001);
        assert!(is_here(10_001));
    }

    /// Readers beside a writer never see an older row than one that was written before they began.
    #[test]
    fn no_reader_gets_a_stale_row() {
        const VERSIONS: u64 = 20_000;
        let cache = RowCache::new(1 << 20);
        let (stored, acknowledged) = (AtomicU64::new(1), AtomicU64::new(1));
        let read = || found(Some(row(stored.load(Ordering::SeqCst))));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = Timestamp::MIN;
                    while acknowledged.load(Ordering::SeqCst) < VERSIONS {
                        let least = Timestamp::from_ticks(acknowledged.load(Ordering::SeqCst))
                            .unwrap()
                            .max(last);
                        let seen =
                            cache.get(KEY).or_else(|| cache.fill(KEY, read).unwrap()).unwrap();
                        last = tavola_core::EntityView::timestamp(&seen);
                        assert!(last >= least, "{last:?} after {least:?}");
                    }
                });
            }
            for version in 2..=VERSIONS {
                let writing = cache.writing(keys().iter());
                stored.store(version, Ordering::SeqCst);
                drop(writing);
                acknowledged.store(version, Ordering::SeqCst);
            }
        });
    }
}
