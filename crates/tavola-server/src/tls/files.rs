//! Certificates and keys from files: a PEM pair, one PEM file with both, or a PFX file.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use p12_keystore::error::Error as PfxError;
use p12_keystore::{CertificateBag, Pkcs12Archive};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Version};
use zeroize::Zeroizing;

use super::TlsError;
use crate::config::TlsConfig;

/// A chain of ten certificates is below this many bytes, and so is a key.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Certificates of one chain.
const CHAIN_MAX: usize = 16;
/// What DER begins with. PEM is text and never does.
const DER_SEQUENCE: u8 = 0x30;

/// What the files hold, whether or not it fits together.
pub struct Material {
    /// The server's certificate, then whoever issued it, as far as the files say.
    pub chain: Vec<CertificateDer<'static>>,
    /// `None`: the certificate's file has none, and no other was named.
    pub key: Option<Zeroizing<PrivateKeyDer<'static>>>,
}

impl Material {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read, or does not hold what it should.
    pub fn read(config: &TlsConfig) -> Result<Self, TlsError> {
        Contents::read(config)?.material(config)
    }

    /// Whether the key is that of the first certificate; `Ok(None)` without a key.
    ///
    /// # Errors
    /// If the key cannot be used at all.
    pub fn keys_match(&self) -> Result<Option<bool>, rustls::Error> {
        self.key.as_ref().zip(self.chain.first()).map(|(key, leaf)| belongs(leaf, key)).transpose()
    }
}

/// Only how much there is.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

fn belongs(
    leaf: &CertificateDer<'static>,
    key: &PrivateKeyDer<'static>,
) -> Result<bool, rustls::Error> {
    is_consistent(&CertifiedKey::new(vec![leaf.clone()], any_supported_type(key)?))
}

/// Whether the key is the first certificate's. The TLS library reads certificates of version 3
/// only, so the keys of an older one are compared here.
fn is_consistent(certified: &CertifiedKey) -> Result<bool, rustls::Error> {
    match certified.keys_match() {
        Ok(()) => Ok(true),
        Err(rustls::Error::InconsistentKeys(_)) => Ok(false),
        Err(error) => {
            let leaf = certified.cert.first().and_then(|der| X509Certificate::from_der(der).ok());
            let leaf =
                leaf.map(|(_, parsed)| parsed).filter(|parsed| parsed.version() != X509Version::V3);
            match (leaf, certified.key.public_key()) {
                (Some(leaf), Some(key)) => Ok(leaf.public_key().raw == &*key),
                _ => Err(error),
            }
        }
    }
}

/// The bytes of what was configured, cleared when they go.
pub(super) struct Contents {
    cert: Zeroizing<Vec<u8>>,
    /// `None`: the key is where the certificate is.
    key: Option<Zeroizing<Vec<u8>>>,
    /// `None`: clients are not asked for a certificate.
    client_authorities: Option<Zeroizing<Vec<u8>>>,
}

impl Contents {
    pub(super) fn read(config: &TlsConfig) -> Result<Self, TlsError> {
        let key = config.key.as_deref().map(read).transpose()?;
        let client_authorities =
            config.clients.as_ref().map(|clients| read(&clients.authorities)).transpose()?;
        Ok(Self { cert: read(&config.cert)?, key, client_authorities })
    }

    /// For telling whether anything changed.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let parts = [Some(&self.cert), self.key.as_ref(), self.client_authorities.as_ref()];
        parts.into_iter().flatten().map(|bytes| bytes.as_slice())
    }

    /// The PEM text with the authorities of clients; `None`: clients are not asked for a
    /// certificate.
    pub(super) fn client_authorities(&self) -> Option<&[u8]> {
        self.client_authorities.as_ref().map(|bytes| bytes.as_slice())
    }

    /// The certificate, its chain and its key, checked to belong together.
    pub(super) fn certified_key(&self, config: &TlsConfig) -> Result<CertifiedKey, TlsError> {
        let Material { chain, key } = self.material(config)?;
        let key = key.ok_or_else(|| TlsError::Key {
            file: config.key_file().to_owned(),
            reason: match self.is_pfx(&config.cert) {
                true => "the PFX file has certificates only".to_owned(),
                false => "set tls.key to the file that does".to_owned(),
            },
        })?;
        certify(&config.cert, config.key_file(), chain, &key)
    }

    fn material(&self, config: &TlsConfig) -> Result<Material, TlsError> {
        match (&self.key, self.is_pfx(&config.cert)) {
            (None, true) => from_pfx(&config.cert, &self.cert, &config.password),
            (Some(_), true) => Err(TlsError::Certificate {
                file: config.cert.clone(),
                reason: "it is not PEM; a PFX file holds its own key, so leave tls.key out"
                    .to_owned(),
            }),
            (key, false) => from_pem(config, &self.cert, key.as_ref().map(|key| key.as_slice())),
        }
    }

    fn is_pfx(&self, file: &Path) -> bool {
        let extension =
            file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let named_so = ["pfx", "p12"].iter().any(|known| extension.eq_ignore_ascii_case(known));
        named_so || self.cert.first() == Some(&DER_SEQUENCE)
    }
}

