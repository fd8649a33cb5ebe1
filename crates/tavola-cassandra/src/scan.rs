//! Rows of a range in order: of one partition by one read, of several by the directory and reads
//! ahead.
//!
//! Each partition is read once per page, so that within a page a transaction is seen whole; where
//! that read ends, the page ends.

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::prepared::PreparedStatement;
use tavola_core::{Cut, KeyRange};
use tavola_store::keys::{decode_text, encode_text, entity_key};
use tavola_store::page::PageBuilder;
use tavola_store::{BoundedCache, Scan, ScanPage, StoreError};

use crate::cluster::{Cluster, Partition, table_number};
use crate::directory::{Walk, after};
use crate::error::unavailable;
use crate::options::Reads;
use crate::stats::Kind;
use crate::sweep::Sweeper;

/// Partitions that are read at a time.
const AHEAD_MAX: usize = 32;
/// The size of a row of a table that was never scanned.
const ROW_BYTES_GUESS: usize = 4096;
/// Above every encoded key: none begins with it.
const ABOVE_ALL: &[u8] = &[0xFF];
/// Tables whose row sizes are remembered.
const TABLES_MAX: usize = 10_000;

/// Reads ranges.
#[derive(Debug)]
pub(crate) struct Scanner {
    reads: Reads,
    /// The mean size of the rows of a table, to ask for no more of them than a page can hold.
    row_bytes: BoundedCache<i64, usize>,
}

/// Byte bounds of a range: partitions from `first` to `last`, and rows within these two.
#[derive(Debug, PartialEq, Eq)]
struct Bounds {
    /// Partition keys are not below it.
    first: Vec<u8>,
    /// In a partition with exactly this key rows are not below `rows_from`.
    rows_from: Vec<u8>,
    /// Partition keys are below it.
    end: Vec<u8>,
    /// In the partition with this key rows are below `rows_end`.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

impl Bounds {
    fn of(range: &KeyRange) -> Self {
        let (first, rows_from) = match &range.start {
            Cut::Start => (Vec::new(), Vec::new()),
            Cut::Before(key) => {
                (encode_text(key.partition_key.as_str()), encode_text(key.row_key.as_str()))
            }
            Cut::After(key) => {
                (encode_text(key.partition_key.as_str()), after(&encode_text(key.row_key.as_str())))
            }
            Cut::AfterPartition(key) => (after(&encode_text(key.as_str())), Vec::new()),
            Cut::End => (ABOVE_ALL.to_vec(), Vec::new()),
        };
        let (end, last) = match &range.end {
            Cut::Start => (Vec::new(), None),
            Cut::Before(key) => {
                let (partition, row) =
                    (encode_text(key.partition_key.as_str()), encode_text(key.row_key.as_str()));
                if row.is_empty() {
                    (partition, None)
                } else {
                    (after(&partition), Some((partition, row)))
                }
            }
            Cut::After(key) => {
                let partition = encode_text(key.partition_key.as_str());
                (after(&partition), Some((partition, after(&encode_text(key.row_key.as_str())))))
            }
            Cut::AfterPartition(key) => (after(&encode_text(key.as_str())), None),
            Cut::End => (ABOVE_ALL.to_vec(), None),
        };
        Self { first, rows_from, end, last }
    }

    fn is_empty(&self) -> bool {
        self.first >= self.end
    }

    /// The only partition that the range can have rows in.
    fn only_partition(&self) -> Option<&[u8]> {
        (self.end == after(&self.first)).then_some(&self.first[..])
    }

    /// The rows of a partition that the range has.
    fn rows_of<'a>(&'a self, key: &[u8]) -> (&'a [u8], &'a [u8]) {
        let from = if key == self.first { &self.rows_from[..] } else { &[] };
        let end = match &self.last {
            Some((last, end)) if key == last => &end[..],
            _ => ABOVE_ALL,
        };
        (from, end)
    }

    /// True if the range has all rows of the partition.
    fn has_whole(&self, key: &[u8]) -> bool {
        self.rows_of(key) == (&[][..], ABOVE_ALL)
    }
}

/// One partition's rows, as read.
struct Slice {
    key: Vec<u8>,
    rows: QueryRowsResult,
    /// How many were asked for.
    limit: usize,
}

impl Scanner {
    pub(crate) fn new(reads: Reads) -> Self {
        Self { reads, row_bytes: BoundedCache::new(TABLES_MAX) }
    }

