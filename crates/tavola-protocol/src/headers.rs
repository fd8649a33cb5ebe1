//! How an answer is to be written, and the headers that every answer has.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, DATE, SERVER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tavola_core::DateTime;
use tavola_core::request::Select;

use crate::address::Address;
use crate::api_error::ApiError;
use crate::table::batch::Field;
use crate::table::entity_json::MetadataLevel;
use crate::table::query::{Parameter, Query};
use crate::version::Version;

/// What `Server` says.
const SERVER_NAME: &str = concat!("Tavola-Table/", env!("CARGO_PKG_VERSION"));

/// The longest client request id that is echoed.
const CLIENT_REQUEST_ID_BYTES_MAX: usize = 1024;

/// The header fields of a request, or of one inside a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fields<'a> {
    Whole(&'a HeaderMap),
    Batched(&'a [Field<'a>]),
}

impl<'a> Fields<'a> {
    /// The value of each field of this name; `None` for one that is not visible ASCII.
    pub(crate) fn all(self, name: &HeaderName) -> impl Iterator<Item = Option<&'a str>> {
        let (map, list) = match self {
            Self::Whole(map) => (Some(map.get_all(name)), [].as_slice()),
            Self::Batched(list) => (None, list),
        };
        let whole = map.into_iter().flatten().map(|value| value.to_str().ok());
        whole.chain(list.iter().filter(|field| field.is_named(name.as_str())).map(Field::visible))
    }

    /// The value of the first field of this name, if it is visible ASCII.
    pub(crate) fn text(self, name: &HeaderName) -> Option<&'a str> {
        match self {
            Self::Whole(map) => map.get(name)?.to_str().ok(),
            Self::Batched(list) => {
                list.iter().find(|field| field.is_named(name.as_str()))?.visible()
            }
        }
    }

    /// True if there is a field of this name.
    pub(crate) fn has(self, name: &HeaderName) -> bool {
        match self {
            Self::Whole(map) => map.contains_key(name),
            Self::Batched(list) => list.iter().any(|field| field.is_named(name.as_str())),
        }
    }
}

/// What `Prefer` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// `return-content`
    ReturnContent,
    /// `return-no-content`
    ReturnNoContent,
}

impl Prefer {
    /// What a request's headers ask for; anything unknown asks for nothing.
    #[must_use]
    pub(crate) fn of(fields: Fields<'_>) -> Option<Self> {
        match fields.text(&name::PREFER)?.trim() {
            "return-content" => Some(Self::ReturnContent),
            "return-no-content" => Some(Self::ReturnNoContent),
            _ => None,
        }
    }

    /// What `Preference-Applied` says.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReturnContent => "return-content",
            Self::ReturnNoContent => "return-no-content",
        }
    }
}

/// How one operation, alone or in a batch, wants its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFormat {
    /// How much metadata.
    pub level: MetadataLevel,
    /// Echo the entity or not.
    pub prefer: Option<Prefer>,
    /// Which properties.
    pub select: Select,
}

impl ResponseFormat {
    /// What can be read of it, with the usual where it cannot; and why it cannot: only formats are
    /// wanted that we do not write, or `$select` is too long.
    pub(crate) fn read(fields: Fields<'_>, query: &Query<'_>) -> (Self, Option<ApiError>) {
        let (level, select) = (negotiate(fields, query.get(Parameter::Format)), query.select());
        let refused = level.as_ref().err().or(select.as_ref().err()).cloned();
        let level = level.unwrap_or(MetadataLevel::Minimal);
        (Self { level, prefer: Prefer::of(fields), select: select.unwrap_or_default() }, refused)
    }
}

/// What surrounds the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// Nothing: one operation, one answer.
    Plain,
    /// A changeset in a batch, with the format for each of its operations that was understood.
    Changeset(Vec<ResponseFormat>),
    /// A batch that holds one query.
    BatchedQuery,
}

/// How to answer a request, apart from what to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseContext {
    version: Version,
    client_request_id: Option<HeaderValue>,
    pub(crate) base: String,
    pub(crate) account: String,
    /// Bodies are XML, errors too, and none of the headers of OData are sent.
    pub(crate) is_xml: bool,
    pub(crate) format: ResponseFormat,
    /// Why an answer in the requested format is impossible.
    format_error: Option<ApiError>,
    pub(crate) envelope: Envelope,
    pub(crate) timeout: Option<Duration>,
}

impl ResponseContext {
    /// What can be known of a request before it is understood. Never fails: the answer to a bad
    /// request needs it too.
    #[must_use]
    pub fn of(parts: &Parts, address: Option<&Address>) -> Self {
        let query = Query::parse(parts.uri.query());
        let (format, format_error) = ResponseFormat::read(Fields::Whole(&parts.headers), &query);
        let only_xml_is_wanted = format_error == Some(ApiError::AtomFormatNotSupported);
        Self {
            version: Version::of(parts).unwrap_or(Version::NEWEST),
            client_request_id: client_request_id(&parts.headers),
            base: address.map(|address| address.base.clone()).unwrap_or_default(),
            account: address.map(|address| address.account.to_string()).unwrap_or_default(),
            is_xml: query.is_xml_operation() || only_xml_is_wanted,
            format,
            format_error,
            envelope: Envelope::Plain,
            timeout: None,
        }
    }

