//! The access log says why a request was refused, where the answer must not: an operator can tell a
//! wrong clock from a wrong key, and a wrong account from a missing entity.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::common::client::Client;
use crate::common::{ACCOUNT, KEY, tavola};
use bytes::Bytes;
use http::Request;
use tavola_core::AccountName;
use tavola_protocol::auth::{AccountKey, AccountSas, Scheme, TableSas, sign_request};
use tavola_testkit::raw::RawConnection;

/// A server whose standard output is a file.
struct Logged {
    child: Child,
    table: String,
}

impl Logged {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let out = folder.join("out");
        let mut command = tavola();
        command
            .args(["serve", "--table-port", "0", "--admin-port", "0", "--store", "memory"])
            .args(arguments);
        command
            .current_dir(folder)
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let text = wait_for(&out, "/metrics\n");
        let table = text.split("http://").nth(1).unwrap().lines().next().unwrap().to_owned();
        Self { child, table }
    }

    /// The lines of all requests, once there are this many.
    fn finish(mut self, folder: &Path, requests: usize) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let is_line = |line: &&str| line.contains(" ms=") || line.starts_with('{');
        let lines = loop {
            let text = std::fs::read_to_string(folder.join("out")).unwrap();
            let lines: Vec<String> = text.lines().filter(is_line).map(str::to_owned).collect();
            if lines.len() >= requests {
                break lines;
            }
            assert!(Instant::now() < deadline, "{lines:#?}");
            std::thread::sleep(Duration::from_millis(10));
        };
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        self.child.wait().unwrap();
        lines
    }
}

