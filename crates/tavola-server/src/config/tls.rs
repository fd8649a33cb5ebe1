//! Certificates: how clients' connections are secured.

use std::fmt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{ConfigError, Layers};

/// Where the certificate and its private key are.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// A PEM file with the certificate and its chain, or a PFX file with everything.
    pub cert: PathBuf,
    /// A PEM file with the private key. Without it the key stands beside the certificate, in the same file.
    pub key: Option<PathBuf>,
    /// Opens a PFX file.
    pub password: Zeroizing<String>,
}

/// Paths, never the password.
impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig").field("cert", &self.cert).field("key", &self.key).finish_non_exhaustive()
    }
}

impl TlsConfig {
    /// `None`: connections are in the clear.
    pub(super) fn resolve(layers: &Layers) -> Result<Option<Self>, ConfigError> {
        let file = |path| Some(layers.text(path)).filter(|text| !text.is_empty()).map(PathBuf::from);
        let (cert, key) = (file("tls.cert"), file("tls.key"));
        let password = Zeroizing::new(layers.text("tls.password").to_owned());
        match (cert, key) {
            (Some(cert), key) => Ok(Some(Self { cert, key, password })),
            (None, Some(_)) => Err(layers.error("tls.key", "a key without a certificate; set tls.cert too")),
            (None, None) if !password.is_empty() => {
                Err(layers.error("tls.password", "a password without a PFX file; set tls.cert too"))
            }
            (None, None) => Ok(None),
        }
    }

    /// The file that the private key is in.
    #[must_use]
    pub fn key_file(&self) -> &Path {
        self.key.as_deref().unwrap_or(&self.cert)
    }
}
