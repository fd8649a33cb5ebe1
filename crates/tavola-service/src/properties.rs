//! The service's properties, kept as one system entity per account, and remembered for a moment:
//! every reply that a browser may see asks for the CORS rules.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tavola_core::cors::CorsRule;
use tavola_core::properties::{Logging, Metrics, Retention, ServicePropertiesChange};
use tavola_core::{
    AccountName, ETag, EdmRef, EdmValue, EntityAddress, EntityGroupTransaction, EntityKey,
    EntityOperation, EntityView, Precondition, ServiceProperties, TableId, Timestamp,
};
use tavola_store::{Row, Store, StoreError};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::ServiceError;
use crate::record::{self, Record, partition_key, require, row_key, text};

const ATTEMPTS_MAX: usize = 8;
const NONE: &str = "";

#[derive(Debug)]
pub(crate) struct PropertiesStore {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// How long another process's change may go unseen. A change through this process is seen at
    /// once.
    lease: Duration,
    /// One entry per account that was asked for: bounded by the accounts that exist.
    remembered: Mutex<HashMap<AccountName, (Instant, Arc<ServiceProperties>)>>,
}

impl PropertiesStore {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, lease: Duration) -> Self {
        Self { store, clock, lease, remembered: Mutex::default() }
    }

    pub(crate) async fn get(
        &self,
        account: &AccountName,
    ) -> Result<Arc<ServiceProperties>, StoreError> {
        if let Some(properties) = self.recall(account) {
            return Ok(properties);
        }
        // What the store answers may be as old as the question.
        let asked = Instant::now();
        let properties = Arc::new(self.read(account).await?.0);
        self.remember(account, asked, Arc::clone(&properties));
        Ok(properties)
    }

    pub(crate) async fn change(
        &self,
        account: &AccountName,
        change: &ServicePropertiesChange,
    ) -> Result<(), ServiceError> {
        for _ in 0..ATTEMPTS_MAX {
            let (current, version) = self.read(account).await?;
            let changed = current.changed(change.clone());
            let entity = write_properties(&changed).into_entity(key(account))?;
            let operation = match version {
                Some(version) => {
                    EntityOperation::Replace(entity, Precondition::Version(ETag::of(version)))
                }
                None => EntityOperation::Insert(entity),
            };
            let transaction = EntityGroupTransaction::single(partition_key(account), operation);
            let verdict = self
                .store
                .commit(TableId::SERVICE_PROPERTIES, &transaction, self.clock.now())
                .await;
            self.forget(account);
            if verdict?.is_ok() {
                return Ok(());
            }
        }
        Err(StoreError::Contended.into())
    }

    async fn read(
        &self,
        account: &AccountName,
    ) -> Result<(ServiceProperties, Option<Timestamp>), StoreError> {
        let address = EntityAddress { table: TableId::SERVICE_PROPERTIES, key: key(account) };
        match self.store.get(&address).await? {
            Some(row) => Ok((read_properties(&row)?, Some(row.timestamp()))),
            None => Ok((ServiceProperties::default(), None)),
        }
    }

    fn recall(&self, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, properties) = remembered.get(account)?;
        (since.elapsed() < self.lease).then(|| Arc::clone(properties))
    }

    fn remember(&self, account: &AccountName, asked: Instant, properties: Arc<ServiceProperties>) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.insert(account.clone(), (asked, properties));
    }

    fn forget(&self, account: &AccountName) {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).remove(account);
    }
}

fn key(account: &AccountName) -> EntityKey {
    EntityKey::new(partition_key(account), row_key("table"))
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
