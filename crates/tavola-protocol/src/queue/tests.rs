//! Requests and answers of the Queue service.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use tavola_core::queue::{
    Enqueued, MessageId, MessageState, PopReceipt, QueueReply, QueueRequest, TimeToLive, Updated,
};
use tavola_core::{AccountName, DateTime, Metadata, TableId};

use super::{QueueContext, QueueError, parse_request, receipt, render_error, render_reply};
use crate::address::Address;
use crate::api_error::{ApiError, ServiceApiError as _};
use crate::response::ResponseHead;

/// `METHOD /path?query`, header lines, an empty line, a body.
fn parse(text: &str) -> (Result<QueueRequest, QueueError>, QueueContext) {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
    let mut builder = Request::builder().method(method).uri(target);
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        builder = builder.header(name.trim(), value.trim());
    }
    let (parts, ()) = builder.body(()).unwrap().into_parts();
    let path = parts.uri.path().to_owned();
    let (secondary, path) = match path.strip_prefix("/secondary") {
        Some(rest) => (true, rest.to_owned()),
        None => (false, path),
    };
    let address = Arc::new(Address {
        account: AccountName::parse("shop").unwrap(),
        secondary,
        base: "http://127.0.0.1:10001/shop".to_owned(),
        resource_path: path,
    });
    let mut context = QueueContext::of(&parts, Some(&address));
    let body = Bytes::copy_from_slice(body.as_bytes());
    (parse_request(&parts, &body, &address, &mut context), context)
}

fn held() -> PopReceipt {
    PopReceipt {
        queue: TableId::new(300),
        shard: 0,
        visible_at: DateTime::parse("2026-10-09T21:05:00Z").unwrap(),
        sequence: 7,
    }
}

const ID: &str = "5974b586-0df3-4e2d-ad0c-18e3892bfca2";
const TEXT: &str = "<QueueMessage><MessageText>hi</MessageText></QueueMessage>";

/// Rows `request | what it is`, by the names of Storage Analytics.
#[test]
fn routes() {
    let receipt = receipt::write(&held());
    let update = format!("PUT /orders/messages/{ID}?popreceipt={receipt}&visibilitytimeout=0");
    let delete = format!("DELETE /orders/messages/{ID}?popreceipt={receipt}");
    let put = format!("POST /orders/messages\n\n{TEXT}");
    for (request, expected) in [
        ("GET /?comp=list", "ListQueues"),
        ("GET /?comp=list&prefix=a&maxresults=9999&include=metadata", "ListQueues"),
        ("GET /?restype=service&comp=properties", "GetQueueServiceProperties"),
        ("GET /secondary/?restype=service&comp=stats", "GetQueueServiceStats"),
        ("PUT /orders", "CreateQueue"),
        ("PUT /orders/", "CreateQueue"),
        ("DELETE /orders", "DeleteQueue"),
        ("GET /orders?comp=metadata", "GetQueueMetadata"),
        ("HEAD /orders?comp=metadata", "GetQueueMetadata"),
        ("PUT /orders?comp=metadata\nx-ms-meta-a: 1", "SetQueueMetadata"),
        ("GET /orders?comp=acl", "GetQueueACL"),
        ("PUT /orders?comp=acl\n\n<SignedIdentifiers />", "SetQueueACL"),
        (put.as_str(), "PutMessage"),
        ("GET /orders/messages", "GetMessage"),
        ("GET /orders/messages?numofmessages=32&visibilitytimeout=604800", "GetMessages"),
        ("GET /orders/messages?peekonly=True", "PeekMessage"),
        ("GET /orders/messages?peekonly=false", "GetMessage"),
        ("DELETE /orders/messages", "ClearMessages"),
        (update.as_str(), "UpdateMessage"),
        (delete.as_str(), "DeleteMessage"),
    ] {
        let parsed = parse(request).0;
        assert_eq!(parsed.as_ref().map(QueueRequest::name), Ok(expected), "{request}: {parsed:?}");
    }
}

