//! Memory for bodies, of requests and of answers, shared by all connections and bounded.
//!
//! Small bodies are not counted: they fit the buffers that a connection has anyway, and a client with small requests is
//! never refused because of others with large ones.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIB: usize = 1024;
/// What a body may have without asking.
pub(crate) const FREE_BYTES: usize = 16 * KIB;

/// What is left of the memory for bodies.
#[derive(Debug, Clone)]
pub(crate) struct BodyMemory {
    kibibytes: Arc<Semaphore>,
}

/// A share of it, given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Share {
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { kibibytes: Arc::new(Semaphore::new(bytes / KIB)) }
    }

    /// Makes `share` large enough for a body of `bytes`. False if there is not so much left; then nothing changes.
    #[must_use]
    pub(crate) fn grow(&self, share: &mut Share, bytes: usize) -> bool {
        if bytes <= FREE_BYTES || bytes <= share.bytes {
            return true;
        }
        let missing = u32::try_from((bytes - share.bytes).div_ceil(KIB)).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.kibibytes).try_acquire_many_owned(missing) else { return false };
        match &mut share.permit {
            Some(permit) => permit.merge(more),
            None => share.permit = Some(more),
        }
        share.bytes += missing as usize * KIB;
        true
    }

    /// The same bytes, counted until the last of them is sent. `None` if there is no room for them.
    pub(crate) fn hold(&self, body: Bytes) -> Option<Bytes> {
        if body.len() <= FREE_BYTES {
            return Some(body);
        }
        let mut share = Share::default();
        self.grow(&mut share, body.len()).then(|| Bytes::from_owner(Held { body, _share: share }))
    }
}

struct Held {
    body: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_bodies_are_free() {
        let memory = BodyMemory::new(0);
        assert!(memory.grow(&mut Share::default(), FREE_BYTES));
        assert!(memory.hold(Bytes::from(vec![1; FREE_BYTES])).is_some());
        assert!(!memory.grow(&mut Share::default(), FREE_BYTES + 1));
    }

    #[test]
    fn a_share_grows_and_is_given_back() {
        let memory = BodyMemory::new(100 * KIB);
        let mut share = Share::default();
        assert!(memory.grow(&mut share, 60 * KIB));
        assert!(memory.grow(&mut share, 50 * KIB), "it is larger already");
        assert!(memory.grow(&mut share, 100 * KIB));
        assert!(!memory.grow(&mut share, 101 * KIB));
        assert!(!memory.grow(&mut Share::default(), 17 * KIB));
        drop(share);
        assert!(memory.grow(&mut Share::default(), 100 * KIB));
    }

    #[test]
    fn an_answer_is_counted_until_its_last_byte_is_gone() {
        let memory = BodyMemory::new(40 * KIB);
        let mut first = memory.hold(Bytes::from(vec![1; 40 * KIB])).unwrap();
        assert!(memory.hold(Bytes::from(vec![2; 17 * KIB])).is_none());
        let rest = first.split_off(30 * KIB);
        drop(first);
        assert!(memory.hold(Bytes::from(vec![2; 17 * KIB])).is_none());
        drop(rest);
        assert!(memory.hold(Bytes::from(vec![2; 17 * KIB])).is_some());
    }
}
