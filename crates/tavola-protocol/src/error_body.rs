//! Error bodies, as JSON and as XML, in both directions.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::Event;
use serde::{Deserialize, Serialize};
use tavola_core::DateTime;

use crate::api_error::{ApiError, ErrorParts};

const XML_DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
/// The namespace of the Table service's XML form.
const METADATA_NAMESPACE: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

/// The JSON form: `{"odata.error":{"code":…,"message":{"lang":"en-US","value":…}}}`, with nothing
/// between tokens, because older .NET clients search the raw text.
///
/// A detail stands inside the value, between text and request id: clients parse the members
/// strictly and show the value to people.
#[must_use]
pub fn json(error: &ErrorParts, detail: Option<&str>, request_id: &str, now: DateTime) -> Vec<u8> {
    let detail = detail.map(|detail| format!("\n{detail}")).unwrap_or_default();
    let value = format!("{}{detail}{}", error.text, tail(request_id, now));
    let (code, lang) = (error.code.into(), "en-US".into());
    let body = Body { error: Error { code, message: Message { lang, value } } };
    serde_json::to_vec(&body).expect("texts always serialize")
}

#[derive(Serialize, Deserialize)]
struct Body {
    #[serde(rename = "odata.error")]
    error: Error,
}

#[derive(Serialize, Deserialize)]
struct Error {
    code: String,
    message: Message,
}

#[derive(Serialize, Deserialize)]
struct Message {
    #[serde(default)]
    lang: String,
    value: String,
}

/// The XML form of the Table service, with the details that only XML has room for.
#[must_use]
pub fn odata_xml(
    error: &ErrorParts,
    api_error: Option<&ApiError>,
    request_id: &str,
    now: DateTime,
) -> Vec<u8> {
    let (code, message, inner) = xml_parts(error, api_error, request_id, now);
    let text = format!(
        "{XML_DECLARATION}<m:error xmlns:m=\"{METADATA_NAMESPACE}\"><m:code>{code}</m:code>\
         <m:message xml:lang=\"en-US\">{message}</m:message>{inner}</m:error>"
    );
    text.into_bytes()
}

/// The XML form of the Blob and Queue services.
#[must_use]
pub fn storage_xml(
    error: &ErrorParts,
    api_error: Option<&ApiError>,
    request_id: &str,
    now: DateTime,
) -> Vec<u8> {
    let (code, message, inner) = xml_parts(error, api_error, request_id, now);
    let text = format!(
        "{XML_DECLARATION}<Error><Code>{code}</Code><Message>{message}</Message>{inner}</Error>"
    );
    text.into_bytes()
}

/// The code, the message, and the elements of details, escaped.
fn xml_parts(
    error: &ErrorParts,
    api_error: Option<&ApiError>,
    request_id: &str,
    now: DateTime,
) -> (&'static str, String, String) {
    let message = escape(&error.text) + &tail(request_id, now);
    let element =
        |(name, value): (&str, Cow<'_, str>)| format!("<{name}>{}</{name}>", escape(&value));
    let inner = api_error.map(details).unwrap_or_default().into_iter().map(element).collect();
    (error.code, message, inner)
}

fn tail(request_id: &str, now: DateTime) -> String {
    format!("\nRequestId:{request_id}\nTime:{}", now.to_text_full())
}

fn details(api_error: &ApiError) -> Vec<(&'static str, Cow<'_, str>)> {
    match api_error {
        ApiError::AuthenticationFailed { detail: Some(detail), .. } => {
            vec![("AuthenticationErrorDetail", detail.into())]
        }
        ApiError::InvalidHeaderValue { name, value } => {
            vec![("HeaderName", (*name).into()), ("HeaderValue", value.into())]
        }
        ApiError::MissingRequiredHeader(name) => vec![("HeaderName", (*name).into())],
        ApiError::InvalidQueryParameter { name, value } => query_parameter(name, value),
        ApiError::RejectedQueryParameter { name, value, reason } => {
            let mut details = query_parameter(name, value);
            details.push(("Reason", (*reason).into()));
            details
        }
        ApiError::OutOfRangeQueryParameter { name, value, min, max } => {
            let mut details = query_parameter(name, value);
            details.push(("MinimumAllowed", min.to_string().into()));
            details.push(("MaximumAllowed", max.to_string().into()));
            details
        }
        ApiError::BodyBeyondLimit { max } => vec![("MaxLimit", max.to_string().into())],
        ApiError::MissingQueryParameter(name) => {
            vec![("QueryParameterName", (*name).into())]
        }
        _ => Vec::new(),
    }
}

fn query_parameter<'a>(name: &'a str, value: &'a str) -> Vec<(&'static str, Cow<'a, str>)> {
    vec![("QueryParameterName", name.into()), ("QueryParameterValue", value.into())]
}

/// Escapes markup; characters that XML cannot hold in any form become `?`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\t' | '\n' | '\r' => escaped.push(character),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// The code and the message of an error body in either form; `None` if it is neither.
#[must_use]
pub fn read(body: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(body).ok()?.trim_start_matches('\u{feff}');
    if text.starts_with('{') {
        let Body { error } = serde_json::from_str(text).ok()?;
        return Some((error.code, error.message.value));
    }
    read_xml(text)
}

