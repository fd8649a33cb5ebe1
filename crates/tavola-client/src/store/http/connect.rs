//! Makes connections: directly or through a proxy, with TLS or without.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use tavola_protocol::connection_string::Endpoint;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::stream::{Socket, Stream};
use crate::error::{Error, Rule};
use crate::options::ConnectionOptions;

/// The longest head of a proxy's answer.
const PROXY_HEAD_BYTES_MAX: usize = 16 << 10;

/// Makes connections for hyper's pool.
#[derive(Clone)]
pub(super) struct Connector {
    proxy: Option<Endpoint>,
    timeout: Duration,
    #[cfg(feature = "tls")]
    tls: tokio_rustls::TlsConnector,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("proxy", &self.proxy).finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(endpoint: &Endpoint, options: &ConnectionOptions) -> Result<Self, Error> {
        let invalid = |text: String| Error::invalid(Rule::Address, text);
        let proxy =
            match &options.proxy {
                None => None,
                Some(url) => Some(Endpoint::parse(url).map_err(|reason| {
                    invalid(format!("the proxy's address is not one: {reason}"))
                })?),
            };
        if proxy.as_ref().is_some_and(Endpoint::is_https) {
            return Err(invalid("a proxy is reached over http; TLS goes through it".to_owned()));
        }
        if cfg!(not(feature = "tls")) && endpoint.is_https() {
            return Err(invalid("https needs the feature `tls` of tavola-client".to_owned()));
        }
        Ok(Self {
            proxy,
            timeout: options.connect_timeout,
            #[cfg(feature = "tls")]
            tls: super::tls::connector(&options.certificates)?,
        })
    }

    async fn connect(self, uri: Uri) -> io::Result<Stream> {
        let too_long = || io::Error::new(io::ErrorKind::TimedOut, "connecting took too long");
        let timeout = self.timeout;
        tokio::time::timeout(timeout, self.connect_inner(uri)).await.map_err(|_| too_long())?
    }

    async fn connect_inner(self, uri: Uri) -> io::Result<Stream> {
        let is_https = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let mut socket = match &self.proxy {
            None => tcp(host, port).await?,
            Some(proxy) => tcp(proxy.host(), proxy.port()).await?,
        };
        if !is_https {
            return Ok(Stream::new(socket, self.proxy.is_some()));
        }
        if self.proxy.is_some() {
            tunnel(&mut socket, uri.host().unwrap_or_default(), port).await?;
        }
        #[cfg(feature = "tls")]
        {
            socket = super::tls::wrap(&self.tls, host, socket).await?;
        }
        Ok(Stream::new(socket, false))
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<Box<dyn Socket>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((host, port)).await?;
    // Requests are small and wait for nobody.
    socket.set_nodelay(true)?;
    Ok(Box::new(socket))
}

/// Asks the proxy to pass bytes on to the service.
async fn tunnel(socket: &mut Box<dyn Socket>, host: &str, port: u16) -> io::Result<()> {
    let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head is TLS and not ours to read.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == PROXY_HEAD_BYTES_MAX {
            return Err(io::Error::other("the proxy's answer does not end"));
        }
        answer.push(socket.read_u8().await?);
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(format!("the proxy does not connect: {line}"))),
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
