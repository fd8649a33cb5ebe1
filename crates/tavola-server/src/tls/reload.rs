//! The certificate in use, and its renewal while connections stay open.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::sync::watch;

use super::certificate::OUTDATED;
use super::files::Contents;
use super::{Certificate, TlsError, clients};
use crate::config::TlsConfig;

/// How often the files are looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// A certificate that ends sooner is worth a warning.
const EXPIRES_SOON_SECONDS: i64 = 14 * 24 * 3600;

/// What new connections are served with. Connections that are open keep what they began with.
#[derive(Debug)]
pub struct TlsReloader {
    source: ArcSwap<TlsConfig>,
    current: ArcSwap<Served>,
    looks: Mutex<Looks>,
}

/// One certificate, ready for connections. Each load makes a new one, so that no session of the old
/// certificate is resumed under the new.
#[derive(Debug)]
struct Served {
    any_http: Arc<ServerConfig>,
    http1_only: Arc<ServerConfig>,
    certificate: Certificate,
}

/// A digest of the files; `None` if they could not be read.
type Look = Option<[u8; 32]>;

/// What was seen of the files.
#[derive(Debug)]
struct Looks {
    /// When they were last loaded, or were found unusable.
    tried: Look,
    /// When they were last looked at.
    last: Look,
}

impl TlsReloader {
    /// Reads the certificate for the first time.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(source: &TlsConfig) -> Result<Self, TlsError> {
        let contents = Contents::read(source)?;
        let served = load(source, &contents)?;
        let look = Some(digest(&contents));
        let looks = Mutex::new(Looks { tried: look, last: look });
        Ok(Self {
            source: ArcSwap::from_pointee(source.clone()),
            current: ArcSwap::from_pointee(served),
            looks,
        })
    }

    /// Reads the certificate again, whether or not it changed. If it cannot be used the old one
    /// stays.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn reload(&self) -> Result<(), TlsError> {
        let source = self.source.load();
        let contents = Contents::read(&source);
        let look = contents.as_ref().ok().map(digest);
        *self.looks() = Looks { tried: look, last: look };
        self.current.store(Arc::new(load(&source, &contents?)?));
        Ok(())
    }

    /// From now on serves what `other` has read, and watches its files.
    pub fn replace(&self, other: Self) {
        let looks = other.looks.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.looks() = looks;
        self.source.store(other.source.into_inner());
        self.current.store(other.current.into_inner());
    }

    /// The same, with a line in the log if it fails.
    pub fn reload_and_report(&self) {
        if let Err(error) = self.reload() {
            let fingerprint = &self.certificate().fingerprint;
            tracing::error!(%error, fingerprint, "the certificate was not renewed; the old one stays in use");
        }
    }

    /// Reloads whenever the files' content changes, until `stop` turns true. Content says what
    /// dates and names of files do not: it survives links that are swapped, and files that are
    /// mounted anew.
    pub async fn watch(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(WATCH_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let reloader = Arc::clone(&self);
            // Disks block, and a PFX file takes its time to open on purpose.
            let _ended = tokio::task::spawn_blocking(move || reloader.look()).await;
        }
    }

    /// Acts on a change once two looks have seen the same: certificate and key are two files, and
    /// whoever replaces them is between the two at some moment.
    pub(super) fn look(&self) {
        let look = Contents::read(&self.source.load()).ok().as_ref().map(digest);
        let settled_change = {
            let mut looks = self.looks();
            let settled = look == looks.last;
            looks.last = look;
            settled && look != looks.tried
        };
        if settled_change {
            self.reload_and_report();
        }
    }

    fn looks(&self) -> std::sync::MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The certificate in use.
    #[must_use]
    pub fn certificate(&self) -> Certificate {
        self.current.load().certificate.clone()
    }

    /// For a connection that may speak either version of HTTP.
    pub(crate) fn any_http(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().any_http)
    }

    /// For a connection that must speak HTTP/1.1.
    pub(crate) fn http1_only(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().http1_only)
    }
}

fn digest(contents: &Contents) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in contents.parts() {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn load(source: &TlsConfig, contents: &Contents) -> Result<Served, TlsError> {
    let certified = contents.certified_key(source)?;
    let unparsed = || TlsError::Certificate {
        file: source.cert.clone(),
        reason: "it is not an X.509 certificate".to_owned(),
    };
    let certificate =
        certified.cert.first().and_then(|der| Certificate::parse(der)).ok_or_else(unparsed)?;
    report(source, &certificate);
    let any_http = server_config(certified, clients::verifier(source, contents)?)?;
    let mut http1_only = any_http.clone();
    http1_only.alpn_protocols.retain(|protocol| protocol == b"http/1.1");
    Ok(Served { any_http: Arc::new(any_http), http1_only: Arc::new(http1_only), certificate })
}

fn server_config(
    certified: CertifiedKey,
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).into();
    // Sessions are kept by the clients, so that many of them cost no memory here. A resumed session
    // is not asked for its certificate again: each load has keys of its own for them, so that none
    // outlives its authority.
    config.ticketer = Ticketer::new()?;
    Ok(config)
}

fn report(source: &TlsConfig, certificate: &Certificate) {
    let (fingerprint, expires) = (&certificate.fingerprint, certificate.expires_text());
    let cert = source.cert.display();
    tracing::info!(%cert, fingerprint, expires, "certificate loaded");
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() as i64;
    if let Some(reason) = certificate.untimely(now) {
        tracing::warn!(%cert, "clients will refuse the certificate: {reason}");
    } else if certificate.expires - now < EXPIRES_SOON_SECONDS {
        tracing::warn!(%cert, "the certificate expires soon, at {expires}");
    }
    if certificate.outdated {
        tracing::warn!(%cert, "{OUTDATED}; make another with `tavola cert`");
    }
    let key = source.key_file();
    if is_open_to_others(key) {
        tracing::warn!(key = %key.display(), "the private key can be read by others than its owner; chmod 600 it");
    }
}

#[cfg(unix)]
fn is_open_to_others(key: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    const READ_BY_GROUP_OR_OTHERS: u32 = 0o044;
    std::fs::metadata(key)
        .is_ok_and(|metadata| metadata.permissions().mode() & READ_BY_GROUP_OR_OTHERS != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_key: &Path) -> bool {
    false
}
