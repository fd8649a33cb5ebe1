//! Why a certificate cannot be used, for a person to read.

use std::path::PathBuf;

/// Why a certificate or its key cannot be used. Every message names the file; none shows a key or a
/// password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file is missing or closed to us.
    #[error("cannot read {}: {reason}", file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
    /// The file is something else entirely.
    #[error("{} is larger than {max} bytes, so it is no certificate or key", file.display())]
    TooLarge {
        /// Which.
        file: PathBuf,
        /// What is allowed.
        max: u64,
    },
    /// The file has no certificate in it, or a broken one.
    #[error("{} holds no usable certificate: {reason}", file.display())]
    Certificate {
        /// Which.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The file has no private key in it, or a broken one.
    #[error("{} holds no usable private key: {reason}", file.display())]
    Key {
        /// Which.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Both are good, but not for each other.
    #[error("the private key in {} does not belong to the certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The PFX file does not open.
    #[error("wrong password for {}", file.display())]
    Password {
        /// Which.
        file: PathBuf,
    },
    /// The PFX file is broken or of an unknown kind.
    #[error("{} is not a PFX file that can be read: {reason}", file.display())]
    Pfx {
        /// Which.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The file with the authorities of clients has none in it, or cannot be used.
    #[error("{} cannot tell which certificates of clients hold: {reason}", file.display())]
    ClientAuthorities {
        /// Which.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The TLS library itself refused.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}
