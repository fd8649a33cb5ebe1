//! The shapes of each client as bytes, the answers of the protocol reference to the byte, and round
//! trips.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use proptest::prelude::*;

use super::multipart::boundary;
use super::{
    BatchError, BatchRequest, BatchedRequest, Field, decode_batch_response, encode_batch,
    read_batch, write_batch,
};

/// One answer in a batch's answer.
#[derive(Debug, Clone)]
struct BatchPart {
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    body: Option<Bytes>,
}

fn write(parts: &[BatchPart], in_changeset: bool, ids: [&str; 2]) -> (String, Bytes) {
    write_batch(in_changeset, ids, |writer| {
        for (written, part) in parts.iter().enumerate() {
            let headers = part.headers.iter().map(|(name, value)| (*name, value.as_str()));
            writer.push(part.status, headers, part.body.as_deref().unwrap_or_default());
            writer.reserve_parts(written + 1, parts.len() - written - 1);
        }
    })
}

/// A request as a line of text: method, target, the headers that count, body.
fn shown(request: &BatchedRequest<'_>) -> String {
    let header = |name: &str| {
        request.fields.iter().find(|field| field.is_named(name)).map_or("-", Field::value)
    };
    let (accept, if_match, prefer) = (header("accept"), header("if-match"), header("prefer"));
    format!(
        "{} {} | {accept} | {if_match} | {prefer} | {}",
        request.method, request.uri, request.body
    )
}

fn read(content_type: &str, body: &str) -> Result<Vec<String>, BatchError> {
    match read_batch(content_type, &Bytes::copy_from_slice(body.as_bytes()))? {
        BatchRequest::Changeset(requests) => Ok(requests.iter().map(shown).collect()),
        BatchRequest::Query(request) => Ok(vec![format!("query {}", shown(&request))]),
    }
}

fn crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

const JAVASCRIPT: &str = r#"--batch_f9618eea-e9ec-4f57-916d-e07780f212b1
content-type: multipart/mixed; boundary=changeset_2bc97572-0e65-4cdd-9b80-015672e9becb


--changeset_2bc97572-0e65-4cdd-9b80-015672e9becb
content-type: application/http
content-transfer-encoding: binary

POST http://127.0.0.1:10002/devstoreaccount1/JsTab1 HTTP/1.1
Content-Type: application/json;odata=nometadata
Accept: application/json;odata=minimalmetadata
DataServiceVersion: 3.0
Prefer: return-no-content


{"PartitionKey":"p","RowKey":"b1"}
--changeset_2bc97572-0e65-4cdd-9b80-015672e9becb
content-type: application/http
content-transfer-encoding: binary

DELETE http://127.0.0.1:10002/devstoreaccount1/JsTab1(PartitionKey='p',RowKey='r1') HTTP/1.1
Accept: application/json;odata=minimalmetadata
DataServiceVersion: 3.0
If-Match: *


--changeset_2bc97572-0e65-4cdd-9b80-015672e9becb--
--batch_f9618eea-e9ec-4f57-916d-e07780f212b1--
"#;

const PYTHON: &str = r#"--batch_1e39cf1e-c55d-4e5c-8f3b-364d0896ef43
Content-Type: multipart/mixed; boundary=changeset_7a1f

--changeset_7a1f
Content-Type: application/http
Content-Transfer-Encoding: binary
Content-ID: 0

POST http://127.0.0.1:10002/devstoreaccount1/PyTab1 HTTP/1.1
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
Content-Type: application/json;odata=nometadata
Accept: application/json;odata=minimalmetadata
Content-Length: 36
x-ms-date: Mon, 16 Nov 2026 00:05:27 GMT
Date: Mon, 16 Nov 2026 00:05:27 GMT

{"PartitionKey": "p", "RowKey": "b1"}
--changeset_7a1f
Content-Type: application/http
Content-Transfer-Encoding: binary
Content-ID: 1

