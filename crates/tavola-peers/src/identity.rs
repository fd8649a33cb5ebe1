//! What a certificate says: the address of the node that it is for, and until when. The address is
//! a URI, because a certificate's own kind of address has no port, and several nodes may share a
//! machine.

use std::net::SocketAddr;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

const SCHEME: &str = "tavola-peer://";

/// How a certificate names the node at this address.
pub(crate) fn uri_of(address: SocketAddr) -> String {
    format!("{SCHEME}{address}")
}

/// The node that a certificate is for, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) address: SocketAddr,
    /// Seconds since 1970.
    pub(crate) begins: i64,
    pub(crate) expires: i64,
}

impl Identity {
    /// `None` if it does not name exactly one node.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let names = &parsed.subject_alternative_name().ok()??.value.general_names;
        let mut uris = names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => uri.strip_prefix(SCHEME),
            _ => None,
        });
        let (Some(address), None) = (uris.next(), uris.next()) else { return None };
        let validity = parsed.validity();
        Some(Self {
            address: address.parse().ok()?,
            begins: validity.not_before.timestamp(),
            expires: validity.not_after.timestamp(),
        })
    }
}

/// The node that the first certificate of a PEM text is for.
pub(crate) fn certified_node(pem: &str) -> Option<SocketAddr> {
    Identity::of(&first(pem)?).map(|identity| identity.address)
}

/// The name of the authority whose certificate is the first of a PEM text.
pub(crate) fn authority_name(pem: &str) -> Option<String> {
    let der = first(pem)?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    let mut names = parsed.subject().iter_common_name();
    names.next()?.as_str().ok().map(str::to_owned)
}

/// Whether the first certificate of a PEM text has this public key.
pub(crate) fn is_key_of(pem: &str, subject_public_key_info: &[u8]) -> bool {
    let Some(der) = first(pem) else { return false };
    X509Certificate::from_der(&der)
        .is_ok_and(|(_, parsed)| parsed.public_key().raw == subject_public_key_info)
}

fn first(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}
