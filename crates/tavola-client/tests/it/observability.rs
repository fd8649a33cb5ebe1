//! What others see of calls: spans, numbers and headers, and that nothing secret is in them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, Once};

use futures_util::TryStreamExt as _;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use tavola_client::{
    ClientOptions, Credential, DynEntity, Mode, Retry, TableClient, TableServiceClient, prop,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::common::{Fate, losing, person, table};
use super::http::{answer, client, not_found, server};

/// A span with all that was recorded of it.
#[derive(Debug, Clone)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Entries>>);

/// Spans by their ids, and events.
type Entries = (BTreeMap<u64, Seen>, Vec<String>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// The subscriber of the process: with one for each test, `tracing` would remember that nobody
/// listened when a test without one came first. What a thread does goes to the log that it began.
struct ByThread;

thread_local! {
    static CURRENT: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl ByThread {
    fn change(change: impl FnOnce(&mut Entries)) {
        let log = CURRENT.with_borrow(Clone::clone);
        if let Some(log) = log {
            change(&mut log.0.lock().unwrap());
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ByThread {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context.span(id).and_then(|span| span.parent());
        let parent = parent.map(|span| span.id().into_u64());
        let name = attributes.metadata().name();
        let mut seen = Seen { name, parent, fields: BTreeMap::new() };
        attributes.record(&mut Fields(&mut seen.fields));
        Self::change(|(spans, _)| drop(spans.insert(id.into_u64(), seen)));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        Self::change(|(spans, _)| {
            if let Some(span) = spans.get_mut(&id.into_u64()) {
                values.record(&mut Fields(&mut span.fields));
            }
        });
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let text = format!("{} {fields:?}", event.metadata().target());
        Self::change(|(_, events)| events.push(text));
    }
}

impl Log {
    /// Logs what this thread does from now on; a test has a thread of its own.
    fn begin() -> Self {
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            tracing::subscriber::set_global_default(Registry::default().with(ByThread)).unwrap();
        });
        let log = Self::default();
        CURRENT.set(Some(log.clone()));
        log
    }

    fn spans(&self, name: &str) -> Vec<Seen> {
        let log = self.0.lock().unwrap();
        log.0.values().filter(|span| span.name == name).cloned().collect()
    }

    fn text(&self) -> String {
        format!("{:?}", self.0.lock().unwrap())
    }
}

fn page() -> Option<String> {
    let row = |row: &str| {
        format!(
            "{{\"PartitionKey\":\"Smith\",\"RowKey\":\"{row}\",\"Timestamp\":\"2026-11-16T00:05:27Z\"}}"
        )
    };
    let body = format!("{{\"value\":[{},{}]}}", row("1"), row("2"));
    answer("200 OK", "x-ms-request-id: second\r\ncontent-type: application/json\r\n", &body)
}

fn busy() -> Option<String> {
    let body = "{\"odata.error\":{\"code\":\"ServerBusy\",\"message\":{\"lang\":\"en-US\",\"value\":\"busy\"}}}";
    answer("503 Busy", "x-ms-request-id: first\r\ncontent-type: application/json\r\n", body)
}

/// The names without those that only OpenTelemetry's bridge reads.
fn names(span: &Seen) -> BTreeSet<&str> {
    span.fields.keys().map(String::as_str).filter(|name| !name.starts_with("otel.")).collect()
}

#[tokio::test]
async fn a_call_is_a_span_and_each_attempt_one_inside_it() {
    let log = Log::begin();
    let (address, _) = server(vec![busy(), page()]).await;
    let table = client(&address, ClientOptions::default());
    let smiths = table.filter::<DynEntity>(prop("PartitionKey").eq("Smith"));
    let rows: Vec<_> = smiths.client_request_id("mine").stream().try_collect().await.unwrap();
    assert_eq!(rows.len(), 2);

    let [call] = &log.spans("table call")[..] else { panic!("{log:?}") };
    let port = address.rsplit(':').next().unwrap();
    for (name, value) in [
        ("otel.name", "query people"),
        ("otel.kind", "client"),
        ("db.system.name", "azure.tables"),
        ("db.namespace", "account"),
        ("db.collection.name", "people"),
        ("db.operation.name", "query"),
        ("db.response.status_code", "200"),
        ("db.response.returned_rows", "2"),
        ("server.address", "127.0.0.1"),
        ("server.port", port),
        ("az.client_request_id", "mine"),
        ("az.service_request.id", "second"),
        ("tavola.access", "partition_scan"),
    ] {
        assert_eq!(call.fields.get(name).map(String::as_str), Some(value), "{name}: {call:?}");
    }
    assert!(!call.fields.contains_key("error.type"), "{call:?}");
    let attempts = log.spans("attempt");
    let field = |name: &str| -> Vec<_> {
        attempts.iter().map(|span| span.fields.get(name).map(String::as_str)).collect()
    };
    assert_eq!(field("http.request.resend_count"), [Some("0"), Some("1")]);
    assert_eq!(field("db.response.status_code"), [Some("503"), Some("200")]);
    assert_eq!(field("az.service_request.id"), [Some("first"), Some("second")]);
    assert_eq!(field("error.type"), [Some("ServerBusy"), None]);
    assert_eq!(field("otel.name"), [Some("query people"); 2]);
    let parents: BTreeSet<_> = attempts.iter().map(|span| span.parent).collect();
    assert_eq!(parents.len(), 1);
    assert!(parents.first().unwrap().is_some());
}

/// Exactly the attributes that are documented, and no other.
#[tokio::test]
async fn attributes_are_the_documented_ones() {
    let log = Log::begin();
    let (store, _) = table().await;
    let (_, people) = losing(&store, &[Fate::LostReply], ClientOptions::default());
    let mut both = people.transaction("Smith");
    both.insert(&person("1", 1)).unwrap().insert(&person("2", 2)).unwrap();
    both.commit().await.unwrap();
    people.insert(&person("1", 1)).await.unwrap_err();
    assert!(people.get::<DynEntity>(("Smith", "3")).await.unwrap().is_none());

    let calls = log.spans("table call");
    let call = |name: &str| calls.iter().find(|span| span.fields["db.operation.name"] == name);
    let transaction = call("transaction").unwrap();
    assert_eq!(transaction.fields["db.operation.batch.size"], "2");
    assert_eq!(transaction.fields["tavola.proof"], "content");
    assert_eq!(call("insert").unwrap().fields["error.type"], "EntityAlreadyExists");
    assert_eq!(call("insert").unwrap().fields["otel.status_code"], "ERROR");
    let get = call("get").unwrap();
    assert!(!get.fields.contains_key("error.type"), "absence is an answer: {get:?}");
    assert_eq!(get.fields["db.response.returned_rows"], "0");
    assert_eq!(get.fields["tavola.access"], "point");
    let documented = BTreeSet::from([
        "db.system.name",
        "db.namespace",
        "db.collection.name",
        "db.operation.name",
        "db.operation.batch.size",
        "db.response.status_code",
        "db.response.returned_rows",
        "error.type",
        "server.address",
        "server.port",
        "az.client_request_id",
        "az.service_request.id",
        "http.request.resend_count",
        "tavola.access",
        "tavola.proof",
    ]);
    for span in calls.iter().chain(&log.spans("attempt")) {
        assert!(names(span).is_subset(&documented), "{span:?}");
    }
}

/// Every kind of call, each of them with keys, values, filters and a signature that say `hush`.
async fn secret_calls(table: &TableClient) {
    let mut hush = DynEntity::new("hushpartition", "hushrow");
    hush.set("Name", "hushvalue");
    let _ = table.insert(&hush).await;
    let _ = table.upsert(&hush, Mode::Merge).await;
    let _ = table.get::<DynEntity>(("hushpartition", "hushrow")).await;
    let _ =
        table.modify::<DynEntity>(("hushpartition", "hushrow"), |one| drop(one.set("A", 1))).await;
    let mut transaction = table.transaction("hushpartition");
    transaction.insert(&hush).unwrap();
    let _ = transaction.commit().await;
    let filter = || prop("Name").eq("hushvalue").and(prop("PartitionKey").eq("hushpartition"));
    let _ = table.filter::<DynEntity>(filter()).stream().try_next().await;
    let _ = table.filter::<DynEntity>(filter()).deny_scans().stream().try_next().await;
    let _ = table.delete_where::<DynEntity>(filter()).run().await;
    let _ = table.bulk().insert_all([hush]).await;
}

/// No key, filter, value or signature is in a span or an event, whatever fails.
#[tokio::test]
async fn nothing_secret_is_seen() {
    let log = Log::begin();
    let (store, plain) = table().await;
    secret_calls(&plain).await;
    for fate in [Fate::LostReply, Fate::LostRequest, Fate::NotSent] {
        let options = ClientOptions::default().retry(Retry::none());
        secret_calls(&losing(&store, &[fate; 3], options).1).await;
    }
    for credential in
        [Credential::key("account", "aHVzaA=="), Credential::sas("sv=1&sig=hushsignature")]
    {
        let html = answer("200 OK", "content-type: text/html\r\n", "<html>");
        let answers = [None, busy(), html, not_found(), page(), None, not_found(), page()];
        let (address, _) = server([&answers[..]; 4].concat()).await;
        let options = ClientOptions::default().retry(Retry::none());
        let url = format!("{address}/account");
        let service = TableServiceClient::new(&url, Some(credential), Some(options)).unwrap();
        secret_calls(&service.table_client("people")).await;
    }
    let seen = log.text();
    assert!(log.spans("table call").len() > 40, "{}", log.spans("table call").len());
    assert!(seen.contains("attempt failed"));
    for secret in ["hush", "aHVzaA"] {
        let at = seen.find(secret);
        assert!(at.is_none(), "…{}", &seen[at.unwrap_or(0).saturating_sub(300)..][..400]);
    }
}

/// The service learns which trace a request is of; without one it is told nothing.
#[tokio::test]
async fn the_trace_context_is_sent() {
    let (address, heads) = server(vec![not_found(), not_found()]).await;
    let table = client(&address, ClientOptions::default());
    table.get::<DynEntity>(("p", "r")).await.unwrap();
    {
        let span = SpanContext::new(
            TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap(),
            SpanId::from_hex("b7ad6b7169203331").unwrap(),
            TraceFlags::SAMPLED,
            false,
            TraceState::from_key_value([("shop", "1")]).unwrap(),
        );
        let context = opentelemetry::Context::current().with_remote_span_context(span);
        let _current = context.attach();
        table.get::<DynEntity>(("p", "r")).await.unwrap();
    }
    let heads = heads.lock().unwrap();
    assert!(!heads[0].1.contains("traceparent"), "{}", heads[0].1);
    let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    assert!(heads[1].1.contains(parent), "{}", heads[1].1);
    assert!(heads[1].1.contains("tracestate: shop=1\r\n"), "{}", heads[1].1);
}

/// Sums and counts of what was measured about one table, by name, with what labels it.
fn measured(exporter: &InMemoryMetricExporter, table: &str) -> BTreeMap<String, (u64, String)> {
    let mut all = BTreeMap::new();
    let mut add = |name: &str, count: u64, labels: Vec<String>| {
        if labels.contains(&format!("db.collection.name={table}")) {
            let one: &mut (u64, String) = all.entry(name.to_owned()).or_default();
            one.0 += count;
            one.1 += &labels.join(" ");
        }
    };
    let finished = exporter.get_finished_metrics().unwrap();
    let metrics = finished.last().into_iter().flat_map(|resource| resource.scope_metrics());
    for metric in metrics.flat_map(|scope| scope.metrics()) {
        macro_rules! labels {
            ($point:expr) => {
                $point.attributes().map(|label| format!("{}={}", label.key, label.value)).collect()
            };
        }
        match metric.data() {
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => histogram
                .data_points()
                .for_each(|point| add(metric.name(), point.count(), labels!(point))),
            AggregatedMetrics::U64(MetricData::Histogram(histogram)) => histogram
                .data_points()
                .for_each(|point| add(metric.name(), point.sum(), labels!(point))),
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points()
                    .for_each(|point| add(metric.name(), point.value(), labels!(point)));
            }
            other => panic!("{}: {other:?}", metric.name()),
        }
    }
    all
}

#[tokio::test]
async fn calls_are_counted_and_timed() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    opentelemetry::global::set_meter_provider(provider.clone());

    let (address, _) = server(vec![busy(), page(), not_found(), None, None]).await;
    let url = format!("{address}/account");
    let credential = Credential::key("account", "a2V5");
    let options = ClientOptions::default().metrics_per_table();
    let service = TableServiceClient::new(&url, Some(credential), Some(options)).unwrap();
    let table = service.table_client("hushhush");
    let rows: Vec<_> = table.scan::<DynEntity>().stream().try_collect().await.unwrap();
    assert_eq!(rows.len(), 2);
    assert!(table.get::<DynEntity>(("hushkey", "hushkey")).await.unwrap().is_none());
    let report = tavola_client::OnUnknown::Report;
    table.insert(&DynEntity::new("hushkey", "1")).on_unknown(report).await.unwrap_err();
    provider.force_flush().unwrap();

    let measured = measured(&exporter, "hushhush");
    let count = |name: &str| measured.get(name).map(|(count, _)| *count);
    assert_eq!(count("db.client.operation.duration"), Some(3));
    assert_eq!(count("db.client.response.returned_rows"), Some(2));
    assert_eq!(count("tavola.client.retries"), Some(1));
    assert_eq!(count("tavola.client.throttled"), Some(1));
    assert_eq!(count("tavola.client.unknown_outcomes"), Some(1));
    let (_, labels) = &measured["db.client.operation.duration"];
    for label in [
        "db.system.name=azure.tables",
        "db.namespace=account",
        "db.operation.name=query",
        "db.operation.name=get",
        "db.response.status_code=200",
        "error.type=unknown_outcome",
        "server.address=127.0.0.1",
    ] {
        assert!(labels.contains(label), "{label}: {labels}");
    }
    assert!(!format!("{measured:?}").contains("hushkey"));

    // Without `metrics_per_table` no table is named.
    let (store, _) = super::common::table().await;
    let quiet = TableServiceClient::on(store, None).table_client("unnamedtable");
    quiet.create().await.unwrap();
    provider.force_flush().unwrap();
    assert!(!format!("{:?}", exporter.get_finished_metrics().unwrap()).contains("unnamedtable"));
}
