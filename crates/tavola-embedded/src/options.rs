//! How the engine is set up. Every option that bounds memory or disk, or decides about durability,
//! is explicit here with its reason, so that a new default of the engine changes nothing.

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, LogLevel,
    ReadOptions, ReadTier, WriteBufferManager, WriteOptions,
};
use tavola_core::{EntityAddress, Timestamp};

use crate::log_check::LogState;
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// One that takes writes while one other is flushed; then writers wait. A third would only hide a
/// disk that is too slow.
const MEMTABLES_MAX: i32 = 2;
/// Of a memtable's bytes: with rows of some hundred bytes about 16 bits for each.
const MEMTABLE_FILTER_RATIO: f64 = 0.01;
/// Memtables grow by blocks of this size. The engine's 1 MiB would be paid by an empty store.
const ARENA_BLOCK_BYTES: usize = 256 * KIB;
/// Bounds the disk that logs take and the time of a recovery: each memtable has one log, with room
/// for its overhead. The engine reserves a memtable's worth of disk with the first write to a log,
/// and gives it back on close.
const LOGS_MEMTABLES_MAX: u64 = 2 * MEMTABLES_MAX as u64;
/// Files of a level. A file is deleted whole only if one table fills it, so they must not be huge.
const FILE_BYTES_MAX: u64 = 64 * MIB as u64;
/// The first sorted level holds four flushes, which is when they are merged into it.
const FIRST_LEVEL_MEMTABLES: u64 = 4;
/// About ten to twenty common entities per block: small enough for point reads, large enough for
/// LZ4 and for the index.
const BLOCK_BYTES: usize = 4 * KIB;
/// Each block has its own table of how often which byte occurs, which must pay.
const ZSTD_BLOCK_BYTES: usize = 16 * KIB;
/// The level that costs writers least. Higher ones found next to nothing more in texts of an
/// entity's size.
const ZSTD_LEVEL: i32 = 1;
/// One in a hundred lookups of an absent key reads a block in vain.
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// The engine's own log, two files of two MiB: warnings and errors only.
const INFO_LOG_BYTES: usize = 2 * MIB;
const INFO_LOG_FILES: usize = 2;
/// The record of files is rewritten beyond this size, which bounds it and the time of an open.
const MANIFEST_BYTES: usize = 16 * MIB;
/// Reserved for it at once; the engine's 4 MiB would be paid by an empty store.
const MANIFEST_RESERVED_BYTES: usize = 64 * KIB;
/// One flush and one compaction at a time: the machine has other work.
const BACKGROUND_JOBS: i32 = 2;
/// A file with a stretch of so many deletions among so many entries is compacted soon: scans would
/// walk over them.
const DELETIONS_WINDOW: usize = 4096;
const DELETIONS_IN_WINDOW: usize = 2048;

/// How entities are packed on disk. A folder may hold files of both: what is chosen is how new ones
/// are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Finds what repeats. Costs readers next to nothing.
    Lz4,
    /// Also writes frequent bytes in fewer bits: less space, and more time of each read that the
    /// caches do not answer.
    Zstd,
}

impl Compression {
    fn block_bytes(self) -> usize {
        match self {
            Self::Lz4 => BLOCK_BYTES,
            Self::Zstd => ZSTD_BLOCK_BYTES,
        }
    }

    /// All levels alike: of a store that fits into a few memtables most is not in the last one.
    fn set_in(self, options: &mut rocksdb::Options) {
        // A dictionary of a file would be one more thing without which none of its blocks can be
        // rescued.
        const NO_DICTIONARY: i32 = 0;
        const USUAL_WINDOW: i32 = -14;
        const USUAL_STRATEGY: i32 = 0;
        match self {
            Self::Lz4 => options.set_compression_type(DBCompressionType::Lz4),
            Self::Zstd => {
                options.set_compression_type(DBCompressionType::Zstd);
                options.set_compression_options(
                    USUAL_WINDOW,
                    ZSTD_LEVEL,
                    USUAL_STRATEGY,
                    NO_DICTIONARY,
                );
            }
        }
    }
}

