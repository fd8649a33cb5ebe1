//! Broken and unusual HTTP framing. Where the framing itself is broken the connection may end; the
//! server may not, and nothing may be stored.

use std::time::Duration;

use super::http::Connection;
use super::request::Request;
use super::table::{Table, keys};
use super::{Case, Endpoint, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("request_in_slices_of_one_byte", &["20"], slices),
    Case::shared("two_requests_in_one_write", &["20"], pipelined),
    Case::shared("truncated_body", &[], truncated_body),
    Case::shared("content_length_that_is_too_small", &[], length_too_small),
    Case::shared("content_length_that_is_no_number", &[], length_no_number),
    Case::shared("content_length_given_twice", &[], length_twice),
    Case::shared("content_length_and_chunks", &[], length_and_chunks),
    Case::shared("write_without_a_length", &[], missing_length),
    Case::shared("broken_chunks", &[], broken_chunks),
    Case::shared("huge_headers", &[], huge_headers),
    Case::shared("huge_request_line", &[], huge_request_line),
    Case::shared("bytes_that_are_no_http", &[], no_http),
    Case::shared("request_without_a_host", &[], missing_host),
    Case::shared("request_with_two_hosts", &[], two_hosts),
    Case::shared("client_that_goes_away", &[], client_goes_away),
];

/// An insert of this row whose framing the case writes itself: `headers` are complete lines.
fn framed(table: &Table<'_>, row_key: &str, header: (&str, &str)) -> (Vec<u8>, String) {
    let body = keys("p", row_key).to_string();
    let request: Request<'_> = table.insert("").header(header.0, header.1);
    (request.render_head(), body)
}

/// Sends bytes on a connection of their own, says that no more will come, and expects a refusal or
/// a closed door.
fn expect_refused(endpoint: &Endpoint, bytes: &[u8]) -> Outcome {
    let mut connection = Connection::open(endpoint.authority())?;
    // An endpoint that has seen enough may close while we still write.
    let _ = connection.write(bytes);
    let _ = connection.finish_writing();
    if let Ok(response) = connection.read_response(false) {
        response.expect_refusal()?;
    }
    Ok(())
}

/// Nothing came of it, and the endpoint serves others as before.
fn expect_unharmed(table: &Table<'_>) -> Outcome {
    table.query("").send()?.expect_status(200)?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

fn slices(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let bytes = table.insert(&keys("p", "slow").to_string()).render();
    let mut connection = Connection::open(endpoint.authority())?;
    for byte in &bytes {
        connection.write(std::slice::from_ref(byte))?;
    }
    connection.read_response(false)?.expect_status(201)?;
    table.get("p", "slow")?;
    Ok(())
}

fn pipelined(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "1"))?;
    let both = [
        client.get(&table.entity("p", "1")).render(),
        client.get(&table.entity("p", "none")).render(),
        table.insert(&keys("p", "2").to_string()).render(),
    ]
    .concat();
    let mut connection = Connection::open(endpoint.authority())?;
    connection.write(&both)?;
    connection.read_response(false)?.expect_status(200)?.expect_json("/RowKey", "1")?;
    connection.read_response(false)?.expect_status(404)?;
    connection.read_response(false)?.expect_status(201)?.expect_json("/RowKey", "2")?;
    Ok(())
}

fn truncated_body(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let body = keys("p", "cut").to_string();
    for sent in [0, 1, body.len() / 2, body.len() - 1] {
        let (mut bytes, body) = framed(&table, "cut", ("Content-Length", &body.len().to_string()));
        bytes.extend(&body.as_bytes()[..sent]);
        expect_refused(endpoint, &bytes)?;
    }
    // A body that is whole by itself, but shorter than was said.
    let (mut bytes, body) =
        framed(&table, "cut", ("Content-Length", &(body.len() + 10).to_string()));
    bytes.extend(body.as_bytes());
    expect_refused(endpoint, &bytes)?;
    expect_unharmed(&table)
}

/// The body ends too early by its own account, and what follows is not a request. The endpoint may
/// answer to the body, or see first that the framing is broken.
fn length_too_small(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let (mut bytes, body) = framed(&table, "small", ("Content-Length", "10"));
    bytes.extend(body.as_bytes());
    let mut connection = Connection::open(endpoint.authority())?;
    connection.write(&bytes)?;
    connection.finish_writing()?;
    for response in (0..3).map_while(|_| connection.read_response(false).ok()) {
        response.expect_status(400)?;
    }
    expect_unharmed(&table)
}

fn length_no_number(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for length in ["abc", "-1", "+32", "0x20", "32, 33", "99999999999999999999999", ""] {
        let (mut bytes, body) = framed(&table, "lie", ("Content-Length", length));
        bytes.extend(body.as_bytes());
        expect_refused(endpoint, &bytes)?;
    }
    expect_unharmed(&table)
}

fn length_twice(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let body = keys("p", "twice").to_string();
    let request = table
        .insert("")
        .header("Content-Length", &body.len().to_string())
        .header_again("Content-Length", &(body.len() + 5).to_string());
    let mut bytes = request.render_head();
    bytes.extend(body.as_bytes());
    expect_refused(endpoint, &bytes)?;
    expect_unharmed(&table)
}

