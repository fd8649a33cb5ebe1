//! Requests, from bytes to what the service would be asked.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use tavola_core::request::Select;
use tavola_core::{DateTime, TableRequest};
use tavola_protocol::table::ResponseFormat;
use tavola_protocol::table::encode::Style;
use tavola_protocol::table::entity_json::MetadataLevel;
use tavola_protocol::table::{TableContext, TableError};
use tavola_protocol::table::{encode_request, parse_request, render_error};
use tavola_protocol::{Address, AddressRules, ApiError, ResponseHead, locate};

/// The one account that requests can be for.
pub const ACCOUNT: &str = "devstoreaccount1";

pub(crate) const PRIMARY: &str = "http://127.0.0.1:10002/devstoreaccount1";
const SECONDARY: &str = "http://127.0.0.1:10002/devstoreaccount1-secondary";

/// What cannot stand in a URL as it is.
const NOT_IN_URL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// Reads a request as HTTP/1.1 writes it: a request line, header lines, an empty line, the body.
/// What the HTTP library would refuse before we see it is mended or left out, or most mutations
/// would end there.
#[must_use]
pub fn read_request(data: &[u8]) -> Request<Bytes> {
    let (line, mut rest) = split_line(data);
    let line = line.strip_suffix(b" HTTP/1.1").unwrap_or(line);
    let (method, target) = line.split_at(line.iter().position(|byte| *byte == b' ').unwrap_or(0));
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = Method::from_bytes(method).unwrap_or(Method::GET);
    *request.uri_mut() =
        percent_encode(target.trim_ascii(), NOT_IN_URL).to_string().parse().unwrap_or_default();
    loop {
        let (line, after) = split_line(rest);
        rest = after;
        if line.is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            request.headers_mut().append(name, value);
        }
    }
    *request.body_mut() = Bytes::copy_from_slice(rest);
    request
}

fn split_line(data: &[u8]) -> (&[u8], &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (line, rest) = end.map_or((data, &[][..]), |end| (&data[..end], &data[end + 1..]));
    (line.strip_suffix(b"\r").unwrap_or(line), rest)
}

/// Leads a request to the account, if it does not go there anyway.
///
/// # Errors
/// What the service answers to a request that cannot be led there.
pub fn led_to_account<B>(mut request: Request<B>) -> Result<(Request<B>, Arc<Address>), ApiError> {
    if let Ok(address) = located(&request) {
        return Ok((request, address));
    }
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = format!("{PRIMARY}{target}").parse().unwrap_or_default();
    let address = located(&request)?;
    Ok((request, address))
}

/// A request for the account, of which only the body and one header are arbitrary.
///
/// # Panics
/// If `target` is no path, which is an error in the target.
#[must_use]
pub fn request(
    method: Method,
    target: &str,
    content_type: HeaderValue,
    body: &[u8],
) -> Request<Bytes> {
    let mut request = Request::new(Bytes::copy_from_slice(body));
    *request.method_mut() = method;
    *request.uri_mut() = format!("{PRIMARY}{target}").parse().expect("a target's path is one");
    request.headers_mut().insert("content-type", content_type);
    request
}

/// Where a request goes, if it names the account.
fn located<B>(request: &Request<B>) -> Result<Arc<Address>, ApiError> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    let rules = AddressRules { path_style_only: false, scheme: "http" };
    locate(&head.into_parts().0, &rules, &|name| name == ACCOUNT).map(Arc::new)
}

/// Takes a request through the server, up to where the service would carry it out. What is refused
/// must have an answer that blames the client, and what is understood must be understood the same
/// when a client writes it anew.
pub fn check_request(request: Request<Bytes>) -> Option<TableRequest> {
    let address = located(&request);
    let (parts, body) = request.into_parts();
    let mut context = TableContext::of(&parts, address.as_ref().ok());
    let parsed = address.map_err(TableError::from).and_then(|address| {
        let understood = parse_request(&parts, &body, &address, &mut context)?;
        Ok((understood, address.secondary))
    });
    match parsed {
        Ok((understood, secondary)) => {
            let base = if secondary { SECONDARY } else { PRIMARY };
            if let Some(again) = parse_again(&understood, base) {
                assert_eq!(
                    again,
                    Ok(understood.clone()),
                    "a client that writes the same is understood otherwise"
                );
            }
            Some(understood)
        }
        Err(table_error) => {
            check_refusal(&table_error, &context);
            None
        }
    }
}

pub(crate) fn check_refusal(table_error: &TableError, context: &TableContext) {
    let response_head = ResponseHead { request_id: "fuzz", now: DateTime::MIN, context };
    let status = render_error(table_error, &response_head).status();
    let blames_the_client = status.as_u16() < 500 || status.as_u16() == 501;
    assert!(blames_the_client, "{status} for {table_error:?}");
}

/// What the server understands when a client asks this; `None` if HTTP cannot say it, being too
/// long for a URL.
fn parse_again(understood: &TableRequest, base: &str) -> Option<Result<TableRequest, TableError>> {
    let format =
        ResponseFormat { level: MetadataLevel::Minimal, prefer: None, select: Select::All };
    let style = Style { base, format: &format, page: None, boundary_ids: ["b", "c"] };
    let encoded = encode_request(understood, &style).ok()?;
    let address = located(&encoded);
    let (parts, body) = encoded.into_parts();
    let mut context = TableContext::of(&parts, address.as_ref().ok());
    let address = address.map_err(TableError::from);
    Some(address.and_then(|address| parse_request(&parts, &body, &address, &mut context)))
}
