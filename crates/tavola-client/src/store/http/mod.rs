//! The service behind HTTP.

mod sign;
#[cfg(feature = "otel")]
mod trace;

use std::error::Error as StdError;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderName, HeaderValue, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tavola_protocol::connection_string::Endpoint;
use tavola_protocol::table::encode::{MergeVerb, Style};
use tavola_protocol::table::entity_json::MetadataLevel;
use tavola_protocol::table::{Prefer, ResponseFormat, encode_request_with, receive_reply};
use tokio::sync::Semaphore;

use super::{AttemptResult, Cause, Failure, Flavour, Reply, Request, StoreTraits, TableStore};
use crate::__http::{Connector, HttpError, causes, is_certificate_required};
#[cfg(feature = "tls")]
use crate::__http::{Trust, TrustError};
use crate::credential::Credential;
use crate::error::{Error, Rule};
use crate::options::{ClientOptions, ConnectionOptions};
use crate::runtime::{BoxFuture, Runtime, SystemRuntime, random_uuid};
use sign::Signer;

/// The longest answer that is read: far above a page.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A service behind HTTP, with its connections.
#[derive(Debug)]
pub(crate) struct HttpStore {
    endpoint: Endpoint,
    secondary: Option<Endpoint>,
    client: Client<Connector, Full<Bytes>>,
    signer: Signer,
    places: Semaphore,
    user_agent: HeaderValue,
    traits: StoreTraits,
    runtime: Arc<SystemRuntime>,
}

impl HttpStore {
    /// A service at `endpoint`. Nothing is sent.
    ///
    /// # Errors
    /// If the address, the credential or an option cannot be used.
    pub(crate) fn new(
        endpoint: Endpoint,
        secondary: Option<Endpoint>,
        credential: Option<Credential>,
        options: &ClientOptions,
    ) -> Result<Self, Error> {
        check_scheme(&endpoint, credential.as_ref(), options)?;
        let is_https =
            [Some(&endpoint), secondary.as_ref()].into_iter().flatten().any(Endpoint::is_https);
        let connector = connector(is_https, &options.connection)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.connection.idle_timeout)
            .pool_max_idle_per_host(options.connection.idle_max)
            .build(connector);
        let flavour = options.flavour.unwrap_or_else(|| Flavour::of_host(endpoint.host()));
        let signer = Signer::new(credential, &endpoint)?;
        let account =
            signer.account().or_else(|| endpoint.account().map(|name| name.as_str().to_owned()));
        Ok(Self {
            traits: StoreTraits::new(flavour, endpoint.as_str(), account),
            endpoint,
            secondary,
            client,
            signer,
            places: Semaphore::new(options.parallel_requests),
            user_agent: user_agent(options.user_agent.as_deref())?,
            runtime: Arc::new(SystemRuntime::new()),
        })
    }

    fn encode(&self, request: &Request) -> Result<http::Request<Bytes>, Failure> {
        let invalid = |reason: String| Failure::new(AttemptResult::NotSent, Cause::Invalid(reason));
        let format = ResponseFormat {
            level: MetadataLevel::Minimal,
            prefer: Some(Prefer::ReturnNoContent),
            select: request.select.clone(),
        };
        let ids = [0, 1].map(|_| random_uuid(&*self.runtime).to_string());
        let base = match (request.secondary, &self.secondary) {
            (true, Some(secondary)) => secondary,
            _ => &self.endpoint,
        };
        let style = Style {
            base: base.as_str(),
            format: &format,
            page: request.page.as_ref(),
            boundary_ids: [&ids[0], &ids[1]],
        };
        let merge = match self.traits.flavour {
            Flavour::Cosmos => MergeVerb::Tunnelled,
            Flavour::Azure | Flavour::Tavola => MergeVerb::Patch,
        };
        let mut encoded = encode_request_with(&request.operation, &style, merge)
            .map_err(|error| invalid(error.to_string()))?;
        let headers = encoded.headers_mut();
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        let id = HeaderValue::from_str(&request.client_request_id)
            .map_err(|_| invalid("the client request id cannot stand in a header".to_owned()))?;
        headers.insert(HeaderName::from_static("x-ms-client-request-id"), id);
        #[cfg(feature = "otel")]
        trace::add_context(headers);
        Ok(encoded)
    }

    async fn attempt(&self, request: Request) -> Result<Reply, Failure> {
        let closed = |_| Failure::not_sent("the client is closed");
        let _place = self.places.acquire().await.map_err(closed)?;
        let mut encoded = self.encode(&request)?;
        self.signer.sign(&mut encoded, &*self.runtime).await?;
        let (parts, body) = encoded.into_parts();
        let sent = self.client.request(http::Request::from_parts(parts, Full::new(body)));
        let response = sent.await.map_err(|error| self.no_answer(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failure::lost(reason(&*error)))?.to_bytes();
        receive_reply(&request.operation, &http::Response::from_parts(parts, body))
            .map(Reply)
            .map_err(|answer| Failure::answered(*answer))
    }

    fn no_answer(&self, error: &hyper_util::client::legacy::Error) -> Failure {
        if let Some(step) = HttpError::among(error) {
            return Failure::not_connected(reason(step), step.is_lasting());
        }
        if is_certificate_required(error) {
            let host = self.endpoint.host().to_owned();
            let step = HttpError::ClientCertificateNeeded(host);
            return Failure::not_connected(step.to_string(), step.is_lasting());
        }
        let reason = reason(error);
        if error.is_connect() { Failure::not_sent(reason) } else { Failure::lost(reason) }
    }
}

