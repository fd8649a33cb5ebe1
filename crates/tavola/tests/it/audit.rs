//! The audit log of a real server: who, what, from where, with which result; what is not in it; and
//! that it stops nobody.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::client::{Client, insert, name};
use crate::common::{RunningServer, tavola};
use bytes::Bytes;
use http::{HeaderValue, Request, Uri};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tavola_core::request::{EntityQuery, Select, TablesQuery};
use tavola_core::{AccountName, EntityGroupTransaction, TableRequest};
use tavola_protocol::auth::{AccountKey, AccountSas, TableSas};
use tavola_protocol::table::ResponseFormat;
use tavola_protocol::table::encode::{Style, encode_request};
use tavola_protocol::table::entity_json::MetadataLevel;
use tavola_testkit::raw::RawConnection;
use tavola_testkit::record;
use tempfile::TempDir;

const SHOP: &str = "shop";
const SAS_VERSION: &str = "2020-12-06";
/// What the entities of these tests hold; a number that nothing else prints.
const VALUE: i32 = 1_928_374_655;

/// A server with one account and an audit log.
struct World {
    folder: TempDir,
    server: RunningServer,
    keys: [String; 2],
}

impl World {
    fn start(with: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.json");
        Self::start_in(folder, &file, with)
    }

    /// The same, with another file.
    fn start_at(file: &Path, with: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), file, with)
    }

    fn start_in(
        folder: TempDir,
        file: &Path,
        with: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let keys = [
            account(folder.path(), &["add", SHOP]),
            account(folder.path(), &["rotate", SHOP, "--key", "2"]),
        ];
        let server = RunningServer::start_with(&folder.path().join("data"), |command| {
            command.arg("--accounts-folder").arg(folder.path().join("accounts"));
            with(command.arg("--audit-file").arg(file))
        });
        Self { folder, server, keys }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("audit.json")
    }

    fn client(&self, key: usize) -> Client {
        Client::connect_as(&self.server.table, SHOP, &self.keys[key]).unwrap()
    }

    /// The lines so far, each of which must be a whole JSON object.
    fn lines(&self) -> Vec<Value> {
        lines(&self.file())
    }

    /// Waits until so many lines tell of requests.
    fn requests(&self, count: usize) -> Vec<Value> {
        let requests = || -> Vec<Value> {
            self.lines().into_iter().filter(|line| line["event"] == "request").collect()
        };
        eventually("the requests are in the log", || requests().len() >= count);
        let requests = requests();
        assert_eq!(requests.len(), count, "{requests:#?}");
        requests
    }

    fn metric(&self, name: &str) -> u64 {
        let request = Request::get("/metrics").body(Bytes::new()).unwrap();
        let answer = Client::connect(&self.server.admin).unwrap().exchange(&request).unwrap();
        let text = String::from_utf8(answer.body().to_vec()).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Sends a request with nothing but a signature in its URL.
    fn ask_with(&self, request: &TableRequest, sas: &str) -> u16 {
        let format =
            ResponseFormat { level: MetadataLevel::None, prefer: None, select: Select::All };
        let base = format!("http://{}/{SHOP}", self.server.table);
        let style = Style { base: &base, format: &format, page: None, boundary_ids: ["", ""] };
        let mut http = encode_request(request, &style).unwrap();
        let separator = if http.uri().query().is_some() { '&' } else { '?' };
        *http.uri_mut() = format!("{}{separator}{sas}", http.uri()).parse::<Uri>().unwrap();
        self.client(0).exchange(&http).unwrap().status().as_u16()
    }

    fn sign(&self, sas: &TableSas, key: usize) -> String {
        let signed = sas.signed(
            &AccountName::parse(SHOP).unwrap(),
            &AccountKey::parse(&self.keys[key]).unwrap(),
        );
        record::secret(signature_of(&signed).as_str());
        signed
    }
}

