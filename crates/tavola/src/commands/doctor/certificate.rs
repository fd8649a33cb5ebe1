//! A certificate: its time, its names, its key, its chain.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use p12_keystore::Pkcs12Archive;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use tavola_core::DateTime;
use tavola_protocol::connection_string::Endpoint;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use zeroize::Zeroizing;

use super::report::Report;
use crate::human_time;

const SUBJECT: &str = "certificate";
/// A chain of ten certificates is below this many bytes, and so is a key.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Certificates of one chain.
const CHAIN_MAX: usize = 16;
/// What DER begins with. PEM is text and never does.
const DER_SEQUENCE: u8 = 0x30;
/// A certificate that ends sooner is worth a word.
const EXPIRES_SOON_SECONDS: u64 = 14 * 24 * 3600;
const READ_BY_OTHERS: u32 = 0o044;

/// Looks at a certificate file, its key's file, and whether both are good for an endpoint.
pub(super) fn examine(
    cert: &Path,
    key: Option<&Path>,
    password: &str,
    endpoint: Option<&Endpoint>,
    report: &mut Report,
) {
    let material = match Material::read(cert, key, password) {
        Ok(material) => material,
        Err(words) => return report.fail(SUBJECT, words, "give a PEM file with the chain, or a PFX file"),
    };
    let parsed: Vec<X509Certificate<'_>> =
        material.chain.iter().filter_map(|der| X509Certificate::from_der(der).ok()).map(|(_, parsed)| parsed).collect();
    let Some(leaf) = parsed.first().filter(|_| parsed.len() == material.chain.len()) else {
        return report.fail(SUBJECT, format!("{} holds something that is no certificate", cert.display()), "");
    };
    check_time(leaf, human_time::now(), report);
    check_names(leaf, &material.chain[0], endpoint, report);
    check_key(&material, report);
    check_chain(&parsed, report);
    check_mode(key.unwrap_or(cert), material.key.is_some(), report);
}

/// What the files hold.
struct Material {
    chain: Vec<CertificateDer<'static>>,
    key: Option<Zeroizing<PrivateKeyDer<'static>>>,
}

impl Material {
    fn read(cert: &Path, key: Option<&Path>, password: &str) -> Result<Self, String> {
        let bytes = read(cert)?;
        if bytes.first() == Some(&DER_SEQUENCE) {
            return Self::of_pfx(cert, &bytes, password);
        }
        let problem = |error| format!("{} is not PEM: {error}", cert.display());
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(&bytes).take(CHAIN_MAX).collect::<Result<_, _>>().map_err(problem)?;
        if chain.is_empty() {
            return Err(format!("{} holds no certificate in PEM form", cert.display()));
        }
        let key_bytes = key.map(read).transpose()?;
        let found = PrivateKeyDer::from_pem_slice(key_bytes.as_ref().unwrap_or(&bytes)).map(Zeroizing::new);
        match (found, key) {
            (Ok(found), _) => Ok(Self { chain, key: Some(found) }),
            (Err(_), None) => Ok(Self { chain, key: None }),
            (Err(_), Some(file)) => {
                Err(format!("{} holds no private key in PEM form that is not encrypted", file.display()))
            }
        }
    }

    /// The certificate that the key belongs to comes first.
    fn of_pfx(file: &Path, bytes: &[u8], password: &str) -> Result<Self, String> {
        let archive = Pkcs12Archive::from_pkcs12(bytes, password)
            .map_err(|_| format!("{} does not open: it is no PFX file, or has another password", file.display()))?;
        let mut chain: Vec<CertificateDer<'static>> =
            archive.certs.iter().take(CHAIN_MAX).map(|bag| bag.cert.as_der().to_vec().into()).collect();
        if chain.is_empty() {
            return Err(format!("{} holds no certificate", file.display()));
        }
        let key = archive.keys.first().map(|bag| PrivatePkcs8KeyDer::from(bag.key.as_der().to_vec()));
        let key = key.map(|key| Zeroizing::new(PrivateKeyDer::from(key)));
        // A PFX file has no order of its own.
        if let Some(leaf) = key.as_ref().and_then(|key| chain.iter().position(|der| belongs(der, key) == Ok(true))) {
            chain.swap(0, leaf);
        }
        Ok(Self { chain, key })
    }
}

