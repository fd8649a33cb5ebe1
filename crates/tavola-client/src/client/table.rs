//! One table.

use std::fmt;

use futures_util::StreamExt as _;
use tavola_core::request::Select;
use tavola_core::{EntityKey as CoreKey, TableName, TableRequest};
use tavola_protocol::table::decode::Decoded;

use super::service::{TableServiceClient, table_name};
use super::settings::{AccessPolicy, policy_from_core, policy_to_core};
use super::transaction::Transaction;
use crate::call::Call;
use crate::engine::{CallSettings, Engine, Finished, Operation, Subject, Write};
use crate::entity::{Entity, Stored};
use crate::error::{Error, Outcome};
use crate::key::PointKey;
use crate::options::Options;
use crate::prepare::{Prepared, decode, delete};
use crate::unknown::Claim;
use crate::written::{Created, IfMatch, Mode, Written};

/// How often `create_if_missing` begins anew when the entity that it found is gone.
const CREATE_ATTEMPTS_MAX: u32 = 5;

/// One table. Clones are cheap.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let mut ann = DynEntity::new("Smith", "1");
/// ann.set("Age", 42);
/// table.insert(&ann).await?;
/// let mut stored = table.get::<DynEntity>(("Smith", "1")).await?.expect("it was inserted");
/// stored.set("Age", 43);
/// table.replace(&mut stored).await?;
/// table.delete(&stored).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TableClient {
    pub(crate) service: TableServiceClient,
    pub(crate) name: String,
}

impl fmt::Debug for TableClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableClient")
            .field("service", &self.service.engine.traits)
            .field("table", &self.name)
            .finish()
    }
}

impl TableClient {
    pub(crate) fn new(service: TableServiceClient, name: String) -> Self {
        Self { service, name }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.service.engine
    }

    pub(crate) fn table(&self) -> Result<TableName, Error> {
        table_name(&self.name)
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A handle of the same table whose calls behave as `over` says. It shares connections, budgets
    /// and pauses with this one.
    #[must_use]
    pub fn with_options(&self, over: Options) -> Self {
        Self { service: self.service.with_options(over), name: self.name.clone() }
    }

    /// The service that the table is of.
    #[must_use]
    pub fn service(&self) -> &TableServiceClient {
        &self.service
    }

    /// Creates the table.
    pub fn create(&self) -> Call<'_, ()> {
        self.service.create_table(&self.name)
    }

