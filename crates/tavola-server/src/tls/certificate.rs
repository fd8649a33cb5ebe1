//! What people want to know of a certificate: which one it is and how long it is good for.

use std::fmt::Write;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tavola_core::DateTime;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// A certificate's identity and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` writes it.
    pub fingerprint: String,
    /// From when on it is good, in seconds since 1970.
    pub begins: i64,
    /// Until when it is good, in seconds since 1970.
    pub expires: i64,
    /// Of an X.509 version before 3, which has no names that clients look at.
    pub outdated: bool,
}

/// Why a certificate of an older version is no good for many clients.
pub const OUTDATED: &str = "it is an X.509 certificate of a version before 3, which holds no subject alternative names: \
    many clients refuse it";

impl Certificate {
    /// Reads a certificate in DER form; `None` if it is not one.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let validity = parsed.validity();
        Some(Self {
            fingerprint: fingerprint(der),
            begins: validity.not_before.timestamp(),
            expires: validity.not_after.timestamp(),
            outdated: parsed.version() != X509Version::V3,
        })
    }

    /// The last moment at which it is good: `2026-11-16T06:00:00Z`.
    #[must_use]
    pub fn expires_text(&self) -> String {
        time_text(self.expires)
    }

    /// Why clients will refuse it at `now`, if they will.
    pub(super) fn untimely(&self, now: i64) -> Option<String> {
        if now > self.expires {
            return Some(format!("it expired at {}", time_text(self.expires)));
        }
        (now < self.begins).then(|| format!("it is not good before {}", time_text(self.begins)))
    }
}

fn time_text(unix: i64) -> String {
    // No certificate of use is older than 1970.
    DateTime::from_unix(Duration::from_secs(u64::try_from(unix).unwrap_or_default())).to_string()
}

fn fingerprint(der: &[u8]) -> String {
    let mut text = String::new();
    for byte in digest(&SHA256, der).as_ref() {
        let separator = if text.is_empty() { "" } else { ":" };
        let _infallible = write!(text, "{separator}{byte:02X}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Certificate;

    #[test]
    fn before_and_after_its_time_a_certificate_is_refused() {
        let certificate = Certificate {
            fingerprint: String::new(),
            begins: 1_000,
            expires: 2_000,
            outdated: false,
        };
        assert_eq!(certificate.untimely(1_000), None);
        assert_eq!(certificate.untimely(2_000), None);
        assert_eq!(certificate.untimely(2_001).unwrap(), "it expired at 1970-01-01T00:33:20Z");
        assert_eq!(
            certificate.untimely(999).unwrap(),
            "it is not good before 1970-01-01T00:16:40Z"
        );
    }

    #[test]
    fn what_is_no_certificate_has_none() {
        assert_eq!(Certificate::parse(b""), None);
        assert_eq!(Certificate::parse(b"\x30\x03\x02\x01\x01"), None);
    }
}
