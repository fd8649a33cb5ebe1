//! Makes connections: directly or through a proxy, with TLS or without.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Authority;
use http::{Method, Request, Uri, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::HttpError;
use super::stream::{Socket, Stream};

/// The longest head of a proxy's answer.
const PROXY_HEAD_BYTES_MAX: usize = 16 << 10;

/// Makes connections; hyper's pool can use it.
#[derive(Clone)]
pub struct Connector {
    proxy: Option<Authority>,
    timeout: Duration,
    #[cfg(feature = "tls")]
    trust: Option<Arc<rustls::ClientConfig>>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("proxy", &self.proxy).finish_non_exhaustive()
    }
}

impl Connector {
    /// A connection must be made, with TLS if it has any, within `timeout`.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self {
            proxy: None,
            timeout,
            #[cfg(feature = "tls")]
            trust: None,
        }
    }

    /// The same through a proxy, which is reached over plain HTTP.
    #[must_use]
    pub fn through(self, proxy: Option<Authority>) -> Self {
        Self { proxy, ..self }
    }

    /// The same for https too.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn trusting(self, trust: Arc<rustls::ClientConfig>) -> Self {
        Self { trust: Some(trust), ..self }
    }

    /// A connection to the host of an absolute URL.
    ///
    /// # Errors
    /// The step that failed.
    pub async fn connect(&self, uri: &Uri) -> Result<Stream, HttpError> {
        let authority = uri.authority().ok_or(HttpError::Url("it has no host"))?;
        let deadline = Instant::now() + self.timeout;
        match tokio::time::timeout_at(deadline, self.connect_by(deadline, uri, authority)).await {
            Ok(result) => result,
            Err(_elapsed) => Err(HttpError::TimedOut(authority.to_string())),
        }
    }

    async fn connect_by(
        &self,
        deadline: Instant,
        uri: &Uri,
        authority: &Authority,
    ) -> Result<Stream, HttpError> {
        let is_https = uri.scheme_str() == Some("https");
        let route = self.proxy.as_ref().unwrap_or(authority);
        let socket = tcp(route, default_port(is_https && self.proxy.is_none()), deadline).await?;
        if !is_https {
            return Ok(Stream::new(Box::new(socket), self.proxy.is_some()));
        }
        let socket: Box<dyn Socket> = match &self.proxy {
            None => Box::new(socket),
            Some(proxy) => {
                let port = authority.port_u16().unwrap_or(default_port(true));
                Box::new(tunnel(socket, proxy, &format!("{}:{port}", authority.host())).await?)
            }
        };
        self.secure(authority, socket).await
    }

    #[cfg(feature = "tls")]
    async fn secure(
        &self,
        authority: &Authority,
        socket: Box<dyn Socket>,
    ) -> Result<Stream, HttpError> {
        let trust = self.trust.clone().ok_or(HttpError::Url("https without anybody to trust"))?;
        let socket = super::tls::secure(trust, authority, socket).await?;
        Ok(Stream::new(Box::new(socket), false))
    }

    #[cfg(not(feature = "tls"))]
    async fn secure(&self, _: &Authority, _: Box<dyn Socket>) -> Result<Stream, HttpError> {
        Err(HttpError::Url("https needs the feature `tls` of tavola-client"))
    }
}

fn default_port(is_https: bool) -> u16 {
    if is_https { 443 } else { 80 }
}

/// The host without the brackets of an IPv6 address.
pub(super) fn bare_host(authority: &Authority) -> &str {
    authority.host().trim_start_matches('[').trim_end_matches(']')
}

async fn tcp(
    authority: &Authority,
    default_port: u16,
    deadline: Instant,
) -> Result<TcpStream, HttpError> {
    let host = bare_host(authority);
    let port = authority.port_u16().unwrap_or(default_port);
    match tokio::net::lookup_host((host, port)).await {
        Ok(addresses) => first_of(addresses.collect(), authority, deadline).await,
        Err(error) => Err(HttpError::NoSuchHost(host.to_owned(), Some(error))),
    }
}

/// Tries the addresses of a host in turn. Each gets an equal share of the time that is left, so
/// that one that swallows packets does not use up the time of the next.
async fn first_of(
    addresses: Vec<SocketAddr>,
    authority: &Authority,
    deadline: Instant,
) -> Result<TcpStream, HttpError> {
    let mut last = HttpError::NoSuchHost(bare_host(authority).to_owned(), None);
    let mut left = addresses.len() as u32;
    for address in addresses {
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        match connect_to(address, share, authority).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
        left -= 1;
    }
    Err(last)
}

async fn connect_to(
    address: SocketAddr,
    time: Duration,
    authority: &Authority,
) -> Result<TcpStream, HttpError> {
    let at = authority.to_string();
    match timeout(time, TcpStream::connect(address)).await {
        Err(_elapsed) => Err(HttpError::TimedOut(at)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(HttpError::Refused(at))
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => Err(HttpError::TimedOut(at)),
        Ok(Err(error)) => Err(HttpError::Unreachable(at, error)),
        Ok(Ok(stream)) => {
            // Requests are small, and each waits for its answer.
            let _best_effort = stream.set_nodelay(true);
            Ok(stream)
        }
    }
}

/// Asks the proxy to pass bytes on to `target`.
async fn tunnel(
    socket: TcpStream,
    proxy: &Authority,
    target: &str,
) -> Result<impl Socket + use<>, HttpError> {
    let failed = |reason: String| HttpError::Proxy(proxy.to_string(), reason);
    let request = Request::builder().method(Method::CONNECT).uri(target);
    let request = request.header(header::HOST, target).body(Empty::<Bytes>::new());
    let request = request.map_err(|_| HttpError::Url("its host is not one"))?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(PROXY_HEAD_BYTES_MAX)
        .handshake(TokioIo::new(socket))
        .await
        .map_err(|error| failed(error.to_string()))?;
    // It ends with the tunnel, or with the sender if there is none.
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
    if !response.status().is_success() {
        return Err(failed(response.status().to_string()));
    }
    let tunnel = hyper::upgrade::on(response).await.map_err(|error| failed(error.to_string()))?;
    Ok(TokioIo::new(tunnel))
}

impl tower_service::Service<Uri> for Connector {
    type Response = Stream;
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, HttpError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), HttpError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(&uri).await })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::uri::Authority;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::{Instant, timeout};

    use super::{HttpError, first_of};

    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_next() {
        // Its queue holds one connection, and nobody takes it out.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent = silent.listen(0).unwrap();
        let silent_at = silent.local_addr().unwrap();
        let mut queued = Vec::new();
        let moment = Duration::from_millis(100);
        while let Ok(stream) = timeout(moment, TcpStream::connect(silent_at)).await {
            queued.push(stream);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listening_at = listener.local_addr().unwrap();
        let authority = Authority::from_static("tables.example");

        let deadline = Instant::now() + Duration::from_secs(1);
        let stream = first_of(vec![silent_at, listening_at], &authority, deadline).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listening_at);
        drop(listener);
        let deadline = Instant::now() + moment;
        let error =
            first_of(vec![listening_at, silent_at], &authority, deadline).await.unwrap_err();
        assert!(matches!(error, HttpError::TimedOut(at) if at == "tables.example"));
    }
}
