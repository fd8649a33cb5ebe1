//! Whom to trust.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::stream::Socket;
use crate::error::{Error, Rule};

pub(super) fn connector(certificates: &[Vec<u8>]) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    #[cfg(feature = "native-roots")]
    {
        // Some of a machine's certificates are unreadable more often than not.
        let _counts =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    for pem in certificates {
        add(&mut roots, pem)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid(Rule::Address, "TLS cannot be used").with_source(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn add(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), Error> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(unreadable)?;
        roots.add(certificate).map_err(unreadable)?;
        count += 1;
    }
    if count == 0 {
        return Err(Error::invalid(Rule::Address, "there is no certificate in the PEM text"));
    }
    Ok(())
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid(Rule::Address, "a certificate cannot be read").with_source(error)
}

pub(super) async fn wrap(
    connector: &TlsConnector,
    host: &str,
    socket: Box<dyn Socket>,
) -> std::io::Result<Box<dyn Socket>> {
    let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
    Ok(Box::new(connector.connect(name, socket).await?))
}
