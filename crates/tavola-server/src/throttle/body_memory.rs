//! Memory for bodies, of requests and of answers, bounded and shared out between accounts.
//!
//! On a connection that carries one request at a time small bodies are not counted: they fit the
//! buffers that it has anyway, and a client with small requests is never refused because of others
//! with large ones. A connection with many requests at a time counts every byte, and may hold only
//! so much by itself.

use std::sync::Arc;

use bytes::Bytes;
use tavola_fair::Member;

/// What a body may have without asking, where a connection has one request at a time.
const FREE_BYTES: usize = 16 * 1024;

/// Where the bodies of one request are counted.
#[derive(Debug, Clone)]
pub(crate) struct BodyMemory {
    account: Arc<Member>,
    /// Of a connection that carries many requests at a time.
    connection: Option<Arc<Member>>,
}

/// A part of it, given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct BodyShare {
    parts: Option<(tavola_fair::Share, Option<tavola_fair::Share>)>,
}

impl BodyShare {
    fn bytes(&self) -> usize {
        self.parts
            .as_ref()
            .map_or(0, |(account, _)| usize::try_from(account.units()).unwrap_or(usize::MAX))
    }
}

impl BodyMemory {
    pub(super) fn new(account: Arc<Member>, connection: Option<Arc<Member>>) -> Self {
        Self { account, connection }
    }

    fn is_free(&self, bytes: usize) -> bool {
        self.connection.is_none() && bytes <= FREE_BYTES
    }

    /// Makes `share` large enough for a body of `bytes`. False if there is not so much left.
    #[must_use]
    pub(crate) fn grow(&self, share: &mut BodyShare, bytes: usize) -> bool {
        if self.is_free(bytes) || bytes <= share.bytes() {
            return true;
        }
        let more = (bytes - share.bytes()) as u64;
        match &mut share.parts {
            Some((account, None)) => account.try_grow(more),
            Some((account, Some(connection))) => {
                connection.try_grow(more) && account.try_grow(more)
            }
            none => {
                let connection = match &self.connection {
                    Some(connection) => match connection.try_take(more) {
                        Some(share) => Some(share),
                        None => return false,
                    },
                    None => None,
                };
                let Some(account) = self.account.try_take(more) else { return false };
                *none = Some((account, connection));
                true
            }
        }
    }

    /// The same bytes, counted until the last of them is sent. `None` if there is no room for them.
    pub(crate) fn hold(&self, body: Bytes) -> Option<Bytes> {
        let mut share = BodyShare::default();
        self.grow(&mut share, body.len()).then(|| held(body, share))
    }

    /// The same bytes, counted as far as there is room: the answer to what was carried out must not
    /// be refused. It takes over the `share` of the request's body.
    pub(crate) fn hold_in_place_of(&self, mut share: BodyShare, body: Bytes) -> Bytes {
        let _as_far_as_there_is_room = self.grow(&mut share, body.len());
        held(body, share)
    }
}

fn held(body: Bytes, share: BodyShare) -> Bytes {
    if share.parts.is_none() || body.is_empty() {
        return body;
    }
    Bytes::from_owner(Held { body, _share: share })
}

struct Held {
    body: Bytes,
    _share: BodyShare,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use tavola_fair::Pool;

    use super::*;

    const KIB: usize = 1024;

    /// A pool of which one account alone may have so much.
    fn memory(kibibytes: usize) -> BodyMemory {
        BodyMemory::new(Pool::new((kibibytes * KIB * 18 / 17) as u64).member(1), None)
    }

    fn used(memory: &BodyMemory) -> usize {
        usize::try_from(memory.account.stats().used).unwrap()
    }

    #[test]
    fn small_bodies_are_free() {
        let memory = memory(0);
        assert!(memory.grow(&mut BodyShare::default(), FREE_BYTES));
        assert!(memory.hold(Bytes::from(vec![1; FREE_BYTES])).is_some());
        assert!(!memory.grow(&mut BodyShare::default(), FREE_BYTES + 1));
    }

    #[test]
    fn nothing_is_free_where_a_connection_has_many_requests() {
        let account = memory(1000);
        let connection = Pool::new(9 * KIB as u64).member(u32::MAX);
        let memory = BodyMemory { connection: Some(Arc::clone(&connection)), ..account };
        let first = memory.hold(Bytes::from(vec![1; 5 * KIB])).unwrap();
        assert_eq!((used(&memory), connection.stats().used), (5 * KIB, 5 * KIB as u64));
        assert!(
            memory.hold(Bytes::from(vec![1; 4 * KIB])).is_none(),
            "the connection has its part"
        );
        assert_eq!(used(&memory), 5 * KIB);
        drop(first);
        assert_eq!((used(&memory), connection.stats().used), (0, 0));
    }

    #[test]
    fn a_share_grows_and_is_given_back() {
        let memory = memory(80);
        let mut share = BodyShare::default();
        assert!(memory.grow(&mut share, 60 * KIB));
        assert!(memory.grow(&mut share, 50 * KIB), "it is larger already");
        assert!(memory.grow(&mut share, 79 * KIB));
        assert!(!memory.grow(&mut share, 81 * KIB));
        assert!(!memory.grow(&mut BodyShare::default(), 17 * KIB));
        drop(share);
        assert!(memory.grow(&mut BodyShare::default(), 79 * KIB));
    }

    #[test]
    fn an_answer_is_counted_until_its_last_byte_is_gone() {
        let memory = memory(45);
        let mut first = memory.hold(Bytes::from(vec![1; 40 * KIB])).unwrap();
        assert!(memory.hold(Bytes::from(vec![2; 17 * KIB])).is_none());
        let rest = first.split_off(30 * KIB);
        drop(first);
        assert!(memory.hold(Bytes::from(vec![2; 17 * KIB])).is_none());
        drop(rest);
        assert!(memory.hold(Bytes::from(vec![2; 17 * KIB])).is_some());
    }

    #[test]
    fn the_answer_to_a_write_takes_the_place_of_its_body() {
        let memory = memory(45);
        let mut share = BodyShare::default();
        assert!(memory.grow(&mut share, 40 * KIB));
        let answer = memory.hold_in_place_of(share, Bytes::from(vec![1; 60 * KIB]));
        assert_eq!((answer.len(), used(&memory)), (60 * KIB, 40 * KIB));
        drop(answer);
        assert_eq!(used(&memory), 0);
    }
}
