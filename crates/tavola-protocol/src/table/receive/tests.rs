use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tavola_core::{
    EntityKey, EntityOperation, NewEntity, PartitionKey, Precondition, Properties, RowKey,
    TableName, TableRequest,
};

use super::{NotReceivedReason, Received, Reply, WriteReply, receive_reply};
use crate::table::decode::ServiceError;

fn table() -> TableName {
    TableName::parse("Tab").unwrap()
}

fn new_entity() -> (PartitionKey, NewEntity) {
    let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
    NewEntity::new(key, Properties::default()).unwrap()
}

fn insert() -> TableRequest {
    let (partition_key, new) = new_entity();
    TableRequest::Write(table(), partition_key, EntityOperation::Insert(new))
}

fn response(status: u16, headers: &[(&str, &str)], body: &'static str) -> Response<Bytes> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Bytes::from_static(body.as_bytes())).unwrap()
}

fn written(response: &Response<Bytes>) -> WriteReply {
    match receive_reply(&insert(), response).unwrap() {
        Received { reply: Reply::Written(mut replies), .. } => replies.pop().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_insert_with_and_without_its_echo() {
    let tag = ("etag", "W/\"datetime'2026-11-16T00%3A05%3A27.9Z'\"");
    let quiet = written(&response(204, &[tag, ("x-ms-request-id", "7")], ""));
    assert_eq!(quiet.timestamp.unwrap().to_string(), "2026-11-16T00:05:27.9Z");
    assert_eq!(quiet.echo, None);
    let body = r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2026-11-16T00:05:27.9Z","A":1}"#;
    let echoed = written(&response(201, &[tag, ("x-ms-request-id", "7")], body));
    assert_eq!(echoed.echo.unwrap().properties.len(), 1);
    assert_eq!(echoed.status, 201);
}

/// Cosmos has tags that say no time.
#[test]
fn a_tag_without_a_time_leaves_the_echo_to_say_it() {
    let body = r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2026-11-16T00:05:27Z"}"#;
    let headers = [("etag", "W/\"opaque\""), ("x-ms-request-id", "7")];
    assert_eq!(
        written(&response(201, &headers, body)).timestamp.unwrap().to_string(),
        "2026-11-16T00:05:27Z"
    );
    assert_eq!(written(&response(204, &headers, "")).timestamp, None);
}

#[test]
fn a_refusal_with_its_head() {
    let body =
        r#"{"odata.error":{"code":"ServerBusy","message":{"lang":"en-US","value":"Wait."}}}"#;
    let busy = response(503, &[("retry-after", "3"), ("x-ms-request-id", "7")], body);
    let failed = receive_reply(&insert(), &busy).unwrap_err();
    assert_eq!(failed.head.retry_after, Some(Duration::from_secs(3)));
    assert_eq!(failed.head.request_id.as_deref(), Some("7"));
    let NotReceivedReason::Service(ServiceError { code, .. }) = failed.reason else { panic!() };
    assert_eq!(code, "ServerBusy");
}

#[test]
fn what_is_not_the_service() {
    let page = "  <html>\n<title>Proxy login</title>";
    let html = [("content-type", "text/html")];
    let get = TableRequest::GetEntity(table(), EntityKey::default());
    for (request, status) in [
        (insert(), 200),
        (insert(), 201),
        (insert(), 502),
        (get, 200),
        (TableRequest::CreateTable(table()), 200),
        (TableRequest::GetServiceProperties, 200),
    ] {
        let failed = receive_reply(&request, &response(status, &html, page)).unwrap_err();
        let expected = NotReceivedReason::NotOurs {
            content_type: "text/html".to_owned(),
            beginning: "<html> <title>Proxy login</title>".to_owned(),
        };
        assert_eq!(failed.reason, expected, "{request:?} {status}");
    }
}

#[test]
fn a_merge_through_a_tunnel() {
    use crate::table::encode::{MergeVerb, Style, encode_request_with};
    use crate::table::entity_json::MetadataLevel;
    use crate::table::format::ResponseFormat;
    let (partition_key, new) = new_entity();
    let merge = EntityOperation::Merge(new, Precondition::Exists);
    let single = TableRequest::Write(table(), partition_key.clone(), merge.clone());
    let group = tavola_core::EntityGroupTransaction::single(partition_key, merge);
    let format = ResponseFormat {
        level: MetadataLevel::Minimal,
        prefer: None,
        select: tavola_core::request::Select::All,
    };
    let style =
        Style { base: "https://a.b", format: &format, page: None, boundary_ids: ["b", "c"] };
    let encode = |request| encode_request_with(request, &style, MergeVerb::Tunnelled).unwrap();
    let single = encode(&single);
    assert_eq!(single.method(), "POST");
    assert_eq!(single.headers()["x-http-method"], "MERGE");
    let batch = encode(&TableRequest::Transaction(table(), group));
    let body = String::from_utf8(batch.body().to_vec()).unwrap();
    assert!(body.contains("POST https://a.b/Tab(PartitionKey='p',RowKey='r')"), "{body}");
    assert!(body.contains("x-http-method: MERGE"), "{body}");
}
