//! Connections between nodes: TLS 1.3 with a certificate of each end, or plain TCP within one
//! machine.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::identity::Identity;
use crate::keys::PeerKeys;
use crate::proof::ChannelBinding;

/// The first byte of every TLS connection; HTTP/2 begins with a letter.
const TLS_HANDSHAKE: u8 = 0x16;
const BINDING_LABEL: &[u8] = b"EXPORTER-tavola-peers";

/// How this node connects and is connected to.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    keys: Option<PeerKeys>,
    accept_plain: bool,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("it cannot be reached: {0}")]
    Unreachable(#[from] io::Error),
    #[error("its address {0:?} is no IP:PORT")]
    NoAddress(String),
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    #[error("its certificate is for the node at {0}")]
    AnotherNode(SocketAddr),
    #[error("its certificate names no node")]
    NoIdentity,
    #[error("it speaks without TLS, which is refused here")]
    PlainRefused,
    #[error("it speaks TLS, and this node has no keys (store.peer_keys)")]
    NoKeys,
    #[error("it is beyond this machine, and this node has no keys (store.peer_keys)")]
    BeyondLoopback,
}

/// Bytes in both directions.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection, and what is known of its other end.
pub(crate) struct Channel {
    pub(crate) stream: Box<dyn Io>,
    pub(crate) binding: ChannelBinding,
    /// What its certificate says; `None` without TLS.
    pub(crate) certified: Option<SocketAddr>,
}

impl Transport {
    pub(crate) fn new(keys: Option<PeerKeys>, accept_plain: bool) -> Self {
        Self { keys, accept_plain }
    }

    /// Takes changed keys; true if connections must be made anew.
    pub(crate) async fn reload(&self) -> bool {
        let Some(keys) = self.keys.clone() else { return false };
        tokio::task::spawn_blocking(move || keys.reload()).await.unwrap_or(false)
    }

    pub(crate) fn keys(&self) -> Option<&PeerKeys> {
        self.keys.as_ref()
    }

    /// Connects to the node that is listed at an address, and to no other.
    pub(crate) async fn connect(&self, address: &str) -> Result<Channel, TransportError> {
        let socket: SocketAddr =
            address.parse().map_err(|_| TransportError::NoAddress(address.to_owned()))?;
        let Some(keys) = &self.keys else { return self.connect_plain(socket).await };
        match connect_tls(keys, socket).await {
            Err(TransportError::Tls(error)) if self.accept_plain && speaks_no_tls(&error) => {
                self.connect_plain(socket).await
            }
            other => other,
        }
    }

    async fn connect_plain(&self, address: SocketAddr) -> Result<Channel, TransportError> {
        if !self.accept_plain && !address.ip().is_loopback() {
            return Err(TransportError::BeyondLoopback);
        }
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "writes are forwarded to a peer WITHOUT protection (store.accept_risks: plain-peers)");
        }
        Ok(plain(connect_tcp(address).await?))
    }

    /// Makes a channel of a connection that came in.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Result<Channel, TransportError> {
        let _slower = stream.set_nodelay(true);
        let mut first = [0];
        stream.peek(&mut first).await?;
        match (first[0] == TLS_HANDSHAKE, &self.keys) {
            (true, Some(keys)) => accept_tls(keys, stream).await,
            (true, None) => Err(TransportError::NoKeys),
            (false, Some(_)) if !self.accept_plain => Err(TransportError::PlainRefused),
            (false, _) => Ok(plain(stream)),
        }
    }
}

async fn connect_tcp(address: SocketAddr) -> Result<TcpStream, TransportError> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn plain(stream: TcpStream) -> Channel {
    Channel { stream: Box::new(stream), binding: [0; 32], certified: None }
}

/// The certificate must be signed by a trusted authority, and for exactly this node: another node's
/// will not do.
async fn connect_tls(keys: &PeerKeys, address: SocketAddr) -> Result<Channel, TransportError> {
    tls_over(connect_tcp(address).await?, keys, address).await
}

/// TLS on a connection to whatever process listens there.
pub(crate) async fn tls_over(
    stream: impl Io + 'static,
    keys: &PeerKeys,
    address: SocketAddr,
) -> Result<Channel, TransportError> {
    let connector = TlsConnector::from(keys.client());
    let stream = connector.connect(ServerName::IpAddress(address.ip().into()), stream).await;
    let stream = stream.map_err(TransportError::Tls)?;
    let session = stream.get_ref().1;
    let certified = identity(session.peer_certificates())?;
    if certified != address {
        return Err(TransportError::AnotherNode(certified));
    }
    let binding =
        session.export_keying_material([0; 32], BINDING_LABEL, None).map_err(no_binding)?;
    Ok(Channel { stream: Box::new(stream), binding, certified: Some(certified) })
}

async fn accept_tls(keys: &PeerKeys, stream: TcpStream) -> Result<Channel, TransportError> {
    let stream =
        TlsAcceptor::from(keys.server()).accept(stream).await.map_err(TransportError::Tls)?;
    let session = stream.get_ref().1;
    let certified = identity(session.peer_certificates())?;
    let binding =
        session.export_keying_material([0; 32], BINDING_LABEL, None).map_err(no_binding)?;
    Ok(Channel { stream: Box::new(stream), binding, certified: Some(certified) })
}

fn identity(chain: Option<&[CertificateDer<'_>]>) -> Result<SocketAddr, TransportError> {
    let leaf = chain.and_then(<[_]>::first).ok_or(TransportError::NoIdentity)?;
    Identity::of(leaf).map(|identity| identity.address).ok_or(TransportError::NoIdentity)
}

fn no_binding(error: rustls::Error) -> TransportError {
    TransportError::Tls(io::Error::other(error))
}

/// True if the other end answered with something else than TLS, or closed the connection. A
/// certificate that does not hold is no such case: then another process is there.
fn speaks_no_tls(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|source| source.downcast_ref::<rustls::Error>());
    tls.is_none_or(|error| matches!(error, rustls::Error::InvalidMessage(_)))
}
