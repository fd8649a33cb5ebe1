//! The catalogue: which tables an account has, their ids and their access policies.
//!
//! One partition per account in a system table. Two kinds of rows share it, so that dropping a
//! table is one transaction: `t:{name}` is a living table under its folded name, `d:{id}` a dropped
//! one whose rows are still to be reclaimed.

use std::sync::Arc;
use std::time::Duration;

use tavola_core::transaction::Outcome;
use tavola_core::{
    AccessPolicy, AccountName, DomainError, ETag, EdmValue, EntityAddress, EntityGroupTransaction,
    EntityKey, EntityOperation, EntityView, Precondition, RowKey, TableId, TableName, Timestamp,
};
use tavola_store::{Blocking, LeasedCache, Row, Store, StoreError};
use tokio::sync::Mutex;

use crate::clock::Clock;
use crate::error::ServiceError;
use crate::record::{Record, date_time, int64, partition_key, require, row_key, text, unread};

/// Where living tables stand in an account's partition; what follows is the folded name.
pub(crate) const TABLE_PREFIX: &str = "t:";
/// Just behind every living table.
pub(crate) const TABLE_PREFIX_END: &str = "t;";
/// Where dropped tables stand; what follows is the id.
pub(crate) const DROPPED_PREFIX: &str = "d:";

/// Ids are taken from the store in blocks, so that creating a table costs one commit. Ids of a
/// block that is not used up when the process ends are never given out.
const IDS_PER_BLOCK: u64 = 1024;
/// A change of a table's row is repeated so often when others change it meanwhile.
const ATTEMPTS_MAX: usize = 8;
const COUNTER_PROPERTY: &str = "Next";
/// Tables that are remembered: far more than are in use at a time.
const TABLES_MAX: usize = 10_000;

/// A living table.
#[derive(Debug, Clone)]
pub struct TableEntry {
    /// In the case in which it was created.
    pub name: TableName,
    /// Its incarnation.
    pub id: TableId,
    /// Its access policies.
    pub policies: Vec<AccessPolicy>,
    pub(crate) version: Timestamp,
}

/// The tables of all accounts.
#[derive(Debug)]
pub struct Catalog {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Ids reserved and not given out yet.
    free_ids: Mutex<std::ops::Range<u64>>,
    remembered: Arc<LeasedCache<TableEntry>>,
}

