//! `tavola doctor` about this machine: configuration, ports, files, certificates, TLS; and the
//! examples of its help.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use crate::common::cli::{Done, check, examples, in_folder, in_shell, run};
use crate::common::{ACCOUNT, KEY, RunningServer, free_port};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use time::OffsetDateTime;

/// The names, from when and until when in days, who issues it.
struct Wish<'a> {
    names: &'a [&'a str],
    days: (i64, i64),
}

const GOOD: Wish<'_> =
    Wish { names: &["tables.example", "*.table.example", "127.0.0.1"], days: (-1, 90) };

fn params(wish: &Wish<'_>) -> CertificateParams {
    let mut params = CertificateParams::new(
        wish.names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
    )
    .unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    let day = |days: i64| OffsetDateTime::from_unix_timestamp(now + days * 24 * 3600).unwrap();
    (params.not_before, params.not_after) = (day(wish.days.0), day(wish.days.1));
    params.distinguished_name.push(DnType::CommonName, "server");
    params
}

/// A certificate by an authority of ours, in a folder: `cert.pem`, `ca.pem`, `key.pem`.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(wish: &Wish<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut authority = params(&Wish { names: &[], days: (-2, 900) });
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "our authority");
        let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let leaf = params(wish).signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
        let files = Self { folder };
        files.write("cert.pem", &leaf.pem());
        files.write("ca.pem", &authority_pem);
        files.write("chain.pem", &format!("{}{authority_pem}", leaf.pem()));
        files.write("key.pem", &key.serialize_pem());
        files
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn doctor(&self, arguments: &str) -> Done {
        run(in_folder(self.folder.path()).arg("doctor").args(arguments.split(' ')))
    }
}

#[test]
fn a_good_certificate() {
    let files = Files::new(&GOOD);
    for endpoint in [
        "https://tables.example:10002/shop",
        "https://shop.table.example",
        "https://127.0.0.1/shop",
    ] {
        check(
            &files.doctor(&format!("--cert chain.pem --key key.pem --endpoint {endpoint}")),
            &[
                "ok certificate: valid until 20",
                "ok names: it covers",
                "ok key: the private key belongs to the certificate",
                "ok chain: 2 certificates, in order",
            ],
        );
    }
    files.write("both.pem", &format!("{}{}", files.read("key.pem"), files.read("chain.pem")));
    check(
        &files.doctor("--cert both.pem"),
        &[
            "ok names: it is for tables.example, *.table.example, 127.0.0.1",
            "ok key: the private key belongs",
        ],
    );
}

#[test]
fn certificates_out_of_their_time() {
    let expired = Files::new(&Wish { days: (-30, -3), ..GOOD });
    check(
        &expired.doctor("--cert chain.pem --key key.pem"),
        &["fail certificate: it expired 3 days ago, at 20"],
    );
    let early = Files::new(&Wish { days: (2, 30), ..GOOD });
    check(
        &early.doctor("--cert chain.pem --key key.pem"),
        &["fail certificate: it is not valid yet: it begins in 2 days, at 20"],
    );
    let soon = Files::new(&Wish { days: (-30, 5), ..GOOD });
    check(
        &soon.doctor("--cert chain.pem --key key.pem"),
        &["warn certificate: it expires in 5 days"],
    );
}

#[test]
fn certificates_for_others() {
    let files = Files::new(&GOOD);
    check(
        &files.doctor("--cert chain.pem --key key.pem --endpoint https://other.example/shop"),
        &[
            "fail names: it does not cover other.example: it is for tables.example, *.table.example, 127.0.0.1",
        ],
    );
    let nameless = Files::new(&Wish { names: &[], ..GOOD });
    check(
        &nameless.doctor("--cert chain.pem --key key.pem"),
        &["fail names: it is for no names at all"],
    );
    files.write("key.pem", &KeyPair::generate().unwrap().serialize_pem());
    check(
        &files.doctor("--cert chain.pem --key key.pem"),
        &["fail key: the private key does not belong to the certificate"],
    );
    check(
        &files.doctor("--cert chain.pem"),
        &["warn key: no private key was given; name its file with --key"],
    );
}

#[test]
fn chains() {
    let files = Files::new(&GOOD);
    let other = Files::new(&GOOD);
    check(
        &files.doctor("--cert cert.pem --key key.pem"),
        &["warn chain: the chain lacks its issuer: CN=our authority"],
    );
    files.write("wrong.pem", &format!("{}{}", files.read("ca.pem"), files.read("cert.pem")));
    check(
        &files.doctor("--cert wrong.pem --key key.pem"),
        &[
            "fail chain: the first certificate of the file is an issuer's; order them",
            "fail key: the private key does not belong",
            "fail names",
        ],
    );
    files.write("stray.pem", &format!("{}{}", files.read("cert.pem"), other.read("cert.pem")));
    check(
        &files.doctor("--cert stray.pem --key key.pem"),
        &["fail chain: certificate 2 of the file did not issue certificate 1"],
    );
    let key = KeyPair::generate().unwrap();
    files.write("own.pem", &params(&GOOD).self_signed(&key).unwrap().pem());
    files.write("own.key", &key.serialize_pem());
    check(&files.doctor("--cert own.pem --key own.key"), &["warn chain: it is self-signed"]);
}

