//! The TLS handshake, and what is wrong when it fails.

use std::error::Error;
use std::io;
use std::sync::Arc;

use http::uri::Authority;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connector::bare_host;
use super::stream::Socket;
use super::{HttpError, is_certificate_required};

pub(super) async fn secure<S: Socket>(
    trust: Arc<ClientConfig>,
    authority: &Authority,
    socket: S,
) -> Result<TlsStream<S>, HttpError> {
    let name = ServerName::try_from(bare_host(authority).to_owned())
        .map_err(|_| HttpError::Url("its host cannot be in a certificate"))?;
    let secured = TlsConnector::from(trust).connect(name, socket).await;
    secured.map_err(|error| failed_step(authority.to_string(), error))
}

fn failed_step(at: String, error: io::Error) -> HttpError {
    if is_certificate_required(&error) {
        return HttpError::ClientCertificateNeeded(at);
    }
    match rustls_error(&error) {
        Some(rustls::Error::InvalidMessage(_)) => HttpError::NotTls(at),
        Some(rustls::Error::InvalidCertificate(problem)) => {
            HttpError::Certificate(at, certificate_problem(problem))
        }
        Some(other) => HttpError::Tls(at, other.to_string()),
        // A server that knows no TLS may as well hang up.
        None if error.kind() == io::ErrorKind::UnexpectedEof => HttpError::NotTls(at),
        None => HttpError::Unreachable(at, error),
    }
}

/// True if this very error, without its causes, says so.
pub(super) fn says_certificate_required(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>().and_then(rustls_error);
    matches!(error, Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)))
}

fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
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