impl Catalog {
    /// The catalogue kept in `store`; tables are remembered for `lease`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, lease: Duration) -> Self {
        Self {
            store,
            clock,
            free_ids: Mutex::new(0..0),
            remembered: Arc::new(LeasedCache::new(TABLES_MAX, lease)),
        }
    }

    /// The table of that name, in whatever case, as a request on its entities needs it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<Option<Arc<TableEntry>>, StoreError> {
        let folded = name.folded();
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

    /// The same as the store has it now, for whoever is going to change it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn read(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<Option<TableEntry>, StoreError> {
        let row =
            self.store.get(&address(account, table_row_key(name)), Blocking::Forbidden).await?;
        row.as_ref().map(read_table).transpose()
    }

    /// Creates a table.
    ///
    /// # Errors
    /// [`DomainError::TableAlreadyExists`], or if the store fails.
    pub async fn create(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(), ServiceError> {
        let id = self.next_id().await?;
        let key = EntityKey::new(partition_key(account), table_row_key(name));
        let entity = table_record(name, id, &[]).into_entity(key)?;
        match self.commit(account, vec![EntityOperation::Insert(entity)]).await? {
            Err(DomainError::EntityAlreadyExists) => Err(DomainError::TableAlreadyExists.into()),
            done => Ok(done.map(drop)?),
        }
    }

    /// Drops a table: its name is free at once, its rows are reclaimed later.
    ///
    /// # Errors
    /// [`DomainError::ResourceNotFound`], or if the store fails.
    pub async fn drop_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<TableId, ServiceError> {
        for _ in 0..ATTEMPTS_MAX {
            let entry = self.read(account, name).await?.ok_or(DomainError::ResourceNotFound)?;
            let operations = vec![
                EntityOperation::Delete(
                    table_row_key(name),
                    Precondition::Version(ETag::of(entry.version)),
                ),
                self.dropped(account, entry.id)?,
            ];
            match self.commit(account, operations).await? {
                Ok(_) => return Ok(entry.id),
                Err(DomainError::EntityNotFound) => {
                    return Err(DomainError::ResourceNotFound.into());
                }
                Err(DomainError::ConditionNotMet) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(StoreError::Contended.into())
    }

    fn dropped(&self, account: &AccountName, id: TableId) -> Result<EntityOperation, DomainError> {
        let mut record = Record::default();
        record.set("Id", EdmValue::Int64(id.number() as i64));
        record.set("DroppedAt", EdmValue::DateTime(self.clock.now().date_time()));
        let key = EntityKey::new(partition_key(account), dropped_row_key(id));
        Ok(EntityOperation::Insert(record.into_entity(key)?))
    }

    /// Replaces the access policies of a table.
    ///
    /// # Errors
    /// [`DomainError::ResourceNotFound`], or if the store fails.
    pub async fn set_policies(
        &self,
        account: &AccountName,
        name: &TableName,
        policies: &[AccessPolicy],
    ) -> Result<(), ServiceError> {
        for _ in 0..ATTEMPTS_MAX {
            let entry = self.read(account, name).await?.ok_or(DomainError::ResourceNotFound)?;
            let key = EntityKey::new(partition_key(account), table_row_key(name));
            let entity = table_record(&entry.name, entry.id, policies).into_entity(key)?;
            let unchanged = Precondition::Version(ETag::of(entry.version));
            match self.commit(account, vec![EntityOperation::Replace(entity, unchanged)]).await? {
                Ok(_) => return Ok(()),
                Err(DomainError::EntityNotFound) => {
                    return Err(DomainError::ResourceNotFound.into());
                }
                Err(DomainError::ConditionNotMet) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(StoreError::Contended.into())
    }

    /// Forgets dropped tables whose rows are gone, as many as one transaction takes.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn forget(
        &self,
        account: &AccountName,
        ids: &[TableId],
    ) -> Result<(), ServiceError> {
        let delete =
            |id: &TableId| EntityOperation::Delete(dropped_row_key(*id), Precondition::Exists);
        if ids.is_empty() {
            return Ok(());
        }
        match self.commit(account, ids.iter().map(delete).collect()).await? {
            // Another process was faster with one of them: then each on its own.
            Err(DomainError::EntityNotFound) if ids.len() > 1 => {}
            Ok(_) | Err(DomainError::EntityNotFound) => return Ok(()),
            Err(other) => return Err(other.into()),
        }
        for id in ids {
            match self.commit(account, vec![delete(id)]).await? {
                Ok(_) | Err(DomainError::EntityNotFound) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    async fn commit(
        &self,
        account: &AccountName,
        operations: Vec<EntityOperation>,
    ) -> Result<Result<Vec<Outcome>, DomainError>, StoreError> {
        let partition_key = partition_key(account);
        let operations =
            operations.into_iter().map(|operation| (partition_key.clone(), operation)).collect();
        let transaction = EntityGroupTransaction::new(operations)
            .expect("the catalogue changes different rows of one partition");
        let (store, now) = (Arc::clone(&self.store), self.clock.now());
        let change = self.remembered.begin_change(account.as_str());
        // In a task of its own: a client that goes away must not end the change before its outcome
        // is known.
        let committed = tokio::spawn(async move {
            let _under_way = change;
            store.commit(TableId::CATALOG, &transaction, now).await
        });
        let verdict = committed.await.unwrap_or(Err(StoreError::UnknownOutcome))?;
        Ok(verdict.map_err(|failed| failed.domain_error))
    }

    async fn next_id(&self) -> Result<TableId, ServiceError> {
        let mut free = self.free_ids.lock().await;
        if free.is_empty() {
            *free = self.reserve_ids().await?;
        }
        let number = free.start;
        free.start += 1;
        Ok(TableId::new(number))
    }

    /// Takes the next block from the store's counter. Any number of processes may do so at once:
    /// only one of them can change the counter from the version that it read.
    async fn reserve_ids(&self) -> Result<std::ops::Range<u64>, ServiceError> {
        let key = counter_key();
        let address = EntityAddress { table: TableId::SEQUENCES, key: key.clone() };
        for _ in 0..ATTEMPTS_MAX {
            let (start, unchanged) = match self.store.get(&address, Blocking::Forbidden).await? {
                Some(row) => (read_counter(&row)?, Some(ETag::of(row.timestamp()))),
                None => (TableId::FIRST_USER, None),
            };
            let entity = counter_record(start + IDS_PER_BLOCK).into_entity(key.clone())?;
            let operation = match unchanged {
                Some(version) => EntityOperation::Replace(entity, Precondition::Version(version)),
                None => EntityOperation::Insert(entity),
            };
            let transaction = EntityGroupTransaction::single(key.partition_key.clone(), operation);
            if self.store.commit(TableId::SEQUENCES, &transaction, self.clock.now()).await?.is_ok()
            {
                return Ok(start..start + IDS_PER_BLOCK);
            }
        }
        Err(StoreError::Contended.into())
    }
}

/// Lets ids go on at `next`, whatever was there.
pub(crate) async fn set_counter(
    store: &dyn Store,
    next: u64,
    now: Timestamp,
) -> Result<(), ServiceError> {
    let key = counter_key();
    let entity = counter_record(next).into_entity(key.clone())?;
    put(store, TableId::SEQUENCES, EntityOperation::Replace(entity, Precondition::None), key, now)
        .await
}

/// Adds a table whose rows are there already.
pub(crate) async fn add_table(
    store: &dyn Store,
    account: &AccountName,
    name: &TableName,
    id: TableId,
    now: Timestamp,
) -> Result<(), ServiceError> {
    let key = EntityKey::new(partition_key(account), table_row_key(name));
    let entity = table_record(name, id, &[]).into_entity(key.clone())?;
    put(store, TableId::CATALOG, EntityOperation::Insert(entity), key, now).await
}

pub(crate) async fn put(
    store: &dyn Store,
    table: TableId,
    operation: EntityOperation,
    key: EntityKey,
    now: Timestamp,
) -> Result<(), ServiceError> {
    let transaction = EntityGroupTransaction::single(key.partition_key, operation);
    match store.commit(table, &transaction, now).await? {
        Ok(_) => Ok(()),
        Err(failed) => Err(failed.domain_error.into()),
    }
}

fn counter_record(next: u64) -> Record {
    let mut record = Record::default();
    record.set(COUNTER_PROPERTY, EdmValue::Int64(next as i64));
    record
}

fn counter_key() -> EntityKey {
    let partition = tavola_core::PartitionKey::new("table").expect("a legal key");
    EntityKey::new(partition, row_key("id"))
}

fn address(account: &AccountName, row_key: RowKey) -> EntityAddress {
    EntityAddress { table: TableId::CATALOG, key: EntityKey::new(partition_key(account), row_key) }
}

fn table_row_key(name: &TableName) -> RowKey {
    row_key(format!("{TABLE_PREFIX}{}", name.folded()))
}

pub(crate) fn dropped_row_key(id: TableId) -> RowKey {
    row_key(format!("{DROPPED_PREFIX}{:016x}", id.number()))
}

fn table_record(name: &TableName, id: TableId, policies: &[AccessPolicy]) -> Record {
    let mut record = Record::default();
    record.set_text("Name", name.as_str()).set("Id", EdmValue::Int64(id.number() as i64));
    for (index, policy) in policies.iter().enumerate() {
        record.set_text(&format!("Policy{index}"), &policy.id);
        if let Some(start) = policy.start {
            record.set(&format!("Policy{index}Start"), EdmValue::DateTime(start));
        }
        if let Some(expiry) = policy.expiry {
            record.set(&format!("Policy{index}Expiry"), EdmValue::DateTime(expiry));
        }
        if let Some(permission) = &policy.permission {
            record.set_text(&format!("Policy{index}Permission"), permission);
        }
    }
    record
}

/// Reads a living table's row.
pub(crate) fn read_table(row: &Row) -> Result<TableEntry, StoreError> {
    let name =
        require(row, "Name", |value| text(value).and_then(|name| TableName::parse(name).ok()))?;
    let id = TableId::new(require(row, "Id", int64)? as u64);
    let policies = (0..).map_while(|index| read_policy(row, index)).collect();
    Ok(TableEntry { name, id, policies, version: row.timestamp() })
}

/// The first table id that was never given out.
pub(crate) fn read_counter(row: &Row) -> Result<u64, StoreError> {
    Ok(require(row, COUNTER_PROPERTY, int64)? as u64)
}

/// Names of properties that no policy of the entry explains: reading is lenient, an audit is not.
pub(crate) fn unread_policies(row: &Row, entry: &TableEntry) -> Vec<String> {
    let written = table_record(&entry.name, entry.id, &entry.policies);
    unread(row, &written)
}

fn read_policy(row: &dyn EntityView, index: usize) -> Option<AccessPolicy> {
    let id = row.property(&format!("Policy{index}")).and_then(text)?.to_owned();
    let at = |field: &str| row.property(&format!("Policy{index}{field}")).and_then(date_time);
    let permission =
        row.property(&format!("Policy{index}Permission")).and_then(text).map(str::to_owned);
    Some(AccessPolicy { id, start: at("Start"), expiry: at("Expiry"), permission })
}

/// A dropped table's row. When it was dropped is for people: the time of day may have been set
/// since.
pub(crate) fn read_dropped(row: &Row) -> Result<TableId, StoreError> {
    require(row, "Id", int64).map(|id| TableId::new(id as u64))
}