impl TableStore for HttpStore {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(self.attempt(request))
    }

    fn traits(&self) -> StoreTraits {
        self.traits.clone()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime) as _
    }
}

/// An error with what caused it; none of them shows a query string.
fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// What makes the connections of a client.
fn connector(is_https: bool, options: &ConnectionOptions) -> Result<Connector, Error> {
    let connector = Connector::new(options.connect_timeout).through(proxy(options)?);
    #[cfg(feature = "tls")]
    if is_https || !options.certificates.is_empty() {
        return Ok(connector.trusting(trust(options)?));
    }
    #[cfg(not(feature = "tls"))]
    if is_https {
        let text = "https needs the feature `tls` of tavola-client";
        return Err(Error::invalid(Rule::Address, text));
    }
    Ok(connector)
}

fn proxy(options: &ConnectionOptions) -> Result<Option<Authority>, Error> {
    let invalid = |text: String| Error::invalid(Rule::Address, text);
    let not_one =
        |reason: &dyn Display| invalid(format!("the proxy's address is not one: {reason}"));
    let Some(url) = &options.proxy else { return Ok(None) };
    let proxy = Endpoint::parse(url).map_err(|reason| not_one(&reason))?;
    if proxy.is_https() {
        return Err(invalid("a proxy is reached over http; TLS goes through it".to_owned()));
    }
    let authority = Authority::try_from(format!("{}:{}", proxy.host(), proxy.port()));
    authority.map(Some).map_err(|reason| not_one(&reason))
}

#[cfg(feature = "tls")]
fn trust(options: &ConnectionOptions) -> Result<Arc<rustls::ClientConfig>, Error> {
    let trust = Trust::none().mozilla();
    #[cfg(feature = "native-roots")]
    let trust = trust.native();
    let trust = options.certificates.iter().try_fold(trust, |trust, pem| trust.pem(pem));
    let trust = trust.map_err(|error| match error {
        TrustError::Empty => Error::invalid(Rule::Address, error.to_string()),
        TrustError::Pem(_) => {
            Error::invalid(Rule::Address, "a certificate cannot be read").with_source(error)
        }
    })?;
    let failed = |error| Error::invalid(Rule::Address, "TLS cannot be used").with_source(error);
    trust.config().map_err(failed)
}

fn user_agent(application: Option<&str>) -> Result<HeaderValue, Error> {
    let library = concat!("tavola-client/", env!("CARGO_PKG_VERSION"));
    let text = application.map_or(library.to_owned(), |name| format!("{name} {library}"));
    HeaderValue::try_from(text)
        .map_err(|_| Error::invalid(Rule::Request, "the user agent cannot stand in a header"))
}

fn check_scheme(
    endpoint: &Endpoint,
    credential: Option<&Credential>,
    options: &ClientOptions,
) -> Result<(), Error> {
    if endpoint.is_https() {
        return Ok(());
    }
    if matches!(credential, Some(Credential::Token(_))) {
        let text =
            "a token is never sent over http, because anybody who sees it can use it; use https";
        return Err(Error::invalid(Rule::Address, text));
    }
    if !is_loopback(endpoint.host()) && !options.allow_http {
        let text = format!(
            "{endpoint} is not on this machine, and http is readable on the way; use https, or \
             ClientOptions::allow_http"
        );
        return Err(Error::invalid(Rule::Address, text));
    }
    Ok(())
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_name =
        host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    is_name || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// What stands in `Authorization` of requests at these times, for tests of credentials.
#[cfg(all(test, feature = "entra"))]
pub(crate) async fn signed_by(
    credential: Credential,
    times: &[std::time::SystemTime],
) -> Vec<Result<String, Failure>> {
    let endpoint = Endpoint::parse("https://shop.table.core.windows.net").expect("it is one");
    let signer = Signer::new(Some(credential), &endpoint).expect("the credential is one");
    let mut sent = Vec::new();
    for now in times {
        let mut request = http::Request::new(Bytes::new());
        *request.uri_mut() = http::Uri::from_static("https://shop.table.core.windows.net/people");
        let signed = signer.sign(&mut request, &At(*now)).await;
        let header = request.headers().get(header::AUTHORIZATION);
        let text = header.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        sent.push(signed.map(|()| text));
    }
    sent
}

/// A clock that stands still.
#[cfg(all(test, feature = "entra"))]
#[derive(Debug)]
struct At(std::time::SystemTime);

#[cfg(all(test, feature = "entra"))]
impl Runtime for At {
    fn now(&self) -> std::time::Duration {
        self.0.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }

    fn time_of_day(&self) -> std::time::SystemTime {
        self.0
    }

    fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn random(&self) -> u64 {
        4
    }
}
