//! Certificates of X.509 version 1, which `openssl x509 -req` makes without extensions and which
//! emulators ship: they are served, with a warning.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::cli::{in_folder, run};
use crate::common::{RunningServer, tavola};

const REQUEST: [&str; 10] = [
    "req",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-subj",
    "/CN=localhost",
    "-keyout",
    "key.pem",
    "-out",
    "request.pem",
];
const SIGN: [&str; 10] = [
    "x509",
    "-req",
    "-in",
    "request.pem",
    "-signkey",
    "key.pem",
    "-days",
    "30",
    "-out",
    "cert.pem",
];
const PFX: [&str; 10] = [
    "pkcs12",
    "-export",
    "-in",
    "cert.pem",
    "-inkey",
    "key.pem",
    "-passout",
    "pass:open",
    "-out",
    "both.pfx",
];

fn openssl(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// `cert.pem`, `key.pem` and `both.pfx`, whose password is `open`.
fn make_certificate(folder: &Path) {
    openssl(folder, &REQUEST);
    openssl(folder, &SIGN);
    openssl(folder, &PFX);
    let text = openssl(folder, &["x509", "-in", "cert.pem", "-noout", "-text"]);
    assert!(text.contains("Version: 1 "), "{text}");
}

/// What a client of OpenSSL gets that trusts the certificate.
fn ready(folder: &Path, authority: &str) -> String {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-connect",
            authority,
            "-CAfile",
            "cert.pem",
            "-verify_return_error",
        ])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request =
        format!("GET /-/ready HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    client.stdin.as_mut().unwrap().write_all(request.as_bytes()).unwrap();
    String::from_utf8(client.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn a_certificate_of_version_1_is_served_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    make_certificate(folder.path());
    let file = |name: &str| folder.path().join(name);
    for (name, arguments) in [
        ("pem", vec![("--tls-cert", file("cert.pem")), ("--tls-key", file("key.pem"))]),
        ("pfx", vec![("--tls-cert", file("both.pfx"))]),
    ] {
        let log = file(&format!("{name}.log"));
        let server = RunningServer::start_with(&file(name), |command| {
            for (flag, path) in arguments {
                command.arg(flag).arg(path);
            }
            command.env("TAVOLA_TLS__PASSWORD", "open").arg("--log-file").arg(&log)
        });
        let answer = ready(folder.path(), &server.table);
        assert!(
            answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ready\n"),
            "{name}: {answer}"
        );
        let logged = std::fs::read_to_string(&log).unwrap();
        assert!(
            logged.contains("version before 3") && logged.contains("tavola cert"),
            "{name}: {logged}"
        );
    }
}

#[test]
fn its_key_must_be_its_own_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    make_certificate(folder.path());
    openssl(folder.path(), &["genrsa", "-out", "other.pem", "2048"]);
    let serve = [
        "serve",
        "--table-port",
        "0",
        "--admin-port",
        "0",
        "--tls-cert",
        "cert.pem",
        "--tls-key",
        "other.pem",
    ];
    let done = run(in_folder(folder.path()).args(serve));
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(
        done.stderr.contains("other.pem does not belong to the certificate in cert.pem"),
        "{done:?}"
    );
}

#[test]
fn doctor_says_so() {
    let folder = tempfile::tempdir().unwrap();
    make_certificate(folder.path());
    let done = run(tavola()
        .args(["doctor", "--cert", "cert.pem", "--key", "key.pem"])
        .current_dir(folder.path()));
    let warned = done
        .stdout
        .lines()
        .any(|line| line.starts_with("warn") && line.contains("version before 3"));
    assert!(warned, "{done:?}");
    assert!(done.stdout.contains("the private key belongs to the certificate"), "{done:?}");
}