/// How a store is opened and used. [`crate::settings`] says which of it an operator may choose, and
/// what is chosen otherwise.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes that caches have at least, which they take by use: a half for rows that were asked
    /// for, the other for uncompressed blocks with their indexes and filters, which also have what
    /// memtables leave of their own bytes.
    pub cache_bytes: usize,
    /// How new files are packed.
    pub compression: Compression,
    /// Bytes of one memtable, which takes new writes until it is full and becomes a file. Larger
    /// ones mean fewer, larger files and less rewriting; it fills only by writes.
    pub memtable_bytes: usize,
    /// Free bytes of the disk below which writes are refused. Half of them are for writes that free
    /// space; the engine must be able to flush two memtables with the other half.
    pub reserve_bytes: u64,
    /// Files that the engine keeps open; sockets need descriptors too, and a usual limit is 1,024.
    pub open_files_max: u32,
    /// Do point reads where they are asked as long as files are in the system's memory, instead of
    /// on threads that may wait.
    pub reads_in_place: bool,
    /// Scans that run at the same time, each on a thread of its own; others wait.
    pub scans_max: usize,
    /// A folder that has given out higher versions than this is not opened: new ones would be above
    /// them, and the clock that gave them was wrong.
    pub versions_max: Option<Timestamp>,
    /// A folder that has this row is not opened. The caller knows what the row means.
    pub refused_row: Option<EntityAddress>,
    /// Transactions that wait for the disk; beyond it commits are answered `Contended`.
    pub queue_transactions_max: usize,
    /// Bytes of the transactions that wait for the disk.
    pub queue_bytes_max: usize,
}

impl Options {
    /// The engine's options for a folder whose logs are in this state.
    pub(crate) fn engine(&self, cache: &Cache, new: bool, logs: LogState) -> rocksdb::Options {
        let mut options = rocksdb::Options::default();
        options.create_if_missing(new);
        options.set_error_if_exists(new);
        durability(&mut options, logs);
        memory_and_disk(&mut options);
        self.memtables(&mut options, cache);
        options.set_max_open_files(i32::try_from(self.open_files_max).unwrap_or(i32::MAX));
        files(&mut options, cache, self.compression);
        background(&mut options);
        options
    }

    fn memtables(&self, options: &mut rocksdb::Options, cache: &Cache) {
        let bytes = self.memtable_bytes as u64;
        options.set_write_buffer_size(self.memtable_bytes);
        options.set_max_write_buffer_number(MEMTABLES_MAX);
        // Memtables take their bytes from the cache and give them back: there are full ones only
        // under many writes, and a server that mostly reads has the memory for blocks.
        const STALLS_WRITERS: bool = false;
        let in_cache = WriteBufferManager::new_write_buffer_manager_with_cache(
            self.memtables_bytes() as usize,
            STALLS_WRITERS,
            cache.clone(),
        );
        options.set_write_buffer_manager(&in_cache);
        options.set_arena_block_size(ARENA_BLOCK_BYTES.min(self.memtable_bytes / 8));
        // Almost every key that is looked for is not in the memtable: reads of older rows, and the
        // check of an insert that its row does not exist. A filter answers without a search of its
        // list.
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(MEMTABLE_FILTER_RATIO);
        // Flushed memtables are dropped at once; only the engine's own transactions would want
        // them.
        options.set_max_write_buffer_size_to_maintain(0);
        options.set_max_total_wal_size(bytes * LOGS_MEMTABLES_MAX);
        options.set_target_file_size_base(FILE_BYTES_MAX.min(bytes));
        options.set_max_bytes_for_level_base(bytes * FIRST_LEVEL_MEMTABLES);
    }

    /// Bytes of all memtables together.
    pub(crate) fn memtables_bytes(&self) -> u64 {
        self.memtable_bytes as u64 * MEMTABLES_MAX as u64
    }

    /// Bytes of the cache of rows.
    pub(crate) fn row_cache_bytes(&self) -> usize {
        self.cache_bytes / 2
    }

    /// The cache, shared by blocks, indexes, filters and memtables. A point read looks into it
    /// three times; this kind takes no lock for that, and made cached point reads a third cheaper
    /// than the engine's default kind.
    pub(crate) fn cache(&self) -> Cache {
        const ENTRY_BYTES_UNKNOWN: usize = 0;
        let bytes = self.cache_bytes - self.row_cache_bytes() + self.memtables_bytes() as usize;
        Cache::new_hyper_clock_cache(bytes, ENTRY_BYTES_UNKNOWN)
    }
}

