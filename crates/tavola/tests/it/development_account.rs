//! The development account's key is public: when it is served, under which names, and to which web
//! pages.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::cli::{Done, in_folder, run};
use crate::common::client::{Client, name, now};
use crate::common::{ACCOUNT, BINARY, KEY, RunningServer, admin};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use tavola_core::{AccountName, TableRequest};
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tavola_protocol::table::decode::DecodeError;
use tavola_testkit::record;

const FREE_PORTS: [&str; 6] = ["serve", "--silent", "--table-port", "0", "--admin-port", "0"];

/// "ok", or the code of the refusal.
fn create(server: &RunningServer, account: &str, key: &str, table: &str) -> String {
    let mut client = Client::connect_as(&server.table, account, key).unwrap();
    match client.ask(&TableRequest::CreateTable(name(table))).unwrap() {
        Ok(_) => "ok".to_owned(),
        Err(DecodeError::Service(error)) => error.code,
        Err(other) => panic!("{other}"),
    }
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn add_account(folder: &Path, accounts: &str) -> String {
    let key =
        run(in_folder(folder).args(["account", "add", "shop", "--accounts-folder", accounts]))
            .text();
    record::secret(&key);
    key
}

/// The folder that is searched by default, and one that was named.
#[test]
fn a_vanished_folder_opens_nothing() {
    for (accounts, arguments) in
        [("tavola-accounts", &[][..]), ("other", &["--accounts-folder", "other"])]
    {
        let folder = tempfile::tempdir().unwrap();
        let key = add_account(folder.path(), accounts);
        let serve = |command: &mut Command| {
            RunningServer::spawn(
                command.args(FREE_PORTS).args(arguments).args(["--log-file", "log"]),
            )
        };
        let server = serve(&mut in_folder(folder.path()));
        assert_eq!(create(&server, "shop", &key, "one"), "ok");
        let kept = folder.path().join("kept");
        std::fs::rename(folder.path().join(accounts), &kept).unwrap();
        server.signal("-HUP");
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
        wait_until("the refusal is logged", || {
            log().contains(&format!("{accounts} does not exist"))
        });
        assert!(log().contains("ERROR"), "{}", log());
        let refused = admin::post(&server.admin, "shop", &key, "/reload");
        assert_eq!(refused.status(), StatusCode::CONFLICT);
        assert!(String::from_utf8_lossy(refused.body()).contains(accounts));
        assert_eq!(
            create(&server, ACCOUNT, KEY, "public"),
            "ResourceNotFound",
            "the public key opens nothing"
        );
        assert_eq!(create(&server, "shop", &key, "two"), "ok", "the accounts of before go on");
        // An empty folder in its place, as of a volume that is not mounted, is no better.
        std::fs::create_dir(folder.path().join(accounts)).unwrap();
        let refused = admin::post(&server.admin, "shop", &key, "/reload");
        assert_eq!(refused.status(), StatusCode::CONFLICT);
        assert!(String::from_utf8_lossy(refused.body()).contains("has no account in it"));
        assert_eq!(create(&server, ACCOUNT, KEY, "public"), "ResourceNotFound");
        std::fs::remove_dir(folder.path().join(accounts)).unwrap();
        std::fs::rename(&kept, folder.path().join(accounts)).unwrap();
        assert_eq!(admin::post(&server.admin, "shop", &key, "/reload").status(), StatusCode::OK);
    }
}

#[test]
fn it_is_served_only_when_started_so() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |environment: &[(&str, &str)]| -> Done {
        let mut command = in_folder(folder.path());
        run(command.args(FREE_PORTS).args(["--store", "memory"]).envs(environment.iter().copied()))
    };
    for (environment, named) in [
        (("TAVOLA_SERVER__TRUSTED_PROXIES", "127.0.0.1"), "tavola-accounts"),
        (("TAVOLA_SERVER__HOST", "0.0.0.0"), "tavola-accounts"),
        (("TAVOLA_SERVER__ACCOUNTS_FOLDER", "/nowhere/accounts"), "/nowhere/accounts"),
    ] {
        let done = serve(&[environment]);
        assert_eq!(done.code, Some(2), "{environment:?} {done:?}");
        let teaches = done.stderr.contains(named) && done.stderr.contains("tavola account add");
        assert!(teaches && !done.stdout.contains("listening"), "{environment:?} {done:?}");
        let mut asked_for = in_folder(folder.path());
        asked_for.args(FREE_PORTS).args(["--store", "memory", "--development-account"]);
        let server = RunningServer::spawn(asked_for.envs([environment]));
        let local = server.table.replace("0.0.0.0", "127.0.0.1");
        assert!(
            Client::connect(&local)
                .unwrap()
                .ask(&TableRequest::CreateTable(name("one")))
                .unwrap()
                .is_ok()
        );
    }
}