    pub(crate) async fn scan(
        &self,
        cluster: &Cluster,
        slots: u16,
        sweeper: &Sweeper,
        scan: &Scan,
    ) -> Result<ScanPage, StoreError> {
        // A scan that waits for the cluster holds no thread, and what it read ahead would be lost.
        let scan = &Scan { yield_at: None, ..scan.clone() };
        let (bounds, table) = (Bounds::of(&scan.range), table_number(scan.table));
        let mut page = PageBuilder::new(scan);
        if bounds.is_empty() {
            return Ok(page.exhausted());
        }
        let statement = match self.reads {
            Reads::Strict => &cluster.statements.slice_strict,
            Reads::Fast => &cluster.statements.slice_fast,
        };
        let mut read = PageRead {
            cluster,
            statement,
            bounds: &bounds,
            table,
            row_bytes: self.expected(table),
        };
        if let Some(key) = bounds.only_partition() {
            let slice = read.slice(key.to_vec(), limit(scan, &page, read.row_bytes)).await?;
            let next = self.take_in(&mut page, &read, &slice)?;
            return Ok(ended(page, next));
        }
        let mut walk = Walk::new(cluster, table, slots, &bounds.first, bounds.end.clone());
        let mut ahead = FuturesOrdered::new();
        let mut partitions = 0;
        let mut walked = false;
        loop {
            let window = window(scan, &page, partitions);
            while !walked && ahead.len() < window {
                match walk.next().await? {
                    Some(key) => {
                        ahead.push_back(read.slice(key, limit(scan, &page, read.row_bytes)))
                    }
                    None => walked = true,
                }
            }
            let Some(slice) = ahead.next().await else { return Ok(page.exhausted()) };
            let slice = slice?;
            if slice.rows.rows_num() == 0 && bounds.has_whole(&slice.key) {
                sweeper.found_empty(Partition { table, key: slice.key.as_slice().into() });
            }
            if let Some(next) = self.take_in(&mut page, &read, &slice)? {
                return Ok(page.next_is(next));
            }
            read.row_bytes = self.expected(table);
            partitions += 1;
            // Partitions without rows take time too.
            if partitions >= scan.read_max.max(1) || page.is_stopped() {
                let (partition_key, ended) = (decode_text(&slice.key)?, walked && ahead.is_empty());
                let cut = Cut::AfterPartition(entity_key(&partition_key, "")?.partition_key);
                return Ok(if ended { page.exhausted() } else { page.next_is(cut) });
            }
        }
    }

    /// Offers the rows to the page; where to go on if the page ends here.
    fn take_in(
        &self,
        page: &mut PageBuilder<'_>,
        read: &PageRead<'_>,
        slice: &Slice,
    ) -> Result<Option<Cut>, StoreError> {
        let damaged =
            |error: &dyn ToString| StoreError::Corrupt(format!("a reply: {}", error.to_string()));
        let partition_key = decode_text(&slice.key)?;
        let (mut last, mut bytes, count) = (None, 0, slice.rows.rows_num());
        for row in slice.rows.rows::<(&[u8], &[u8])>().map_err(|error| damaged(&error))? {
            let (key, document) = row.map_err(|error| damaged(&error))?;
            let row_key = decode_text(key)?;
            if page.is_full() {
                return Ok(Some(Cut::Before(entity_key(&partition_key, &row_key)?)));
            }
            page.offer_row(&partition_key, &row_key, document)?;
            bytes += key.len() + document.len();
            last = Some(row_key);
        }
        if let Some(mean) = bytes.checked_div(count) {
            self.learn(read.table, mean);
        }
        // As many as were asked for: there may be more, but not in this snapshot.
        match last {
            Some(row_key) if count >= slice.limit => {
                Ok(Some(Cut::After(entity_key(&partition_key, &row_key)?)))
            }
            _ => Ok(None),
        }
    }

    fn expected(&self, table: i64) -> usize {
        self.row_bytes.get(&table).unwrap_or(ROW_BYTES_GUESS)
    }

    /// Follows upwards at once and downwards slowly: too many large rows cost more than one read
    /// more. Two scans that learn at the same moment may lose one of their means; it is a guess.
    fn learn(&self, table: i64, mean: usize) {
        let learnt = match self.row_bytes.get(&table) {
            Some(known) if mean <= known => (known * 3 + mean) / 4,
            _ => mean,
        };
        self.row_bytes.insert(table, learnt);
    }
}

fn ended(page: PageBuilder<'_>, next: Option<Cut>) -> ScanPage {
    match next {
        Some(next) => page.next_is(next),
        None => page.exhausted(),
    }
}

