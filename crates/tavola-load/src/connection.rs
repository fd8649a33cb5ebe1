//! One connection of the generator: a request on its way out, a reply on its way in.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use rustls::{ClientConnection, StreamOwned};

use crate::failure::{Context, Failure, Result};
use crate::reply::ReplyReader;
use crate::site::Site;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    pub(crate) request: Vec<u8>,
    pub(crate) written: usize,
    /// From when its latency is counted.
    pub(crate) asked: Instant,
    pub(crate) is_open: bool,
    pub(crate) reader: ReplyReader,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Connection {
    pub(crate) fn open(site: &Site, poll: &Poll, number: usize) -> Result<Self> {
        let doing = || format!("cannot connect to {}", site.address);
        let stream = std::net::TcpStream::connect(site.address).context(doing)?;
        stream.set_nodelay(true).context(doing)?;
        stream.set_nonblocking(true).context(doing)?;
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(number), interest).context(doing)?;
        let stream = match &site.tls {
            None => Stream::Plain(stream),
            Some((config, name)) => {
                let client =
                    ClientConnection::new(Arc::clone(config), name.clone()).context(doing)?;
                Stream::Secure(Box::new(StreamOwned::new(client, stream)))
            }
        };
        let (request, reader) = (Vec::new(), ReplyReader::default());
        Ok(Self { stream, request, written: 0, asked: Instant::now(), is_open: false, reader })
    }

    pub(crate) fn write(&mut self) -> Result {
        while self.written < self.request.len() {
            match self.stream.write(&self.request[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::new(format!("cannot send: {error}"))),
            }
        }
        self.stream.push_out()
    }

    /// Reads what is there; true when a whole reply is.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<bool> {
        loop {
            let bytes = match self.stream.read(buffer) {
                Ok(0) => return self.closed(),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::new(format!("cannot receive: {error}"))),
            };
            let is_whole = self.reader.feed(&buffer[..bytes])?;
            if is_whole || self.stream.is_emptied_by(bytes, buffer.len()) {
                return Ok(is_whole);
            }
        }
    }

    fn closed(&self) -> Result<bool> {
        // A connection that has nothing left to ask may be closed by the server.
        if self.is_open {
            Err(Failure::new("the server closed a connection that waits for a reply"))
        } else {
            Ok(false)
        }
    }
}

impl Stream {
    /// A short read has emptied a plain socket (epoll(7)), so asking once more would be a system
    /// call for nothing. Behind TLS a read gives at most what one record holds.
    fn is_emptied_by(&self, bytes: usize, room: usize) -> bool {
        matches!(self, Self::Plain(_)) && bytes < room
    }

    /// TLS keeps what the socket did not take; a plain socket keeps nothing.
    fn push_out(&mut self) -> Result {
        let Self::Secure(stream) = self else { return Ok(()) };
        match stream.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                Err(Failure::new(format!("cannot send: {error}")))
            }
            _ => Ok(()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Secure(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Secure(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Secure(stream) => stream.flush(),
        }
    }
}
