//! Giving the space of dropped tables back, while the store serves.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tavola_core::limits::TRANSACTION_OPERATIONS_MAX;
use tavola_core::{AccountName, Cut, EntityView, KeyRange, PartitionKey, TableId};
use tavola_store::{Scan, ScanPage, StoreError};

use crate::catalog::{CatalogBase, DROPPED_PREFIX, forget, read_dropped};
use crate::error::ServiceError;
use crate::record::rows_with_prefix;

/// A request that found the table before it was dropped may still write to it, for as long as a
/// request may take and this much longer, in which the store finishes what it has begun. A second
/// purge after that leaves nothing behind. Counted from the first purge, which comes after the drop.
const STORE_GRACE: Duration = Duration::from_secs(30);
/// The longest time of a request, unless the service is told otherwise.
pub(crate) const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// While dropped tables wait for their last purge, they are looked at this often.
const INTERVAL: Duration = Duration::from_secs(10);
/// What other processes dropped is looked for this often.
const INTERVAL_OF_OTHERS: Duration = Duration::from_secs(60);
/// Dropped tables that are read at a time, and forgotten together: as many as one transaction
/// takes.
const DROPPED_PER_PAGE: usize = TRANSACTION_OPERATIONS_MAX;

/// Purges dropped tables and then forgets them.
#[derive(Debug)]
pub struct Reclaimer {
    base: Arc<CatalogBase>,
    /// How long after a drop a request may still write to the table.
    last_writer: Duration,
    /// Purged once, at this time, and waiting for their last writers.
    purged: HashMap<TableId, Duration>,
}

impl Reclaimer {
    pub(crate) fn new(base: Arc<CatalogBase>, request_time_max: Duration) -> Self {
        let last_writer = request_time_max.saturating_add(STORE_GRACE);
        Self { base, last_writer, purged: HashMap::new() }
    }

    /// Works until it is cancelled. What was dropped before a restart is found again in the
    /// catalogue.
    pub async fn run(mut self) {
        loop {
            let wait_for_writers = match self.pass().await {
                Ok(waiting) => waiting > 0,
                Err(error) => {
                    tracing::warn!(%error, "could not reclaim dropped tables; trying again");
                    true
                }
            };
            let interval = match (wait_for_writers, self.base.is_shared) {
                (true, _) => INTERVAL,
                (false, true) => INTERVAL_OF_OTHERS,
                (false, false) => Duration::MAX,
            };
            let _woken_early = tokio::time::timeout(interval, self.base.dropped.notified()).await;
        }
    }

    /// Purges everything that was dropped; how many tables still wait for their last writers.
    ///
    /// # Errors
    /// If the store fails; what was not done is done by the next pass. A table whose rows are
    /// damaged fails alone: the others are purged first.
    pub async fn pass(&mut self) -> Result<usize, ServiceError> {
        let mut start = Cut::Start;
        let mut waiting = 0;
        let mut damaged = None;
        while let Some(partition_key) = self.next_account(&start).await? {
            waiting += self.pass_account(&partition_key, &mut damaged).await?;
            start = Cut::AfterPartition(partition_key);
        }
        damaged.map_or(Ok(waiting), |damage| Err(StoreError::Corrupt(damage).into()))
    }

    async fn next_account(&self, start: &Cut) -> Result<Option<PartitionKey>, StoreError> {
        let first = self.catalog_page(start.clone(), Cut::End, 1).await?.rows.pop();
        let damaged =
            |_| StoreError::Corrupt("an account's key breaks the rules of keys".to_owned());
        first
            .map(|row| PartitionKey::stored(row.partition_key().as_str()).map_err(damaged))
            .transpose()
    }

    /// Goes through all dropped tables of an account. The first damage that it meets is left in
    /// `damaged`.
    async fn pass_account(
        &mut self,
        partition_key: &PartitionKey,
        damaged: &mut Option<String>,
    ) -> Result<usize, ServiceError> {
        let Some(account) = AccountName::parse(partition_key.as_str()) else { return Ok(0) };
        let Some(KeyRange { start, end }) = rows_with_prefix(partition_key, DROPPED_PREFIX) else {
            return Ok(0);
        };
        let mut start = Some(start);
        let mut waiting = 0;
        while let Some(from) = start {
            let page = self.catalog_page(from, end.clone(), DROPPED_PER_PAGE).await?;
            let mut gone = Vec::new();
            for row in &page.rows {
                let id = read_dropped(row)?;
                match self.reclaim(id).await {
                    Ok(true) => gone.push(id),
                    Ok(false) => waiting += 1,
                    Err(StoreError::Corrupt(damage)) => drop(damaged.get_or_insert(damage)),
                    Err(error) => return Err(error.into()),
                }
            }
            forget(&self.base.rows, &account, &gone).await?;
            self.purged.retain(|id, _| !gone.contains(id));
            start = page.next;
        }
        Ok(waiting)
    }

    /// True if nothing of the table is left, and nothing can come any more.
    async fn reclaim(&mut self, id: TableId) -> Result<bool, StoreError> {
        let now = self.base.clock.elapsed();
        match self.purged.get(&id) {
            None => {
                self.base.store.purge(id).await?;
                self.purged.insert(id, now);
                Ok(false)
            }
            Some(purged_at) if now.saturating_sub(*purged_at) <= self.last_writer => Ok(false),
            Some(_) => self.base.store.purge(id).await.map(|()| true),
        }
    }

    async fn catalog_page(
        &self,
        start: Cut,
        end: Cut,
        rows_max: usize,
    ) -> Result<ScanPage, StoreError> {
        let range = KeyRange { start, end };
        self.base
            .store
            .scan(&Scan { rows_max, read_max: rows_max, ..Scan::all(TableId::CATALOG, range) })
            .await
    }
}
