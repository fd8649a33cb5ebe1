//! Admission: the one place where load is refused. `docs/decisions/006-overload.md` says why it is as it is.
//!
//! A request comes here when it is whole and understood, so that nobody who is slow in sending holds a place. Point
//! requests cost microseconds; they are only counted. Queries cost milliseconds each, so few of them run at a time, in a
//! lane of their own (`lane`), and the others wait for a moment. Who would have to wait longer is refused at once in
//! effect: late answers help nobody, and a queue that is bounded by time empties itself as soon as load ends.

use std::sync::Arc;
use std::time::Duration;

use tavola_core::TableRequest;
use tavola_core::filter::plan::plan;
use tavola_core::request::EntityQuery;
use tavola_protocol::Rejection;
use tavola_store::SHORT_SCAN_ROWS;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Limits;
use crate::handler::RETRY_AFTER_SECONDS;

/// The longest that a query waits for its turn.
const PATIENCE: Duration = Duration::from_millis(500);

/// How much is done at the same time.
#[derive(Debug)]
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    queries: Arc<Semaphore>,
}

/// A request's place, held until its answer is ready.
#[derive(Debug)]
pub(crate) struct Admitted {
    _request: OwnedSemaphorePermit,
    query: Option<OwnedSemaphorePermit>,
}

impl Admitted {
    /// True if the request may read many rows.
    pub(crate) fn is_query(&self) -> bool {
        self.query.is_some()
    }
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        let (requests, queries) = (limits.requests_in_flight, limits.queries);
        Self { requests: Arc::new(Semaphore::new(requests)), queries: Arc::new(Semaphore::new(queries)) }
    }

    /// A place for this request.
    ///
    /// # Errors
    /// `ServerBusy`.
    pub(crate) async fn admit(&self, request: &TableRequest) -> Result<Admitted, Rejection> {
        let _request = Arc::clone(&self.requests).try_acquire_owned().map_err(|_full| busy())?;
        let query = match is_query(request) {
            true => Some(self.query_turn().await?),
            false => None,
        };
        Ok(Admitted { _request, query })
    }

    /// The order of waiting is the order of coming.
    async fn query_turn(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        match tokio::time::timeout(PATIENCE, Arc::clone(&self.queries).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy()),
        }
    }
}

/// Whether a request may read many rows. A query that can read but a few is a point request in all but name.
fn is_query(request: &TableRequest) -> bool {
    match request {
        TableRequest::QueryEntities(_, query) => !is_short(query),
        TableRequest::QueryTables(_) => true,
        _ => false,
    }
}

fn is_short(query: &EntityQuery) -> bool {
    query.top.is_some_and(|top| top <= SHORT_SCAN_ROWS) && plan(query.filter.as_ref()).reads_what_it_returns()
}

pub(crate) fn busy() -> Rejection {
    Rejection::ServerBusy { retry_after_seconds: RETRY_AFTER_SECONDS }
}

#[cfg(test)]
mod tests {
    use tavola_core::filter::parse::parse;
    use tavola_core::{EntityKey, PartitionKey, RowKey, TableName};

    use super::*;

    fn admission(requests: usize, queries: usize) -> Admission {
        Admission { requests: Arc::new(Semaphore::new(requests)), queries: Arc::new(Semaphore::new(queries)) }
    }

    fn get() -> TableRequest {
        let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
        TableRequest::GetEntity(TableName::parse("table").unwrap(), key)
    }

    fn query() -> TableRequest {
        TableRequest::QueryEntities(TableName::parse("table").unwrap(), EntityQuery::default())
    }

    #[test]
    fn a_query_of_a_few_rows_is_a_point_request() {
        let is_query = |filter: &str, top: Option<usize>| {
            let query = EntityQuery { filter: parse(filter).unwrap(), top, from: None };
            is_query(&TableRequest::QueryEntities(TableName::parse("table").unwrap(), query))
        };
        assert!(!is_query("PartitionKey eq 'p' and RowKey ge 'r'", Some(10)));
        assert!(!is_query("", Some(1)));
        assert!(is_query("PartitionKey eq 'p' and RowKey ge 'r'", Some(21)), "many rows");
        assert!(is_query("PartitionKey eq 'p' and RowKey ge 'r'", None));
        assert!(is_query("PartitionKey eq 'p' and Age gt 30", Some(10)), "who knows how many rows it must look at");
        assert!(is_query("PartitionKey eq 'p' or PartitionKey eq 'q'", Some(10)), "several places");
    }

    #[tokio::test]
    async fn beyond_the_requests_in_flight_the_answer_is_server_busy() {
        let admission = admission(2, 1);
        let first = admission.admit(&get()).await.unwrap();
        let _second = admission.admit(&get()).await.unwrap();
        assert!(matches!(admission.admit(&get()).await, Err(Rejection::ServerBusy { retry_after_seconds: 1 })));
        drop(first);
        admission.admit(&get()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_waits_for_a_moment_and_point_requests_do_not() {
        let admission = Arc::new(admission(10, 1));
        let running = admission.admit(&query()).await.unwrap();
        let start = tokio::time::Instant::now();
        admission.admit(&get()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(matches!(admission.admit(&query()).await, Err(Rejection::ServerBusy { .. })));
        assert_eq!(start.elapsed(), PATIENCE);
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.admit(&query()).await.map(|_| ()) }
        });
        tokio::time::sleep(PATIENCE / 2).await;
        drop(running);
        waiting.await.unwrap().unwrap();
        assert_eq!(admission.requests.available_permits(), 10, "who was refused or has gone holds nothing");
    }
}
