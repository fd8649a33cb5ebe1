//! `tavola cert`: certificates for development and tests.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use tavola_server::tls::Certificate;
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use crate::exit::Failure;
use crate::new_file::NewFile;

/// What every certificate is good for: this machine, in both styles of URL.
const NAMES: [&str; 4] = ["localhost", "127.0.0.1", "::1", "*.table.localhost"];
/// What browsers and systems accept at most, less a day.
const DAYS: &str = "397";
const DAYS_MAX: i64 = 3650;
/// Clocks of containers and their hosts differ.
const BEGINS_EARLIER: Duration = Duration::HOUR;

const EXAMPLES: &str = "\
Examples:
  tavola cert
      tavola-cert.pem and tavola-key.pem in the current folder, for this machine
  tavola cert --out certs --name tables.test --name 192.168.1.20
      The same in another folder, also for a host name and an address
  tavola cert --authority --out certs
      ca.pem to trust once, and cert.pem and key.pem signed by it; for teams and test suites";

/// The command line.
pub(crate) fn command() -> Command {
    Command::new("cert")
        .about("Create a certificate for development and tests")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .default_value(".")
                .help("Folder for the files; created if it does not exist"),
        )
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("HOST")
                .action(ArgAction::Append)
                .help("Additional host name or address of the certificate"),
        )
        .arg(
            Arg::new("days")
                .long("days")
                .value_name("N")
                .value_parser(value_parser!(i64).range(1..=DAYS_MAX))
                .default_value(DAYS)
                .help("Days until it expires"),
        )
        .arg(switch("authority").help("Also create an authority, and let it sign the certificate"))
        .arg(switch("force").help("Replace existing files"))
}

fn switch(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = matches.get_one::<PathBuf>("out").map_or(Path::new("."), PathBuf::as_path);
    let days = *matches.get_one::<i64>("days").expect("it has a default");
    let names = names(matches.get_many::<String>("name").into_iter().flatten())?;
    let (files, certificate) = if matches.get_flag("authority") {
        with_authority(folder, names, days)
    } else {
        self_signed(folder, names, days)
    }
    .map_err(|error| Failure::System(format!("cannot create the certificate: {error}")))?;
    write_all(folder, &files, matches.get_flag("force"))?;
    print_advice(&files, &certificate);
    Ok(())
}

