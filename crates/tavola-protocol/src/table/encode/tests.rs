//! What one side writes the other reads: every kind of request there and every kind of answer back.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Request;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tavola_core::cors::CorsRule;
use tavola_core::filter::Comparison;
use tavola_core::properties::{Logging, Metrics, Retention, ServicePropertiesChange};
use tavola_core::reply::{BoxedEntity, OperationReply};
use tavola_core::request::{Continuation, EntityQuery, Misaddressed, Select, TablesQuery};
use tavola_core::{
    AccessPolicy, AccountName, DateTime, DomainError, ETag, EdmValue, Entity,
    EntityGroupTransaction, EntityKey, EntityOperation, FailedOperation, Filter, Guid, NewEntity,
    PartitionKey, Precondition, Properties, PropertyName, RowKey, ServiceKind, ServiceProperties,
    TableName, TableReply, TableRequest, Timestamp,
};

use super::{NextPage, Style, encode_request};
use crate::address::{AddressRules, locate};
use crate::auth::{
    AccountKey, AccountKeys, AuthContext, Caller, Precedence, Scheme, authenticate, sign_request,
};
use crate::response::ResponseHead;
use crate::table::decode::{DecodeError, Decoded, decode_reply};
use crate::table::entity_json::MetadataLevel;
use crate::table::format::{Prefer, ResponseFormat, TableContext};
use crate::table::{parse_request, render_error, render_reply};

const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const BASES: [&str; 3] =
    ["http://127.0.0.1:10002/acct", "http://acct.table.test", "http://localhost/acct-secondary"];

fn format(level: MetadataLevel, prefer: Option<Prefer>, select: Select) -> ResponseFormat {
    ResponseFormat { level, prefer, select }
}

fn usual() -> ResponseFormat {
    format(MetadataLevel::Minimal, None, Select::All)
}

fn style<'a>(base: &'a str, format: &'a ResponseFormat) -> Style<'a> {
    Style { base, format, page: None, boundary_ids: ["b-1", "c-2"] }
}

/// The way of a request through the server, up to where the service would carry it out.
fn served(request: &Request<Bytes>) -> (TableRequest, TableContext) {
    let (parts, body) = request.clone().into_parts();
    let rules = AddressRules { path_style_only: false, scheme: "http" };
    let address = locate(&parts, &rules, &|name| name == "acct").map(Arc::new).unwrap();
    let mut context = TableContext::of(&parts, Some(&address));
    let parsed = parse_request(&parts, &body, &address, &mut context);
    (parsed.unwrap_or_else(|table_error| panic!("{table_error:?} for {request:?}")), context)
}

fn table_name() -> impl Strategy<Value = TableName> {
    "[A-Za-z][A-Za-z0-9]{2,62}".prop_filter_map("reserved", |name| TableName::parse(&name).ok())
}

fn key_text() -> impl Strategy<Value = String> {
    let any_char = any::<char>()
        .prop_filter("no key has it", |character| !tavola_core::key::is_forbidden(*character));
    let characters =
        prop_oneof![3 => any_char, 1 => Just('\''), 1 => Just('%'), 1 => Just('+'), 1 => Just(' ')];
    vec(characters, 0..12).prop_map(String::from_iter)
}

fn partition_key() -> impl Strategy<Value = PartitionKey> {
    key_text().prop_map(|text| PartitionKey::new(text).unwrap())
}

fn row_key() -> impl Strategy<Value = RowKey> {
    key_text().prop_map(|text| RowKey::new(text).unwrap())
}

fn date_time() -> impl Strategy<Value = DateTime> {
    (0..=DateTime::MAX.ticks()).prop_map(|ticks| DateTime::from_ticks(ticks).unwrap())
}

fn value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        any::<String>().prop_map(EdmValue::String),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        any::<f64>().prop_map(EdmValue::double),
        any::<bool>().prop_map(EdmValue::Boolean),
        date_time().prop_map(EdmValue::DateTime),
        any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(Guid::from_bytes(bytes))),
        vec(any::<u8>(), 0..20).prop_map(EdmValue::Binary),
    ]
}

