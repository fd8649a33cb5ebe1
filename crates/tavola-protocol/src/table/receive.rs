//! From HTTP to everything that a client can learn of an answer: what [`super::decode`] reads, and
//! beside it the head, the echo of an insert, the parts of a transaction, and what somebody else
//! said instead of the service.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use tavola_core::{ETag, EntityOperation, TableRequest, Timestamp};

use super::batch::decode_batch_response;
use super::decode::{
    DecodeError, Decoded, ServiceError, decode_reply, etag, failed_operation, service_error,
};
use super::entity_json::{DecodedEntity, decode_entity};
use crate::headers::name;

/// So much of a foreign answer is shown.
const BEGINNING_CHARS_MAX: usize = 120;

/// What the head of every answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyHead {
    /// The status of the whole answer.
    pub status: StatusCode,
    /// The service's id of the request.
    pub request_id: Option<String>,
    /// How long to wait before the next attempt. Dates are not read: the service writes seconds.
    pub retry_after: Option<Duration>,
}

impl ReplyHead {
    fn of(response: &Response<Bytes>) -> Self {
        let headers = response.headers();
        let seconds = text(headers, &RETRY_AFTER).and_then(|text| text.trim().parse().ok());
        Self {
            status: response.status(),
            request_id: text(headers, &name::REQUEST_ID).map(str::to_owned),
            retry_after: seconds.map(Duration::from_secs),
        }
    }
}

/// What became of one write, alone or in a transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteReply {
    /// The status of this write.
    pub status: StatusCode,
    /// The new version; none of what is gone.
    pub etag: Option<ETag>,
    /// When it was written, as far as the tag or the echo says.
    pub timestamp: Option<Timestamp>,
    /// The entity, if an insert asked for it.
    pub echo: Option<DecodedEntity>,
}

impl WriteReply {
    fn of(response: &Response<Bytes>, operation: &EntityOperation) -> Self {
        let echo = matches!(operation, EntityOperation::Insert(_))
            .then(|| decode_entity(response.body()).ok())
            .flatten();
        let etag = etag(response.headers())
            .or_else(|| echo.as_ref().and_then(|entity| entity.etag.clone()));
        let timestamp = etag
            .as_ref()
            .and_then(ETag::version)
            .or_else(|| echo.as_ref().and_then(|entity| entity.timestamp));
        Self { status: response.status(), etag, timestamp, echo }
    }
}

/// An answer to a request that was carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// What every answer says.
    pub head: ReplyHead,
    /// What this one says.
    pub reply: Reply,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// One reply for each operation, in their order; one for a single write.
    Written(Vec<WriteReply>),
    /// Anything else.
    Decoded(Decoded),
}

/// An answer to a request that was not carried out, or nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReceived {
    /// What every answer says.
    pub head: ReplyHead,
    /// Why.
    pub reason: NotReceivedReason,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReceivedReason {
    /// The service says no.
    Service(ServiceError),
    /// Somebody else answers: a proxy, a login page.
    NotOurs {
        /// What it says that it is.
        content_type: String,
        /// How it begins, without control characters.
        beginning: String,
    },
}

/// Reads the answer to `request`.
///
/// # Errors
/// If the service refused, or the answer is not one of its own.
pub fn receive_reply(
    request: &TableRequest,
    response: &Response<Bytes>,
) -> Result<Received, Box<NotReceived>> {
    let head = ReplyHead::of(response);
    let fail = |reason| Box::new(NotReceived { head: head.clone(), reason });
    if !response.status().is_success() {
        return Err(fail(refusal(response)));
    }
    let reply = match request {
        TableRequest::Write(_, _, operation) => {
            if !is_written(response) {
                return Err(fail(not_ours(response)));
            }
            Reply::Written(vec![WriteReply::of(response, operation)])
        }
        TableRequest::Transaction(_, group) => {
            Reply::Written(transaction(group.operations(), response).map_err(fail)?)
        }
        // A page of a proxy has the status of success too.
        TableRequest::CreateTable(_)
        | TableRequest::DeleteTable(_)
        | TableRequest::SetPolicies(..)
        | TableRequest::SetServiceProperties(_)
            if !is_ours(response) =>
        {
            return Err(fail(not_ours(response)));
        }
        request => Reply::Decoded(decode_reply(request, response).map_err(|error| {
            fail(match error {
                DecodeError::Service(error) => NotReceivedReason::Service(error),
                DecodeError::Malformed => not_ours(response),
            })
        })?),
    };
    Ok(Received { head, reply })
}

fn transaction(
    operations: &[EntityOperation],
    response: &Response<Bytes>,
) -> Result<Vec<WriteReply>, NotReceivedReason> {
    let content_type = text(response.headers(), &CONTENT_TYPE).unwrap_or_default();
    let parts =
        decode_batch_response(content_type, response.body()).map_err(|_| not_ours(response))?;
    if let Some(failed) = parts.iter().find(|part| !part.status().is_success()) {
        return Err(NotReceivedReason::Service(failed_operation(service_error(failed))));
    }
    if parts.len() != operations.len() {
        return Err(not_ours(response));
    }
    Ok(parts.iter().zip(operations).map(|(part, one)| WriteReply::of(part, one)).collect())
}

/// What the service refuses has a code, in the body or at least in a header.
fn refusal(response: &Response<Bytes>) -> NotReceivedReason {
    let error = service_error(response);
    if error.code.is_empty() && !has_request_id(response.headers()) {
        return not_ours(response);
    }
    NotReceivedReason::Service(error)
}

/// The answer to a write has nothing in it, or the entity.
fn is_written(response: &Response<Bytes>) -> bool {
    match response.status() {
        StatusCode::NO_CONTENT => true,
        StatusCode::CREATED => is_ours(response),
        _ => false,
    }
}

fn is_ours(response: &Response<Bytes>) -> bool {
    response.body().is_empty() || has_request_id(response.headers())
}

fn has_request_id(headers: &HeaderMap) -> bool {
    headers.contains_key(&name::REQUEST_ID)
}

fn not_ours(response: &Response<Bytes>) -> NotReceivedReason {
    let body = response.body();
    let start = body.get(..4 * BEGINNING_CHARS_MAX).unwrap_or(body);
    let shown = |character: char| if character.is_control() { ' ' } else { character };
    let start = String::from_utf8_lossy(start);
    let beginning = start.trim_start().chars().take(BEGINNING_CHARS_MAX);
    NotReceivedReason::NotOurs {
        content_type: text(response.headers(), &CONTENT_TYPE).unwrap_or_default().to_owned(),
        beginning: beginning.map(shown).collect::<String>().trim_end().to_owned(),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests;
