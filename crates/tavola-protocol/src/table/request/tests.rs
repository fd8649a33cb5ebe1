//! Requests as text: method, target, headers and body on the left, what is understood on the right.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use proptest::prelude::*;
use tavola_core::request::Select;
use tavola_core::{DomainError, TableRequest};

use super::parse_request;
use crate::address::{AddressRules, locate};
use crate::api_error::{ApiError, ServiceApiError as _};
use crate::table::entity_json::MetadataLevel;
use crate::table::error::TableError;
use crate::table::format::{Envelope, Prefer, TableContext};

fn parse(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (Result<TableRequest, TableError>, TableContext) {
    let mut request =
        Request::builder().method(method).uri(format!("/acct{target}")).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    parse_http(&request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap())
}

fn parse_http(request: &Request<Bytes>) -> (Result<TableRequest, TableError>, TableContext) {
    let (parts, body) = request.clone().into_parts();
    let rules = AddressRules { path_style_only: true, scheme: "http" };
    let address = match locate(&parts, &rules, &|name| name == "acct") {
        Ok(address) => Arc::new(address),
        Err(table_error) => return (Err(table_error.into()), TableContext::of(&parts, None)),
    };
    let mut context = TableContext::of(&parts, Some(&address));
    (parse_request(&parts, &body, &address, &mut context), context)
}

/// What is understood, in few words; or status and code.
fn outcome(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> String {
    match parse(method, target, headers, body).0 {
        Ok(TableRequest::Write(table, _, operation)) => format!("{} {table}", operation.name()),
        Ok(request) => match request.table() {
            Some(table) => format!("{} {table}", request.name()),
            None => request.name().to_owned(),
        },
        Err(table_error) => {
            let error = table_error.parts();
            format!("{} {}", error.status.as_u16(), error.code)
        }
    }
}

const ENTITY: &str = "/Tab(PartitionKey='p',RowKey='r')";
const KEYS: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;

#[test]
fn operations() {
    for (method, target, body, expected) in [
        ("GET", "/Tables", "", "QueryTables"),
        ("HEAD", "/Tables()", "", "QueryTables"),
        ("POST", "/Tables", r#"{"TableName":"Tab"}"#, "CreateTable Tab"),
        ("POST", "/Tables", r#"{"TableName":"a"}"#, "400 OutOfRangeInput"),
        ("POST", "/Tables", "{}", "400 InvalidInput"),
        ("PUT", "/Tables", "", "405 MethodNotAllowed"),
        ("GET", "/Tables('Tab')", "", "QueryTable Tab"),
        ("DELETE", "/Tables('Tab')", "", "DeleteTable Tab"),
        ("POST", "/Tables('Tab')", "", "405 MethodNotAllowed"),
        ("GET", "/Tab", "", "QueryEntities Tab"),
        ("GET", "/Tab()", "", "QueryEntities Tab"),
        ("POST", "/Tab", KEYS, "InsertEntity Tab"),
        ("POST", "/Tab()", KEYS, "InsertEntity Tab"),
        ("POST", "/Tab", r#"{"RowKey":"r"}"#, "400 PropertiesNeedValue"),
        ("POST", "/Tab", "{", "400 InvalidInput"),
        ("PUT", "/Tab", "{}", "405 MethodNotAllowed"),
        ("GET", ENTITY, "", "QueryEntity Tab"),
        ("PUT", ENTITY, "{}", "InsertOrReplaceEntity Tab"),
        ("PATCH", ENTITY, "{}", "InsertOrMergeEntity Tab"),
        ("MERGE", ENTITY, "{}", "InsertOrMergeEntity Tab"),
        ("PUT", ENTITY, r#"{"PartitionKey":"x","a":1}"#, "InsertOrReplaceEntity Tab"),
        ("POST", ENTITY, "{}", "405 MethodNotAllowed"),
        ("FETCH", ENTITY, "", "405 MethodNotAllowed"),
        ("GET", "/$metadata", "", "GetMetadata"),
        ("GET", "/$batch", "", "405 MethodNotAllowed"),
        ("POST", "/$batch", "", "400 InvalidInput"),
        ("GET", "/", "", "400 InvalidUri"),
        ("POST", "/Tab/Tab", KEYS, "InsertEntity Tab"),
        ("POST", "/Tab/Tab", r#"{"a":1}"#, "400 PropertiesNeedValue"),
        ("GET", "/Tab/Tab", "", "400 InvalidUri"),
        ("POST", "/Tab/Tables", r#"{"TableName":"Tab"}"#, "InsertEntity Tab"),
        ("GET", "/Tab/Tables", "", "400 InvalidUri"),
        ("DELETE", "/Tab/Tables('Tab')", "", "DeleteEntity Tab"),
        ("GET", "/Tab/Tables('Tab')", "", "400 InvalidUri"),
        ("POST", "/Tab/$batch", "", "415 MediaTypeNotSupported"),
        ("GET", "/Tab?restype=service&comp=properties", "", "400 InvalidQueryParameterValue"),
        ("PUT", "/Tab/?restype=service&comp=properties", "<x/>", "400 InvalidQueryParameterValue"),
        ("POST", "/a%2F%2F", KEYS, "400 InvalidResourceName"),
        ("POST", "/Tab/", KEYS, "InsertEntity Tab"),
        ("GET", "/Tab?comp=acl", "", "GetTableAcl Tab"),
        ("HEAD", "/Tab?comp=acl", "", "GetTableAcl Tab"),
        ("DELETE", "/Tab?comp=acl", "", "405 MethodNotAllowed"),
        ("GET", "/Tab?comp=other", "", "400 InvalidQueryParameterValue"),
        ("GET", "/Tables?comp=acl", "", "400 InvalidQueryParameterValue"),
        ("GET", "/?restype=service&comp=properties", "", "GetTableServiceProperties"),
        ("DELETE", "/?restype=service&comp=properties", "", "405 MethodNotAllowed"),
        ("GET", "/?restype=service", "", "400 MissingRequiredQueryParameter"),
        ("GET", "/?restype=service&comp=stats", "", "400 InvalidQueryParameterValue"),
        ("GET", "-secondary/?restype=service&comp=stats", "", "GetTableServiceStats"),
        ("GET", "-secondary/acct/?restype=service&comp=stats", "", "GetTableServiceStats"),
        ("GET", "/Tab()?$orderby=a", "", "501 NotImplemented"),
        ("GET", "/Tab()?timeout=x", "", "400 InvalidQueryParameterValue"),
        ("GET", "/Tab()?$top=1001", "", "400 InvalidInput"),
    ] {
        assert_eq!(outcome(method, target, &[], body), expected, "{method} {target}");
    }
}

/// Statements 161 to 172 as far as they are about headers.
#[test]
fn preconditions() {
    let tag = "W/\"datetime'2020-07-24T14%3A34%3A24.0550534Z'\"";
    for (method, headers, expected) in [
        ("PUT", vec![("if-match", "*")], "UpdateEntity Tab"),
        ("PUT", vec![("if-match", tag)], "UpdateEntity Tab"),
        ("PUT", vec![("if-match", "W/\"wrong\"")], "UpdateEntity Tab"),
        ("PUT", vec![("if-match", "garbage")], "400 InvalidInput"),
        ("PUT", vec![("if-match", "")], "400 InvalidInput"),
        ("PUT", vec![("if-match", "*"), ("if-match", "*")], "400 InvalidInput"),
        ("PUT", vec![("if-none-match", "*")], "400 InvalidInput"),
        ("PUT", vec![("if-match", "*"), ("if-none-match", "*")], "400 InvalidInput"),
        ("MERGE", vec![("if-match", "*")], "MergeEntity Tab"),
        ("DELETE", vec![("if-match", "*")], "DeleteEntity Tab"),
        ("DELETE", vec![], "400 MissingRequiredHeader"),
        ("DELETE", vec![("if-none-match", "*")], "400 InvalidInput"),
        ("GET", vec![("if-none-match", "*")], "QueryEntity Tab"),
    ] {
        assert_eq!(outcome(method, ENTITY, &headers, "{}"), expected, "{method} {headers:?}");
    }
}

/// Statements 165 and 175.
#[test]
fn tunnelled_verbs() {
    let tunnel = |method, verbs: &[&str]| {
        let headers: Vec<_> = verbs.iter().map(|&verb| ("x-http-method", verb)).collect();
        outcome(method, ENTITY, &headers, "{}")
    };
    assert_eq!(tunnel("POST", &["MERGE"]), "InsertOrMergeEntity Tab");
    assert_eq!(tunnel("POST", &["PATCH"]), "InsertOrMergeEntity Tab");
    assert_eq!(tunnel("POST", &["PUT"]), "InsertOrReplaceEntity Tab");
    assert_eq!(tunnel("POST", &["DELETE"]), "400 MissingRequiredHeader");
    assert_eq!(tunnel("GET", &["MERGE"]), "400 XMethodNotUsingPost");
    assert_eq!(tunnel("POST", &["GET"]), "400 XMethodIncorrectValue");
    assert_eq!(tunnel("POST", &["merge it"]), "400 XMethodIncorrectValue");
    assert_eq!(tunnel("POST", &["MERGE", "MERGE"]), "400 XMethodIncorrectCount");
}

#[test]
fn formats() {
    let headers =
        [("accept", "application/json;odata=nometadata"), ("prefer", "return-no-content")];
    let (_, context) = parse("GET", "/Tab()?$select=a,b&timeout=7", &headers, "");
    assert_eq!(context.format.level, MetadataLevel::None);
    assert_eq!(context.format.prefer, Some(Prefer::ReturnNoContent));
    assert_eq!(context.format.select, Select::Names(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(context.as_ref().timeout.map(|time| time.as_secs()), Some(7));
    let atom = ("accept", "application/atom+xml,application/xml");
    assert_eq!(outcome("GET", "/Tab()", &[atom], ""), "415 AtomFormatNotSupported");
    assert_eq!(outcome("GET", "/Tab?comp=acl", &[atom], ""), "GetTableAcl Tab");
    let atom = ("content-type", "application/atom+xml;type=entry");
    assert_eq!(outcome("POST", "/Tab", &[atom], "<entry/>"), "415 AtomFormatNotSupported");
    assert_eq!(
        outcome("POST", "/Tab", &[("content-type", "text/plain")], KEYS),
        "InsertEntity Tab"
    );
}

/// A changeset of requests: each is a request line with headers, an empty line and a body.
fn changeset(operations: &[&str]) -> (Result<TableRequest, TableError>, TableContext) {
    let mut body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".to_owned();
    for operation in operations {
        body += &format!(
            "--c\r\nContent-Type: application/http\r\n\r\n{}\r\n",
            operation.replace('\n', "\r\n")
        );
    }
    body += "--c--\r\n--b--\r\n";
    parse("POST", "/$batch", &[("content-type", "multipart/mixed; boundary=b")], &body)
}

fn changeset_outcome(operations: &[&str]) -> String {
    match changeset(operations).0 {
        Ok(TableRequest::Transaction(table, group)) => {
            format!("{} on {table}", group.operations().len())
        }
        Ok(other) => format!("{other:?}"),
        Err(table_error) => {
            let error = table_error.parts();
            format!("{} {} {}", error.status.as_u16(), error.code, error.text)
        }
    }
}

const INSERT: &str = "POST http://h/acct/Tab HTTP/1.1\nPrefer: return-no-content\n\n{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}";
const MERGE: &str = "MERGE /acct/Tab(PartitionKey='p',RowKey='2') HTTP/1.1\nIf-Match: *\n\n{}";
const DELETE: &str = "DELETE /tab(PartitionKey='p',RowKey='3') HTTP/1.1\nIf-Match: *\n";

/// Statements 212, 217 to 219, 225, 232 to 234.
#[test]
fn batches() {
    let not_valid = "400 InvalidInput 1:One of the request inputs is not valid.";
    let different = "400 CommandsInBatchActOnDifferentPartitions 1:All commands in a batch must operate on same entity group.";
    for (operations, expected) in [
        (vec![INSERT, MERGE, DELETE], "3 on Tab"),
        (vec![], "400 InvalidInput One of the request inputs is not valid."),
        (vec![MERGE, "GET /acct/Tab() HTTP/1.1\n"], not_valid),
        (vec![MERGE, "FETCH /acct/Tab() HTTP/1.1\n"], not_valid),
        (vec![MERGE, "POST /acct/Tables HTTP/1.1\n\n{\"TableName\":\"abc\"}"], not_valid),
        (vec![MERGE, "PUT /acct/Tab(PartitionKey='q',RowKey='2') HTTP/1.1\n\n{}"], different),
        (vec![MERGE, "PUT /acct/Other(PartitionKey='p',RowKey='2') HTTP/1.1\n\n{}"], different),
        (
            vec![INSERT, MERGE, MERGE],
            "400 InvalidDuplicateRow 2:The batch request contains multiple changes with same row key. An entity can \
             appear only once in a batch request.",
        ),
        (
            vec![DELETE, "POST /acct/Tab HTTP/1.1\n\n{\"PartitionKey\":\"p\"}"],
            "400 PropertiesNeedValue 1:The values are not specified for all properties in the entity.",
        ),
        (
            vec![INSERT; 101],
            "400 InvalidInput 99:The batch request operation exceeds the maximum 100 changes per change set.",
        ),
    ] {
        assert_eq!(changeset_outcome(&operations), expected, "{operations:?}");
    }
}

#[test]
fn each_operation_of_a_batch_has_its_wish() {
    let (_, context) = changeset(&[INSERT, MERGE]);
    let Envelope::Changeset(formats) = context.envelope else { panic!("a changeset") };
    let prefer: Vec<_> = formats.iter().map(|format| format.prefer).collect();
    assert_eq!(prefer, [Some(Prefer::ReturnNoContent), None]);
}

/// Statement 224.
#[test]
fn a_query_alone_in_a_batch() {
    let batched = |request: &str| {
        let body =
            format!("--b\r\nContent-Type: application/http\r\n\r\n{request}\r\n\r\n--b--\r\n");
        parse("POST", "/$batch", &[("content-type", "multipart/mixed; boundary=b")], &body)
    };
    let (request, context) = batched(
        "GET http://h/acct/Tab(PartitionKey='p',RowKey='r')?$select=a HTTP/1.1\r\nAccept: application/json;odata=nometadata",
    );
    assert_eq!(request.map(|request| request.name()), Ok("QueryEntity"));
    assert_eq!(context.envelope, Envelope::BatchedQuery);
    assert_eq!(context.format.level, MetadataLevel::None);
    assert_eq!(context.format.select, Select::Names(vec!["a".to_owned()]));
    let (request, _) = batched("GET /acct/Tab()?$top=3 HTTP/1.1");
    assert_eq!(request.map(|request| request.name()), Ok("QueryEntities"));
    assert_eq!(
        batched("GET /acct/Tables HTTP/1.1").0,
        Err(TableError::Common(ApiError::InvalidInput))
    );
    assert_eq!(batched("GET /acct/ab HTTP/1.1").0, Err(DomainError::TableNameLength.into()));
}

fn request_parts() -> impl Strategy<Value = (String, String, Vec<(String, String)>, Vec<u8>)> {
    let method = prop_oneof![
        Just("GET"),
        Just("POST"),
        Just("PUT"),
        Just("MERGE"),
        Just("DELETE"),
        Just("X")
    ];
    let path = prop_oneof![
        "/[ -~]{0,40}",
        "/(Tab|Tables|\\$batch|\\$metadata)?\\(?(PartitionKey)?=?'?[a-z%0-9']{0,6}'?,?(RowKey)?=?'?[a-z]{0,3}'?\\)?",
    ];
    let query = prop_oneof![
        "[ -~]{0,30}",
        "(\\$(filter|select|top|format)|timeout|NextPartitionKey|comp|restype)=[a-z0-9%*,=&$]{0,12}",
    ];
    let header = prop_oneof![
        ("if-match|if-none-match|accept|prefer|x-http-method|content-type", "[ -~]{0,30}"),
        Just(("content-type".to_owned(), "multipart/mixed; boundary=b".to_owned())),
    ];
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        "[ -~\r\n]{0,80}".prop_map(String::into_bytes)
    ];
    (method, path, query, proptest::collection::vec(header, 0..4), body).prop_map(
        |(method, path, query, headers, body)| {
            (method.to_owned(), format!("{path}?{query}"), headers, body)
        },
    )
}

proptest! {
    #[test]
    fn no_panic((method, target, headers, body) in request_parts()) {
        let mut request = Request::builder().method(method.as_str()).uri(format!("/acct{target}")).header("host", "h");
        for (name, value) in &headers {
            request = request.header(name.as_str(), value.as_str());
        }
        if let Ok(request) = request.body(Bytes::from(body)) {
            let _ = parse_http(&request);
        }
    }
}
