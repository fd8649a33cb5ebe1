//! The private certificate authority of a cluster's nodes: it signs one certificate for each node,
//! which names the address at which its peers reach it. No files here; the caller keeps the texts.

use std::net::SocketAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::identity;

/// Clocks of nodes differ.
const BEGINS_EARLIER: Duration = Duration::HOUR;

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The texts are not those of an authority.
    #[error("these are not the certificate and key of an authority: {0}")]
    Unreadable(String),
    /// The certificate library refused.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate authority that can sign.
pub struct Authority {
    name: String,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Never its key.
impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a node needs to prove which node it is.
#[derive(Debug)]
pub struct NodeCertificate {
    /// PEM.
    pub certificate: String,
    /// PEM; secret.
    pub key: Zeroizing<String>,
}

impl Authority {
    /// A new one, with a name that no other has.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn create(days: u32) -> Result<Self, AuthorityError> {
        let name = format!("Tavola peers {}", Uuid::new_v4().simple());
        let key = KeyPair::generate()?;
        let params = authority_params(&name, 1, days)?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { name, certificate, issuer: Issuer::new(params, key) })
    }

    /// One that was made before, from its PEM texts.
    ///
    /// # Errors
    /// If they are not those of an authority, or not of the same one.
    pub fn read(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let unreadable = |problem: &str| AuthorityError::Unreadable(problem.to_owned());
        let name = identity::authority_name(certificate)
            .ok_or_else(|| unreadable("no certificate with a name"))?;
        let key = KeyPair::from_pem(key).map_err(|_| unreadable("no private key"))?;
        if !identity::is_key_of(certificate, &key.subject_public_key_info()) {
            return Err(unreadable("the key belongs to another certificate"));
        }
        // What it signs needs its name and its key; its own certificate is not made again.
        let params = authority_params(&name, 1, 1)?;
        Ok(Self { name, certificate: certificate.to_owned(), issuer: Issuer::new(params, key) })
    }

    /// Its certificate, as PEM: what nodes trust.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its key, as PEM. It is secret: with it a process can pose as any node.
    #[must_use]
    pub fn key(&self) -> Zeroizing<String> {
        Zeroizing::new(self.issuer.key().serialize_pem())
    }

    /// A certificate and a new key for the node at this address.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn issue(&self, address: SocketAddr, days: u32) -> Result<NodeCertificate, AuthorityError> {
        let mut params =
            named(CertificateParams::new([])?, &format!("Tavola node {address}"), days);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![
            SanType::IpAddress(address.ip()),
            SanType::URI(identity::uri_of(address).as_str().try_into()?),
        ];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(NodeCertificate { certificate, key: Zeroizing::new(key.serialize_pem()) })
    }

    /// A certificate by which nodes that trust only this authority trust its successor too: both
    /// sign while the nodes are switched over one by one.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn cross_sign(&self, successor: &Self, days: u32) -> Result<String, AuthorityError> {
        let mut params = authority_params(&successor.name, 0, days)?;
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(successor.issuer.key(), &self.issuer)?.pem())
    }
}

/// The node that the first certificate of a PEM text is for; `None` if it is for none.
#[must_use]
pub fn certified_node(certificate: &str) -> Option<SocketAddr> {
    identity::certified_node(certificate)
}

fn authority_params(
    name: &str,
    authorities_below: u8,
    days: u32,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = named(CertificateParams::new([])?, name, days);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(authorities_below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn named(mut params: CertificateParams, name: &str, days: u32) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = now - BEGINS_EARLIER;
    params.not_after = now + Duration::days(i64::from(days));
    params
}
