//! Pages: a plan's ranges read one after another until the page is full, the time is up, or nothing
//! is left.

use std::sync::Arc;
use std::time::Duration;

use tavola_core::filter::plan::{AccessClass, Plan};
use tavola_core::limits::{PAGE_BYTES_MAX, PAGE_ENTITIES_MAX, PAGE_SECONDS_MAX};
use tavola_core::reply::Cost;
use tavola_core::request::Continuation;
use tavola_core::{CompiledFilter, Cut, EntityAddress, EntityKey, KeyRange, TableId};
use tavola_store::{Blocking, Row, RowFilter, Scan, ScanPage, StopToken, Store, StoreError};
use tokio::time::Instant;

use crate::error::ServiceError;

/// How long a store scans before other queries get the thread.
const SCAN_TIME: Duration = Duration::from_millis(10);
/// How many rows it looks at meanwhile at most.
const ROWS_PER_SCAN: usize = 20_000;

/// What a page found.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    pub(crate) next: Option<EntityKey>,
    pub(crate) cost: Cost,
}

/// How a query reads: when it has to end, and whether its thread may wait for a disk.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext<'a> {
    /// When the request ends without an answer.
    pub stop: &'a StopToken,
    /// Whether the thread may wait.
    pub blocking: Blocking,
}

/// On a thread that serves sockets.
impl<'a> From<&'a StopToken> for ReadContext<'a> {
    fn from(stop: &'a StopToken) -> Self {
        Self { stop, blocking: Blocking::Forbidden }
    }
}

/// How many rows a page of entities has at most.
pub(crate) fn page_rows(top: Option<usize>) -> usize {
    top.unwrap_or(PAGE_ENTITIES_MAX).min(PAGE_ENTITIES_MAX)
}

/// Reads one page of `plan`, at most `rows_max` rows, from the continuation on. A page whose own time is
/// over ends where it is; one whose request has to stop is given up.
pub(crate) async fn read_page(
    store: &dyn Store,
    table: TableId,
    plan: Plan,
    rows_max: usize,
    from: Option<&Continuation>,
    context: ReadContext<'_>,
) -> Result<Page, ServiceError> {
    let deadline = Instant::now() + Duration::from_secs(PAGE_SECONDS_MAX);
    let residual = plan.residual.map(|residual| Arc::new(CompiledFilter::new(&residual)));
    let mut reader = PageReader {
        store,
        table,
        point_filter: residual.clone().map(RowFilter::new),
        residual,
        rows_max,
        bytes_left: PAGE_BYTES_MAX,
        deadline,
        context,
        stop_scan: context.stop.or_at(deadline.into_std()),
        page: Page { rows: Vec::new(), next: None, cost: cost_of(plan.class) },
    };
    // A page of none has no continuation either: a client that follows it would never arrive.
    if rows_max > 0 {
        reader.read(remaining(plan.ranges, from)).await?;
    }
    reader.page.cost.rows_returned = reader.page.rows.len() as u64;
    Ok(reader.page)
}

fn cost_of(class: AccessClass) -> Cost {
    Cost { class: Some(class), ..Cost::default() }
}

/// What a continuation leaves of the ranges.
fn remaining(ranges: Vec<KeyRange>, from: Option<&Continuation>) -> Vec<KeyRange> {
    let Some(from) = from else { return ranges };
    let row_key = from.row_key.clone().unwrap_or_default();
    let start = Cut::Before(EntityKey::new(from.partition_key.clone(), row_key));
    let rest = KeyRange { start, end: Cut::End };
    ranges.iter().map(|range| range.intersection(&rest)).filter(|range| !range.is_empty()).collect()
}

struct PageReader<'a> {
    store: &'a dyn Store,
    table: TableId,
    residual: Option<Arc<CompiledFilter>>,
    /// The same, for rows that are not found by a scan.
    point_filter: Option<RowFilter>,
    rows_max: usize,
    bytes_left: usize,
    /// When the page ends with what it has.
    deadline: Instant,
    context: ReadContext<'a>,
    /// The earlier of the page's end and the request's.
    stop_scan: StopToken,
    page: Page,
}

