//! A page of a scan while it grows: the bounds, the residual and the deadline, once for all stores.

use std::sync::Arc;

use tavola_core::Cut;

use crate::encoding::{RowFilter, RowRef};
use crate::error::StoreError;
use crate::keys::{decode_key, entity_key};
use crate::stop::StopToken;
use crate::store::{Scan, ScanPage};

/// Work between two looks at the scan's [`crate::StopToken`]. A unit is a few nanoseconds: a look
/// is a thousandth of what lies between two of them, and even a build without optimisation has one
/// every few milliseconds.
const WORK_PER_LOOK: usize = 16_384;
/// Every row counts this much, whatever it has: an engine may have to fetch it from a disk, so that
/// there is a look every 64 rows at the latest.
const WORK_PER_ROW: usize = WORK_PER_LOOK / 64;
/// To check so many bytes is one unit; a small property has about as many.
const BYTES_PER_WORK: usize = 16;

/// Collects the rows that an engine walks over, and says when to stop.
#[derive(Debug)]
pub struct PageBuilder<'a> {
    scan: &'a Scan,
    filter: Option<RowFilter>,
    page: ScanPage,
    bytes: usize,
    stop: StopToken,
    /// What a row costs beside its own bytes.
    row_work: usize,
    work_until_look: usize,
    is_stopped: bool,
}

impl<'a> PageBuilder<'a> {
    /// An empty page of `scan`.
    #[must_use]
    pub fn new(scan: &'a Scan) -> Self {
        let filter = scan.residual.as_ref().map(|residual| RowFilter::new(Arc::clone(residual)));
        let row_work = WORK_PER_ROW + scan.residual.as_ref().map_or(0, |residual| residual.tests());
        let stop = scan.yield_at.map_or_else(|| scan.stop.clone(), |at| scan.stop.or_at(at));
        // The first row is followed by a look: short scans may come in thousands.
        let work_until_look = 0;
        Self {
            scan,
            filter,
            page: ScanPage::default(),
            bytes: 0,
            stop,
            row_work,
            work_until_look,
            is_stopped: false,
        }
    }

    /// Looks at one more row, given as key bytes ([`crate::keys`]) and value, and copies it if it
    /// belongs to the page.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes are not a row.
    pub fn offer(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let key = decode_key(key)?;
        self.offer_row(&key.partition_key, &key.row_key, value)
    }

    /// The same for a row whose keys are apart.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the value is not that of a row.
    pub fn offer_row(
        &mut self,
        partition_key: &str,
        row_key: &str,
        value: &[u8],
    ) -> Result<(), StoreError> {
        self.page.rows_read += 1;
        let wanted = match &mut self.filter {
            Some(filter) => filter.select(partition_key, row_key, value)?,
            None => Some(RowRef::new(partition_key, row_key, value)?),
        };
        if let Some(row) = wanted {
            let row = row.to_row();
            self.bytes += row.size_bytes();
            self.page.rows.push(row);
        }
        debug_assert!(
            self.page.rows.len() as u64 <= self.page.rows_read,
            "a page has read its rows"
        );
        self.worked(self.row_work + value.len() / BYTES_PER_WORK);
        Ok(())
    }

    fn worked(&mut self, work: usize) {
        match self.work_until_look.checked_sub(work) {
            Some(left) => self.work_until_look = left,
            None => {
                self.work_until_look = WORK_PER_LOOK;
                self.is_stopped = self.stop.is_due();
            }
        }
    }

    /// True if the scan has to end although the page is not full. A store that waits for something
    /// else than rows asks this in between.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped || self.stop.is_due()
    }

    /// How far it is: rows it has, rows it looked at, bytes it has.
    #[must_use]
    pub fn so_far(&self) -> (usize, usize, usize) {
        (self.page.rows.len(), self.page.rows_read as usize, self.bytes)
    }

    /// True if no further row may be offered. A page always holds or has looked at one row, so that
    /// scans get on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let rows = self.page.rows.len();
        (rows > 0 && (rows >= self.scan.rows_max || self.bytes >= self.scan.bytes_max))
            || (self.page.rows_read > 0
                && (self.is_stopped || self.page.rows_read >= self.scan.read_max as u64))
    }

    /// The page; the range had no further row.
    #[must_use]
    pub fn exhausted(self) -> ScanPage {
        self.page
    }

    /// The page; the row with these key bytes is next in the range.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes are not a key.
    pub fn continued_at(self, next_key: &[u8]) -> Result<ScanPage, StoreError> {
        let next = decode_key(next_key)?;
        let cut = Cut::Before(entity_key(&next.partition_key, &next.row_key)?);
        Ok(self.next_is(cut))
    }

    /// The page; the rest of the range begins here.
    #[must_use]
    pub fn next_is(mut self, cut: Cut) -> ScanPage {
        self.page.next = Some(cut);
        self.page
    }
}
