//! Certificates of clients: required or optional, of the right authority, revoked and renewed, over
//! real sockets.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{RunningServer, tavola};
use bytes::Bytes;
use http::{Request, Response};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use sha2::{Digest as _, Sha256};
use tavola_client::__http::{Connection, Connector, HttpError};
use tempfile::TempDir;

/// For a connection, and for an answer.
const TIME_MAX: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The serial number of every certificate that these authorities issue.
const SERIAL: u64 = 4711;

/// Somebody who issues certificates for clients.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate of a client, with its key.
#[derive(Clone)]
struct Shown {
    cert: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn issue(&self) -> Shown {
        self.issue_with(|_| ())
    }

    fn issue_with(&self, change: impl FnOnce(&mut CertificateParams)) -> Shown {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "a client");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(SerialNumber::from(SERIAL));
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Shown { cert, key: key.serialize_pem() }
    }

    /// A list on which all that it issued is revoked.
    fn revoking(&self) -> String {
        let now = time::OffsetDateTime::now_utc();
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(SERIAL),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: now,
            next_update: now + time::Duration::days(1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

/// A server that asks for certificates of clients.
struct Guarded {
    server: RunningServer,
    folder: TempDir,
}

impl Guarded {
    fn start(authority: &Authority, auth: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_server_certificate(folder.path());
        std::fs::write(folder.path().join("clients.pem"), &authority.pem).unwrap();
        let server = RunningServer::start_with(&folder.path().join("data"), |command| {
            command.arg("--audit-file").arg(folder.path().join("audit.json"));
            serve_with(command, folder.path()).env("TAVOLA_TLS__CLIENT_AUTH", auth)
        });
        Self { server, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn client(
        &self,
        shown: Option<&Shown>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::aws_lc_rs::default_provider(),
        ))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
        Arc::new(match shown {
            None => config.with_no_client_auth(),
            Some(Shown { cert, key }) => {
                let chain = CertificateDer::pem_slice_iter(cert.as_bytes())
                    .collect::<Result<_, _>>()
                    .unwrap();
                config
                    .with_client_auth_cert(
                        chain,
                        PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                    )
                    .unwrap()
            }
        })
    }

    /// Whether a client gets an answer over each version of TLS; the same for all of them.
    fn lets_in(&self, shown: Option<&Shown>) -> bool {
        let each = self.answers_by_version(shown);
        assert_eq!(each[0], each[1], "both versions of TLS decide alike");
        each[0]
    }

    /// Waits until it is so: what was read again counts for both versions at once, but not between
    /// two questions.
    fn comes_to_let_in(&self, what: &str, shown: &Shown, is_let_in: bool) {
        eventually(what, || self.answers_by_version(Some(shown)) == [is_let_in; 2]);
    }

    fn answers_by_version(&self, shown: Option<&Shown>) -> [bool; 2] {
        [&TLS13, &TLS12].map(|version| self.answers(&self.client(shown, &[version])))
    }

    fn answers(&self, config: &Arc<ClientConfig>) -> bool {
        self.get(config, "/-/ready").is_ok_and(|answer| answer.status() == 200)
    }

    fn get(&self, config: &Arc<ClientConfig>, path: &str) -> Result<Response<Bytes>, HttpError> {
        let url = format!("https://{}{path}", self.server.table);
        let request = Request::get(&url).body(Bytes::new()).unwrap();
        let connector = Connector::new(TIME_MAX).trusting(Arc::clone(config));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = Connection::open(&connector, request.uri()).await?;
            let answer = connection.exchange(request, ANSWER_BYTES_MAX);
            tokio::time::timeout(TIME_MAX, answer).await.unwrap()
        })
    }
}

