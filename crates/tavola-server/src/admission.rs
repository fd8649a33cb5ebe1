//! Admission: the one place where load is refused. `docs/decisions/006-overload.md` says why it is
//! as it is.
//!
//! A request comes here when it is whole and understood, so that nobody who is slow in sending
//! holds a place. Point reads cost microseconds; they are only counted. Queries cost milliseconds
//! each, so few of them run at a time, in a pool of their own (`query_pool`), and writes queue up for the
//! disk: both wait for a moment. Whoever would have to wait longer is refused: late answers help
//! nobody, and a queue that is bounded by time empties itself as soon as load ends. Only a body of
//! which merely the reading takes long waits before it is understood.
//!
//! All of it is shared out between accounts (`tenants`): one that asks for too much waits behind
//! itself.

use std::time::Duration;

use tavola_fair::{Line, Refused, Share, Turn};
use tavola_protocol::ApiError;

use crate::tenants::{Tenant, write_units};

/// What a client is told to wait when the server is over a limit.
const RETRY_AFTER_SECONDS: u32 = 1;
/// The longest that a request waits for its turn.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(500);
/// The same for a large body: it has come all the way, and would have to come again.
const BODY_QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// A batch of so many bytes takes a millisecond to read.
const LARGE_BODY_BYTES: usize = 256 * 1024;

/// How much there is to do for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A look at a few rows.
    Point,
    /// It may read many rows.
    Query,
    /// It changes something.
    Write {
        /// As it came.
        body_bytes: u64,
    },
}

/// A request's place, held until its answer is ready.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) request: Share,
    pub(crate) place: Place,
}

/// Where the request is carried out.
#[derive(Debug)]
pub(crate) enum Place {
    /// At once, where it came in.
    Here,
    /// By the store, one of so many writes.
    Write(Turn),
    /// By the query pool.
    Query(Turn),
}

/// A turn for a body before it is read, if that takes long: for the write that it will be.
///
/// # Errors
/// `ServerBusy`.
pub(crate) async fn admit_body(
    tenant: &Tenant,
    body_bytes: usize,
) -> Result<Option<Turn>, ApiError> {
    if body_bytes < LARGE_BODY_BYTES {
        return Ok(None);
    }
    turn(&tenant.writes, write_units(body_bytes as u64), BODY_QUEUE_TIMEOUT).await.map(Some)
}

/// A place for this work of the tenant's, whose body may have its turn already.
///
/// # Errors
/// `ServerBusy`.
pub(crate) async fn admit(
    tenant: &Tenant,
    work: Work,
    of_body: Option<Turn>,
) -> Result<Admitted, ApiError> {
    let request = tenant.requests.try_take(1).ok_or_else(busy)?;
    let place = match work {
        Work::Point => Place::Here,
        Work::Query => Place::Query(turn(&tenant.queries, 1, QUEUE_TIMEOUT).await?),
        Work::Write { body_bytes } => Place::Write(match of_body {
            Some(turn) => turn,
            None => turn(&tenant.writes, write_units(body_bytes), QUEUE_TIMEOUT).await?,
        }),
    };
    Ok(Admitted { request, place })
}

async fn turn(line: &std::sync::Arc<Line>, units: u64, time: Duration) -> Result<Turn, ApiError> {
    line.take(units, time).await.map_err(|Refused| busy())
}

pub(crate) fn busy() -> ApiError {
    ApiError::ServerBusy { retry_after_seconds: RETRY_AFTER_SECONDS }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tavola_core::AccountName;
    use tavola_fair::{Pool, Turns};

    use super::*;

    fn tenant(requests: &Arc<Pool>, queries: &Arc<Turns>) -> Tenant {
        let (bodies, writes) = (Pool::new(0).member(1), Turns::new(1).line(1));
        Tenant { requests: requests.member(1), bodies, queries: queries.line(1), writes }
    }

    #[tokio::test]
    async fn beyond_its_share_of_requests_an_account_is_refused_and_another_is_not() {
        let (requests, queries) = (Pool::new(36), Turns::new(1));
        let (greedy, polite) = (tenant(&requests, &queries), tenant(&requests, &queries));
        let mut held = Vec::new();
        let refused = loop {
            match admit(&greedy, Work::Point, None).await {
                Ok(admitted) => held.push(admitted),
                Err(api_error) => break api_error,
            }
        };
        assert!(matches!(refused, ApiError::ServerBusy { retry_after_seconds: 1 }));
        assert_eq!(held.len(), 9 + 16, "its guarantee, and nearly all that is shared");
        admit(&polite, Work::Point, None).await.unwrap();
        held.pop();
        admit(&greedy, Work::Point, None).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_waits_for_a_moment_and_others_do_not() {
        let (requests, queries) = (Pool::new(100), Turns::new(1));
        let (greedy, polite) = (tenant(&requests, &queries), tenant(&requests, &queries));
        let _running = admit(&greedy, Work::Query, None).await.unwrap();
        let start = tokio::time::Instant::now();
        admit(&greedy, Work::Point, None).await.unwrap();
        admit(&polite, Work::Query, None).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(matches!(
            admit(&greedy, Work::Query, None).await,
            Err(ApiError::ServerBusy { .. })
        ));
        assert_eq!(start.elapsed(), QUEUE_TIMEOUT);
        assert_eq!(greedy.requests.stats().used, 1, "whoever was refused or is done holds nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_body_waits_before_it_is_read_and_not_again() {
        let writes = Turns::new(write_units(LARGE_BODY_BYTES as u64));
        let mut tenant = tenant(&Pool::new(100), &Turns::new(1));
        tenant.writes = writes.line(1);
        assert!(admit_body(&tenant, LARGE_BODY_BYTES - 1).await.unwrap().is_none());
        let held = admit_body(&tenant, LARGE_BODY_BYTES).await.unwrap();
        assert!(held.is_some());
        assert!(matches!(
            admit_body(&tenant, LARGE_BODY_BYTES).await,
            Err(ApiError::ServerBusy { .. })
        ));
        let work = Work::Write { body_bytes: LARGE_BODY_BYTES as u64 };
        let admitted = admit(&tenant, work, held).await.unwrap();
        assert!(matches!(admitted.place, Place::Write(_)));
        drop(admitted);
        assert!(admit_body(&tenant, LARGE_BODY_BYTES).await.unwrap().is_some());
    }

    #[test]
    fn the_same_account_is_the_same_tenant() {
        let tenants = Arc::new(crate::tenants::Tenants::new(&crate::config::tests::limits()));
        let name = AccountName::parse("shop").unwrap();
        let held = tenants.of(&name, 1).requests.try_take(3).unwrap();
        assert_eq!(tenants.of(&name, 5).requests.stats().used, 3);
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(Arc::clone(&tenants)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(
            text.contains("tavola_account_used{account=\"shop\",resource=\"requests\"} 3\n"),
            "{text}"
        );
        assert!(
            text.contains("tavola_account_refused_total{account=\"shop\",resource=\"writes\"} 0\n"),
            "{text}"
        );
        drop(held);
    }
}
