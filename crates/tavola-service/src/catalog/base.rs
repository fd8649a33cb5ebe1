//! What the catalogues of all kinds share: the rows, the ids, and what becomes of dropped tables.

use std::sync::Arc;
use std::time::Duration;

use tavola_core::TableId;
use tavola_store::Store;
use tokio::sync::Notify;

use super::ids::TableIds;
use crate::clock::Clock;
use crate::system_rows::SystemRows;

/// How long another process's change may go unseen, unless something else is asked for.
const LEASE: Duration = Duration::from_secs(2);

/// The store of one or more services, with what they must have in common.
#[derive(Debug)]
pub struct CatalogBase {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rows: SystemRows,
    pub(super) ids: TableIds,
    /// How long what was read may be remembered.
    pub(crate) lease: Duration,
    /// Other processes serve the same store, and remember for the same time.
    pub(crate) is_shared: bool,
    /// Told of every table that is dropped here.
    pub(crate) dropped: Notify,
}

impl CatalogBase {
    /// On a store that nobody else serves.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::with_lease(store, clock, LEASE, false)
    }

    /// On a store that other processes serve too. What they change is seen after `lease` at the
    /// latest, which must be the same for all of them.
    #[must_use]
    pub fn shared(store: Arc<dyn Store>, clock: Arc<dyn Clock>, lease: Duration) -> Arc<Self> {
        Self::with_lease(store, clock, lease, true)
    }

    fn with_lease(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        lease: Duration,
        is_shared: bool,
    ) -> Arc<Self> {
        let rows = SystemRows::new(Arc::clone(&store), Arc::clone(&clock), TableId::CATALOG);
        let ids = TableIds::new(Arc::clone(&store), Arc::clone(&clock));
        Arc::new(Self { store, clock, rows, ids, lease, is_shared, dropped: Notify::new() })
    }

    /// Ends a request that dropped a table.
    pub(super) async fn finish_drop(&self) {
        self.dropped.notify_one();
        if self.is_shared {
            // Another process must not find the table any more when it is asked after this answer.
            tokio::time::sleep(self.lease).await;
        }
    }
}