/// Chunks win, or the request is refused; the length never decides.
fn length_and_chunks(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let body = keys("p", "both").to_string();
    let request =
        table.insert("").header("Content-Length", "5").header("Transfer-Encoding", "chunked");
    let mut bytes = request.render_head();
    bytes.extend(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes());
    let mut connection = Connection::open(endpoint.authority())?;
    connection.write(&bytes)?;
    let response = connection.read_response(false)?;
    match response.status {
        201 => response.expect_json("/RowKey", "both")?,
        _ => response.expect_refusal()?,
    };
    Ok(())
}

fn missing_length(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let head = String::from_utf8_lossy(&table.insert("").render_head())
        .replace("Content-Length: 0\r\n", "");
    let mut connection = Connection::open(endpoint.authority())?;
    connection.write(head.as_bytes())?;
    connection.read_response(false)?.expect_status_in(&[400, 411])?;
    expect_unharmed(&table)
}

fn broken_chunks(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let body = keys("p", "chunk").to_string();
    let size = format!("{:x}", body.len());
    for chunks in [
        format!("zz\r\n{body}\r\n0\r\n\r\n"),
        format!("-1\r\n{body}\r\n0\r\n\r\n"),
        format!("\r\n{body}\r\n0\r\n\r\n"),
        format!("{size}\r\n{body}XX0\r\n\r\n"),
        format!("{size}\n{body}"),
        format!("{size}\r\n{body}"),
        format!("{size}\r\n{body}\r\n"),
        format!("{size}\r\n{}", &body[..10]),
        format!("FFFFFFFFFFFFFFFFFF\r\n{body}\r\n0\r\n\r\n"),
        format!("7fffffff\r\n{body}\r\n0\r\n\r\n"),
        format!("{size};{}\r\n", "x".repeat(100_000)),
        body.clone(),
    ] {
        let (mut bytes, _) = framed(&table, "chunk", ("Transfer-Encoding", "chunked"));
        bytes.extend(chunks.into_bytes());
        expect_refused(endpoint, &bytes)?;
    }
    for encoding in ["nonsense", "chunked, nonsense"] {
        let (mut bytes, _) = framed(&table, "chunk", ("Transfer-Encoding", encoding));
        bytes.extend(format!("{size}\r\n{body}\r\n0\r\n\r\n").into_bytes());
        expect_refused(endpoint, &bytes)?;
    }
    expect_unharmed(&table)
}

fn huge_headers(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let one =
        table.insert(&keys("p", "huge").to_string()).header("x-large", &"h".repeat(1024 * 1024));
    expect_refused(endpoint, &one.render())?;
    let mut many = table.insert(&keys("p", "huge").to_string());
    for number in 0..20_000 {
        many = many.header_again(&format!("x-{number}"), &"h".repeat(50));
    }
    expect_refused(endpoint, &many.render())?;
    // Headers without end: the endpoint must not wait for the last one.
    let head = table.insert("").render_head();
    let mut endless = head[..head.len() - 2].to_vec();
    endless.extend("x-more: y\r\n".repeat(100_000).into_bytes());
    let mut connection = Connection::open(endpoint.authority())?;
    let _ = connection.write(&endless);
    if let Ok(response) = connection.read_response(false) {
        response.expect_refusal()?;
    }
    expect_unharmed(&table)?;
    // Eight kibibytes in all are nothing unusual.
    table.query("").header("x-usual", &"h".repeat(8 * 1024)).send()?.expect_status(200)?;
    Ok(())
}

fn huge_request_line(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let request =
        client.get(&format!("{}()?$filter={}", table.path(), "x".repeat(2 * 1024 * 1024)));
    expect_refused(endpoint, &request.render())?;
    let method = format!("{} / HTTP/1.1\r\n\r\n", "M".repeat(1024 * 1024));
    expect_refused(endpoint, method.as_bytes())?;
    expect_unharmed(&table)
}

fn no_http(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\na\0b: c\r\n\r\n",
        b"\r\n\r\n\r\n\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0; 1000],
        &[0xff; 70_000],
    ] {
        let mut connection = Connection::open(endpoint.authority())?;
        let _ = connection.write(bytes);
        let _ = connection.finish_writing();
        if let Ok(response) = connection.read_response(false) {
            response.ensure(
                (400..500).contains(&response.status) || response.status == 505,
                "expected a refusal",
            )?;
        }
    }
    expect_unharmed(&table)
}

fn missing_host(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    client.get("/Tables").without("Host").send()?.expect_status(400)?;
    Ok(())
}

/// A proxy in between may have gone by the other one; also if both say the same.
fn two_hosts(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for host in [endpoint.authority(), "other.example"] {
        client.get("/Tables").header_again("Host", host).send()?.expect_status(400)?;
        client.get("/Tables").header_again("host", host).anonymous().send()?.expect_status(400)?;
    }
    Ok(())
}

/// Many clients hang up in the middle; the next one is served at once.
fn client_goes_away(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let bytes = table.insert(&keys("p", "gone").to_string()).render();
    for end in [0, 1, 20, bytes.len() / 2, bytes.len() - 1] {
        let mut connection = Connection::open(endpoint.authority())?;
        connection.write(&bytes[..end])?;
        drop(connection);
    }
    expect_unharmed(&table)?;
    // A connection that waits in silence does not hold up the others, and is not cut while young.
    let mut silent = Connection::open(endpoint.authority())?;
    expect_unharmed(&table)?;
    let closed = silent.closes_within(Duration::from_millis(500))?;
    ensure!(!closed, "a new connection was closed within half a second");
    Ok(())
}
