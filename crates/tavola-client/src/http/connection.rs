//! One HTTP/1.1 connection without a pool: nothing is retried, redirected or kept for others.

use std::io;

use bytes::Bytes;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use tokio::task::JoinHandle;

use super::connector::Connector;
use super::{HttpError, is_certificate_required};

/// One connection to the host of a URL. It is closed when it is dropped.
#[derive(Debug)]
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    io: JoinHandle<()>,
    authority: Authority,
}

impl Connection {
    /// A connection to the host of an absolute URL.
    ///
    /// # Errors
    /// The step that failed.
    pub async fn open(connector: &Connector, uri: &Uri) -> Result<Self, HttpError> {
        let authority = uri.authority().cloned().ok_or(HttpError::Url("it has no host"))?;
        let stream = connector.connect(uri).await?;
        let handshake = http1::handshake(stream).await;
        let (sender, connection) = handshake.map_err(|error| not_http(&authority, error))?;
        // The sender is told what goes wrong.
        let io = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, io, authority })
    }

    /// Sends a request and reads the head of its answer. The URL is the connection's, or a path.
    ///
    /// # Errors
    /// If no answer comes, or something else than one.
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<Response<Incoming>, HttpError> {
        let request = in_origin_form(request, &self.authority)?;
        let failed = |error| not_http(&self.authority, error);
        self.sender.ready().await.map_err(failed)?;
        self.sender.send_request(request).await.map_err(failed)
    }

    /// Sends a request and reads its whole answer, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// If no whole answer comes.
    pub async fn exchange(
        &mut self,
        request: Request<Bytes>,
        bytes_max: usize,
    ) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = self.send(request).await?.into_parts();
        match Limited::new(body, bytes_max).collect().await {
            Ok(body) => Ok(Response::from_parts(parts, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(HttpError::TooLarge(bytes_max)),
            Err(error) => {
                Err(HttpError::Unreachable(self.authority.to_string(), io::Error::other(error)))
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.io.abort();
    }
}

/// What goes on the wire to a server that is no proxy: the path, and the host in a header.
fn in_origin_form(
    mut request: Request<Bytes>,
    authority: &Authority,
) -> Result<Request<Full<Bytes>>, HttpError> {
    let target = request.uri().path_and_query().cloned();
    *request.uri_mut() = target.map_or_else(|| Uri::from_static("/"), Uri::from);
    let host = HeaderValue::from_str(authority.as_str())
        .map_err(|_| HttpError::Url("its host is not one"))?;
    request.headers_mut().entry(HOST).or_insert(host);
    Ok(request.map(Full::new))
}

fn not_http(authority: &Authority, error: hyper::Error) -> HttpError {
    if is_certificate_required(&error) {
        HttpError::ClientCertificateNeeded(authority.to_string())
    } else {
        HttpError::NotHttp(authority.to_string(), error)
    }
}