fn read(file: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let unreadable = |reason| TlsError::Unreadable { file: file.to_owned(), reason };
    let opened = File::open(file).map_err(unreadable)?;
    // Room for all of it at once: a buffer that grows leaves copies behind.
    let expected = opened.metadata().map_err(unreadable)?.len().min(FILE_BYTES_MAX) + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected as usize));
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::TooLarge { file: file.to_owned(), max: FILE_BYTES_MAX });
    }
    Ok(bytes)
}

/// `key` is the content of the file that was named for it.
fn from_pem(config: &TlsConfig, cert: &[u8], key: Option<&[u8]>) -> Result<Material, TlsError> {
    let certificate_error = |reason| TlsError::Certificate { file: config.cert.clone(), reason };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(cert)
        .take(CHAIN_MAX)
        .collect::<Result<_, _>>()
        .map_err(|error| certificate_error(pem_problem(&error)))?;
    if chain.is_empty() {
        return Err(certificate_error("it has no PEM block named CERTIFICATE".to_owned()));
    }
    let text = key.unwrap_or(cert);
    match PrivateKeyDer::from_pem_slice(text).map(Zeroizing::new) {
        Ok(key) => Ok(Material { chain, key: Some(key) }),
        Err(PemError::NoItemsFound) if key.is_none() && !is_encrypted(text) => {
            Ok(Material { chain, key: None })
        }
        Err(error) => Err(key_error(config, text, &error)),
    }
}

fn is_encrypted(pem: &[u8]) -> bool {
    pem.windows(b"ENCRYPTED".len()).any(|word| word == b"ENCRYPTED")
}

pub(super) fn pem_problem(error: &PemError) -> String {
    match error {
        PemError::NoItemsFound => "it has no PEM block of that kind".to_owned(),
        PemError::MissingSectionEnd { .. } => "a PEM block has no end".to_owned(),
        PemError::Base64Decode(_) => "a PEM block is not base64".to_owned(),
        _ => "it is not PEM".to_owned(),
    }
}

fn key_error(config: &TlsConfig, key: &[u8], error: &PemError) -> TlsError {
    let reason = match error {
        PemError::NoItemsFound if is_encrypted(key) => {
            "it is encrypted; decrypt it with `openssl pkey`, or use a PFX file and tls.password"
                .to_owned()
        }
        other => pem_problem(other),
    };
    TlsError::Key { file: config.key_file().to_owned(), reason }
}

/// A PFX file may hold several certificates: the key says which is the server's, and the names of
/// issuers say the chain.
fn from_pfx(file: &Path, bytes: &[u8], password: &str) -> Result<Material, TlsError> {
    let archive =
        Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| pfx_problem(file, error))?;
    let Some(first) = archive.certs.first() else {
        let reason = "the PFX file has no certificate".to_owned();
        return Err(TlsError::Certificate { file: file.to_owned(), reason });
    };
    let key = archive.keys.first().map(|bag| PrivatePkcs8KeyDer::from(bag.key.as_der().to_vec()));
    let key = key.map(|key| Zeroizing::new(PrivateKeyDer::from(key)));
    let is_servers = |bag: &&CertificateBag| {
        let der = CertificateDer::from(bag.cert.as_der().to_vec());
        key.as_ref().is_some_and(|key| belongs(&der, key) == Ok(true))
    };
    let leaf = archive.certs.iter().find(is_servers).unwrap_or(first);
    Ok(Material { chain: chain_of(leaf, &archive.certs), key })
}

fn chain_of(leaf: &CertificateBag, all: &[CertificateBag]) -> Vec<CertificateDer<'static>> {
    let mut chain = vec![&leaf.cert];
    while chain.len() < CHAIN_MAX
        && let Some(last) = chain.last()
        && let Some(issuer) = all.iter().find(|bag| bag.cert.subject() == last.issuer())
        // Clients have the root already, or they do not trust it.
        && issuer.cert.subject() != issuer.cert.issuer()
        && !chain.contains(&&issuer.cert)
    {
        chain.push(&issuer.cert);
    }
    chain.into_iter().map(|cert| CertificateDer::from(cert.as_der().to_vec())).collect()
}

fn pfx_problem(file: &Path, error: PfxError) -> TlsError {
    let file = file.to_owned();
    match error {
        // A file without a checksum opens with any password, into padding that is wrong.
        PfxError::MacError(_) | PfxError::UnpadError | PfxError::Pkcs5Error(_) => {
            TlsError::Password { file }
        }
        other => TlsError::Pfx { file, reason: other.to_string() },
    }
}

fn certify(
    cert_file: &Path,
    key_file: &Path,
    chain: Vec<CertificateDer<'static>>,
    key: &PrivateKeyDer<'static>,
) -> Result<CertifiedKey, TlsError> {
    let signing_key = any_supported_type(key)
        .map_err(|error| TlsError::Key { file: key_file.to_owned(), reason: error.to_string() })?;
    let certified = CertifiedKey::new(chain, signing_key);
    match is_consistent(&certified) {
        Ok(true) => Ok(certified),
        Ok(false) => {
            Err(TlsError::Mismatch { cert: cert_file.to_owned(), key: key_file.to_owned() })
        }
        Err(error) => {
            Err(TlsError::Certificate { file: cert_file.to_owned(), reason: error.to_string() })
        }
    }
}
