//! A service's properties, kept as one system entity per account, and remembered for a moment:
//! every reply that a browser may see asks for the CORS rules.

use std::sync::Arc;
use std::time::Duration;

use tavola_core::cors::CorsRule;
use tavola_core::properties::{Logging, Metrics, Retention, ServicePropertiesChange};
use tavola_core::{
    AccountName, EdmRef, EdmValue, EntityKey, EntityView, ServiceKind, ServiceProperties, TableId,
};
use tavola_store::{LeasedCache, Row, Store, StoreError};

use crate::clock::Clock;
use crate::error::ServiceError;
use crate::record::{self, Record, partition_key, require, row_key, text};
use crate::system_rows::{Decision, SystemRows, write_over};

const NONE: &str = "";
/// Accounts whose properties are remembered.
const ACCOUNTS_MAX: usize = 1_000;

/// The properties of one service, of all accounts. The row of an account's properties is named by
/// the service.
#[derive(Debug)]
pub(crate) struct PropertiesStore {
    rows: SystemRows,
    service: ServiceKind,
    remembered: Arc<LeasedCache<ServiceProperties>>,
}

impl PropertiesStore {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        lease: Duration,
        service: ServiceKind,
    ) -> Self {
        let rows = SystemRows::new(store, clock, TableId::SERVICE_PROPERTIES);
        Self { rows, service, remembered: Arc::new(LeasedCache::new(ACCOUNTS_MAX, lease)) }
    }

    pub(crate) async fn get(
        &self,
        account: &AccountName,
    ) -> Result<Arc<ServiceProperties>, StoreError> {
        let name = self.service.name();
        if let Some(properties) = self.remembered.get(account.as_str(), name) {
            return Ok(properties);
        }
        let look_up = self.remembered.begin_look_up(account.as_str());
        let row = self.rows.get(self.key(account)).await?;
        let properties = Arc::new(read_or_default(row.as_ref())?);
        self.remembered.remember(look_up, account.as_str(), name, &properties);
        Ok(properties)
    }

    pub(crate) async fn change(
        &self,
        account: &AccountName,
        change: &ServicePropertiesChange,
    ) -> Result<(), ServiceError> {
        let key = self.key(account);
        let begin = || self.remembered.begin_change(account.as_str());
        let decide = |row: Option<&Row>| {
            let changed = read_or_default(row)?.changed(change.clone());
            let entity = write_properties(&changed).into_entity(key.clone())?;
            Ok::<_, ServiceError>(Decision {
                operations: vec![write_over(row, entity)],
                answer: (),
            })
        };
        self.rows.change(&key, begin, decide).await.map(|changed| changed.answer)
    }

    fn key(&self, account: &AccountName) -> EntityKey {
        EntityKey::new(partition_key(account), row_key(self.service.name()))
    }
}

fn read_or_default(row: Option<&Row>) -> Result<ServiceProperties, StoreError> {
    row.map_or_else(|| Ok(ServiceProperties::default()), read_properties)
}

fn write_properties(properties: &ServiceProperties) -> Record {
    let mut record = Record::default();
    let logging = &properties.logging;
    record.set_text("LoggingVersion", &logging.version);
    record.set("LoggingDelete", EdmValue::Boolean(logging.delete));
    record.set("LoggingRead", EdmValue::Boolean(logging.read));
    record.set("LoggingWrite", EdmValue::Boolean(logging.write));
    write_retention(&mut record, "Logging", logging.retention);
    write_metrics(&mut record, "HourMetrics", &properties.hour_metrics);
    write_metrics(&mut record, "MinuteMetrics", &properties.minute_metrics);
    for (index, rule) in properties.cors.iter().enumerate() {
        record.set_text(&format!("Cors{index}Origins"), &rule.allowed_origins.join(","));
        record.set_text(&format!("Cors{index}Methods"), &rule.allowed_methods.join(","));
        record.set_text(&format!("Cors{index}AllowedHeaders"), &rule.allowed_headers.join(","));
        record.set_text(&format!("Cors{index}ExposedHeaders"), &rule.exposed_headers.join(","));
        record.set(&format!("Cors{index}MaxAge"), EdmValue::Int64(i64::from(rule.max_age_seconds)));
    }
    record
}

