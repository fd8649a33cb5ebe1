//! Accounts while serving: added, rotated and bounded, by files, by signal and through the admin port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::client::{Client, insert, name};
use common::{ACCOUNT, KEY, RunningServer, tavola};
use http::{Request, StatusCode};
use tavola_core::TableRequest;
use tavola_protocol::table::decode::DecodeError;
use tavola_testkit::record;

fn account(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = tavola();
    command.arg("account").args(arguments).arg("--accounts-folder").arg(folder);
    command.output().unwrap()
}

/// The key that a command printed.
fn key(folder: &Path, arguments: &[&str]) -> String {
    let output = account(folder, arguments);
    assert!(output.status.success(), "{output:?}");
    let key = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
    record::secret(&key);
    key
}

fn server(folder: &Path, with: impl FnOnce(&mut Command) -> &mut Command) -> RunningServer {
    RunningServer::start_with(&folder.join("data"), |command| {
        with(command.arg("--accounts-folder").arg(folder.join("accounts")))
    })
}

/// "ok", or the code of the refusal.
fn create(server: &RunningServer, account: &str, key: &str, table: &str) -> String {
    let mut client = Client::connect_as(&server.table, account, key).unwrap();
    match client.ask(&TableRequest::CreateTable(name(table))).unwrap() {
        Ok(_) => "ok".to_owned(),
        Err(DecodeError::Service(error)) => error.code,
        Err(other) => panic!("{other}"),
    }
}

fn post(server: &RunningServer, account: &str, key: &str, path: &str) -> (StatusCode, String) {
    let request = Request::post(path.to_owned()).body(Bytes::new()).unwrap();
    let answer = Client::connect_as(&server.admin, account, key).unwrap().exchange_signed(request).unwrap();
    (answer.status(), String::from_utf8(answer.body().to_vec()).unwrap())
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn accounts_are_added_and_rotated_by_signal() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts");
    let first = key(&accounts, &["add", "shop"]);
    let server = server(folder.path(), |command| command);
    assert_eq!(create(&server, "shop", &first, "one"), "ok");
    assert_eq!(create(&server, ACCOUNT, KEY, "one"), "ResourceNotFound", "the development account is gone");
    let second = key(&accounts, &["rotate", "shop", "--key", "2"]);
    let other = key(&accounts, &["add", "other"]);
    assert_eq!(create(&server, "shop", &second, "two"), "AuthenticationFailed", "not before the server reads it");
    server.signal("-HUP");
    wait_until("the new key counts", || create(&server, "shop", &second, "two") != "AuthenticationFailed");
    assert_eq!(create(&server, "shop", &first, "three"), "ok", "the first key goes on being good");
    assert_eq!(create(&server, "other", &other, "one"), "ok", "a new account is known");
    key(&accounts, &["rotate", "shop", "--key", "1"]);
    server.signal("-HUP");
    wait_until("the old key is refused", || create(&server, "shop", &first, "four") == "AuthenticationFailed");
}

#[test]
fn a_broken_file_changes_nothing_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts");
    let first = key(&accounts, &["add", "shop"]);
    let log = folder.path().join("log");
    let server = server(folder.path(), |command| command.arg("--log-file").arg(&log));
    std::fs::write(accounts.join("broken.toml"), "key1 = \"c2VjcmV0LWtleQ").unwrap();
    server.signal("-HUP");
    let logged = || std::fs::read_to_string(&log).unwrap();
    wait_until("the mistake is logged", || logged().contains("the configuration was not taken"));
    assert!(logged().contains("broken.toml") && !logged().contains("c2VjcmV0"), "{}", logged());
    assert_eq!(create(&server, "shop", &first, "one"), "ok");
    let (status, text) = post(&server, "shop", &first, "/reload");
    assert_eq!((status, text.contains("broken.toml")), (StatusCode::CONFLICT, true), "{text}");
    let (status, _) = post(&server, "shop", &first, "/accounts/shop/rotate?key=1");
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(create(&server, "shop", &first, "two"), "ok", "the key was not rotated");
}

