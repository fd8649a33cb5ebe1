//! Answers as HTTP: status, headers and body of each kind.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tavola_core::reply::{BoxedEntity, OperationReply};
use tavola_core::request::Continuation;
use tavola_core::{
    AccessError, DateTime, DomainError, Entity, EntityKey, FailedOperation, PartitionKey, RowKey,
    TableName, TableReply, Timestamp,
};

use super::{render_error, render_reply};
use crate::address::{AddressRules, locate};
use crate::api_error::ApiError;
use crate::response::ResponseHead;
use crate::table::error::TableError;
use crate::table::format::{Envelope, Prefer, ResponseFormat, TableContext};

const ID: &str = "aceccc68-b002-006e-7110-617748000000";
const TAG: &str = "W/\"datetime'2020-11-07T01%3A23%3A13.377335Z'\"";
const JSON: &str = "application/json;odata=minimalmetadata;streaming=true;charset=utf-8";

fn now() -> DateTime {
    DateTime::parse("2020-11-07T01:23:13.377335Z").unwrap()
}

fn table() -> TableName {
    TableName::parse("Tab").unwrap()
}

fn entity(row_key: &str) -> Entity {
    let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new(row_key).unwrap());
    Entity { key, timestamp: Timestamp::new(now()), properties: tavola_core::Properties::default() }
}

fn context(target: &str, headers: &[(&str, &str)]) -> TableContext {
    let mut request = Request::builder().uri(format!("/acct{target}")).header("host", "h:1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let rules = AddressRules { path_style_only: true, scheme: "http" };
    let address = locate(&parts, &rules, &|name| name == "acct").unwrap();
    TableContext::of(&parts, Some(&Arc::new(address)))
}

fn rendered(reply: &TableReply, headers: &[(&str, &str)]) -> Response<Bytes> {
    let context = context("/Tab", headers);
    render_reply(reply, &ResponseHead { request_id: ID, now: now(), context: &context })
}

fn rejected(table_error: &TableError, context: &TableContext) -> Response<Bytes> {
    render_error(table_error, &ResponseHead { request_id: ID, now: now(), context })
}

fn header<'a>(response: &'a Response<Bytes>, name: &str) -> &'a str {
    response.headers().get(name).map_or("-", |value| value.to_str().unwrap())
}

fn text(response: &Response<Bytes>) -> &str {
    std::str::from_utf8(response.body()).unwrap()
}

/// Statements 27, 28, 93 to 95, 105, 156, 157, 177, 179, 235 and 242, as far as they are about the
/// answer's form.
#[test]
fn statuses_and_headers() {
    let inserted = || TableReply::Written(table(), OperationReply::Inserted(entity("a'b\"")));
    let updated = || TableReply::Written(table(), OperationReply::Updated(Timestamp::new(now())));
    let table_url = "http://h:1/acct/Tables('Tab')";
    let entity_url = "http://h:1/acct/Tab(PartitionKey='p',RowKey='a''b%22')";
    let (none, no_content, content) = ("-", "return-no-content", "return-content");
    let names = [
        "location",
        "dataserviceid",
        "preference-applied",
        "etag",
        "cache-control",
        "content-type",
    ];
    for (reply, prefer, status, expected) in [
        (
            TableReply::TableCreated(table()),
            none,
            201,
            [table_url, none, none, none, "no-cache", JSON],
        ),
        (
            TableReply::TableCreated(table()),
            content,
            201,
            [table_url, none, content, none, "no-cache", JSON],
        ),
        (
            TableReply::TableCreated(table()),
            no_content,
            204,
            [table_url, table_url, no_content, none, "no-cache", none],
        ),
        (TableReply::Table(table()), none, 200, [none, none, none, none, "no-cache", JSON]),
        (TableReply::TableDeleted, none, 204, [none, none, none, none, "no-cache", none]),
        (inserted(), none, 201, [entity_url, none, none, TAG, "no-cache", JSON]),
        (inserted(), no_content, 204, [entity_url, entity_url, no_content, TAG, "no-cache", none]),
        (updated(), no_content, 204, [none, none, none, TAG, "no-cache", none]),
        (
            TableReply::Written(table(), OperationReply::Deleted),
            none,
            204,
            [none, none, none, none, "no-cache", none],
        ),
        (
            TableReply::Entity(table(), Box::new(entity("r"))),
            none,
            200,
            [none, none, none, TAG, "no-cache", JSON],
        ),
        (
            TableReply::Policies(vec![]),
            none,
            200,
            [none, none, none, none, none, "application/xml"],
        ),
        (TableReply::PoliciesSet, none, 204, [none; 6]),
        (TableReply::ServicePropertiesSet, none, 202, [none; 6]),
    ] {
        let response = rendered(&reply, &[("prefer", prefer)]);
        assert_eq!(response.status().as_u16(), status, "{reply:?}");
        assert_eq!(names.map(|name| header(&response, name)), expected, "{reply:?}");
        assert_eq!(header(&response, "content-length"), response.body().len().to_string());
        assert_eq!(response.body().is_empty(), expected[5] == none, "{reply:?}");
        assert_eq!(header(&response, "dataserviceversion"), "-");
    }
}