fn write_metrics(record: &mut Record, group: &str, metrics: &Metrics) {
    record.set_text(&format!("{group}Version"), &metrics.version);
    record.set(&format!("{group}Enabled"), EdmValue::Boolean(metrics.enabled));
    if let Some(include_apis) = metrics.include_apis {
        record.set(&format!("{group}IncludeApis"), EdmValue::Boolean(include_apis));
    }
    write_retention(record, group, metrics.retention);
}

fn write_retention(record: &mut Record, group: &str, retention: Retention) {
    if let Some(days) = retention.days {
        record.set(&format!("{group}Days"), EdmValue::Int32(i32::from(days)));
    }
}

pub(crate) fn read_properties(row: &Row) -> Result<ServiceProperties, StoreError> {
    Ok(ServiceProperties {
        logging: Logging {
            version: require(row, "LoggingVersion", text)?.to_owned(),
            delete: require(row, "LoggingDelete", boolean)?,
            read: require(row, "LoggingRead", boolean)?,
            write: require(row, "LoggingWrite", boolean)?,
            retention: read_retention(row, "Logging"),
        },
        hour_metrics: read_metrics(row, "HourMetrics")?,
        minute_metrics: read_metrics(row, "MinuteMetrics")?,
        cors: (0..).map_while(|index| read_cors_rule(row, index)).collect(),
    })
}

/// Names of stored properties that were not understood: reading is lenient, an audit is not.
pub(crate) fn unread(row: &Row, read: &ServiceProperties) -> Vec<String> {
    record::unread(row, &write_properties(read))
}

fn read_metrics(row: &Row, group: &str) -> Result<Metrics, StoreError> {
    Ok(Metrics {
        version: require(row, &format!("{group}Version"), text)?.to_owned(),
        enabled: require(row, &format!("{group}Enabled"), boolean)?,
        include_apis: row.property(&format!("{group}IncludeApis")).and_then(boolean),
        retention: read_retention(row, group),
    })
}

fn read_retention(row: &Row, group: &str) -> Retention {
    let days = match row.property(&format!("{group}Days")) {
        Some(EdmRef::Int32(days)) => u16::try_from(days).ok(),
        _ => None,
    };
    Retention { days }
}

fn read_cors_rule(row: &Row, index: usize) -> Option<CorsRule> {
    let list =
        |field: &str| row.property(&format!("Cors{index}{field}")).and_then(text).map(split_list);
    let max_age_seconds = match row.property(&format!("Cors{index}MaxAge"))? {
        EdmRef::Int64(seconds) => u32::try_from(seconds).ok()?,
        _ => return None,
    };
    Some(CorsRule {
        allowed_origins: list("Origins")?,
        allowed_methods: list("Methods")?,
        allowed_headers: list("AllowedHeaders")?,
        exposed_headers: list("ExposedHeaders")?,
        max_age_seconds,
    })
}

fn split_list(joined: &str) -> Vec<String> {
    if joined == NONE { Vec::new() } else { joined.split(',').map(str::to_owned).collect() }
}

