//! TLS: certificates from files, and their renewal without a restart.
//!
//! `files` reads PEM and PFX, [`certificate`] says whose and until when, `clients` says which
//! certificates of clients hold, [`TlsReloader`] holds what new connections are served with. The
//! handshake itself is the listener's.

pub mod certificate;
mod clients;
mod error;
mod files;
mod reload;

pub use certificate::Certificate;
pub use clients::ClientCertificate;
pub(crate) use clients::refused_certificate;
pub use error::TlsError;
pub use files::Material;
pub use reload::TlsReloader;

#[cfg(test)]
mod tests;
