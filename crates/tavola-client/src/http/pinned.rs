//! Trusting a server by its certificate itself: a command that has the server's configuration need
//! not know the issuer.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Accepts one certificate as it is, and verifies every other one by the default rules.
#[derive(Debug)]
pub(super) struct PinnedVerifier {
    certificate: CertificateDer<'static>,
    usual: Arc<WebPkiServerVerifier>,
}

impl PinnedVerifier {
    pub(super) fn new(
        certificate: CertificateDer<'static>,
        roots: RootCertStore,
    ) -> Result<Self, VerifierBuilderError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { certificate, usual: usual? })
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // A server that proves to have its key is the one of this configuration, whatever its
        // address.
        if *end_entity == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
