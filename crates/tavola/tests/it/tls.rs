//! https: certificates in every form, both versions of TLS and of HTTP, renewal, bounds and
//! shutdown.

pub(crate) mod client;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::client::{Client, insert, name};
use crate::common::{ACCOUNT, KEY, RunningServer, tavola};
use bytes::Bytes;
use client::{BOTH_TLS, Files, SecureClient, eventually, signed, whole};
use http::{HeaderValue, Method, Request, StatusCode, Version};
use rustls::version::{TLS12, TLS13};
use tavola_core::request::EntityQuery;
use tavola_core::{EntityGroupTransaction, TableRequest};
use tavola_protocol::table::decode::Decoded;
use tavola_protocol::table::entity_json::MetadataLevel;
use tempfile::TempDir;

/// A server with a certificate, and what it logged.
struct SecureServer {
    server: RunningServer,
    files: Files,
    _folder: TempDir,
    log: PathBuf,
}

impl SecureServer {
    fn start() -> Self {
        Self::start_with(|command, files| {
            command
                .arg("--tls-cert")
                .arg(files.path("cert.pem"))
                .arg("--tls-key")
                .arg(files.path("key.pem"));
        })
    }

    fn start_with(with: impl FnOnce(&mut Command, &Files)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::make(&folder.path().join("certificates"));
        let log = folder.path().join("log");
        let stderr = std::fs::File::create(&log).unwrap();
        let server = RunningServer::start_with(&folder.path().join("data"), |command| {
            with(command.stderr(stderr), &files);
            command
        });
        Self { server, files, _folder: folder, log }
    }