    /// # Errors
    /// If the answer cannot be as the request wants it.
    pub(crate) fn check_format(&self) -> Result<(), ApiError> {
        self.format_error.clone().map_or(Ok(()), Err)
    }

    /// How long the client is willing to wait, once the request is parsed; at most 30 s.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
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

/// Echoed only if it is visible ASCII of bounded length.
fn client_request_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let id = headers.get(&name::CLIENT_REQUEST_ID)?;
    let visible = |byte: &u8| (0x20..0x7f).contains(byte);
    let echoed = !id.is_empty()
        && id.len() <= CLIENT_REQUEST_ID_BYTES_MAX
        && id.as_bytes().iter().all(visible);
    echoed.then(|| id.clone())
}

/// One request on its way to an answer.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// A GUID's text.
    pub request_id: &'a str,
    /// When the request came.
    pub now: DateTime,
    /// How to answer.
    pub context: &'a ResponseContext,
}

impl ResponseHead<'_> {
    /// An answer with the headers that every answer has.
    pub(crate) fn respond(
        &self,
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    ) -> Response<Bytes> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let length = response.body().len();
        let all = response.headers_mut();
        *all = headers;
        all.insert(SERVER, HeaderValue::from_static(SERVER_NAME));
        all.insert(DATE, date_value(self.now));
        all.insert(name::REQUEST_ID.clone(), text_value(self.request_id.to_owned()));
        all.insert(name::VERSION.clone(), text_value(self.context.version.as_str().to_owned()));
        if let Some(id) = &self.context.client_request_id {
            all.insert(name::CLIENT_REQUEST_ID.clone(), id.clone());
        }
        all.insert(CONTENT_LENGTH, HeaderValue::from(length));
        response
    }
}

/// Names of headers that HTTP does not know, ready to be looked up.
pub(crate) mod name {
    use http::HeaderName;

    pub(crate) static CLIENT_REQUEST_ID: HeaderName =
        HeaderName::from_static("x-ms-client-request-id");
    pub(crate) static CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
    pub(crate) static DATE: HeaderName = HeaderName::from_static("x-ms-date");
    pub(crate) static METHOD: HeaderName = HeaderName::from_static("x-http-method");
    pub(crate) static PREFER: HeaderName = HeaderName::from_static("prefer");
    pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
    pub(crate) static VERSION: HeaderName = HeaderName::from_static("x-ms-version");
}

/// The date of an answer. Many answers of a second share it.
fn date_value(at: DateTime) -> HeaderValue {
    thread_local! {
        static LAST: RefCell<(i64, HeaderValue)> = const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
    }
    LAST.with_borrow_mut(|(seconds, value)| {
        if *seconds != at.unix_seconds() {
            *value = text_value(http_date(at));
            *seconds = at.unix_seconds();
        }
        value.clone()
    })
}

/// A text as a header; one that cannot be is left empty rather than failing the answer.
pub(crate) fn text_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

pub(crate) fn http_date(at: DateTime) -> String {
    // httpdate knows only 1970 to 9999; a clock before that is wrong anyway.
    let seconds = u64::try_from(at.unix_seconds()).unwrap_or_default();
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The content type of a JSON answer.
#[must_use]
pub(crate) const fn json_content_type(level: MetadataLevel) -> &'static str {
    match level {
        MetadataLevel::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
        MetadataLevel::Minimal => {
            "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
        }
        MetadataLevel::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
    }
}

/// Chooses the metadata level: `$format` wins over `Accept`; nothing at all means minimal.
///
/// # Errors
/// If only formats are wanted that we do not write.
pub(crate) fn negotiate(
    fields: Fields<'_>,
    format: Option<&str>,
) -> Result<MetadataLevel, ApiError> {
    if let Some(format) = format.filter(|format| !format.trim().is_empty()) {
        return media_type(format).1;
    }
    let mut lines = fields.all(&ACCEPT);
    if let (Some(Some(line)), None) = (lines.next(), lines.next())
        && let Some(level) = usual_level(line)
    {
        return Ok(level);
    }
    let mut best: Option<(f32, Result<MetadataLevel, ApiError>)> = None;
    for choice in fields
        .all(&ACCEPT)
        .flatten()
        .flat_map(|line| line.split(','))
        .filter(|choice| !choice.trim().is_empty())
    {
        let (quality, level) = media_type(choice);
        // Any format that we write beats all that we do not; among equals the first counts.
        let better = best.as_ref().is_none_or(|(known, standing)| match (standing, &level) {
            (Err(_), Ok(_)) => true,
            (Ok(_), Ok(_)) => quality > *known,
            _ => false,
        });
        if better {
            best = Some((quality, level));
        }
    }
    best.map_or(Ok(MetadataLevel::Minimal), |(_, level)| level)
}

