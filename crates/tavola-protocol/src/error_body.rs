//! Error bodies, as JSON and as XML.

use serde::Serialize;
use tavola_core::DateTime;

use crate::rejection::{ErrorParts, Rejection};

/// The namespace of the XML form. It is that of OData, not the shape of blobs and queues.
const METADATA_NAMESPACE: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

/// The JSON form: `{"odata.error":{"code":…,"message":{"lang":"en-US","value":…}}}`, with nothing between tokens,
/// because older .NET clients search the raw text.
///
/// A detail stands inside the value, between text and request id: clients parse the members strictly and show the value
/// to people.
#[must_use]
pub fn json(error: &ErrorParts, rejection: &Rejection, request_id: &str, now: DateTime) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(rename = "odata.error")]
        error: Error<'a>,
    }
    #[derive(Serialize)]
    struct Error<'a> {
        code: &'a str,
        message: Message,
    }
    #[derive(Serialize)]
    struct Message {
        lang: &'static str,
        value: String,
    }
    let detail = authentication_detail(rejection).map(|detail| format!("\n{detail}")).unwrap_or_default();
    let value = format!("{}{detail}{}", error.text, tail(request_id, now));
    let body = Body { error: Error { code: error.code, message: Message { lang: "en-US", value } } };
    serde_json::to_vec(&body).expect("texts always serialize")
}

/// The XML form, with the details that only it has room for.
#[must_use]
pub fn xml(error: &ErrorParts, rejection: &Rejection, request_id: &str, now: DateTime) -> Vec<u8> {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error xmlns:m=\"{METADATA_NAMESPACE}\"><m:code>{}</m:code>\
         <m:message xml:lang=\"en-US\">{}{}</m:message>",
        error.code,
        escape(&error.text),
        tail(request_id, now)
    );
    for (name, value) in details(rejection) {
        text.push_str(&format!("<{name}>{}</{name}>", escape(value)));
    }
    text.push_str("</m:error>");
    text.into_bytes()
}

fn tail(request_id: &str, now: DateTime) -> String {
    format!("\nRequestId:{request_id}\nTime:{}", now.to_text_full())
}

fn authentication_detail(rejection: &Rejection) -> Option<&str> {
    match rejection.innermost() {
        Rejection::AuthenticationFailed { detail } => detail.as_deref(),
        _ => None,
    }
}

fn details(rejection: &Rejection) -> Vec<(&'static str, &str)> {
    match rejection.innermost() {
        Rejection::AuthenticationFailed { detail: Some(detail) } => vec![("AuthenticationErrorDetail", detail)],
        Rejection::InvalidHeaderValue { name, value } => vec![("HeaderName", name), ("HeaderValue", value)],
        Rejection::MissingRequiredHeader(name) => vec![("HeaderName", name)],
        Rejection::InvalidQueryParameter { name, value } => {
            vec![("QueryParameterName", name), ("QueryParameterValue", value)]
        }
        Rejection::MissingQueryParameter(name) => vec![("QueryParameterName", name)],
        _ => Vec::new(),
    }
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

#[cfg(test)]
mod tests {
    use tavola_core::{DateTime, Refusal};

    use super::{json, xml};
    use crate::rejection::{Rejection, status_code_text};

    const ID: &str = "aceccc68-b002-006e-7110-617748000000";

    fn now() -> DateTime {
        DateTime::parse("2020-07-23T16:43:14.3010508Z").unwrap()
    }

    fn json_of(rejection: &Rejection) -> String {
        String::from_utf8(json(&status_code_text(rejection), rejection, ID, now())).unwrap()
    }

    fn xml_of(rejection: &Rejection) -> String {
        String::from_utf8(xml(&status_code_text(rejection), rejection, ID, now())).unwrap()
    }

    /// Statements 34 to 36, byte by byte as recorded.
    #[test]
    fn the_json_form() {
        assert_eq!(
            json_of(&Refusal::TableAlreadyExists.into()),
            r#"{"odata.error":{"code":"TableAlreadyExists","message":{"lang":"en-US","value":"The table specified already exists.\nRequestId:aceccc68-b002-006e-7110-617748000000\nTime:2020-07-23T16:43:14.3010508Z"}}}"#
        );
    }

    /// Statement 38.
    #[test]
    fn the_xml_form() {
        assert_eq!(
            xml_of(&Rejection::InvalidXmlDocument),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><m:code>InvalidXmlDocument</m:code><m:message xml:lang=\"en-US\">XML specified is not syntactically valid.\nRequestId:aceccc68-b002-006e-7110-617748000000\nTime:2020-07-23T16:43:14.3010508Z</m:message></m:error>"
        );
    }

    #[test]
    fn details() {
        let failed = Rejection::AuthenticationFailed { detail: Some("string to sign: 'GET\n<\u{1}>'".to_owned()) };
        assert!(json_of(&failed).contains("including the signature.\\nstring to sign: 'GET\\n<\\u0001>'\\nRequestId:"));
        assert!(xml_of(&failed).ends_with(
            "</m:message><AuthenticationErrorDetail>string to sign: 'GET\n&lt;?&gt;'</AuthenticationErrorDetail></m:error>"
        ));
        let header = Rejection::InvalidHeaderValue { name: "x-ms-version", value: "a&b".to_owned() };
        assert!(xml_of(&header).contains("<HeaderName>x-ms-version</HeaderName><HeaderValue>a&amp;b</HeaderValue>"));
        assert!(!json_of(&header).contains("a&b"));
    }
}
