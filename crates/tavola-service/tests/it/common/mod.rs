//! A service on any store, asked by a client that does what a store's contract allows: it repeats
//! what was not done, and after an unknown outcome it takes "already so" for success.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tavola_core::filter::parse::parse;
use tavola_core::reply::Cost;
use tavola_core::request::{Continuation, EntityQuery, TablesQuery};
use tavola_core::{
    AccountName, DateTime, DomainError, ETag, EdmValue, EntityKey, EntityOperation, EntityView,
    Grant, KeyRange, NewEntity, PartitionKey, Precondition, Properties, PropertyName, RowKey,
    TableId, TableName, TableReply, TableRequest, Timestamp,
};
use tavola_service::catalog::CatalogBase;
use tavola_service::{Clock, Reclaimer, ServiceError, TableService};
use tavola_store::{MemoryStore, Row, Scan, Store, StoreError};
use tavola_testkit::faulty_store::{Faults, FaultyStore};

const ATTEMPTS_MAX: usize = 200;

/// One call in four goes wrong in some way, and none answers at once.
pub(crate) const FAULTS: Faults = Faults {
    contended: 8,
    unknown_written: 5,
    unknown_not_written: 5,
    unavailable: 6,
    delay_max: Duration::from_millis(20),
};

/// One named test per case, on each store.
macro_rules! on_every_store {
    ($($case:ident),* $(,)?) => {
        mod on_memory {
            use crate::common::Fixture;
            $(#[tokio::test] async fn $case() {
                super::$case(Fixture::on_memory()).await;
            })*
        }
        mod on_a_faulty_store {
            use crate::common::Fixture;
            $(#[tokio::test(start_paused = true)] async fn $case() {
                for seed in 0..8 {
                    super::$case(Fixture::on_a_faulty_store(seed)).await;
                }
            })*
        }
    };
}
pub(crate) use on_every_store;

/// A clock that a test turns.
#[derive(Debug)]
pub(crate) struct TestClock {
    ticks: AtomicU64,
    elapsed_seconds: AtomicU64,
}

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        let start = DateTime::parse("2026-11-16T06:00:00Z").unwrap();
        Arc::new(Self { ticks: AtomicU64::new(start.ticks()), elapsed_seconds: AtomicU64::new(0) })
    }

    pub(crate) fn advance_seconds(&self, seconds: u64) {
        self.jump_seconds(seconds as i64);
        self.elapsed_seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Somebody sets the time of day.
    pub(crate) fn jump_seconds(&self, seconds: i64) {
        self.ticks.fetch_add((seconds * 10_000_000) as u64, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ticks(self.ticks.load(Ordering::SeqCst)).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.elapsed_seconds.load(Ordering::SeqCst))
    }
}

/// A service and an account.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) base: Arc<CatalogBase>,
    pub(crate) service: TableService,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) account: AccountName,
}

/// A page of keys, `pk/rk`, and where to go on.
pub(crate) type KeyPage = (Vec<String>, Option<Continuation>, Cost);

