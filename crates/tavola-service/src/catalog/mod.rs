//! The catalogue: which named resources an account has, their ids, their access policies and what
//! else their kind keeps.
//!
//! One partition per account in a system table. Rows of all kinds share it, so that dropping a
//! resource is one transaction: `t:{name}` is a living table under its folded name, other kinds
//! have other letters ([`ResourceKind::PREFIX`]), and `d:{id}` is a table of the store that was
//! dropped and whose rows are still to be reclaimed.

mod base;
mod dropped;
mod entry;
mod ids;
mod kind;
mod policies;

use std::sync::Arc;

use tavola_core::filter::plan::{AccessClass, Plan};
use tavola_core::reply::Cost;
use tavola_core::request::Continuation;
use tavola_core::{AccountName, DomainError, EntityOperation, TableId};
use tavola_store::{LeasedCache, Row, StoreError};

use crate::error::ServiceError;
use crate::query::{ReadContext, read_page};
use crate::record::{partition_key, rows_with_prefix};
use crate::system_rows::{Changed, Decision, first_version, unchanged_since};

pub use base::CatalogBase;
pub(crate) use dropped::{DROPPED_PREFIX, dropped_row_key, forget, read_dropped};
pub use entry::{Entry, LastModified};
pub(crate) use entry::{add, name_row_key};
pub(crate) use ids::{read_counter, set_counter};
pub use kind::{Attributes, ResourceKind, Tables};

/// Resources that are remembered of each kind: far more than are in use at a time.
const ENTRIES_MAX: usize = 10_000;

/// The resources of one kind, of all accounts. A process has one for each kind and base: what is
/// changed through another is seen when the lease ends.
#[derive(Debug)]
pub struct Catalog<K: ResourceKind> {
    base: Arc<CatalogBase>,
    remembered: Arc<LeasedCache<Entry<K>>>,
}

/// What [`Catalog::create_or_find`] came to.
#[derive(Debug, Clone)]
pub enum Creation<K: ResourceKind> {
    /// There was none of that name; this one is new.
    Created(Entry<K>),
    /// There was this one, and it is as it was.
    Found(Entry<K>),
}

/// A page of a listing.
#[derive(Debug)]
pub struct Listed<K: ResourceKind> {
    /// In the order of their folded names.
    pub entries: Vec<Entry<K>>,
    /// The folded name at which to go on.
    pub next: Option<String>,
    /// What it cost.
    pub cost: Cost,
}

impl<K: ResourceKind> Catalog<K> {
    /// The catalogue of one kind.
    #[must_use]
    pub fn new(base: Arc<CatalogBase>) -> Self {
        let remembered = Arc::new(LeasedCache::new(ENTRIES_MAX, base.lease));
        Self { base, remembered }
    }

