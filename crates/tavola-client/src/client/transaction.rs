//! Several writes, all or nothing.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tavola_core::limits::TRANSACTION_OPERATIONS_MAX;
use tavola_core::{EntityKey as CoreKey, EntityOperation, PartitionKey};
use tavola_protocol::table::entity_json::encode_entity_body;

use super::table::TableClient;
use crate::call::Call;
use crate::engine::{CallSettings, Operation, Subject, Write};
use crate::entity::{Entity, Stored};
use crate::error::{Error, Outcome, Rule};
use crate::key::{EntityKey, PointKey};
use crate::prepare::{Prepared, delete, guard};
use crate::runtime::BoxFuture;
use crate::unknown::Claim;
use crate::written::{IfMatch, Mode, Written};

/// What an operation takes in a batch beside its body and its keys, generously.
const OPERATION_BYTES: usize = 700;

/// Several writes to entities of one partition, all or nothing. The rules are checked while it is
/// put together, so that the mistake is where the error is.
///
/// ```no_run
/// # async fn f(t: tavola_client::TableClient, a: tavola_client::DynEntity, b: tavola_client::DynEntity)
/// #     -> Result<(), tavola_client::Error> {
/// use tavola_client::Mode;
///
/// let mut transaction = t.transaction("Sales");
/// transaction.insert(&a)?.upsert(&b, Mode::Merge)?;
/// let written = transaction.commit().await?;
/// assert_eq!(written.len(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Transaction<'a> {
    client: &'a TableClient,
    partition: String,
    operations: Vec<Operation>,
    subjects: Vec<(&'static str, CoreKey)>,
    rows: HashSet<String>,
    bytes: usize,
    companions: Vec<Arc<dyn Accompany>>,
}

/// Requests that belong to a transaction without being part of it.
pub(crate) trait Accompany: Send + Sync {
    /// Before the transaction is sent; if it fails, nothing is.
    fn before<'a>(&'a self, settings: &'a CallSettings) -> BoxFuture<'a, Result<(), Error>>;

    /// After it was applied, or may have been.
    fn after(&self) -> BoxFuture<'_, ()>;
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("partition", &self.partition)
            .field("operations", &self.subjects)
            .finish_non_exhaustive()
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(client: &'a TableClient, partition: String) -> Self {
        Self {
            client,
            partition,
            operations: Vec::new(),
            subjects: Vec::new(),
            rows: HashSet::new(),
            bytes: 0,
            companions: Vec::new(),
        }
    }

    pub(crate) fn table(&self) -> &str {
        self.client.name()
    }

    /// The same operations, to be sent with others.
    pub(crate) fn again(&self) -> Self {
        Self {
            client: self.client,
            partition: self.partition.clone(),
            operations: self.operations.clone(),
            subjects: self.subjects.clone(),
            rows: self.rows.clone(),
            bytes: self.bytes,
            companions: self.companions.clone(),
        }
    }

    pub(crate) fn partition(&self) -> &str {
        &self.partition
    }

    #[cfg(feature = "json")]
    pub(crate) fn accompany(&mut self, companion: Arc<dyn Accompany>) {
        self.companions.push(companion);
    }

    /// How many operations it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True if it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Adds an entity; there must be none with its key.
    ///
    /// # Errors
    /// If the entity or the transaction breaks a rule; then nothing is added.
    pub fn insert<E: Entity>(&mut self, entity: &E) -> Result<&mut Self, Error> {
        let prepared = Prepared::new(self.client.engine(), entity, &[])?;
        let key = prepared.key.clone();
        self.add("insert", key, prepared.insert(Claim::Insert))
    }

    /// Writes an entity whether or not there is one with its key.
    ///
    /// # Errors
    /// If the entity or the transaction breaks a rule; then nothing is added.
    pub fn upsert<E: Entity>(&mut self, entity: &E, mode: Mode) -> Result<&mut Self, Error> {
        let prepared = Prepared::new(self.client.engine(), entity, &[])?;
        let key = prepared.key.clone();
        self.add("upsert", key, prepared.upsert(mode))
    }

    /// Writes an entity that is there already, in any version or in this one.
    ///
    /// # Errors
    /// If the entity or the transaction breaks a rule; then nothing is added.
    pub fn update<E: Entity>(
        &mut self,
        entity: &E,
        mode: Mode,
        if_match: &IfMatch,
    ) -> Result<&mut Self, Error> {
        let prepared = Prepared::new(self.client.engine(), entity, &[])?;
        let key = prepared.key.clone();
        let operation = prepared.update(mode, if_match)?;
        self.add("update", key, operation)
    }

    /// Writes an entity back, if nobody changed it since it was read.
    ///
    /// # Errors
    /// If the entity or the transaction breaks a rule; then nothing is added.
    pub fn replace<E: Entity>(&mut self, stored: &Stored<E>) -> Result<&mut Self, Error> {
        let prepared = Prepared::new(self.client.engine(), &**stored, stored.rest())?;
        let key = prepared.key.clone();
        let if_match = IfMatch::Version(stored.etag().clone());
        let operation = prepared.update(Mode::Replace, &if_match)?;
        self.add("replace", key, operation)
    }

    /// Deletes an entity, if nobody changed it since it was read.
    ///
    /// # Errors
    /// If the transaction breaks a rule; then nothing is added.
    pub fn delete<E: Entity>(&mut self, stored: &Stored<E>) -> Result<&mut Self, Error> {
        let key = stored.key().as_core().clone();
        let operation = delete(&key, &IfMatch::Version(stored.etag().clone()))?;
        self.add("delete", key, operation)
    }

