//! Changing the rows that the service keeps for itself: all in the partition of one account, and in
//! one loop that begins anew when another process was faster.

use std::sync::Arc;

use tavola_core::{
    DomainError, ETag, EntityAddress, EntityGroupTransaction, EntityKey, EntityOperation,
    EntityView, FailedOperation, NewEntity, Outcome, PartitionKey, Precondition, TableId,
    Timestamp,
};
use tavola_store::{Blocking, CommitResult, Row, Store, StoreError};

use crate::clock::Clock;
use crate::error::ServiceError;

/// A change of a row is repeated so often when others change it meanwhile.
const ATTEMPTS_MAX: usize = 8;

/// The rows of one system table.
#[derive(Debug)]
pub(crate) struct SystemRows {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    table: TableId,
}

/// What a change writes, and what it answers once that is written.
#[derive(Debug)]
pub(crate) struct Decision<T> {
    /// The row's own operation first; none at all if the row can stay as it is.
    pub(crate) operations: Vec<EntityOperation>,
    pub(crate) answer: T,
}

/// What a change came to.
#[derive(Debug)]
pub(crate) struct Changed<T> {
    pub(crate) answer: T,
    /// The new version of the row, if it was written.
    pub(crate) version: Option<Timestamp>,
}

impl SystemRows {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, table: TableId) -> Self {
        Self { store, clock, table }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn get(&self, key: EntityKey) -> Result<Option<Row>, StoreError> {
        self.store.get(&EntityAddress { table: self.table, key }, Blocking::Forbidden).await
    }

    /// Reads a row, writes what `decide` makes of it, and does so again if the row has changed in
    /// between. Every attempt holds what `begin` gives until its outcome is known.
    pub(crate) async fn change<T, E: From<ServiceError>, G: Send + 'static>(
        &self,
        key: &EntityKey,
        begin: impl Fn() -> G,
        mut decide: impl FnMut(Option<&Row>) -> Result<Decision<T>, E>,
    ) -> Result<Changed<T>, E> {
        for _ in 0..ATTEMPTS_MAX {
            let row = self.get(key.clone()).await.map_err(ServiceError::from)?;
            let Decision { operations, answer } = decide(row.as_ref())?;
            if operations.is_empty() {
                return Ok(Changed { answer, version: None });
            }
            let committed = self.commit_detached(begin(), &key.partition_key, operations).await;
            match committed.map_err(ServiceError::from)? {
                Ok(outcomes) => return Ok(Changed { answer, version: first_version(&outcomes) }),
                Err(failed) if is_lost_race(&failed) => {}
                Err(failed) => return Err(ServiceError::Refused(failed.domain_error).into()),
            }
        }
        Err(ServiceError::Store(StoreError::Contended).into())
    }

    /// In a task of its own: a client that goes away must not end the change before its outcome is
    /// known, or what was there before would be remembered as if nothing had happened.
    pub(crate) async fn commit_detached(
        &self,
        under_way: impl Send + 'static,
        partition_key: &PartitionKey,
        operations: Vec<EntityOperation>,
    ) -> Result<CommitResult, StoreError> {
        let transaction = group(partition_key, operations);
        let (store, table, now) = (Arc::clone(&self.store), self.table, self.clock.now());
        let committed = tokio::spawn(async move {
            let _under_way = under_way;
            store.commit(table, &transaction, now).await
        });
        committed.await.unwrap_or(Err(StoreError::UnknownOutcome))
    }

    /// For rows that nobody remembers.
    pub(crate) async fn commit(
        &self,
        partition_key: &PartitionKey,
        operations: Vec<EntityOperation>,
    ) -> Result<CommitResult, StoreError> {
        let transaction = group(partition_key, operations);
        self.store.commit(self.table, &transaction, self.clock.now()).await
    }
}

fn group(partition_key: &PartitionKey, operations: Vec<EntityOperation>) -> EntityGroupTransaction {
    let operations =
        operations.into_iter().map(|operation| (partition_key.clone(), operation)).collect();
    EntityGroupTransaction::new(operations)
        .expect("the service changes different rows of one partition")
}

/// True if the row itself is not what was read before.
fn is_lost_race(failed: &FailedOperation) -> bool {
    use DomainError::{ConditionNotMet, EntityAlreadyExists, EntityNotFound};
    let is_other =
        matches!(failed.domain_error, ConditionNotMet | EntityNotFound | EntityAlreadyExists);
    failed.index == 0 && is_other
}

pub(crate) fn first_version(outcomes: &[Outcome]) -> Option<Timestamp> {
    match outcomes.first() {
        Some(Outcome::Written(version)) => Some(*version),
        Some(Outcome::Deleted) | None => None,
    }
}

/// Writes a row in the place of what was read.
pub(crate) fn write_over(current: Option<&Row>, entity: NewEntity) -> EntityOperation {
    match current {
        Some(row) => EntityOperation::Replace(entity, unchanged_since(row.timestamp())),
        None => EntityOperation::Insert(entity),
    }
}

/// Holds as long as a row has this version.
pub(crate) fn unchanged_since(version: Timestamp) -> Precondition {
    Precondition::Version(ETag::of(version))
}

/// Writes or removes one row of a store that nobody serves.
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
