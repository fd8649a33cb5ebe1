//! What must hold of every answer, whatever was asked.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, StatusCode};
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;
use tavola_protocol::error_body;
use tavola_protocol::table::batch::decode_batch_response;

/// The headers that every answer has.
const ALWAYS: [&str; 5] = ["server", "date", "x-ms-request-id", "x-ms-version", "content-length"];

/// Checks an answer: it blames the client at worst, it has the headers that every answer has, and
/// its body is what its content type says. Gives the answers inside, if it is a batch's.
///
/// # Panics
/// If something of that does not hold.
pub fn check_answer(asked: &HeaderMap, answer: &Response<Bytes>) -> Option<Vec<Response<Bytes>>> {
    check_status(answer.status());
    for name in ALWAYS {
        assert!(
            answer.headers().get(name).is_some_and(|value| !value.is_empty()),
            "{name} is missing in {answer:?}"
        );
    }
    assert_eq!(answer.headers()["content-length"], answer.body().len().to_string());
    if let Some(echoed) = answer.headers().get("x-ms-client-request-id") {
        assert_eq!(Some(echoed), asked.get("x-ms-client-request-id"));
    }
    if answer.status().is_client_error() || answer.status().is_server_error() {
        let (code, _) = error_body::read(answer.body()).expect("an error has a code and a text");
        assert_eq!(
            answer.headers()["x-ms-error-code"],
            code,
            "the header and the body of {answer:?}"
        );
    }
    check_body(answer);
    let parts = content_type(answer).starts_with("multipart/mixed").then(|| {
        decode_batch_response(content_type(answer), answer.body()).expect("a batch's answer is one")
    })?;
    assert!(!parts.is_empty(), "{answer:?}");
    for part in &parts {
        check_status(part.status());
        check_body(part);
    }
    Some(parts)
}

/// On a store that never fails no answer may blame the server; that something is not implemented
/// blames nobody.
fn check_status(status: StatusCode) {
    assert!(!status.is_server_error() || status == StatusCode::NOT_IMPLEMENTED, "{status}");
}

fn content_type(answer: &Response<Bytes>) -> &str {
    answer
        .headers()
        .get(CONTENT_TYPE)
        .map_or("", |value| value.to_str().expect("content types are ASCII"))
}

fn check_body(answer: &Response<Bytes>) {
    let body = answer.body();
    let media_type = content_type(answer).split(';').next().unwrap_or_default();
    match media_type {
        "" => assert!(body.is_empty(), "{answer:?}"),
        "application/json" => drop(serde_json::from_slice::<Value>(body).expect("a body of JSON")),
        "application/xml" => check_xml(std::str::from_utf8(body).expect("a body of UTF-8")),
        "multipart/mixed" => assert_eq!(answer.status(), StatusCode::ACCEPTED),
        other => panic!("a body of {other}"),
    }
    let has_body = answer.status() != StatusCode::NO_CONTENT;
    assert!(has_body || (body.is_empty() && media_type.is_empty()), "{answer:?}");
}

fn check_xml(body: &str) {
    let mut reader = Reader::from_str(body);
    let mut depth = 0_usize;
    loop {
        match reader.read_event().expect("a body of XML") {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.checked_sub(1).expect("as many ends as starts"),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0, "{body}");
    // The reader lets pass what XML cannot hold in any form.
    let is_legal = |character: char| !matches!(character, '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    assert!(body.chars().all(is_legal), "{body:?}");
}