fn properties() -> impl Strategy<Value = Properties> {
    proptest::collection::btree_map("[A-Z][a-z0-9_]{0,8}", value(), 0..6).prop_filter_map(
        "a system name",
        |map| {
            let named =
                map.into_iter().map(|(name, value)| (PropertyName::new(name).unwrap(), value));
            Properties::new(named.collect()).ok()
        },
    )
}

fn precondition() -> impl Strategy<Value = Precondition> {
    let tag =
        "[Ww]/\"[!#-~]{0,20}\"".prop_map(|text| Precondition::Version(ETag::parse(&text).unwrap()));
    prop_oneof![Just(Precondition::None), Just(Precondition::Exists), tag]
}

/// What can be said on the wire: a delete always has a condition there.
fn operation(
    partition_key: PartitionKey,
    row_key: RowKey,
) -> impl Strategy<Value = EntityOperation> {
    let key = EntityKey::new(partition_key, row_key.clone());
    (0..4, properties(), precondition()).prop_map(move |(kind, properties, wanted)| {
        let (_, new) = NewEntity::new(key.clone(), properties).unwrap();
        match (kind, wanted) {
            (0, _) => EntityOperation::Insert(new),
            (1, wanted) => EntityOperation::Replace(new, wanted),
            (2, wanted) => EntityOperation::Merge(new, wanted),
            (_, Precondition::None) => {
                EntityOperation::Delete(row_key.clone(), Precondition::Exists)
            }
            (_, wanted) => EntityOperation::Delete(row_key.clone(), wanted),
        }
    })
}

fn transaction() -> impl Strategy<Value = EntityGroupTransaction> {
    let rows = proptest::collection::btree_set(row_key(), 1..8);
    (partition_key(), rows).prop_flat_map(|(partition_key, rows)| {
        let operations: Vec<_> =
            rows.into_iter().map(|row| operation(partition_key.clone(), row)).collect();
        operations.prop_map(move |operations| {
            let keyed = operations.into_iter().map(|operation| (partition_key.clone(), operation));
            EntityGroupTransaction::new(keyed.collect()).unwrap()
        })
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    let name = || "[A-Z][a-z0-9_]{0,8}";
    let comparison = proptest::sample::select(&Comparison::ALL[..]);
    let compare = (name(), comparison, value()).prop_map(|(property, comparison, constant)| {
        Filter::Compare { property, comparison, constant }
    });
    let bare =
        prop_oneof![any::<bool>().prop_map(Filter::Constant), name().prop_map(Filter::Property)];
    let leaf = prop_oneof![4 => compare, 2 => bare];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(Filter::And),
            vec(inner.clone(), 2..4).prop_map(Filter::Or),
            inner.prop_map(|term| Filter::Not(Box::new(term))),
        ]
    })
}

fn policies() -> impl Strategy<Value = Vec<AccessPolicy>> {
    let terms = (
        option::of(date_time()),
        option::of(date_time()),
        option::of("r?a?u?d".prop_map(String::from)),
    );
    proptest::collection::btree_map("[a-zA-Z0-9+/=<&]{1,64}", terms, 0..=5).prop_map(|map| {
        let policy =
            |(id, (start, expiry, permission))| AccessPolicy { id, start, expiry, permission };
        map.into_iter().map(policy).collect()
    })
}

fn retention() -> impl Strategy<Value = Retention> {
    option::of(1..=365_u16).prop_map(|days| Retention { days })
}

fn logging() -> impl Strategy<Value = Logging> {
    (any::<[bool; 3]>(), retention()).prop_map(|([delete, read, write], retention)| Logging {
        version: "1.0".to_owned(),
        delete,
        read,
        write,
        retention,
    })
}

fn metrics() -> impl Strategy<Value = Metrics> {
    (option::of(any::<bool>()), retention()).prop_map(|(include_apis, retention)| Metrics {
        version: "1.0".to_owned(),
        enabled: include_apis.is_some(),
        include_apis,
        retention,
    })
}

