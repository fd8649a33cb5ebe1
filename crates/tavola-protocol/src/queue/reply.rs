//! From what is answered to HTTP.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tavola_core::queue::{ListQueues, QueueReply};

use super::context::QueueContext;
use super::error::QueueError;
use super::{receipt, request};
use crate::api_error::ServiceApiError as _;
use crate::headers::{http_date, name, text_value};
use crate::response::{ResponseHead, add_advice};
use crate::version::Version;
use crate::{error_body, metadata_headers, xml};

/// Since then a Put tells what was put.
const PUT_HAS_BODY: Version = Version::literal(b"2016-05-31");

/// Writes the answer to a request that was carried out.
#[must_use]
pub fn render_reply(reply: &QueueReply, head: &ResponseHead<'_, QueueContext>) -> Response<Bytes> {
    let context = head.context;
    let empty = |status| head.respond(status, HeaderMap::new(), Bytes::new());
    match reply {
        QueueReply::Queues { queues, next } => {
            let default = (ListQueues::default(), None);
            let (asked, marker) = context.list.as_ref().unwrap_or(&default);
            let next = next.as_deref().map(request::write_marker);
            let body = xml::write_queues(
                &context.endpoint(),
                asked,
                marker.as_deref(),
                queues,
                next.as_deref(),
            );
            with_xml(StatusCode::OK, body, head)
        }
        QueueReply::Created { is_new: true } => empty(StatusCode::CREATED),
        QueueReply::Created { is_new: false }
        | QueueReply::Deleted
        | QueueReply::MetadataSet
        | QueueReply::PoliciesSet
        | QueueReply::Cleared
        | QueueReply::MessageDeleted => empty(StatusCode::NO_CONTENT),
        QueueReply::Metadata { metadata, messages } => {
            let mut headers = HeaderMap::new();
            metadata_headers::write(metadata, &mut headers);
            headers.insert(name::APPROXIMATE_COUNT.clone(), HeaderValue::from(*messages));
            head.respond(StatusCode::OK, headers, Bytes::new())
        }
        QueueReply::Policies(policies) => {
            with_xml(StatusCode::OK, xml::write_policies(policies), head)
        }
        QueueReply::Put(_) if context.common.version() < PUT_HAS_BODY => empty(StatusCode::CREATED),
        QueueReply::Put(message) => {
            with_xml(StatusCode::CREATED, xml::write_enqueued(message), head)
        }
        QueueReply::Messages(messages) => {
            with_xml(StatusCode::OK, xml::write_messages(messages), head)
        }
        QueueReply::Peeked(messages) => with_xml(StatusCode::OK, xml::write_peeked(messages), head),
        QueueReply::Updated(updated) => {
            let mut headers = HeaderMap::new();
            let held = text_value(receipt::write(&updated.receipt));
            headers.insert(name::POP_RECEIPT.clone(), held);
            let visible = text_value(http_date(updated.visible_at));
            headers.insert(name::TIME_NEXT_VISIBLE.clone(), visible);
            head.respond(StatusCode::NO_CONTENT, headers, Bytes::new())
        }
        QueueReply::ServiceProperties(properties) => {
            with_xml(StatusCode::OK, xml::write_service_properties(properties), head)
        }
        QueueReply::ServicePropertiesSet => empty(StatusCode::ACCEPTED),
        QueueReply::ServiceStats(last_sync) => {
            with_xml(StatusCode::OK, xml::write_stats(*last_sync), head)
        }
    }
}

/// Writes the answer to a request that was not carried out.
#[must_use]
pub fn render_error(error: &QueueError, head: &ResponseHead<'_, QueueContext>) -> Response<Bytes> {
    let parts = error.parts();
    let mut headers = HeaderMap::new();
    headers.insert(name::ERROR_CODE.clone(), HeaderValue::from_static(parts.code));
    if let Some(api_error) = error.common() {
        add_advice(api_error, &mut headers);
    }
    let body = error_body::storage_xml(&parts, error.common(), head.request_id, head.now);
    respond_xml(parts.status, headers, body, head)
}

fn with_xml(
    status: StatusCode,
    body: Vec<u8>,
    head: &ResponseHead<'_, QueueContext>,
) -> Response<Bytes> {
    respond_xml(status, HeaderMap::new(), body, head)
}

fn respond_xml(
    status: StatusCode,
    mut headers: HeaderMap,
    body: Vec<u8>,
    head: &ResponseHead<'_, QueueContext>,
) -> Response<Bytes> {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    let body = if head.context.is_head { Bytes::new() } else { Bytes::from(body) };
    head.respond(status, headers, body)
}
