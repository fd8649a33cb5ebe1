//! The keys of this node, from a folder: which authorities it trusts, its certificate and its
//! private key. The files may be replaced while it runs; a set that does not fit together yet is
//! not used.

use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::identity::Identity;

/// The authorities that a node trusts.
pub const TRUST_FILE: &str = "ca.pem";
/// The node's certificate.
pub const CERTIFICATE_FILE: &str = "node.pem";
/// The node's private key.
pub const KEY_FILE: &str = "node-key.pem";

/// Only nodes of this protocol talk to each other.
const ALPN: &[u8] = b"tavola-peers";
/// Files of a few certificates are smaller.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A certificate that ends so soon is worth a warning.
const EXPIRES_SOON_SECONDS: i64 = 30 * 24 * 3600;

/// Why the keys in a folder cannot be used. No message shows a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// A file is missing or closed to us.
    #[error("cannot read {}: {reason}; `tavola store peer-keys init` makes these files", file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
    /// A file holds something else.
    #[error("{} {problem}", file.display())]
    Content {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The certificate is another node's.
    #[error(
        "the certificate in {} is for the node at {certified}, but this node is at {own}: take the folder that \
         `tavola store peer-keys issue {own}` makes", folder.display()
    )]
    AnotherNode {
        /// Where.
        folder: PathBuf,
        /// The node that the certificate names.
        certified: SocketAddr,
        /// Which we are.
        own: SocketAddr,
    },
    /// The certificate does not count now.
    #[error(
        "the certificate in {} {problem}: make a new one with `tavola store peer-keys issue {own}`", folder.display()
    )]
    Untimely {
        /// Where.
        folder: PathBuf,
        /// Since when, or until when.
        problem: &'static str,
        /// Which we are.
        own: SocketAddr,
    },
    /// The files do not fit together, or TLS cannot use them.
    #[error("the keys in {} cannot be used: {reason}", folder.display())]
    Unusable {
        /// Where.
        folder: PathBuf,
        /// The library's words.
        reason: rustls::Error,
    },
}

/// The keys of one node, as they are in its folder.
#[derive(Clone)]
pub struct PeerKeys(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    own: SocketAddr,
    loaded: ArcSwap<Loaded>,
    /// What the last look found wrong, so that it is said once.
    problem: Mutex<Option<String>>,
    /// Connections of an earlier generation end.
    generation: watch::Sender<u64>,
}

/// Never a key.
impl fmt::Debug for PeerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerKeys")
            .field("folder", &self.0.folder)
            .field("own", &self.0.own)
            .finish_non_exhaustive()
    }
}

/// One consistent set of files.
struct Loaded {
    files: Files,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    expires: i64,
}

#[derive(PartialEq, Eq)]
struct Files {
    trust: Vec<u8>,
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl PeerKeys {
    /// Reads the keys of the node at `own`.
    ///
    /// # Errors
    /// If a file is missing, damaged, expired, or for another node.
    pub fn open(folder: &Path, own: SocketAddr) -> Result<Self, KeysError> {
        let files = Files::read(folder)?;
        let loaded = files.load(folder, own)?;
        warn_if_open_to_others(&folder.join(KEY_FILE));
        warn_if_expiring(folder, own, &loaded);
        let (generation, _) = watch::channel(0);
        Ok(Self(Arc::new(Inner {
            folder: folder.to_owned(),
            own,
            loaded: ArcSwap::from_pointee(loaded),
            problem: Mutex::default(),
            generation,
        })))
    }

    /// That they are those of the node at this address.
    pub(crate) fn check_owner(&self, own: SocketAddr) -> Result<(), KeysError> {
        if self.0.own == own {
            return Ok(());
        }
        Err(KeysError::AnotherNode { folder: self.0.folder.clone(), certified: self.0.own, own })
    }

    /// Seconds until the node's certificate ends; negative after it.
    #[must_use]
    pub fn seconds_left(&self) -> i64 {
        self.0.loaded.load().expires - now()
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0.loaded.load().client)
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.loaded.load().server)
    }

    /// Counts the times that other keys came into use.
    pub(crate) fn generation(&self) -> watch::Receiver<u64> {
        self.0.generation.subscribe()
    }

    /// Takes the files anew if they changed; true if other keys are in use now. Files that cannot
    /// be used, half of a copy for example, leave the old keys in use.
    pub(crate) fn reload(&self) -> bool {
        let inner = &self.0;
        let read = Files::read(&inner.folder);
        if read.as_ref().is_ok_and(|files| *files == inner.loaded.load().files) {
            return false;
        }
        let mut problem = inner.problem.lock().unwrap_or_else(PoisonError::into_inner);
        match read.and_then(|files| files.load(&inner.folder, inner.own)) {
            Ok(loaded) => {
                tracing::info!(folder = %inner.folder.display(), "the keys for peers were read again");
                warn_if_expiring(&inner.folder, inner.own, &loaded);
                inner.loaded.store(Arc::new(loaded));
                inner.generation.send_modify(|generation| *generation += 1);
                *problem = None;
                true
            }
            Err(error) => {
                let text = error.to_string();
                if problem.as_ref() != Some(&text) {
                    tracing::warn!(
                        error = text,
                        "the changed keys for peers are not used; the old ones are"
                    );
                    *problem = Some(text);
                }
                false
            }
        }
    }
}

