//! Requests as bytes, for what no HTTP library would send. Their answers are read with `httparse`.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::client::NoAnswer;
use crate::record;

/// For a part of a request or of an answer. A server that takes longer does not answer at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// An answer's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 64;

/// One connection that sends what it is given.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl RawConnection {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn open(authority: &str) -> Result<Self, NoAnswer> {
        let stream = TcpStream::connect(authority).map_err(|_| NoAnswer)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(|_| NoAnswer)?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(|_| NoAnswer)?;
        stream.set_nodelay(true).map_err(|_| NoAnswer)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends bytes as they are and reads one answer.
    ///
    /// # Errors
    /// If no whole answer comes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<Response<Bytes>, NoAnswer> {
        self.stream.write_all(bytes).map_err(|_| NoAnswer)?;
        let response = self.answer().map_err(|_| NoAnswer)?;
        record::raw_exchange(bytes, &response);
        Ok(response)
    }

    /// Reads the head of an answer. Its body can be read from here.
    ///
    /// # Errors
    /// If none comes.
    pub fn read_head(&mut self) -> io::Result<Response<()>> {
        self.read_until(|received| {
            let Some((head, head_bytes)) = parse_head(received)? else { return Ok(None) };
            received.drain(..head_bytes);
            Ok(Some(head))
        })
    }

    fn answer(&mut self) -> io::Result<Response<Bytes>> {
        self.read_until(take_answer)
    }

    fn read_until<T>(
        &mut self,
        take: impl Fn(&mut Vec<u8>) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        loop {
            if let Some(taken) = take(&mut self.received)? {
                return Ok(taken);
            }
            let mut buffer = [0; 8 * 1024];
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.received.extend_from_slice(&buffer[..bytes]),
            }
        }
    }
}

impl io::Read for RawConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.received.is_empty() {
            return self.stream.read(buffer);
        }
        let bytes = (&self.received[..]).read(buffer)?;
        self.received.drain(..bytes);
        Ok(bytes)
    }
}

impl io::Write for RawConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Takes the first answer out of what was received, once it is whole. Without a `Content-Length` it
/// has no body.
///
/// # Errors
/// If this is no answer, or one whose body comes in chunks.
pub fn take_answer(received: &mut Vec<u8>) -> io::Result<Option<Response<Bytes>>> {
    let Some((head, head_bytes)) = parse_head(received)? else { return Ok(None) };
    if head.headers().contains_key(header::TRANSFER_ENCODING) {
        return Err(io::Error::other("an answer in chunks"));
    }
    let length = match head.headers().get(header::CONTENT_LENGTH).map(HeaderValue::to_str) {
        None => 0,
        Some(text) => text
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| io::Error::other("an answer whose Content-Length is not a number"))?,
    };
    let end = head_bytes + length;
    if received.len() < end {
        return Ok(None);
    }
    let body = Bytes::copy_from_slice(&received[head_bytes..end]);
    received.drain(..end);
    Ok(Some(head.map(|()| body)))
}

/// The head of an answer and its length; none as long as it is not whole.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(Response<()>, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let head_bytes = match head.parse(bytes).map_err(io::Error::other)? {
        httparse::Status::Complete(head_bytes) => head_bytes,
        httparse::Status::Partial if bytes.len() > HEAD_BYTES_MAX => {
            return Err(io::Error::other("the answer's head has no end"));
        }
        httparse::Status::Partial => return Ok(None),
    };
    let mut response = Response::new(());
    let status = StatusCode::from_u16(head.code.unwrap_or_default());
    *response.status_mut() = status.map_err(io::Error::other)?;
    for field in head.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(io::Error::other)?;
        let value = HeaderValue::from_bytes(field.value).map_err(io::Error::other)?;
        response.headers_mut().append(name, value);
    }
    Ok(Some((response, head_bytes)))
}

#[cfg(test)]
mod tests {
    use super::take_answer;

    #[test]
    fn answers_are_taken_when_they_are_whole() {
        let first = "HTTP/1.1 404 Not Found\r\nETag:a:b\r\ncontent-length: 3\r\n\r\nabc";
        let second = "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n";
        let text = [first, second].concat();
        let (mut received, mut answers) = (Vec::new(), Vec::new());
        for (index, byte) in text.bytes().enumerate() {
            received.push(byte);
            if let Some(answer) = take_answer(&mut received).unwrap() {
                answers.push((index + 1, answer.status().as_u16(), answer.body().to_vec()));
                assert!(received.is_empty());
            }
        }
        assert_eq!(answers, [(first.len(), 404, b"abc".to_vec()), (text.len(), 204, Vec::new())]);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(take_answer(&mut text.as_bytes().to_vec()).is_err(), "{text}");
        }
    }
}