fn cors_rules() -> impl Strategy<Value = Vec<CorsRule>> {
    let headers = || vec("x-[a-z&<]{1,5}", 0..3);
    let rule = (vec("http://[a-z]{1,9}", 1..3), headers(), headers(), any::<u32>());
    let rule =
        rule.prop_map(|(allowed_origins, allowed_headers, exposed_headers, max_age_seconds)| {
            CorsRule {
                allowed_origins,
                allowed_methods: vec!["GET".to_owned(), "MERGE".to_owned()],
                allowed_headers,
                exposed_headers,
                max_age_seconds,
            }
        });
    vec(rule, 0..=5)
}

fn change() -> impl Strategy<Value = ServicePropertiesChange> {
    let groups = (
        option::of(logging()),
        option::of(metrics()),
        option::of(metrics()),
        option::of(cors_rules()),
    );
    groups.prop_map(|(logging, hour_metrics, minute_metrics, cors)| ServicePropertiesChange {
        logging,
        hour_metrics,
        minute_metrics,
        cors,
    })
}

fn entity_query() -> impl Strategy<Value = EntityQuery> {
    let from = (partition_key(), option::of(row_key()))
        .prop_map(|(partition_key, row_key)| Continuation { partition_key, row_key });
    (option::of(filter()), option::of(0..=1000_usize), option::of(from))
        .prop_map(|(filter, top, from)| EntityQuery { filter, top, from })
}

fn tables_query() -> impl Strategy<Value = TablesQuery> {
    (option::of(filter()), option::of(0..=1000_usize), option::of(table_name()))
        .prop_map(|(filter, top, from)| TablesQuery { filter, top, from })
}

fn request() -> impl Strategy<Value = TableRequest> {
    let write = (partition_key(), row_key()).prop_flat_map(|(partition_key, row_key)| {
        operation(partition_key.clone(), row_key)
            .prop_map(move |operation| (partition_key.clone(), operation))
    });
    prop_oneof![
        table_name().prop_map(TableRequest::CreateTable),
        tables_query().prop_map(TableRequest::QueryTables),
        table_name().prop_map(TableRequest::GetTable),
        table_name().prop_map(TableRequest::DeleteTable),
        table_name().prop_map(TableRequest::GetPolicies),
        (table_name(), policies())
            .prop_map(|(table, policies)| TableRequest::SetPolicies(table, policies)),
        (table_name(), partition_key(), row_key()).prop_map(|(table, partition_key, row_key)| {
            TableRequest::GetEntity(table, EntityKey { partition_key, row_key })
        }),
        (table_name(), entity_query())
            .prop_map(|(table, query)| TableRequest::QueryEntities(table, query)),
        (table_name(), write)
            .prop_map(|(table, (key, operation))| TableRequest::Write(table, key, operation)),
        (table_name(), transaction())
            .prop_map(|(table, group)| TableRequest::Transaction(table, group)),
        Just(TableRequest::GetServiceProperties),
        change().prop_map(TableRequest::SetServiceProperties),
        Just(TableRequest::GetServiceStats),
        (
            table_name(),
            prop::sample::select(vec![Misaddressed::CreateTable, Misaddressed::DeleteTable])
        )
            .prop_map(|(table, what)| TableRequest::Misaddressed(table, what)),
        Just(TableRequest::GetMetadata),
    ]
}