    async fn connect(&self) -> SecureClient {
        SecureClient::connect(&self.server.table, &self.files.trust_h2()).await.unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    async fn wait_for_log(&self, words: &str, times: usize) {
        eventually(words, async || (self.log().matches(words).count() >= times).then_some(()))
            .await;
    }

    async fn wait_for_requests_in_flight(&self, count: usize) {
        let shown = format!("\"requests_in_flight\":{count},");
        eventually(&shown, async || self.admin("/status").contains(&shown).then_some(())).await;
    }

    fn admin(&self, path: &str) -> String {
        plain_get(&self.server.admin, path)
    }
}

/// One plain request on a connection of its own, and all that comes back.
fn plain_get(authority: &str, path: &str) -> String {
    let mut stream = connect(authority);
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    read_to_close(&mut stream)
}

fn connect(authority: &str) -> TcpStream {
    let stream = TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Fails if the server leaves the connection open.
fn read_to_close(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn write_request(table: &str, key: &str) -> TableRequest {
    let (partition_key, operation) = insert(key, 1);
    TableRequest::Write(name(table), partition_key, operation)
}

fn openssl(arguments: &[&str], folder: &Path) -> bool {
    Command::new("openssl").args(arguments).current_dir(folder).output().unwrap().status.success()
}

/// Creates a table, inserts, sends a batch, and reads everything back.
async fn use_tables(client: &SecureClient) {
    client.ask(&TableRequest::CreateTable(name("used"))).await;
    client.ask(&write_request("used", "p/0")).await;
    let operations = (1..=3).map(|number| insert(&format!("p/{number}"), number)).collect();
    let transaction = EntityGroupTransaction::new(operations).unwrap();
    client.ask(&TableRequest::Transaction(name("used"), transaction)).await;
    let answer =
        client.ask(&TableRequest::QueryEntities(name("used"), EntityQuery::default())).await;
    let Decoded::Entities(entities, None) = answer else { panic!("{answer:?}") };
    assert_eq!(entities.len(), 4);
    client.ask(&TableRequest::DeleteTable(name("used"))).await;
}

#[tokio::test]
async fn every_version_of_tls_and_http() {
    let server = SecureServer::start();
    for tls in [&TLS12, &TLS13] {
        for (alpn, is_h2) in
            [(&["h2"][..], true), (&["http/1.1"], false), (&["h2", "http/1.1"], true), (&[], false)]
        {
            let config = server.files.trust(&[tls], alpn);
            let client = SecureClient::connect(&server.server.table, &config).await.unwrap();
            assert_eq!((client.version, client.is_h2()), (tls.version, is_h2), "{alpn:?}");
            assert_eq!(client.certificate, server.files.certificate());
            use_tables(&client).await;
        }
    }
    let log = server.log();
    assert!(log.contains(&server.files.fingerprint) && log.contains("\"expires\":"), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}

#[tokio::test]
async fn urls_in_answers_say_https() {
    let server = SecureServer::start();
    let client = server.connect().await;
    client.ask(&TableRequest::CreateTable(name("table"))).await;
    let query = client.signed(
        &TableRequest::QueryEntities(name("table"), EntityQuery::default()),
        MetadataLevel::Full,
    );
    let response = client.send(query.map(whole)).await.unwrap();
    let body = String::from_utf8(response.body().to_vec()).unwrap();
    let base =
        format!("\"odata.metadata\":\"https://{}/{ACCOUNT}/$metadata#table\"", server.server.table);
    assert!(body.contains(&base), "{body}");
}

/// Over plain http the scheme is what a trusted proxy says, and nobody else.
#[test]
fn only_a_trusted_proxy_says_the_scheme() {
    for (trusted, scheme) in [("127.0.0.1", "https"), ("10.0.0.0/8", "http")] {
        let folder = tempfile::tempdir().unwrap();
        let server = RunningServer::start_with(folder.path(), |command| {
            command.arg("--development-account").env("TAVOLA_SERVER__TRUSTED_PROXIES", trusted)
        });
        let create = TableRequest::CreateTable(name("table"));
        let mut request = signed(&server.endpoint(), &create, MetadataLevel::Minimal);
        request.headers_mut().insert("x-forwarded-proto", HeaderValue::from_static("https"));
        request.headers_mut().insert("x-forwarded-for", HeaderValue::from_static("203.0.113.7"));
        let response = Client::connect(&server.table).unwrap().exchange(&request).unwrap();
        let location = format!("{scheme}://{}/{ACCOUNT}/Tables('table')", server.table);
        assert_eq!(response.headers()["location"], location);
    }
}

#[tokio::test]
async fn pfx_of_today_and_of_old() {
    const PASSWORD: &str = "topsecretpassword";
    let export =
        ["pkcs12", "-export", "-in", "cert.pem", "-inkey", "key.pem", "-certfile", "ca.pem"];
    let old = ["-certpbe", "PBE-SHA1-3DES", "-keypbe", "PBE-SHA1-3DES", "-macalg", "sha1"];
    for (kind, more) in [("today", &[][..]), ("old", &old[..]), ("legacy", &["-legacy"])] {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::make(folder.path());
        let passed = format!("pass:{PASSWORD}");
        let arguments = [&export[..], more, &["-passout", &passed, "-out", "both.pfx"]].concat();
        if !openssl(&arguments, folder.path()) {
            // Without OpenSSL's module of old ciphers there is no such file to be had.
            assert_eq!(kind, "legacy");
            continue;
        }
        std::fs::write(files.path("password"), format!("{PASSWORD}\n")).unwrap();
        let server = SecureServer::start_with(|command, _| {
            command.env("TAVOLA_TLS__PASSWORD_FILE", files.path("password"));
            command.args(["--log-level", "trace"]).arg("--tls-cert").arg(files.path("both.pfx"));
        });
        let client = SecureClient::connect(&server.server.table, &files.trust_h2()).await.unwrap();
        assert_eq!(client.certificate, files.certificate(), "{kind}");
        use_tables(&client).await;
        assert!(!server.log().contains(PASSWORD), "{kind}");
    }
}

#[tokio::test]
async fn a_hundred_requests_at_a_time_on_one_connection() {
    let server = SecureServer::start();
    let client = server.connect().await;
    client.ask(&TableRequest::CreateTable(name("table"))).await;
    let begun: Vec<_> =
        (0..100).map(|row| client.begin(&write_request("table", &format!("p/{row:03}")))).collect();
    server.wait_for_requests_in_flight(100).await;
    for request in begun {
        assert_eq!(request.finish().await.status(), StatusCode::NO_CONTENT);
    }
    let answer =
        client.ask(&TableRequest::QueryEntities(name("table"), EntityQuery::default())).await;
    let Decoded::Entities(entities, None) = answer else { panic!("{answer:?}") };
    assert_eq!(entities.len(), 100);
}

/// What HTTP/1.1 gets from hyper, HTTP/2 must get from us.
#[tokio::test]
async fn answers_without_a_body_have_none() {
    let server = SecureServer::start();
    let client = server.connect().await;
    client.ask(&TableRequest::CreateTable(name("table"))).await;
    let signed = client.signed(&write_request("table", "p/r"), MetadataLevel::Minimal);
    let response = client.send(signed.map(whole)).await.unwrap();
    assert_eq!((response.version(), response.status()), (Version::HTTP_2, StatusCode::NO_CONTENT));
    assert!(!response.headers().contains_key("content-length"), "{:?}", response.headers());
    let uri = format!("https://{}/{ACCOUNT}/Tables", server.server.table);
    let head = Request::builder().method(Method::HEAD).uri(&uri).body(whole(Bytes::new())).unwrap();
    let response = client.send(head).await.unwrap();
    assert!(response.status().is_client_error() && response.body().is_empty(), "{response:?}");
    // More than is taken, and not so much that the connection ends for it.
    let filler = "a".repeat(90_000);
    let huge = Request::get(&uri).header("x-filler", filler).body(whole(Bytes::new())).unwrap();
    let response = client.send(huge).await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    use_tables(&client.clone()).await;
}

/// A proxy before us may have gone by the other name.
#[tokio::test]
async fn two_hosts_are_refused_over_http2_too() {
    let server = SecureServer::start();
    let client = server.connect().await;
    let (own, uri) =
        (&server.server.table, format!("https://{}/{ACCOUNT}/Tables", server.server.table));
    for (hosts, expected) in [
        (&[][..], StatusCode::UNAUTHORIZED),
        (&[own.as_str()], StatusCode::UNAUTHORIZED),
        (&["other.example"], StatusCode::BAD_REQUEST),
        (&[own.as_str(), own.as_str()], StatusCode::BAD_REQUEST),
    ] {
        let mut request = Request::get(&uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        let response = client.send(request.body(whole(Bytes::new())).unwrap()).await.unwrap();
        assert_eq!(
            (response.version(), response.status()),
            (Version::HTTP_2, expected),
            "{hosts:?}"
        );
    }
}

/// Requests one after the other on an open connection, until told to stop.
struct Traffic {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Traffic {
    fn start(client: SecureClient) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&answered));
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let query = TableRequest::QueryEntities(name("table"), EntityQuery::default());
                client.try_ask(&query).await.expect("no request fails because of a renewal");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, answered, task }
    }

    async fn wait_for_more(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        eventually("more answers", async || {
            (self.answered.load(Ordering::Relaxed) > before + 3).then_some(())
        })
        .await;
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_is_taken_up_while_requests_are_in_flight() {
    let server = SecureServer::start();
    let old = server.connect().await;
    old.ask(&TableRequest::CreateTable(name("table"))).await;
    let in_flight = old.begin(&write_request("table", "p/slow"));
    server.wait_for_requests_in_flight(1).await;
    let traffic = Traffic::start(old.clone());
    let renewed = Files::make(&server.files.folder);
    assert_ne!(old.certificate, renewed.certificate());
    let trust = renewed.trust_h2();
    let new = eventually("the new certificate", async || {
        SecureClient::connect(&server.server.table, &trust).await.ok()
    });
    let new = new.await;
    assert_eq!(new.certificate, renewed.certificate());
    new.ask(&TableRequest::CreateTable(name("other"))).await;
    traffic.wait_for_more().await;
    assert_eq!(in_flight.finish().await.status(), StatusCode::NO_CONTENT);

    // Nothing has changed now, so only the signal can be the reason for another load.
    assert_eq!(server.log().matches("certificate loaded").count(), 2);
    let in_flight = old.begin(&write_request("table", "p/slow2"));
    server.wait_for_requests_in_flight(1).await;
    server.server.signal("-HUP");
    server.wait_for_log("certificate loaded", 3).await;
    traffic.wait_for_more().await;
    assert_eq!(in_flight.finish().await.status(), StatusCode::NO_CONTENT);
    traffic.stop().await;
    assert!(!old.is_closed().await);
    let log = server.log();
    assert_eq!(log.matches(&renewed.fingerprint).count(), 2, "{log}");
    assert!(!log.contains("ERROR"), "{log}");
}

#[tokio::test]
async fn a_broken_file_keeps_the_old_certificate_and_is_logged() {
    let server = SecureServer::start();
    std::fs::write(server.files.path("key.pem"), "half a key").unwrap();
    server.wait_for_log("the old one stays in use", 1).await;
    server.server.signal("-HUP");
    server.wait_for_log("configuration rejected; the previous one stays in effect", 1).await;
    let log = server.log();
    assert!(log.contains("key.pem holds no usable private key"), "{log}");
    use_tables(&server.connect().await).await;
    assert!(server.admin("/ready").starts_with("HTTP/1.1 200"));
    assert!(server.admin("/metrics").starts_with("HTTP/1.1 200"));
    let renewed = Files::make(&server.files.folder);
    let trust = renewed.trust_h2();
    eventually("the repaired file", async || {
        SecureClient::connect(&server.server.table, &trust).await.ok()
    })
    .await;
}

#[test]
fn a_certificate_that_cannot_be_used_is_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(folder.path());
    let other = Files::make(&folder.path().join("other"));
    let export =
        ["pkcs12", "-export", "-in", "cert.pem", "-inkey", "key.pem", "-passout", "pass:right"];
    assert!(openssl(&[&export[..], &["-out", "both.pfx"]].concat(), &files.folder));
    std::fs::write(files.path("cut.pfx"), &std::fs::read(files.path("both.pfx")).unwrap()[..300])
        .unwrap();
    let at = |name: &str| files.path(name).display().to_string();
    let (cert, key, pfx, cut) = (at("cert.pem"), at("key.pem"), at("both.pfx"), at("cut.pfx"));
    let (missing, other_key) = (at("missing.pem"), other.path("key.pem").display().to_string());
    for (cert, key, password, words) in [
        (&missing, Some(&key), None, format!("cannot read {missing}: No such file")),
        (&cert, Some(&missing), None, format!("cannot read {missing}: No such file")),
        (&key, Some(&key), None, format!("{key} holds no usable certificate")),
        (&cert, Some(&cert), None, format!("{cert} holds no usable private key")),
        (&cert, None, None, format!("{cert} holds no usable private key: set tls.key")),
        (
            &cert,
            Some(&other_key),
            None,
            format!("key in {other_key} does not belong to the certificate in {cert}"),
        ),
        (&pfx, None, None, format!("wrong password for {pfx}")),
        (&pfx, None, Some("wrong-secret"), format!("wrong password for {pfx}")),
        (&cut, None, Some("right"), format!("{cut} is not a PFX file that can be read")),
        (&pfx, Some(&key), Some("right"), "leave tls.key out".to_owned()),
    ] {
        for arguments in
            [&["serve", "--store", "memory", "--table-port", "0"][..], &["config", "check"]]
        {
            let mut command = tavola();
            command.args(arguments).args(["--tls-cert", cert]);
            command.args(key.iter().flat_map(|key| ["--tls-key", key]));
            command.envs(password.map(|password| ("TAVOLA_TLS__PASSWORD", password)));
            let output = command.output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(
                (output.status.code(), output.stdout.len()),
                (Some(2), 0),
                "{words}: {stderr}"
            );
            assert!(
                stderr.contains(&words) && !stderr.contains("wrong-secret"),
                "{words}: {stderr}"
            );
        }
    }
}

#[test]
fn plain_http_on_the_secure_port_is_told_so() {
    let server = SecureServer::start();
    let answer = plain_get(&server.server.table, &format!("/{ACCOUNT}/Tables"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{answer}");
    assert!(body.contains("https://"), "{answer}");
    for bytes in [&b"\x00\xff\x00\xff garbage"[..], b"\x16\x03\x01\xff\xff garbage", b"ssh"] {
        let mut stream = connect(&server.server.table);
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        read_to_close(&mut stream);
    }
    let log = server.log();
    let unasked = log.lines().filter(|line| !line.contains("DEBUG")).count();
    assert!(!log.contains("WARN") && !log.contains("ERROR") && unasked <= 2, "{log}");
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(async { use_tables(&server.connect().await).await });
}

#[test]
fn the_plain_port_speaks_http1_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let mut stream = connect(&server.table);
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        .unwrap();
    assert!(!read_to_close(&mut stream).contains("200"));
}

/// Neither half a handshake nor a connection without requests holds a place for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handshakes_and_idle_connections_are_closed() {
    let server = SecureServer::start_with(|command, files| {
        command.env("TAVOLA_LIMITS__HEADER_SECONDS", "1");
        command
            .arg("--tls-cert")
            .arg(files.path("cert.pem"))
            .arg("--tls-key")
            .arg(files.path("key.pem"));
    });
    for beginning in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"] {
        let mut stream = connect(&server.server.table);
        stream.write_all(beginning).unwrap();
        assert_eq!(read_to_close(&mut stream), "", "closed without a word");
    }
    for alpn in [&["h2"][..], &["http/1.1"]] {
        let config = server.files.trust(BOTH_TLS, alpn);
        let client = SecureClient::connect(&server.server.table, &config).await.unwrap();
        use_tables(&client).await;
        eventually("the idle connection is closed", async || {
            client.is_closed().await.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn beyond_the_connections_the_answer_is_server_busy() {
    let server = SecureServer::start_with(|command, files| {
        command.env("TAVOLA_LIMITS__CONNECTIONS", "1");
        command
            .arg("--tls-cert")
            .arg(files.path("cert.pem"))
            .arg("--tls-key")
            .arg(files.path("key.pem"));
    });
    let first = server.connect().await;
    use_tables(&first).await;
    let second = server.connect().await;
    assert!(!second.is_h2());
    let uri = format!("https://{}/{ACCOUNT}/Tables", server.server.table);
    let response = second.send(Request::get(uri).body(whole(Bytes::new())).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["x-ms-error-code"], "ServerBusy");
    use_tables(&first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_lets_an_open_request_finish() {
    for alpn in [&["h2"][..], &["http/1.1"]] {
        // So long that the server ends because all is done, or not at all.
        let server = SecureServer::start_with(|command, files| {
            command.env("TAVOLA_LIMITS__DRAIN_SECONDS", "3600");
            command
                .arg("--tls-cert")
                .arg(files.path("cert.pem"))
                .arg("--tls-key")
                .arg(files.path("key.pem"));
        });
        let config = server.files.trust(BOTH_TLS, alpn);
        let client = SecureClient::connect(&server.server.table, &config).await.unwrap();
        let idle = SecureClient::connect(&server.server.table, &config).await.unwrap();
        client.ask(&TableRequest::CreateTable(name("table"))).await;
        use_tables(&idle).await;
        // A handshake that never goes on must not hold the server up.
        let _half_open = connect(&server.server.table);
        let in_flight = client.begin(&write_request("table", "p/r"));
        server.wait_for_requests_in_flight(1).await;
        server.server.signal("-TERM");
        let refused = async || TcpStream::connect(&server.server.table).is_err().then_some(());
        eventually("no new connections", refused).await;
        assert_eq!(in_flight.finish().await.status(), StatusCode::NO_CONTENT, "{alpn:?}");
        let SecureServer { server, log, _folder, .. } = server;
        assert!(server.terminate().success());
        assert!(std::fs::read_to_string(log).unwrap().contains("\"stopped\""));
        eventually("the idle connection is closed", async || idle.is_closed().await.then_some(()))
            .await;
    }
}

#[test]
fn start_up_lines_say_https() {
    let server = SecureServer::start().server;
    let expected = [
        format!("Table service is listening at https://{}", server.table),
        format!(
            "No account is configured, so the development account is served: DefaultEndpointsProtocol=https;\
             AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=https://{}/{ACCOUNT};",
            server.table
        ),
        format!("Health and metrics: http://{0}/ready and http://{0}/metrics", server.admin),
    ];
    assert_eq!(server.start_up, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flags_of_azurite() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(folder.path());
    let export = [
        "pkcs12", "-export", "-in", "cert.pem", "-inkey", "key.pem", "-passout", "pass:p", "-out",
        "both.pfx",
    ];
    assert!(openssl(&export, folder.path()));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tavola"), folder.path().join("azurite"))
        .unwrap();
    for flags in
        [&["--cert", "cert.pem", "--key", "key.pem"][..], &["--cert", "both.pfx", "--pwd", "p"]]
    {
        let mut command = Command::new(folder.path().join("azurite"));
        command.args(["--tablePort", "0", "--silent", "--inMemoryPersistence"]).args(flags);
        let server =
            RunningServer::spawn(command.current_dir(folder.path()).env_remove("AZURITE_ACCOUNTS"));
        let expected = ["starting", "successfully listening"]
            .map(|state| format!("Azurite Table service is {state} at https://{}", server.table));
        assert_eq!(server.start_up, expected);
        use_tables(&SecureClient::connect(&server.table, &files.trust_h2()).await.unwrap()).await;
        assert!(server.terminate().success());
    }
}