    /// Deletes the entity with this key, in any version or in this one.
    ///
    /// # Errors
    /// If the transaction breaks a rule; then nothing is added.
    pub fn delete_at<E: Entity>(
        &mut self,
        key: impl Into<PointKey<E>>,
        if_match: &IfMatch,
    ) -> Result<&mut Self, Error> {
        let key = key.into().into_key()?.as_core().clone();
        let operation = delete(&key, if_match)?;
        self.add("delete", key, operation)
    }

    /// Deletes the row with this RowKey, in any version.
    ///
    /// # Errors
    /// If the transaction breaks a rule; then nothing is added.
    pub fn delete_row(&mut self, row: impl Into<String>) -> Result<&mut Self, Error> {
        let key = EntityKey::new(self.partition.clone(), row)?.as_core().clone();
        let operation = delete(&key, &IfMatch::Any)?;
        self.add("delete", key, operation)
    }

    /// Lets the transaction fail if somebody changed this entity since it was read. It gets a new
    /// version and keeps its content.
    ///
    /// # Errors
    /// If the transaction breaks a rule; then nothing is added.
    pub fn guard<E: Entity>(&mut self, stored: &Stored<E>) -> Result<&mut Self, Error> {
        let key = stored.key().as_core().clone();
        let operation = guard(&key, stored.etag())?;
        self.add("guard", key, operation)
    }

    pub(crate) fn add(
        &mut self,
        name: &'static str,
        key: CoreKey,
        operation: Operation,
    ) -> Result<&mut Self, Error> {
        let bytes = self.room_for(&key, &operation)?;
        self.push(name, key, operation, bytes);
        Ok(self)
    }

    /// The keys of its operations, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &CoreKey> {
        self.subjects.iter().map(|(_, key)| key)
    }

    /// How many bytes the transaction would have with this operation.
    ///
    /// # Errors
    /// If it cannot be added.
    pub(crate) fn room_for(&self, key: &CoreKey, operation: &Operation) -> Result<usize, Error> {
        if key.partition_key.as_str() != self.partition {
            let text = format!(
                "the entity is of the partition '{}', the transaction of '{}'; a transaction has one",
                key.partition_key.as_str(),
                self.partition
            );
            return Err(Error::invalid(Rule::Transaction, text));
        }
        let row = key.row_key.as_str();
        if self.rows.contains(row) {
            let text =
                format!("the row '{row}' is in the transaction already; each is once at most");
            return Err(Error::invalid(Rule::Transaction, text));
        }
        let limit = TRANSACTION_OPERATIONS_MAX;
        if self.operations.len() == limit {
            let text = format!("a transaction has at most {limit} operations");
            return Err(Error::beyond(Rule::Transaction, limit, limit + 1, text));
        }
        let policy = &self.client.engine().options.encryption;
        let extra = policy.extra_bytes(&self.partition, operation);
        let bytes = self.bytes + operation_bytes(key, operation) + extra;
        let limit = self.client.engine().traits.flavour.transaction_bytes_max();
        if bytes > limit {
            let text = format!("the transaction has {bytes} bytes; it may have {limit}");
            return Err(Error::beyond(Rule::Transaction, limit, bytes, text));
        }
        Ok(bytes)
    }

    /// Adds an operation that there is room for.
    pub(crate) fn push(
        &mut self,
        name: &'static str,
        key: CoreKey,
        operation: Operation,
        bytes: usize,
    ) {
        self.bytes = bytes;
        self.rows.insert(key.row_key.as_str().to_owned());
        self.operations.push(operation);
        self.subjects.push((name, key));
    }

    /// Sends it: all operations, or none. One [`Written`] for each, in their order.
    pub fn commit(self) -> Call<'a, Vec<Written>> {
        Call::new(self.client.engine().settings(), move |settings| self.send(settings))
    }

    pub(crate) async fn send(self, settings: CallSettings) -> Result<Vec<Written>, Error> {
        let Self { client, partition, operations, subjects, companions, .. } = self;
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        for companion in &companions {
            companion.before(&settings).await?;
        }
        let table = client.table()?;
        let subject = Subject {
            partition: Some(partition.clone()),
            operations: subjects,
            ..Subject::new("transaction", Some(&table))
        };
        let invalid = |_| Error::invalid(Rule::KeyCharacter, "the PartitionKey is not legal");
        let partition_key = PartitionKey::new(partition).map_err(invalid)?;
        let write = Write::Entities { table, partition_key, operations, is_transaction: true };
        let written = client.engine().write(&subject, &write, &settings).await.map(Written::all);
        if written.as_ref().err().is_none_or(|error| error.outcome() == Outcome::Unknown) {
            for companion in &companions {
                companion.after().await;
            }
        }
        written
    }
}

fn operation_bytes(key: &CoreKey, one: &Operation) -> usize {
    let body = match &one.operation {
        EntityOperation::Insert(new)
        | EntityOperation::Replace(new, _)
        | EntityOperation::Merge(new, _) => encode_entity_body(key, new.properties()).len(),
        EntityOperation::Delete(..) => 0,
    };
    // A character of a key is up to nine in a URL.
    let keys = 9 * (key.partition_key.as_str().len() + key.row_key.as_str().len());
    OPERATION_BYTES + keys + body
}
