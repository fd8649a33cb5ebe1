//! The HTTP client of the commands: HTTP/1.1 over TCP or TLS, with a time for everything. Each step
//! fails in words of its own, because the commands that use it explain failures to people.
//!
//! Deliberately absent: proxies, redirects, retries, connections kept for later.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::{Arg, value_parser};
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::pinned::PinnedVerifier;

/// Until a connection is established.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// From the first byte sent to the last byte of the response, unless the caller sets a shorter one.
const EXCHANGE_TIME: Duration = Duration::from_secs(30);
/// No page of the service is larger.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// `--ca-file`, for every command that asks servers.
pub(crate) fn ca_file_flag() -> Arg {
    Arg::new("ca-file")
        .long("ca-file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Certificates (PEM) to trust for https, in addition to the system's")
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("the URL cannot be used: {0}")]
    Url(&'static str),
    #[error("there is no host named {0}")]
    NoSuchHost(String),
    #[error("nothing listens at {0}")]
    Refused(String),
    #[error("{0} does not respond in time")]
    TimedOut(String),
    #[error("cannot reach {0}: {1}")]
    Unreachable(String, io::Error),
    #[error("the certificate of {0} {1}")]
    Certificate(String, String),
    #[error("no TLS connection to {0}: {1}")]
    Tls(String, rustls::Error),
    #[error("{0} does not speak TLS, but the URL begins with https")]
    NotTls(String),
    #[error("{0} speaks TLS, but the URL begins with http")]
    IsTls(String),
    #[error("{0} does not speak HTTP: {1}")]
    NotHttp(String, hyper::Error),
    #[error("{0} requires a client certificate")]
    ClientCertificateNeeded(String),
    #[error("the response is larger than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    #[error("{0}")]
    Roots(String),
}

/// A client that trusts what this machine trusts, and optionally one file more.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    ca_file: Option<PathBuf>,
    /// A certificate that is trusted for itself.
    pinned: Option<CertificateDer<'static>>,
    exchange_time: Duration,
}

/// A connection, secured or not.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl HttpClient {
    /// `ca_file`: PEM certificates of issuers to trust beside those of the system.
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, pinned: None, exchange_time: EXCHANGE_TIME }
    }

    /// The same, but answers must come within `exchange_time`.
    pub(crate) fn within(self, exchange_time: Duration) -> Self {
        Self { exchange_time, ..self }
    }

    /// The same, but a server with exactly this certificate is trusted too.
    pub(crate) fn pinning(self, pinned: Option<CertificateDer<'static>>) -> Self {
        Self { pinned, ..self }
    }

    /// Sends a request with an absolute URL and reads the whole answer.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let authority =
            request.uri().authority().cloned().ok_or(HttpError::Url("it has no host"))?;
        let is_https = request.uri().scheme_str() == Some("https");
        let stream = connect(&authority, is_https).await?;
        let stream: Box<dyn Stream> = if is_https {
            Box::new(secure(stream, &authority, self.trust()?).await?)
        } else {
            Box::new(stream)
        };
        let request = in_origin_form(request, &authority)?;
        let answer = timeout(self.exchange_time, exchange(stream, request, &authority)).await;
        match answer.unwrap_or_else(|_elapsed| Err(HttpError::TimedOut(authority.to_string()))) {
            // Alerts of TLS are not HTTP, and most servers do not say more.
            Err(HttpError::NotHttp(..)) if !is_https && speaks_tls(&authority).await => {
                Err(HttpError::IsTls(authority.to_string()))
            }
            answer => answer,
        }
    }

    /// The trusted issuers.
    pub(crate) fn trust(&self) -> Result<Arc<ClientConfig>, HttpError> {
        let mut roots = RootCertStore::empty();
        let of_system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(of_system.certs);
        if let Some(file) = &self.ca_file {
            add_roots(&mut roots, file).map_err(HttpError::Roots)?;
        }
        if let Some(pinned) = &self.pinned {
            return pinning_config(pinned.clone(), roots);
        }
        if roots.is_empty() {
            let words = "this machine trusts no issuer of certificates; install ca-certificates \
             or give --ca-file";
            return Err(HttpError::Roots(words.to_owned()));
        }
        client_config(roots)
    }
}

fn client_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, HttpError> {
    Ok(Arc::new(config_builder()?.with_root_certificates(roots).with_no_client_auth()))
}

fn pinning_config(
    pinned: CertificateDer<'static>,
    mut roots: RootCertStore,
) -> Result<Arc<ClientConfig>, HttpError> {
    // The default verifier needs at least one trust anchor; without any, the certificate is its own
    // issuer.
    if roots.is_empty() {
        roots.add_parsable_certificates([pinned.clone()]);
    }
    let verifier = PinnedVerifier::new(pinned, roots).map_err(HttpError::Roots)?;
    let config = config_builder()?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(config.with_no_client_auth()))
}