/// With an account that somebody adds while the development account is served, that one ends, and
/// does not come back.
#[test]
fn a_first_account_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::spawn(in_folder(folder.path()).args(FREE_PORTS));
    assert_eq!(create(&server, ACCOUNT, KEY, "one"), "ok");
    let key = add_account(folder.path(), "tavola-accounts");
    server.signal("-HUP");
    wait_until("the account is known", || {
        create(&server, "shop", &key, "one") != "ResourceNotFound"
    });
    assert_eq!(create(&server, ACCOUNT, KEY, "two"), "ResourceNotFound");
    std::fs::remove_dir_all(folder.path().join("tavola-accounts")).unwrap();
    assert_eq!(admin::post(&server.admin, "shop", &key, "/reload").status(), StatusCode::CONFLICT);
    assert_eq!(create(&server, ACCOUNT, KEY, "two"), "ResourceNotFound");
}

#[test]
fn short_keys_and_plain_http() {
    let folder = tempfile::tempdir().unwrap();
    let short = run(in_folder(folder.path())
        .args(FREE_PORTS)
        .env("TAVOLA_ACCOUNTS__SHOP__KEY1", "c2VjcmV0"));
    assert_eq!(short.code, Some(2), "{short:?}");
    assert!(
        short.stderr.contains("shorter than 32 bytes") && short.stderr.contains("openssl rand"),
        "{short:?}"
    );
    assert!(!short.stderr.contains("c2VjcmV0"), "{short:?}");

    let emulator = folder.path().join("azurite-table");
    std::os::unix::fs::symlink(BINARY, &emulator).unwrap();
    let warnings = folder.path().join("warnings");
    let mut command = Command::new(emulator);
    command
        .args(["--tablePort", "0", "--adminPort", "0", "--inMemoryPersistence"])
        .current_dir(folder.path());
    command
        .env("AZURITE_ACCOUNTS", "shop:c2VjcmV0")
        .stderr(std::fs::File::create(&warnings).unwrap());
    let server = RunningServer::spawn(&mut command);
    assert_eq!(create(&server, "shop", "c2VjcmV0", "one"), "ok");
    let warned = std::fs::read_to_string(&warnings).unwrap();
    assert!(warned.contains("a key of the account shop is shorter than 32 bytes"), "{warned}");

    add_account(folder.path(), "tavola-accounts");
    let mut command = in_folder(folder.path());
    let everywhere = ["--host", "0.0.0.0", "--log-file", "log"];
    let _server = RunningServer::spawn(command.args(FREE_PORTS).args(everywhere));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("not encrypted on 0.0.0.0") && log.contains("WARN"), "{log}");
    let done = run(in_folder(folder.path())
        .arg("doctor")
        .env("TAVOLA_SERVER__HOST", "0.0.0.0")
        .envs([("TAVOLA_TABLE__PORT", "0"), ("TAVOLA_SERVER__ADMIN_PORT", "0")]));
    let said = done
        .stdout
        .lines()
        .any(|line| line.starts_with("warn") && line.contains("not encrypted on 0.0.0.0"));
    assert!(said, "{done:?}");
}

/// A request as a browser or an SDK sends it: under `host`, from a page of `origin`.
struct Asked<'a> {
    method: &'a str,
    path: &'a str,
    host: &'a str,
    origin: Option<&'a str>,
    body: &'static str,
}

impl Asked<'_> {
    fn signed_with(&self, account: &str, key: &str, authority: &str) -> Answer {
        let Self { method, path, host, origin, body } = *self;
        let request = Request::builder().method(method).uri(format!("/{account}{path}"));
        let mut request = request.header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let request = request.header("content-type", "application/json");
        let mut request = request.body(Bytes::from_static(body.as_bytes())).unwrap();
        let (account, key) =
            (AccountName::parse(account).unwrap(), AccountKey::parse(key).unwrap());
        sign_request(&mut request, Scheme::SharedKey, &account, &key, now());
        Answer(Client::connect(authority).unwrap().exchange(&request).unwrap())
    }
}

/// With the public key.
fn ask(
    authority: &str,
    method: &str,
    path: &str,
    host: &str,
    origin: Option<&str>,
    body: &'static str,
) -> Answer {
    Asked { method, path, host, origin, body }.signed_with(ACCOUNT, KEY, authority)
}

struct Answer(Response<Bytes>);

impl Answer {
    fn code(&self) -> String {
        let code =
            self.0.headers().get("x-ms-error-code").map(|code| code.to_str().unwrap().to_owned());
        format!("{} {}", self.0.status().as_u16(), code.unwrap_or_default()).trim_end().to_owned()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.0.body()).into_owned()
    }
}

fn list(authority: &str, host: &str) -> Answer {
    ask(authority, "GET", "/Tables", host, None, "")
}