impl Fixture {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let clock = TestClock::new();
        let base = CatalogBase::new(Arc::clone(&store), Arc::clone(&clock) as _);
        let service = TableService::on(Arc::clone(&base));
        Self { store, base, service, clock, account: AccountName::parse("acct").unwrap() }
    }

    pub(crate) fn on_memory() -> Self {
        Self::new(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn on_a_faulty_store(seed: u64) -> Self {
        Self::new(Arc::new(FaultyStore::new(MemoryStore::new(), FAULTS, seed)))
    }

    pub(crate) fn owner(&self) -> Grant {
        Grant::owner(self.account.clone())
    }

    /// Asks until there is an answer.
    pub(crate) async fn ask(&self, request: TableRequest) -> Result<TableReply, DomainError> {
        self.ask_with_cost(request).await.map(|(reply, _)| reply)
    }

    pub(crate) async fn ask_with_cost(
        &self,
        request: TableRequest,
    ) -> Result<(TableReply, Cost), DomainError> {
        let mut unknown = false;
        for _ in 0..ATTEMPTS_MAX {
            match self.service.execute(&self.owner(), request.clone()).await {
                Ok(answer) => return Ok((answer.reply, answer.cost)),
                Err(ServiceError::Store(StoreError::UnknownOutcome)) => unknown = true,
                Err(ServiceError::Store(
                    StoreError::Contended | StoreError::Unavailable { .. },
                )) => {}
                Err(ServiceError::Refused(domain_error))
                    if unknown && already_so(&request, &domain_error) =>
                {
                    return Ok((already_done(&request), Cost::default()));
                }
                Err(ServiceError::Refused(domain_error)) => return Err(domain_error),
                Err(ServiceError::OperationRefused(failed)) => return Err(failed.domain_error),
                Err(other) => panic!("{other}"),
            }
        }
        panic!("no answer after {ATTEMPTS_MAX} attempts");
    }

    pub(crate) async fn create(&self, table: &str) -> Result<(), DomainError> {
        self.ask(TableRequest::CreateTable(name(table))).await.map(drop)
    }

    pub(crate) async fn drop_table(&self, table: &str) -> Result<(), DomainError> {
        self.ask(TableRequest::DeleteTable(name(table))).await.map(drop)
    }

    pub(crate) async fn insert(
        &self,
        table: &str,
        key: &str,
        value: i32,
    ) -> Result<(), DomainError> {
        self.write(table, key, EntityOperation::Insert, value).await
    }

    pub(crate) async fn write(
        &self,
        table: &str,
        key: &str,
        operation: impl FnOnce(NewEntity) -> EntityOperation,
        value: i32,
    ) -> Result<(), DomainError> {
        let (partition_key, new) = new_entity(key, value);
        self.ask(TableRequest::Write(name(table), partition_key, operation(new))).await.map(drop)
    }

    pub(crate) async fn delete(
        &self,
        table: &str,
        key: &str,
        condition: Precondition,
    ) -> Result<(), DomainError> {
        let key = entity_key(key);
        let delete = EntityOperation::Delete(key.row_key, condition);
        self.ask(TableRequest::Write(name(table), key.partition_key, delete)).await.map(drop)
    }

    /// How many rows the store holds of a table, whatever the catalogue says.
    pub(crate) async fn rows_of(&self, table: TableId) -> usize {
        self.all_rows(table).await.len()
    }

    pub(crate) async fn all_rows(&self, table: TableId) -> Vec<Row> {
        let scan = Scan { rows_max: 1000, read_max: 1000, ..Scan::all(table, KeyRange::ALL) };
        loop {
            if let Ok(page) = self.store.scan(&scan).await {
                return page.rows;
            }
        }
    }

    /// An entity's value and tag.
    pub(crate) async fn get(&self, table: &str, key: &str) -> Result<(i32, ETag), DomainError> {
        let reply = self.ask(TableRequest::GetEntity(name(table), entity_key(key))).await?;
        let TableReply::Entity(_, entity) = reply else { panic!("{reply:?}") };
        let Some(tavola_core::EdmRef::Int32(value)) = entity.property("Value") else {
            panic!("{entity:?}")
        };
        Ok((value, ETag::of(entity.timestamp())))
    }

    pub(crate) async fn query(
        &self,
        table: &str,
        filter: &str,
        top: Option<usize>,
        from: Option<Continuation>,
    ) -> Result<KeyPage, DomainError> {
        let query = EntityQuery { filter: parse(filter).unwrap(), top, from };
        let (reply, cost) =
            self.ask_with_cost(TableRequest::QueryEntities(name(table), query)).await?;
        let TableReply::Entities { entities, next, .. } = reply else { panic!("{reply:?}") };
        let key =
            |entity: &dyn EntityView| format!("{}/{}", entity.partition_key(), entity.row_key());
        Ok((entities.iter().map(|entity| key(&**entity)).collect(), next, cost))
    }

    /// All keys of a query, page by page, and the sizes of the pages.
    pub(crate) async fn query_all(
        &self,
        table: &str,
        filter: &str,
        top: Option<usize>,
    ) -> (Vec<String>, Vec<usize>) {
        let (mut keys, mut sizes, mut from) = (Vec::new(), Vec::new(), None);
        loop {
            let (page, next, _) = self.query(table, filter, top, from).await.unwrap();
            sizes.push(page.len());
            keys.extend(page);
            match next {
                Some(next) => from = Some(next),
                None => return (keys, sizes),
            }
        }
    }

    pub(crate) async fn tables(
        &self,
        filter: &str,
        top: Option<usize>,
        from: Option<String>,
    ) -> (Vec<String>, Option<String>) {
        let from = from.map(|name| TableName::parse(&name).unwrap());
        let query = TablesQuery { filter: parse(filter).unwrap(), top, from };
        let reply = self.ask(TableRequest::QueryTables(query)).await.unwrap();
        let TableReply::Tables { names, next } = reply else { panic!("{reply:?}") };
        (names.iter().map(|name| name.as_str().to_owned()).collect(), next)
    }
}

/// What the first, unanswered attempt would look like if it had been carried out.
fn already_so(request: &TableRequest, domain_error: &DomainError) -> bool {
    matches!(
        (request, domain_error),
        (TableRequest::CreateTable(_), DomainError::TableAlreadyExists)
            | (TableRequest::DeleteTable(_), DomainError::ResourceNotFound)
            | (
                TableRequest::Write(_, _, EntityOperation::Insert(_)),
                DomainError::EntityAlreadyExists
            )
            | (TableRequest::Write(_, _, EntityOperation::Delete(..)), DomainError::EntityNotFound)
            | (TableRequest::Write(..), DomainError::ConditionNotMet)
    )
}

fn already_done(request: &TableRequest) -> TableReply {
    match request {
        TableRequest::CreateTable(name) => TableReply::TableCreated(name.clone()),
        TableRequest::DeleteTable(_) => TableReply::TableDeleted,
        TableRequest::Write(table, ..) => TableReply::Written(
            table.clone(),
            tavola_core::reply::OperationReply::Updated(Timestamp::MIN),
        ),
        other => panic!("{other:?} has no outcome that could be unknown"),
    }
}

/// A pass that the faulty store did not interrupt.
pub(crate) async fn pass(reclaimer: &mut Reclaimer) -> usize {
    for _ in 0..500 {
        if let Ok(waiting) = reclaimer.pass().await {
            return waiting;
        }
    }
    panic!("the reclaimer never got through");
}

pub(crate) fn name(table: &str) -> TableName {
    TableName::parse(table).unwrap()
}

/// `pk/rk`
pub(crate) fn entity_key(key: &str) -> EntityKey {
    let (partition_key, row_key) = key.split_once('/').unwrap();
    EntityKey::new(PartitionKey::new(partition_key).unwrap(), RowKey::new(row_key).unwrap())
}

pub(crate) fn new_entity(key: &str, value: i32) -> (PartitionKey, NewEntity) {
    let properties =
        Properties::new(vec![(PropertyName::new("Value").unwrap(), EdmValue::Int32(value))])
            .unwrap();
    NewEntity::new(entity_key(key), properties).unwrap()
}
