//! Asks an issuer for its keys: the discovery document, then the key set that it names.
//!
//! Bounded in bytes and time. Redirects are not followed: an issuer's address is configured, and a
//! key set's address is said by the issuer itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, USER_AGENT};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tavola_protocol::auth::token::{
    DOCUMENT_BYTES_MAX, Discovery, DiscoveryError, KeySet, KeySetError,
};

use crate::config::tokens::may_be_asked;

/// For one document, from the look-up of the name to the last byte.
const DOCUMENT_TIME: Duration = Duration::from_secs(5);

/// What an issuer answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) keys: KeySet,
    /// For how long it calls them fresh.
    pub(super) fresh_for: Option<Duration>,
}

/// Why an issuer's keys are not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{address} does not answer: {problem}")]
    NoAnswer { address: String, problem: String },
    #[error("{address} did not answer within {} seconds", DOCUMENT_TIME.as_secs())]
    TooSlow { address: String },
    #[error("{address} answered {status}")]
    Status { address: String, status: StatusCode },
    #[error("{address} answered more than 1 MiB")]
    TooLong { address: String },
    #[error("the key set's address is not https")]
    NotHttps,
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Keys(#[from] KeySetError),
}

/// A client for one issuer.
#[derive(Debug)]
pub(super) struct Fetcher {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    https_only: bool,
}

impl Fetcher {
    /// A client that trusts the system's certificates, and those of `ca_file`.
    pub(super) fn new(issuer: &str, ca_file: Option<&Path>) -> Result<Self, String> {
        let https_only = issuer.starts_with("https:");
        let tls = tls(ca_file, https_only)?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = if https_only { connector.https_only() } else { connector.https_or_http() };
        let connector = connector.enable_http1().build();
        // Questions are rare; a connection kept for the next one would be closed by then.
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { client, https_only })
    }

    /// Asks `issuer`.
    pub(super) async fn ask(&self, issuer: &str) -> Result<Answer, FetchError> {
        let (_, document) = self.get(&Discovery::address(issuer)).await?;
        let discovery = Discovery::parse(&document, issuer)?;
        if !may_hold_keys(&discovery.jwks_uri, self.https_only) {
            return Err(FetchError::NotHttps);
        }
        let (headers, document) = self.get(&discovery.jwks_uri).await?;
        Ok(Answer { keys: KeySet::parse(&document)?, fresh_for: max_age(&headers) })
    }

    async fn get(&self, address: &str) -> Result<(HeaderMap, Bytes), FetchError> {
        let answer = tokio::time::timeout(DOCUMENT_TIME, self.get_slowly(address)).await;
        answer.unwrap_or_else(|_| Err(FetchError::TooSlow { address: address.to_owned() }))
    }

    async fn get_slowly(&self, address: &str) -> Result<(HeaderMap, Bytes), FetchError> {
        let no_answer = |error: &dyn std::error::Error| FetchError::NoAnswer {
            address: address.to_owned(),
            problem: with_causes(error),
        };
        let request = Request::get(address)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("tavola/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|error| no_answer(&error))?;
        let response = self.client.request(request).await.map_err(|error| no_answer(&error))?;
        let (parts, body) = response.into_parts();
        if parts.status != StatusCode::OK {
            return Err(FetchError::Status { address: address.to_owned(), status: parts.status });
        }
        match Limited::new(body, DOCUMENT_BYTES_MAX).collect().await {
            Ok(body) => Ok((parts.headers, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(FetchError::TooLong { address: address.to_owned() })
            }
            Err(error) => Err(no_answer(&*error)),
        }
    }
}

/// Whoever is asked over https must not send us elsewhere without.
fn may_hold_keys(address: &str, https_only: bool) -> bool {
    may_be_asked(address) && (!https_only || address.starts_with("https:"))
}

/// An error of the client says what it was doing; why it failed stands in its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.take(8).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn tls(ca_file: Option<&Path>, needed: bool) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // A certificate of the system that cannot be read is one less to trust, not a reason to stop.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca_file {
        add_file(&mut roots, file)
            .map_err(|problem| format!("ca_file {}: {problem}", file.display()))?;
    }
    if needed && roots.is_empty() {
        return Err(
            "the system has no trusted certificates; name the issuer's as ca_file".to_owned()
        );
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| format!("TLS cannot be used: {error}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let before = roots.len();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.len() == before { Err("no certificate in it".to_owned()) } else { Ok(()) }
}

fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut directives = values.flat_map(|value| value.split(',')).map(str::trim);
    let seconds = directives.find_map(|directive| directive.strip_prefix("max-age="))?;
    seconds.trim_matches('"').parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_keys_may_be() {
        for (address, over_https, over_http) in [
            ("https://keys.example/keys", true, true),
            ("http://127.0.0.1/keys", false, true),
            ("http://keys.example/keys", false, false),
            ("/keys", false, false),
            ("file:///keys", false, false),
        ] {
            assert_eq!(
                (may_hold_keys(address, true), may_hold_keys(address, false)),
                (over_https, over_http),
                "{address}"
            );
        }
    }

    #[test]
    fn how_long_keys_are_fresh() {
        let check = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, text.parse().unwrap());
            max_age(&headers).map(|duration| duration.as_secs())
        };
        assert_eq!(check("max-age=86400, private"), Some(86400));
        assert_eq!(check("public,max-age=\"60\""), Some(60));
        for none in ["", "no-store", "max-age", "max-age=", "max-age=-1", "max-age=x", "s-maxage=5"]
        {
            assert_eq!(check(none), None, "{none}");
        }
        assert_eq!(max_age(&HeaderMap::new()), None);
    }
}