fn read(file: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let problem = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    let opened = File::open(file).map_err(problem)?;
    let mut bytes = Zeroizing::new(Vec::new());
    opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(problem)?;
    Ok(bytes)
}

fn check_time(leaf: &X509Certificate<'_>, now: DateTime, report: &mut Report) {
    let time = |unix: i64| DateTime::from_unix(std::time::Duration::from_secs(u64::try_from(unix).unwrap_or_default()));
    let (begins, ends) = (time(leaf.validity().not_before.timestamp()), time(leaf.validity().not_after.timestamp()));
    let (since, until) = (human_time::relative(begins, now), human_time::relative(ends, now));
    if now > ends {
        report.fail(
            SUBJECT,
            format!("it expired {until}, at {ends}"),
            "renew it; a running server takes it over by itself",
        );
    } else if now < begins {
        report.fail(SUBJECT, format!("it is not valid yet: it begins {since}, at {begins}"), "is the clock right?");
    } else if human_time::between(now, ends).as_secs() < EXPIRES_SOON_SECONDS {
        report.warn(SUBJECT, format!("it expires {until}, at {ends}"), "renew it soon");
    } else {
        report.ok(SUBJECT, format!("valid until {ends}, {until}"));
    }
}

fn check_names(leaf: &X509Certificate<'_>, der: &CertificateDer<'_>, endpoint: Option<&Endpoint>, report: &mut Report) {
    let names = names_of(leaf);
    let listed = if names.is_empty() { "no names at all".to_owned() } else { names.join(", ") };
    let Some(endpoint) = endpoint else {
        if names.is_empty() {
            let advice = "names must stand as subject alternative names; the common name does not count";
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
            let advice = format!("use one of these names in URLs, or get a certificate that has {host}");
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
    let Some(key) = &material.key else {
        return report.warn("key", "no private key was given", "name its file with --key");
    };
    match belongs(&material.chain[0], key) {
        Ok(true) => report.ok("key", "the private key belongs to the certificate"),
        Ok(false) => {
            let advice = "take the key that the certificate was requested with; is the server's certificate the first?";
            report.fail("key", "the private key does not belong to the certificate", advice);
        }
        Err(reason) => report.fail("key", format!("the private key cannot be used: {reason}"), "make a new one"),
    }
}

fn belongs(der: &CertificateDer<'static>, key: &PrivateKeyDer<'static>) -> Result<bool, String> {
    let signing = any_supported_type(key).map_err(|error| error.to_string())?;
    match CertifiedKey::new(vec![der.clone()], signing).keys_match() {
        Ok(()) => Ok(true),
        Err(rustls::Error::InconsistentKeys(_)) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// The server's own first, then its issuer, then the issuer's issuer.
fn check_chain(chain: &[X509Certificate<'_>], report: &mut Report) {
    let misplaced = chain.windows(2).position(|pair| pair[0].issuer() != pair[1].subject());
    let is_self_signed = |certificate: &X509Certificate<'_>| certificate.issuer() == certificate.subject();
    let advice = "order them: the server's certificate, then who issued it, then who issued that";
    match (misplaced, chain) {
        (Some(_), _) if chain[1..].iter().any(|other| other.issuer() == chain[0].subject()) => {
            report.fail("chain", "the file begins with an issuer's certificate", advice);
        }
        (Some(at), _) => {
            let words = format!("certificate {} of the file did not issue certificate {}", at + 2, at + 1);
            report.fail("chain", words, advice);
        }
        (None, [only]) if is_self_signed(only) => {
            report.warn(
                "chain",
                "it is signed by itself",
                "clients must be told to trust it, for example with --ca-file",
            );
        }
        (None, [only]) => {
            let words = format!("its issuer is not in the file: {}", only.issuer());
            report.warn("chain", words, "append the issuer's certificate, unless it is a root that clients know");
        }
        (None, _) => report.ok("chain", format!("{} certificates, in order", chain.len())),
    }
}

fn check_mode(file: &Path, has_key: bool, report: &mut Report) {
    let Ok(metadata) = std::fs::metadata(file) else { return };
    if has_key && metadata.permissions().mode() & READ_BY_OTHERS != 0 {
        let words = format!("others can read the private key in {}", file.display());
        report.warn("key", words, format!("chmod 600 {}", file.display()));
    }
}