#[test]
fn a_name_that_somebody_outside_can_own_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(folder.path(), |command| {
        command.args(["--development-hosts", "tables.example,*.dev.example"])
    });
    let port = server.table.rsplit(':').next().unwrap();
    for host in
        ["127.0.0.1", "localhost", "[::1]", "tables.localhost", "tables.example", "one.dev.example"]
    {
        assert_eq!(list(&server.table, host).code(), "200", "{host}");
        assert_eq!(list(&server.table, &format!("{host}:{port}")).code(), "200", "{host}");
    }
    for host in [
        "rebound.example",
        "azurite",
        "host.docker.internal",
        "10.0.0.1",
        "localhost.rebound.example",
    ] {
        let answer = list(&server.table, host);
        assert_eq!(answer.code(), "403 AuthorizationFailure", "{host}");
        assert!(
            answer.text().contains("server.development_hosts") && answer.text().contains(host),
            "{}",
            answer.text()
        );
        let preflight =
            ask(&server.table, "OPTIONS", "/Tables", host, Some("http://rebound.example"), "");
        assert_eq!(preflight.code(), "403 AuthorizationFailure", "{host}");
    }
}

#[test]
fn the_emulator_takes_names_of_containers() {
    let folder = tempfile::tempdir().unwrap();
    let emulator = folder.path().join("azurite-table");
    std::os::unix::fs::symlink(BINARY, &emulator).unwrap();
    let mut command = Command::new(emulator);
    command.args(["--tablePort", "0", "--adminPort", "0", "--inMemoryPersistence", "--silent"]);
    command.current_dir(folder.path()).env_remove("AZURITE_ACCOUNTS");
    let server =
        RunningServer::spawn(command.env("TAVOLA_SERVER__DEVELOPMENT_HOSTS", "tables.example"));
    for host in [
        "127.0.0.1:10002",
        "localhost",
        "azurite:10002",
        "storage_emulator:10002",
        "host.docker.internal:10002",
        "gateway.docker.internal",
        "laptop.local:10002",
        "azurite.default.svc:10002",
        "azurite.default.svc.cluster.local:10002",
        "devstoreaccount1.table.localhost:10002",
        "172.17.0.2:10002",
        "tables.example:10002",
    ] {
        let path = if host.starts_with(ACCOUNT) { "" } else { "/Tables" };
        // In host style the account is not in the path, so that nothing but the refusal can be
        // asked for.
        assert_ne!(
            ask(&server.table, "GET", path, host, None, "").code(),
            "403 AuthorizationFailure",
            "{host}"
        );
        if !path.is_empty() {
            assert_eq!(list(&server.table, host).code(), "200", "{host}");
        }
    }
    for host in ["rebound.example:10002", "azurite.rebound.example"] {
        let answer = list(&server.table, host);
        assert_eq!(answer.code(), "403 AuthorizationFailure", "{host}");
        assert!(answer.text().contains("TAVOLA_SERVER__DEVELOPMENT_HOSTS"), "{}", answer.text());
    }
}

const ADMITTED: &str = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://own.example</AllowedOrigins>\
    <AllowedMethods>POST,GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders>\
    <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

#[test]
fn a_page_needs_a_rule() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let create = |table: &'static str, origin: Option<&str>| {
        ask(&server.table, "POST", "/Tables", "localhost:10002", origin, table)
    };
    let body = |number: usize| {
        [r#"{"TableName":"one"}"#, r#"{"TableName":"two"}"#, r#"{"TableName":"three"}"#][number]
    };
    for origin in
        ["http://evil.example", "null", "http://localhost:3000", "https://localhost:10002", ""]
    {
        let answer = create(body(0), Some(origin));
        assert_eq!(answer.code(), "403 AuthorizationFailure", "{origin}");
        assert!(answer.text().contains("CORS rule"), "{}", answer.text());
        assert!(!answer.0.headers().contains_key("access-control-allow-origin"));
    }
    assert_eq!(create(body(0), Some("http://localhost:10002")).code(), "201", "our own pages");
    assert_eq!(create(body(1), None).code(), "201", "no page at all");
    let properties = "/?restype=service&comp=properties";
    let foreign =
        ask(&server.table, "PUT", properties, "localhost", Some("http://own.example"), ADMITTED);
    assert_eq!(foreign.code(), "403 AuthorizationFailure", "a page cannot let itself in");
    assert_eq!(ask(&server.table, "PUT", properties, "localhost", None, ADMITTED).code(), "202");
    let admitted = create(body(2), Some("http://own.example"));
    assert_eq!(admitted.code(), "201");
    assert_eq!(admitted.0.headers()["access-control-allow-origin"], "http://own.example");
    assert_eq!(create(body(2), Some("http://evil.example")).code(), "403 AuthorizationFailure");
    let delete = ask(
        &server.table,
        Method::DELETE.as_str(),
        "/Tables('one')",
        "localhost",
        Some("http://own.example"),
        "",
    );
    assert_eq!(delete.code(), "403 AuthorizationFailure", "the rule is for other methods");
}

/// Where the key is not public, everything is as the protocol says.
#[test]
fn other_accounts_are_not_concerned() {
    let folder = tempfile::tempdir().unwrap();
    let key = add_account(folder.path(), "tavola-accounts");
    let server = RunningServer::spawn(in_folder(folder.path()).args(FREE_PORTS));
    let origin = Some("http://evil.example");
    let asked = Asked { method: "GET", path: "/Tables", host: "tables.example", origin, body: "" };
    assert_eq!(asked.signed_with("shop", &key, &server.table).code(), "200");
}