/// The level of what the clients of the service send, word for word; nearly every request has one
/// of these.
fn usual_level(accept: &str) -> Option<MetadataLevel> {
    match accept {
        "application/json;odata=minimalmetadata" | "application/json" | "*/*" => {
            Some(MetadataLevel::Minimal)
        }
        "application/json;odata=nometadata" => Some(MetadataLevel::None),
        "application/json;odata=fullmetadata" => Some(MetadataLevel::Full),
        _ => None,
    }
}

/// The quality and the format of one media type: `application/json; odata=nometadata; q=0.5`.
fn media_type(text: &str) -> (f32, Result<MetadataLevel, ApiError>) {
    let mut pieces = text.split(';').map(str::trim);
    let name = pieces.next().unwrap_or_default();
    let (mut quality, mut odata) = (1.0, "");
    for (key, value) in pieces.filter_map(|piece| piece.split_once('=')) {
        if key.trim().eq_ignore_ascii_case("q") {
            quality = value.trim().parse().unwrap_or(1.0);
        } else if key.trim().eq_ignore_ascii_case("odata") {
            odata = value.trim().trim_matches('"');
        }
    }
    let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let level = if quality <= 0.0 {
        Err(ApiError::MediaTypeNotSupported)
    } else if is_one_of(&["application/json", "json"]) {
        json_level(odata)
    } else if is_one_of(&["*/*", "application/*"]) {
        Ok(MetadataLevel::Minimal)
    } else if is_one_of(&["application/atom+xml", "application/xml", "text/xml", "atom"]) {
        Err(ApiError::AtomFormatNotSupported)
    } else {
        Err(ApiError::MediaTypeNotSupported)
    };
    (quality, level)
}

fn json_level(odata: &str) -> Result<MetadataLevel, ApiError> {
    let known = [
        ("", Ok(MetadataLevel::Minimal)),
        ("minimalmetadata", Ok(MetadataLevel::Minimal)),
        ("nometadata", Ok(MetadataLevel::None)),
        ("fullmetadata", Ok(MetadataLevel::Full)),
        ("verbose", Err(ApiError::JsonVerboseFormatNotSupported)),
    ];
    let found = known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(odata));
    found.map_or(Err(ApiError::MediaTypeNotSupported), |(_, level)| level)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use tavola_core::DateTime;

    use super::{Fields, ResponseContext, ResponseHead, media_type, negotiate, usual_level};
    use crate::api_error::ApiError;
    use crate::table::entity_json::MetadataLevel::{Full, Minimal, None as Nothing};

    /// Statements 150 to 155.
    #[test]
    fn formats() {
        let atom = || Err(ApiError::AtomFormatNotSupported);
        for (accept, format, expected) in [
            (None, None, Ok(Minimal)),
            (Some("*/*"), None, Ok(Minimal)),
            (Some(""), None, Ok(Minimal)),
            (Some("application/json"), None, Ok(Minimal)),
            (Some("application/json;odata=nometadata"), None, Ok(Nothing)),
            (Some("application/json; odata=fullmetadata ;streaming=true"), None, Ok(Full)),
            (Some("APPLICATION/JSON;OData=NoMetadata"), None, Ok(Nothing)),
            (
                Some("application/atom+xml, application/json;odata=nometadata;q=0.1"),
                None,
                Ok(Nothing),
            ),
            (
                Some(
                    "application/json;odata=nometadata;q=0.2, application/json;odata=fullmetadata;q=0.7",
                ),
                None,
                Ok(Full),
            ),
            (
                Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
                None,
                Ok(Minimal),
            ),
            (Some("application/atom+xml"), None, atom()),
            (Some("application/atom+xml,application/xml"), None, atom()),
            (
                Some("application/json;odata=verbose"),
                None,
                Err(ApiError::JsonVerboseFormatNotSupported),
            ),
            (Some("image/png"), None, Err(ApiError::MediaTypeNotSupported)),
            (Some("application/json;q=0"), None, Err(ApiError::MediaTypeNotSupported)),
            (Some("application/atom+xml"), Some("application/json;odata=fullmetadata"), Ok(Full)),
            (Some("application/json;odata=nometadata"), Some("json"), Ok(Minimal)),
            (Some("application/json"), Some("atom"), atom()),
            (Some("application/json;odata=nometadata"), Some(""), Ok(Nothing)),
        ] {
            let mut request = Request::builder();
            if let Some(accept) = accept {
                request = request.header("accept", accept);
            }
            let request = request.body(()).unwrap();
            assert_eq!(
                negotiate(Fields::Whole(request.headers()), format),
                expected,
                "{accept:?} {format:?}"
            );
        }
    }

    #[test]
    fn what_is_usual_means_what_it_says() {
        for accept in [
            "application/json;odata=minimalmetadata",
            "application/json",
            "*/*",
            "application/json;odata=nometadata",
            "application/json;odata=fullmetadata",
        ] {
            assert_eq!(usual_level(accept).map(Ok), Some(media_type(accept).1), "{accept}");
        }
        assert_eq!(usual_level("application/json;odata=verbose"), None);
    }

    fn response(headers: &[(&str, &str)]) -> http::Response<bytes::Bytes> {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let context = ResponseContext::of(&request.body(()).unwrap().into_parts().0, None);
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
        assert!(answer.headers().contains_key("server"));
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