    /// The resource of that name as a request on its content needs it: what another process changed
    /// is seen when the lease ends.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find(
        &self,
        account: &AccountName,
        name: &K::Name,
    ) -> Result<Option<Arc<Entry<K>>>, StoreError> {
        let folded = K::fold(K::text(name));
        if let Some(entry) = self.remembered.get(account.as_str(), &folded) {
            return Ok(Some(entry));
        }
        let look_up = self.remembered.begin_look_up(account.as_str());
        let entry = self.read(account, name).await?.map(Arc::new);
        if let Some(entry) = &entry {
            self.remembered.remember(look_up, account.as_str(), &folded, entry);
        }
        Ok(entry)
    }

    /// The same as the store has it now.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn read(
        &self,
        account: &AccountName,
        name: &K::Name,
    ) -> Result<Option<Entry<K>>, StoreError> {
        let row = self.base.rows.get(entry::key::<K>(account, name)).await?;
        row.as_ref().map(Entry::read).transpose()
    }

    /// A page of the resources whose names begin with `prefix`, of `rows_max` at most, beginning at
    /// `from`.
    ///
    /// # Errors
    /// If the store fails or the request has to stop.
    pub async fn list(
        &self,
        account: &AccountName,
        prefix: &str,
        from: Option<&K::Name>,
        rows_max: usize,
        context: ReadContext<'_>,
    ) -> Result<Listed<K>, K::Error> {
        let prefix = format!("{}{}", K::PREFIX, K::fold(prefix));
        // A prefix that no key can have is one that no name has.
        let ranges = rows_with_prefix(&partition_key(account), &prefix).into_iter().collect();
        let plan = Plan { ranges, residual: None, class: AccessClass::RowRange };
        Ok(self.page(account, plan, from, rows_max, context).await?)
    }

    /// A page of what a plan finds among the rows of this kind.
    pub(crate) async fn page(
        &self,
        account: &AccountName,
        plan: Plan,
        from: Option<&K::Name>,
        rows_max: usize,
        context: ReadContext<'_>,
    ) -> Result<Listed<K>, ServiceError> {
        let from = from.map(|name| Continuation {
            partition_key: partition_key(account),
            row_key: Some(name_row_key::<K>(name)),
        });
        let (store, table) = (&*self.base.store, TableId::CATALOG);
        let page = read_page(store, table, plan, rows_max, from.as_ref(), context).await?;
        let entries = page.rows.iter().map(Entry::read).collect::<Result<_, _>>()?;
        let folded = |row_key: &str| row_key.strip_prefix(K::PREFIX).map(str::to_owned);
        let next = page.next.and_then(|key| folded(key.row_key.as_str()));
        Ok(Listed { entries, next, cost: page.cost })
    }

    /// Creates a resource.
    ///
    /// # Errors
    /// [`ResourceKind::already_exists`], or if the store fails.
    pub async fn create(
        &self,
        account: &AccountName,
        name: &K::Name,
        attributes: K::Attributes,
    ) -> Result<Entry<K>, K::Error> {
        let entry = Entry::<K>::new(name.clone(), self.base.ids.next().await?, attributes);
        let insert = entry.insert(account)?;
        let change = self.remembered.begin_change(account.as_str());
        let partition_key = partition_key(account);
        let committed = self.base.rows.commit_detached(change, &partition_key, vec![insert]).await;
        match committed.map_err(ServiceError::from)? {
            Ok(outcomes) => Ok(entry.at(first_version(&outcomes))),
            Err(failed) if failed.domain_error == DomainError::EntityAlreadyExists => {
                Err(K::already_exists())
            }
            Err(failed) => Err(ServiceError::from(failed.domain_error).into()),
        }
    }

    /// Creates a resource unless there is one of that name.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn create_or_find(
        &self,
        account: &AccountName,
        name: &K::Name,
        attributes: K::Attributes,
    ) -> Result<Creation<K>, K::Error> {
        let new = Entry::<K>::new(name.clone(), self.base.ids.next().await?, attributes);
        let insert = new.insert(account)?;
        let decide = |found: Option<Entry<K>>| {
            let operations = if found.is_some() { Vec::new() } else { vec![insert.clone()] };
            Ok(Decision { operations, answer: found })
        };
        let Changed { answer, version } = self.decide(account, name, decide).await?;
        Ok(answer.map_or_else(|| Creation::Created(new.at(version)), Creation::Found))
    }

    /// Changes the access policies and attributes of a resource as `change` does, which is called
    /// again if somebody else changed them meanwhile. Returns what is stored then.
    ///
    /// # Errors
    /// [`ResourceKind::not_found`], what `change` refuses with, or if the store fails.
    pub async fn change(
        &self,
        account: &AccountName,
        name: &K::Name,
        last_modified: LastModified,
        mut change: impl FnMut(&mut Entry<K>) -> Result<(), K::Error>,
    ) -> Result<Entry<K>, K::Error> {
        let decide = |mut entry: Entry<K>| {
            change(&mut entry)?;
            let replace = entry.replace(account, last_modified)?;
            Ok(Decision { operations: vec![replace], answer: entry })
        };
        let Changed { answer, version } = self.decide_on_existing(account, name, decide).await?;
        Ok(answer.at(version))
    }

    /// Gives a resource another, empty table of the store, and drops the one that it had: in one
    /// commit, whatever was in it. Returns what is stored then.
    ///
    /// # Errors
    /// [`ResourceKind::not_found`], what `check` refuses with, or if the store fails.
    pub async fn renew(
        &self,
        account: &AccountName,
        name: &K::Name,
        check: impl Fn(&Entry<K>) -> Result<(), K::Error>,
    ) -> Result<Entry<K>, K::Error> {
        let id = self.base.ids.next().await?;
        let decide = |mut entry: Entry<K>| {
            check(&entry)?;
            let dropped = self.dropped(account, entry.id)?;
            entry.id = id;
            let replace = entry.replace(account, LastModified::Stays)?;
            Ok(Decision { operations: vec![replace, dropped], answer: entry })
        };
        let Changed { answer, version } = self.decide_on_existing(account, name, decide).await?;
        self.base.finish_drop().await;
        Ok(answer.at(version))
    }

    /// Deletes a resource: its name is free at once, the rows of its table are reclaimed later.
    /// Returns what was stored.
    ///
    /// # Errors
    /// [`ResourceKind::not_found`], what `check` refuses with, or if the store fails.
    pub async fn delete(
        &self,
        account: &AccountName,
        name: &K::Name,
        check: impl Fn(&Entry<K>) -> Result<(), K::Error>,
    ) -> Result<Entry<K>, K::Error> {
        let decide = |entry: Entry<K>| {
            check(&entry)?;
            let unchanged = unchanged_since(entry.version);
            let delete = EntityOperation::Delete(name_row_key::<K>(name), unchanged);
            let operations = vec![delete, self.dropped(account, entry.id)?];
            Ok(Decision { operations, answer: entry })
        };
        let deleted = self.decide_on_existing(account, name, decide).await?;
        self.base.finish_drop().await;
        Ok(deleted.answer)
    }

    async fn decide_on_existing<T>(
        &self,
        account: &AccountName,
        name: &K::Name,
        mut decide: impl FnMut(Entry<K>) -> Result<Decision<T>, K::Error>,
    ) -> Result<Changed<T>, K::Error> {
        self.decide(account, name, |found| decide(found.ok_or_else(K::not_found)?)).await
    }

    async fn decide<T>(
        &self,
        account: &AccountName,
        name: &K::Name,
        mut decide: impl FnMut(Option<Entry<K>>) -> Result<Decision<T>, K::Error>,
    ) -> Result<Changed<T>, K::Error> {
        let key = entry::key::<K>(account, name);
        let begin = || self.remembered.begin_change(account.as_str());
        let on_row = |row: Option<&Row>| {
            decide(row.map(Entry::read).transpose().map_err(ServiceError::from)?)
        };
        self.base.rows.change(&key, begin, on_row).await
    }

    fn dropped(&self, account: &AccountName, id: TableId) -> Result<EntityOperation, ServiceError> {
        Ok(dropped::drop_operation(account, id, self.base.rows.now())?)
    }
}