PATCH http://127.0.0.1:10002/devstoreaccount1/PyTab1(PartitionKey='p',RowKey='r2%20%27%27%C3%A9%2B%26%25') HTTP/1.1
x-ms-version: 2019-02-02
If-Match: W/"datetime'2020-11-07T01%3A23%3A13.377335Z'"
Content-Type: application/json
Accept: application/json
Content-Length: 8

{"v": 1}
--changeset_7a1f
Content-Type: application/http
Content-Transfer-Encoding: binary
Content-ID: 2

DELETE http://127.0.0.1:10002/devstoreaccount1/PyTab1(PartitionKey='p',RowKey='b2') HTTP/1.1
If-Match: *
Accept: application/json;odata=minimalmetadata
Content-Length: 0

--changeset_7a1f--

--batch_1e39cf1e-c55d-4e5c-8f3b-364d0896ef43--
"#;

const GO: &str = r#"--batch_0d5e
Content-Type: multipart/mixed; boundary=changeset_91b2

--changeset_91b2
Content-Transfer-Encoding: binary
Content-Type: application/http

POST https://fakeaccount.table.core.windows.net/tableName?%24format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1
Accept: application/json;odata=minimalmetadata
Content-Length: 33
Content-Type: application/json
Dataserviceversion: 3.0
Prefer: return-no-content
X-Ms-Version: 2019-02-02

{"PartitionKey":"p","RowKey":"r"}
--changeset_91b2--

--batch_0d5e--
"#;

const DOTNET: &str = r#"--batch_b06f
Content-Type: multipart/mixed; boundary=changeset_c17a

--changeset_c17a
Content-Type: application/http
Content-Transfer-Encoding: binary

PUT https://acct.table.core.windows.net/T(PartitionKey='p',RowKey='r')?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1
Host: acct.table.core.windows.net
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
Accept: application/json
If-Match: *
Content-Type: application/json

{"PartitionKey":"p","RowKey":"r","Timestamp":null}
--changeset_c17a--

--batch_b06f--
"#;