fn account(folder: &Path, arguments: &[&str]) -> String {
    let mut command = tavola();
    command.arg("account").args(arguments).arg("--accounts-folder").arg(folder.join("accounts"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let key = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
    record::secret(&key);
    key
}

/// The text of `sig` in a query string.
fn signature_of(query: &str) -> String {
    let encoded = query.split('&').find_map(|field| field.strip_prefix("sig=")).unwrap();
    percent_encoding::percent_decode_str(encoded).decode_utf8().unwrap().into_owned()
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')), "{text}");
    // The last line may be on its way.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    whole.split('\n').filter(|line| !line.is_empty()).map(parse).collect()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    // A machine that builds and fuzzes beside this needs more than a minute for thousands of
    // requests.
    let deadline = Instant::now() + Duration::from_secs(240);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within four minutes: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn write(table: &str, key: &str) -> TableRequest {
    let (partition_key, operation) = insert(key, VALUE);
    TableRequest::Write(name(table), partition_key, operation)
}

fn query(table: &str) -> TableRequest {
    TableRequest::QueryEntities(name(table), EntityQuery::default())
}

/// The fields of a line that are named, in that order.
fn fields(line: &Value, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| line[name].clone()).collect()
}

/// Five requests with good keys, of which one is refused, one with a wrong key, and one of an
/// unknown account.
fn ask_in_seven_ways(world: &World) {
    let create = TableRequest::CreateTable(name("orders"));
    world.client(0).ask(&create).unwrap().unwrap();
    world.client(1).ask(&write("orders", "p/r1")).unwrap().unwrap();
    let operations = ["p/r2", "p/r3"].map(|key| insert(key, VALUE)).into();
    let group =
        TableRequest::Transaction(name("orders"), EntityGroupTransaction::new(operations).unwrap());
    world.client(0).ask(&group).unwrap().unwrap();
    world.client(0).ask(&query("orders")).unwrap().unwrap();
    world.client(0).ask(&write("orders", "p/r1")).unwrap().unwrap_err();
    let wrong = Client::connect_as(&world.server.table, SHOP, crate::common::KEY)
        .unwrap()
        .ask(&query("orders"));
    wrong.unwrap().unwrap_err();
    let unknown = Client::connect_as(&world.server.table, "nobody", crate::common::KEY)
        .unwrap()
        .ask(&query("orders"));
    unknown.unwrap().unwrap_err();
}

#[test]
fn who_what_from_where_and_with_which_result() {
    let world = World::start(|command| command.env("TAVOLA_AUDIT__REQUESTS", "all"));
    ask_in_seven_ways(&world);
    let requests = world.requests(7);
    let who = ["account", "credential", "key", "authenticated"];
    let what = ["operation", "table", "partition_key", "row_key", "status", "error", "reason"];
    let expected = [
        (
            json!([SHOP, "shared-key", 1, true]),
            json!(["CreateTable", "orders", null, null, 204, null, null]),
        ),
        (
            json!([SHOP, "shared-key", 2, true]),
            json!(["InsertEntity", "orders", "p", "r1", 204, null, null]),
        ),
        (
            json!([SHOP, "shared-key", 1, true]),
            json!(["EntityGroupTransaction", "orders", "p", null, 202, null, null]),
        ),
        (
            json!([SHOP, "shared-key", 1, true]),
            json!(["QueryEntities", "orders", null, null, 200, null, null]),
        ),
        (
            json!([SHOP, "shared-key", 1, true]),
            json!(["InsertEntity", "orders", "p", "r1", 409, "EntityAlreadyExists", null]),
        ),
        (
            json!([SHOP, "shared-key", null, false]),
            json!([null, null, null, null, 403, "AuthenticationFailed", "signature"]),
        ),
        (
            json!([null, "shared-key", null, false]),
            json!([null, null, null, null, 404, "ResourceNotFound", "unknown-account"]),
        ),
    ];
    for (line, (expected_who, expected_what)) in requests.iter().zip(expected) {
        assert_eq!(Value::from(fields(line, &who)), expected_who, "{line}");
        assert_eq!(Value::from(fields(line, &what)), expected_what, "{line}");
        assert_eq!(
            fields(line, &["address", "forwarded_by", "scheme"]),
            [json!("127.0.0.1"), Value::Null, json!("http")]
        );
        assert!(
            line["request_id"].as_str().unwrap().len() == 36
                && line["time"].as_str().unwrap().ends_with('Z')
        );
    }
    let operations = json!([
        {"operation": "InsertEntity", "row_key": "r2"},
        {"operation": "InsertEntity", "row_key": "r3"},
    ]);
    assert_eq!(requests[2]["operations"], operations);
    assert_eq!(requests[5]["path"], "/shop/orders()");
    let text = std::fs::read_to_string(world.file()).unwrap();
    assert!(!text.contains(&VALUE.to_string()), "values of properties do not stand there: {text}");
    assert!(world.keys.iter().all(|key| !text.contains(key.as_str())));
    assert_eq!(std::fs::metadata(world.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn signatures_are_told_apart_and_not_shown() {
    let world = World::start(|command| command.env("TAVOLA_AUDIT__REQUESTS", "all"));
    world.client(0).create_table("orders");
    let policies = [("readers", "2199-01-01")].map(|(id, expiry)| tavola_core::AccessPolicy {
        id: id.to_owned(),
        start: None,
        expiry: Some(tavola_core::DateTime::parse(expiry).unwrap()),
        permission: Some("r".to_owned()),
    });
    world
        .client(0)
        .ask(&TableRequest::SetPolicies(name("orders"), policies.into()))
        .unwrap()
        .unwrap();
    let table = |table: &TableSas| TableSas {
        version: SAS_VERSION.to_owned(),
        table: "orders".to_owned(),
        ..table.clone()
    };
    let of = |permissions: &str, expiry: &str| {
        let (permissions, expiry) = (permissions.to_owned(), expiry.to_owned());
        table(&TableSas { permissions, expiry, ..TableSas::default() })
    };
    let by_policy = table(&TableSas { policy: "readers".to_owned(), ..TableSas::default() });
    let signed = [
        world.sign(&by_policy, 1),
        world.sign(&of("r", "2199-01-01"), 0),
        world.sign(&of("r", "2001-01-01"), 0),
    ];
    assert_eq!(world.ask_with(&query("orders"), &signed[0]), 200);
    assert_eq!(world.ask_with(&query("orders"), &signed[1]), 200);
    assert_eq!(world.ask_with(&query("orders"), &signed[2]), 403, "expired");
    assert_eq!(world.ask_with(&write("orders", "p/r"), &signed[1]), 403, "reads only");
    let account = AccountSas {
        version: SAS_VERSION.to_owned(),
        services: "t".to_owned(),
        resource_types: "s".to_owned(),
        permissions: "l".to_owned(),
        expiry: "2199-01-01".to_owned(),
        ..AccountSas::default()
    };
    let account = account
        .signed(&AccountName::parse(SHOP).unwrap(), &AccountKey::parse(&world.keys[0]).unwrap());
    world.ask_with(&TableRequest::QueryTables(TablesQuery::default()), &account);
    let requests = world.requests(7);
    let names = ["credential", "key", "policy", "authenticated", "reason", "sas_sha256"];
    let hash = |query: &String| sha256(&signature_of(query));
    for (line, expected) in requests[2..].iter().zip([
        json!(["table-sas", 2, "readers", true, null, hash(&signed[0])]),
        json!(["table-sas", 1, null, true, null, hash(&signed[1])]),
        json!(["table-sas", null, null, false, "expired", hash(&signed[2])]),
        json!(["table-sas", 1, null, true, "permission", hash(&signed[1])]),
        json!(["account-sas", 1, null, true, null, hash(&account)]),
    ]) {
        let mut found = fields(line, &names);
        if found[0] == "account-sas" {
            found[4] = Value::Null;
        }
        assert_eq!(Value::from(found), expected, "{line}");
    }
    let text = std::fs::read_to_string(world.file()).unwrap();
    for query in signed.iter().chain([&account]) {
        assert!(!text.contains(&signature_of(query)) && !text.contains("sig="), "{text}");
    }
}

#[test]
fn each_level_has_what_it_says() {
    for (level, expected) in
        [("denied", &[403][..]), ("writes", &[204, 403]), ("all", &[204, 200, 403])]
    {
        let world = World::start(|command| command.env("TAVOLA_AUDIT__REQUESTS", level));
        let done = |request: &TableRequest| world.client(0).ask(request).unwrap();
        world.client(0).create_table("orders");
        done(&write("orders", "p/r")).unwrap();
        done(&query("orders")).unwrap();
        let denied = Client::connect_as(&world.server.table, SHOP, crate::common::KEY)
            .unwrap()
            .ask(&query("orders"));
        denied.unwrap().unwrap_err();
        let created = usize::from(level != "denied");
        let requests = world.requests(expected.len() + created);
        let statuses: Vec<u64> =
            requests[created..].iter().map(|line| line["status"].as_u64().unwrap()).collect();
        assert_eq!(
            statuses,
            expected.iter().map(|status| *status as u64).collect::<Vec<_>>(),
            "{level}"
        );
    }
}

#[test]
fn a_client_behind_a_proxy_is_named_with_the_proxy() {
    let world = World::start(|command| command.env("TAVOLA_SERVER__TRUSTED_PROXIES", "127.0.0.1"));
    let mut request = Request::post(format!("http://{}/{SHOP}/Tables", world.server.table))
        .header("content-type", "application/json")
        .body(Bytes::from_static(br#"{"TableName":"orders"}"#))
        .unwrap();
    let headers = [("x-forwarded-for", "203.0.113.7"), ("x-forwarded-proto", "https")];
    for (name, value) in headers {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    assert_eq!(world.client(0).exchange_signed(request).unwrap().status().as_u16(), 201);
    let requests = world.requests(1);
    let expected = ["203.0.113.7", "127.0.0.1", "https"].map(Value::from);
    assert_eq!(fields(&requests[0], &["address", "forwarded_by", "scheme"]), expected);
}

/// Whatever a client writes into keys, names and ids, a line stays a line and an object an object.
#[test]
fn nobody_writes_a_line_of_his_own() {
    let world = World::start(|command| command);
    world.client(0).create_table("orders");
    let odd = "a\u{2028}b\u{2029}\",\"status\":200}{\"c\u{202e}d";
    let body = json!({"PartitionKey": odd, "RowKey": "r"}).to_string();
    let request = Request::post(format!("http://{}/{SHOP}/orders", world.server.table))
        .header("content-type", "application/json")
        .header("x-ms-client-request-id", "\"},{\"")
        .body(Bytes::from(body))
        .unwrap();
    let status = world.client(0).exchange_signed(request).unwrap().status().as_u16();
    assert_eq!(status, 201);
    let mut raw = RawConnection::open(&world.server.table).unwrap();
    let refused = raw.send(b"GET /\xc2\x85\xe2\x80\xa8\"%0a{\"event\":1}\\ HTTP/1.1\r\nHost: x\r\nAuthorization: SharedKey \"\\:\"\r\n\r\n");
    let refused = usize::from(refused.is_ok());
    let requests = world.requests(2 + refused);
    assert_eq!(requests[1]["partition_key"], odd);
    assert_eq!(requests[1]["client_request_id"], "\"},{\"");
}

/// `mv` and a signal, as logrotate does it.
#[test]
fn a_file_that_was_moved_away_is_opened_anew() {
    for signal in ["-HUP", "-USR1"] {
        moved_away(signal);
    }
}

fn moved_away(signal: &str) {
    let world = World::start(|command| command);
    world.client(0).create_table("before");
    world.requests(1);
    let moved = world.folder.path().join("audit.json.1");
    std::fs::rename(world.file(), &moved).unwrap();
    world.server.signal(signal);
    eventually("a new file is there", || world.file().exists());
    world.client(0).create_table("after");
    let requests = world.requests(1);
    assert_eq!(requests[0]["table"], "after");
    assert_eq!(std::fs::metadata(world.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(lines(&moved).iter().any(|line| line["table"] == "before"));
}

#[test]
fn acts_on_the_server_itself() {
    let world = World::start(|command| command.env("TAVOLA_AUDIT__REQUESTS", "denied"));
    let post = |key: &str, path: &str| {
        let answer = crate::common::admin::post(&world.server.admin, SHOP, key, path);
        (answer.status().as_u16(), String::from_utf8(answer.body().to_vec()).unwrap())
    };
    assert_eq!(post(&world.keys[1], "/reload").0, 200);
    assert_eq!(post(crate::common::KEY, "/reload").0, 401);
    let (status, body) = post(&world.keys[0], "/accounts/shop/rotate?key=2");
    assert_eq!(status, 200);
    let new = serde_json::from_str::<Value>(&body).unwrap()["key2"].as_str().unwrap().to_owned();
    record::secret(&new);
    assert_eq!(post(&world.keys[0], "/accounts/other/rotate?key=2").0, 401);
    world.server.signal("-HUP");
    let by_host = |line: &Value| line["act"] == "reload" && line["by"] == "host";
    eventually("the signal is in the log", || world.lines().iter().any(by_host));
    let (file, folder) = (world.file(), world.folder);
    assert!(world.server.terminate().success());
    let lines = lines(&file);
    drop(folder);
    let names = ["act", "account", "rotated", "credential", "key", "authenticated", "status"];
    let found: Vec<Value> = lines.iter().map(|line| Value::from(fields(line, &names))).collect();
    let expected = [
        json!(["start", null, null, null, null, null, null]),
        json!(["reload", null, null, "admin", 2, true, 200]),
        json!(["reload", null, null, null, null, false, 401]),
        json!(["rotate-key", SHOP, "key2", "admin", 1, true, 200]),
        json!(["rotate-key", "other", "key2", null, null, false, 401]),
        json!(["reload", null, null, null, null, null, null]),
        json!(["stop", null, null, null, null, null, null]),
    ];
    assert_eq!(found, expected);
    let text: String = lines.iter().map(Value::to_string).collect();
    assert!(!text.contains(&new), "the new key is not in the log");
}

/// A reader of a pipe that does not read is a disk that hangs.
#[test]
fn a_log_that_hangs_stops_nobody_and_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for both, so that neither side waits for the other.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let world = World::start_at(&pipe, |command| command.env("TAVOLA_AUDIT__REQUESTS", "all"));
    let mut client = world.client(0);
    client.create_table("orders");
    let list = TableRequest::QueryTables(TablesQuery::default());
    eventually("lines are lost, and requests are served", || {
        for _ in 0..500 {
            client.ask(&list).unwrap().unwrap();
        }
        world.metric("tavola_audit_log_lost_total") > 0
    });
    let reading = std::thread::spawn(move || {
        use std::io::BufRead as _;
        let mut lines = std::io::BufReader::new(reader).lines();
        lines
            .find(|line| line.as_ref().unwrap().contains("\"event\":\"lines-lost\""))
            .unwrap()
            .unwrap()
    });
    let lost = loop {
        client.ask(&list).unwrap().unwrap();
        if reading.is_finished() {
            break reading.join().unwrap();
        }
    };
    assert!(serde_json::from_str::<Value>(&lost).unwrap()["count"].as_u64() > Some(0));
}

#[test]
fn a_full_disk_costs_lines_and_no_request() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let world = World::start_at(Path::new("/dev/full"), |command| {
        command.arg("--log-file").arg(log.path())
    });
    for table in ["one", "two", "three"] {
        world.client(0).create_table(table);
    }
    eventually("the lost lines are counted", || world.metric("tavola_audit_log_lost_total") >= 4);
    let said = std::fs::read_to_string(log.path()).unwrap();
    assert_eq!(said.matches("the audit log cannot be written").count(), 1, "{said}");
    assert!(world.server.terminate().success());
}

/// Anybody can fail to authenticate as often as he likes, and must not fill a disk with it.
#[test]
fn strangers_cannot_fill_the_log() {
    let world = World::start(|command| command);
    let mut stranger = Client::connect_as(&world.server.table, SHOP, crate::common::KEY).unwrap();
    for _ in 0..3000 {
        stranger.ask(&query("orders")).unwrap().unwrap_err();
    }
    eventually("lines are left out", || world.metric("tavola_audit_log_lost_total") > 0);
    world.client(0).create_table("orders");
    eventually("whoever is known has a line", || {
        world.lines().iter().any(|line| line["operation"] == "CreateTable")
    });
    assert!(world.lines().iter().any(|line| line["event"] == "lines-lost"));
}

#[test]
fn what_cannot_be_opened_or_understood_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let mut command = crate::common::cli::in_folder(folder.path());
        command
            .args(["serve", "--table-port", "0", "--admin-port", "0", "--store", "memory"])
            .args(arguments);
        let done = crate::common::cli::run(
            command
                .env("TAVOLA_AUDIT__REQUESTS", if arguments.is_empty() { "some" } else { "all" }),
        );
        assert_ne!(done.code, Some(0));
        done.stderr
    };
    let text = refused(&["--audit-file", "/proc/none/audit.json"]);
    assert!(text.contains("/proc/none/audit.json"), "{text}");
    let text = refused(&[]);
    assert!(text.contains("\"some\" is not denied, writes or all"), "{text}");
}