fn wait_for(file: &Path, words: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        let text = std::fs::read_to_string(file).unwrap();
        if text.contains(words) {
            return text;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn account() -> AccountName {
    AccountName::parse(ACCOUNT).unwrap()
}

fn signed(path: &str, key: &str, now: SystemTime) -> Request<Bytes> {
    let mut request = Request::get(path).body(Bytes::new()).unwrap();
    sign_request(
        &mut request,
        Scheme::SharedKey,
        &account(),
        &AccountKey::parse(key).unwrap(),
        now,
    );
    request
}

fn with_sas(method: &str, path: &str, query: &str) -> Request<Bytes> {
    let target = format!("/{ACCOUNT}{path}?{query}");
    Request::builder().method(method).uri(target).body(Bytes::new()).unwrap()
}

fn sas(edit: impl FnOnce(&mut TableSas)) -> String {
    let mut sas = TableSas {
        version: "2019-02-02".to_owned(),
        table: "table".to_owned(),
        permissions: "r".to_owned(),
        expiry: "2034-01-01T00:00:00Z".to_owned(),
        ..TableSas::default()
    };
    edit(&mut sas);
    sas.signed(&account(), &AccountKey::parse(KEY).unwrap())
}

/// Requests that are refused, each with the status and the reason that the log must have.
fn refusals() -> Vec<(Request<Bytes>, u16, &'static str)> {
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    let tables = format!("/{ACCOUNT}/Tables");
    let entity = "/table(PartitionKey='p',RowKey='r')";
    let other = "b3RoZXIga2V5IG9mIGVub3VnaCBieXRlcyB0byBiZSBvbmU=";
    let blobs = AccountSas {
        version: "2019-02-02".to_owned(),
        services: "b".to_owned(),
        resource_types: "sco".to_owned(),
        permissions: "rl".to_owned(),
        expiry: "2034-01-01T00:00:00Z".to_owned(),
        ..AccountSas::default()
    };
    let blobs = blobs.signed(&account(), &AccountKey::parse(KEY).unwrap());
    vec![
        (signed(&tables, other, now), 403, "signature"),
        (signed(&tables, KEY, now - hour), 403, "clock"),
        (signed(&tables, KEY, now + hour), 403, "clock"),
        (Request::get(&tables).body(Bytes::new()).unwrap(), 401, "missing"),
        (signed("/nobody/Tables", KEY, now), 404, "unknown-account"),
        (
            with_sas("GET", "/table()", &sas(|sas| sas.expiry = "2020-01-01T00:00:00Z".to_owned())),
            403,
            "expired",
        ),
        (
            with_sas("GET", "/table()", &sas(|sas| sas.start = "2033-01-01T00:00:00Z".to_owned())),
            403,
            "not-yet",
        ),
        (with_sas("GET", "/table()", &sas(|sas| sas.policy = "none".to_owned())), 403, "policy"),
        (
            with_sas("GET", "/table()", &sas(|sas| sas.protocol = "https".to_owned())),
            403,
            "protocol",
        ),
        (with_sas("GET", "/table()", &sas(|sas| sas.ip = "10.0.0.1".to_owned())), 403, "address"),
        (with_sas("GET", "/table()", &sas(|sas| sas.expiry = "soon".to_owned())), 403, "malformed"),
        (with_sas("GET", "/other()", &sas(|_| {})), 403, "resource"),
        (with_sas("DELETE", entity, &format!("{}&_", sas(|_| {}))), 403, "permission"),
        (
            with_sas("GET", entity, &sas(|sas| sas.start_partition_key = "q".to_owned())),
            403,
            "range",
        ),
        (with_sas("GET", "/Tables", &blobs), 403, "service"),
    ]
}

#[test]
fn every_refusal_has_its_reason() {
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Logged::start(folder.path(), &["--log-format", format]);
        Client::connect(&server.table).unwrap().create_table("table");
        let missing = signed(
            &format!("/{ACCOUNT}/table(PartitionKey='p',RowKey='r')"),
            KEY,
            SystemTime::now(),
        );
        assert_eq!(
            Client::connect(&server.table).unwrap().exchange(&missing).unwrap().status(),
            404
        );
        let expected = refusals();
        for (mut request, status, reason) in expected.clone() {
            if request.method() == "DELETE" {
                request.headers_mut().insert("if-match", "*".parse().unwrap());
            }
            let response = Client::connect(&server.table).unwrap().exchange(&request).unwrap();
            assert_eq!(response.status(), status, "{reason}: {:?}", response.body());
        }
        let lines = server.finish(folder.path(), expected.len() + 2);
        assert!(!lines[0].contains("reason") && !lines[1].contains("reason"), "{lines:#?}");
        for ((_, status, reason), line) in expected.iter().zip(&lines[2..]) {
            let words = match format {
                "text" => [format!("\" {status} "), format!(" reason={reason}")],
                _ => [format!("\"status\":{status},"), format!("\"reason\":\"{reason}\"")],
            };
            assert!(words.iter().all(|words| line.contains(words)), "{reason}: {line}");
        }
    }
}

/// The answer to a date in the future said "too old", and its reader set the clock the wrong way.
#[test]
fn a_date_in_the_future_is_not_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let server = Logged::start(folder.path(), &[]);
    let hour = Duration::from_secs(3600);
    for (date, words) in
        [(SystemTime::now() - hour, "too old"), (SystemTime::now() + hour, "too far in the future")]
    {
        let request = signed(&format!("/{ACCOUNT}/Tables"), KEY, date);
        let response = Client::connect(&server.table).unwrap().exchange(&request).unwrap();
        let body = String::from_utf8_lossy(response.body()).into_owned();
        assert!(response.status() == 403 && body.contains(words), "{body}");
    }
    server.finish(folder.path(), 2);
}

/// Some readers take U+0085, U+2028 and U+2029 for the end of a line, so that a target could write
/// lines of its own.
#[test]
fn no_target_begins_a_line_of_its_own() {
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Logged::start(folder.path(), &["--log-format", format]);
        let separators = ['\u{85}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{9b}'];
        for separator in separators {
            let target = format!("/{ACCOUNT}/T{separator}forged?x={separator}");
            let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let mut raw = RawConnection::open(&server.table).unwrap();
            let status = raw.send(request.as_bytes()).unwrap().status();
            assert!(status.is_client_error(), "{status}");
        }
        let lines = server.finish(folder.path(), separators.len());
        let forged: Vec<_> = lines.iter().filter(|line| line.contains("forged")).collect();
        assert_eq!(forged.len(), separators.len(), "{lines:#?}");
        assert!(
            forged.iter().all(|line| line.bytes().all(|byte| matches!(byte, b' '..=b'~'))),
            "{forged:#?}"
        );
    }
}
