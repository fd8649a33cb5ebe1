//! What nodes have done for each other, counted for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::keys::PeerKeys;

/// Counters since the start, and the peers that are connected now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStats {
    /// Other nodes that can be reached.
    pub present: u64,
    /// Writes that another node carried out for us.
    pub sent: u64,
    /// Writes that another node did not begin, so that we did.
    pub declined: u64,
    /// Writes that were forwarded, and whose outcome is unknown.
    pub unanswered: u64,
    /// Writes that we carried out for other nodes.
    pub received: u64,
    /// Connections to our port that were refused: no node of this store, or without protection.
    pub refused: u64,
    /// Until the certificate of this node ends; `None` without one.
    pub certificate_seconds_left: Option<i64>,
    /// How often changed keys came into use.
    pub key_changes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: AtomicU64,
    pub(crate) declined: AtomicU64,
    pub(crate) unanswered: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) refused: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn read(&self, present: usize, keys: Option<&PeerKeys>) -> PeerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PeerStats {
            present: present as u64,
            sent: read(&self.sent),
            declined: read(&self.declined),
            unanswered: read(&self.unanswered),
            received: read(&self.received),
            refused: read(&self.refused),
            certificate_seconds_left: keys.map(PeerKeys::seconds_left),
            key_changes: keys.map_or(0, |keys| *keys.generation().borrow()),
        }
    }
}
