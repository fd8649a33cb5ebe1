//! The Table service: one method, one match, one small function per request.

use std::sync::Arc;
use std::time::Duration;

use tavola_core::filter::plan::{AccessClass, Plan, plan};
use tavola_core::properties::ServicePropertiesChange;
use tavola_core::reply::{Cost, OperationReply};
use tavola_core::request::{Continuation, EntityQuery, TablesQuery};
use tavola_core::{
    AccessPolicy, AccountName, DomainError, Entity, EntityAddress, EntityGroupTransaction,
    EntityKey, EntityOperation, EntityView, Grant, Outcome, ServiceKind, ServiceProperties,
    TableId, TableName, TableReply, TableRequest, Timestamp,
};
use tavola_fair::KeyBudget;
use tavola_store::{Blocking, Row, StopToken, Store, StoreError};

use crate::catalog::{Catalog, CatalogBase, Entry, LastModified, Tables};
use crate::clock::Clock;
use crate::error::ServiceError;
use crate::planned::PlannedRequest;
use crate::properties::PropertiesStore;
use crate::query::{ReadContext, page_rows, read_page};
use crate::reclaim::{REQUEST_TIME_MAX, Reclaimer};
use crate::tables_query;

/// A reply and what it cost.
#[derive(Debug)]
pub struct Answer {
    /// What to tell the client.
    pub reply: TableReply,
    /// What to tell the operator.
    pub cost: Cost,
}

impl Answer {
    fn free(reply: TableReply) -> Self {
        Self { reply, cost: Cost::default() }
    }
}

/// The Table service of all accounts, on one store.
#[derive(Debug)]
pub struct TableService {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    base: Arc<CatalogBase>,
    catalog: Catalog<Tables>,
    properties: PropertiesStore,
    request_time_max: Duration,
}

