//! HTTP/1.1 over a blocking socket: bytes out as the caller wrote them, and a strict reader for
//! what comes back.
//!
//! Nothing here repairs, retries or follows anything: a case must see what the endpoint really did.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::Failure;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Longer lines and bodies than any answer of the protocol; a bound on what a broken endpoint may
/// send us.
const LINE_BYTES_MAX: u64 = 64 * 1024;
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
const SHOWN_BYTES_MAX: usize = 1500;

/// One TCP connection.
#[derive(Debug)]
pub(super) struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub(super) fn open(authority: &str) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::mismatch(format!("cannot connect to {authority}: {error}"))
        };
        let address = authority
            .to_socket_addrs()
            .map_err(failed)?
            .next()
            .ok_or_else(|| Failure::mismatch(format!("{authority} has no address")))?;
        let stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Connection { reader: BufReader::new(stream) })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.reader
            .get_mut()
            .write_all(bytes)
            .map_err(|error| Failure::mismatch(format!("the endpoint stopped reading: {error}")))
    }

    /// Tells the endpoint that nothing more will be sent.
    pub(super) fn finish_writing(&mut self) -> Result<(), Failure> {
        self.reader
            .get_ref()
            .shutdown(Shutdown::Write)
            .map_err(|error| Failure::mismatch(format!("cannot half-close: {error}")))
    }

    /// Sends a request and reads its answer. An endpoint may answer before it has read all: then
    /// writing fails, and the answer counts.
    pub(super) fn exchange(&mut self, request: &[u8]) -> Result<Response, Failure> {
        let written = self.write(request);
        let mut response = match self.read_response(request.starts_with(b"HEAD ")) {
            Ok(response) => response,
            Err(unread) => return Err(with_request(request, written.err().unwrap_or(unread))),
        };
        response.request = shown(request);
        Ok(response)
    }

    /// Reads one final answer; interim ones (`100 Continue`) are passed over.
    pub(super) fn read_response(&mut self, to_head: bool) -> Result<Response, Failure> {
        loop {
            let mut response = self.read_head()?;
            if response.status >= 200 {
                response.to_head = to_head;
                response.body = self.read_body(&response)?;
                return Ok(response);
            }
        }
    }

    /// Reads the head of an answer, interim ones included.
    pub(super) fn read_head(&mut self) -> Result<Response, Failure> {
        let line = self.read_line()?;
        let mut words = line.splitn(3, ' ');
        let (version, status, reason) = (words.next(), words.next(), words.next());
        let status = status
            .filter(|text| version == Some("HTTP/1.1") && text.len() == 3)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Failure::mismatch(format!("not a status line: {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| Failure::mismatch(format!("not a header line: {line:?}")))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Response {
            status,
            reason: reason.unwrap_or_default().to_owned(),
            headers,
            body: Vec::new(),
            to_head: false,
            request: String::new(),
        })
    }

    /// True when the endpoint has closed; false when it stays silent for `timeout` on an open
    /// connection.
    pub(super) fn closes_within(&mut self, timeout: Duration) -> Result<bool, Failure> {
        let stream = self.reader.get_ref();
        let failed = |error| Failure::mismatch(format!("cannot set a timeout: {error}"));
        stream.set_read_timeout(Some(timeout)).map_err(failed)?;
        let mut byte = [0];
        let closed = match self.reader.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => return Err(Failure::mismatch("bytes came that nobody asked for")),
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == ErrorKind::TimedOut => false,
            Err(_) => true,
        };
        self.reader.get_ref().set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        Ok(closed)
    }

    fn read_body(&mut self, head: &Response) -> Result<Vec<u8>, Failure> {
        if head.has_no_body() {
            return Ok(Vec::new());
        }
        if head
            .header("Transfer-Encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
        {
            return self.read_chunks();
        }
        match head.header("Content-Length") {
            Some(length) => {
                let length = length
                    .parse()
                    .map_err(|_| Failure::mismatch(format!("Content-Length is {length:?}")))?;
                self.read_exactly(length)
            }
            None => self.read_to_end(),
        }
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?;
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16)
                .map_err(|_| Failure::mismatch(format!("not a chunk size: {line:?}")))?;
            if size == 0 {
                while !self.read_line()?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.read_exactly(size)?);
            let end = self.read_line()?;
            if !end.is_empty() || body.len() > BODY_BYTES_MAX {
                return Err(Failure::mismatch("a chunk is longer than it said"));
            }
        }
    }

    fn read_exactly(&mut self, length: usize) -> Result<Vec<u8>, Failure> {
        if length > BODY_BYTES_MAX {
            return Err(Failure::mismatch(format!("a body of {length} bytes")));
        }
        let mut body = vec![0; length];
        self.reader
            .read_exact(&mut body)
            .map_err(|error| Failure::mismatch(format!("the body was cut short: {error}")))?;
        Ok(body)
    }

    fn read_to_end(&mut self) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        (&mut self.reader)
            .take(BODY_BYTES_MAX as u64)
            .read_to_end(&mut body)
            .map_err(|error| Failure::mismatch(format!("the body was cut short: {error}")))?;
        Ok(body)
    }

    fn read_line(&mut self) -> Result<String, Failure> {
        let mut line = Vec::new();
        (&mut self.reader)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .map_err(|error| Failure::mismatch(format!("no answer came: {error}")))?;
        if line.is_empty() {
            return Err(Failure::mismatch("the connection was closed without an answer"));
        }
        line.strip_suffix(b"\r\n")
            .and_then(|line| String::from_utf8(line.to_vec()).ok())
            .ok_or_else(|| {
                let text = String::from_utf8_lossy(&line).into_owned();
                Failure::mismatch(format!("not a line of ASCII that ends in CRLF: {text:?}"))
            })
    }
}

/// An answer, with the request that it belongs to for messages.
#[derive(Debug, Clone)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    to_head: bool,
    request: String,
}

impl Response {
    /// The first header of that name, in any case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn has_no_body(&self) -> bool {
        self.to_head || self.status == 204 || self.status == 304
    }

    /// Whether the endpoint ends the connection after this answer.
    pub(super) fn closes(&self) -> bool {
        let unframed = self.header("Content-Length").is_none()
            && self.header("Transfer-Encoding").is_none()
            && !self.has_no_body();
        unframed
            || self.header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// A mismatch that shows what was asked and what came.
    pub(super) fn mismatch(&self, expected: impl std::fmt::Display) -> Failure {
        let expected = shown(expected.to_string().as_bytes());
        let mut text = format!("{expected}\n--- request\n{}\n--- answer\n", self.request);
        text.push_str(&format!("HTTP/1.1 {} {}\n", self.status, self.reason));
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\n"));
        }
        text.push('\n');
        text.push_str(&shown(&self.body));
        Failure::Mismatch(text)
    }
}

fn with_request(request: &[u8], failure: Failure) -> Failure {
    Failure::mismatch(format!("{failure}\n--- request\n{}", shown(request)))
}

/// Bytes as text for a message, cut when long.
fn shown(bytes: &[u8]) -> String {
    let cut = bytes.len().min(SHOWN_BYTES_MAX);
    let mut text = String::from_utf8_lossy(&bytes[..cut]).replace("\r\n", "\n");
    if bytes.len() > cut {
        text.push_str(&format!("… ({} bytes in all)", bytes.len()));
    }
    text
}
