//! From HTTP to what is asked.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::Method;
use http::request::Parts;
use tavola_core::ServiceKind;
use tavola_core::queue::{
    BODY_BYTES_MAX, GET_VISIBILITY_SECONDS, LIST_PAGE_MAX, ListQueues, MESSAGES_MAX, MessageId,
    PopReceipt, QueueName, QueueRequest, TEXT_BYTES_MAX, TimeToLive, VISIBILITY_SECONDS_MAX,
};

use super::context::QueueContext;
use super::error::QueueError;
use super::receipt;
use crate::address::Address;
use crate::api_error::ApiError;
use crate::metadata_headers;
use crate::query_string::{QueryString, decode};
use crate::version::Version;
use crate::xml::{read_message_text, read_policies, read_service_properties};

/// Since then a message may live for longer than seven days, or for ever.
const LONG_LIVES: Version = Version::literal(b"2017-07-29");
const TTL_BELOW_ONE: &str =
    "Value must be greater than or equal to 1, or -1 to indicate an infinite TTL.";
const TTL_BELOW_VISIBILITY: &str = "messagettl must be greater than visibilitytimeout.";
const RECEIPT_FORMAT: &str = "Invalid pop receipt format";

/// What a path names.
enum Resource<'a> {
    Service,
    Queue(QueueName),
    Messages(QueueName),
    Message(QueueName, &'a str),
}

/// Understands a request; `context` learns how its answer is to be written.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_request(
    parts: &Parts,
    body: &Bytes,
    address: &Address,
    context: &mut QueueContext,
) -> Result<QueueRequest, QueueError> {
    let query = QueryString::parse(parts.uri.query())?;
    context.common.timeout = query.timeout()?;
    let operation = Operation { parts, query, body, version: context.common.version() };
    match resource(&address.resource_path)? {
        Resource::Service => operation.on_service(address.secondary, context),
        Resource::Queue(queue) => operation.on_queue(queue),
        Resource::Messages(queue) => operation.on_messages(queue),
        Resource::Message(queue, id) => operation.on_message(queue, id),
    }
}

fn resource(path: &str) -> Result<Resource<'_>, QueueError> {
    let mut segments = path.trim_start_matches('/').split('/').collect::<Vec<_>>();
    if segments.last() == Some(&"") {
        segments.pop();
    }
    let (name, rest) = match segments.split_first() {
        None => return Ok(Resource::Service),
        Some(found) => found,
    };
    let name = decode(name).ok_or(ApiError::UrlUnparsable)?;
    let queue = QueueName::parse(&name)?;
    match rest {
        [] => Ok(Resource::Queue(queue)),
        [messages] if messages.eq_ignore_ascii_case("messages") => Ok(Resource::Messages(queue)),
        [messages, id] if messages.eq_ignore_ascii_case("messages") => {
            Ok(Resource::Message(queue, id))
        }
        _ => Err(ApiError::InvalidUri.into()),
    }
}

fn allowed(allowed: &'static str) -> QueueError {
    ApiError::MethodNotAllowed { allowed }.into()
}

/// A request taken apart.
struct Operation<'a> {
    parts: &'a Parts,
    query: QueryString<'a>,
    body: &'a Bytes,
    version: Version,
}