proptest! {
    /// Statements 254, 255.
    #[test]
    fn the_server_understands_what_the_client_asks(request in request(), base in 0..BASES.len()) {
        // Stats are the secondary's to tell.
        let base = if request == TableRequest::GetServiceStats { BASES[2] } else { BASES[base] };
        let format = usual();
        let encoded = encode_request(&request, &style(base, &format)).unwrap();
        prop_assert_eq!(served(&encoded).0, request);
    }

    /// Statement 256.
    #[test]
    fn the_server_grants_what_the_client_signs(request in request(), base in 0..BASES.len(), lite in any::<bool>()) {
        let format = usual();
        let mut encoded = encode_request(&request, &style(BASES[base], &format)).unwrap();
        let account = AccountName::parse("acct").unwrap();
        let scheme = if lite { Scheme::SharedKeyLite } else { Scheme::SharedKey };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        sign_request(&mut encoded, scheme, &account, &AccountKey::parse(KEY).unwrap(), now);
        let (parts, _) = encoded.into_parts();
        let rules = AddressRules { path_style_only: false, scheme: "http" };
        let address = locate(&parts, &rules, &|name| name == "acct").unwrap();
        let keys = AccountKeys::parse(KEY, None).unwrap();
        let caller = Caller { ip: [127, 0, 0, 1].into(), https: false };
        let service = ServiceKind::Table;
        let auth = AuthContext { service, keys: &keys, challenge: "", caller, now, precedence: Precedence::Header };
        prop_assert!(authenticate(&parts, &address, &auth).is_ok());
    }

    #[test]
    fn no_answer_makes_the_client_panic(
        request in request(),
        status in 100..600_u16,
        content_type in prop_oneof!["[ -~]{0,30}", Just("multipart/mixed; boundary=b".to_owned())],
        body in prop_oneof![vec(any::<u8>(), 0..60), "[<>&;a-z\\-\r\n:{}\"/ .0-9HTP]{0,60}".prop_map(String::into_bytes)],
    ) {
        let response = http::Response::builder().status(status).header("content-type", content_type);
        if let Ok(response) = response.body(Bytes::from(body)) {
            let _ = decode_reply(&request, &response);
        }
    }
}

#[test]
fn wishes_travel_too() {
    let format = format(
        MetadataLevel::None,
        Some(Prefer::ReturnNoContent),
        Select::Names(vec!["a".into(), "b".into()]),
    );
    let style = style(BASES[0], &format);
    let table = || TableName::parse("Tab").unwrap();
    let query = TableRequest::QueryEntities(table(), EntityQuery::default());
    let context = served(&encode_request(&query, &style).unwrap()).1;
    assert_eq!(context.format, ResponseFormat { prefer: None, ..format.clone() });
    let create = TableRequest::CreateTable(table());
    let context = served(&encode_request(&create, &style).unwrap()).1;
    assert_eq!(context.format, ResponseFormat { select: Select::All, ..format.clone() });
    // A page that the service named is asked for in its own words.
    let page = NextPage { partition_key: Some("1!4!cA--".to_owned()), ..NextPage::default() };
    let (request, _) =
        served(&encode_request(&query, &Style { page: Some(&page), ..style }).unwrap());
    let TableRequest::QueryEntities(_, query) = request else { panic!("a query") };
    let from = Continuation { partition_key: PartitionKey::new("p").unwrap(), row_key: None };
    assert_eq!(query.from, Some(from));
}

/// Asks, lets `answer` be the service, and reads what comes back.
fn answered(request: &TableRequest, answer: &TableReply) -> Result<Decoded, DecodeError> {
    let format = usual();
    let (_, context) = served(&encode_request(request, &style(BASES[2], &format)).unwrap());
    let response_head = ResponseHead { request_id: "id", now: DateTime::MIN, context: &context };
    decode_reply(request, &render_reply(answer, &response_head))
}

fn entity(row_key: &str) -> Entity {
    let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new(row_key).unwrap());
    let count = (PropertyName::new("Count").unwrap(), EdmValue::Int64(5));
    let timestamp = Timestamp::from_ticks(132_491_965_933_773_350).unwrap();
    Entity { key, timestamp, properties: Properties::new(vec![count]).unwrap() }
}