/// Rows `request | status and code`.
#[test]
fn refusals() {
    let receipt = receipt::write(&held());
    let long = "x".repeat(65_537);
    let long = format!(
        "POST /orders/messages\n\n<QueueMessage><MessageText>{long}</MessageText></QueueMessage>"
    );
    let huge = format!("POST /orders/messages\n\n{}", "x".repeat(131_585));
    let put = |query: &str| format!("POST /orders/messages?{query}\n\n{TEXT}");
    let old =
        |query: &str| format!("POST /orders/messages?{query}\nx-ms-version: 2016-05-31\n\n{TEXT}");
    let change = |query: &str| format!("PUT /orders/messages/{ID}?{query}");
    for (request, expected) in [
        ("GET /".to_owned(), "400 MissingRequiredQueryParameter"),
        ("GET /?comp=other".to_owned(), "400 InvalidQueryParameterValue"),
        ("GET /?comp=properties".to_owned(), "400 MissingRequiredQueryParameter"),
        ("GET /?restype=service&comp=stats".to_owned(), "400 InvalidQueryParameterValue"),
        ("GET /?comp=list&maxresults=0".to_owned(), "400 OutOfRangeQueryParameterValue"),
        ("GET /?comp=list&maxresults=x".to_owned(), "400 InvalidQueryParameterValue"),
        ("GET /?comp=list&marker=!".to_owned(), "400 InvalidMarker"),
        ("GET /?comp=list&comp=list".to_owned(), "400 InvalidQueryParameterValue"),
        ("PUT /Orders".to_owned(), "400 InvalidResourceName"),
        ("PUT /or".to_owned(), "400 OutOfRangeInput"),
        ("GET /orders".to_owned(), "405 MethodNotAllowed"),
        ("PUT /orders\nx-ms-meta-1a: b".to_owned(), "400 InvalidMetadata"),
        ("PUT /orders\nx-ms-meta-: b".to_owned(), "400 EmptyMetadataKey"),
        ("GET /orders/other".to_owned(), "400 InvalidUri"),
        ("GET /orders/messages/a/b".to_owned(), "400 InvalidUri"),
        ("PUT /orders?comp=acl\n\n<x/>".to_owned(), "400 InvalidXmlDocument"),
        ("POST /orders/messages".to_owned(), "400 InvalidXmlDocument"),
        ("POST /orders/messages\n\n<QueueMessage />".to_owned(), "400 InvalidXmlDocument"),
        (long, "413 RequestBodyTooLarge"),
        (huge, "413 RequestBodyTooLarge"),
        (put("visibilitytimeout=-1"), "400 OutOfRangeQueryParameterValue"),
        (put("visibilitytimeout=604801"), "400 OutOfRangeQueryParameterValue"),
        (put("visibilitytimeout=x"), "400 InvalidQueryParameterValue"),
        (put("messagettl=0"), "400 InvalidQueryParameterValue"),
        (put("messagettl=-2"), "400 InvalidQueryParameterValue"),
        (put("messagettl=5&visibilitytimeout=5"), "400 InvalidQueryParameterValue"),
        (old("messagettl=-1"), "400 InvalidQueryParameterValue"),
        (old("messagettl=604801"), "400 OutOfRangeQueryParameterValue"),
        ("GET /orders/messages?numofmessages=0".to_owned(), "400 OutOfRangeQueryParameterValue"),
        ("GET /orders/messages?numofmessages=33".to_owned(), "400 OutOfRangeQueryParameterValue"),
        (
            "GET /orders/messages?visibilitytimeout=0".to_owned(),
            "400 OutOfRangeQueryParameterValue",
        ),
        (change("visibilitytimeout=0"), "400 MissingRequiredQueryParameter"),
        (change(&format!("popreceipt={receipt}")), "400 MissingRequiredQueryParameter"),
        (change("popreceipt=AAAA&visibilitytimeout=0"), "400 InvalidQueryParameterValue"),
        (format!("DELETE /orders/messages/7?popreceipt={receipt}"), "404 MessageNotFound"),
        (format!("GET /orders/messages/{ID}"), "405 MethodNotAllowed"),
        ("GET /orders/messages?timeout=soon".to_owned(), "400 InvalidQueryParameterValue"),
    ] {
        let shown = &request[..request.len().min(90)];
        let error = parse(&request).0.expect_err(shown);
        let parts = error.parts();
        assert_eq!(format!("{} {}", parts.status.as_u16(), parts.code), expected, "{shown}");
    }
}