fn make_server_certificate(folder: &Path) {
    let made =
        tavola().args(["cert", "--authority", "--force", "--out"]).arg(folder).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

fn serve_with<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command
        .arg("--tls-cert")
        .arg(folder.join("cert.pem"))
        .arg("--tls-key")
        .arg(folder.join("key.pem"));
    command.arg("--tls-client-ca").arg(folder.join("clients.pem"))
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn required_means_that_only_certificates_that_hold_come_in() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let guarded = Guarded::start(&ours, "required");
    assert!(guarded.lets_in(Some(&ours.issue())));
    assert!(!guarded.lets_in(None), "without a certificate");
    assert!(!guarded.lets_in(Some(&other.issue())), "of another authority");
    let year = |year| rcgen::date_time_ymd(year, 1, 1);
    let expired =
        ours.issue_with(|params| (params.not_before, params.not_after) = (year(2020), year(2021)));
    assert!(!guarded.lets_in(Some(&expired)), "expired");
    let to_come =
        ours.issue_with(|params| (params.not_before, params.not_after) = (year(2100), year(2101)));
    assert!(!guarded.lets_in(Some(&to_come)), "not good yet");
    let of_a_server = ours.issue_with(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]
    });
    assert!(!guarded.lets_in(Some(&of_a_server)), "for another use");
}

/// Who was refused, and whose certificate it was that was let in.
#[test]
fn the_audit_log_knows_certificates() {
    let ours = Authority::new("ours");
    let guarded = Guarded::start(&ours, "required");
    let client = ours.issue();
    let nameless = guarded.get(&guarded.client(None, &[&TLS13]), "/-/ready");
    assert!(matches!(nameless, Err(HttpError::ClientCertificateNeeded(_))), "{nameless:?}");
    let denied = format!("/{}/Tables", crate::common::ACCOUNT);
    guarded.get(&guarded.client(Some(&client), &[&TLS13]), &denied).unwrap();
    let audit = || std::fs::read_to_string(guarded.path("audit.json")).unwrap();
    eventually("both are in the log", || audit().contains("\"event\":\"request\""));
    let lines: Vec<serde_json::Value> =
        audit().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let handshake = lines.iter().find(|line| line["event"] == "handshake").unwrap();
    assert_eq!(
        (&handshake["address"], &handshake["reason"]),
        (&"127.0.0.1".into(), &"certificate".into())
    );
    let der = CertificateDer::from_pem_slice(client.cert.as_bytes()).unwrap();
    let fingerprint: String =
        Sha256::digest(&der).iter().map(|byte| format!("{byte:02x}")).collect();
    let request = lines.iter().find(|line| line["event"] == "request").unwrap();
    assert_eq!(request["client_certificate_sha256"], fingerprint);
}

#[test]
fn optional_means_that_only_wrong_certificates_are_refused() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let guarded = Guarded::start(&ours, "optional");
    assert!(guarded.lets_in(Some(&ours.issue())));
    assert!(guarded.lets_in(None));
    assert!(!guarded.lets_in(Some(&other.issue())));
}

/// An authority that was replaced, and a certificate that was revoked, end at once, resumed
/// sessions among them.
#[test]
fn authorities_and_revocations_are_read_again() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let guarded = Guarded::start(&old, "required");
    let (of_old, of_new) = (old.issue(), new.issue());
    let resuming = [&TLS13, &TLS12].map(|version| guarded.client(Some(&of_old), &[version]));
    assert!(resuming.iter().all(|config| guarded.answers(config)));
    assert!(!guarded.lets_in(Some(&of_new)));
    // Nobody signals: the file is looked at every two seconds.
    std::fs::write(guarded.path("clients.pem"), &new.pem).unwrap();
    guarded.comes_to_let_in("the new authority counts", &of_new, true);
    assert!(!guarded.lets_in(Some(&of_old)));
    assert!(
        !resuming.iter().any(|config| guarded.answers(config)),
        "sessions of the old authority are not resumed"
    );
    let both = format!("{}{}", new.pem, new.revoking());
    std::fs::write(guarded.path("clients.pem"), both).unwrap();
    guarded.server.signal("-HUP");
    guarded.comes_to_let_in("the certificate is revoked", &of_new, false);
    let good = new.issue_with(|params| params.serial_number = Some(SerialNumber::from(SERIAL + 1)));
    assert!(guarded.lets_in(Some(&good)), "others of the same authority are good");
    std::fs::write(guarded.path("clients.pem"), "nothing of use").unwrap();
    guarded.server.signal("-HUP");
    assert!(guarded.lets_in(Some(&good)), "what cannot be used changes nothing");
    std::fs::write(guarded.path("clients.pem"), &new.pem).unwrap();
    guarded.comes_to_let_in("what can be used again is", &of_new, true);
}