#[test]
fn the_client_reads_what_the_server_answers() {
    let table = || TableName::parse("Tab").unwrap();
    let stored = entity("r");
    let tag = Some(ETag::of(stored.timestamp));
    let (pk, new) = NewEntity::new(stored.key.clone(), stored.properties.clone()).unwrap();
    let insert = EntityOperation::Insert(new.clone());
    let write = TableRequest::Write(table(), pk.clone(), insert.clone());
    let group = || {
        let delete = EntityOperation::Delete(RowKey::new("s").unwrap(), Precondition::Exists);
        EntityGroupTransaction::new(vec![(pk.clone(), insert.clone()), (pk.clone(), delete)])
            .unwrap()
    };
    let done = |etag| Ok(Decoded::Done(etag));
    assert_eq!(
        answered(&TableRequest::CreateTable(table()), &TableReply::TableCreated(table())),
        done(None)
    );
    assert_eq!(
        answered(&TableRequest::DeleteTable(table()), &TableReply::TableDeleted),
        done(None)
    );
    let inserted = || OperationReply::Inserted(stored.clone());
    assert_eq!(answered(&write, &TableReply::Written(table(), inserted())), done(tag.clone()));
    let both = TableReply::TransactionDone(table(), vec![inserted(), OperationReply::Deleted]);
    let transaction = TableRequest::Transaction(table(), group());
    assert_eq!(
        answered(&transaction, &both),
        Ok(Decoded::TransactionDone(vec![tag.clone(), None]))
    );
    let one_short = TableReply::TransactionDone(table(), vec![inserted()]);
    assert_eq!(answered(&transaction, &one_short), Err(DecodeError::Malformed));

    let get = TableRequest::GetEntity(table(), stored.key.clone());
    let Ok(Decoded::Entity(read)) =
        answered(&get, &TableReply::Entity(table(), Box::new(stored.clone())))
    else {
        panic!("an entity")
    };
    assert_eq!(
        (read.etag, read.timestamp, read.properties),
        (tag, Some(stored.timestamp), stored.properties.clone())
    );

    let query = TableRequest::QueryEntities(table(), EntityQuery::default());
    let next = Continuation { partition_key: pk.clone(), row_key: None };
    let entities: Vec<BoxedEntity> = vec![Box::new(stored.clone())];
    let page = TableReply::Entities { table: table(), entities, next: Some(next) };
    let Ok(Decoded::Entities(read, next)) = answered(&query, &page) else { panic!("a page") };
    assert_eq!(read.len(), 1);
    assert_eq!(
        next,
        Some(NextPage { partition_key: Some("1!4!cA--".to_owned()), ..NextPage::default() })
    );

    let names = TableReply::Tables { names: vec![table()], next: None };
    let tables = TableRequest::QueryTables(TablesQuery::default());
    assert_eq!(answered(&tables, &names), Ok(Decoded::Tables(vec!["Tab".to_owned()], None)));
    let table_request = TableRequest::GetTable(table());
    assert_eq!(
        answered(&table_request, &TableReply::Table(table())),
        Ok(Decoded::Table("Tab".to_owned()))
    );
    let properties = ServiceProperties::default();
    assert_eq!(
        answered(
            &TableRequest::GetServiceProperties,
            &TableReply::ServiceProperties(properties.clone())
        ),
        Ok(Decoded::ServiceProperties(properties))
    );
    assert_eq!(
        answered(&TableRequest::GetPolicies(table()), &TableReply::Policies(vec![])),
        Ok(Decoded::Policies(vec![]))
    );
}

/// Statement 258.
/// Statement 258.
#[test]
fn the_client_reads_refusals() {
    let table = || TableName::parse("Tab").unwrap();
    let refused = |request: &TableRequest, table_error| {
        let format = usual();
        let (_, context) = served(&encode_request(request, &style(BASES[0], &format)).unwrap());
        let response_head =
            ResponseHead { request_id: "id", now: DateTime::MIN, context: &context };
        match decode_reply(request, &render_error(&table_error, &response_head)) {
            Err(DecodeError::Service(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let error = refused(&TableRequest::GetTable(table()), DomainError::ResourceNotFound.into());
    assert_eq!(
        (error.status.as_u16(), error.code.as_str(), error.operation),
        (404, "ResourceNotFound", None)
    );
    assert!(error.message.starts_with("The specified resource does not exist.\nRequestId:id"));
    let error = refused(&TableRequest::GetPolicies(table()), DomainError::ResourceNotFound.into());
    assert_eq!((error.status.as_u16(), error.code.as_str()), (404, "ResourceNotFound"));
    let pk = PartitionKey::new("p").unwrap();
    let delete = EntityOperation::Delete(RowKey::new("s").unwrap(), Precondition::Exists);
    let group = TableRequest::Transaction(table(), EntityGroupTransaction::single(pk, delete));
    let failed = FailedOperation { index: 7, domain_error: DomainError::ConditionNotMet };
    let error = refused(&group, failed.into());
    assert_eq!((error.status.as_u16(), error.operation), (412, Some(7)));
    assert!(error.message.starts_with("The update condition"), "{}", error.message);
}
