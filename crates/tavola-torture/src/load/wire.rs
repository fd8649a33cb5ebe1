//! Requests as bytes that are signed once and sent by many, and a connection that reads their
//! answers.

use std::io;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tavola_core::AccountName;
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use tavola_testkit::raw::take_answer;
use tavola_testkit::server_process::{ACCOUNT, KEY};

const JSON: (&str, &str) = ("content-type", "application/json");
const VERSION: [(&str, &str); 2] =
    [("x-ms-version", "2019-02-02"), ("accept", "application/json;odata=nometadata")];
const INSERT: [(&str, &str); 2] = [JSON, ("prefer", "return-no-content")];
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
        self.request("POST", "Tables", &INSERT, body.as_bytes())
    }

    /// A signed request. `target` follows the account's name.
    pub(super) fn signed(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Request<Bytes> {
        let (authority, account) = (&self.authority, self.account);
        let uri = format!("http://{authority}/{account}/{target}");
        let body = Bytes::copy_from_slice(body);
        let mut request =
            Request::builder().method(method).uri(uri).body(body).expect("a legal request");
        for (name, value) in VERSION.iter().chain(headers) {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a legal name");
            request
                .headers_mut()
                .insert(name, HeaderValue::from_str(value).expect("a legal value"));
        }
        let name = AccountName::parse(account).expect("a legal name");
        let key = AccountKey::parse(self.key).expect("a legal key");
        sign_request(&mut request, Scheme::SharedKey, &name, &key, SystemTime::now());
        request
    }

    /// The head of a signed request as bytes, without its framing and its last line.
    pub(super) fn head(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Vec<u8> {
        let (authority, account) = (&self.authority, self.account);
        let mut head =
            format!("{method} /{account}/{target} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        for (name, value) in self.signed(method, target, headers, b"").headers() {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head
    }

    /// A whole request as bytes.
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
        self.request("GET", &point(table, partition, row), &[], b"")
    }

    /// The same for a client that writes it itself.
    pub(super) fn signed_get(&self, table: &str, partition: &str, row: &str) -> Request<Bytes> {
        self.signed("GET", &point(table, partition, row), &[], b"")
    }

    /// A page of a table.
    pub(super) fn page(&self, table: &str, query: &str) -> Vec<u8> {
        self.request("GET", &format!("{table}(){query}"), &[], b"")
    }

    /// An insert that asks for nothing back.
    pub(super) fn insert(&self, table: &str, partition: &str, row: &str, value: u64) -> Vec<u8> {
        self.request("POST", table, &INSERT, entity(partition, row, value).as_bytes())
    }

    /// The same for a client that writes it itself.
    pub(super) fn signed_insert(
        &self,
        table: &str,
        partition: &str,
        row: &str,
        value: u64,
    ) -> Request<Bytes> {
        self.signed("POST", table, &INSERT, entity(partition, row, value).as_bytes())
    }
}

fn point(table: &str, partition: &str, row: &str) -> String {
    format!("{table}(PartitionKey='{partition}',RowKey='{row}')")
}

fn entity(partition: &str, row: &str, value: u64) -> String {
    format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"Value\":{value}}}")
}

/// One answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Status and headers, for people.
    pub(super) head: String,
    headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    fn new(response: Response<Bytes>) -> Self {
        let (parts, body) = response.into_parts();
        let head = format!("{} {:?}", parts.status, parts.headers);
        Self { status: parts.status.as_u16(), head, headers: parts.headers, body }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
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
        loop {
            if let Some(response) = take_answer(&mut self.buffer)? {
                return Ok(Answer::new(response));
            }
            let start = self.buffer.len();
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                let text = format!("closed after {start} bytes");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
        }
    }
}
