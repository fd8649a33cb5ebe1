//! Reads HTTP/1.1 replies with `httparse`, and no more of them than a benchmark needs: status,
//! length, continuation, body.
//!
//! One request is open per connection, so nothing may follow a reply. Interim (1xx) replies are not
//! expected: no request asks for one.

use std::mem::MaybeUninit;
use std::str;

use httparse::{Header, ParserConfig, Response, Status};

use crate::failure::{Context, Failure, Result};

/// Far above any head of either server; only there so that a server gone mad cannot fill our
/// memory.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Servers send a dozen.
const HEADERS_MAX: usize = 64;
/// A page of 1,000 entities of 500 bytes with full metadata stays far below.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The part of a reply that comes before its body.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// `x-ms-continuation-NextPartitionKey` and `-NextRowKey`, as sent.
    pub next_partition_key: Option<String>,
    pub next_row_key: Option<String>,
    length: Option<usize>,
    is_chunked: bool,
}

/// A whole reply.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    pub head: &'a Head,
    head_bytes: &'a [u8],
    pub body: &'a [u8],
}

impl Reply<'_> {
    /// All headers, as sent. For whoever wants to repeat the reply.
    pub fn headers(&self) -> Vec<(String, String)> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut fields = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        match parse(self.head_bytes, &mut fields) {
            Ok(Some((_, response))) => response
                .headers
                .iter()
                .map(|field| (field.name.to_owned(), text(field.value)))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Collects bytes until they are a reply. Buffers are kept from reply to reply.
#[derive(Debug, Default)]
pub struct ReplyReader {
    raw: Vec<u8>,
    head: Option<Head>,
    /// In `raw`: where the head ends.
    head_end: usize,
    /// In `raw`: where the body begins, then where the next chunk begins.
    at: usize,
    /// The body so far, when it comes in chunks.
    unchunked: Vec<u8>,
}

impl ReplyReader {
    /// Forgets the last reply.
    pub fn reset(&mut self) {
        self.raw.clear();
        self.unchunked.clear();
        self.head = None;
        self.at = 0;
    }

    /// Takes more bytes; true when the reply is whole.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<bool> {
        self.raw.extend_from_slice(bytes);
        if self.head.is_none() && !self.read_head()? {
            return Ok(false);
        }
        let Some(head) = &self.head else { return Ok(false) };
        if head.is_chunked {
            return self.read_chunks();
        }
        let end = self.at + head.length.unwrap_or(0);
        if self.raw.len() > end {
            return Err(Failure::new("bytes after the end of a reply"));
        }
        Ok(self.raw.len() == end)
    }

    /// The reply, once [`ReplyReader::feed`] said that it is whole.
    pub fn reply(&self) -> Option<Reply<'_>> {
        let head = self.head.as_ref()?;
        let body = if head.is_chunked { &self.unchunked } else { self.raw.get(self.at..)? };
        Some(Reply { head, head_bytes: &self.raw[..self.head_end], body })
    }

    fn read_head(&mut self) -> Result<bool> {
        let mut fields = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let Some((end, response)) = parse(&self.raw, &mut fields)? else {
            if self.raw.len() > HEAD_BYTES_MAX {
                return Err(Failure::new("a reply whose head does not end"));
            }
            return Ok(false);
        };
        let head = Head::of(&response)?;
        if head.length.unwrap_or(0) > BODY_BYTES_MAX {
            return Err(Failure::new("a reply of unreasonable length"));
        }
        self.at = end;
        self.head_end = end;
        self.head = Some(head);
        Ok(true)
    }

    fn read_chunks(&mut self) -> Result<bool> {
        while let Some((line_bytes, size)) = chunk_size(&self.raw[self.at..])? {
            let start = self.at + line_bytes;
            let end = start + size;
            if self.raw.len() < end + 2 {
                return Ok(false);
            }
            if &self.raw[end..end + 2] != b"\r\n" {
                return Err(Failure::new("a chunk that is longer than it says, or a trailer"));
            }
            if size == 0 && self.raw.len() > end + 2 {
                return Err(Failure::new("bytes after the end of a reply"));
            }
            if size == 0 {
                return Ok(true);
            }
            self.unchunked.extend_from_slice(&self.raw[start..end]);
            self.at = end + 2;
        }
        Ok(false)
    }
}

/// The length of the line and the size that it says; none until it has come.
fn chunk_size(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let size = httparse::parse_chunk_size(bytes);
    let size = size.map_err(|_| Failure::new("a chunk size that is not a number"))?;
    let Status::Complete((line_bytes, size)) = size else { return Ok(None) };
    match usize::try_from(size) {
        Ok(size) if size <= BODY_BYTES_MAX => Ok(Some((line_bytes, size))),
        _ => Err(Failure::new("a chunk of unreasonable length")),
    }
}

