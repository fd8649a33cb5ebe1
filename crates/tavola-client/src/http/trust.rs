//! Whom to trust.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};

use super::HttpError;
use super::pinned::PinnedVerifier;

/// The issuers whose certificates are accepted, and certificates that are accepted for themselves.
#[derive(Debug, Clone)]
pub struct Trust {
    roots: RootCertStore,
    pinned: Option<CertificateDer<'static>>,
}

/// Why a PEM text adds nobody.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("{0}")]
    Pem(#[from] pem::Error),
    #[error("there is no certificate in the PEM text")]
    Empty,
}

impl Trust {
    /// Trusts nobody.
    #[must_use]
    pub fn none() -> Self {
        Self { roots: RootCertStore::empty(), pinned: None }
    }

    /// Trusts the issuers of Mozilla's list too.
    #[must_use]
    pub fn mozilla(mut self) -> Self {
        self.roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        self
    }

    /// Trusts the issuers that this machine trusts too.
    #[cfg(feature = "native-roots")]
    #[must_use]
    pub fn native(mut self) -> Self {
        // Some of a machine's certificates are unreadable more often than not.
        let native = rustls_native_certs::load_native_certs().certs;
        let _counts = self.roots.add_parsable_certificates(native);
        self
    }

    /// Trusts the issuers of a PEM text too. Certificates that cannot be used are left out, as long
    /// as one remains: bundles of systems have some.
    ///
    /// # Errors
    /// If the text is not PEM, or no certificate in it can be used.
    pub fn pem(mut self, text: &[u8]) -> Result<Self, TrustError> {
        let certificates =
            CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, pem::Error>>()?;
        match self.roots.add_parsable_certificates(certificates) {
            (0, _) => Err(TrustError::Empty),
            _ => Ok(self),
        }
    }

    /// Trusts a server with exactly this certificate too.
    #[must_use]
    pub fn pinning(self, pinned: Option<CertificateDer<'static>>) -> Self {
        Self { pinned, ..self }
    }

    /// True if no certificate whatsoever would be accepted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.pinned.is_none()
    }

    /// What TLS needs.
    ///
    /// # Errors
    /// If the cryptography cannot do it.
    pub fn config(mut self) -> Result<Arc<ClientConfig>, HttpError> {
        let failed = |error: &dyn std::error::Error| HttpError::Roots(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| failed(&error))?;
        let Some(pinned) = self.pinned else {
            return Ok(Arc::new(builder.with_root_certificates(self.roots).with_no_client_auth()));
        };
        // The default verifier needs at least one trust anchor; without any, the certificate is its
        // own issuer.
        if self.roots.is_empty() {
            self.roots.add_parsable_certificates([pinned.clone()]);
        }
        let verifier = PinnedVerifier::new(pinned, self.roots).map_err(|error| failed(&error))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(Arc::new(builder.with_no_client_auth()))
    }
}
