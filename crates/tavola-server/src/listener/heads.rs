//! Heads of requests: how large they may be, and how much memory all of them may take together.
//!
//! This is what anybody can make us hold without a credential. A head is counted from its arrival
//! until its answer is ready, on the connection that it came on: connections share a bounded
//! amount, so that a thousand hostile ones leave room for others.

use std::sync::Arc;

use http::{HeaderMap, Request, Uri};
use tavola_fair::{Member, Share};

/// Fields of one request; SDKs send about fifteen.
pub(crate) const FIELDS_MAX: usize = 100;
/// Names and values of all fields together.
const FIELDS_BYTES_MAX: usize = 32 * 1024;
/// What a request takes beside its head: its task and the state of its stream.
const REQUEST_BYTES: usize = 4 * 1024;
/// What the map of fields takes for each of them, beside its text.
const FIELD_BYTES: usize = 128;

/// Why a head is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadError {
    /// It is larger than any client of ours needs: 431.
    TooLarge,
    /// Others have taken the memory: 503.
    Busy,
}

/// Counts the head of a request, for as long as the share is kept.
pub(super) fn admit<B>(request: &Request<B>, connection: &Arc<Member>) -> Result<Share, HeadError> {
    let fields = request.headers().len();
    let fields_bytes = bytes(request.headers());
    if fields > FIELDS_MAX || fields_bytes > FIELDS_BYTES_MAX {
        return Err(HeadError::TooLarge);
    }
    let head = target_bytes(request.uri()) + fields_bytes + fields * FIELD_BYTES;
    connection.try_take((REQUEST_BYTES + head) as u64).ok_or(HeadError::Busy)
}

fn bytes(fields: &HeaderMap) -> usize {
    fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

fn target_bytes(uri: &Uri) -> usize {
    uri.path_and_query().map_or(0, |target| target.as_str().len())
        + uri.authority().map_or(0, |host| host.as_str().len())
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use tavola_fair::Pool;

    use super::*;

    fn request(fields: usize, value_bytes: usize) -> Request<()> {
        let mut request = Request::new(());
        for number in 0..fields {
            let name = HeaderName::try_from(format!("x-{number}")).unwrap();
            request.headers_mut().insert(name, "v".repeat(value_bytes).parse().unwrap());
        }
        request
    }

    #[test]
    fn a_head_has_a_bounded_number_of_fields_and_bytes() {
        let connection = Pool::for_many(1 << 20).member(1);
        assert!(admit(&request(FIELDS_MAX, 100), &connection).is_ok());
        assert_eq!(
            admit(&request(FIELDS_MAX + 1, 1), &connection).unwrap_err(),
            HeadError::TooLarge
        );
        assert_eq!(
            admit(&request(1, FIELDS_BYTES_MAX), &connection).unwrap_err(),
            HeadError::TooLarge
        );
        assert_eq!(connection.stats().used, 0);
    }

    #[test]
    fn hostile_connections_leave_room_for_one_more() {
        let pool = Pool::for_many(32 << 20);
        let hostile: Vec<_> = (0..50).map(|_| pool.member(1)).collect();
        let streams = hostile.iter().flat_map(|connection| (0..100).map(move |_| connection));
        let held: Vec<_> =
            streams.filter_map(|connection| admit(&request(100, 200), connection).ok()).collect();
        let bytes: u64 = held.iter().map(Share::units).sum();
        assert!(bytes < (32 << 20) + 50 * 64 * 1024, "{bytes}");
        assert!(held.len() > 500 && held.len() < 4000, "{}", held.len());
        assert!(admit(&request(15, 60), &pool.member(1)).is_ok());
    }
}