#[test]
fn files_that_hold_something_else() {
    let files = Files::new(&GOOD);
    files.write("text.pem", "certainly not\n");
    files.write("garbage.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    for (arguments, words) in [
        ("--cert none.pem", "certificate: cannot read none.pem"),
        (
            "--cert text.pem",
            "certificate: text.pem holds no usable certificate: it has no PEM block named CERTIFICATE",
        ),
        (
            "--cert garbage.pem",
            "certificate: garbage.pem contains something that is not a certificate",
        ),
        (
            "--cert chain.pem --key text.pem",
            "certificate: text.pem holds no usable private key: it has no PEM block of that kind",
        ),
    ] {
        check(&files.doctor(arguments), &[&format!("fail {words}")]);
    }
    std::fs::set_permissions(files.folder.path().join("key.pem"), PermissionsExt::from_mode(0o644))
        .unwrap();
    check(
        &files.doctor("--cert chain.pem --key key.pem"),
        &["warn key: other users can read the private key in key.pem; chmod 600 key.pem"],
    );
}

#[test]
fn pfx_files() {
    let files = Files::new(&GOOD);
    let export =
        ["pkcs12", "-export", "-in", "cert.pem", "-inkey", "key.pem", "-certfile", "ca.pem"];
    let made = Command::new("openssl")
        .args(export)
        .args(["-passout", "pass:open sesame", "-out", "both.pfx"])
        .current_dir(files.folder.path())
        .status();
    assert!(made.unwrap().success());
    files.write("password", "open sesame\n");
    check(
        &files.doctor("--cert both.pfx --password-file password --endpoint https://tables.example"),
        &[
            "ok names: it covers tables.example",
            "ok key: the private key belongs",
            // The server leaves out the root, which clients have or do not trust.
            "warn chain: the chain lacks its issuer: CN=our authority",
        ],
    );
    files.write("password", "open barley");
    let wrong = files.doctor("--cert both.pfx --password-file password");
    check(
        &wrong,
        &["fail certificate: wrong password for both.pfx; give the right one with --password-file"],
    );
    assert!(!wrong.stdout.contains("barley"));
}

/// A port that speaks TLS and answers every request in HTTP, until the test ends.
fn tls_port(files: &Files) -> String {
    let chain = CertificateDer::pem_slice_iter(files.read("chain.pem").as_bytes())
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_slice(files.read("key.pem").as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nready\n");
            }
        }
    });
    at
}

#[test]
fn tls_and_plain_http_are_told_apart() {
    let files = Files::new(&GOOD);
    let at = tls_port(&files);
    let key = |scheme: &str, at: &str| {
        let string = format!(
            "AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={scheme}://{at}/{ACCOUNT}"
        );
        format!("--connection-string {string}")
    };
    check(
        &files.doctor(&key("http", &at)),
        &[&format!(
            "fail server: {at} speaks TLS, but the URL begins with http; write https:// instead of http://"
        )],
    );
    check(
        &files.doctor(&key("https", &at)),
        &[&format!(
            "fail server: the certificate of {at} comes from an issuer that this machine does not trust"
        )],
    );
    let trusted = files.doctor(&format!("{} --ca-file ca.pem", key("https", &at)));
    assert!(
        trusted.stdout.contains(&format!("ok    server: a Tavola at https://{at} is ready")),
        "{trusted:?}"
    );
    let nonsense = files.doctor(&format!("{} --ca-file key.pem", key("https", &at)));
    check(&nonsense, &["fail server: key.pem contains no certificate in PEM form"]);
    let other_name = at.replace("127.0.0.1", "localhost");
    check(
        &files.doctor(&format!("{} --ca-file ca.pem", key("https", &other_name))),
        &[&format!("fail server: the certificate of {other_name} is for other host names")],
    );
    let server = RunningServer::start(&files.folder.path().join("data"));
    check(
        &files.doctor(&key("https", &server.table)),
        &[&format!(
            "fail server: {} does not speak TLS, but the URL begins with https",
            server.table
        )],
    );
}

/// The ports of a configuration, which is what `tavola doctor` looks at by itself.
fn at_home(folder: &Path, table: &str, admin: &str, more: &str) -> Done {
    let port = |at: &str| at.rsplit(':').next().unwrap().to_owned();
    let mut command = in_folder(folder);
    command.env("TAVOLA_TABLE__PORT", port(table)).env("TAVOLA_SERVER__ADMIN_PORT", port(admin));
    run(command.arg("doctor").args(more.split_whitespace()))
}

