//! What every answer of every service has.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, DATE, RETRY_AFTER, SERVER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tavola_core::{DateTime, ServiceKind};

use crate::api_error::ApiError;
use crate::headers::{http_date, name, text_value};
use crate::version::Version;

/// The longest client request id that is echoed.
const CLIENT_REQUEST_ID_BYTES_MAX: usize = 1024;

/// How long a client waits before it asks again: a budget fills by the second, and a store that was
/// unavailable needs a moment.
const RETRY_SECONDS: u32 = 1;

// What `Server` says, checked when this is compiled rather than for every answer.
static BLOB_SERVER: HeaderValue =
    HeaderValue::from_static(concat!("Tavola-Blob/", env!("CARGO_PKG_VERSION")));
static QUEUE_SERVER: HeaderValue =
    HeaderValue::from_static(concat!("Tavola-Queue/", env!("CARGO_PKG_VERSION")));
static TABLE_SERVER: HeaderValue =
    HeaderValue::from_static(concat!("Tavola-Table/", env!("CARGO_PKG_VERSION")));

fn server_name(service: ServiceKind) -> HeaderValue {
    match service {
        ServiceKind::Blob => BLOB_SERVER.clone(),
        ServiceKind::Queue => QUEUE_SERVER.clone(),
        ServiceKind::Table => TABLE_SERVER.clone(),
    }
}

/// What the answer to a request needs to know of it, whichever service it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseContext {
    service: ServiceKind,
    version: Version,
    client_request_id: Option<HeaderValue>,
    /// How long the client is willing to wait, once the request is parsed; at most 30 s.
    pub timeout: Option<Duration>,
}

impl ResponseContext {
    /// What can be known of a request before it is understood. Never fails: the answer to a bad
    /// request needs it too.
    #[must_use]
    pub fn of(service: ServiceKind, parts: &Parts) -> Self {
        Self {
            service,
            version: Version::of(parts).unwrap_or(Version::NEWEST),
            client_request_id: client_request_id(&parts.headers),
            timeout: None,
        }
    }

    /// The client's own id of the request, for logs; only if it is one that is echoed.
    #[must_use]
    pub fn client_request_id(&self) -> Option<&str> {
        self.client_request_id.as_ref().and_then(|id| id.to_str().ok())
    }

    /// The version that the request speaks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}

impl AsRef<ResponseContext> for ResponseContext {
    fn as_ref(&self) -> &ResponseContext {
        self
    }
}

/// Echoed only if it is visible ASCII of bounded length.
fn client_request_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let id = headers.get(&name::CLIENT_REQUEST_ID)?;
    let visible = |byte: &u8| (0x20..0x7f).contains(byte);
    let echoed = !id.is_empty()
        && id.len() <= CLIENT_REQUEST_ID_BYTES_MAX
        && id.as_bytes().iter().all(visible);
    echoed.then(|| id.clone())
}

/// What the head of an answer is made of. `C` is a service's own context.
#[derive(Debug)]
pub struct ResponseHead<'a, C> {
    /// A GUID's text.
    pub request_id: &'a str,
    /// When the request came.
    pub now: DateTime,
    /// How to answer.
    pub context: &'a C,
}

impl<C> Clone for ResponseHead<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for ResponseHead<'_, C> {}

impl<C: AsRef<ResponseContext>> ResponseHead<'_, C> {
    /// An answer with the headers that every answer has.
    pub fn respond(&self, status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Bytes> {
        let length = body.len();
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let all = response.headers_mut();
        *all = headers;
        self.add_common_headers(all);
        all.insert(CONTENT_LENGTH, HeaderValue::from(length));
        response
    }

    /// Adds the headers that every answer has, but for the length of its body.
    pub fn add_common_headers(&self, headers: &mut HeaderMap) {
        let context = self.context.as_ref();
        headers.insert(SERVER, server_name(context.service));
        headers.insert(DATE, date_value(self.now));
        headers.insert(name::REQUEST_ID.clone(), text_value(self.request_id.to_owned()));
        headers.insert(name::VERSION.clone(), version_value(context.version));
        if let Some(id) = &context.client_request_id {
            headers.insert(name::CLIENT_REQUEST_ID.clone(), id.clone());
        }
    }
}

