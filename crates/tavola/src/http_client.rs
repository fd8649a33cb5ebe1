//! The HTTP client of the commands: one request on a connection of its own, with a time for
//! everything. It uses the transport of `tavola-client`, whose errors name the step that
//! failed, because the commands explain failures to people.
//!
//! Deliberately absent: proxies, redirects, retries, connections kept for later.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::{Arg, value_parser};
use http::uri::Authority;
use http::{Request, Response, Uri};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
pub(crate) use tavola_client::__http::HttpError;
use tavola_client::__http::{Connection, Connector, Trust, TrustError};
use tokio::time::timeout;

/// Until a connection is established, with TLS.
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

/// A client that trusts what this machine trusts, and optionally one file more.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    ca_file: Option<PathBuf>,
    /// A certificate that is trusted for itself.
    pinned: Option<CertificateDer<'static>>,
    exchange_time: Duration,
}

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
        let url = request.uri().clone();
        let is_https = url.scheme_str() == Some("https");
        let mut connector = Connector::new(CONNECT_TIME);
        if is_https {
            connector = connector.trusting(self.trust()?);
        }
        let mut connection = Connection::open(&connector, &url).await?;
        let at = || url.authority().map(Authority::to_string).unwrap_or_default();
        let exchange = connection.exchange(request, ANSWER_BYTES_MAX);
        match timeout(self.exchange_time, exchange).await {
            Err(_elapsed) => Err(HttpError::TimedOut(at())),
            // Alerts of TLS are not HTTP, and most servers do not say more.
            Ok(Err(HttpError::NotHttp(..))) if !is_https && speaks_tls(&at()).await => {
                Err(HttpError::IsTls(at()))
            }
            Ok(answer) => answer,
        }
    }

    /// The trusted issuers.
    pub(crate) fn trust(&self) -> Result<Arc<ClientConfig>, HttpError> {
        let mut trust = Trust::none().native();
        if let Some(file) = &self.ca_file {
            trust = with_file(trust, file).map_err(HttpError::Roots)?;
        }
        let trust = trust.pinning(self.pinned.clone());
        if trust.is_empty() {
            let words = "this machine trusts no issuer of certificates; install ca-certificates \
             or give --ca-file";
            return Err(HttpError::Roots(words.to_owned()));
        }
        trust.config()
    }
}

fn with_file(trust: Trust, file: &Path) -> Result<Trust, String> {
    let name = file.display();
    let unreadable =
        |error: &dyn std::error::Error| format!("cannot read certificates of {name}: {error}");
    let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
    trust.pem(&text).map_err(|error| match error {
        TrustError::Empty => format!("{name} contains no certificate in PEM form"),
        TrustError::Pem(_) => unreadable(&error),
    })
}

/// True if a handshake starts. No issuer is trusted here, so it never completes.
async fn speaks_tls(http_authority: &str) -> bool {
    let Ok(authority) = http_authority.parse::<Authority>() else { return false };
    let port = authority.port_u16().unwrap_or(80);
    let Ok(url) = format!("https://{}:{port}/", authority.host()).parse::<Uri>() else {
        return false;
    };
    let Ok(nobody) = Trust::none().config() else { return false };
    let connected = Connector::new(CONNECT_TIME).trusting(nobody).connect(&url).await;
    matches!(
        connected,
        Ok(_)
            | Err(HttpError::Certificate(..)
                | HttpError::Tls(..)
                | HttpError::ClientCertificateNeeded(_))
    )
}