/// The names of this machine and those that were asked for, each once.
fn names<'a>(asked: impl Iterator<Item = &'a String>) -> Result<Vec<String>, Failure> {
    let mut names: Vec<String> = NAMES.map(str::to_owned).into();
    for name in asked {
        if !is_host(name) {
            return Err(Failure::Usage(format!(
                "--name {name}: neither a host name nor an address"
            )));
        }
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// An address, or labels with dots between them, the first of which may be a star.
fn is_host(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(legal);
    let labels = name.strip_prefix("*.").unwrap_or(name);
    name.parse::<IpAddr>().is_ok() || name.len() <= 253 && labels.split('.').all(is_label)
}

type Made = (Vec<NewFile>, Certificate);

fn self_signed(folder: &Path, names: Vec<String>, days: i64) -> Result<Made, rcgen::Error> {
    let key = KeyPair::generate()?;
    let cert = server(names, days)?.self_signed(&key)?;
    let files =
        vec![public(folder, "tavola-cert.pem", cert.pem()), secret(folder, "tavola-key.pem", &key)];
    Ok((files, certificate(cert.der())))
}

fn with_authority(folder: &Path, names: Vec<String>, days: i64) -> Result<Made, rcgen::Error> {
    let (authority, authority_key) = (authority(days)?, KeyPair::generate()?);
    let authority_file = public(folder, "ca.pem", authority.self_signed(&authority_key)?.pem());
    let authority_key_file = secret(folder, "ca-key.pem", &authority_key);
    let key = KeyPair::generate()?;
    let mut server = server(names, days)?;
    server.use_authority_key_identifier_extension = true;
    let cert = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
    let (cert_file, key_file) =
        (public(folder, "cert.pem", cert.pem()), secret(folder, "key.pem", &key));
    Ok((vec![cert_file, key_file, authority_file, authority_key_file], certificate(cert.der())))
}

fn server(names: Vec<String>, days: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(named(params, "Tavola development server", days))
}

/// It may sign servers and nothing that signs again.
fn authority(days: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new([])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(named(params, "Tavola development authority", days))
}

fn named(mut params: CertificateParams, name: &str, days: i64) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = now - BEGINS_EARLIER;
    params.not_after = now + Duration::days(days);
    params
}

fn certificate(der: &[u8]) -> Certificate {
    Certificate::parse(der).expect("a certificate that was just made can be read")
}

fn public(folder: &Path, name: &str, pem: String) -> NewFile {
    NewFile::public(folder.join(name), pem)
}

fn secret(folder: &Path, name: &str, key: &KeyPair) -> NewFile {
    NewFile::secret(folder.join(name), Zeroizing::new(key.serialize_pem()))
}

/// All or, if one exists, none.
fn write_all(folder: &Path, files: &[NewFile], force: bool) -> Result<(), Failure> {
    if !force
        && let Some(standing) = files.iter().find(|file| file.path().symlink_metadata().is_ok())
    {
        let path = standing.path().display();
        return Err(Failure::Usage(format!(
            "{path} exists; replace it with --force, or choose another --out"
        )));
    }
    let failed =
        |path: &Path, error| Failure::System(format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    files.iter().try_for_each(|file| file.write().map_err(|error| failed(file.path(), error)))
}

fn print_advice(files: &[NewFile], certificate: &Certificate) {
    let path = |wanted: &str| files.iter().map(NewFile::path).find(|path| path.ends_with(wanted));
    let [cert, key, ..] = files else { unreachable!("there are two files at least") };
    let trusted = path("ca.pem").unwrap_or(cert.path());
    // Variables are read in other folders too.
    let trusted =
        std::path::absolute(trusted).unwrap_or_else(|_| trusted.to_owned()).display().to_string();
    for file in files {
        println!(
            "wrote {}{}",
            file.path().display(),
            if file.is_secret() { " (secret, mode 0600)" } else { "" }
        );
    }
    println!("SHA-256 fingerprint: {}", certificate.fingerprint);
    println!("expires: {}", certificate.expires_text());
    println!();
    println!(
        "Serve with it:  tavola serve --tls-cert {} --tls-key {}",
        cert.path().display(),
        key.path().display()
    );
    println!();
    println!("Trust {trusted}:");
    for (system, command) in trust_commands(&trusted) {
        println!("  {system:<15} {command}");
    }
}

fn trust_commands(file: &str) -> [(&'static str, String); 8] {
    [
        (
            "Debian, Ubuntu",
            format!(
                "sudo cp {file} /usr/local/share/ca-certificates/tavola.crt && sudo \
                 update-ca-certificates"
            ),
        ),
        (
            "Fedora",
            format!(
                "sudo cp {file} /etc/pki/ca-trust/source/anchors/tavola.pem && sudo update-ca-trust"
            ),
        ),
        (
            "macOS",
            format!(
                "sudo security add-trusted-cert -d -r trustRoot -k \
                 /Library/Keychains/System.keychain {file}"
            ),
        ),
        ("Windows", format!("certutil -addstore -f Root {file}")),
        ("Python", format!("export REQUESTS_CA_BUNDLE={file}")),
        ("Node", format!("export NODE_EXTRA_CA_CERTS={file}")),
        (
            "Java",
            format!(
                "keytool -importcert -noprompt -cacerts -storepass changeit -alias tavola -file \
                 {file}"
            ),
        ),
        ("Go", format!("export SSL_CERT_FILE={file}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn hosts() {
        for host in [
            "localhost",
            "tables.test",
            "*.table.test",
            "a-b_c.d",
            "10.0.0.1",
            "::1",
            "xn--bcher-kva.example",
        ] {
            assert!(is_host(host), "{host}");
        }
        let long = "a".repeat(64);
        for other in [
            "",
            ".",
            "a..b",
            "a b",
            "http://x",
            "x:443",
            "*",
            "a.*",
            "bücher.example",
            "[::1]",
            &long,
        ] {
            assert!(!is_host(other), "{other}");
        }
    }
}
