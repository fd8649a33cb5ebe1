//! The admin port under attack: connections that are held, and signatures that are used again or
//! elsewhere.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::admin::{post, signed_post};
use crate::common::cli::run;
use crate::common::client::{Client, now};
use crate::common::{RunningServer, free_port, tavola};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tavola_core::AccountName;
use tavola_protocol::auth::{AccountKey, Scheme, sign_admin_request, sign_request};
use tavola_testkit::record;

/// As many as the port serves at a time.
const CONNECTIONS_MAX: usize = 64;

fn get(authority: &str, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Bytes::new()).unwrap();
    let answer = Client::connect(authority).unwrap().exchange(&request).unwrap();
    (answer.status(), String::from_utf8(answer.body().to_vec()).unwrap())
}

fn hold(admin: &str, bytes: &[u8]) -> Vec<TcpStream> {
    let connect = || {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    (0..CONNECTIONS_MAX).map(|_| connect()).collect()
}

#[test]
fn health_and_metrics_answer_while_all_connections_are_held() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let whole = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", server.admin);
    for bytes in [&b""[..], b"GET /ready HTTP/1.1\r\nX-Slow: ", whole.as_bytes()] {
        let held = hold(&server.admin, bytes);
        for _ in 0..3 {
            assert_eq!(get(&server.admin, "/ready"), (StatusCode::OK, "ready\n".to_owned()));
            let (status, text) = get(&server.admin, "/metrics");
            assert!(status == StatusCode::OK && text.contains("# EOF"), "{text}");
        }
        drop(held);
    }
}

/// Sooner than the server ends connections because no request comes on them.
const EVICTION_TIME_MAX: Duration = Duration::from_secs(8);

#[test]
fn connections_are_bounded_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let deadline = Instant::now() + EVICTION_TIME_MAX;
    let _held: Vec<_> = (0..4).flat_map(|_| hold(&server.admin, b"")).collect();
    while open_sockets(&server) >= 2 * CONNECTIONS_MAX {
        assert!(Instant::now() < deadline, "{} sockets", open_sockets(&server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn open_sockets(server: &RunningServer) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// A server with the account `shop`, and the account's first key.
fn shop(folder: &Path) -> (RunningServer, String) {
    let accounts = folder.join("accounts");
    let key =
        run(tavola().args(["account", "add", "shop", "--accounts-folder"]).arg(&accounts)).text();
    record::secret(&key);
    let server = RunningServer::start_with(&folder.join("data"), |command| {
        command.arg("--accounts-folder").arg(&accounts)
    });
    (server, key)
}

fn send(server: &RunningServer, request: &Request<Bytes>) -> Response<Bytes> {
    Client::connect(&server.admin).unwrap().exchange(request).unwrap()
}

fn words(response: &Response<Bytes>) -> String {
    String::from_utf8_lossy(response.body()).into_owned()
}

#[test]
fn a_signature_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let (server, key) = shop(folder.path());
    for path in ["/reload", "/accounts/shop/rotate?key=2"] {
        let request = signed_post("shop", &key, path);
        assert_eq!(send(&server, &request).status(), StatusCode::OK, "{path}");
        for _ in 0..2 {
            let again = send(&server, &request);
            assert_eq!(again.status(), StatusCode::UNAUTHORIZED, "{path}");
            assert!(words(&again).contains("was used before"), "{}", words(&again));
        }
    }
    assert_eq!(
        post(&server.admin, "shop", &key, "/reload").status(),
        StatusCode::OK,
        "a new one counts"
    );
}

#[test]
fn a_signature_counts_for_its_request_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (server, key) = shop(folder.path());
    let signed = || signed_post("shop", &key, "/accounts/shop/rotate?key=2");
    let refused = |request: &Request<Bytes>, what: &str| {
        let answer = send(&server, request);
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{what}");
        assert_eq!(answer.headers()["www-authenticate"], "TavolaAdmin", "{what}");
    };
    for target in ["/accounts/shop/rotate?key=1", "/reload"] {
        let mut other = signed();
        *other.uri_mut() = target.parse().unwrap();
        refused(&other, target);
    }
    let mut other = signed();
    other.headers_mut().insert("x-ms-client-request-id", "another".parse().unwrap());
    refused(&other, "another id");
    let (account, account_key) =
        (AccountName::parse("shop").unwrap(), AccountKey::parse(&key).unwrap());
    for minutes in [-6_i64, 6] {
        let by = Duration::from_secs(minutes.unsigned_abs() * 60);
        let at = if minutes < 0 { now() - by } else { now() + by };
        let mut request = Request::post("/reload").body(Bytes::new()).unwrap();
        sign_admin_request(&mut request, &account, &account_key, at);
        refused(&request, &format!("{minutes} minutes"));
    }
    assert_eq!(send(&server, &signed()).status(), StatusCode::OK);
}

/// In host style a request for a table called `reload` has the path of the change, and was signed
/// the same.
#[test]
fn a_signature_for_a_table_is_no_good() {
    let folder = tempfile::tempdir().unwrap();
    let (server, key) = shop(folder.path());
    let (account, account_key) =
        (AccountName::parse("shop").unwrap(), AccountKey::parse(&key).unwrap());
    for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
        let mut request = Request::post("/reload").body(Bytes::new()).unwrap();
        sign_request(&mut request, scheme, &account, &account_key, now());
        let answer = send(&server, &request);
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{scheme:?}");
        assert!(words(&answer).contains("Authorization: TavolaAdmin"), "{}", words(&answer));
        let renamed = request.headers()["authorization"]
            .to_str()
            .unwrap()
            .replace(scheme.name(), "TavolaAdmin");
        request.headers_mut().insert("authorization", renamed.parse().unwrap());
        assert_eq!(
            send(&server, &request).status(),
            StatusCode::UNAUTHORIZED,
            "{scheme:?} under another name"
        );
    }
}

/// A captured signature must not count again for the process that comes next.
#[test]
fn a_restart_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (server, key) = shop(folder.path());
    let (account, account_key) =
        (AccountName::parse("shop").unwrap(), AccountKey::parse(&key).unwrap());
    let mut request = Request::post("/reload").body(Bytes::new()).unwrap();
    sign_admin_request(&mut request, &account, &account_key, now() - Duration::from_secs(240));
    let answer = send(&server, &request);
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert!(words(&answer).contains("older than what this server remembers"), "{}", words(&answer));
}

fn azurite(folder: &Path) -> Command {
    let link = folder.join("azurite-table");
    if !link.exists() {
        std::os::unix::fs::symlink(crate::common::BINARY, &link).unwrap();
    }
    let mut command = Command::new(link);
    command.current_dir(folder).env_remove("AZURITE_ACCOUNTS");
    command.args(["--tablePort", "0", "--silent", "--inMemoryPersistence"]);
    command
}

#[test]
fn the_emulator_has_flags_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let admin = SocketAddr::from(([127, 0, 0, 2], free_port()));
    let mut command = azurite(folder.path());
    command.args(["--adminHost", "127.0.0.2", "--adminPort", &admin.port().to_string()]);
    let _server = RunningServer::spawn(&mut command);
    assert_eq!(get(&admin.to_string(), "/ready"), (StatusCode::OK, "ready\n".to_owned()));
    // A port that somebody chose is not exchanged for another.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let done = run(azurite(folder.path()).args(["--adminPort", &port]));
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains(&port) && done.stderr.contains("admin port"), "{done:?}");
}
