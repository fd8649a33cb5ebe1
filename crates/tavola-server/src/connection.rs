//! What is known of a connection before its first request.

use std::net::SocketAddr;

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

/// Who is at the other end, and how they got here. A proxy in front of us may know better: see [`crate::proxy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The other end of the socket.
    pub peer: SocketAddr,
    /// What the socket speaks.
    pub scheme: Scheme,
}
