//! Requests, entities and rows as they come from clients. They are the same in every run.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request};
use tavola_core::{
    AccountName, DateTime, EdmValue, EntityOperation, NewEntity, PartitionKey, Properties,
    PropertyName, TableName, TableRequest, Timestamp,
};
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tavola_protocol::table::TableContext;
use tavola_protocol::table::parse_request;
use tavola_protocol::{Address, AddressRules, locate};
use tavola_store::Row;

use crate::failure::{Result, refused};

pub(super) const ACCOUNT: &str = "devstoreaccount1";
pub(super) const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Another key is tried for every signature, so an account with two is the usual case.
pub(super) const OTHER_KEY: &str = "b3RoZXIga2V5IG9mIHRoZSBkZXZlbG9wbWVudCBhY2NvdW50";
pub(super) const TABLE: &str = "Measured";
const HOST: &str = "127.0.0.1:10002";

/// When requests come whose date nobody compares with the machine's clock, since 1970.
pub(super) const NOW: Duration = Duration::from_secs(1_794_787_527);

/// JSON bytes of an entity, as those of the benchmarks.
const ENTITY_BYTES: usize = 500;
const ROWS_PER_PARTITION: usize = 1_000;

/// What is asked, and how the answer is to be written: all that the handler does from the head and
/// the body on, but for the credentials.
pub(super) fn understand(parts: &Parts, body: &Bytes) -> Result<(TableRequest, TableContext)> {
    let address = Arc::new(locate_account(parts)?);
    let mut context = TableContext::of(parts, Some(&address));
    let request = parse_request(parts, body, &address, &mut context);
    Ok((request.map_err(|api_error| refused("a request")(&api_error))?, context))
}

/// How the answer to a request is to be written.
pub(super) fn context(request: Request<Bytes>) -> Result<TableContext> {
    let (parts, body) = request.into_parts();
    understand(&parts, &body).map(|(_, context)| context)
}

pub(super) fn locate_account(parts: &Parts) -> Result<Address> {
    let rules = AddressRules { path_style_only: false, scheme: "http" };
    locate(parts, &rules, &|name| name == ACCOUNT)
        .map_err(|api_error| refused("an address")(&api_error))
}

pub(super) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + NOW
}

pub(super) fn account() -> Result<AccountName> {
    AccountName::parse(ACCOUNT).ok_or_else(|| "an account's name".into())
}

pub(super) fn key() -> Result<AccountKey> {
    Ok(AccountKey::parse(KEY)?)
}

pub(super) fn table() -> Result<TableName> {
    TableName::parse(TABLE).map_err(|domain_error| refused("a table's name")(&domain_error))
}

fn partition_key(index: usize) -> String {
    format!("p{:06}", index / ROWS_PER_PARTITION)
}

fn row_key(index: usize) -> String {
    format!("r{index:09}")
}

/// What follows the table in the path of a point request.
pub(super) fn predicate(index: usize) -> String {
    format!("(PartitionKey='{}',RowKey='{}')", partition_key(index), row_key(index))
}

/// An entity with a property of every usual type, and a text that fills it up.
pub(super) fn entity_text(index: usize) -> String {
    let mut text = format!(
        r#"{{"PartitionKey":"{}","RowKey":"{}","Count":123456,"Active":true,"Price":19.99,"Total":"9007199254740993","Total@odata.type":"Edm.Int64","When":"2026-01-02T03:04:05.678Z","When@odata.type":"Edm.DateTime","Text":""#,
        partition_key(index),
        row_key(index)
    );
    let filler_bytes = ENTITY_BYTES - text.len() - r#""}"#.len();
    text.extend(filler(index).take(filler_bytes));
    text.push_str(r#""}"#);
    text
}

/// Letters that do not repeat and need no escaping, by a plain congruential generator.
fn filler(seed: usize) -> impl Iterator<Item = char> {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
    let mut state = seed as u64;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[(state >> 58) as usize])
    })
}

/// A request with the headers of the Python library, not yet signed.
fn draft(method: Method, resource: &str, accept: &str, at: SystemTime) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(format!("/{ACCOUNT}/{resource}"))
        .header("host", HOST)
        .header(
            "user-agent",
            "azsdk-python-data-tables/12.7.0 Python/3.11.7 (Linux-6.1.0-x86_64-with-glibc2.36)",
        )
        .header("accept-encoding", "gzip, deflate")
        .header("accept", accept)
        .header("connection", "keep-alive")
        .header("x-ms-version", "2019-02-02")
        .header("dataserviceversion", "3.0")
        .header("x-ms-client-request-id", "f2e84b70-e1cf-11f1-b04d-02fc00000001")
        .header("date", httpdate::fmt_http_date(at))
}