#[test]
fn what_a_put_says() {
    let put = |query: &str| match parse(&format!("POST /orders/messages{query}\n\n{TEXT}")).0 {
        Ok(QueueRequest::PutMessage { text, time_to_live, hidden_for, .. }) => {
            (text, time_to_live, hidden_for)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(put(""), ("hi".to_owned(), TimeToLive::DEFAULT, 0));
    assert_eq!(put("?messagettl=-1&visibilitytimeout=604800").1, TimeToLive::Never);
    assert_eq!(put("?messagettl=999999999999").1, TimeToLive::Seconds(999_999_999_999));
    assert_eq!(put("?messagettl=6&visibilitytimeout=5").2, 5);
}

#[test]
fn markers_come_back() {
    let (request, context) = parse("GET /?comp=list&maxresults=1");
    request.unwrap();
    let reply = QueueReply::Queues { queues: Vec::new(), next: Some("orders".to_owned()) };
    let head = ResponseHead { request_id: "r", now: DateTime::MIN, context: &context };
    let body = render_reply(&reply, &head).into_body();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let marker = body.split("<NextMarker>").nth(1).unwrap().split('<').next().unwrap();
    assert!(body.contains("<MaxResults>1</MaxResults>"), "{body}");
    match parse(&format!("GET /?comp=list&marker={marker}")).0 {
        Ok(QueueRequest::ListQueues(list)) => assert_eq!(list.from.as_deref(), Some("orders")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers() {
    let state = MessageState {
        inserted: DateTime::parse("2026-10-09T21:04:30Z").unwrap(),
        expires: DateTime::parse("2026-10-16T21:04:30Z").unwrap(),
        visible_at: held().visible_at,
        sequence: 7,
        dequeue_count: 0,
    };
    let enqueued = Enqueued { id: MessageId::parse(ID).unwrap(), state, receipt: held() };
    let metadata = Metadata::new(vec![("a".to_owned(), "1".to_owned())]).unwrap();
    let updated = Updated { receipt: held(), visible_at: held().visible_at };
    for (request, reply, status) in [
        ("PUT /orders", QueueReply::Created { is_new: true }, 201),
        ("PUT /orders", QueueReply::Created { is_new: false }, 204),
        ("GET /orders?comp=metadata", QueueReply::Metadata { metadata, messages: 3 }, 200),
        ("POST /orders/messages", QueueReply::Put(enqueued), 201),
        ("GET /orders/messages", QueueReply::Messages(Vec::new()), 200),
        ("PUT /orders/messages/1", QueueReply::Updated(updated), 204),
        ("PUT /?restype=service&comp=properties", QueueReply::ServicePropertiesSet, 202),
    ] {
        let (_, context) = parse(request);
        let head = ResponseHead { request_id: "r", now: DateTime::MIN, context: &context };
        let response = render_reply(&reply, &head);
        assert_eq!(response.status().as_u16(), status, "{request}");
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
        match reply {
            QueueReply::Metadata { .. } => {
                assert_eq!(header("x-ms-meta-a"), Some("1"));
                assert_eq!(header("x-ms-approximate-messages-count"), Some("3"));
            }
            QueueReply::Updated(_) => {
                assert_eq!(header("x-ms-popreceipt"), Some(receipt::write(&held()).as_str()));
                let visible = "Fri, 09 Oct 2026 21:05:00 GMT";
                assert_eq!(header("x-ms-time-next-visible"), Some(visible));
            }
            _ => {}
        }
    }
    // Before 2016-05-31 a Put has no body.
    let (_, context) = parse("POST /orders/messages\nx-ms-version: 2015-12-11");
    let head = ResponseHead { request_id: "r", now: DateTime::MIN, context: &context };
    assert!(render_reply(&QueueReply::Put(enqueued), &head).body().is_empty());
}

#[test]
fn errors_to_the_byte() {
    let (_, context) = parse("GET /orders/messages?numofmessages=99");
    let now = DateTime::parse("2026-10-09T21:04:30Z").unwrap();
    let head = ResponseHead { request_id: "r", now, context: &context };
    let (name, value) = ("numofmessages", "99".to_owned());
    let error = ApiError::OutOfRangeQueryParameter { name, value, min: 1, max: 32 };
    let response = render_error(&error.into(), &head);
    assert_eq!(response.headers()["x-ms-error-code"], "OutOfRangeQueryParameterValue");
    let body = String::from_utf8(response.into_body().to_vec()).unwrap();
    assert!(
        body.ends_with(
            "\nRequestId:r\nTime:2026-10-09T21:04:30.0000000Z</Message><QueryParameterName>\
             numofmessages</QueryParameterName><QueryParameterValue>99</QueryParameterValue>\
             <MinimumAllowed>1</MinimumAllowed><MaximumAllowed>32</MaximumAllowed></Error>"
        ),
        "{body}"
    );
    let (_, context) = parse("HEAD /orders?comp=metadata");
    let head = ResponseHead { request_id: "r", now, context: &context };
    let response = render_error(&QueueError::QueueNotFound, &head);
    assert_eq!((response.status().as_u16(), response.body().len()), (404, 0));
}
