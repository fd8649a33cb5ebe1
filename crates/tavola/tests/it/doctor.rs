//! `tavola doctor`: the words for each cause, against real servers, ports and files.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, SystemTime};

use crate::common::cli::{Done, check, in_folder, run, shows_nothing_secret};
use crate::common::client::{Client, name};
use crate::common::{ACCOUNT, KEY, OTHER_KEY, RunningServer};
use tavola_core::{AccessPolicy, AccountName, DateTime, TableRequest};
use tavola_protocol::auth::{AccountKey, AccountSas, TableSas};

const HOUR: i64 = 3600;

/// A server with the table `staff`, and a folder to run commands in.
struct House {
    folder: tempfile::TempDir,
    server: RunningServer,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RunningServer::start(&folder.path().join("data"));
        Client::connect(&server.table).unwrap().create_table("staff");
        Self { folder, server }
    }

    fn doctor(&self, arguments: &[&str]) -> Done {
        run(in_folder(self.folder.path()).arg("doctor").args(arguments))
    }

    fn url(&self, sas: &str) -> String {
        format!("{}/staff?{sas}", self.server.endpoint())
    }

    /// Asks about a signature for the table, with further flags by spaces.
    fn examine(&self, sas: &TableSas, flags: &str) -> Done {
        let url = self.url(&signed(sas));
        let arguments: Vec<&str> =
            ["--sas-url", &url].into_iter().chain(flags.split_whitespace()).collect();
        self.doctor(&arguments)
    }

    fn set_policies(&self, policies: Vec<AccessPolicy>) {
        let set = TableRequest::SetPolicies(name("staff"), policies);
        Client::connect(&self.server.table).unwrap().ask(&set).unwrap().unwrap();
    }
}

fn account() -> AccountName {
    AccountName::parse(ACCOUNT).unwrap()
}

fn signed(sas: &TableSas) -> String {
    sas.signed(&account(), &AccountKey::parse(KEY).unwrap())
}

fn from_now(seconds: i64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    DateTime::from_unix(Duration::from_secs(now.saturating_add_signed(seconds))).to_string()
}

fn sas() -> TableSas {
    TableSas {
        version: "2019-02-02".to_owned(),
        table: "staff".to_owned(),
        permissions: "r".to_owned(),
        expiry: from_now(HOUR),
        ..TableSas::default()
    }
}

#[test]
fn a_good_signature_is_called_good() {
    let house = House::new();
    let done = house.examine(&sas(), "--operation query");
    check(
        &done,
        &[
            "ok credential: for entities of the table staff, to read; account devstoreaccount1",
            "ok server: a Tavola at",
            "ok clock: the same here and on the server",
            "ok signature: made with a key of the account, and unchanged since",
            "ok time: valid until",
            "ok operation: query is permitted",
            "ok server's answer: it permits the signature to query staff",
        ],
    );
    let string = format!(
        "TableEndpoint={};SharedAccessSignature={}",
        house.server.endpoint(),
        signed(&sas())
    );
    check(
        &house.doctor(&["--connection-string", &string]),
        &["ok server's answer: it permits the signature to query staff"],
    );
    let json = house.doctor(&["--connection-string", &string, "-o", "json"]);
    shows_nothing_secret(&json);
    let json: serde_json::Value = serde_json::from_str(&json.text()).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["checks"][1]["subject"], "server");
    assert_eq!(json["checks"][1]["level"], "ok");
}

#[test]
fn times_are_told_in_words() {
    let house = House::new();
    let expired = TableSas { expiry: from_now(-HOUR), ..sas() };
    check(
        &house.examine(&expired, ""),
        &[
            "ok signature: made with a key",
            "fail time: it expired an hour ago, at 20",
            "fail server's answer: refused with 403 AuthenticationFailed: Signature not valid in the specified time frame",
        ],
    );
    let long_ago = TableSas { expiry: from_now(-3 * 24 * HOUR), ..sas() };
    check(&house.examine(&long_ago, ""), &["fail time: it expired 3 days ago"]);
    let early = TableSas { start: from_now(3 * HOUR), expiry: from_now(4 * HOUR), ..sas() };
    check(
        &house.examine(&early, ""),
        &["fail time: it is not valid yet: it begins in 3 hours, at 20"],
    );
}