fn config_builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, HttpError> {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| HttpError::Roots(error.to_string()))
}

async fn secure(
    stream: TcpStream,
    authority: &Authority,
    config: Arc<ClientConfig>,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, HttpError> {
    let name = ServerName::try_from(bare_host(authority).to_owned())
        .map_err(|_| HttpError::Url("its host cannot be in a certificate"))?;
    let at = authority.to_string();
    match timeout(CONNECT_TIME, TlsConnector::from(config).connect(name, stream)).await {
        Err(_elapsed) => Err(HttpError::TimedOut(at)),
        Ok(result) => result.map_err(|error| tls_error(at, error)),
    }
}

/// True if a handshake starts. No issuer is trusted here, so it never completes.
async fn speaks_tls(authority: &Authority) -> bool {
    let Ok(config) = client_config(RootCertStore::empty()) else { return false };
    let Ok(stream) = connect(authority, false).await else { return false };
    matches!(
        secure(stream, authority, config).await,
        Ok(_) | Err(HttpError::Certificate(..) | HttpError::Tls(..))
    )
}

fn add_roots(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    let certificates =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates
        .map_err(|error| format!("cannot read certificates of {}: {error}", file.display()))?;
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        Err(format!("{} contains no certificate in PEM form", file.display()))
    } else {
        Ok(())
    }
}

async fn connect(authority: &Authority, is_https: bool) -> Result<TcpStream, HttpError> {
    let (host, port) =
        (bare_host(authority), authority.port_u16().unwrap_or(if is_https { 443 } else { 80 }));
    let addresses = tokio::net::lookup_host((host, port))
        .await
        .map(Iterator::collect::<Vec<_>>)
        .unwrap_or_default();
    let mut last = HttpError::NoSuchHost(host.to_owned());
    for address in addresses {
        match connect_to(address, authority).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to(address: SocketAddr, authority: &Authority) -> Result<TcpStream, HttpError> {
    let at = authority.to_string();
    match timeout(CONNECT_TIME, TcpStream::connect(address)).await {
        Err(_elapsed) => Err(HttpError::TimedOut(at)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(HttpError::Refused(at))
        }
        Ok(Err(error)) => Err(HttpError::Unreachable(at, error)),
        Ok(Ok(stream)) => {
            // Requests are small, and each waits for its answer.
            let _best_effort = stream.set_nodelay(true);
            Ok(stream)
        }
    }
}

/// Without the brackets of an IPv6 address.
pub(crate) fn bare_host(authority: &Authority) -> &str {
    authority.host().trim_start_matches('[').trim_end_matches(']')
}

/// What goes on the wire to a server that is no proxy: the path, and the host in a header.
fn in_origin_form(
    mut request: Request<Bytes>,
    authority: &Authority,
) -> Result<Request<Full<Bytes>>, HttpError> {
    let target =
        request.uri().path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
    *request.uri_mut() = target;
    let host = HeaderValue::from_str(authority.as_str())
        .map_err(|_| HttpError::Url("its host is not one"))?;
    request.headers_mut().insert(HOST, host);
    Ok(request.map(Full::new))
}

async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Full<Bytes>>,
    authority: &Authority,
) -> Result<Response<Bytes>, HttpError> {
    let not_http = |error| match is_certificate_required(&error) {
        true => HttpError::ClientCertificateNeeded(authority.to_string()),
        false => HttpError::NotHttp(authority.to_string(), error),
    };
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(not_http)?;
    let connection = tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await.map_err(not_http)?.into_parts();
    let body =
        Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| match error
            .downcast::<LengthLimitError>(
        ) {
            Ok(_) => HttpError::TooLarge,
            Err(other) => HttpError::Unreachable(authority.to_string(), io::Error::other(other)),
        })?;
    connection.abort();
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// In TLS 1.3 a server says so after the client took the handshake for done.
fn is_certificate_required(error: &(dyn Error + 'static)) -> bool {
    const REQUIRED: rustls::Error =
        rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) == Some(&REQUIRED) {
            return true;
        }
        next = error.source();
    }
    false
}

fn tls_error(at: String, error: io::Error) -> HttpError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(_)) => HttpError::NotTls(at),
        Some(rustls::Error::InvalidCertificate(problem)) => {
            HttpError::Certificate(at, certificate_problem(problem))
        }
        Some(other) => HttpError::Tls(at, other.clone()),
        // A server that knows no TLS may as well hang up.
        None if error.kind() == io::ErrorKind::UnexpectedEof => HttpError::NotTls(at),
        None => HttpError::Unreachable(at, error),
    }
}

fn certificate_problem(problem: &CertificateError) -> String {
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is for other host names".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "comes from an issuer that this machine does not trust".to_owned()
        }
        other => format!("is not valid: {other}"),
    }
}