impl Files {
    fn read(folder: &Path) -> Result<Self, KeysError> {
        let read = |name: &str| read_file(folder.join(name));
        Ok(Self {
            trust: read(TRUST_FILE)?,
            certificate: read(CERTIFICATE_FILE)?,
            key: Zeroizing::new(read(KEY_FILE)?),
        })
    }

    fn load(self, folder: &Path, own: SocketAddr) -> Result<Loaded, KeysError> {
        let chain = certificates(&self.certificate, folder.join(CERTIFICATE_FILE))?;
        let expires = check_identity(&chain, folder, own)?;
        let trust = Arc::new(self.trust(folder)?);
        let key = || {
            PrivateKeyDer::from_pem_slice(&self.key)
                .map_err(|_| content(folder.join(KEY_FILE), "holds no private key in PEM form"))
        };
        let unusable = |reason| KeysError::Unusable { folder: folder.to_owned(), reason };
        let client = client_config(Arc::clone(&trust), chain.clone(), key()?).map_err(unusable)?;
        let server = server_config(trust, chain, key()?).map_err(unusable)?;
        Ok(Loaded { files: self, client: Arc::new(client), server: Arc::new(server), expires })
    }

    fn trust(&self, folder: &Path) -> Result<RootCertStore, KeysError> {
        let file = folder.join(TRUST_FILE);
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.trust, file.clone())? {
            roots
                .add(certificate)
                .map_err(|error| content(file.clone(), &format!("cannot be trusted: {error}")))?;
        }
        Ok(roots)
    }
}

fn read_file(file: PathBuf) -> Result<Vec<u8>, KeysError> {
    let too_large = |metadata: std::fs::Metadata| {
        let is_large = metadata.len() > FILE_BYTES_MAX || !metadata.is_file();
        if is_large {
            Err(std::io::Error::new(ErrorKind::InvalidData, "it is no file of certificates"))
        } else {
            Ok(())
        }
    };
    let read = std::fs::metadata(&file).and_then(too_large).and_then(|()| std::fs::read(&file));
    read.map_err(|reason| KeysError::Unreadable { file, reason })
}

fn certificates(pem: &[u8], file: PathBuf) -> Result<Vec<CertificateDer<'static>>, KeysError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(content(file, "holds no certificate in PEM form")),
    }
}

/// That the first certificate is this node's, and until when.
fn check_identity(
    chain: &[CertificateDer<'_>],
    folder: &Path,
    own: SocketAddr,
) -> Result<i64, KeysError> {
    let identity = chain.first().and_then(|leaf| Identity::of(leaf)).ok_or_else(|| {
        content(
            folder.join(CERTIFICATE_FILE),
            "names no node: only certificates of `tavola store peer-keys` do",
        )
    })?;
    if identity.address != own {
        return Err(KeysError::AnotherNode {
            folder: folder.to_owned(),
            certified: identity.address,
            own,
        });
    }
    let untimely = |problem| Err(KeysError::Untimely { folder: folder.to_owned(), problem, own });
    match now() {
        now if now > identity.expires => untimely("has expired"),
        now if now < identity.begins => untimely("is not valid yet (is the clock right?)"),
        _ => Ok(identity.expires),
    }
}

/// TLS 1.3 alone: every older version can do less.
fn client_config(
    trust: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, rustls::Error> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let mut config = builder.with_root_certificates(trust).with_client_auth_cert(chain, key)?;
    // A session that is resumed would not show its certificate again, and keys may have changed
    // meanwhile.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn server_config(
    trust: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(trust, provider()).build();
    let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
    let builder =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let mut config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn content(file: PathBuf, problem: &str) -> KeysError {
    KeysError::Content { file, problem: problem.to_owned() }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn warn_if_expiring(folder: &Path, own: SocketAddr, loaded: &Loaded) {
    let left = loaded.expires - now();
    if left < EXPIRES_SOON_SECONDS {
        let (folder, days) = (folder.display(), left / (24 * 3600));
        tracing::warn!(%folder, days, "the certificate for peers ends soon: run `tavola store peer-keys issue {own}`");
    }
}

#[cfg(unix)]
fn warn_if_open_to_others(key: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(key).map(|metadata| metadata.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o077 != 0) {
        tracing::warn!(file = %key.display(), "others can read this private key: run chmod 600 on it");
    }
}

#[cfg(not(unix))]
fn warn_if_open_to_others(_: &Path) {}