/// The head of a reply and its length; none until it has come.
fn parse<'f, 'b>(
    bytes: &'b [u8],
    fields: &'f mut [MaybeUninit<Header<'b>>; HEADERS_MAX],
) -> Result<Option<(usize, Response<'f, 'b>)>> {
    let mut response = Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, fields);
    match parsed.context(|| "a reply's head".into())? {
        Status::Complete(end) => Ok(Some((end, response))),
        Status::Partial => Ok(None),
    }
}

impl Head {
    fn of(response: &Response<'_, '_>) -> Result<Self> {
        // HTTP/1.0 closes the connection after a reply.
        let (Some(1), Some(status)) = (response.version, response.code) else {
            return Err(Failure::new("a reply that is not of HTTP/1.1"));
        };
        let mut head = Self { status, ..Self::default() };
        for field in response.headers.iter() {
            head.take(field.name, field.value)?;
        }
        let has_body = !matches!(status, 204 | 304);
        if has_body && head.length.is_none() && !head.is_chunked {
            return Err(Failure::new("a reply that does not say how long it is"));
        }
        Ok(head)
    }

    fn take(&mut self, name: &str, value: &[u8]) -> Result {
        let text = || str::from_utf8(value).context(|| format!("the header {name}"));
        // Lengths first: comparing without case is the most expensive step here, and most headers
        // are none of these.
        match name.len() {
            14 if name.eq_ignore_ascii_case("content-length") => {
                let length = text()?;
                self.length =
                    Some(length.parse().context(|| format!("the Content-Length `{length}`"))?);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                self.is_chunked = value.eq_ignore_ascii_case(b"chunked");
            }
            28 if name.eq_ignore_ascii_case("x-ms-continuation-nextrowkey") => {
                self.next_row_key = Some(text()?.to_owned());
            }
            34 if name.eq_ignore_ascii_case("x-ms-continuation-nextpartitionkey") => {
                self.next_partition_key = Some(text()?.to_owned());
            }
            10 if name.eq_ignore_ascii_case("connection")
                && value.eq_ignore_ascii_case(b"close") =>
            {
                return Err(Failure::new(format!(
                    "status {}, and the server closes the connection",
                    self.status
                )));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Head, ReplyReader};

    /// Feeds in pieces of each size, so that every split is met; gives the head and body of the
    /// whole reply.
    fn read(text: &str) -> (Head, String) {
        let mut reader = ReplyReader::default();
        let mut last = None;
        for piece in 1..=text.len() {
            reader.reset();
            let pieces: Vec<_> = text.as_bytes().chunks(piece).collect();
            for (number, bytes) in pieces.iter().enumerate() {
                let is_whole = reader.feed(bytes).unwrap();
                assert_eq!(is_whole, number + 1 == pieces.len(), "piece {number} of size {piece}");
            }
            let reply = reader.reply().unwrap();
            last = Some((reply.head.clone(), String::from_utf8(reply.body.to_vec()).unwrap()));
        }
        last.unwrap()
    }

    fn refuse(text: &str) {
        assert!(ReplyReader::default().feed(text.as_bytes()).is_err(), "{text}");
    }

    #[test]
    fn a_body_of_known_length() {
        let (head, body) = read("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx: y\r\n\r\nhello");
        assert_eq!((head.status, body.as_str()), (200, "hello"));
    }

    #[test]
    fn headers_can_be_repeated() {
        let mut reader = ReplyReader::default();
        reader.feed(b"HTTP/1.1 204 No Content\r\nETag: W/\"a:b\"\r\nDate: x\r\n\r\n").unwrap();
        let headers = reader.reply().unwrap().headers();
        let expected = [("ETag", "W/\"a:b\""), ("Date", "x")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(headers, expected);
    }

    #[test]
    fn no_body() {
        assert_eq!(read("HTTP/1.1 204 No Content\r\nETag: x\r\n\r\n").1, "");
        assert_eq!(read("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n").0.status, 204);
    }

    #[test]
    fn a_body_in_chunks() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nB;x=1\r\n, it is me.\r\n0\r\n\r\n";
        assert_eq!(read(text).1, "hello, it is me.");
        assert_eq!(
            read("HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").1,
            ""
        );
    }

    #[test]
    fn a_connection_is_used_again() {
        let mut reader = ReplyReader::default();
        for (text, body) in [
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "ab"),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nc", "c"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""),
        ] {
            reader.reset();
            assert!(reader.feed(text.as_bytes()).unwrap());
            assert_eq!(reader.reply().unwrap().body, body.as_bytes());
        }
    }

    #[test]
    fn continuation() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-ms-continuation-NextPartitionKey: 1!4!cA--\r\n\
                    x-ms-continuation-NextRowKey: 1!4!cg--\r\n\r\n";
        let (head, _) = read(text);
        assert_eq!(head.next_partition_key.as_deref(), Some("1!4!cA--"));
        assert_eq!(head.next_row_key.as_deref(), Some("1!4!cg--"));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        refuse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab");
        refuse("HTTP/1.1 200 OK\r\n\r\n");
        refuse("HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n");
        refuse("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        refuse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n");
        refuse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
        refuse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx");
    }
}