/// Adds what an error tells a client to do: when to come back, with which verbs, with which
/// credential.
pub fn add_advice(api_error: &ApiError, headers: &mut HeaderMap) {
    match api_error {
        ApiError::ServerBusy { retry_after_seconds } => {
            headers.insert(RETRY_AFTER, HeaderValue::from(*retry_after_seconds));
        }
        ApiError::OverBudget(_) | ApiError::StoreUnavailable | ApiError::StoreFull => {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
        }
        ApiError::CredentialsMissing { challenge, .. } => {
            headers.insert(WWW_AUTHENTICATE, text_value(challenge.clone()));
        }
        ApiError::MethodNotAllowed { allowed } => {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        _ => {}
    }
}

/// The date of an answer. Many answers of a second share it.
fn date_value(at: DateTime) -> HeaderValue {
    thread_local! {
        static LAST: Recent<i64> = const { Recent::new(i64::MIN) };
    }
    LAST.with(|last| last.value_of(at.unix_seconds(), || http_date(at)))
}

/// The version of an answer. Most clients of a server speak the same.
fn version_value(version: Version) -> HeaderValue {
    thread_local! {
        static LAST: Recent<Version> = const { Recent::new(Version::literal(b"0000-00-00")) };
    }
    LAST.with(|last| last.value_of(version, || version.as_str().to_owned()))
}

/// The header value that was made last, for answers that have the same one after another.
struct Recent<K>(RefCell<(K, HeaderValue)>);

impl<K: PartialEq + Copy> Recent<K> {
    /// `unused` is a key that nobody asks for.
    const fn new(unused: K) -> Self {
        Self(RefCell::new((unused, HeaderValue::from_static(""))))
    }

    fn value_of(&self, key: K, text: impl FnOnce() -> String) -> HeaderValue {
        let (last, value) = &mut *self.0.borrow_mut();
        if *last != key {
            *value = text_value(text());
            *last = key;
        }
        value.clone()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use tavola_core::{DateTime, ServiceKind};

    use super::{ResponseContext, ResponseHead};

    fn response(headers: &[(&str, &str)]) -> http::Response<bytes::Bytes> {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let context =
            ResponseContext::of(ServiceKind::Queue, &request.body(()).unwrap().into_parts().0);
        let now = DateTime::parse("2026-11-16T00:05:27.9Z").unwrap();
        let response_head = ResponseHead { request_id: "id", now, context: &context };
        response_head.respond(
            http::StatusCode::OK,
            http::HeaderMap::new(),
            bytes::Bytes::from_static(b"abc"),
        )
    }

    /// Statements 22 to 26.
    #[test]
    fn headers_of_every_answer() {
        let answer =
            response(&[("x-ms-version", "2019-02-02"), ("x-ms-client-request-id", "mine")]);
        for (name, value) in [
            ("date", "Mon, 16 Nov 2026 00:05:27 GMT"),
            ("x-ms-request-id", "id"),
            ("x-ms-version", "2019-02-02"),
            ("x-ms-client-request-id", "mine"),
            ("content-length", "3"),
        ] {
            assert_eq!(answer.headers()[name], value, "{name}");
        }
        assert!(answer.headers()["server"].to_str().unwrap().starts_with("Tavola-Queue/"));
        assert!(!response(&[]).headers().contains_key("x-ms-client-request-id"));
        let echoed = |id: &str| {
            response(&[("x-ms-client-request-id", id)])
                .headers()
                .contains_key("x-ms-client-request-id")
        };
        assert!(echoed(&"x".repeat(1024)));
        assert!(!echoed(&"x".repeat(1025)));
        assert!(!echoed("\t"));
    }
}
