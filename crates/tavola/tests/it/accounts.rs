//! Accounts while serving: added, rotated and bounded, by files, by signal and through the admin
//! port.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::client::{Client, entity_key, insert, name};
use crate::common::{ACCOUNT, KEY, RunningServer, tavola};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tavola_core::filter::parse::parse;
use tavola_core::request::{EntityQuery, Select, TablesQuery};
use tavola_core::{EntityGroupTransaction, TableRequest};
use tavola_protocol::table::ResponseFormat;
use tavola_protocol::table::decode::DecodeError;
use tavola_protocol::table::encode::{Style, encode_request};
use tavola_protocol::table::entity_json::MetadataLevel;
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

/// With the accounts that were made, or the development account if none was.
fn server(folder: &Path, with: impl FnOnce(&mut Command) -> &mut Command) -> RunningServer {
    let accounts = folder.join("accounts");
    RunningServer::start_with(&folder.join("data"), |command| {
        with(if accounts.exists() {
            command.arg("--accounts-folder").arg(accounts)
        } else {
            command
        })
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
    let answer = crate::common::admin::post(&server.admin, account, key, path);
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
    assert_eq!(
        create(&server, ACCOUNT, KEY, "one"),
        "ResourceNotFound",
        "the development account is gone"
    );
    let second = key(&accounts, &["rotate", "shop", "--key", "2"]);
    let other = key(&accounts, &["add", "other"]);
    assert_eq!(
        create(&server, "shop", &second, "two"),
        "AuthenticationFailed",
        "not before the server reads it"
    );
    server.signal("-HUP");
    wait_until("the new key counts", || {
        create(&server, "shop", &second, "two") != "AuthenticationFailed"
    });
    assert_eq!(create(&server, "shop", &first, "three"), "ok", "the first key goes on being good");
    assert_eq!(create(&server, "other", &other, "one"), "ok", "a new account is known");
    key(&accounts, &["rotate", "shop", "--key", "1"]);
    server.signal("-HUP");
    wait_until("the old key is refused", || {
        create(&server, "shop", &first, "four") == "AuthenticationFailed"
    });
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
    wait_until("the mistake is logged", || logged().contains("configuration rejected"));
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
    assert_eq!(
        post(&server, "other", &other, rotate).0,
        StatusCode::UNAUTHORIZED,
        "another account's key"
    );
    assert_eq!(post(&server, "shop", KEY, rotate).0, StatusCode::UNAUTHORIZED, "a wrong key");
    assert_eq!(
        post(&server, "nobody", KEY, "/reload").0,
        StatusCode::UNAUTHORIZED,
        "no such account"
    );
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let request = Request::builder().method(method).uri(path);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Bytes::new()).unwrap();
        Client::connect_as(&server.admin, "shop", &shop)
            .unwrap()
            .exchange(&request)
            .unwrap()
            .status()
    };
    assert_eq!(ask("POST", rotate, &[]), StatusCode::UNAUTHORIZED, "nobody");
    assert_eq!(
        ask("POST", rotate, &[("Authorization", "Bearer x")]),
        StatusCode::UNAUTHORIZED,
        "a token of nobody"
    );
    assert_eq!(ask("GET", rotate, &[]), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ask("POST", "/metrics", &[]), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ask("GET", "/metrics", &[]), StatusCode::OK);
    assert_eq!(ask("GET", "/metrics", &[("Host", "rebound.example")]), StatusCode::FORBIDDEN);
    let two_hosts = [("Host", &*server.admin); 2];
    assert_eq!(ask("GET", "/metrics", &two_hosts), StatusCode::BAD_REQUEST);
    assert_eq!(ask("GET", "/ready", &[("Origin", "https://evil.example")]), StatusCode::FORBIDDEN);
    assert_eq!(ask("POST", "/reload", &[("Origin", "null")]), StatusCode::FORBIDDEN);
    assert_eq!(create(&server, "shop", &shop, "table"), "ok", "nothing was changed by all that");
}

#[test]
fn accounts_have_switches_and_budgets() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts");
    let frozen = key(&accounts, &["add", "frozen", "--read-only"]);
    let distant =
        key(&accounts, &["add", "distant", "--allow-ip", "10.0.0.0/8", "--allow-ip", "::2"]);
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
    let request = Request::post("/poor/Tables".to_owned())
        .body(Bytes::from_static(b"{\"TableName\":\"more\"}"))
        .unwrap();
    let busy =
        Client::connect_as(&server.table, "poor", &poor).unwrap().exchange_signed(request).unwrap();
    assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(busy.headers()["retry-after"], "1");
    let text = String::from_utf8_lossy(busy.body()).into_owned();
    assert!(text.contains("Ingress is over the account limit."), "{text}");
    server.signal("-HUP");
    assert_eq!(create(&server, "poor", &poor, "other"), "ServerBusy", "a reload fills no purse");
}

/// What a request is answered with, headers and all.
fn answer(client: &mut Client, server: &RunningServer, request: &TableRequest) -> Response<Bytes> {
    let base = format!("http://{}/{ACCOUNT}", server.table);
    let format =
        ResponseFormat { level: MetadataLevel::Minimal, prefer: None, select: Select::All };
    let style = Style { base: &base, format: &format, page: None, boundary_ids: ["1", "2"] };
    client.exchange_signed(encode_request(request, &style).unwrap()).unwrap()
}

/// Inserts of a hundred entities into one partition, which no run before has inserted.
fn hundred(partition: &str, run: usize) -> TableRequest {
    let operations = (0..100).map(|row| insert(&format!("{partition}/{run}-{row}"), 1)).collect();
    TableRequest::Transaction(name("table"), EntityGroupTransaction::new(operations).unwrap())
}

