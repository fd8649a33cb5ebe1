//! Numbers for OpenTelemetry, behind the feature `otel`; without it nothing is counted.

use std::time::Duration;

use tavola_core::TableName;

/// A call that has ended.
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "nothing is counted without otel"))]
pub(super) struct Called<'a> {
    pub(super) operation: &'static str,
    pub(super) table: Option<&'a TableName>,
    pub(super) status: Option<u16>,
    pub(super) error: Option<&'a str>,
    pub(super) elapsed: Duration,
    pub(super) rows: Option<usize>,
}

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Count {
    /// An attempt was repeated.
    Retry,
    /// The service refused for lack of capacity.
    Throttled,
    /// Nobody knows whether a write was applied.
    UnknownOutcome,
    /// `modify` begins anew.
    ModifyConflict,
}

#[cfg(feature = "otel")]
pub(crate) use counted::Metrics;
#[cfg(not(feature = "otel"))]
pub(crate) use ignored::Metrics;

#[cfg(not(feature = "otel"))]
mod ignored {
    use std::time::Duration;

    use tavola_core::TableName;

    use super::{Called, Count};
    use crate::options::ClientOptions;
    use crate::store::StoreTraits;

    #[derive(Debug, Clone)]
    pub(crate) struct Metrics;

    impl Metrics {
        pub(crate) fn new(_: &StoreTraits, _: Option<&(String, u16)>, _: &ClientOptions) -> Self {
            Self
        }

        pub(in crate::engine) fn called(&self, _: &Called<'_>) {}

        pub(crate) fn count(&self, _: Count, _: Option<&TableName>) {}

        pub(in crate::engine) fn delayed(&self, _: Duration, _: Option<&TableName>) {}
    }
}

#[cfg(feature = "otel")]
mod counted {
    use std::fmt;
    use std::sync::Arc;
    use std::time::Duration;

    use opentelemetry::metrics::{Counter, Histogram};
    use opentelemetry::{KeyValue, global};
    use tavola_core::TableName;

    use super::{Called, Count};
    use crate::options::ClientOptions;
    use crate::store::StoreTraits;

    /// Bounds of the conventions for database clients, in seconds.
    const DURATION_BOUNDS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0];
    const ROW_BOUNDS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

    /// The instruments of one client, of the meter provider that is the global one when the client
    /// is made.
    #[derive(Clone)]
    pub(crate) struct Metrics(Arc<Instruments>);

    struct Instruments {
        duration: Histogram<f64>,
        returned_rows: Histogram<u64>,
        partition_delay: Histogram<f64>,
        retries: Counter<u64>,
        throttled: Counter<u64>,
        unknown_outcomes: Counter<u64>,
        modify_conflicts: Counter<u64>,
        /// What is the same for all calls.
        common: Vec<KeyValue>,
        per_table: bool,
    }

    impl fmt::Debug for Metrics {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Metrics").field("per_table", &self.0.per_table).finish_non_exhaustive()
        }
    }

    impl Metrics {
        pub(crate) fn new(
            traits: &StoreTraits,
            server: Option<&(String, u16)>,
            options: &ClientOptions,
        ) -> Self {
            let meter = global::meter("tavola-client");
            let seconds = |name: &'static str, description: &'static str| {
                let histogram = meter.f64_histogram(name).with_unit("s");
                let bounds = DURATION_BOUNDS.to_vec();
                histogram.with_description(description).with_boundaries(bounds).build()
            };
            let counter = |name: &'static str, description: &'static str| {
                meter.u64_counter(name).with_description(description).build()
            };
            let returned_rows = meter
                .u64_histogram("db.client.response.returned_rows")
                .with_unit("{row}")
                .with_description("Entities of an answer")
                .with_boundaries(ROW_BOUNDS.to_vec())
                .build();
            let mut common = vec![KeyValue::new("db.system.name", "azure.tables")];
            common.extend(traits.account.clone().map(|name| KeyValue::new("db.namespace", name)));
            if let Some((host, port)) = server {
                common.push(KeyValue::new("server.address", host.clone()));
                common.push(KeyValue::new("server.port", i64::from(*port)));
            }
            Self(Arc::new(Instruments {
                duration: seconds("db.client.operation.duration", "Time of a call"),
                returned_rows,
                partition_delay: seconds(
                    "tavola.client.partition_delay",
                    "Time that attempts waited for a throttled partition",
                ),
                retries: counter("tavola.client.retries", "Attempts that were repeated"),
                throttled: counter("tavola.client.throttled", "Attempts refused for capacity"),
                unknown_outcomes: counter(
                    "tavola.client.unknown_outcomes",
                    "Writes of which nobody knows whether they were applied",
                ),
                modify_conflicts: counter(
                    "tavola.client.modify_conflicts",
                    "Changes that were begun anew because somebody else was faster",
                ),
                common,
                per_table: options.metrics_per_table,
            }))
        }

        fn labels(&self, table: Option<&TableName>) -> Vec<KeyValue> {
            let mut labels = self.0.common.clone();
            if let Some(table) = table.filter(|_| self.0.per_table) {
                labels.push(KeyValue::new("db.collection.name", table.to_string()));
            }
            labels
        }

        pub(in crate::engine) fn called(&self, call: &Called<'_>) {
            let mut labels = self.labels(call.table);
            labels.push(KeyValue::new("db.operation.name", call.operation));
            if let Some(rows) = call.rows {
                self.0.returned_rows.record(rows as u64, &labels);
            }
            if let Some(status) = call.status {
                labels.push(KeyValue::new("db.response.status_code", status.to_string()));
            }
            if let Some(error) = call.error {
                labels.push(KeyValue::new("error.type", error.to_owned()));
            }
            self.0.duration.record(call.elapsed.as_secs_f64(), &labels);
        }

        pub(crate) fn count(&self, what: Count, table: Option<&TableName>) {
            let counter = match what {
                Count::Retry => &self.0.retries,
                Count::Throttled => &self.0.throttled,
                Count::UnknownOutcome => &self.0.unknown_outcomes,
                Count::ModifyConflict => &self.0.modify_conflicts,
            };
            counter.add(1, &self.labels(table));
        }

        pub(in crate::engine) fn delayed(&self, delay: Duration, table: Option<&TableName>) {
            self.0.partition_delay.record(delay.as_secs_f64(), &self.labels(table));
        }
    }
}