/// Requests with the key that is not rotated never fail, however often the other one is.
#[test]
fn a_rotation_refuses_nobody_with_a_good_key() {
    let folder = tempfile::tempdir().unwrap();
    let first = key(&folder.path().join("accounts"), &["add", "shop"]);
    let server = server(folder.path(), |command| command);
    assert_eq!(create(&server, "shop", &first, "table"), "ok");
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (stop, asked, server, first) = (&stop, &asked, &server, &first);
            scope.spawn(move || {
                let mut client = Client::connect_as(&server.table, "shop", first).unwrap();
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (partition_key, operation) = insert(&format!("p{thread}/r{number}"), 1);
                    let request = TableRequest::Write(name("table"), partition_key, operation);
                    client.ask(&request).unwrap().expect("the first key is good all the time");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..40 {
            let (status, text) = post(&server, "shop", &first, "/accounts/shop/rotate?key=2");
            assert_eq!(status, StatusCode::OK, "{text}");
            let new = text.split('"').nth(7).unwrap().to_owned();
            let again = create(&server, "shop", &new, "table");
            assert_eq!(again, "TableAlreadyExists", "the new key counts as soon as it is told");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(asked.load(Ordering::Relaxed) > 100, "requests ran meanwhile: {asked:?}");
}

#[test]
fn the_admin_port_is_not_a_side_door() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts");
    let (shop, other) = (key(&accounts, &["add", "shop"]), key(&accounts, &["add", "other"]));
    let server = server(folder.path(), |command| command);
    let rotate = "/accounts/shop/rotate?key=1";
    assert_eq!(post(&server, "other", &other, rotate).0, StatusCode::UNAUTHORIZED, "another account's key");
    assert_eq!(post(&server, "shop", KEY, rotate).0, StatusCode::UNAUTHORIZED, "a wrong key");
    assert_eq!(post(&server, "nobody", KEY, "/reload").0, StatusCode::UNAUTHORIZED, "no such account");
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let mut client = Client::connect_as(&server.admin, "shop", &shop).unwrap();
        let host = headers.iter().find(|(name, _)| *name == "Host").map_or(&*server.admin, |(_, value)| value);
        let rest: String =
            headers.iter().filter(|(name, _)| *name != "Host").map(|(n, v)| format!("{n}: {v}\r\n")).collect();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{rest}Content-Length: 0\r\n\r\n");
        client.send(head.as_bytes()).unwrap().status()
    };
    assert_eq!(ask("POST", rotate, &[]), StatusCode::UNAUTHORIZED, "nobody");
    assert_eq!(ask("POST", rotate, &[("Authorization", "Bearer x")]), StatusCode::UNAUTHORIZED, "a token of nobody");
    assert_eq!(ask("GET", rotate, &[]), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ask("POST", "/metrics", &[]), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ask("GET", "/metrics", &[]), StatusCode::OK);
    assert_eq!(ask("GET", "/metrics", &[("Host", "rebound.example")]), StatusCode::FORBIDDEN);
    assert_eq!(ask("GET", "/ready", &[("Origin", "https://evil.example")]), StatusCode::FORBIDDEN);
    assert_eq!(ask("POST", "/reload", &[("Origin", "null")]), StatusCode::FORBIDDEN);
    assert_eq!(create(&server, "shop", &shop, "table"), "ok", "nothing was changed by all that");
}

#[test]
fn accounts_have_switches_and_budgets() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts");
    let frozen = key(&accounts, &["add", "frozen", "--read-only"]);
    let distant = key(&accounts, &["add", "distant", "--allow-ip", "10.0.0.0/8", "--allow-ip", "::2"]);
    let near = key(&accounts, &["add", "near", "--allow-ip", "127.0.0.0/8"]);
    let poor = key(&accounts, &["add", "poor", "--requests-per-second", "1000"]);
    // The body that creates a table is then paid for by a quarter of a minute.
    let file = accounts.join("poor.toml");
    let settings = std::fs::read_to_string(&file).unwrap() + "ingress_bytes_per_second = 1\n";
    std::fs::write(&file, settings).unwrap();
    let server = server(folder.path(), |command| command);
    assert_eq!(create(&server, "frozen", &frozen, "table"), "InsufficientAccountPermissions");
    assert_eq!(create(&server, "distant", &distant, "table"), "AuthorizationFailure");
    assert_eq!(create(&server, "near", &near, "table"), "ok");
    assert_eq!(create(&server, "poor", &poor, "table"), "ok");
    let request =
        Request::post("/poor/Tables".to_owned()).body(Bytes::from_static(b"{\"TableName\":\"more\"}")).unwrap();
    let busy = Client::connect_as(&server.table, "poor", &poor).unwrap().exchange_signed(request).unwrap();
    assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(busy.headers()["retry-after"], "1");
    let text = String::from_utf8_lossy(busy.body()).into_owned();
    assert!(text.contains("Ingress is over the account limit."), "{text}");
    server.signal("-HUP");
    assert_eq!(create(&server, "poor", &poor, "other"), "ServerBusy", "a reload fills no purse");
}

#[test]
fn commands_teach() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts");
    key(&accounts, &["add", "shop"]);
    for (arguments, expected) in [
        (&["add", "shop"][..], "exists already"),
        (&["add", "sh/op"], "letters, digits and inner hyphens"),
        (&["add", "x", "--allow-ip", "home"], "not an address or a range"),
        (&["rotate", "nobody", "--key", "1"], "only accounts of this folder"),
        (&["rotate", "shop"], "--key"),
    ] {
        let output = account(&accounts, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    let listed = account(&accounts, &["list"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.starts_with("shop  # file ") && listed.lines().count() == 1, "{listed}");
    let mut child = tavola().args(["account", "--help"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut help = String::new();
    child.stdout.take().unwrap().read_to_string(&mut help).unwrap();
    assert!(child.wait().unwrap().success() && help.contains("Examples:"), "{help}");
}
