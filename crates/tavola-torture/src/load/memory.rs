//! The server's memory, sampled all the time, and the bound that it must keep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tavola_testkit::server_process::ServerProcess;

const SAMPLE_PAUSE: Duration = Duration::from_millis(20);

/// The servers of this campaign have a small store, so that what neighbours take is most of what is
/// seen.
pub(super) const CACHE_MB: u64 = 32;
pub(super) const MEMTABLE_MB: u64 = 16;

/// Queries at a time, set so that the bound does not depend on the machine's processors.
pub(super) const QUERIES: u64 = 8;

/// The program, its threads, the engine's own structures, and what an allocator keeps.
const PROCESS_MB: u64 = 80;
/// What a flush and a compaction read and write at a time.
const ENGINE_WORK_MB: u64 = 32;
/// Sockets' buffers are the system's; these are hyper's, the task's and TLS's. An idle one was
/// measured at 16.
const CONNECTION_KB: u64 = 32;
/// A connection that sends much has a read buffer as large as `limits.header_bytes`, and one being
/// emptied beside it.
const SENDER_KB: u64 = 256;
/// A page while it is made: 4 MB of rows, and the same as JSON.
const PAGE_MB: u64 = 16;
/// The default of `limits.body_mb`.
const BODY_MEMORY_MB: u64 = 256;

/// What the guests of a server may cost it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guests {
    pub(super) connections: u64,
    /// Those of them that send much.
    pub(super) senders: u64,
    /// Whether they ask for pages.
    pub(super) queries: bool,
    /// Whether their bodies, or answers to them, are large.
    pub(super) bodies: bool,
}

impl Guests {
    /// So many, with small requests and small answers.
    pub(super) const fn modest(connections: u64) -> Self {
        Self { connections, senders: 0, queries: false, bodies: false }
    }
}

/// The bound that follows from the configuration: everything that may be full at the same time.
pub(super) const fn resident_mb_max(guests: Guests) -> u64 {
    let store = CACHE_MB + 2 * MEMTABLE_MB + ENGINE_WORK_MB;
    let connections = (guests.connections * CONNECTION_KB + guests.senders * SENDER_KB) / 1024;
    let pages = if guests.queries { QUERIES * PAGE_MB } else { 0 };
    let bodies = if guests.bodies { BODY_MEMORY_MB } else { 0 };
    PROCESS_MB + store + connections + pages + bodies
}

/// Samples until told to stop; the highest value.
pub(super) fn watch(server: &ServerProcess, stop: &AtomicBool) -> u64 {
    let mut peak = 0;
    while !stop.load(Ordering::SeqCst) {
        peak = peak.max(server.resident_kilobytes() / 1024);
        thread::sleep(SAMPLE_PAUSE);
    }
    peak
}
