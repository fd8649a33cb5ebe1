//! What a commit needs of the engine.

use std::collections::HashMap;

use rocksdb::WriteBatch;
use tavola_store::StoreError;

use crate::disk_space::FreeSpace;

/// The engine as the group commit sees it. Tests put a disk in memory in its place.
pub(crate) trait Journal: Send + Sync + 'static {
    /// Passes the stored value under these key bytes to `read`, without a copy.
    fn value<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, StoreError>;
    /// For each of these keys: true if it surely has no value. One lookup for all of them.
    fn absent(&self, keys: &[&[u8]]) -> Vec<bool>;
    /// Writes the batch, atomically and durably. It changes these rows, and may delete others that
    /// no request reads.
    fn write(&self, batch: WriteBatch, changed: &Changed) -> Result<(), WriteError>;
    /// Advances the durable watermark to the last write that was synced. Called before the answers
    /// leave.
    fn note_synced(&self);
    /// What the disk has space for.
    fn free_space(&self) -> FreeSpace;
    /// The same in words, if it is short.
    fn describe_free_space(&self) -> String;
    /// True if the disk has enough space for an engine that ran out of it to recover.
    fn has_space_to_recover(&self) -> bool;
    /// Which file is damaged and what to do about it, if one is.
    fn damage(&self) -> Option<String>;
    /// How often the engine failed in the background. Only a write shows whether it still works.
    fn background_errors(&self) -> u64;
}

/// What a batch does to rows, by key bytes. `None` is a deleted row.
pub(crate) type Changed = HashMap<Vec<u8>, Option<Vec<u8>>>;

/// Why a batch was not written, or why its outcome is unknown.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The disk is full. The engine recovers from this by itself.
    NoSpace(String),
    Failed(String),
}

/// Rows that a purge removes.
#[derive(Debug)]
pub(crate) enum RangeDelete {
    Keys(Vec<Vec<u8>>),
    Range { start: Vec<u8>, end: Vec<u8> },
}
