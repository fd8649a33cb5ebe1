//! What is known of a connection before its first request.

use std::net::SocketAddr;
use std::sync::Arc;

use tavola_fair::Member;

use crate::tls::ClientCertificate;

/// The scheme of a URL that reaches us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As URLs spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Who is at the other end, and how they got here. A proxy in front of us may know better: see
/// [`crate::proxy`].
#[derive(Debug, Clone)]
pub struct Connection {
    /// The other end of the socket.
    pub peer: SocketAddr,
    /// What the socket speaks.
    pub scheme: Scheme,
    /// The certificate that the client showed, if it was asked for one and has one.
    pub client_certificate: Option<ClientCertificate>,
    /// Where bodies are counted, if it carries many requests at a time.
    pub(crate) bodies: Option<Arc<Member>>,
}

impl Connection {
    /// A connection with one request at a time.
    #[must_use]
    pub fn new(peer: SocketAddr, scheme: Scheme) -> Self {
        Self { peer, scheme, client_certificate: None, bodies: None }
    }
}