    /// Creates the table unless there is one. True if this call created it.
    pub fn create_table_if_missing(&self) -> Call<'_, bool> {
        self.service.create_table_if_missing(&self.name)
    }

    /// Deletes the table with all its entities.
    pub fn delete_table(&self) -> Call<'_, ()> {
        self.service.delete_table(&self.name)
    }

    /// Deletes the table if there is one. True if this call deleted it.
    pub fn delete_table_if_exists(&self) -> Call<'_, bool> {
        self.service.delete_table_if_exists(&self.name)
    }

    /// The access policies of the table.
    pub fn policies(&self) -> Call<'_, Vec<AccessPolicy>> {
        Call::new(self.engine().settings(), move |settings| async move {
            let table = self.table()?;
            let subject = Subject::new("get policies", Some(&table));
            let request = TableRequest::GetPolicies(table.clone());
            match self.engine().read(&subject, request, Select::All, None, &settings).await? {
                Decoded::Policies(policies) => {
                    Ok(policies.into_iter().map(policy_from_core).collect())
                }
                _ => Ok(Vec::new()),
            }
        })
    }

    /// Replaces the access policies of the table; at most five.
    pub fn set_policies(&self, policies: &[AccessPolicy]) -> Call<'_, ()> {
        let policies = policies.iter().map(policy_to_core).collect();
        Call::new(self.engine().settings(), move |settings| async move {
            let table = self.table()?;
            let subject = Subject::new("set policies", Some(&table));
            let request = TableRequest::SetPolicies(table.clone(), policies);
            let write = Write::Other(request, Claim::Settings);
            self.engine().write(&subject, &write, &settings).await.map(drop)
        })
    }

    /// One entity, with the version in which it was read; `None` if there is none.
    pub fn get<E: Entity>(&self, key: impl Into<PointKey<E>>) -> Call<'_, Option<Stored<E>>> {
        let key = key.into().into_key();
        Call::new(self.engine().settings(), move |settings| async move {
            let (table, key) = (self.table()?, key?);
            let found = self.engine().get(&table, key.as_core(), &settings).await?;
            found.map(|found| decode(found, &settings.encryption)).transpose()
        })
    }

    /// Many entities by their keys, `parallel` at a time, in the order of the keys.
    pub fn get_many<E: Entity, K: Into<PointKey<E>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        parallel: usize,
    ) -> Call<'_, Vec<Option<Stored<E>>>> {
        let keys: Vec<_> = keys.into_iter().map(|key| key.into().into_key()).collect();
        Call::new(self.engine().settings(), move |settings: CallSettings| async move {
            let table = self.table()?;
            let (table, settings) = (&table, &settings);
            let reads = keys.into_iter().map(|key| async move {
                let found = self.engine().get(table, key?.as_core(), settings).await?;
                found.map(|found| decode(found, &settings.encryption)).transpose()
            });
            let mut reads = futures_util::stream::iter(reads).buffered(parallel.max(1));
            let mut all = Vec::new();
            while let Some(found) = reads.next().await {
                all.push(found?);
            }
            Ok(all)
        })
    }

    /// Adds an entity; there must be none with its key.
    pub fn insert<E: Entity>(&self, entity: &E) -> Call<'_, Written> {
        let prepared = Prepared::new(self.engine(), entity, &[]);
        self.write_one("insert", prepared, |prepared, settings| {
            let claim = if settings.claims { Claim::InsertOnce } else { Claim::Insert };
            Ok(prepared.insert(claim))
        })
    }

    /// Writes an entity whether or not there is one with its key.
    pub fn upsert<E: Entity>(&self, entity: &E, mode: Mode) -> Call<'_, Written> {
        let prepared = Prepared::new(self.engine(), entity, &[]);
        self.write_one("upsert", prepared, move |prepared, _| Ok(prepared.upsert(mode)))
    }

    /// Writes an entity that is there already, in any version or in this one.
    pub fn update<E: Entity>(
        &self,
        entity: &E,
        mode: Mode,
        if_match: IfMatch,
    ) -> Call<'_, Written> {
        let prepared = Prepared::new(self.engine(), entity, &[]);
        self.write_one("update", prepared, move |prepared, _| prepared.update(mode, &if_match))
    }

    /// Writes an entity back, if nobody changed it since it was read. Properties that its type does
    /// not know stay; the new version is left in `stored`.
    pub fn replace<'a, E: Entity>(&'a self, stored: &'a mut Stored<E>) -> Call<'a, Written> {
        let prepared = Prepared::new(self.engine(), &**stored, stored.rest());
        let if_match = IfMatch::Version(stored.etag().clone());
        Call::new(self.engine().settings(), move |settings| async move {
            let prepared = prepared?;
            let key = prepared.key.clone();
            let operation = prepared.update(Mode::Replace, &if_match)?;
            let written = Written::one(self.send_one("replace", key, operation, &settings).await?);
            stored.set_written(&written);
            Ok(written)
        })
    }

    /// Deletes an entity, if nobody changed it since it was read.
    pub fn delete<E: Entity>(&self, stored: &Stored<E>) -> Call<'_, Written> {
        let key = Ok(stored.key().as_core().clone());
        self.delete_one(key, IfMatch::Version(stored.etag().clone()))
    }

    /// Deletes the entity with this key, in any version or in this one.
    pub fn delete_at<E: Entity>(
        &self,
        key: impl Into<PointKey<E>>,
        if_match: IfMatch,
    ) -> Call<'_, Written> {
        let key = key.into().into_key().map(|key| key.as_core().clone());
        self.delete_one(key, if_match)
    }

    fn delete_one(&self, key: Result<CoreKey, Error>, if_match: IfMatch) -> Call<'_, Written> {
        Call::new(self.engine().settings(), move |settings| async move {
            let key = key?;
            let operation = delete(&key, &if_match)?;
            self.send_one("delete", key, operation, &settings).await.map(Written::one)
        })
    }

    /// Deletes the entity with this key if there is one. True if it was there.
    pub fn delete_if_exists<E: Entity>(&self, key: impl Into<PointKey<E>>) -> Call<'_, bool> {
        let key = key.into().into_key().map(|key| key.as_core().clone());
        Call::new(self.engine().settings(), move |settings| async move {
            let key = key?;
            let operation = delete(&key, &IfMatch::Any)?;
            match self.send_one("delete", key, operation, &settings).await {
                Ok(_) => Ok(true),
                Err(error) if error.code() == Some("ResourceNotFound") => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Adds an entity unless there is one with its key.
    pub fn create_if_missing<'a, E: Entity>(
        &'a self,
        entity: &'a E,
    ) -> Call<'a, Created<Stored<E>>> {
        Call::new(self.engine().settings(), move |settings| async move {
            let mut attempt = 0;
            loop {
                attempt += 1;
                let prepared = Prepared::new(self.engine(), entity, &[])?;
                let key = prepared.key.clone();
                let operation = prepared.insert(Claim::InsertIfMissing);
                let table = self.table()?;
                let finished = self.send_one("create", key.clone(), operation, &settings).await?;
                if !finished.is_existing {
                    return Ok(Created::New(Written::one(finished)));
                }
                if let Some(found) = self.engine().get(&table, &key, &settings).await? {
                    return Ok(Created::Existing(decode(found, &settings.encryption)?));
                }
                if attempt == CREATE_ATTEMPTS_MAX {
                    let kind = crate::error::ErrorKind::Modify { attempts: attempt };
                    let text = "others created and deleted the entity again and again";
                    return Err(Error::new(kind, Outcome::NotApplied, text));
                }
            }
        })
    }

    /// Several writes to entities of one partition, all or nothing.
    #[must_use]
    pub fn transaction(&self, partition: impl Into<String>) -> Transaction<'_> {
        Transaction::new(self, partition.into())
    }

    fn write_one(
        &self,
        name: &'static str,
        prepared: Result<Prepared, Error>,
        operation: impl FnOnce(Prepared, &CallSettings) -> Result<Operation, Error> + Send + 'static,
    ) -> Call<'_, Written> {
        Call::new(self.engine().settings(), move |settings| async move {
            let prepared = prepared?;
            let key = prepared.key.clone();
            let operation = operation(prepared, &settings)?;
            self.send_one(name, key, operation, &settings).await.map(Written::one)
        })
    }

    pub(crate) async fn send_one(
        &self,
        name: &'static str,
        key: CoreKey,
        operation: Operation,
        settings: &CallSettings,
    ) -> Result<Finished, Error> {
        let table = self.table()?;
        let subject = Subject::entity(name, &table, &key);
        let write = Write::Entities {
            table,
            partition_key: key.partition_key,
            operations: vec![operation],
            is_transaction: false,
        };
        self.engine().write(&subject, &write, settings).await
    }
}