#[test]
fn signatures_that_do_not_match() {
    let house = House::new();
    let string_to_sign = r#"\n/table/devstoreaccount1/staff\n\n\n\n2019-02-02\n\n\n\n""#;
    let other = house.url(&sas().signed(&account(), &AccountKey::parse(OTHER_KEY).unwrap()));
    let none = "fail signature: it does not match any key of the account devstoreaccount1";
    check(
        &house.doctor(&["--sas-url", &other]),
        &[
            none,
            &format!("fail {string_to_sign}"),
            "fail server's answer: refused with 403 AuthenticationFailed: Signature did not match",
        ],
    );
    let tampered = house.url(&signed(&sas()).replace("sp=r", "sp=raud"));
    check(
        &house.doctor(&["--sas-url", &tampered]),
        &[none, "fail a key was rotated, or a field was changed after signing"],
    );
    let twice = house.url(&signed(&sas()).replace('%', "%25"));
    check(
        &house.doctor(&["--sas-url", &twice]),
        &[
            "fail signature: the signature is percent-encoded twice; the URL was encoded twice: write % instead of %25; with that it is valid",
        ],
    );
    // One whose signature has a plus.
    let plus = (0..).map(|row| signed(&TableSas { start_partition_key: row.to_string(), ..sas() }));
    let plus = house
        .url(&plus.into_iter().find(|query| query.contains("%2B")).unwrap().replace("%2B", "+"));
    check(
        &house.doctor(&["--sas-url", &plus]),
        &[
            "fail signature: the signature has a plus that is not percent-encoded; write %2B instead of + behind sig=; with that it is valid",
        ],
    );
    // The owner of the key that signed is known here, under another name.
    let toml = format!(
        "[accounts.{ACCOUNT}]\nkey1 = \"{KEY}\"\n[accounts.shop]\nkey1 = \"{OTHER_KEY}\"\n"
    );
    std::fs::write(house.folder.path().join("tavola.toml"), toml).unwrap();
    check(
        &house.doctor(&["--sas-url", &other]),
        &["fail signature: it does not match: it was made with a key of the account shop"],
    );
}

#[test]
fn without_a_key_the_server_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(&folder.path().join("data"), |command| {
        command.env("TAVOLA_ACCOUNTS__SHOP__KEY1", OTHER_KEY)
    });
    let shop = AccountName::parse("shop").unwrap();
    let url = |key: &str| {
        let sas = sas().signed(&shop, &AccountKey::parse(key).unwrap());
        format!("http://{}/shop/staff?{sas}", server.table)
    };
    let doctor = |url: &str| run(in_folder(folder.path()).args(["doctor", "--sas-url", url]));
    let good = doctor(&url(OTHER_KEY));
    check(
        &good,
        &[
            "ok time: valid until",
            "warn server's answer: it accepts the signature, but the table does not exist",
        ],
    );
    assert!(!good.stdout.contains("signature: made"), "nobody here can tell:\n{}", good.stdout);
    check(
        &doctor(&url(KEY)),
        &["fail server's answer: refused with 403 AuthenticationFailed: Signature did not match"],
    );
    let elsewhere = url(OTHER_KEY).replace("/shop/", "/nobody/");
    check(
        &doctor(&elsewhere),
        &["fail server's answer: the server has no account nobody (404 ResourceNotFound)"],
    );
    // The answer is the same as to a missing entity, which the doctor can tell apart.
    let entity = ["--operation", "get", "--partition", "p", "--row", "r"];
    check(
        &run(in_folder(folder.path()).args(["doctor", "--sas-url", &elsewhere]).args(entity)),
        &["fail server's answer: the server has no account nobody (404 ResourceNotFound)"],
    );
}

