//! Requests as bytes that are signed once and sent by many, and a connection that reads just enough
//! of the answers.

use std::io;
use std::time::SystemTime;

use http::{HeaderName, HeaderValue, Request};
use tavola_core::AccountName;
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use tavola_testkit::server_process::{ACCOUNT, KEY};

const JSON: (&str, &str) = ("content-type", "application/json");
const VERSION: [(&str, &str); 2] =
    [("x-ms-version", "2019-02-02"), ("accept", "application/json;odata=nometadata")];
/// An answer's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const READ_BYTES: usize = 64 * 1024;

/// Writes requests for one server. A signature holds for a quarter of an hour.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    pub(super) authority: String,
    pub(super) account: &'static str,
    key: &'static str,
}

impl Wire {
    /// Of the account that every server has.
    pub(super) fn new(authority: String) -> Self {
        Self { authority, account: ACCOUNT, key: KEY }
    }

    /// The same server, seen by another account.
    pub(super) fn of(&self, account: &'static str, key: &'static str) -> Self {
        Self { account, key, ..self.clone() }
    }

    /// Creates a table.
    pub(super) fn create_table(&self, table: &str) -> Vec<u8> {
        let body = format!("{{\"TableName\":\"{table}\"}}");
        self.request("POST", "Tables", &[JSON, ("prefer", "return-no-content")], body.as_bytes())
    }

    /// The head of a signed request, without its framing and its last line. `target` follows the
    /// account's name.
    pub(super) fn head(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Vec<u8> {
        let (authority, account) = (&self.authority, self.account);
        let uri = format!("http://{authority}/{account}/{target}");
        let mut request =
            Request::builder().method(method).uri(uri).body(()).expect("a legal request");
        for (name, value) in VERSION.iter().chain(headers) {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a legal name");
            request
                .headers_mut()
                .insert(name, HeaderValue::from_str(value).expect("a legal value"));
        }
        let name = AccountName::parse(account).expect("a legal name");
        let key = AccountKey::parse(self.key).expect("a legal key");
        sign_request(&mut request, Scheme::SharedKey, &name, &key, SystemTime::now());
        let mut head =
            format!("{method} /{account}/{target} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        for (name, value) in request.headers() {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head
    }

    /// A whole request.
    pub(super) fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        let mut request = self.head(method, target, headers);
        request.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend_from_slice(body);
        request
    }

    /// A point GET.
    pub(super) fn get(&self, table: &str, partition: &str, row: &str) -> Vec<u8> {
        self.request(
            "GET",
            &format!("{table}(PartitionKey='{partition}',RowKey='{row}')"),
            &[],
            b"",
        )
    }

    /// A page of a table.
    pub(super) fn page(&self, table: &str, query: &str) -> Vec<u8> {
        self.request("GET", &format!("{table}(){query}"), &[], b"")
    }

    /// An insert that asks for nothing back.
    pub(super) fn insert(&self, table: &str, partition: &str, row: &str, value: u64) -> Vec<u8> {
        let body =
            format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"Value\":{value}}}");
        self.request("POST", table, &[JSON, ("prefer", "return-no-content")], body.as_bytes())
    }
}

/// One answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Status line and headers.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// 503 in the form that the service gives it.
    pub(super) fn is_server_busy(&self) -> bool {
        self.status == 503
            && self.header("retry-after").is_some()
            && String::from_utf8_lossy(&self.body).contains("ServerBusy")
    }
}

/// A connection of a neighbour.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(authority: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    pub(super) fn over(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub(super) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.write_all(request).await?;
        self.answer().await
    }

    /// Reads one answer.
    pub(super) async fn answer(&mut self) -> io::Result<Answer> {
        let (head, length) = self.answer_head().await?;
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        let rest = self.buffer.split_off(length);
        let body = std::mem::replace(&mut self.buffer, rest);
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not an answer: {head}")))?;
        Ok(Answer { status, head, body })
    }

    async fn answer_head(&mut self) -> io::Result<(String, usize)> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(io::Error::other("the answer's head has no end"));
            }
            self.read_more().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);
        let length =
            header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        Ok((head, length))
    }

    async fn read_more(&mut self) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("closed after {start} bytes"),
            )),
            _ => Ok(()),
        }
    }
}

fn header<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
    headers.find_map(|(name, value)| name.eq_ignore_ascii_case(wanted).then_some(value))
}
