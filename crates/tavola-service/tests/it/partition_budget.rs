//! What may be asked of one partition in a second: what counts, who is refused, and that a refusal
//! reads and writes nothing. The clock is turned, never waited for.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Fixture, entity_key, name, new_entity};
use tavola_core::ServiceKind;
use tavola_core::filter::parse::parse;
use tavola_core::grant::{Permissions, ServiceSignature};
use tavola_core::request::EntityQuery;
use tavola_core::{
    DomainError, EntityGroupTransaction, EntityOperation, Grant, KeyRange, Precondition, TableId,
    TableReply, TableRequest,
};
use tavola_fair::{KeyBudgets, Rate};
use tavola_service::ServiceError;
use tavola_store::{MemoryStore, StopToken};
use tavola_testkit::watched_store::{Watch, WatchedStore};

/// Entities that each partition has for every second.
const ENTITIES: u64 = 10;

struct Server {
    fixture: Fixture,
    watch: Watch,
    budgets: KeyBudgets,
}

impl Server {
    /// With a table that has `p/00` to `p/19` and `q/00` to `q/04`.
    async fn new() -> Self {
        let store = WatchedStore::new(MemoryStore::new());
        let watch = store.watch();
        let fixture = Fixture::new(Arc::new(store));
        fixture.create("table").await.unwrap();
        for (partition, rows) in [("p", 20), ("q", 5)] {
            for row in 0..rows {
                fixture.insert("table", &format!("{partition}/{row:02}"), row).await.unwrap();
            }
        }
        Self { fixture, watch, budgets: KeyBudgets::default() }
    }

    async fn ask(&self, request: TableRequest) -> Result<TableReply, ServiceError> {
        self.ask_as(&self.fixture.owner(), request).await
    }

    async fn ask_as(
        &self,
        grant: &Grant,
        request: TableRequest,
    ) -> Result<TableReply, ServiceError> {
        let _before = self.watch.take();
        let (service, budget) =
            (&self.fixture.service, self.budgets.at(Rate::per_second(ENTITIES)));
        let answer = service.execute_within(grant, budget, request, &StopToken::default()).await;
        if matches!(answer, Err(ServiceError::PartitionOverBudget)) {
            let tables = self.watch.take();
            let asked: Vec<_> = tables.keys().filter(|table| **table != TableId::CATALOG).collect();
            assert!(asked.is_empty(), "a refusal asked the store: {tables:?}");
        }
        answer.map(|answer| answer.reply)
    }