/// Rows to ask a partition for: what the page can still take, and one more, which names where the
/// next page begins.
fn limit(scan: &Scan, page: &PageBuilder<'_>, row_bytes: usize) -> usize {
    let (rows, read, bytes) = page.so_far();
    let unread = scan.read_max.saturating_sub(read).max(1);
    let wanted = match scan.residual {
        None => unread.min(scan.rows_max.saturating_sub(rows).max(1)),
        Some(_) => unread,
    };
    let fitting = scan.bytes_max.saturating_sub(bytes) / row_bytes.max(1);
    wanted.min(fitting.max(1)).saturating_add(1)
}

/// How many partitions to read at a time: as many as the page will need if they go on as they did.
fn window(scan: &Scan, page: &PageBuilder<'_>, partitions: usize) -> usize {
    let (rows, read, _) = page.so_far();
    let wanted = scan.rows_max.saturating_sub(rows).min(scan.read_max.saturating_sub(read)).max(1);
    // Twice as many as were read: a page of one partition reads one ahead, a page of a thousand
    // soon all of them.
    let grown = (partitions * 2).clamp(1, AHEAD_MAX);
    match read.checked_div(partitions) {
        Some(mean) if mean > 0 => grown.min(wanted / mean + 1),
        _ => grown,
    }
}

struct PageRead<'a> {
    cluster: &'a Cluster,
    statement: &'a PreparedStatement,
    bounds: &'a Bounds,
    table: i64,
    row_bytes: usize,
}

impl<'a> PageRead<'a> {
    /// Rows of one partition in order.
    fn slice(
        &self,
        key: Vec<u8>,
        limit: usize,
    ) -> impl Future<Output = Result<Slice, StoreError>> + use<'a> {
        let (cluster, statement, table) = (self.cluster, self.statement, self.table);
        let (from, end) = self.bounds.rows_of(&key);
        async move {
            let failed = |error: &dyn ToString| {
                unavailable(format!("a partition's rows: {}", error.to_string()))
            };
            let values = (table, &key[..], from, end, i32::try_from(limit).unwrap_or(i32::MAX));
            let result = cluster.execute(Kind::Slice, statement, values).await;
            let rows = result
                .map_err(|error| failed(&error))?
                .into_rows_result()
                .map_err(|error| failed(&error))?;
            Ok(Slice { key, rows, limit })
        }
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::{Cut, EntityKey, KeyRange, PartitionKey, RowKey};

    use super::{ABOVE_ALL, Bounds};

    fn key(partition: &str, row: &str) -> EntityKey {
        EntityKey::new(PartitionKey::new(partition).unwrap(), RowKey::new(row).unwrap())
    }

    #[test]
    fn one_partition_needs_no_directory() {
        let only = |range: KeyRange| Bounds::of(&range).only_partition().map(<[u8]>::to_vec);
        assert_eq!(only(KeyRange::partition(PartitionKey::new("p").unwrap())), Some(b"p".to_vec()));
        assert_eq!(only(KeyRange::partition(PartitionKey::new("").unwrap())), Some(Vec::new()));
        let rows = KeyRange { start: Cut::After(key("p", "a")), end: Cut::Before(key("p", "c")) };
        assert_eq!(only(rows.clone()), Some(b"p".to_vec()));
        let bounds = Bounds::of(&rows);
        assert_eq!(bounds.rows_of(b"p"), (&b"a\0"[..], &b"c"[..]));
        assert_eq!(only(KeyRange::ALL), None);
        let two = KeyRange { start: Cut::Before(key("p", "a")), end: Cut::Before(key("q", "c")) };
        assert_eq!(only(two.clone()), None);
        let bounds = Bounds::of(&two);
        assert_eq!(bounds.rows_of(b"p"), (&b"a"[..], ABOVE_ALL));
        assert_eq!(bounds.rows_of(b"pp"), (&b""[..], ABOVE_ALL));
        assert_eq!(bounds.rows_of(b"q"), (&b""[..], &b"c"[..]));
        assert!(bounds.has_whole(b"pp") && !bounds.has_whole(b"p") && !bounds.has_whole(b"q"));
    }

    #[test]
    fn edges() {
        let bounds = |start, end| Bounds::of(&KeyRange { start, end });
        let partition = || PartitionKey::new("p").unwrap();
        assert!(bounds(Cut::End, Cut::End).is_empty());
        assert!(bounds(Cut::Start, Cut::Start).is_empty());
        assert!(
            bounds(Cut::AfterPartition(partition()), Cut::AfterPartition(partition())).is_empty()
        );
        assert!(
            bounds(Cut::before_partition(partition()), Cut::before_partition(partition()))
                .is_empty()
        );
        assert!(
            !bounds(Cut::before_partition(partition()), Cut::AfterPartition(partition()))
                .is_empty()
        );
    }
}