fn boolean(value: EdmRef<'_>) -> Option<bool> {
    match value {
        EdmRef::Boolean(truth) => Some(truth),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tavola_core::{EntityAddress, EntityGroupTransaction, Timestamp};
    use tavola_store::{Blocking, CommitResult, MemoryStore, StoreLayer};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::clock::SystemClock;

    /// A store whose reads are answered, and whose commits return, when a test lets them.
    #[derive(Debug)]
    struct HeldStore {
        store: MemoryStore,
        reads: Semaphore,
        commits: Semaphore,
    }

    impl HeldStore {
        fn new() -> Arc<Self> {
            let (reads, commits) = (Semaphore::new(100), Semaphore::new(100));
            Arc::new(Self { store: MemoryStore::new(), reads, commits })
        }

        async fn pass(gate: &Semaphore) {
            gate.acquire().await.expect("gates are not closed").forget();
        }
    }

    #[async_trait]
    impl StoreLayer for HeldStore {
        fn below(&self) -> &dyn Store {
            &self.store
        }

        async fn on_get(
            &self,
            address: &EntityAddress,
            blocking: Blocking,
        ) -> Result<Option<Row>, StoreError> {
            let row = self.store.get(address, blocking).await;
            Self::pass(&self.reads).await;
            row
        }

        async fn on_commit(
            &self,
            table: TableId,
            transaction: &EntityGroupTransaction,
            now: Timestamp,
        ) -> Result<CommitResult, StoreError> {
            let committed = self.store.commit(table, transaction, now).await;
            Self::pass(&self.commits).await;
            committed
        }
    }

    const LEASE: Duration = Duration::from_secs(3600);

    fn account() -> AccountName {
        AccountName::parse("shop").unwrap()
    }

    fn properties_on(store: &Arc<HeldStore>) -> Arc<PropertiesStore> {
        let store = Arc::clone(store) as Arc<dyn Store>;
        Arc::new(PropertiesStore::new(store, Arc::new(SystemClock), LEASE, ServiceKind::Table))
    }

    fn logging(read: bool) -> ServicePropertiesChange {
        let logging = Logging { read, ..Logging::default() };
        ServicePropertiesChange { logging: Some(logging), ..ServicePropertiesChange::default() }
    }

    async fn reads_are_logged(properties: &PropertiesStore) -> bool {
        properties.get(&account()).await.unwrap().logging.read
    }

    /// A read that began before a change put the old value back after the change had forgotten it,
    /// for the length of a lease.
    #[tokio::test]
    async fn a_read_from_before_a_change_is_not_remembered() {
        let store = HeldStore::new();
        let properties = properties_on(&store);
        let held = store.reads.acquire_many(100).await.unwrap();
        let early = tokio::spawn({
            let properties = Arc::clone(&properties);
            async move { reads_are_logged(&properties).await }
        });
        tokio::task::yield_now().await;
        let changing = tokio::spawn({
            let properties = Arc::clone(&properties);
            async move { properties.change(&account(), &logging(true)).await }
        });
        tokio::task::yield_now().await;
        drop(held);
        changing.await.unwrap().unwrap();
        let _either = early.await.unwrap();
        assert!(reads_are_logged(&properties).await, "the change was answered");
    }

    /// A change whose caller had left was never forgotten.
    #[tokio::test]
    async fn a_change_whose_caller_left_is_seen() {
        let store = HeldStore::new();
        let properties = properties_on(&store);
        assert!(!reads_are_logged(&properties).await);
        let held = store.commits.acquire_many(100).await.unwrap();
        let account = account();
        let change = logging(true);
        let changing = properties.change(&account, &change);
        let left = tokio::time::timeout(Duration::from_millis(20), changing).await;
        assert!(left.is_err(), "the commit is held");
        drop(held);
        assert!(reads_are_logged(&properties).await, "the row is there");
    }
    #[tokio::test]
    async fn services_of_an_account_do_not_share_properties() {
        let store = Arc::new(MemoryStore::new());
        let of = |service| {
            let store = Arc::clone(&store) as Arc<dyn Store>;
            PropertiesStore::new(store, Arc::new(SystemClock), LEASE, service)
        };
        let stores = ServiceKind::ALL.map(of);
        stores[0].change(&account(), &logging(true)).await.unwrap();
        for (index, properties) in stores.iter().enumerate() {
            assert_eq!(reads_are_logged(properties).await, index == 0);
        }
        let key = EntityKey::new(partition_key(&account()), row_key("blob"));
        let address = EntityAddress { table: TableId::SERVICE_PROPERTIES, key };
        assert!(store.get(&address, Blocking::Forbidden).await.unwrap().is_some());
    }
}
