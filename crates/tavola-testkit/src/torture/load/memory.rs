//! The server's memory, sampled all the time, and the bound that it must keep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::server_process::ServerProcess;

const SAMPLE_PAUSE: Duration = Duration::from_millis(20);

/// The servers of this campaign have a small store, so that what neighbours take is most of what is seen.
pub(super) const CACHE_MB: u64 = 32;
pub(super) const MEMTABLE_MB: u64 = 16;

/// What the guests of a server may cost it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guests {
    pub(super) connections: u64,
    /// Pages that are made at the same time.
    pub(super) pages: u64,
    /// Whether bodies take what is set aside for them.
    pub(super) bodies: bool,
}

impl Guests {
    pub(super) const NONE: Self = Self { connections: 0, pages: 0, bodies: false };
}

/// The bound that follows from the configuration.
pub(super) const fn resident_mb_max(guests: Guests) -> u64 {
    let store = CACHE_MB + 2 * MEMTABLE_MB;
    100 + store + guests.connections * 40 / 1024 + guests.pages * 12 + if guests.bodies { 256 } else { 0 }
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