fn signed(mut request: Request<Bytes>, at: SystemTime) -> Result<Request<Bytes>> {
    sign_request(&mut request, Scheme::SharedKey, &account()?, &key()?, at);
    Ok(request)
}

pub(super) const MINIMAL_METADATA: &str = "application/json;odata=minimalmetadata";

/// A point GET.
pub(super) fn get(index: usize, accept: &str, at: SystemTime) -> Result<Request<Bytes>> {
    let draft = draft(Method::GET, &format!("{TABLE}{}", predicate(index)), accept, at);
    signed(draft.body(Bytes::new())?, at)
}

/// A point GET with a signature in its URL.
pub(super) fn get_with_signature(index: usize, signature: &str) -> Result<Request<Bytes>> {
    let resource = format!("{TABLE}{}?{signature}", predicate(index));
    Ok(draft(Method::GET, &resource, MINIMAL_METADATA, now()).body(Bytes::new())?)
}

/// The first page of a table.
pub(super) fn get_page(at: SystemTime) -> Result<Request<Bytes>> {
    signed(draft(Method::GET, &format!("{TABLE}()"), MINIMAL_METADATA, at).body(Bytes::new())?, at)
}

fn post(
    resource: &str,
    content_type: &str,
    body: String,
    at: SystemTime,
) -> Result<Request<Bytes>> {
    let draft = draft(Method::POST, resource, MINIMAL_METADATA, at);
    let draft = draft.header("content-type", content_type).header("content-length", body.len());
    signed(draft.body(Bytes::from(body))?, at)
}

pub(super) fn create_table(at: SystemTime) -> Result<Request<Bytes>> {
    post("Tables", "application/json;odata=nometadata", format!(r#"{{"TableName":"{TABLE}"}}"#), at)
}

/// An insert whose answer is the entity: the Python library does not ask for less.
pub(super) fn insert(index: usize, at: SystemTime) -> Result<Request<Bytes>> {
    post(TABLE, "application/json;odata=nometadata", entity_text(index), at)
}

/// One batch of inserts into one partition.
pub(super) fn batch(indexes: std::ops::Range<usize>, at: SystemTime) -> Result<Request<Bytes>> {
    const OUTER: &str = "batch_37caa9a3-0950-49e6-b080-c8b4294ee61b";
    const INNER: &str = "changeset_f9ad2b81-032b-41fd-85bb-4a11939fdd1e";
    let date = httpdate::fmt_http_date(at);
    let mut body = format!("--{OUTER}\r\nContent-Type: multipart/mixed; boundary={INNER}\r\n\r\n");
    for (number, index) in indexes.enumerate() {
        let entity = entity_text(index);
        write!(
            body,
            "--{INNER}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {number}\r\n\
             \r\nPOST http://{HOST}/{ACCOUNT}/{TABLE} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             x-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nAccept: {MINIMAL_METADATA}\r\nx-ms-date: {date}\r\n\
             Date: {date}\r\n\r\n{entity}\r\n",
            entity.len()
        )?;
    }
    write!(body, "--{INNER}--\r\n\r\n--{OUTER}--\r\n")?;
    post("$batch", &format!("multipart/mixed; boundary={OUTER}"), body, at)
}

/// The entity of an insert, as it is after parsing.
pub(super) fn new_entity(index: usize) -> Result<(PartitionKey, NewEntity)> {
    let (parts, body) = insert(index, now())?.into_parts();
    match understand(&parts, &body)?.0 {
        TableRequest::Write(_, partition_key, EntityOperation::Insert(new)) => {
            Ok((partition_key, new))
        }
        other => Err(format!("an insert was understood as {other:?}").into()),
    }
}

pub(super) fn timestamp() -> Timestamp {
    Timestamp::new(DateTime::from_unix(NOW))
}

/// An entity as a store holds it.
pub(super) fn row(index: usize) -> Result<Row> {
    let (partition_key, new) = new_entity(index)?;
    Ok(Row::encode(&partition_key, new.row_key(), new.properties(), timestamp()))
}

/// A row with so many numbers, `P000`, `P001` and so on, each 0.
pub(super) fn wide_row(properties: usize) -> Result<Row> {
    let property = |number| {
        let name = PropertyName::new(format!("P{number:03}"))
            .map_err(|domain_error| refused("a name")(&domain_error))?;
        Ok((name, EdmValue::Int32(0)))
    };
    let properties = Properties::new((0..properties).map(property).collect::<Result<_>>()?);
    let properties = properties.map_err(|domain_error| refused("properties")(&domain_error))?;
    let (partition_key, new) = new_entity(0)?;
    Ok(Row::encode(&partition_key, new.row_key(), &properties, timestamp()))
}