impl TableService {
    /// A service on `store`, which nobody else serves.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::on(CatalogBase::new(store, clock))
    }

    /// A service on `store` that other processes serve too. What they change is seen after `lease`
    /// at the latest, which must be the same for all of them.
    #[must_use]
    pub fn shared(store: Arc<dyn Store>, clock: Arc<dyn Clock>, lease: Duration) -> Self {
        Self::on(CatalogBase::shared(store, clock, lease))
    }

    /// A service beside others of the same accounts.
    #[must_use]
    pub fn on(base: Arc<CatalogBase>) -> Self {
        let (store, clock) = (Arc::clone(&base.store), Arc::clone(&base.clock));
        let properties = PropertiesStore::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            base.lease,
            ServiceKind::Table,
        );
        Self {
            store,
            catalog: Catalog::new(Arc::clone(&base)),
            base,
            properties,
            clock,
            request_time_max: REQUEST_TIME_MAX,
        }
    }

    /// The same where a request may take so long: the space of a dropped table is given back only
    /// when no request can write to it any more.
    #[must_use]
    pub fn with_request_time_max(self, request_time_max: Duration) -> Self {
        Self { request_time_max, ..self }
    }

    /// The background work that gives the space of dropped tables back, also of those of other
    /// services on the same base; somebody must run it.
    #[must_use]
    pub fn reclaimer(&self) -> Reclaimer {
        Reclaimer::new(Arc::clone(&self.base), self.request_time_max)
    }

    /// The current properties of an account's Table service.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn properties(
        &self,
        account: &AccountName,
    ) -> Result<Arc<ServiceProperties>, StoreError> {
        self.properties.get(account).await
    }

    /// The access policies of a table; none if there is no such table, which must not be told to
    /// strangers.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn policies(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> Result<Vec<AccessPolicy>, StoreError> {
        Ok(self
            .catalog
            .find(account, table)
            .await?
            .map(|entry| entry.policies.clone())
            .unwrap_or_default())
    }

    /// Carries out one request that the grant permits. A query is cut to the grant's keys.
    ///
    /// # Errors
    /// The domain's refusal, or the store's trouble.
    pub async fn execute(
        &self,
        grant: &Grant,
        request: TableRequest,
    ) -> Result<Answer, ServiceError> {
        self.execute_within(grant, KeyBudget::UNBOUNDED, request, &StopToken::default()).await
    }

    /// The same, as long as no partition is asked for more entities than `budget` allows. A point
    /// request counts one, a transaction its operations, whether or not they succeed; a query of one
    /// partition counts what it returned and one at least. A query of several partitions is not
    /// held up, because where it will read is not known before; what it returned counts in each of
    /// them that is not over its budget already.
    ///
    /// A query ends soon after `context.stop` is due, also within the store. Other requests are bounded by
    /// what they name.
    ///
    /// # Errors
    /// [`ServiceError::PartitionOverBudget`] before any entity is read or written,
    /// [`ServiceError::Stopped`], and those of [`Self::execute`].
    pub async fn execute_within(
        &self,
        grant: &Grant,
        budget: KeyBudget<'_>,
        request: impl Into<PlannedRequest>,
        context: impl Into<ReadContext<'_>>,
    ) -> Result<Answer, ServiceError> {
        let (account, context) = (grant.account(), context.into());
        let (request, plan) = request.into().into_parts();
        match request {
            TableRequest::CreateTable(name) => self.create_table(account, name).await,
            TableRequest::QueryTables(query) => self.query_tables(account, &query, context).await,
            TableRequest::GetTable(name) => self.get_table(account, &name).await,
            TableRequest::DeleteTable(name) => self.delete_table(account, &name).await,
            TableRequest::GetPolicies(name) => self.get_policies(account, &name).await,
            TableRequest::SetPolicies(name, policies) => {
                self.set_policies(account, &name, &policies).await
            }
            TableRequest::GetEntity(table, key) => {
                self.get_entity(account, budget, &table, key).await
            }
            TableRequest::QueryEntities(table, query) => {
                let plan = plan.expect("every query of entities is planned");
                self.query_entities(grant, budget, &table, &query, plan, context).await
            }
            TableRequest::Write(table, partition_key, operation) => {
                let transaction = EntityGroupTransaction::single(partition_key, operation);
                self.write(account, budget, &table, transaction).await
            }
            TableRequest::Transaction(table, transaction) => {
                self.transact(account, budget, &table, transaction).await
            }
            TableRequest::GetServiceProperties => self.get_properties(account).await,
            TableRequest::SetServiceProperties(change) => {
                self.set_properties(account, &change).await
            }
            TableRequest::GetServiceStats => {
                Ok(Answer::free(TableReply::ServiceStats(self.clock.now().date_time())))
            }
            TableRequest::GetMetadata => self.get_metadata(account, context).await,
            TableRequest::Misaddressed(table, what) => {
                self.open(account, &table).await.and_then(|_| Err(what.domain_error().into()))
            }
        }
    }

    async fn create_table(
        &self,
        account: &AccountName,
        name: TableName,
    ) -> Result<Answer, ServiceError> {
        self.catalog.create(account, &name, ()).await?;
        Ok(Answer::free(TableReply::TableCreated(name)))
    }

    async fn query_tables(
        &self,
        account: &AccountName,
        query: &TablesQuery,
        context: ReadContext<'_>,
    ) -> Result<Answer, ServiceError> {
        let plan = plan(Some(&tables_query::over_catalog(account, query.filter.as_ref())));
        let (from, rows_max) = (query.from.as_ref(), page_rows(query.top));
        let listed = self.catalog.page(account, plan, from, rows_max, context).await?;
        let names = listed.entries.into_iter().map(Entry::into_name).collect();
        Ok(Answer { reply: TableReply::Tables { names, next: listed.next }, cost: listed.cost })
    }

    async fn get_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<Answer, ServiceError> {
        let entry = self.catalog.read(account, name).await?.ok_or(DomainError::ResourceNotFound)?;
        Ok(Answer::free(TableReply::Table(entry.into_name())))
    }

    async fn delete_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<Answer, ServiceError> {
        self.catalog.delete(account, name, |_| Ok(())).await?;
        Ok(Answer::free(TableReply::TableDeleted))
    }

    async fn get_policies(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<Answer, ServiceError> {
        let entry = self.catalog.read(account, name).await?.ok_or(DomainError::ResourceNotFound)?;
        Ok(Answer::free(TableReply::Policies(entry.policies)))
    }

    async fn set_policies(
        &self,
        account: &AccountName,
        name: &TableName,
        policies: &[AccessPolicy],
    ) -> Result<Answer, ServiceError> {
        let set = |entry: &mut Entry<Tables>| {
            entry.policies = policies.to_vec();
            Ok(())
        };
        self.catalog.change(account, name, LastModified::Advances, set).await?;
        Ok(Answer::free(TableReply::PoliciesSet))
    }

    async fn open(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<Arc<Entry<Tables>>, ServiceError> {
        Ok(self.catalog.find(account, name).await?.ok_or(DomainError::TableNotFound)?)
    }

    async fn get_entity(
        &self,
        account: &AccountName,
        budget: KeyBudget<'_>,
        name: &TableName,
        key: EntityKey,
    ) -> Result<Answer, ServiceError> {
        let table = self.open(account, name).await?;
        budget.take(table.id().number(), key.partition_key.as_str(), 1)?;
        let row = self
            .store
            .get(&EntityAddress { table: table.id(), key }, Blocking::Forbidden)
            .await?
            .ok_or(DomainError::EntityNotFound)?;
        let cost = Cost { class: Some(AccessClass::Point), rows_read: 1, rows_returned: 1 };
        Ok(Answer { reply: TableReply::Entity(table.name().clone(), Box::new(row)), cost })
    }

    async fn query_entities(
        &self,
        grant: &Grant,
        budget: KeyBudget<'_>,
        name: &TableName,
        query: &EntityQuery,
        plan: Plan,
        context: ReadContext<'_>,
    ) -> Result<Answer, ServiceError> {
        let table = self.open(grant.account(), name).await?;
        let plan = plan.within(grant.key_range());
        let sole_partition =
            if budget.is_bounded() { plan.sole_partition().cloned() } else { None };
        if let Some(partition_key) = &sole_partition {
            budget.take(table.id().number(), partition_key.as_str(), 1)?;
        }
        let (top, from) = (page_rows(query.top), query.from.as_ref());
        let page = read_page(&*self.store, table.id(), plan, top, from, context).await?;
        charge_rows(budget, table.id(), &page.rows, u64::from(sole_partition.is_some()));
        let next = page.next.map(|key| Continuation {
            partition_key: key.partition_key,
            row_key: Some(key.row_key),
        });
        let entities = page.rows.into_iter().map(|row| Box::new(row) as _).collect();
        Ok(Answer {
            reply: TableReply::Entities { table: table.name().clone(), entities, next },
            cost: page.cost,
        })
    }

    async fn write(
        &self,
        account: &AccountName,
        budget: KeyBudget<'_>,
        name: &TableName,
        transaction: EntityGroupTransaction,
    ) -> Result<Answer, ServiceError> {
        let (table, mut replies) =
            self.commit(account, budget, name, transaction).await.map_err(as_single)?;
        let reply = replies.pop().expect("a transaction of one operation has one outcome");
        Ok(Answer::free(TableReply::Written(table, reply)))
    }

    async fn transact(
        &self,
        account: &AccountName,
        budget: KeyBudget<'_>,
        name: &TableName,
        transaction: EntityGroupTransaction,
    ) -> Result<Answer, ServiceError> {
        let (table, replies) = self.commit(account, budget, name, transaction).await?;
        Ok(Answer::free(TableReply::TransactionDone(table, replies)))
    }

    async fn commit(
        &self,
        account: &AccountName,
        budget: KeyBudget<'_>,
        name: &TableName,
        transaction: EntityGroupTransaction,
    ) -> Result<(TableName, Vec<OperationReply>), ServiceError> {
        let table = self.open(account, name).await.map_err(as_first_operation)?;
        let entities = transaction.operations().len() as u64;
        budget.take(table.id().number(), transaction.partition_key().as_str(), entities)?;
        let verdict = self
            .store
            .commit_for(account.as_str(), table.id(), &transaction, self.clock.now())
            .await?;
        let outcomes = verdict.map_err(ServiceError::OperationRefused)?;
        assert_eq!(
            outcomes.len(),
            transaction.operations().len(),
            "a store answers every operation"
        );
        let (partition_key, operations) = transaction.into_parts();
        let replies = operations.into_iter().zip(outcomes).map(|(operation, outcome)| {
            let inserted = |timestamp: Timestamp, new: tavola_core::NewEntity| {
                let (row_key, properties) = new.into_parts();
                let key = EntityKey::new(partition_key.clone(), row_key);
                OperationReply::Inserted(Entity { key, timestamp, properties })
            };
            match (operation, outcome) {
                (EntityOperation::Insert(new), Outcome::Written(timestamp)) => {
                    inserted(timestamp, new)
                }
                (_, Outcome::Written(timestamp)) => OperationReply::Updated(timestamp),
                (_, Outcome::Deleted) => OperationReply::Deleted,
            }
        });
        Ok((table.name().clone(), replies.collect()))
    }

    async fn get_properties(&self, account: &AccountName) -> Result<Answer, ServiceError> {
        let properties = self.properties.get(account).await?;
        Ok(Answer::free(TableReply::ServiceProperties(ServiceProperties::clone(&properties))))
    }

    async fn set_properties(
        &self,
        account: &AccountName,
        change: &ServicePropertiesChange,
    ) -> Result<Answer, ServiceError> {
        self.properties.change(account, change).await?;
        Ok(Answer::free(TableReply::ServicePropertiesSet))
    }

    /// The schema of the first page of tables: the document has no continuation.
    async fn get_metadata(
        &self,
        account: &AccountName,
        context: ReadContext<'_>,
    ) -> Result<Answer, ServiceError> {
        let Answer { reply, cost } =
            self.query_tables(account, &TablesQuery::default(), context).await?;
        let TableReply::Tables { names, .. } = reply else {
            unreachable!("query_tables answers with tables")
        };
        Ok(Answer { reply: TableReply::Metadata(names), cost })
    }
}

/// Charges the rows of a page, which are in the order of their keys, to their partitions.
fn charge_rows(budget: KeyBudget<'_>, table: TableId, rows: &[Row], taken: u64) {
    let partitions = rows.chunk_by(|one, next| one.partition_key() == next.partition_key());
    let entities = partitions.map(|rows| (rows[0].partition_key().as_str(), rows.len() as u64));
    budget.charge(table.number(), entities, taken);
}

/// A single write has no index to report.
fn as_single(error: ServiceError) -> ServiceError {
    match error {
        ServiceError::OperationRefused(failed) => ServiceError::Refused(failed.domain_error),
        other => other,
    }
}

/// A transaction on a missing table fails at its first operation, as the service reports it.
fn as_first_operation(error: ServiceError) -> ServiceError {
    match error {
        ServiceError::Refused(domain_error) => {
            ServiceError::OperationRefused(tavola_core::FailedOperation { index: 0, domain_error })
        }
        other => other,
    }
}