#[test]
fn every_clients_shape() {
    const MINIMAL: &str = "application/json;odata=minimalmetadata";
    for (outer, text, expected) in [
        (
            "multipart/mixed; boundary=batch_f9618eea-e9ec-4f57-916d-e07780f212b1",
            JAVASCRIPT,
            vec![
                format!(r#"POST http://127.0.0.1:10002/devstoreaccount1/JsTab1 | {MINIMAL} | - | return-no-content | {{"PartitionKey":"p","RowKey":"b1"}}"#),
                format!("DELETE http://127.0.0.1:10002/devstoreaccount1/JsTab1(PartitionKey='p',RowKey='r1') | {MINIMAL} | * | - | "),
            ],
        ),
        (
            "multipart/mixed; boundary=batch_1e39cf1e-c55d-4e5c-8f3b-364d0896ef43",
            PYTHON,
            vec![
                format!(r#"POST http://127.0.0.1:10002/devstoreaccount1/PyTab1 | {MINIMAL} | - | - | {{"PartitionKey": "p", "RowKey": "b1"}}"#),
                r#"PATCH http://127.0.0.1:10002/devstoreaccount1/PyTab1(PartitionKey='p',RowKey='r2%20%27%27%C3%A9%2B%26%25') | application/json | W/"datetime'2020-11-07T01%3A23%3A13.377335Z'" | - | {"v": 1}"#.to_owned(),
                format!("DELETE http://127.0.0.1:10002/devstoreaccount1/PyTab1(PartitionKey='p',RowKey='b2') | {MINIMAL} | * | - | "),
            ],
        ),
        (
            "multipart/mixed; boundary=batch_0d5e",
            GO,
            vec![format!(r#"POST https://fakeaccount.table.core.windows.net/tableName?%24format=application%2Fjson%3Bodata%3Dminimalmetadata | {MINIMAL} | - | return-no-content | {{"PartitionKey":"p","RowKey":"r"}}"#)],
        ),
        (
            "multipart/mixed; boundary=\"batch_b06f\"",
            DOTNET,
            vec![r#"PUT https://acct.table.core.windows.net/T(PartitionKey='p',RowKey='r')?$format=application%2Fjson%3Bodata%3Dminimalmetadata | application/json | * | - | {"PartitionKey":"p","RowKey":"r","Timestamp":null}"#.to_owned()],
        ),
    ] {
        assert_eq!(read(outer, &crlf(text)), Ok(expected.clone()));
        assert_eq!(read(outer, text), Ok(expected.clone()), "LF only");
        assert_eq!(read(outer, crlf(text).trim_end()), Ok(expected), "no final line end");
    }
}

#[test]
fn a_query_stands_alone() {
    let query = crlf(
        "--b\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\nGET https://acct.table.core.windows.net/T(PartitionKey='p',RowKey='r') HTTP/1.1\nAccept: application/json\n\n--b--\n",
    );
    let expected = "query GET https://acct.table.core.windows.net/T(PartitionKey='p',RowKey='r') | application/json | - | - | ";
    assert_eq!(read("multipart/mixed; boundary=b", &query), Ok(vec![expected.to_owned()]));
    let relative = "--b\n\nGET /T() HTTP/1.1\n--b--";
    assert_eq!(
        read("multipart/mixed; boundary=b", relative),
        Ok(vec!["query GET /T() | - | - | - | ".to_owned()])
    );
    let write = query.replace("GET", "POST");
    assert_eq!(read("multipart/mixed; boundary=b", &write), Err(BatchError));
}

/// One changeset `c` in the batch `b`, around parts that each have a head of their own.
fn changeset(parts: &str) -> String {
    format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{parts}")
}

#[test]
fn delimiters() {
    let part = "--c\nContent-Type: application/http\n\nPOST /T HTTP/1.1\n\n{}\n";
    let one = Ok(vec!["POST /T | - | - | - | {}".to_owned()]);
    let none: Result<Vec<String>, BatchError> = Ok(vec![]);
    for (body, expected) in [
        (changeset(&format!("{part}--c--\n--b--\n")), one.clone()),
        (changeset(&format!("{part}--c--\n--b\n")), one.clone()),
        (changeset(&format!("{part}--c--\n--b")), one.clone()),
        (changeset(&format!("{part}--c--\n")), one.clone()),
        (changeset(&format!("{part}--c--")), one.clone()),
        (changeset(&format!("{part}--c\n--b--\n")), one.clone()),
        (changeset(&format!("{part}--b--\n")), one.clone()),
        (changeset(&format!("{part}--c--  \n--b-- \n")), one.clone()),
        (
            format!("preamble\n{}", changeset(&format!("{part}--c--\n--b--\nepilogue\n"))),
            one.clone(),
        ),
        (changeset("--c--\n--b--\n"), none.clone()),
        (changeset("--b--\n"), none),
        // The end of the part is missing, and so may be half of its body.
        (changeset(part), Err(BatchError)),
        (changeset(&format!("{part}{part}").replacen("{}\n--c", "{}", 1)), Err(BatchError)),
        // More than one changeset, or a query beside one.
        (
            changeset(&format!("{part}--c--\n{}", changeset(&format!("{part}--c--\n--b--\n")))),
            Err(BatchError),
        ),
        (changeset(&format!("{part}--c--\n--b\n\nGET /T HTTP/1.1\n\n--b--\n")), Err(BatchError)),
    ] {
        assert_eq!(read("multipart/mixed; boundary=b", &body), expected, "{body}");
    }
}

#[test]
fn content_that_looks_like_a_delimiter() {
    let json = r#"{"a":"--changeset_1","b":"\n--c--","c":"--c","--b--":1}"#;
    let body = changeset(&format!("--c\n\nPOST /T HTTP/1.1\n\n{json}\n--c--\n--b--\n"));
    assert_eq!(
        read("multipart/mixed; boundary=b", &body),
        Ok(vec![format!("POST /T | - | - | - | {json}")])
    );
    let body = changeset("--c\n\nPOST /T HTTP/1.1\n\n{\n--cc\n--c-\n --c\n}\n--c--\n--b--\n");
    assert_eq!(
        read("multipart/mixed; boundary=b", &body),
        Ok(vec!["POST /T | - | - | - | {\n--cc\n--c-\n --c\n}".to_owned()])
    );
}

#[test]
fn boundaries() {
    for (content_type, expected) in [
        ("multipart/mixed; boundary=batch_B", Some("batch_B")),
        ("multipart/mixed;boundary=batch_B", Some("batch_B")),
        ("Multipart/Mixed ; charset=utf-8; Boundary = \"a b;c\" ; x=y", Some("a b;c")),
        ("multipart/mixed; x=\"boundary=no\"; boundary=yes", Some("yes")),
        ("multipart/mixed", None),
        ("multipart/mixed; boundary=", None),
        ("multipart/mixed; boundary=\"open", None),
        ("multipart/mixed; boundary", None),
        ("multipart/form-data; boundary=x", None),
        ("application/json", None),
        ("", None),
    ] {
        assert_eq!(boundary(content_type), expected, "{content_type}");
    }
}

#[test]
fn malformed_batches() {
    let request = |request: &str| {
        changeset(&format!("--c\nContent-Type: application/http\n\n{request}\n--c--\n--b--\n"))
    };
    for body in [
        String::new(),
        "{}".to_owned(),
        "--b--".to_owned(),
        "--b\n--b--".to_owned(),
        changeset("--c\n--c--\n--b--"),
        request(""),
        request("POST"),
        request("POST /T"),
        request("POST /T FTP/1.1"),
        request("POST T HTTP/1.1"),
        request("P(ST /T HTTP/1.1"),
        request("POST /T<> HTTP/1.1"),
        request("POST http:// HTTP/1.1"),
        request("POST /T HTTP/1.1\nno colon\n\n{}"),
        request("POST /T HTTP/1.1\nbad name: x\n\n{}"),
        request("POST /T HTTP/1.1\nX: \u{1}\n\n{}"),
        request(&format!("POST /T HTTP/1.1\n{}\n{{}}", "X: y\n".repeat(65))),
        request(&format!("POST /{} HTTP/1.1\n\n{{}}", "x".repeat(70_000))),
    ] {
        let shown: String = body.chars().take(120).collect();
        assert_eq!(read("multipart/mixed; boundary=b", &body), Err(BatchError), "{shown}");
    }
    assert!(
        read_batch(
            "multipart/mixed; boundary=b",
            &Bytes::from_static(b"--b\n\nGET /\xff HTTP/1.1\n--b--")
        )
        .is_err()
    );
}

#[test]
fn a_changeset_that_is_too_long_shows_it_and_costs_no_more() {
    let parts =
        |count| changeset(&("--c\n\nDELETE /T HTTP/1.1\n\n".repeat(count) + "--c--\n--b--\n"));
    let count =
        |body: &str| read("multipart/mixed; boundary=b", body).map(|requests| requests.len());
    assert_eq!(count(&parts(100)), Ok(100));
    assert_eq!(count(&parts(101)), Ok(101));
    assert_eq!(count(&parts(10_000)), Ok(101));
}

const ETAG: &str = "W/\"datetime'2020-11-07T01%3A23%3A13.5774705Z'\"";

const ANSWER: &str = r#"--batchresponse_96ab
Content-Type: multipart/mixed; boundary=changesetresponse_9e14

--changesetresponse_9e14
Content-Type: application/http
Content-Transfer-Encoding: binary

HTTP/1.1 204 No Content
X-Content-Type-Options: nosniff
Cache-Control: no-cache
Preference-Applied: return-no-content
DataServiceVersion: 3.0;
Location: https://acct.table.core.windows.net/T(PartitionKey='003',RowKey='r')
DataServiceId: https://acct.table.core.windows.net/T(PartitionKey='003',RowKey='r')
ETag: W/"datetime'2020-11-07T01%3A23%3A13.5774705Z'"


--changesetresponse_9e14
Content-Type: application/http
Content-Transfer-Encoding: binary

HTTP/1.1 204 No Content
X-Content-Type-Options: nosniff
Cache-Control: no-cache
DataServiceVersion: 1.0;


--changesetresponse_9e14--
--batchresponse_96ab--
"#;

#[test]
fn the_answer_to_the_byte() {
    let common = || {
        vec![
            ("X-Content-Type-Options", "nosniff".to_owned()),
            ("Cache-Control", "no-cache".to_owned()),
        ]
    };
    let with = |more: &[(&'static str, &str)]| {
        let more = more.iter().map(|&(name, value)| (name, value.to_owned()));
        common().into_iter().chain(more).collect::<Vec<_>>()
    };
    let location = "https://acct.table.core.windows.net/T(PartitionKey='003',RowKey='r')";
    let inserted = with(&[
        ("Preference-Applied", "return-no-content"),
        ("DataServiceVersion", "3.0;"),
        ("Location", location),
        ("DataServiceId", location),
        ("ETag", ETAG),
    ]);
    let parts = [
        BatchPart { status: StatusCode::NO_CONTENT, headers: inserted, body: None },
        BatchPart {
            status: StatusCode::NO_CONTENT,
            headers: with(&[("DataServiceVersion", "1.0;")]),
            body: None,
        },
    ];
    let (content_type, body) = write(&parts, true, ["96ab", "9e14"]);
    assert_eq!(content_type, "multipart/mixed; boundary=batchresponse_96ab");
    assert_eq!(String::from_utf8(body.to_vec()).unwrap(), crlf(ANSWER));
}

#[test]
fn the_answer_with_a_body_to_the_byte() {
    let part = BatchPart {
        status: StatusCode::CONFLICT,
        headers: vec![("Content-Type", "application/json".to_owned())],
        body: Some(Bytes::from_static(b"{\"odata.error\":{}}")),
    };
    let message = "Content-Type: application/http\nContent-Transfer-Encoding: binary\n\nHTTP/1.1 409 Conflict\nContent-Type: application/json\n\n{\"odata.error\":{}}\n";
    let (_, body) = write(std::slice::from_ref(&part), true, ["x", "y"]);
    let changeset = format!(
        "--batchresponse_x\nContent-Type: multipart/mixed; boundary=changesetresponse_y\n\n--changesetresponse_y\n{message}--changesetresponse_y--\n--batchresponse_x--\n"
    );
    assert_eq!(body, crlf(&changeset));
    let (_, body) = write(&[part], false, ["x", "y"]);
    assert_eq!(body, crlf(&format!("--batchresponse_x\n{message}--batchresponse_x--\n")));
}

#[test]
fn an_answer_cut_short_is_no_answer() {
    let part = BatchPart {
        status: StatusCode::NO_CONTENT,
        headers: vec![("ETag", ETAG.to_owned())],
        body: None,
    };
    for in_changeset in [true, false] {
        let (content_type, body) = write(std::slice::from_ref(&part), in_changeset, ["x", "y"]);
        let whole = decode_batch_response(&content_type, &body).unwrap();
        assert_eq!(whole[0].headers()["etag"], ETAG);
        let closing = "--batchresponse_x--\r\n".len();
        for cut in 0..body.len() - closing {
            assert!(
                decode_batch_response(&content_type, &body.slice(..cut)).is_err(),
                "{in_changeset} {cut}"
            );
        }
    }
}

fn any_json() -> impl Strategy<Value = Bytes> {
    any::<String>().prop_map(|text| {
        Bytes::from(serde_json::json!({ "text": text, "--changeset_1": "--batch_1--" }).to_string())
    })
}

fn any_headers() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let name = prop::sample::select(vec![
        "Content-Type",
        "ETag",
        "If-Match",
        "Prefer",
        "DataServiceVersion",
        "Location",
    ]);
    prop::collection::vec((name, "[!-~]([ -~]{0,20}[!-~])?"), 0..6)
}

prop_compose! {
    fn any_request()(
        method in prop::sample::select(vec!["POST", "PUT", "PATCH", "MERGE", "DELETE", "GET"]),
        uri in "(https?://[a-z]{1,8}(:[1-9][0-9]{0,3})?)?/[A-Za-z][A-Za-z0-9]{2,8}(\\(PartitionKey='[a-z%0-9']{0,5}',RowKey=''\\))?(\\?\\$format=[a-z]{0,4})?",
        headers in any_headers(),
        body in prop_oneof![Just(Bytes::new()), any_json()],
    ) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
        *request.uri_mut() = uri.parse().unwrap();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().append(name, HeaderValue::from_str(&value).unwrap());
        }
        request
    }
}

prop_compose! {
    fn any_part()(code in 100_u16..600, headers in any_headers(), body in prop::option::of(any_json())) -> BatchPart {
        BatchPart { status: StatusCode::from_u16(code).unwrap(), headers, body }
    }
}

fn same_request(read: &BatchedRequest<'_>, written: &Request<Bytes>) -> bool {
    let mut headers = http::HeaderMap::new();
    for field in &read.fields {
        let name = HeaderName::from_bytes(field.name().as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(field.value()).unwrap());
    }
    (&read.method, &read.uri, &headers, read.body.as_bytes())
        == (written.method(), written.uri(), written.headers(), written.body())
}

fn same_response(response: &Response<Bytes>, part: &BatchPart) -> bool {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &part.headers {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    let body = part.body.clone().unwrap_or_default();
    (response.status(), response.headers(), response.body()) == (part.status, &headers, &body)
}

proptest! {
    #[test]
    fn the_service_reads_what_a_client_wrote(requests in prop::collection::vec(any_request(), 0..8)) {
        let (content_type, body) = encode_batch(&requests, ["1", "1"]);
        let read = match read_batch(&content_type, &body).unwrap() {
            BatchRequest::Changeset(read) => read,
            BatchRequest::Query(query) => vec![query],
        };
        prop_assert_eq!(read.len(), requests.len());
        prop_assert!(read.iter().zip(&requests).all(|(left, right)| same_request(left, right)));
    }

    #[test]
    fn a_client_reads_what_the_service_wrote(parts in prop::collection::vec(any_part(), 1..8), in_changeset in any::<bool>()) {
        let parts = if in_changeset { &parts[..] } else { &parts[..1] };
        let (content_type, body) = write(parts, in_changeset, ["1", "1"]);
        let read = decode_batch_response(&content_type, &body).unwrap();
        prop_assert_eq!(read.len(), parts.len());
        prop_assert!(read.iter().zip(parts).all(|(response, part)| same_response(response, part)));
    }

    #[test]
    fn no_panic_on_any_bytes(content_type in any::<String>(), body in prop::collection::vec(any::<u8>(), 0..200), text in "(--b|--c|--|b|c|\r\n|\n|:| |GET /|HTTP/1.1|Content-Type: multipart/mixed; boundary=c|é){0,40}") {
        for body in [Bytes::from(body), Bytes::from(text)] {
            for content_type in [&content_type[..], "multipart/mixed; boundary=b"] {
                let _ = (read_batch(content_type, &body).is_ok(), decode_batch_response(content_type, &body).is_ok());
            }
        }
    }

    #[test]
    fn no_panic_on_damaged_batches(
        requests in prop::collection::vec(any_request(), 1..4),
        at in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..3),
        removed in 0_usize..40,
    ) {
        let (content_type, body) = encode_batch(&requests, ["1", "1"]);
        let mut damaged = body.to_vec();
        let at = at.index(damaged.len());
        let end = (at + removed).min(damaged.len());
        damaged.splice(at..end, bytes);
        let damaged = Bytes::from(damaged);
        let _ = (read_batch(&content_type, &damaged).is_ok(), decode_batch_response(&content_type, &damaged).is_ok());
    }
}
