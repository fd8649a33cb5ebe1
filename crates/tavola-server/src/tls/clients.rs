//! Certificates of clients: which ones hold, and which one a connection showed.

use std::fmt;
use std::io;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConnection};

use super::TlsError;
use super::files::{Contents, pem_problem};
use crate::config::{ClientCertificates, TlsConfig};

/// The certificate that a client showed and that holds, by its SHA-256: enough to find it, and
/// small enough to go along with every request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientCertificate([u8; 32]);

impl ClientCertificate {
    /// What the other end of a connection showed, if it showed any.
    #[must_use]
    pub fn of(session: &ServerConnection) -> Option<Self> {
        let shown = session.peer_certificates()?.first()?;
        digest(&SHA256, shown).as_ref().try_into().ok().map(Self)
    }
}

/// Lower-case hexadecimal digits.
impl fmt::Display for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientCertificate({self})")
    }
}

/// Why a handshake failed, if the client's certificate was the reason.
pub(crate) fn refused_certificate(error: &io::Error) -> Option<&rustls::Error> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    matches!(error, rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_))
        .then_some(error)
}

/// Decides about the certificates of clients as the configuration says.
pub(super) fn verifier(
    source: &TlsConfig,
    contents: &Contents,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    match (&source.clients, contents.client_authorities()) {
        (Some(clients), Some(pem)) => trusting(clients, pem),
        _ => Ok(WebPkiClientVerifier::no_client_auth()),
    }
}

fn trusting(
    clients: &ClientCertificates,
    pem: &[u8],
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let problem =
        |reason: String| TlsError::ClientAuthorities { file: clients.authorities.clone(), reason };
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| problem(pem_problem(&error)))?;
        authorities.add(certificate).map_err(|error| problem(error.to_string()))?;
    }
    if authorities.is_empty() {
        return Err(problem("it has no PEM block named CERTIFICATE".to_owned()));
    }
    let revoked = CertificateRevocationListDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let revoked = revoked.map_err(|error| problem(pem_problem(&error)))?;
    let builder = WebPkiClientVerifier::builder_with_provider(
        Arc::new(authorities),
        Arc::new(default_provider()),
    )
    .with_crls(revoked)
    // Authorities between a root and a client seldom have a list of their own. The root is replaced
    // in the file.
    .only_check_end_entity_revocation();
    let builder = if clients.required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| problem(error.to_string()))
}