/// What this machine knows may be old. A script asks whether the credential works.
#[test]
fn a_credential_that_works_is_called_good_whatever_else_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(&folder.path().join("data"), |command| {
        command.env("TAVOLA_ACCOUNTS__SHOP__KEY1", KEY)
    });
    let key = AccountKey::parse(KEY).unwrap();
    let sas = sas().signed(&AccountName::parse("shop").unwrap(), &key);
    let url = format!("http://{}/shop/staff?{sas}", server.table);
    let mut doctor = in_folder(folder.path());
    doctor
        .env("TAVOLA_ACCOUNTS__SHOP__KEY1", "b2xkIGtleSBvZiB0aGUgc2hvcCwgcm90YXRlZCBsb25nIGFnbw==");
    let done = run(doctor.args(["doctor", "--sas-url", &url]));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        done.stdout.lines().next(),
        Some("ok    result: the credential works, with 2 warnings"),
        "{done:?}"
    );
    assert!(done.stdout.contains("warn  signature: it does not match any key"), "{done:?}");
    let refused = run(in_folder(folder.path()).args([
        "doctor",
        "--sas-url",
        &url.replace("/shop/", "/nobody/"),
    ]));
    let verdict = refused.stdout.lines().next().unwrap();
    assert!(
        verdict.starts_with("fail  result: 1 of ")
            && verdict.ends_with("checks failed: server's answer"),
        "{verdict}"
    );
}

#[test]
fn what_the_signature_does_not_reach() {
    let house = House::new();
    check(
        &house.examine(&sas(), "--operation query --table other"),
        &[
            "fail table: the signature is for the table staff, and other was requested",
            "fail operation: query is not permitted there",
            "fail server's answer: refused with 403 AuthorizationFailure",
        ],
    );
    let in_url = house.url(&signed(&sas())).replace("/staff?", "/other?");
    check(
        &house.doctor(&["--sas-url", &in_url]),
        &["fail table: the signature is for the table staff, and other was requested"],
    );
    for (letters, operation, words) in [
        (
            "r",
            "insert",
            "insert needs the permission a; a is missing from sp=r; create one with `--permissions ra`",
        ),
        ("ra", "upsert", "upsert needs the permission au; u is missing from sp=ra"),
        ("a", "get", "get needs the permission r; r is missing from sp=a"),
        ("raud", "list-tables", "list-tables is not possible with a signature for one table"),
        ("raud", "delete-table", "delete-table is not possible with a signature for one table"),
    ] {
        let sas = TableSas { permissions: letters.to_owned(), ..sas() };
        let done = house.examine(&sas, &format!("--operation {operation} --partition p --row r"));
        check(&done, &[&format!("fail operation: {words}")]);
    }
    let writer = TableSas { permissions: "a".to_owned(), ..sas() };
    check(
        &house.examine(&writer, "--operation insert"),
        &[
            "ok operation: insert is permitted",
            "ok server's answer: it accepts the signature, but not to query staff",
        ],
    );
}