    /// "ok", "busy", or another refusal.
    async fn outcome(&self, request: TableRequest) -> String {
        match self.ask(request).await {
            Ok(_) => "ok".to_owned(),
            Err(ServiceError::PartitionOverBudget) => "busy".to_owned(),
            Err(ServiceError::Refused(domain_error)) => format!("{domain_error:?}"),
            Err(ServiceError::OperationRefused(failed)) => {
                format!("{} {:?}", failed.index, failed.domain_error)
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// How many point reads a partition has left, which are gone then.
    async fn left(&self, partition: &str) -> u64 {
        for taken in 0..=ENTITIES {
            match self.ask(get(&format!("{partition}/00"))).await {
                Ok(_) | Err(ServiceError::Refused(DomainError::EntityNotFound)) => {}
                Err(ServiceError::PartitionOverBudget) => return taken,
                Err(other) => panic!("{other}"),
            }
        }
        panic!("more than the budget");
    }

    async fn next_second(&self) {
        self.fixture.clock.advance_seconds(1);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}

fn get(key: &str) -> TableRequest {
    TableRequest::GetEntity(name("table"), entity_key(key))
}

fn write(key: &str, operation: &str) -> TableRequest {
    let (partition_key, new) = new_entity(key, 1);
    let operation = match operation {
        "insert" => EntityOperation::Insert(new),
        "replace" => EntityOperation::Replace(new, Precondition::Exists),
        "merge" => EntityOperation::Merge(new, Precondition::None),
        "delete" => EntityOperation::Delete(entity_key(key).row_key, Precondition::Exists),
        other => panic!("{other}"),
    };
    TableRequest::Write(name("table"), partition_key, operation)
}

/// Merges into so many rows of a partition.
fn transaction(partition: &str, operations: usize) -> TableRequest {
    let operations = (0..operations).map(|row| {
        let (partition_key, new) = new_entity(&format!("{partition}/{row:02}"), 2);
        (partition_key, EntityOperation::Merge(new, Precondition::None))
    });
    TableRequest::Transaction(
        name("table"),
        EntityGroupTransaction::new(operations.collect()).unwrap(),
    )
}

fn query(filter: &str, top: Option<usize>) -> TableRequest {
    TableRequest::QueryEntities(
        name("table"),
        EntityQuery { filter: parse(filter).unwrap(), top, from: None },
    )
}

#[tokio::test(start_paused = true)]
async fn a_point_request_counts_one_whether_or_not_it_succeeds() {
    let server = Server::new().await;
    for (request, expected) in [
        (get("p/00"), "ok"),
        (get("p/nobody"), "EntityNotFound"),
        (write("p/new", "insert"), "ok"),
        (write("p/new", "insert"), "EntityAlreadyExists"),
        (write("p/new", "replace"), "ok"),
        (write("p/new", "merge"), "ok"),
        (write("p/new", "delete"), "ok"),
        (write("p/new", "delete"), "EntityNotFound"),
    ] {
        assert_eq!(server.outcome(request.clone()).await, expected, "{request:?}");
    }
    assert_eq!(server.left("p").await, ENTITIES - 8);
    for request in [
        get("p/00"),
        write("p/new", "insert"),
        transaction("p", 1),
        query("PartitionKey eq 'p'", None),
    ] {
        assert_eq!(server.outcome(request.clone()).await, "busy", "{request:?}");
    }
    assert_eq!(server.left("q").await, ENTITIES, "another partition has its own");
    server.next_second().await;
    assert_eq!(server.left("p").await, ENTITIES);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_counts_its_operations() {
    let server = Server::new().await;
    assert_eq!(server.outcome(transaction("p", 7)).await, "ok");
    assert_eq!(server.outcome(transaction("p", 4)).await, "busy");
    assert_eq!(server.outcome(transaction("q", 4)).await, "ok");
    assert_eq!(server.outcome(transaction("p", 3)).await, "ok", "a refusal costs nothing");
    assert_eq!(server.left("p").await, 0);
    server.next_second().await;
    assert_eq!(
        server.outcome(transaction("p", 20)).await,
        "ok",
        "larger than the rate: slow, not impossible"
    );
    server.next_second().await;
    assert_eq!(server.left("p").await, 0);
    server.next_second().await;
    assert_eq!(server.left("p").await, ENTITIES);
}

#[tokio::test(start_paused = true)]
async fn a_query_of_one_partition_counts_what_it_returned_and_one_at_least() {
    let server = Server::new().await;
    for (filter, top, counts) in [
        ("PartitionKey eq 'p' and RowKey ge '05' and RowKey lt '08'", None, 3),
        ("PartitionKey eq 'p'", Some(4), 4),
        ("PartitionKey eq 'p' and RowKey eq '01'", None, 1),
        ("PartitionKey eq 'p' and (RowKey eq '01' or RowKey eq '02')", None, 2),
        ("PartitionKey eq 'p' and Value eq 99", None, 1),
        ("PartitionKey eq 'p' and Value lt 2", None, 2),
        ("PartitionKey eq 'p' and PartitionKey eq 'q'", None, 0),
    ] {
        assert_eq!(server.outcome(query(filter, top)).await, "ok");
        assert_eq!(server.left("p").await, ENTITIES - counts, "{filter}");
        server.next_second().await;
    }
    assert_eq!(server.outcome(query("PartitionKey eq 'p'", None)).await, "ok", "twenty at once");
    server.next_second().await;
    assert_eq!(server.outcome(query("PartitionKey eq 'p'", None)).await, "busy");
    server.next_second().await;
    assert_eq!(server.left("p").await, ENTITIES);
}

#[tokio::test(start_paused = true)]
async fn a_query_of_several_partitions_counts_in_each_and_is_not_refused() {
    let server = Server::new().await;
    assert_eq!(server.outcome(query("RowKey lt '04'", None)).await, "ok");
    assert_eq!(server.left("p").await, ENTITIES - 4);
    assert_eq!(server.left("q").await, ENTITIES - 4);
    let both = query("PartitionKey eq 'p' or PartitionKey eq 'q'", None);
    assert_eq!(server.outcome(both.clone()).await, "ok", "both are over their budgets");
    server.next_second().await;
    assert_eq!(server.outcome(both).await, "ok");
    assert_eq!(server.left("q").await, ENTITIES - 5);
    server.next_second().await;
    assert_eq!(server.left("p").await, 0, "twenty are two seconds' worth");
    server.next_second().await;
    assert_eq!(server.left("p").await, ENTITIES);
}

/// A signature for one partition makes every query one of that partition.
#[tokio::test(start_paused = true)]
async fn a_query_under_a_key_range_is_one_of_its_partition() {
    let server = Server::new().await;
    assert_eq!(server.left("q").await, ENTITIES);
    let signature = ServiceSignature {
        service: ServiceKind::Table,
        container: "table".to_owned(),
        permissions: Permissions::of_service(ServiceKind::Table, "r").unwrap(),
        range: KeyRange::partition(entity_key("q/").partition_key),
    };
    let grant = Grant::service_signature(server.fixture.account.clone(), signature);
    let answer = server.ask_as(&grant, query("", None)).await;
    assert!(matches!(answer, Err(ServiceError::PartitionOverBudget)), "{answer:?}");
    server.next_second().await;
    server.ask_as(&grant, query("", None)).await.unwrap();
    assert_eq!(server.left("q").await, ENTITIES - 5);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_entity_has_no_partition() {
    let server = Server::new().await;
    assert_eq!(server.left("p").await, ENTITIES);
    for request in [
        TableRequest::QueryTables(Default::default()),
        TableRequest::GetPolicies(name("table")),
        TableRequest::CreateTable(name("other")),
        TableRequest::GetServiceProperties,
    ] {
        assert_eq!(server.outcome(request.clone()).await, "ok", "{request:?}");
    }
    let missing = TableRequest::GetEntity(name("missing"), entity_key("p/00"));
    for _ in 0..2 * ENTITIES {
        assert_eq!(server.outcome(missing.clone()).await, "TableNotFound");
    }
    let other = TableRequest::GetEntity(name("other"), entity_key("p/00"));
    assert_eq!(
        server.outcome(other).await,
        "EntityNotFound",
        "the same key in another table is another partition"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_nobody_is_refused() {
    let server = Server::new().await;
    for _ in 0..100 {
        for request in [get("p/00"), transaction("p", 20), query("PartitionKey eq 'p'", None)] {
            server.fixture.ask(request).await.unwrap();
        }
    }
    assert_eq!(server.left("p").await, ENTITIES, "what was not counted is not owed");
}
