//! Tables that were looked up lately, so that a request on entities need not ask the store for its
//! table.
//!
//! Exact for changes through this process: whoever begins after a drop was answered finds nothing
//! remembered. A change takes its account's tables out before it commits, and while it is under way
//! nothing is put in; a look-up that began before or during a change is not remembered either,
//! because it may have read what was there before. What another process changes is seen when the
//! lease ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tavola_core::AccountName;
use tokio::time::Instant;

use crate::catalog::TableEntry;

/// How long another process's change may go unseen, unless something else is asked for.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// Far more than are in use at a time. Beyond it all are forgotten, which costs one read each.
const TABLES_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct RememberedTables {
    state: Mutex<State>,
    lease: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// Counts beginnings and ends of changes.
    changes: u64,
    changes_under_way: usize,
    count: usize,
    /// By account and folded name.
    tables: HashMap<AccountName, HashMap<String, (Instant, Arc<TableEntry>)>>,
}

/// A look-up in the store that may be remembered if nothing changes meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookUp {
    changes: u64,
    /// The lease counts from here: what the store answers may be as old.
    begun: Instant,
}

impl RememberedTables {
    pub(crate) fn new(lease: Duration) -> Self {
        Self { state: Mutex::default(), lease }
    }

    /// `folded` is the table's folded name.
    pub(crate) fn recall(&self, account: &AccountName, folded: &str) -> Option<Arc<TableEntry>> {
        let state = self.lock();
        let (since, entry) = state.tables.get(account)?.get(folded)?;
        (since.elapsed() < self.lease).then(|| Arc::clone(entry))
    }

    /// To be called before the store is asked.
    pub(crate) fn begin_look_up(&self) -> LookUp {
        LookUp { changes: self.lock().changes, begun: Instant::now() }
    }

    pub(crate) fn remember(
        &self,
        look_up: LookUp,
        account: &AccountName,
        folded: &str,
        entry: &Arc<TableEntry>,
    ) {
        let mut state = self.lock();
        if state.changes_under_way > 0 || state.changes != look_up.changes {
            return;
        }
        if state.count >= TABLES_MAX {
            state.tables.clear();
            state.count = 0;
        }
        let tables = state.tables.entry(account.clone()).or_default();
        if tables.insert(folded.to_owned(), (look_up.begun, Arc::clone(entry))).is_none() {
            state.count += 1;
        }
    }

    /// To be held from before a change of an account's tables until its outcome is known.
    pub(crate) fn begin_change(self: &Arc<Self>, account: &AccountName) -> Change {
        let mut state = self.lock();
        state.changes += 1;
        state.changes_under_way += 1;
        let forgotten = state.tables.remove(account).map_or(0, |tables| tables.len());
        state.count -= forgotten;
        drop(state);
        Change(Arc::clone(self))
    }

    // Nothing under this lock can panic half-way: poisoning would say nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change under way; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Change(Arc<RememberedTables>);

impl Drop for Change {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.changes += 1;
        state.changes_under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::{TableId, TableName, Timestamp};

    use super::*;

    fn account(name: &str) -> AccountName {
        AccountName::parse(name).unwrap()
    }

    fn entry(name: &str) -> Arc<TableEntry> {
        let name = TableName::parse(name).unwrap();
        Arc::new(TableEntry {
            name,
            id: TableId::new(300),
            policies: Vec::new(),
            version: Timestamp::MIN,
        })
    }

    fn remembered() -> (Arc<RememberedTables>, AccountName) {
        let (tables, account) = (Arc::new(RememberedTables::new(LEASE)), account("one"));
        tables.remember(tables.begin_look_up(), &account, "people", &entry("People"));
        (tables, account)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends() {
        let (tables, account) = remembered();
        assert!(tables.recall(&account, "people").is_some());
        assert!(tables.recall(&account, "others").is_none());
        tokio::time::advance(LEASE).await;
        assert!(tables.recall(&account, "people").is_none());
    }

    #[tokio::test]
    async fn a_change_forgets_the_tables_of_its_account() {
        let (tables, one) = remembered();
        let two = account("two");
        tables.remember(tables.begin_look_up(), &two, "people", &entry("People"));
        let change = tables.begin_change(&one);
        assert!(tables.recall(&one, "people").is_none());
        assert!(tables.recall(&two, "people").is_some());
        drop(change);
        assert!(tables.recall(&one, "people").is_none());
    }

    /// Each of them may have read the row that the change replaces.
    #[tokio::test]
    async fn a_look_up_that_meets_a_change_is_not_remembered() {
        let (tables, account) = remembered();
        let remember = |look_up| tables.remember(look_up, &account, "people", &entry("People"));
        let before = tables.begin_look_up();
        let change = tables.begin_change(&account);
        let during = tables.begin_look_up();
        remember(before);
        remember(during);
        assert!(tables.recall(&account, "people").is_none());
        drop(change);
        remember(before);
        remember(during);
        assert!(tables.recall(&account, "people").is_none());
        remember(tables.begin_look_up());
        assert!(tables.recall(&account, "people").is_some());
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let (tables, account) = remembered();
        for number in 0..TABLES_MAX {
            tables.remember(
                tables.begin_look_up(),
                &account,
                &format!("t{number}"),
                &entry("People"),
            );
        }
        let state = tables.lock();
        assert_eq!(state.count, state.tables[&account].len());
        assert!(state.count <= TABLES_MAX);
    }
}
