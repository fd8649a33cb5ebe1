//! The one HTTP transport of this project: it serves the client, the commands, the doctor and the
//! tests. Not part of the public interface.
//!
//! [`Connector`] makes connections, directly or through a proxy, with TLS or without. The client
//! gives it to hyper's pool; [`Connection`] uses it for a single connection without one. Each step
//! that can fail has an error of its own, because people have to repair what is wrong.

mod connection;
mod connector;
#[cfg(feature = "tls")]
mod pinned;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod trust;

use std::error::Error;
use std::io;

pub use connection::Connection;
pub use connector::Connector;
pub use stream::Stream;
#[cfg(feature = "tls")]
pub use trust::{Trust, TrustError};

/// Why there is no answer, by the step that failed. Most name the host and port.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("the URL cannot be used: {0}")]
    Url(&'static str),
    #[error("there is no host named {0}")]
    NoSuchHost(String, #[source] Option<io::Error>),
    #[error("nothing listens at {0}")]
    Refused(String),
    #[error("{0} does not respond in time")]
    TimedOut(String),
    #[error("cannot reach {0}: {1}")]
    Unreachable(String, io::Error),
    #[error("the proxy {0} does not connect: {1}")]
    Proxy(String, String),
    #[error("the certificate of {0} {1}")]
    Certificate(String, String),
    #[error("no TLS connection to {0}: {1}")]
    Tls(String, String),
    #[error("{0} does not speak TLS, but the URL begins with https")]
    NotTls(String),
    #[error("{0} speaks TLS, but the URL begins with http")]
    IsTls(String),
    #[error("{0} requires a client certificate")]
    ClientCertificateNeeded(String),
    #[error("{0} does not speak HTTP: {1}")]
    NotHttp(String, hyper::Error),
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    #[error("{0}")]
    Roots(String),
}

impl HttpError {
    /// The step that failed, if connecting did: it is among the causes of this error.
    #[must_use]
    pub fn among<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        causes(error).find_map(|cause| cause.downcast_ref())
    }

    /// True if another attempt fails likewise until somebody changes a setting.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::Url(_)
                | Self::Certificate(..)
                | Self::NotTls(_)
                | Self::IsTls(_)
                | Self::ClientCertificateNeeded(_)
                | Self::Roots(_)
        )
    }
}

/// True if the server ended the connection because it wants a certificate. In TLS 1.3 it says so
/// after the client took the handshake for done.
#[must_use]
pub fn is_certificate_required(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "tls")]
    return causes(error).any(tls::says_certificate_required);
    #[cfg(not(feature = "tls"))]
    {
        let _no_tls = error;
        false
    }
}

/// An error and what caused it, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| error.source())
}