/// Statements 101, 142, 154, 199 and 204.
#[test]
fn pages() {
    let entities: Vec<BoxedEntity> = vec![Box::new(entity("é"))];
    let next = Continuation {
        partition_key: PartitionKey::new("contToken").unwrap(),
        row_key: Some(RowKey::new("1").unwrap()),
    };
    let reply = TableReply::Entities { table: table(), entities, next: Some(next) };
    let response = rendered(&reply, &[("accept", "application/json;odata=nometadata")]);
    assert_eq!(header(&response, "x-ms-continuation-nextpartitionkey"), "1!12!Y29udFRva2Vu");
    assert_eq!(header(&response, "x-ms-continuation-nextrowkey"), "1!4!MQ--");
    assert_eq!(
        header(&response, "content-type"),
        "application/json;odata=nometadata;streaming=true;charset=utf-8"
    );
    assert_eq!(
        text(&response),
        r#"{"value":[{"PartitionKey":"p","RowKey":"é","Timestamp":"2020-11-07T01:23:13.377335Z"}]}"#
    );
    let reply = TableReply::Tables { names: vec![table()], next: Some("tab2".to_owned()) };
    let response = rendered(&reply, &[]);
    assert_eq!(header(&response, "x-ms-continuation-nexttablename"), "1!8!dGFiMg--");
    assert_eq!(
        text(&response),
        r#"{"odata.metadata":"http://h:1/acct/$metadata#Tables","value":[{"TableName":"Tab"}]}"#
    );
    let reply = TableReply::Entities { table: table(), entities: vec![], next: None };
    assert_eq!(header(&rendered(&reply, &[]), "x-ms-continuation-nextpartitionkey"), "-");
}

/// Statements 32, 37 to 39.
#[test]
fn errors() {
    let response =
        rejected(&DomainError::EntityNotFound.into(), &context("/Tab", &[("accept", "*/*")]));
    assert_eq!(response.status(), 404);
    assert_eq!(header(&response, "content-type"), JSON);
    assert_eq!(header(&response, "x-ms-error-code"), "ResourceNotFound");
    assert_eq!(header(&response, "x-ms-request-id"), ID);
    assert!(text(&response).contains(ID));
    for (target, accept) in [("/Tab?comp=acl", "application/json"), ("/Tab", "application/xml")] {
        let response = rejected(
            &TableError::Common(ApiError::InvalidXmlDocument),
            &context(target, &[("accept", accept)]),
        );
        assert_eq!(header(&response, "content-type"), "application/xml");
        assert_eq!(header(&response, "x-ms-error-code"), "InvalidXmlDocument");
        assert_eq!(header(&response, "cache-control"), "-");
        assert!(text(&response).starts_with("<?xml"));
    }
}

#[test]
fn advice() {
    let plain = context("/Tab", &[]);
    let busy =
        rejected(&TableError::Common(ApiError::ServerBusy { retry_after_seconds: 7 }), &plain);
    assert_eq!((busy.status().as_u16(), header(&busy, "retry-after")), (503, "7"));
    let wrong =
        rejected(&TableError::Common(ApiError::MethodNotAllowed { allowed: "GET, HEAD" }), &plain);
    assert_eq!((wrong.status().as_u16(), header(&wrong, "allow")), (405, "GET, HEAD"));
    // A refusal of a single write that a store counted as the first of one.
    let single = rejected(
        &FailedOperation { index: 0, domain_error: DomainError::EntityAlreadyExists }.into(),
        &plain,
    );
    assert_eq!(single.status(), 409);
    assert!(text(&single).contains("\"value\":\"The specified entity already exists."));
}

fn changeset(prefers: &[Option<Prefer>]) -> TableContext {
    let mut batch = context("/$batch", &[]);
    let formats =
        prefers.iter().map(|prefer| ResponseFormat { prefer: *prefer, ..batch.format.clone() });
    batch.envelope = Envelope::Changeset(formats.collect());
    batch
}

/// A batch that is refused as a whole is answered without parts, and once without the header that
/// every error has: whether it was due was asked of the request, which was a batch, and not of the
/// answer.
#[test]
fn a_batch_that_is_refused_as_a_whole() {
    let mut queried = context("/$batch", &[]);
    queried.envelope = Envelope::BatchedQuery;
    for (context, table_error, code) in [
        (changeset(&[]), TableError::MalformedBatch, "InvalidInput"),
        (
            changeset(&[None]),
            ApiError::Access(AccessError::WritesNotAllowed).into(),
            "InsufficientAccountPermissions",
        ),
        (queried, TableError::Common(ApiError::InternalError), "InternalError"),
    ] {
        let response = rejected(&table_error, &context);
        assert_eq!(
            (header(&response, "x-ms-error-code"), header(&response, "content-type")),
            (code, JSON)
        );
        assert!(text(&response).contains(code), "{}", text(&response));
    }
}