/// Reads the elements `code` and `message` in any case and namespace: other servers write them in
/// the shape of blobs.
fn read_xml(text: &str) -> Option<(String, String)> {
    let (mut code, mut message, mut current) = (None, None, String::new());
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().ok()? {
            Event::Start(_) => current.clear(),
            Event::Text(piece) => current.push_str(&piece.xml10_content()),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().ok()? {
                Some(character) => current.push(character),
                None => current.push_str(resolve_xml_entity(&reference)?),
            },
            Event::End(end) => match end.local_name().as_ref().to_ascii_lowercase().as_str() {
                "code" => code = Some(std::mem::take(&mut current)),
                "message" => message = Some(std::mem::take(&mut current)),
                _ => {}
            },
            Event::Eof => return Some((code?, message.unwrap_or_default())),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::{DateTime, DomainError};

    use super::{json, odata_xml, read, storage_xml};
    use crate::api_error::{ApiError, ServiceApiError as _};
    use crate::deny_reason::DenyReason;
    use crate::table::TableError;

    const ID: &str = "aceccc68-b002-006e-7110-617748000000";

    fn now() -> DateTime {
        DateTime::parse("2020-07-23T16:43:14.3010508Z").unwrap()
    }

    fn json_of(error: &TableError) -> String {
        String::from_utf8(json(&error.parts(), error.detail(), ID, now())).unwrap()
    }

    fn xml_of(error: &TableError) -> String {
        String::from_utf8(odata_xml(&error.parts(), error.common(), ID, now())).unwrap()
    }

    /// Statements 34 to 36, byte by byte as recorded.
    #[test]
    fn the_json_form() {
        assert_eq!(
            json_of(&DomainError::TableAlreadyExists.into()),
            r#"{"odata.error":{"code":"TableAlreadyExists","message":{"lang":"en-US","value":"The table specified already exists.\nRequestId:aceccc68-b002-006e-7110-617748000000\nTime:2020-07-23T16:43:14.3010508Z"}}}"#
        );
    }

    /// Statement 38.
    #[test]
    fn the_xml_form() {
        assert_eq!(
            xml_of(&ApiError::InvalidXmlDocument.into()),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><m:code>InvalidXmlDocument</m:code><m:message xml:lang=\"en-US\">XML specified is not syntactically valid.\nRequestId:aceccc68-b002-006e-7110-617748000000\nTime:2020-07-23T16:43:14.3010508Z</m:message></m:error>"
        );
    }

    #[test]
    fn the_form_of_blobs_and_queues() {
        let error = ApiError::MissingQueryParameter("comp");
        let body = storage_xml(&error.parts(), error.common(), ID, now());
        assert_eq!(
            String::from_utf8(body).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>MissingRequiredQueryParameter</Code><Message>A required query parameter was not specified for this request.\nRequestId:aceccc68-b002-006e-7110-617748000000\nTime:2020-07-23T16:43:14.3010508Z</Message><QueryParameterName>comp</QueryParameterName></Error>"
        );
    }

    #[test]
    fn details() {
        let detail = Some("string to sign: 'GET\n<\u{1}>'".to_owned());
        let failed =
            ApiError::AuthenticationFailed { detail, reason: DenyReason::Signature }.into();
        assert!(
            json_of(&failed).contains(
                "including the signature.\\nstring to sign: 'GET\\n<\\u0001>'\\nRequestId:"
            )
        );
        assert!(xml_of(&failed).ends_with(
            "</m:message><AuthenticationErrorDetail>string to sign: 'GET\n&lt;?&gt;'</AuthenticationErrorDetail></m:error>"
        ));
        let header =
            ApiError::InvalidHeaderValue { name: "x-ms-version", value: "a&b".to_owned() }.into();
        assert!(
            xml_of(&header).contains(
                "<HeaderName>x-ms-version</HeaderName><HeaderValue>a&amp;b</HeaderValue>"
            )
        );
        assert!(!json_of(&header).contains("a&b"));
    }

    /// Behind the service's own text, and behind the index that clients look for.
    #[test]
    fn what_is_wrong_with_a_body() {
        let detail = || "The property 'a' is an array or an object.".to_owned();
        for (api_error, expected) in [
            (
                TableError::MalformedBody { detail: detail() },
                "\"value\":\"An error occurred while processing this request.",
            ),
            (
                TableError::InvalidKey { detail: detail() },
                "\"value\":\"One of the request inputs is not valid.",
            ),
            (
                TableError::InvalidKey { detail: detail() }.in_operation(3),
                "\"value\":\"3:One of the request inputs is not valid.",
            ),
        ] {
            let expected = format!("{expected}\\n{}\\nRequestId:{ID}", detail());
            assert!(json_of(&api_error).contains(&expected), "{}", json_of(&api_error));
        }
    }

    #[test]
    fn a_client_reads_both_forms() {
        let api_error = TableError::InvalidETag("<&>\"\n".to_owned());
        let error = api_error.parts();
        let message = format!("{}\nRequestId:{ID}\nTime:2020-07-23T16:43:14.3010508Z", error.text);
        let expected = Some((error.code.to_owned(), message));
        assert_eq!(read(json_of(&api_error).as_bytes()), expected);
        assert_eq!(read(xml_of(&api_error).as_bytes()), expected);
        let blobs = "\u{feff}<?xml version=\"1.0\"?><Error>\n<Code>ServerBusy</Code><Message>&#65;</Message></Error>";
        assert_eq!(read(blobs.as_bytes()), Some(("ServerBusy".to_owned(), "A".to_owned())));
        for other in ["", "{", "{}", "<html>", "<a/>", "nothing", "<Code>&nonsense;</Code>"] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
        assert_eq!(read(&[0xff]), None);
    }
}