fn durability(options: &mut rocksdb::Options, logs: LogState) {
    // `log_check` has read the logs and found them whole, or torn at the end by a crash. Whole ones
    // must replay whole; of a torn one everything before the tear. See
    // docs/decisions/001-recovery-of-the-log.md.
    options.set_wal_recovery_mode(match logs {
        LogState::Whole => DBRecoveryMode::AbsoluteConsistency,
        LogState::TornTail => DBRecoveryMode::PointInTime,
    });
    // A log file that vanished is damage too.
    options.set_track_and_verify_wals_in_manifest(true);
    // Old bytes behind the end of a log would look like damage, and damage like old bytes.
    options.set_recycle_log_file_num(0);
    options.set_wal_compression_type(DBCompressionType::None);
    options.set_manual_wal_flush(false);
    #[cfg(feature = "mutants")]
    if mutants::is(Mutant::AckBeforeSync) {
        mutants::log_in_memory(options);
    }
    options.set_paranoid_checks(true);
    // The order log, sync, memtable is what makes unsynced writes invisible; these two would change
    // it.
    options.set_enable_pipelined_write(false);
    options.set_unordered_write(false);
    // fdatasync: the length of a file is synced by it, times of access are not and need not be.
    options.set_use_fsync(false);
    options.set_allow_mmap_writes(false);
    options.set_allow_mmap_reads(false);
}

fn memory_and_disk(options: &mut rocksdb::Options) {
    options.set_max_manifest_file_size(MANIFEST_BYTES);
    options.set_manifest_preallocation_size(MANIFEST_RESERVED_BYTES);
    // Logs go as soon as their memtables are flushed.
    options.set_wal_ttl_seconds(0);
    options.set_wal_size_limit_mb(0);
    options.set_keep_log_file_num(INFO_LOG_FILES);
    options.set_max_log_file_size(INFO_LOG_BYTES);
    options.set_log_level(LogLevel::Warn);
    // Counting and dumping of the engine's own statistics cost memory and writes; we count
    // ourselves.
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
}

fn files(options: &mut rocksdb::Options, cache: &Cache, compression: Compression) {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_block_size(compression.block_bytes());
    // The first whose checksums also notice a block that was written to the wrong place.
    blocks.set_format_version(6);
    blocks.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    blocks.set_whole_key_filtering(true);
    // In the cache, so that one number bounds all memory for reading; in small partitions, because
    // whole ones pushed each other out of a small cache and made point reads ten times slower.
    blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_partition_filters(true);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
    blocks.set_pin_top_level_index_and_filter(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    options.set_block_based_table_factory(&blocks);
    compression.set_in(options);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.add_compact_on_deletion_collector_factory(DELETIONS_WINDOW, DELETIONS_IN_WINDOW, 0.0);
}

fn background(options: &mut rocksdb::Options) {
    options.set_max_background_jobs(BACKGROUND_JOBS);
    options.set_max_subcompactions(1);
    // Hand written pages to the disk as they come, so that the fsync of a commit does not wait
    // behind a flush.
    options.set_bytes_per_sync(MIB as u64);
    options.set_max_file_opening_threads(2);
}

/// A read that answers `Incomplete` instead of waiting for the disk.
pub(crate) fn read_cached() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.set_read_tier(ReadTier::BlockCache);
    options
}

/// A read that may wait for the disk.
pub(crate) fn read_anywhere() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options
}

/// Of a walk over many rows, so much is read from a file at once. Each block for itself is a system
/// call, and a page of a thousand rows has a hundred of them.
const READ_AHEAD_BYTES_MAX: usize = 256 * KIB;
/// Below this one or two blocks are all that is needed.
const READ_AHEAD_BYTES_MIN: usize = 16 * KIB;

/// Deleted rows that a walk steps over while others wait behind it. Each costs less than a
/// microsecond.
const STEPPED_OVER_MAX: u64 = 100;

/// How a walk reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    /// What it will read, about.
    pub(crate) bytes: usize,
    /// Blocks that it reads are kept in the cache. A walk over many partitions reads them
    /// once, and would evict blocks that others read again and again.
    pub(crate) fills_cache: bool,
    /// It gives up, with `Incomplete`, after more than this many deleted rows in a row.
    pub(crate) steps_over_max: Option<u64>,
}

impl Walk {
    /// Over everything, once.
    pub(crate) const WHOLE: Self =
        Self { bytes: usize::MAX, fills_cache: false, steps_over_max: None };

    /// The same with others waiting behind it.
    pub(crate) fn nearby(self) -> Self {
        Self { steps_over_max: Some(STEPPED_OVER_MAX), ..self }
    }

    /// A read up to `end`. It may wait for the disk.
    pub(crate) fn read_options(self, end: Vec<u8>) -> ReadOptions {
        let mut options = read_anywhere();
        options.set_iterate_upper_bound(end);
        options.fill_cache(self.fills_cache);
        if self.bytes >= READ_AHEAD_BYTES_MIN {
            options.set_readahead_size(self.bytes.min(READ_AHEAD_BYTES_MAX));
        }
        if let Some(max) = self.steps_over_max {
            options.set_max_skippable_internal_keys(max);
        }
        options
    }
}

/// A write that is on disk when it returns.
pub(crate) fn write_synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}