/// The body with its boundaries named, and nothing else changed.
fn batch_text(response: &Response<Bytes>) -> String {
    assert_eq!(response.status(), 202);
    let content_type = header(response, "content-type");
    let batch = content_type.strip_prefix("multipart/mixed; boundary=batchresponse_").unwrap();
    let text = text(response).replace(batch, "B");
    match text.split_once("changesetresponse_") {
        Some((_, rest)) => text.replace(rest.split("\r\n").next().unwrap(), "C"),
        None => text,
    }
}

/// Statements 210, 211, 213 and 215: the recorded answer, byte by byte.
#[test]
fn a_batch_that_was_done() {
    let context = changeset(&[Some(Prefer::ReturnNoContent), None, None]);
    let operations = vec![
        OperationReply::Inserted(entity("r")),
        OperationReply::Deleted,
        OperationReply::Updated(Timestamp::new(now())),
    ];
    let reply = TableReply::TransactionDone(table(), operations);
    let response =
        render_reply(&reply, &ResponseHead { request_id: ID, now: now(), context: &context });
    let expected = format!(
        "--batchresponse_B\nContent-Type: multipart/mixed; boundary=changesetresponse_C\n\n\
         --changesetresponse_C\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n\
         HTTP/1.1 204 No Content\nX-Content-Type-Options: nosniff\nCache-Control: no-cache\n\
         Preference-Applied: return-no-content\nDataServiceVersion: 3.0;\n\
         Location: http://h:1/acct/Tab(PartitionKey='p',RowKey='r')\n\
         DataServiceId: http://h:1/acct/Tab(PartitionKey='p',RowKey='r')\nETag: {TAG}\n\n\n\
         --changesetresponse_C\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n\
         HTTP/1.1 204 No Content\nX-Content-Type-Options: nosniff\nCache-Control: no-cache\nDataServiceVersion: 1.0;\n\n\n\
         --changesetresponse_C\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n\
         HTTP/1.1 204 No Content\nX-Content-Type-Options: nosniff\nCache-Control: no-cache\nDataServiceVersion: 1.0;\n\
         ETag: {TAG}\n\n\n\
         --changesetresponse_C--\n--batchresponse_B--\n"
    );
    assert_eq!(batch_text(&response), expected.replace('\n', "\r\n"));
}

/// Statements 216 and 221.
#[test]
fn a_batch_that_failed() {
    let context = changeset(&[None, Some(Prefer::ReturnNoContent)]);
    let failed = FailedOperation { index: 1, domain_error: DomainError::EntityAlreadyExists };
    let body = r#"{"odata.error":{"code":"EntityAlreadyExists","message":{"lang":"en-US","value":"1:The specified entity already exists.\nRequestId:aceccc68-b002-006e-7110-617748000000\nTime:2020-11-07T01:23:13.3773350Z"}}}"#;
    let expected = format!(
        "--batchresponse_B\nContent-Type: multipart/mixed; boundary=changesetresponse_C\n\n\
         --changesetresponse_C\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n\
         HTTP/1.1 409 Conflict\nX-Content-Type-Options: nosniff\nCache-Control: no-cache\n\
         Preference-Applied: return-no-content\nDataServiceVersion: 3.0;\nContent-Type: {JSON}\n\n{body}\n\
         --changesetresponse_C--\n--batchresponse_B--\n"
    );
    assert_eq!(batch_text(&rejected(&failed.into(), &context)), expected.replace('\n', "\r\n"));
    let no_table = rejected(&DomainError::TableNotFound.into(), &context);
    assert!(batch_text(&no_table).contains("HTTP/1.1 404 Not Found"));
    assert!(text(&no_table).contains("\"value\":\"0:The table specified does not exist."));
    assert_eq!(
        rejected(&ApiError::Access(AccessError::WritesNotAllowed).into(), &context).status(),
        403
    );
    assert_eq!(rejected(&TableError::Common(ApiError::OperationTimedOut), &context).status(), 500);
}

/// Statement 224.
#[test]
fn a_query_in_a_batch() {
    let mut context = context("/$batch", &[]);
    context.envelope = Envelope::BatchedQuery;
    let response_head = ResponseHead { request_id: ID, now: now(), context: &context };
    let found = render_reply(&TableReply::Entity(table(), Box::new(entity("r"))), &response_head);
    let found = batch_text(&found);
    assert!(
        found.starts_with("--batchresponse_B\r\nContent-Type: application/http\r\n"),
        "{found}"
    );
    assert!(
        found.contains("\r\n\r\nHTTP/1.1 200 OK\r\n")
            && found.contains(&format!("\r\nETag: {TAG}\r\n")),
        "{found}"
    );
    assert!(!found.contains("changeset"));
    let missing = batch_text(&rejected(&DomainError::EntityNotFound.into(), &context));
    assert!(missing.contains("HTTP/1.1 404 Not Found\r\n"), "{missing}");
    assert!(missing.contains("\"value\":\"The specified resource does not exist."), "{missing}");
}
