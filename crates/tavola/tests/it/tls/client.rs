//! A client over TLS that says which versions it speaks, and certificates for servers.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use tavola_core::request::Select;
use tavola_core::{AccountName, TableRequest};
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tavola_protocol::table::decode::{Decoded, decode_reply};
use tavola_protocol::table::encode::{Style, encode_request};
use tavola_protocol::table::entity_json::MetadataLevel;
use tavola_protocol::table::{Prefer, ResponseFormat};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::common::{ACCOUNT, KEY, tavola};

pub(crate) const BOTH_TLS: &[&SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];
const BOUNDARIES: [&str; 2] =
    ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"];

/// What `tavola cert --authority` made.
pub(crate) struct Files {
    pub(crate) folder: PathBuf,
    pub(crate) fingerprint: String,
}

impl Files {
    /// Makes them, or makes them anew.
    pub(crate) fn make(folder: &Path) -> Self {
        let output = tavola()
            .args(["cert", "--authority", "--force", "--out"])
            .arg(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let fingerprint = text
            .lines()
            .find_map(|line| line.strip_prefix("SHA-256 fingerprint: "))
            .unwrap()
            .to_owned();
        Self { folder: folder.to_owned(), fingerprint }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path("cert.pem")).unwrap()
    }

    /// A client that trusts this authority and nothing else.
    pub(crate) fn trust(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&str],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// The usual client: HTTP/2.
    pub(crate) fn trust_h2(&self) -> Arc<ClientConfig> {
        self.trust(BOTH_TLS, &["h2", "http/1.1"])
    }
}

pub(crate) type Body = BoxBody<Bytes, Infallible>;

#[derive(Clone)]
enum Requests {
    Http1(Arc<tokio::sync::Mutex<http1::SendRequest<Body>>>),
    Http2(http2::SendRequest<Body>),
}

/// One connection; a clone is another user of the same one.
#[derive(Clone)]
pub(crate) struct SecureClient {
    requests: Requests,
    base: String,
    pub(crate) version: ProtocolVersion,
    pub(crate) certificate: CertificateDer<'static>,
}

impl SecureClient {
    /// Connects, and verifies who is there.
    pub(crate) async fn connect(
        authority: &str,
        config: &Arc<ClientConfig>,
    ) -> std::io::Result<Self> {
        let tcp = TcpStream::connect(authority).await?;
        let name = ServerName::try_from(authority.split(':').next().unwrap().to_owned()).unwrap();
        let stream = TlsConnector::from(Arc::clone(config)).connect(name, tcp).await?;
        let session = stream.get_ref().1;
        let version = session.protocol_version().unwrap();
        let certificate = session.peer_certificates().unwrap()[0].clone().into_owned();
        let is_h2 = session.alpn_protocol() == Some(b"h2");
        let base = format!("https://{authority}/{ACCOUNT}");
        let requests = if is_h2 {
            let (requests, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            Requests::Http2(requests)
        } else {
            let (requests, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            Requests::Http1(Arc::new(tokio::sync::Mutex::new(requests)))
        };
        Ok(Self { requests, base, version, certificate })
    }

    pub(crate) fn is_h2(&self) -> bool {
        matches!(self.requests, Requests::Http2(_))
    }

    /// True once the server has taken its leave.
    pub(crate) async fn is_closed(&self) -> bool {
        match &self.requests {
            Requests::Http1(requests) => requests.lock().await.is_closed(),
            Requests::Http2(requests) => requests.is_closed(),
        }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> hyper::Result<Response<Bytes>> {
        let response = match &self.requests {
            Requests::Http1(requests) => {
                let mut requests = requests.lock().await;
                requests.ready().await?;
                requests.send_request(with_host(request)).await?
            }
            Requests::Http2(requests) => requests.clone().send_request(request).await?,
        };
        let (parts, body) = response.into_parts();
        Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
    }

    pub(crate) fn signed(&self, request: &TableRequest, level: MetadataLevel) -> Request<Bytes> {
        signed(&self.base, request, level)
    }

    pub(crate) async fn try_ask(&self, request: &TableRequest) -> hyper::Result<Decoded> {
        let http = self.signed(request, MetadataLevel::Minimal);
        let response = self.send(http.map(whole)).await?;
        Ok(decode_reply(request, &response).unwrap())
    }

    pub(crate) async fn ask(&self, request: &TableRequest) -> Decoded {
        self.try_ask(request).await.unwrap()
    }

    /// A request whose body waits for the test.
    pub(crate) fn begin(&self, request: &TableRequest) -> SlowRequest {
        let (parts, content) = self.signed(request, MetadataLevel::Minimal).into_parts();
        let (body, channel) = Channel::<Bytes, Infallible>::new(1);
        let (client, request) = (self.clone(), Request::from_parts(parts, channel.boxed()));
        let answer = tokio::spawn(async move { client.send(request).await });
        SlowRequest { body, content, answer }
    }
}

pub(crate) struct SlowRequest {
    body: Sender<Bytes, Infallible>,
    content: Bytes,
    answer: tokio::task::JoinHandle<hyper::Result<Response<Bytes>>>,
}

impl SlowRequest {
    /// Sends what is missing.
    pub(crate) async fn finish(self) -> Response<Bytes> {
        let Self { mut body, content, answer } = self;
        body.send_data(content).await.unwrap();
        drop(body);
        answer.await.unwrap().unwrap()
    }
}

/// A request as the SDKs sign it.
pub(crate) fn signed(base: &str, request: &TableRequest, level: MetadataLevel) -> Request<Bytes> {
    let prefer = matches!(request, TableRequest::Write(..)).then_some(Prefer::ReturnNoContent);
    let format = ResponseFormat { level, prefer, select: Select::All };
    let style = Style { base, format: &format, page: None, boundary_ids: BOUNDARIES };
    let mut http = encode_request(request, &style).unwrap();
    let (account, key) = (AccountName::parse(ACCOUNT).unwrap(), AccountKey::parse(KEY).unwrap());
    sign_request(&mut http, Scheme::SharedKey, &account, &key, SystemTime::now());
    http
}

pub(crate) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).boxed()
}

/// HTTP/1.1 has the host in a header, and only the path in its first line.
fn with_host(mut request: Request<Body>) -> Request<Body> {
    let uri = request.uri().clone();
    if let Some(authority) = uri.authority() {
        request
            .headers_mut()
            .insert(header::HOST, HeaderValue::from_str(authority.as_str()).unwrap());
        *request.uri_mut() = Uri::from(uri.into_parts().path_and_query.unwrap());
    }
    request
}

/// Asks until it is so.
pub(crate) async fn eventually<T>(what: &str, mut is_so: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Some(found) = is_so().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within 30 s: {what}");
}