impl Operation<'_> {
    fn invalid(&self, name: &'static str) -> Result<QueueError, QueueError> {
        let value = self.query.get(name)?.unwrap_or_default().to_owned();
        Ok(ApiError::InvalidQueryParameter { name, value }.into())
    }

    fn on_service(
        &self,
        secondary: bool,
        context: &mut QueueContext,
    ) -> Result<QueueRequest, QueueError> {
        let is_service = self.query.get("restype")? == Some("service");
        match (self.query.required("comp")?, is_service, &self.parts.method) {
            ("list", _, &Method::GET) => self.list(context),
            ("list", _, _) => Err(allowed("GET")),
            ("properties", true, &Method::GET) => Ok(QueueRequest::GetServiceProperties),
            ("properties", true, &Method::PUT) => {
                Ok(QueueRequest::SetServiceProperties(read_service_properties(self.body)?))
            }
            ("properties", true, _) => Err(allowed("GET, PUT")),
            // Only a secondary knows how far it has come.
            ("stats", true, &Method::GET) if secondary => Ok(QueueRequest::GetServiceStats),
            ("stats", true, _) => Err(self.invalid("comp")?),
            ("properties" | "stats", false, _) if self.query.get("restype")?.is_none() => {
                Err(ApiError::MissingQueryParameter("restype").into())
            }
            _ => Err(self.invalid("comp")?),
        }
    }

    fn list(&self, context: &mut QueueContext) -> Result<QueueRequest, QueueError> {
        let marker = self.query.get("marker")?.filter(|marker| !marker.is_empty());
        let asked = ListQueues {
            prefix: self.query.get("prefix")?.unwrap_or_default().to_owned(),
            from: marker.map(read_marker).transpose()?,
            max_results: self.max_results()?,
            with_metadata: self.query.get("include")?.is_some_and(|include| {
                include.split(',').any(|one| one.trim().eq_ignore_ascii_case("metadata"))
            }),
        };
        context.list = Some((asked.clone(), marker.map(str::to_owned)));
        Ok(QueueRequest::ListQueues(asked))
    }

    /// More than a page has is a page.
    fn max_results(&self) -> Result<Option<u32>, QueueError> {
        match self.query.number("maxresults", (1, u32::MAX)) {
            Ok(number) => Ok(number.map(|number| number.min(LIST_PAGE_MAX))),
            Err(ApiError::OutOfRangeQueryParameter { name, value, min, .. }) => {
                Err(ApiError::OutOfRangeQueryParameter { name, value, min, max: LIST_PAGE_MAX }
                    .into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn on_queue(&self, queue: QueueName) -> Result<QueueRequest, QueueError> {
        let method = &self.parts.method;
        let is_read = matches!(method, &Method::GET | &Method::HEAD);
        match (self.query.get("comp")?, method) {
            (None, &Method::PUT) => {
                Ok(QueueRequest::CreateQueue(queue, metadata_headers::read(&self.parts.headers)?))
            }
            (None, &Method::DELETE) => Ok(QueueRequest::DeleteQueue(queue)),
            (None, _) => Err(allowed("PUT, DELETE")),
            (Some("metadata"), _) if is_read => Ok(QueueRequest::GetMetadata(queue)),
            (Some("metadata"), &Method::PUT) => {
                Ok(QueueRequest::SetMetadata(queue, metadata_headers::read(&self.parts.headers)?))
            }
            (Some("acl"), _) if is_read => Ok(QueueRequest::GetPolicies(queue)),
            (Some("acl"), &Method::PUT) => {
                let policies = read_policies(ServiceKind::Queue, self.body)?;
                Ok(QueueRequest::SetPolicies(queue, policies))
            }
            (Some("metadata" | "acl"), _) => Err(allowed("GET, HEAD, PUT")),
            (Some(_), _) => Err(self.invalid("comp")?),
        }
    }

    fn on_messages(&self, queue: QueueName) -> Result<QueueRequest, QueueError> {
        match self.parts.method {
            Method::POST => self.put(queue),
            Method::GET => {
                let count = self.query.number("numofmessages", (1, MESSAGES_MAX))?.unwrap_or(1);
                let peek = self.query.get("peekonly")?;
                if peek.is_some_and(|peek| peek.eq_ignore_ascii_case("true")) {
                    return Ok(QueueRequest::PeekMessages { queue, count });
                }
                let hidden_for = self.visibility(1)?.unwrap_or(GET_VISIBILITY_SECONDS);
                Ok(QueueRequest::GetMessages { queue, count, hidden_for })
            }
            Method::DELETE => Ok(QueueRequest::ClearMessages(queue)),
            _ => Err(allowed("GET, POST, DELETE")),
        }
    }

    fn visibility(&self, min: u32) -> Result<Option<u32>, ApiError> {
        self.query.number("visibilitytimeout", (min, VISIBILITY_SECONDS_MAX))
    }

    fn put(&self, queue: QueueName) -> Result<QueueRequest, QueueError> {
        let text = self.text()?.ok_or(ApiError::InvalidXmlDocument)?;
        let visibility = self.visibility(0)?;
        let time_to_live = self.time_to_live()?;
        if let (Some(hidden), Some(TimeToLive::Seconds(live))) = (visibility, time_to_live)
            && u64::from(hidden) >= live
        {
            let (name, value) = ("visibilitytimeout", hidden.to_string());
            let reason = TTL_BELOW_VISIBILITY;
            return Err(ApiError::RejectedQueryParameter { name, value, reason }.into());
        }
        Ok(QueueRequest::PutMessage {
            queue,
            text,
            time_to_live: time_to_live.unwrap_or(TimeToLive::DEFAULT),
            hidden_for: visibility.unwrap_or(0),
        })
    }

    fn time_to_live(&self) -> Result<Option<TimeToLive>, ApiError> {
        let name = "messagettl";
        let Some(text) = self.query.get(name)? else { return Ok(None) };
        let value = || text.to_owned();
        let seconds: i64 =
            text.parse().map_err(|_| ApiError::InvalidQueryParameter { name, value: value() })?;
        let is_long = self.version >= LONG_LIVES;
        match u64::try_from(seconds) {
            _ if seconds == -1 && is_long => Ok(Some(TimeToLive::Never)),
            Ok(0) | Err(_) => {
                let reason = TTL_BELOW_ONE;
                Err(ApiError::RejectedQueryParameter { name, value: value(), reason })
            }
            Ok(seconds) if !is_long && seconds > u64::from(VISIBILITY_SECONDS_MAX) => {
                let (min, max) = (1, VISIBILITY_SECONDS_MAX);
                Err(ApiError::OutOfRangeQueryParameter { name, value: value(), min, max })
            }
            Ok(seconds) => Ok(Some(TimeToLive::Seconds(seconds))),
        }
    }

    /// The text of the body; `None` if it has none.
    fn text(&self) -> Result<Option<String>, QueueError> {
        if self.body.len() > BODY_BYTES_MAX {
            return Err(ApiError::BodyBeyondLimit { max: BODY_BYTES_MAX }.into());
        }
        let text = read_message_text(self.body)?;
        match &text {
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                Err(ApiError::BodyBeyondLimit { max: TEXT_BYTES_MAX }.into())
            }
            _ => Ok(text),
        }
    }

    fn on_message(&self, queue: QueueName, id: &str) -> Result<QueueRequest, QueueError> {
        let id = decode(id).ok_or(ApiError::UrlUnparsable)?;
        match self.parts.method {
            Method::PUT => {
                let receipt = self.receipt()?;
                self.query.required("visibilitytimeout")?;
                let hidden_for = self.visibility(0)?.unwrap_or(0);
                let text = if self.body.is_empty() { None } else { self.text()? };
                let id = message_id(&id)?;
                Ok(QueueRequest::UpdateMessage { queue, id, receipt, hidden_for, text })
            }
            Method::DELETE => {
                let receipt = self.receipt()?;
                Ok(QueueRequest::DeleteMessage { queue, id: message_id(&id)?, receipt })
            }
            _ => Err(allowed("PUT, DELETE")),
        }
    }

    fn receipt(&self) -> Result<PopReceipt, QueueError> {
        let text = self.query.required("popreceipt")?;
        receipt::read(text).ok_or_else(|| {
            let (name, value) = ("popreceipt", text.to_owned());
            ApiError::RejectedQueryParameter { name, value, reason: RECEIPT_FORMAT }.into()
        })
    }
}

/// An id that none of our messages has names no message.
fn message_id(text: &str) -> Result<MessageId, QueueError> {
    MessageId::parse(text).ok_or(QueueError::MessageNotFound)
}

/// A marker names the next queue, in a form that nobody is tempted to write by hand.
pub(super) fn write_marker(next: &str) -> String {
    URL_SAFE_NO_PAD.encode(next)
}

fn read_marker(marker: &str) -> Result<String, QueueError> {
    let bytes = URL_SAFE_NO_PAD.decode(marker).map_err(|_| QueueError::InvalidMarker)?;
    let name = String::from_utf8(bytes).map_err(|_| QueueError::InvalidMarker)?;
    QueueName::parse(&name).map_err(|_| QueueError::InvalidMarker)?;
    Ok(name)
}