fn get(key: &str) -> TableRequest {
    TableRequest::GetEntity(name("table"), entity_key(key))
}

fn throttled(server: &RunningServer, bound: &str) -> u64 {
    let request = Request::get("/metrics").body(Bytes::new()).unwrap();
    let answer = Client::connect(&server.admin).unwrap().exchange(&request).unwrap();
    let text = String::from_utf8(answer.body().to_vec()).unwrap();
    let start = format!("tavola_throttled_total{{bound=\"{bound}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&*start)).unwrap().parse().unwrap()
}

/// G22, G23: one entity a second, so a hundred at once are owed for longer than any test lasts.
#[test]
fn a_hot_partition_is_refused_and_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), |command| {
        command.env("TAVOLA_TARGETS__PARTITION_ENTITIES_PER_SECOND", "1")
    });
    let mut client = Client::connect(&server.table).unwrap();
    client.create_table("table");
    assert_eq!(
        answer(&mut client, &server, &hundred("hot", 0)).status(),
        StatusCode::ACCEPTED,
        "a full purse"
    );
    let (partition_key, operation) = insert("hot/new", 1);
    let query = |filter| EntityQuery { filter: parse(filter).unwrap(), ..EntityQuery::default() };
    for request in [
        get("hot/0-0"),
        TableRequest::Write(name("table"), partition_key, operation),
        hundred("hot", 1),
        TableRequest::QueryEntities(name("table"), query("PartitionKey eq 'hot'")),
    ] {
        let busy = answer(&mut client, &server, &request);
        // Of a batch too the whole is refused, not a part of it.
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE, "{request:?}");
        assert_eq!(busy.headers()["retry-after"], "1");
        assert_eq!(busy.headers()["x-ms-error-code"], "ServerBusy");
        let text = String::from_utf8_lossy(busy.body()).into_owned();
        assert!(text.contains("The server is currently unable to receive requests."), "{text}");
    }
    assert_eq!((throttled(&server, "partition"), throttled(&server, "account")), (4, 0));
    assert_eq!(answer(&mut client, &server, &hundred("cold", 0)).status(), StatusCode::ACCEPTED);
    assert_eq!(answer(&mut client, &server, &get("empty/0")).status(), StatusCode::NOT_FOUND);
    let all = TableRequest::QueryEntities(name("table"), EntityQuery::default());
    assert_eq!(
        answer(&mut client, &server, &all).status(),
        StatusCode::OK,
        "where it reads is not known before"
    );
    assert_eq!(client.read_all("table").len(), 200, "what was refused was not written");
    assert_eq!(throttled(&server, "partition"), 4);
}

#[test]
fn a_budget_refills_and_an_account_may_have_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts");
    let usual = key(&accounts, &["add", "usual"]);
    let free = key(&accounts, &["add", "free", "--partition-entities-per-second", "0"]);
    let slow = key(&accounts, &["add", "slow", "--partition-entities-per-second", "1"]);
    let server = server(folder.path(), |command| {
        command.env("TAVOLA_TARGETS__PARTITION_ENTITIES_PER_SECOND", "50")
    });
    let client = |account: &str, key: &str| {
        let mut client = Client::connect_as(&server.table, account, key).unwrap();
        client.create_table("table");
        client
    };
    let mut free = client("free", &free);
    for run in 0..5 {
        free.ask(&hundred("p", run)).unwrap().expect("off means off");
    }
    let mut usual = client("usual", &usual);
    let begun = Instant::now();
    usual.ask(&hundred("p", 0)).unwrap().expect("partitions of other accounts are others");
    wait_until("the budget refills", || usual.ask(&get("p/0-0")).unwrap().is_ok());
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "two seconds pay for a hundred, and one can be owed"
    );
    let mut slow_client = client("slow", &slow);
    slow_client.ask(&hundred("p", 0)).unwrap().unwrap();
    server.signal("-HUP");
    assert!(slow_client.ask(&get("p/0-0")).unwrap().is_err(), "a reload pays nothing");
    let file = accounts.join("slow.toml");
    let settings = std::fs::read_to_string(&file).unwrap();
    let settings =
        settings.replace("partition_entities_per_second = 1", "partition_entities_per_second = 0");
    std::fs::write(&file, settings).unwrap();
    server.signal("-HUP");
    wait_until("the budget is gone", || slow_client.ask(&get("p/0-0")).unwrap().is_ok());
}

#[test]
fn every_account_gets_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), |command| {
        command.args(["--targets", "azure"]).env("TAVOLA_TARGETS__ACCOUNT_REQUESTS_PER_SECOND", "1")
    });
    let mut client = Client::connect(&server.table).unwrap();
    let request = TableRequest::QueryTables(TablesQuery::default());
    let mut busy = None;
    wait_until("two requests come within a second", || {
        let got = answer(&mut client, &server, &request);
        busy = (got.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(got);
        busy.is_some()
    });
    let text = String::from_utf8_lossy(busy.unwrap().body()).into_owned();
    assert!(text.contains("Operations per second is over the account limit."), "{text}");
    assert_eq!((throttled(&server, "account"), throttled(&server, "partition")), (1, 0));
}

#[test]
fn commands_teach() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts");
    key(&accounts, &["add", "shop"]);
    for (arguments, expected) in [
        (&["add", "shop"][..], "already exists"),
        (&["add", "sh/op"], "letters, digits and inner hyphens"),
        (&["add", "depot", "--allow-ip", "home"], "not an address or a range"),
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