#[test]
fn a_certificate_made_and_shown_by_openssl() {
    let guarded = Guarded::start(&Authority::new("not asked"), "required");
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(guarded.folder.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout o-ca.key -out o-ca.pem -subj /CN=o",
    );
    // Without extensions it would be a certificate of version 1.
    std::fs::write(guarded.path("o.cnf"), "extendedKeyUsage = clientAuth\n").unwrap();
    openssl("req -newkey rsa:2048 -nodes -keyout o.key -out o.csr -subj /CN=client");
    openssl(
        "x509 -req -in o.csr -CA o-ca.pem -CAkey o-ca.key -CAcreateserial -days 1 -extfile o.cnf -out o.pem",
    );
    std::fs::copy(guarded.path("o-ca.pem"), guarded.path("clients.pem")).unwrap();
    let read = |name| std::fs::read_to_string(guarded.path(name)).unwrap();
    let shown = Shown { cert: read("o.pem"), key: read("o.key") };
    guarded.comes_to_let_in("the authority is read", &shown, true);
    let ask = |more: &str| {
        let connect = format!(
            "s_client -quiet -CAfile ca.pem -verify_return_error -connect {}{more}",
            guarded.server.table
        );
        let mut client = Command::new("openssl");
        client.args(connect.split(' ')).current_dir(guarded.folder.path());
        let mut client = client
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let request = "GET /-/ready HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        let mut stdin = client.stdin.take().unwrap();
        // A client that is refused may be gone already.
        let _gone = stdin.write_all(request.as_bytes());
        String::from_utf8(client.wait_with_output().unwrap().stdout).unwrap()
    };
    let answer = ask(" -cert o.pem -key o.key");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(ask(""), "");
}

#[test]
fn what_cannot_be_used_is_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    make_server_certificate(folder.path());
    let refused = |with: &dyn Fn(&mut Command)| {
        let mut command = crate::common::cli::in_folder(folder.path());
        with(command.args([
            "serve",
            "--table-port",
            "0",
            "--admin-port",
            "0",
            "--store",
            "memory",
        ]));
        let done = crate::common::cli::run(&mut command);
        assert_ne!(done.code, Some(0));
        done.stderr
    };
    std::fs::write(folder.path().join("clients.pem"), "no certificate\n").unwrap();
    let text = refused(&|command| {
        serve_with(command, folder.path());
    });
    assert!(
        text.contains("clients.pem") && text.contains("no PEM block named CERTIFICATE"),
        "{text}"
    );
    std::fs::remove_file(folder.path().join("clients.pem")).unwrap();
    let text = refused(&|command| {
        serve_with(command, folder.path());
    });
    assert!(text.contains("clients.pem") && text.contains("No such file"), "{text}");
    let text = refused(&|command| {
        command.args(["--tls-client-ca", "clients.pem"]);
    });
    assert!(text.contains("set tls.cert too"), "{text}");
    let text = refused(&|command| {
        serve_with(command, folder.path()).env("TAVOLA_TLS__CLIENT_AUTH", "maybe");
    });
    assert!(text.contains("\"maybe\" is not required or optional"), "{text}");
}

#[test]
fn doctor_says_what_it_cannot_see() {
    let guarded = Guarded::start(&Authority::new("ours"), "required");
    let endpoint =
        format!("TableEndpoint=https://{}/{};", guarded.server.table, crate::common::ACCOUNT);
    let string = format!(
        "AccountName={};AccountKey={};{endpoint}",
        crate::common::ACCOUNT,
        crate::common::KEY
    );
    let mut command = crate::common::cli::in_folder(guarded.folder.path());
    let done = crate::common::cli::run(command.args([
        "doctor",
        "--ca-file",
        "ca.pem",
        "--connection-string",
        &string,
    ]));
    assert!(
        done.stdout.contains("requires a client certificate"),
        "{}{}",
        done.stdout,
        done.stderr
    );
}
