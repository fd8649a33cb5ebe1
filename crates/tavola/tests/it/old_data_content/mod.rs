//! What stands in the fixtures of old data: something of everything that is ever stored.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tavola_core::cors::CorsRule;
use tavola_core::properties::{Logging, Retention, ServicePropertiesChange};
use tavola_core::request::EntityQuery;
use tavola_core::{
    AccessPolicy, AccountName, DateTime, EdmRef, EdmValue, EntityGroupTransaction, EntityKey,
    EntityOperation, EntityView, Grant, Guid, NewEntity, PartitionKey, Precondition, Properties,
    PropertyName, RowKey, TableName, TableReply, TableRequest, Timestamp,
};
use tavola_embedded::EmbeddedStore;
use tavola_service::{Clock, TableService};
use tavola_store::Store;

const ACCOUNTS: [&str; 2] = ["devstoreaccount1", "shop"];
/// The first moment of 2024, in ticks.
const START: u64 = 133_485_408_000_000_000;

/// A clock that stands at a fixed time and moves a second with every look.
#[derive(Debug, Default)]
struct Steps(AtomicU64);

impl Clock for Steps {
    fn now(&self) -> Timestamp {
        let seconds = self.0.fetch_add(1, Ordering::SeqCst);
        Timestamp::from_ticks(START + seconds * 10_000_000).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// A service on a store, and a runtime to ask it with.
struct World {
    service: TableService,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn new(store: &Arc<EmbeddedStore>) -> Self {
        let service =
            TableService::new(Arc::clone(store) as Arc<dyn Store>, Arc::new(Steps::default()));
        Self {
            service,
            runtime: tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap(),
        }
    }

    fn ask(&self, account: &str, request: TableRequest) -> TableReply {
        let grant = Grant::owner(AccountName::parse(account).unwrap());
        self.runtime.block_on(self.service.execute(&grant, request)).unwrap().reply
    }

    fn upsert(
        &self,
        account: &str,
        name: &str,
        partition: &str,
        rows: Vec<(&str, Vec<(&str, EdmValue)>)>,
    ) {
        let partition_key = PartitionKey::new(partition).unwrap();
        let operation = |(row, values): (&str, Vec<(&str, EdmValue)>)| {
            let named = values
                .into_iter()
                .map(|(name, value)| (PropertyName::new(name).unwrap(), value))
                .collect();
            let key = EntityKey::new(partition_key.clone(), RowKey::new(row).unwrap());
            let (_, entity) = NewEntity::new(key, Properties::new(named).unwrap()).unwrap();
            (partition_key.clone(), EntityOperation::Replace(entity, Precondition::None))
        };
        let transaction =
            EntityGroupTransaction::new(rows.into_iter().map(operation).collect()).unwrap();
        self.ask(account, TableRequest::Transaction(table(name), transaction));
    }
}

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

fn every_type() -> Vec<(&'static str, EdmValue)> {
    vec![
        ("Text", EdmValue::String("Grüße, 世界, 😀".to_owned())),
        ("Empty", EdmValue::String(String::new())),
        ("Small", EdmValue::Int32(i32::MIN)),
        ("Large", EdmValue::Int64(i64::MAX)),
        ("Real", EdmValue::Double(-0.1)),
        ("NotANumber", EdmValue::Double(f64::NAN)),
        ("Yes", EdmValue::Boolean(true)),
        ("No", EdmValue::Boolean(false)),
        ("At", EdmValue::DateTime(DateTime::MAX)),
        ("Id", EdmValue::Guid(Guid::from_bytes(*b"0123456789abcdef"))),
        ("Bytes", EdmValue::Binary((0..=255).collect())),
    ]
}

/// The part that ends up in table files.
pub(crate) fn write_table_files(store: EmbeddedStore) {
    let store = Arc::new(store);
    let world = World::new(&store);
    for (account, name) in
        [(ACCOUNTS[0], "People"), (ACCOUNTS[0], "Dropped"), (ACCOUNTS[1], "people")]
    {
        world.ask(account, TableRequest::CreateTable(table(name)));
        world.upsert(account, name, "types", vec![("all", every_type()), ("none", Vec::new())]);
    }
    // Keys at the edges of their order: empty, beyond the basic plane, above it in UTF-8 and below
    // it in UTF-16.
    for key in ["", "a", "\u{e000}", "\u{ffff}", "\u{1f600}"] {
        world.upsert(ACCOUNTS[0], "People", key, vec![(key, vec![("N", EdmValue::Int32(1))])]);
    }
    let rows: Vec<String> = (0..100).map(|row| format!("{row:03}")).collect();
    let numbered = |row: &String| vec![("N", EdmValue::Int32(row.parse().unwrap()))];
    let batch = rows.iter().map(|row| (row.as_str(), numbered(row))).collect();
    world.upsert(ACCOUNTS[0], "People", "batch", batch);
    let at = Some(DateTime::from_ticks(START).unwrap());
    let policies = vec![
        AccessPolicy {
            id: "read".to_owned(),
            start: at,
            expiry: Some(DateTime::MAX),
            permission: Some("r".to_owned()),
        },
        AccessPolicy { id: "open".to_owned(), start: None, expiry: None, permission: None },
    ];
    world.ask(ACCOUNTS[0], TableRequest::SetPolicies(table("people"), policies));
    world.ask(ACCOUNTS[0], TableRequest::DeleteTable(table("dropped")));
    store.close().unwrap();
}

/// The part that only a log has: new rows, a changed one, a deleted one, a table, properties.
pub(crate) fn write_log_tail(store: EmbeddedStore) {
    let store = Arc::new(store);
    let world = World::new(&store);
    world.upsert(ACCOUNTS[0], "people", "batch", vec![("007", vec![("N", EdmValue::Int64(-7))])]);
    let delete = EntityOperation::Delete(RowKey::new("099").unwrap(), Precondition::Exists);
    world.ask(
        ACCOUNTS[0],
        TableRequest::Write(table("people"), PartitionKey::new("batch").unwrap(), delete),
    );
    world.ask(ACCOUNTS[1], TableRequest::CreateTable(table("Late")));
    world.upsert(ACCOUNTS[1], "late", "p", vec![("r", every_type())]);
    let rule = CorsRule {
        allowed_origins: vec!["https://shop.example".to_owned(), "*".to_owned()],
        allowed_methods: vec!["GET".to_owned()],
        allowed_headers: vec!["x-ms-*".to_owned()],
        exposed_headers: Vec::new(),
        max_age_seconds: 300,
    };
    let logging = Logging {
        version: "1.0".to_owned(),
        delete: true,
        read: false,
        write: true,
        retention: Retention { days: Some(7) },
    };
    let change = ServicePropertiesChange {
        logging: Some(logging),
        cors: Some(vec![rule]),
        ..Default::default()
    };
    world.ask(ACCOUNTS[1], TableRequest::SetServiceProperties(change));
}

/// Everything that clients can see, in words.
pub(crate) fn read_all(store: EmbeddedStore) -> String {
    let store = Arc::new(store);
    let world = World::new(&store);
    let mut text = String::new();
    for account in ACCOUNTS {
        let TableReply::Tables { names, next: None } =
            world.ask(account, TableRequest::QueryTables(Default::default()))
        else {
            panic!("a page of tables")
        };
        for name in names {
            writeln!(text, "{account} / {}", name.as_str()).unwrap();
            let policies = world.ask(account, TableRequest::GetPolicies(name.clone()));
            let TableReply::Policies(policies) = policies else { panic!("policies") };
            for AccessPolicy { id, start, expiry, permission } in policies {
                let ticks = |at: Option<DateTime>| at.map(DateTime::ticks);
                writeln!(
                    text,
                    "  policy {id:?} {:?} {:?} {permission:?}",
                    ticks(start),
                    ticks(expiry)
                )
                .unwrap();
            }
            let entities =
                world.ask(account, TableRequest::QueryEntities(name, EntityQuery::default()));
            let TableReply::Entities { entities, next: None, .. } = entities else {
                panic!("a page of entities")
            };
            entities.iter().for_each(|entity| describe(&mut text, &**entity));
        }
        let properties = world.ask(account, TableRequest::GetServiceProperties);
        let TableReply::ServiceProperties(properties) = properties else { panic!("properties") };
        let Logging { version, delete, read, write, retention } = &properties.logging;
        writeln!(
            text,
            "{account} logging {version:?} {delete} {read} {write} {:?}",
            retention.days
        )
        .unwrap();
        for metrics in [&properties.hour_metrics, &properties.minute_metrics] {
            let (apis, days) = (metrics.include_apis, metrics.retention.days);
            writeln!(
                text,
                "{account} metrics {:?} {} {apis:?} {days:?}",
                metrics.version, metrics.enabled
            )
            .unwrap();
        }
        for rule in &properties.cors {
            let lists = [
                &rule.allowed_origins,
                &rule.allowed_methods,
                &rule.allowed_headers,
                &rule.exposed_headers,
            ];
            writeln!(text, "{account} cors {lists:?} {}", rule.max_age_seconds).unwrap();
        }
    }
    text
}

fn describe(text: &mut String, entity: &dyn EntityView) {
    let (partition, row) = (
        entity.partition_key().as_str().escape_default(),
        entity.row_key().as_str().escape_default(),
    );
    writeln!(text, "  {partition} / {row} at {}", entity.timestamp().ticks()).unwrap();
    entity.visit(&mut |name, value| {
        let value = match value {
            EdmRef::String(value) => format!("String {}", value.as_str().escape_default()),
            EdmRef::Int32(value) => format!("Int32 {value}"),
            EdmRef::Int64(value) => format!("Int64 {value}"),
            EdmRef::Double(value) => format!("Double {:016x}", value.to_bits()),
            EdmRef::Boolean(value) => format!("Boolean {value}"),
            EdmRef::DateTime(value) => format!("DateTime {}", value.ticks()),
            EdmRef::Guid(value) => format!("Guid {:02x?}", value.as_bytes()),
            EdmRef::Binary(value) => format!("Binary {value:02x?}"),
        };
        writeln!(text, "    {name} {value}").unwrap();
    });
}