impl PageReader<'_> {
    async fn read(&mut self, ranges: Vec<KeyRange>) -> Result<(), ServiceError> {
        let mut ranges = ranges.into_iter();
        while let Some(mut range) = ranges.next() {
            if self.is_full() {
                self.page.next = self.first_key(std::iter::once(range).chain(ranges)).await?;
                return Ok(());
            }
            while let Some(next) = self.read_some(&range).await? {
                range.start = next;
                if self.is_full() {
                    self.page.next = match range.start {
                        // The store names the row that it did not look at any more: no need to look
                        // for it again.
                        Cut::Before(key) => Some(key),
                        _ => self.first_key(std::iter::once(range).chain(ranges)).await?,
                    };
                    return Ok(());
                }
                // Between two steps others may go first, and whoever waits for this query may end
                // it.
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.page.rows.len() >= self.rows_max
            || self.bytes_left == 0
            || Instant::now() >= self.deadline
    }

    /// Reads into the page; where to go on in the range, if it is not exhausted.
    async fn read_some(&mut self, range: &KeyRange) -> Result<Option<Cut>, ServiceError> {
        self.check_stop()?;
        let found = match as_point(range) {
            Some(key) => self.read_point(key).await?,
            None => self.store.scan(&self.scan(range)).await?,
        };
        let bytes: usize = found.rows.iter().map(Row::size_bytes).sum();
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.page.cost.rows_read += found.rows_read;
        self.page.rows.extend(found.rows);
        Ok(found.next)
    }

    fn check_stop(&self) -> Result<(), ServiceError> {
        match self.context.stop.is_due() {
            true => Err(ServiceError::Stopped { rows_read: self.page.cost.rows_read }),
            false => Ok(()),
        }
    }

    /// A point needs no iterator: the engine's filters answer for keys that do not exist.
    async fn read_point(&mut self, key: &EntityKey) -> Result<ScanPage, StoreError> {
        let address = EntityAddress { table: self.table, key: key.clone() };
        let row = self.store.get(&address, self.context.blocking).await?;
        let rows_read = u64::from(row.is_some());
        let wanted =
            |row: &Row| self.point_filter.as_mut().is_none_or(|filter| filter.accepts(row));
        Ok(ScanPage { rows: row.into_iter().filter(wanted).collect(), rows_read, next: None })
    }

    fn scan(&self, range: &KeyRange) -> Scan {
        Scan {
            table: self.table,
            range: range.clone(),
            residual: self.residual.clone(),
            rows_max: self.rows_max - self.page.rows.len(),
            bytes_max: self.bytes_left,
            read_max: ROWS_PER_SCAN,
            stop: self.stop_scan.clone(),
            yield_at: Some(std::time::Instant::now() + SCAN_TIME),
            blocking: self.context.blocking,
        }
    }

    /// The key of the first row that is left, whether or not it will match: the token names an
    /// entity, and a page that ends where nothing is left has none.
    async fn first_key(
        &self,
        ranges: impl Iterator<Item = KeyRange>,
    ) -> Result<Option<EntityKey>, ServiceError> {
        for mut range in ranges {
            loop {
                self.check_stop()?;
                let blocking = self.context.blocking;
                let probe = Scan {
                    rows_max: 1,
                    read_max: 1,
                    blocking,
                    ..Scan::all(self.table, range.clone())
                };
                let found = self.store.scan(&probe).await?;
                if let Some(row) = found.rows.first() {
                    return Ok(Some(row.key()?));
                }
                match found.next {
                    Some(next) => range.start = next,
                    None => break,
                }
            }
        }
        Ok(None)
    }
}

fn as_point(range: &KeyRange) -> Option<&EntityKey> {
    match (&range.start, &range.end) {
        (Cut::Before(start), Cut::After(end)) if start == end => Some(start),
        _ => None,
    }
}
