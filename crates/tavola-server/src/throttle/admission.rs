//! Admission: the share that a request has of what is there for all accounts.
//!
//! A request comes here when it is whole and understood, so that a client that is slow in sending
//! holds no place. Point reads cost microseconds; they are only counted. Queries cost milliseconds
//! each, so few of them run at a time, in a pool of their own (`query_pool`), and writes queue up for
//! the disk: both wait for a moment. A request that would have to wait longer is refused: late
//! answers help nobody, and a queue that is bounded by time empties itself as soon as load ends.
//! Only a body of which merely the reading takes long waits before it is understood.
//!
//! All of it is shared out between accounts: one that asks for too much waits behind itself.

use std::sync::Arc;
use std::time::Duration;

use tavola_fair::{Line, Refused, Share, Turn};
use tavola_protocol::ApiError;

use super::{Tenant, busy};

/// The longest that a request waits for its turn.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(500);
/// The same for a large body: it has come all the way, and would have to come again.
const BODY_QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// A batch of so many bytes takes a millisecond to read.
const LARGE_BODY_BYTES: usize = 256 * 1024;
/// A write takes one unit, and one more for each of these in its body.
const WRITE_UNIT_BYTES: u64 = 2 * 1024;

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

impl Tenant {
    /// A turn for a body before it is read, if that takes long: for the write that it will be.
    ///
    /// # Errors
    /// `ServerBusy`.
    pub(crate) async fn admit_body(&self, body_bytes: usize) -> Result<Option<Turn>, ApiError> {
        if body_bytes < LARGE_BODY_BYTES {
            return Ok(None);
        }
        let units = write_units(body_bytes as u64);
        turn(&self.shares.writes, units, BODY_QUEUE_TIMEOUT).await.map(Some)
    }

    /// A place for this work, whose body may have its turn already.
    ///
    /// # Errors
    /// `ServerBusy`.
    pub(crate) async fn admit(
        &self,
        work: Work,
        of_body: Option<Turn>,
    ) -> Result<Admitted, ApiError> {
        let request = self.shares.requests.try_take(1).ok_or_else(busy)?;
        let place = match work {
            Work::Point => Place::Here,
            Work::Query => Place::Query(turn(&self.shares.queries, 1, QUEUE_TIMEOUT).await?),
            Work::Write { body_bytes } => Place::Write(match of_body {
                Some(turn) => turn,
                None => turn(&self.shares.writes, write_units(body_bytes), QUEUE_TIMEOUT).await?,
            }),
        };
        Ok(Admitted { request, place })
    }
}

async fn turn(line: &Arc<Line>, units: u64, time: Duration) -> Result<Turn, ApiError> {
    line.take(units, time).await.map_err(|Refused| busy())
}

/// What a write with a body of this size takes of the places for writes.
fn write_units(body_bytes: u64) -> u64 {
    1 + body_bytes / WRITE_UNIT_BYTES
}

#[cfg(test)]
mod tests {
    use tavola_fair::{Pool, Turns};

    use super::*;
    use crate::throttle::Rates;
    use crate::throttle::tenant::Shares;

    fn tenant(requests: &Arc<Pool>, queries: &Arc<Turns>) -> Tenant {
        tenant_with(requests, queries, &Turns::new(1))
    }

    fn tenant_with(requests: &Arc<Pool>, queries: &Arc<Turns>, writes: &Arc<Turns>) -> Tenant {
        let (queries, writes) = (queries.line(1), writes.line(1));
        let (requests, bodies) = (requests.member(1), Pool::new(0).member(1));
        let shares = Shares { requests, bodies, queries, writes };
        Tenant::new(shares, Rates::default(), Arc::default())
    }

    #[tokio::test]
    async fn beyond_its_share_of_requests_an_account_is_refused_and_another_is_not() {
        let (requests, queries) = (Pool::new(36), Turns::new(1));
        let (greedy, polite) = (tenant(&requests, &queries), tenant(&requests, &queries));
        let mut held = Vec::new();
        let refused = loop {
            match greedy.admit(Work::Point, None).await {
                Ok(admitted) => held.push(admitted),
                Err(api_error) => break api_error,
            }
        };
        assert!(matches!(refused, ApiError::ServerBusy { retry_after_seconds: 1 }));
        assert_eq!(held.len(), 9 + 16, "its guarantee, and nearly all that is shared");
        polite.admit(Work::Point, None).await.unwrap();
        held.pop();
        greedy.admit(Work::Point, None).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_waits_for_a_moment_and_others_do_not() {
        let (requests, queries) = (Pool::new(100), Turns::new(1));
        let (greedy, polite) = (tenant(&requests, &queries), tenant(&requests, &queries));
        let _running = greedy.admit(Work::Query, None).await.unwrap();
        let start = tokio::time::Instant::now();
        greedy.admit(Work::Point, None).await.unwrap();
        polite.admit(Work::Query, None).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(matches!(greedy.admit(Work::Query, None).await, Err(ApiError::ServerBusy { .. })));
        assert_eq!(start.elapsed(), QUEUE_TIMEOUT);
        assert_eq!(
            greedy.shares.requests.stats().used,
            1,
            "a request that was refused or is done holds nothing"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_body_waits_before_it_is_read_and_not_again() {
        let writes = Turns::new(write_units(LARGE_BODY_BYTES as u64));
        let tenant = tenant_with(&Pool::new(100), &Turns::new(1), &writes);
        assert!(tenant.admit_body(LARGE_BODY_BYTES - 1).await.unwrap().is_none());
        let held = tenant.admit_body(LARGE_BODY_BYTES).await.unwrap();
        assert!(held.is_some());
        assert!(matches!(
            tenant.admit_body(LARGE_BODY_BYTES).await,
            Err(ApiError::ServerBusy { .. })
        ));
        let work = Work::Write { body_bytes: LARGE_BODY_BYTES as u64 };
        let admitted = tenant.admit(work, held).await.unwrap();
        assert!(matches!(admitted.place, Place::Write(_)));
        drop(admitted);
        assert!(tenant.admit_body(LARGE_BODY_BYTES).await.unwrap().is_some());
    }
}