#[test]
fn ports() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(&folder.path().join("data"));
    check(
        &at_home(folder.path(), &server.table, &server.admin, ""),
        &[
            "ok configuration: valid: the development account, whose key is public",
            &format!("ok table port: a Tavola at {} is ready", server.table),
            "ok clock: the same here and on the server",
            &format!("ok admin port: a Tavola at {} is ready", server.admin),
        ],
    );
    let free = || format!("127.0.0.1:{}", free_port());
    let (one, other) = (free(), free());
    check(
        &at_home(folder.path(), &one, &other, ""),
        &[&format!("ok table port: {one} is free"), &format!("ok admin port: {other} is free")],
    );
    check(
        &at_home(folder.path(), "x:0", "x:0", ""),
        &["ok table port: a free one is picked when the server starts"],
    );
    // The admin port of a server is not a Table service.
    check(
        &at_home(folder.path(), &server.admin, "x:0", ""),
        &[&format!(
            "fail table port: {} is in use by a process that is not a ready Tavola",
            server.admin
        )],
    );
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap().to_string();
    check(
        &at_home(folder.path(), &at, "x:0", ""),
        &[&format!("fail table port: {at} is in use"), "fail does not respond in time"],
    );
    let tls = tls_port(&Files::new(&GOOD));
    check(
        &at_home(folder.path(), &tls, "x:0", ""),
        &[&format!("fail table port: {tls} is in use"), "fail speaks TLS"],
    );
}

/// The issuer is known to nobody here, and the certificate is for other names; but it is the
/// server's own.
#[test]
fn the_configured_certificate_is_trusted() {
    let files = Files::new(&GOOD);
    let tls = tls_port(&files);
    let doctor = |more: &str| at_home(files.folder.path(), &tls, "x:0", more);
    files.write("own.toml", "[tls]\ncert = \"chain.pem\"\nkey = \"key.pem\"\n");
    let done = doctor("--config own.toml");
    let line = format!("ok    table port: a Tavola at {tls} is ready");
    assert!(done.stdout.lines().any(|shown| shown == line), "{done:?}");
    let other = Files::new(&GOOD);
    files.write("chain.pem", &other.read("chain.pem"));
    files.write("key.pem", &other.read("key.pem"));
    let done = doctor("--config own.toml");
    assert!(
        done.stdout.contains("comes from an issuer that this machine does not trust"),
        "{done:?}"
    );
}

#[test]
fn the_configuration_and_who_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let doctor = |more: &str| at_home(folder.path(), "x:0", "x:0", more);
    let file = folder.path().join("own.toml");
    std::fs::write(&file, "[server]\ntabel_port = 1\n").unwrap();
    check(
        &doctor("--config own.toml"),
        &[
            "fail configuration: file own.toml, line 2: unknown setting server.tabel_port; did you mean table.port?; `tavola config",
        ],
    );
    std::fs::write(&file, format!("[accounts.shop]\nkey1 = \"{KEY}\"\n")).unwrap();
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap()
    };
    mode(&file, 0o644);
    check(
        &doctor("--config own.toml"),
        &[
            "ok configuration: valid: 1 account(s)",
            "warn keys: own.toml contains keys, and other users can read it (mode 644); chmod 600 own.toml",
        ],
    );
    mode(&file, 0o600);
    let accounts = folder.path().join("tavola-accounts");
    std::fs::create_dir(&accounts).unwrap();
    std::fs::write(accounts.join("depot.toml"), format!("key1 = \"{KEY}\"\n")).unwrap();
    mode(&accounts.join("depot.toml"), 0o640);
    mode(&accounts, 0o755);
    check(
        &doctor("--config own.toml"),
        &[
            "warn keys: tavola-accounts/depot.toml contains keys, and other users can read it (mode 640)",
            "warn keys: other users can read tavola-accounts; chmod 700 tavola-accounts",
        ],
    );
    mode(&accounts.join("depot.toml"), 0o600);
    mode(&accounts, 0o700);
    check(&doctor("--config own.toml"), &["ok keys: only their owner can read files with keys"]);
}

#[test]
fn the_examples_of_the_help_work() {
    let files = Files::new(&GOOD);
    files.write("server.pem", &files.read("chain.pem"));
    files.write("server.key", &files.read("key.pem"));
    let server = RunningServer::start(&files.folder.path().join("data"));
    crate::common::client::Client::connect(&server.table).unwrap().create_table("staff");
    let url = run(in_folder(files.folder.path())
        .args(["sas", "table", "staff", "--permissions", "ra", "-o", "url"])
        .args(["--endpoint", &server.endpoint()]))
    .text();
    for line in examples(&["doctor"]) {
        let done = in_shell(files.folder.path(), &line, |shell| {
            shell
                .env("URL", &url)
                .env("TAVOLA_TABLE__PORT", "0")
                .env("TAVOLA_SERVER__ADMIN_PORT", "0")
        });
        check(&done, &[]);
        assert!(done.stdout.contains("ok  "), "{line}: {done:?}");
    }
}
