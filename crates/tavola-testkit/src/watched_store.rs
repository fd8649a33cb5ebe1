//! A store that is watched: which tables were asked, which rows came out, what was changed.
//!
//! It tells what a refused request cost, which no answer over a socket can. The rows of a scan are
//! those that it looked at, whether or not they were returned: a row that is read and then left out
//! was read all the same.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, EntityKey, TableId, Timestamp};
use tavola_store::{Blocking, CommitResult, Row, Scan, ScanPage, Store, StoreError};
use tokio::task;

/// A decorator that counts.
#[derive(Debug)]
pub struct WatchedStore<S> {
    store: S,
    watch: Watch,
}

/// What a store did for one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// Calls of `get` and `scan`, whether or not they found anything.
    pub reads: u64,
    /// Rows that were looked at.
    pub rows_read: u64,
    /// The rows that were handed out.
    pub keys_returned: Vec<EntityKey>,
    /// Transactions that were tried, the refused ones among them.
    pub commits: u64,
    /// Rows that were written or removed.
    pub rows_changed: u64,
    /// Calls of `purge`.
    pub purges: u64,
}

impl Activity {
    /// True if rows are no longer what they were.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.rows_changed > 0 || self.purges > 0
    }
}

/// What was seen since it was last asked for; its clones see the same.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    seen: Arc<Mutex<Seen>>,
}

/// A task; `None` is a caller outside of any.
type Caller = Option<task::Id>;

#[derive(Debug, Default)]
struct Seen {
    tables: BTreeMap<TableId, Activity>,
    callers: HashSet<Caller>,
    background: HashSet<Caller>,
}

impl<S: Store> WatchedStore<S> {
    /// Watches `store`.
    pub fn new(store: S) -> Self {
        Self { store, watch: Watch::default() }
    }

    /// What is seen, also after the store has been given away.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }
}

impl Watch {
    /// What was done since the last call, per table that was touched at all. Nothing is forgotten
    /// that a request did: its answer leaves after its last call.
    #[must_use]
    pub fn take(&self) -> BTreeMap<TableId, Activity> {
        std::mem::take(&mut self.lock().tables)
    }

    /// From now on nothing is counted of the tasks that have called until now: what works in the
    /// background comes and goes in its own time.
    pub fn set_callers_aside(&self) {
        let mut seen = self.lock();
        let callers = std::mem::take(&mut seen.callers);
        seen.background.extend(callers);
        seen.tables.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, table: TableId, note: impl FnOnce(&mut Activity)) {
        let caller = task::try_id();
        let mut seen = self.lock();
        if seen.background.contains(&caller) {
            return;
        }
        seen.callers.insert(caller);
        note(seen.tables.entry(table).or_default());
    }
}

#[async_trait]
impl<S: Store> Store for WatchedStore<S> {
    async fn get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError> {
        self.watch.note(address.table, |activity| activity.reads += 1);
        let row = self.store.get(address, blocking).await?;
        if row.is_some() {
            self.watch.note(address.table, |activity| {
                activity.rows_read += 1;
                activity.keys_returned.push(address.key.clone());
            });
        }
        Ok(row)
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.watch.note(scan.table, |activity| activity.reads += 1);
        let page = self.store.scan(scan).await?;
        let keys = page.rows.iter().map(Row::key).collect::<Result<Vec<_>, _>>()?;
        self.watch.note(scan.table, |activity| {
            activity.rows_read += page.rows_read;
            activity.keys_returned.extend(keys);
        });
        Ok(page)
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.watch.note(table, |activity| activity.commits += 1);
        let result = self.store.commit(table, transaction, now).await?;
        let changed = result.as_ref().map_or(0, Vec::len) as u64;
        self.watch.note(table, |activity| activity.rows_changed += changed);
        Ok(result)
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.watch.note(table, |activity| activity.purges += 1);
        self.store.purge(table).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tavola_core::{EntityAddress, KeyRange, Precondition, TableId};
    use tavola_store::{Blocking, MemoryStore, Scan, Store};

    use super::{Activity, Watch, WatchedStore};
    use tavola_conformance::store_conformance::fixture::{TABLE, group, key, now, number, replace};

    async fn with_two_rows() -> (Arc<WatchedStore<MemoryStore>>, Watch) {
        let store = Arc::new(WatchedStore::new(MemoryStore::new()));
        let rows = ["1", "2"].map(|row_key| replace(row_key, number(1), Precondition::None));
        store.commit(TABLE, &group("p", rows.into()), now()).await.unwrap().unwrap();
        let watch = store.watch();
        let written = Activity { commits: 1, rows_changed: 2, ..Activity::default() };
        assert_eq!(watch.take().into_iter().collect::<Vec<_>>(), [(TABLE, written)]);
        (store, watch)
    }

    fn address(row_key: &str) -> EntityAddress {
        EntityAddress { table: TABLE, key: key("p", row_key) }
    }

    #[tokio::test]
    async fn what_was_read() {
        let (store, watch) = with_two_rows().await;
        store.get(&address("1"), Blocking::Forbidden).await.unwrap();
        store.get(&address("3"), Blocking::Forbidden).await.unwrap();
        let scan = Scan { rows_max: 1, ..Scan::all(TABLE, KeyRange::ALL) };
        store.scan(&scan).await.unwrap();
        let seen = watch.take().remove(&TABLE).unwrap();
        assert_eq!((seen.reads, seen.rows_read, seen.commits), (3, 2, 0));
        assert_eq!(seen.keys_returned, [key("p", "1"), key("p", "1")]);
        assert!(!seen.has_changed());
        assert!(watch.take().is_empty());
    }

    #[tokio::test]
    async fn a_refused_commit_was_tried_and_changed_nothing() {
        let (store, watch) = with_two_rows().await;
        let absent = group("p", vec![replace("3", number(1), Precondition::Exists)]);
        assert!(store.commit(TABLE, &absent, now()).await.unwrap().is_err());
        let seen = watch.take().remove(&TABLE).unwrap();
        assert_eq!((seen.commits, seen.rows_changed, seen.has_changed()), (1, 0, false));
        store.purge(TableId::new(1000)).await.unwrap();
        assert!(watch.take()[&TableId::new(1000)].has_changed());
    }

    #[tokio::test]
    async fn earlier_callers_can_be_set_aside() {
        let (store, watch) = with_two_rows().await;
        watch.set_callers_aside();
        store.get(&address("1"), Blocking::Forbidden).await.unwrap();
        assert!(watch.take().is_empty(), "this task has written before");
        let in_another_task = Arc::clone(&store);
        tokio::spawn(async move {
            in_another_task.get(&address("1"), Blocking::Forbidden).await.map(drop)
        })
        .await
        .unwrap()
        .unwrap();
        assert_eq!(watch.take()[&TABLE].reads, 1);
    }
}
