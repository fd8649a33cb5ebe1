//! A certificate: its time, its names, its key, its chain.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use tavola_core::DateTime;
use tavola_protocol::connection_string::Endpoint;
use tavola_server::config::TlsConfig;
use tavola_server::tls::certificate::OUTDATED;
use tavola_server::tls::{Material, TlsError};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Version};
use zeroize::Zeroizing;

use super::report::Report;
use crate::human_time;

const SUBJECT: &str = "certificate";
/// A certificate that ends sooner is worth a word.
const EXPIRES_SOON_SECONDS: u64 = 14 * 24 * 3600;
const READ_BY_OTHERS: u32 = 0o044;
const WRITTEN_BY_OTHERS: u32 = 0o022;

/// Looks at a certificate file, its key's file, and whether both are good for an endpoint.
pub(super) fn examine(
    cert: &Path,
    key: Option<&Path>,
    password: &str,
    endpoint: Option<&Endpoint>,
    report: &mut Report,
) {
    let password = Zeroizing::new(password.to_owned());
    let source =
        TlsConfig { cert: cert.to_owned(), key: key.map(Path::to_owned), password, clients: None };
    let material = match Material::read(&source) {
        Ok(material) => material,
        Err(error) => {
            let advice = match error {
                TlsError::Password { .. } => "give the right one with --password-file",
                _ => "give a PEM file with the chain, or a PFX file",
            };
            return report.fail(SUBJECT, error.to_string(), advice);
        }
    };
    let parsed: Vec<X509Certificate<'_>> = material
        .chain
        .iter()
        .filter_map(|der| X509Certificate::from_der(der).ok())
        .map(|(_, parsed)| parsed)
        .collect();
    let Some(leaf) = parsed.first().filter(|_| parsed.len() == material.chain.len()) else {
        return report.fail(
            SUBJECT,
            format!("{} contains something that is not a certificate", cert.display()),
            "",
        );
    };
    if leaf.version() != X509Version::V3 {
        report.warn(
            SUBJECT,
            OUTDATED,
            "create another with `tavola cert`, or request one of version 3 from its issuer",
        );
    }
    check_time(leaf, human_time::now(), report);
    check_names(leaf, &material.chain[0], endpoint, report);
    check_key(&material, report);
    check_chain(&parsed, report);
    check_modes(cert, key.unwrap_or(cert), material.key.is_some(), report);
}

fn check_time(leaf: &X509Certificate<'_>, now: DateTime, report: &mut Report) {
    let time = |unix: i64| {
        DateTime::from_unix(std::time::Duration::from_secs(u64::try_from(unix).unwrap_or_default()))
    };
    let (begins, ends) =
        (time(leaf.validity().not_before.timestamp()), time(leaf.validity().not_after.timestamp()));
    let (since, until) = (human_time::relative(begins, now), human_time::relative(ends, now));
    if now > ends {
        report.fail(
            SUBJECT,
            format!("it expired {until}, at {ends}"),
            "renew it; a running server reloads it",
        );
    } else if now < begins {
        report.fail(
            SUBJECT,
            format!("it is not valid yet: it begins {since}, at {begins}"),
            "check the clock",
        );
    } else if human_time::between(now, ends).as_secs() < EXPIRES_SOON_SECONDS {
        report.warn(SUBJECT, format!("it expires {until}, at {ends}"), "renew it soon");
    } else {
        report.ok(SUBJECT, format!("valid until {ends}, {until}"));
    }
}

fn check_names(
    leaf: &X509Certificate<'_>,
    der: &CertificateDer<'_>,
    endpoint: Option<&Endpoint>,
    report: &mut Report,
) {
    let names = names_of(leaf);
    let listed = if names.is_empty() { "no names at all".to_owned() } else { names.join(", ") };
    let Some(endpoint) = endpoint else {
        if names.is_empty() {
            let advice = "names must be subject alternative names; the common name is not used";
            return report.fail("names", "it is for no names at all", advice);
        }
        return report.ok("names", format!("it is for {listed}"));
    };
    let host = endpoint.host().trim_start_matches('[').trim_end_matches(']');
    let covered = ServerName::try_from(host.to_owned()).ok().and_then(|name| {
        let parsed = ParsedCertificate::try_from(der).ok()?;
        verify_server_name(&parsed, &name).ok()
    });
    match covered {
        Some(()) => report.ok("names", format!("it covers {host}")),
        None => {
            let advice =
                format!("use one of these names in URLs, or get a certificate that has {host}");
            report.fail("names", format!("it does not cover {host}: it is for {listed}"), advice);
        }
    }
}

fn names_of(leaf: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = leaf.subject_alternative_name() else { return Vec::new() };
    let names = extension.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => ip_text(bytes),
        _ => None,
    });
    names.collect()
}

fn ip_text(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from);
    let sixteen = <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from);
    four.or(sixteen).ok().map(|ip| ip.to_string())
}

fn check_key(material: &Material, report: &mut Report) {
    match material.keys_match() {
        Ok(None) => report.warn("key", "no private key was given", "name its file with --key"),
        Ok(Some(true)) => report.ok("key", "the private key belongs to the certificate"),
        Ok(Some(false)) => {
            let advice = "use the key that the certificate was requested with; the server's \
             certificate must be the first";
            report.fail("key", "the private key does not belong to the certificate", advice);
        }
        Err(reason) => report.fail(
            "key",
            format!("the private key cannot be used: {reason}"),
            "make a new one",
        ),
    }
}

/// The server's own first, then its issuer, then the issuer's issuer.
fn check_chain(chain: &[X509Certificate<'_>], report: &mut Report) {
    let misplaced = chain.windows(2).position(|pair| pair[0].issuer() != pair[1].subject());
    let is_self_signed =
        |certificate: &X509Certificate<'_>| certificate.issuer() == certificate.subject();
    let advice =
        "order them: the server's certificate, then its issuer, then the issuer of that one";
    match (misplaced, chain) {
        (Some(_), _) if chain[1..].iter().any(|other| other.issuer() == chain[0].subject()) => {
            report.fail("chain", "the first certificate of the file is an issuer's", advice);
        }
        (Some(at), _) => {
            let words =
                format!("certificate {} of the file did not issue certificate {}", at + 2, at + 1);
            report.fail("chain", words, advice);
        }
        (None, [only]) if is_self_signed(only) => {
            report.warn(
                "chain",
                "it is self-signed",
                "clients must trust it explicitly, for example with --ca-file",
            );
        }
        (None, [only]) => {
            let words = format!("the chain lacks its issuer: {}", only.issuer());
            report.warn(
                "chain",
                words,
                "append the issuer's certificate, unless it is a root, which clients must have \
                 anyway",
            );
        }
        (None, _) => report.ok("chain", format!("{} certificates, in order", chain.len())),
    }
}

fn check_modes(cert: &Path, key: &Path, has_key: bool, report: &mut Report) {
    let may_others = |file: &Path, what: u32| {
        std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & what != 0)
    };
    if has_key && may_others(key, READ_BY_OTHERS) {
        let words = format!("other users can read the private key in {}", key.display());
        report.warn("key", words, format!("chmod 600 {}", key.display()));
    }
    if may_others(cert, WRITTEN_BY_OTHERS) {
        let words = format!("other users can replace the certificate in {}", cert.display());
        report.warn(SUBJECT, words, format!("chmod go-w {}", cert.display()));
    }
}
