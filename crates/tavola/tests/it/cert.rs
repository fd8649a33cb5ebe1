//! `tavola cert`, and what the server says about a certificate when it loads one.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{RunningServer, tavola};
use rcgen::{CertificateParams, KeyPair};
use time::{Duration, OffsetDateTime};

fn cert(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tavola().arg("cert").args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn files(folder: &Path) -> Vec<(String, u32)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                entry.metadata().unwrap().permissions().mode() & 0o777,
            )
        })
        .collect();
    files.sort();
    files
}

/// What OpenSSL reads in a certificate.
fn openssl(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn owned(files: [(&str, u32); 2]) -> Vec<(String, u32)> {
    files.map(|(name, mode)| (name.to_owned(), mode)).into()
}

#[test]
fn a_certificate_for_this_machine_and_what_to_do_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) =
        cert(folder.path(), &["--name", "tables.test", "--name", "10.0.0.7"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(
        files(folder.path()),
        owned([("tavola-cert.pem", 0o644), ("tavola-key.pem", 0o600)])
    );
    let text = openssl(folder.path(), &["x509", "-in", "tavola-cert.pem", "-noout", "-text"]);
    let names = "DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, DNS:*.table.localhost, \
                 DNS:tables.test, IP Address:10.0.0.7";
    for words in
        [names, "CA:FALSE", "TLS Web Server Authentication", "prime256v1", "Digital Signature"]
    {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let fingerprint = openssl(
        folder.path(),
        &["x509", "-in", "tavola-cert.pem", "-noout", "-fingerprint", "-sha256"],
    );
    let fingerprint = fingerprint.trim().split_once('=').unwrap().1;
    assert!(stdout.contains(&format!("SHA-256 fingerprint: {fingerprint}\n")), "{stdout}");
    let path = folder.path().canonicalize().unwrap().join("tavola-cert.pem").display().to_string();
    for words in [
        "expires: 20",
        "tavola serve --tls-cert ./tavola-cert.pem --tls-key ./tavola-key.pem",
        "update-ca-certificates",
        "update-ca-trust",
        "security add-trusted-cert",
        "certutil -addstore",
        &format!("REQUESTS_CA_BUNDLE={path}"),
        &format!("NODE_EXTRA_CA_CERTS={path}"),
        "keytool -importcert",
        &format!("SSL_CERT_FILE={path}"),
    ] {
        assert!(stdout.contains(words), "{words} is not in\n{stdout}");
    }
    let days = |days: u32| {
        let seconds = (days * 24 * 3600).to_string();
        let arguments = ["x509", "-in", "tavola-cert.pem", "-noout", "-checkend", &seconds];
        Command::new("openssl")
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(days(396) && !days(398));
    openssl(
        folder.path(),
        &["verify", "-x509_strict", "-CAfile", "tavola-cert.pem", "tavola-cert.pem"],
    );
}

#[test]
fn an_authority_and_a_certificate_that_it_signed() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stdout, _) = cert(folder.path(), &["--authority", "--out", "a/b", "--days", "7"]);
    assert_eq!(code, Some(0));
    let made = folder.path().join("a/b");
    let names: Vec<_> = files(&made);
    let expected =
        [("ca-key.pem", 0o600), ("ca.pem", 0o644), ("cert.pem", 0o644), ("key.pem", 0o600)];
    assert_eq!(names, expected.map(|(name, mode)| (name.to_owned(), mode)));
    openssl(
        &made,
        &["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.pem", "cert.pem"],
    );
    let text = openssl(&made, &["x509", "-in", "ca.pem", "-noout", "-text"]);
    assert!(text.contains("CA:TRUE, pathlen:0") && text.contains("Certificate Sign"), "{text}");
    assert!(stdout.contains("--tls-cert a/b/cert.pem --tls-key a/b/key.pem"), "{stdout}");
    assert!(stdout.contains("SSL_CERT_FILE=") && stdout.contains("a/b/ca.pem\n"), "{stdout}");
}

#[test]
fn files_are_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("tavola-key.pem");
    std::fs::write(&key, "somebody's own").unwrap();
    let (code, stdout, stderr) = cert(folder.path(), &[]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("tavola-key.pem exists; replace it with --force"), "{stderr}");
    assert_eq!(files(folder.path()).len(), 1, "nothing is half made");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "somebody's own");
    assert_eq!(cert(folder.path(), &["--force"]).0, Some(0));
    assert_eq!(
        files(folder.path()),
        owned([("tavola-cert.pem", 0o644), ("tavola-key.pem", 0o600)])
    );
}

#[test]
fn bad_arguments_and_help() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in
        [&["--name", "http://x"][..], &["--days", "0"], &["--days", "99999"], &["--nonsense"]]
    {
        assert_eq!(cert(folder.path(), arguments).0, Some(2), "{arguments:?}");
    }
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(cert(folder.path(), &["--out", "file/x"]).0, Some(1));
    let (code, stdout, _) = cert(folder.path(), &["--help"]);
    assert_eq!(code, Some(0));
    let examples = stdout.split_once("Examples:").unwrap().1;
    assert_eq!(examples.matches("  tavola cert").count(), 3, "{stdout}");
}

#[test]
fn an_expired_certificate_and_an_open_key_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let now = OffsetDateTime::now_utc();
    for (ends, open, warnings) in [
        (
            now - Duration::DAY,
            true,
            &["clients will refuse the certificate: it expired at ", "read by others"][..],
        ),
        (now + Duration::DAY, false, &["expires soon, at "]),
        (now + Duration::days(30), false, &[]),
    ] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (now - Duration::days(9), ends);
        std::fs::write(at("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(at("key.pem"), key.serialize_pem()).unwrap();
        let mode = if open { 0o640 } else { 0o600 };
        std::fs::set_permissions(at("key.pem"), std::fs::Permissions::from_mode(mode)).unwrap();
        let log = std::fs::File::create(at("log")).unwrap();
        let server = RunningServer::start_with(&at("data"), |command| {
            command
                .stderr(log)
                .arg("--tls-cert")
                .arg(at("cert.pem"))
                .arg("--tls-key")
                .arg(at("key.pem"))
        });
        drop(server);
        let log = std::fs::read_to_string(at("log")).unwrap();
        assert_eq!(log.matches("WARN").count(), warnings.len(), "{log}");
        assert!(warnings.iter().all(|words| log.contains(words)), "{log}");
    }
}
