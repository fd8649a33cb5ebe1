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
    /// A PEM file with the private key. Without it the key stands beside the certificate, in the
    /// same file.
    pub key: Option<PathBuf>,
    /// Opens a PFX file.
    pub password: Zeroizing<String>,
    /// Whose certificates clients show; `None`: clients are not asked for one.
    pub clients: Option<ClientCertificates>,
}

/// Which certificates clients show when they connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// A PEM file with the certificates of the authorities that issue them, and their revocation
    /// lists if there are any.
    pub authorities: PathBuf,
    /// Clients without a certificate are refused. Otherwise only a certificate that does not hold
    /// is refused.
    pub required: bool,
}

/// Paths, never the password.
impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cert, key, clients, password: _ } = self;
        let mut shown = f.debug_struct("TlsConfig");
        shown
            .field("cert", cert)
            .field("key", key)
            .field("clients", clients)
            .finish_non_exhaustive()
    }
}

impl TlsConfig {
    /// `None`: connections are in the clear.
    pub(super) fn resolve(layers: &Layers) -> Result<Option<Self>, ConfigError> {
        let file =
            |path| Some(layers.text(path)).filter(|text| !text.is_empty()).map(PathBuf::from);
        let (cert, key) = (file("tls.cert"), file("tls.key"));
        let password = Zeroizing::new(layers.text("tls.password").to_owned());
        let clients = ClientCertificates::resolve(layers)?;
        match (cert, key) {
            (Some(cert), key) => Ok(Some(Self { cert, key, password, clients })),
            (None, Some(_)) => {
                Err(layers.error("tls.key", "a key without a certificate; set tls.cert too"))
            }
            (None, None) if !password.is_empty() => {
                Err(layers.error("tls.password", "a password without a PFX file; set tls.cert too"))
            }
            (None, None) if clients.is_some() => {
                let problem = "certificates of clients without one of the server; set tls.cert too";
                Err(layers.error("tls.client_ca", problem))
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

impl ClientCertificates {
    fn resolve(layers: &Layers) -> Result<Option<Self>, ConfigError> {
        let required = match layers.text("tls.client_auth") {
            "required" => true,
            "optional" => false,
            other => {
                return Err(layers.error(
                    "tls.client_auth",
                    &format!("\"{other}\" is not required or optional"),
                ));
            }
        };
        let authorities =
            Some(layers.text("tls.client_ca")).filter(|text| !text.is_empty()).map(PathBuf::from);
        Ok(authorities.map(|authorities| Self { authorities, required }))
    }
}
