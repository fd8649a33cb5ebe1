//! A page of a scan while it grows: the bounds and the residual, once for all stores.

use tavola_core::Cut;
use tavola_core::filter::eval;

use crate::encoding::RowRef;
use crate::error::StoreError;
use crate::keys::{decode_key, entity_key};
use crate::store::{Scan, ScanPage};

/// Collects the rows that an engine walks over, and says when to stop.
#[derive(Debug)]
pub struct PageBuilder<'a> {
    scan: &'a Scan,
    page: ScanPage,
    bytes: usize,
}

impl<'a> PageBuilder<'a> {
    /// An empty page of `scan`.
    #[must_use]
    pub fn new(scan: &'a Scan) -> Self {
        Self { scan, page: ScanPage::default(), bytes: 0 }
    }

    /// Looks at one more row, given as key bytes ([`crate::keys`]) and value, and copies it if it belongs to the page.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes are not a row.
    pub fn offer(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let key = decode_key(key)?;
        self.offer_row(&RowRef::new(&key.partition_key, &key.row_key, value)?);
        Ok(())
    }

    /// Looks at one more row, and copies it if it belongs to the page.
    pub fn offer_row(&mut self, row: &RowRef<'_>) {
        self.page.rows_read += 1;
        if self.scan.residual.as_ref().is_none_or(|residual| eval::matches(residual, row)) {
            let row = row.to_row();
            self.bytes += row.size_bytes();
            self.page.rows.push(row);
        }
    }

    /// How far it is: rows it has, rows it looked at, bytes it has.
    #[must_use]
    pub fn so_far(&self) -> (usize, usize, usize) {
        (self.page.rows.len(), self.page.rows_read as usize, self.bytes)
    }

    /// True if no further row may be offered. A page always holds or has looked at one row, so that scans get on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let rows = self.page.rows.len();
        (rows > 0 && (rows >= self.scan.rows_max || self.bytes >= self.scan.bytes_max))
            || (self.page.rows_read > 0 && self.page.rows_read >= self.scan.read_max as u64)
    }

    /// The page; the range had no further row.
    #[must_use]
    pub fn exhausted(self) -> ScanPage {
        self.page
    }

    /// The page; the row with these key bytes stands next in the range.
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
