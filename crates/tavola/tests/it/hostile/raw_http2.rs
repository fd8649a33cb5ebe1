//! HTTP/2 written by hand, to say what no client library would.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// One frame of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Headers(u32),
    Data { stream: u32, bytes: usize },
    Reset(u32),
    Other,
}

pub(crate) struct RawHttp2 {
    stream: TlsStream<TcpStream>,
    next_stream: u32,
}

impl RawHttp2 {
    /// A connection on which every answer waits for a window of this size.
    pub(crate) async fn connect(
        authority: &str,
        config: &Arc<ClientConfig>,
        window: u32,
    ) -> io::Result<Self> {
        let tcp = TcpStream::connect(authority).await?;
        let name = ServerName::try_from(authority.split(':').next().unwrap().to_owned()).unwrap();
        let mut stream = TlsConnector::from(Arc::clone(config)).connect(name, tcp).await?;
        let mut hello = PREFACE.to_vec();
        let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        setting.extend_from_slice(&window.to_be_bytes());
        hello.extend(frame(SETTINGS, 0, 0, &setting));
        stream.write_all(&hello).await?;
        Ok(Self { stream, next_stream: 1 })
    }

    /// Opens streams with these heads, one for each, and sends no body.
    pub(crate) async fn open(&mut self, heads: &[Head], ends: bool) -> io::Result<()> {
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        let mut bytes = Vec::new();
        for head in heads {
            bytes.extend(frame(HEADERS, flags, self.next_stream, &head.0));
            self.next_stream += 2;
        }
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await
    }

    pub(crate) async fn frame(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let length = usize::try_from(u32::from_be_bytes([0, head[0], head[1], head[2]])).unwrap();
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).await?;
        Ok(match head[3] {
            HEADERS => Frame::Headers(stream),
            DATA => Frame::Data { stream, bytes: length },
            RST_STREAM => Frame::Reset(stream),
            _ => Frame::Other,
        })
    }
}

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(content);
    frame
}

/// The head of a request, in HPACK.
#[derive(Debug, Clone)]
pub(crate) struct Head(Vec<u8>);

impl Head {
    pub(crate) fn new(method: &str, authority: &str, target: &str) -> Self {
        let mut head = Self(Vec::new());
        head.literal(0, b":method", method);
        head.literal(0, b":scheme", "https");
        head.literal(0, b":authority", authority);
        head.literal(0, b":path", target);
        head
    }

    /// A field as it is.
    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.literal(0, name.as_bytes(), value);
        self
    }

    /// A field that the server remembers for all later requests of the connection.
    pub(crate) fn remembered(mut self, name: &str, value: &str) -> Self {
        self.literal(0x40, name.as_bytes(), value);
        self
    }

    /// So many times the field that was remembered last, for a byte each.
    pub(crate) fn repeated(mut self, times: usize) -> Self {
        const NEWEST: u8 = 62;
        self.0.extend(std::iter::repeat_n(0x80 | NEWEST, times));
        self
    }

    fn literal(&mut self, kind: u8, name: &[u8], value: &str) {
        self.0.push(kind);
        self.text(name);
        self.text(value.as_bytes());
    }

    /// A length in seven bits, or what is beyond them in the bytes behind.
    fn text(&mut self, text: &[u8]) {
        const SEVEN_BITS: usize = 127;
        if text.len() < SEVEN_BITS {
            self.0.push(u8::try_from(text.len()).unwrap());
        } else {
            self.0.push(127);
            let mut rest = text.len() - SEVEN_BITS;
            while rest >= 128 {
                self.0.push(u8::try_from(rest % 128).unwrap() | 128);
                rest /= 128;
            }
            self.0.push(u8::try_from(rest).unwrap());
        }
        self.0.extend_from_slice(text);
    }
}