#[test]
fn ranges() {
    let house = House::new();
    let part = TableSas {
        permissions: "ra".to_owned(),
        start_partition_key: "b".to_owned(),
        start_row_key: "2".to_owned(),
        end_partition_key: "c".to_owned(),
        ..sas()
    };
    let range = r#"partition "b", row "2" to partition "c""#;
    check(
        &house.examine(&part, "--operation insert --partition b --row 1"),
        &[
            &format!(r#"fail range: partition "b", row "1" is outside its range: {range}"#),
            "fail operation: insert is not permitted",
        ],
    );
    check(
        &house.examine(&part, "--operation insert --partition b --row 2"),
        &[
            &format!("ok range: the entity is inside its range: {range}"),
            "ok operation: insert is permitted",
        ],
    );
    check(
        &house.examine(&part, "--operation get --partition z --row 2"),
        &[
            r#"fail range: partition "z", row "2" is outside its range"#,
            "fail server's answer: refused with 403 AuthorizationFailure",
        ],
    );
    check(
        &house.examine(&part, "--operation query"),
        &["ok range: its range is", "ok queries omit other entities without an error"],
    );
}

#[test]
fn account_signatures() {
    let house = House::new();
    let examine = |services: &str, types: &str, letters: &str, flags: &[&str]| {
        let sas = AccountSas {
            version: "2019-02-02".to_owned(),
            services: services.to_owned(),
            resource_types: types.to_owned(),
            permissions: letters.to_owned(),
            expiry: from_now(HOUR),
            ..AccountSas::default()
        };
        let query = sas.signed(&account(), &AccountKey::parse(KEY).unwrap());
        let url = format!("{}?{query}", house.server.endpoint());
        house.doctor(&[&["--sas-url", &url], flags].concat())
    };
    check(
        &examine("t", "sco", "rl", &[]),
        &[
            "ok credential: for the whole account",
            "ok server's answer: it permits the signature to list tables",
        ],
    );
    check(
        &examine("t", "o", "rl", &["--operation", "list-tables"]),
        &[
            "fail operation: list-tables needs the resource type s or c (srt), which is missing",
            "fail server's answer: refused with 403 AuthorizationResourceTypeMismatch",
        ],
    );
    check(
        &examine("t", "sco", "rl", &["--operation", "create-table", "--table", "new"]),
        &["fail operation: create-table needs the permission w or c; w or c is missing from sp=rl"],
    );
    check(
        &examine(
            "t",
            "sco",
            "rl",
            &["--operation", "get", "--table", "staff", "--partition", "p", "--row", "r"],
        ),
        &[
            "ok result: the credential works, with 1 warning",
            "ok operation: get is permitted",
            "warn server's answer: it accepts the signature, but there is no such entity (404 ResourceNotFound)",
        ],
    );
    check(
        &examine("bq", "sco", "rl", &[]),
        &["fail service: it does not permit access to tables: ss has no t"],
    );
    assert_eq!(
        Client::connect(&house.server.table).unwrap().read_all("staff"),
        [],
        "nothing was written"
    );
}

#[test]
fn policies() {
    let house = House::new();
    let named = TableSas {
        policy: "readers".to_owned(),
        expiry: String::new(),
        permissions: String::new(),
        ..sas()
    };
    let policy = |id: &str, expiry: i64| AccessPolicy {
        id: id.to_owned(),
        start: None,
        expiry: Some(DateTime::parse(&from_now(expiry)).unwrap()),
        permission: Some("r".to_owned()),
    };
    check(
        &house.examine(&named, ""),
        &[
            r#"fail policy: the table has no policy "readers"; it has none; the signature was revoked"#,
            "fail server's answer: refused with 403 AuthenticationFailed: The signed identifier names no access policy",
        ],
    );
    house.set_policies(vec![policy("readers", HOUR)]);
    check(
        &house.examine(&named, "--operation query"),
        &[
            r#"ok policy: the table staff has the policy "readers""#,
            "ok time: valid until",
            "ok operation: query",
        ],
    );
    check(
        &house.examine(&named, "--operation insert"),
        &["fail operation: insert needs the permission a; a is missing from sp=r"],
    );
    let both = TableSas { policy: "readers".to_owned(), ..sas() };
    check(
        &house.examine(&both, ""),
        &["fail policy: se, sp are set in the signature and in its policy"],
    );
    house.set_policies(vec![policy("readers", -HOUR)]);
    check(&house.examine(&named, ""), &["fail time: it or its policy expired an hour ago"]);
    house.set_policies(vec![policy("writers", HOUR)]);
    check(
        &house.examine(&named, ""),
        &[r#"fail policy: the table has no policy "readers"; it has "writers""#],
    );
}

#[test]
fn addresses_and_protocols() {
    let house = House::new();
    let https = TableSas { protocol: "https".to_owned(), ..sas() };
    check(
        &house.examine(&https, ""),
        &[
            "fail protocol: it is valid over https only (spr=https), and the URL is http",
            "fail server's answer: refused with 403 AuthorizationProtocolMismatch",
        ],
    );
    let elsewhere = TableSas { ip: "10.1.2.3-10.1.2.9".to_owned(), ..sas() };
    check(
        &house.examine(&elsewhere, ""),
        &[
            "fail address: it is valid from 10.1.2.3-10.1.2.9 only, and this machine has the address 127.0.0.1",
            "fail server's answer: refused with 403 AuthorizationSourceIPMismatch",
        ],
    );
    check(
        &house.examine(&TableSas { ip: "127.0.0.1".to_owned(), ..sas() }, ""),
        &["ok server's answer"],
    );
}

#[test]
fn urls_and_fields_that_are_broken() {
    let house = House::new();
    let good = house.url(&signed(&sas()));
    for (url, words) in [
        (
            good.split('&').next().unwrap().to_owned(),
            "URL: it has no sig, so it carries no signature; in a shell quote the URL",
        ),
        (good.split('?').next().unwrap().to_owned(), "URL: there is no ? in it"),
        (good.replace('&', "&amp;"), "URL: it was copied from HTML: it has &amp; instead of &"),
        (good.replace("http://", ""), "URL: it is not a URL"),
        (format!("{good}&sp=r"), "signature: sp stands more than once"),
        (
            good.replace("&se=", "&xx="),
            "fields: se is mandatory. Cannot be empty; the URL may be cut off",
        ),
        (good.replace("sv=2019-02-02&", ""), "fields: sv is mandatory"),
    ] {
        check(&house.doctor(&["--sas-url", &url]), &[&format!("fail {words}")]);
    }
    for (string, words) in [
        (
            "AccountName=devstoreaccount1",
            "neither AccountKey nor SharedAccessSignature is in the connection string; in a shell",
        ),
        ("AccountName=a;AccountKey=x", "AccountKey is not base64; was it cut off?"),
        ("rubbish", "part 1 of the connection string is not Name=value"),
    ] {
        check(
            &house.doctor(&["--connection-string", string]),
            &[&format!("fail connection string: {words}")],
        );
    }
    for arguments in [
        &["--operation", "get"][..],
        &["--table", "a b", "--sas-url", &good],
        &["--row", "r", "--sas-url", &good],
    ] {
        let done = house.doctor(arguments);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{done:?}");
    }
}

#[test]
fn keys() {
    let house = House::new();
    let endpoint = house.server.endpoint();
    let doctor = |string: &str| house.doctor(&["--connection-string", string]);
    let good = format!("AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={endpoint}");
    check(&doctor(&good), &["ok key: the server accepts it"]);
    let asked = house.doctor(&[
        "--connection-string",
        &good,
        "--operation",
        "delete-table",
        "--table",
        "staff",
    ]);
    check(&asked, &["ok operation: delete-table is permitted, as everything is with a key"]);
    check(
        &doctor(&good.replace(KEY, OTHER_KEY)),
        &[
            "fail key: refused with 403 AuthenticationFailed: it is no key of devstoreaccount1 on that server; the key is another account's, or was rotated",
        ],
    );
    let nobody = good.replace(ACCOUNT, "nobody");
    check(&doctor(&nobody), &["fail key: 404 ResourceNotFound: the server has no account nobody"]);
}

#[test]
fn nobody_is_there() {
    let house = House::new();
    // Nobody serves tables there, and no test can be given that port.
    let free = "127.0.0.1:1";
    let url = format!("http://{free}/{ACCOUNT}/staff?{}", signed(&sas()));
    check(
        &house.doctor(&["--sas-url", &url, "--operation", "query"]),
        &[
            &format!("fail server: nothing listens at {free}; start it with `tavola serve`"),
            "ok signature: made with a key",
            "ok time: valid until",
            "ok operation: query is permitted",
        ],
    );
    let url = format!("http://no-such-host.invalid/{ACCOUNT}/staff?{}", signed(&sas()));
    check(
        &house.doctor(&["--sas-url", &url]),
        &["fail server: there is no host named no-such-host.invalid"],
    );
    let named = TableSas { policy: "p".to_owned(), ..sas() };
    let url = format!("http://{free}/nobody/staff?{}", signed(&named));
    check(
        &house.doctor(&["--sas-url", &url]),
        &[
            "fail server: nothing listens",
            "warn signature: not checked",
            r#"warn policy: whether the policy "p" exists was not checked"#,
        ],
    );
}

/// Answers every request with the same bytes, until the test ends.
fn answering(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    at
}

#[test]
fn clocks_that_differ() {
    let house = House::new();
    for (seconds, level, words) in [
        (-20 * 60, "fail", "the server's clock is 20 minutes behind ours"),
        (5 * 60, "warn", "the server's clock is 5 minutes ahead of ours"),
    ] {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let theirs =
            SystemTime::UNIX_EPOCH + Duration::from_secs(now.saturating_add_signed(seconds));
        let date = httpdate::fmt_http_date(theirs);
        let at = answering(format!(
            "HTTP/1.1 400 Bad Request\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n"
        ));
        let url = format!(
            "http://{at}/{ACCOUNT}/staff?{}",
            signed(&TableSas { start: from_now(-60), ..sas() })
        );
        let done = house.doctor(&["--sas-url", &url]);
        let found = done.stdout.lines().any(|line| line.starts_with(level) && line.contains(words));
        assert!(found, "{level} {words} is not in\n{}", done.stdout);
        // Whether it is valid is the server's to say.
        assert_eq!(
            done.stdout.contains("it is not valid yet: it begins in"),
            seconds < 0,
            "{}",
            done.stdout
        );
    }
}
