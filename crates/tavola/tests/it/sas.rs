//! `tavola sas`: what it makes opens on a real server exactly what it says, and what makes no sense
//! is refused.

use std::path::Path;
use std::process::Command;

use crate::common::cli::{ask, examples, in_folder, in_shell, request, run};
use crate::common::client::{Client, name, new_entity};
use crate::common::{ACCOUNT, KEY, OTHER_KEY, RunningServer};
use tavola_core::{AccessPolicy, EntityOperation, TableRequest};

fn sas(folder: &Path, arguments: &str) -> String {
    run(in_folder(folder).arg("sas").args(arguments.split(' ')).args(["-o", "sas"])).text()
}

/// A server with the table `staff`, and a folder to run commands in.
fn server() -> (tempfile::TempDir, RunningServer) {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(&folder.path().join("data"));
    Client::connect(&server.table).unwrap().create_table("staff");
    (folder, server)
}

fn put(server: &RunningServer, key: &str) {
    let (partition_key, new) = new_entity(key, 1);
    let upsert = EntityOperation::Insert(new);
    let written = Client::connect(&server.table).unwrap().ask(&TableRequest::Write(
        name("staff"),
        partition_key,
        upsert,
    ));
    written.unwrap().unwrap();
}

const ENTITY_OPERATIONS: [(&str, &str); 7] = [
    ("get", "r"),
    ("query", "r"),
    ("insert", "a"),
    ("update", "u"),
    ("merge", "u"),
    ("upsert", "au"),
    ("delete", "d"),
];

fn has_all(letters: &str, needed: &str) -> bool {
    needed.chars().all(|letter| letters.contains(letter))
}

#[test]
fn a_table_signature_opens_its_letters_and_nothing_else() {
    let (folder, server) = server();
    for letters in ["r", "a", "u", "d", "au", "raud"] {
        let sas = sas(folder.path(), &format!("table staff --permissions {letters}"));
        for (operation, needed) in ENTITY_OPERATIONS {
            let key = format!("{letters}/{operation}");
            if operation != "insert" {
                put(&server, &key);
            }
            let answer =
                ask(&server.table, &server.endpoint(), &request(operation, "staff", &key), &sas);
            if has_all(letters, needed) {
                assert!(answer.starts_with('2'), "{operation} with {letters}: {answer}");
            } else {
                assert_eq!(
                    answer, "403 AuthorizationPermissionMismatch",
                    "{operation} with {letters}"
                );
            }
        }
        for operation in ["list-tables", "create-table", "delete-table", "properties", "policies"] {
            let answer =
                ask(&server.table, &server.endpoint(), &request(operation, "staff", "p/r"), &sas);
            assert_eq!(answer, "403 AuthorizationFailure", "{operation} with {letters}");
        }
        let other = ask(&server.table, &server.endpoint(), &request("query", "other", "p/r"), &sas);
        assert_eq!(other, "403 AuthorizationFailure", "another table with {letters}");
    }
}

#[test]
fn an_account_signature_opens_its_letters_on_its_kinds_of_resource() {
    let (folder, server) = server();
    let operations = [
        ("list-tables", "sc", &["l"][..]),
        ("create-table", "c", &["c", "w"]),
        ("delete-table", "c", &["d"]),
        ("get", "o", &["r"]),
        ("query", "o", &["r"]),
        ("insert", "o", &["a"]),
        ("update", "o", &["u"]),
        ("upsert", "o", &["au"]),
        ("delete", "o", &["d"]),
        ("properties", "s", &["r"]),
    ];
    let all = "rwdlacu";
    let few = ["r", "w", "d", "l", "a", "c", "u", "au"].map(|letters| (letters, "sco"));
    for (letters, types) in
        few.into_iter().chain([(all, "s"), (all, "c"), (all, "o"), (all, "sco")])
    {
        let sas = sas(
            folder.path(),
            &format!("account --permissions {letters} --resource-types {types}"),
        );
        for (operation, kinds, needed) in operations {
            let (table, key) =
                (format!("t{letters}{types}"), format!("{letters}-{types}/{operation}"));
            let table = if operation.ends_with("-table") { table.as_str() } else { "staff" };
            match operation {
                "insert" | "create-table" => {}
                "delete-table" => Client::connect(&server.table).unwrap().create_table(table),
                _ => put(&server, &key),
            }
            let answer =
                ask(&server.table, &server.endpoint(), &request(operation, table, &key), &sas);
            let is_kind = kinds.chars().any(|kind| types.contains(kind));
            let is_enough = needed.iter().any(|needed| has_all(letters, needed));
            match (is_kind, is_enough) {
                (true, true) => assert!(
                    answer.starts_with('2'),
                    "{operation} with {letters}, {types}: {answer}"
                ),
                (true, false) => assert_eq!(
                    answer, "403 AuthorizationPermissionMismatch",
                    "{operation}, {letters}"
                ),
                (false, _) => assert_eq!(
                    answer, "403 AuthorizationResourceTypeMismatch",
                    "{operation}, {types}"
                ),
            }
        }
    }
}

#[test]
fn a_range_is_inclusive_at_both_ends() {
    let (folder, server) = server();
    ["a/9", "b/1", "b/2", "c/1", "d/5", "d/6", "e/1"].iter().for_each(|key| put(&server, key));
    for (flags, inside) in [
        ("--from-partition b --to-partition c", "b/1 b/2 c/1"),
        ("--from-partition b --from-row 2 --to-partition d --to-row 5", "b/2 c/1 d/5"),
        ("--from-partition d", "d/5 d/6 e/1"),
        ("--to-partition a", "a/9"),
        ("--from-partition b --from-row 2 --to-partition b --to-row 2", "b/2"),
    ] {
        let sas = sas(folder.path(), &format!("table staff --permissions ru {flags}"));
        for key in ["a/9", "b/1", "b/2", "c/1", "d/5", "d/6", "e/1"] {
            let answer =
                ask(&server.table, &server.endpoint(), &request("update", "staff", key), &sas);
            let expected = if inside.split(' ').any(|known| known == key) {
                "204"
            } else {
                "403 AuthorizationFailure"
            };
            assert_eq!(answer, expected, "{flags}: {key}");
        }
    }
}

#[test]
fn time_address_and_protocol_are_signed() {
    let (folder, server) = server();
    let query = request("query", "staff", "p/r");
    for (flags, expected) in [
        ("--expires-in 30m --ip 127.0.0.1", "200"),
        ("--ip 127.0.0.1-127.0.0.9 --start 2020-01-01", "200"),
        ("--expiry 2999-12-31T23:59:59Z", "200"),
        ("--sas-version 2012-02-12", "200"),
        ("--sas-version 2026-10-06", "200"),
        ("--start 2998-01-01 --expires-in 1h", "403 AuthenticationFailed"),
        ("--ip 10.1.2.3", "403 AuthorizationSourceIPMismatch"),
        ("--https-only", "403 AuthorizationProtocolMismatch"),
    ] {
        for kind in ["table staff", "account"] {
            if kind == "account" && flags.contains("2012-02-12") {
                continue;
            }
            let sas = sas(folder.path(), &format!("{kind} {flags}"));
            assert_eq!(
                ask(&server.table, &server.endpoint(), &query, &sas),
                expected,
                "{kind} {flags}"
            );
        }
    }
}

fn set_policy(server: &RunningServer, policies: Vec<AccessPolicy>) {
    let set = TableRequest::SetPolicies(name("staff"), policies);
    Client::connect(&server.table).unwrap().ask(&set).unwrap().unwrap();
}

#[test]
fn a_policy_says_what_the_signature_does_not_and_can_revoke_it() {
    let (folder, server) = server();
    let (query, sas) =
        (request("query", "staff", "p/r"), sas(folder.path(), "table staff --policy readers"));
    assert!(!sas.contains("sp=") && !sas.contains("se="), "{sas}");
    assert_eq!(ask(&server.table, &server.endpoint(), &query, &sas), "403 AuthenticationFailed");
    let expiry = Some(tavola_core::DateTime::parse("2999-01-01").unwrap());
    let policy = AccessPolicy {
        id: "readers".to_owned(),
        start: None,
        expiry,
        permission: Some("r".to_owned()),
    };
    set_policy(&server, vec![policy]);
    assert_eq!(ask(&server.table, &server.endpoint(), &query, &sas), "200");
    set_policy(&server, vec![]);
    assert_eq!(ask(&server.table, &server.endpoint(), &query, &sas), "403 AuthenticationFailed");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a flat table of cases")]
fn what_makes_no_sense_is_refused_with_words_that_teach() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(65);
    let long = long.as_str();
    for (arguments, words) in [
        (
            &["table", "staff", "--permissions", "rw"][..],
            "'w' is no permission of a table; there are: r (read), a (add)",
        ),
        (&["table", "staff", "--permissions", "rr"], "'r' occurs more than once"),
        (&["table", "staff", "--permissions", ""], "--permissions is empty"),
        (&["account", "--permissions", "z"], "'z' is no permission of an account"),
        (&["account", "--services", "bq"], "without t the signature gives no access to tables"),
        (
            &["account", "--resource-types", "x"],
            "'x' is no resource type; there are: s (the service itself)",
        ),
        (&["table", "a-b"], "\"a-b\" cannot be a table"),
        (&["table", "staff", "--from-row", "1"], "--from-row needs --from-partition"),
        (
            &["table", "staff", "--to-row", "1", "--from-partition", "a"],
            "--to-row needs --to-partition",
        ),
        (
            &["table", "staff", "--from-partition", "b", "--to-partition", "a"],
            "no entity is between partition \"b\"",
        ),
        (
            &[
                "table",
                "staff",
                "--from-partition",
                "a",
                "--from-row",
                "2",
                "--to-partition",
                "a",
                "--to-row",
                "1",
            ],
            "no entity is between partition \"a\", row \"2\" and partition \"a\", row \"1\"",
        ),
        (&["table", "staff", "--to-partition", "a", "--to-row", ""], "--to-row is empty"),
        (&["table", "staff", "--from-partition", "a/b"], "forbidden character '/'"),
        (&["table", "staff", "--expiry", "2020-01-01"], "the signature would have expired"),
        (
            &["table", "staff", "--expiry", "tomorrow"],
            "\"tomorrow\" is not a time; write 2026-12-31",
        ),
        (&["table", "staff", "--expires-in", "0h"], "\"0h\" is not a time"),
        (&["table", "staff", "--expires-in", "99999999d"], "ends after the year 9999"),
        (
            &["table", "staff", "--expires-in", "1h", "--expiry", "2999-01-01"],
            "cannot be used with",
        ),
        (
            &["table", "staff", "--start", "2999-01-02", "--expiry", "2999-01-01"],
            "before it begins",
        ),
        (&["table", "staff", "--ip", "::1"], "IPv4 addresses only"),
        (&["table", "staff", "--ip", "10.0.0.9-10.0.0.1"], "ends before it starts"),
        (&["table", "staff", "--sas-version", "latest"], "The signed version is not one: 'latest'"),
        (
            &["table", "staff", "--sas-version", "2014-02-14", "--https-only"],
            "spr needs a signed version of 2015-04-05",
        ),
        (
            &["account", "--sas-version", "2014-02-14"],
            "An account signature needs a signed version of 2015-04-05",
        ),
        (&["table", "staff", "--policy", ""], "the id of a policy has 1 to 64 characters"),
        (&["table", "staff", "--policy", long], "the id of a policy has 1 to 64 characters"),
        (
            &["table", "staff", "--endpoint", "127.0.0.1:10002"],
            "--endpoint: it must begin with http:// or https://",
        ),
        (
            &["table", "staff", "--account", "nobody"],
            "the configuration has no account nobody; it has: devstoreaccount1",
        ),
        (&["table", "staff", "--key", "2"], "the development account has one key only"),
        (&["table", "staff", "--key-file", "missing"], "cannot read missing"),
        (
            &["table", "staff", "--connection-string", "AccountName=a"],
            "neither AccountKey nor SharedAccessSignature",
        ),
        (
            &[
                "table",
                "staff",
                "--connection-string",
                "TableEndpoint=http://h/a;SharedAccessSignature=sv=1&sig=topsecret",
            ],
            "a shared access signature is not accepted here; an account key is required",
        ),
        (
            &["table", "staff", "--connection-string", "AccountName=a;AccountKey=topsecret!"],
            "AccountKey is not base64",
        ),
    ] {
        let done = run(in_folder(folder.path()).arg("sas").args(arguments));
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(2), ""),
            "{arguments:?}: {}",
            done.stderr
        );
        assert!(done.stderr.contains(words), "{arguments:?}: {}", done.stderr);
        assert!(!done.stderr.contains("topsecret"), "{}", done.stderr);
    }
}

/// The account of a signature's URL, and whether the key verifies it.
fn made_with(url: &str, account: &str, key: &str) -> bool {
    use tavola_protocol::auth::{AccountKey, TableSas};
    let (base, query) = url.split_once('?').unwrap();
    let account = tavola_core::AccountName::parse(account).unwrap();
    let again = TableSas::read(query).unwrap().signed(&account, &AccountKey::parse(key).unwrap());
    base.contains(account.as_str()) && again == query
}

#[test]
fn keys_come_from_many_places_and_flags_count_most() {
    let folder = tempfile::tempdir().unwrap();
    let url = |with: &[&str], variable: Option<&str>| {
        let mut command = in_folder(folder.path());
        command.args(["sas", "table", "staff", "-o", "url"]).args(with);
        run(variable.iter().fold(&mut command, |command, text| {
            command.env("AZURE_STORAGE_CONNECTION_STRING", text)
        }))
    };
    let string =
        format!("AccountName=one;AccountKey={OTHER_KEY};TableEndpoint=https://one.table.test");
    let of_flag = url(&["--connection-string", &string], Some("UseDevelopmentStorage=true")).text();
    assert!(
        of_flag.starts_with("https://one.table.test/staff?")
            && made_with(&of_flag, "one", OTHER_KEY),
        "{of_flag}"
    );
    let of_variable = url(&[], Some(&string)).text();
    assert!(made_with(&of_variable, "one", OTHER_KEY));
    let elsewhere = url(&["--endpoint", "http://127.0.0.1:7/one/"], Some(&string)).text();
    assert!(elsewhere.starts_with("http://127.0.0.1:7/one/staff?"), "{elsewhere}");
    let development =
        url(&["--connection-string", "UseDevelopmentStorage=true"], Some(&string)).text();
    assert!(
        development.starts_with("http://127.0.0.1:10002/devstoreaccount1/staff?"),
        "{development}"
    );
    assert!(
        made_with(&development, ACCOUNT, KEY) && made_with(&url(&[], None).text(), ACCOUNT, KEY)
    );
    std::fs::write(folder.path().join("key"), format!("{OTHER_KEY}\n")).unwrap();
    let of_file = url(&["--account", "two", "--key-file", "key"], Some(&string)).text();
    assert!(
        of_file.starts_with("http://127.0.0.1:10002/two/staff?")
            && made_with(&of_file, "two", OTHER_KEY)
    );
    std::fs::write(folder.path().join("key"), "not a key!\n").unwrap();
    let refused = url(&["--key-file", "key"], None);
    assert!(refused.code == Some(2) && !refused.stderr.contains("not a key!"), "{refused:?}");

    let toml = format!(
        "[table]\nport = 4711\n[accounts.shop]\nkey1 = \"{KEY}\"\nkey2 = \"{OTHER_KEY}\"\n"
    );
    std::fs::write(folder.path().join("tavola.toml"), toml).unwrap();
    let only = url(&[], None).text();
    assert!(
        only.starts_with("http://127.0.0.1:4711/shop/staff?") && made_with(&only, "shop", KEY),
        "{only}"
    );
    assert!(made_with(
        &url(&["--account", "shop", "--key", "2"], Some(&string)).text(),
        "shop",
        OTHER_KEY
    ));
    assert!(
        made_with(&url(&["--account", ACCOUNT], None).text(), ACCOUNT, KEY),
        "its key is public"
    );
    let accounts = folder.path().join("tavola-accounts");
    std::fs::create_dir(&accounts).unwrap();
    std::fs::write(accounts.join("depot.toml"), format!("key1 = \"{OTHER_KEY}\"\n")).unwrap();
    assert!(made_with(&url(&["--account", "depot"], None).text(), "depot", OTHER_KEY));
    let which = url(&[], None);
    assert!(
        which.stderr.contains("which account? Use --account with one of: depot, shop"),
        "{which:?}"
    );
    let second = url(&["--account", "depot", "--key", "2"], None);
    assert!(second.stderr.contains("the account depot has no key2"), "{second:?}");
}

#[test]
fn every_format_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let print = |format: &str| {
        let arguments = [
            "sas",
            "table",
            "staff",
            "--permissions",
            "da",
            "--expiry",
            "2999-01-01T00:00:00+01:00",
        ];
        run(in_folder(folder.path()).args(arguments).args([
            "--from-partition",
            "a b",
            "-o",
            format,
        ]))
        .text()
    };
    let (url, sas, string) = (print("url"), print("sas"), print("connection-string"));
    assert!(
        sas.starts_with("sv=2019-02-02&tn=staff&sp=ad&se=2998-12-31T23%3A00%3A00Z&spk=a%20b&sig="),
        "{sas}"
    );
    assert_eq!(url, format!("http://127.0.0.1:10002/devstoreaccount1/staff?{sas}"));
    assert_eq!(
        string,
        format!(
            "TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;SharedAccessSignature={sas}"
        )
    );
    let json: serde_json::Value = serde_json::from_str(&print("json")).unwrap();
    let expected = serde_json::json!({
        "url": url, "sas": sas, "connection_string": string, "expires": "2998-12-31T23:00:00Z",
    });
    assert_eq!(json, expected);
    let text = print("text");
    for line in [
        format!("  {url}"),
        format!("  {string}"),
        "  add, delete: entities of the table staff, account devstoreaccount1".to_owned(),
        "  from partition \"a b\" to the table's last entity, both included".to_owned(),
        "  from any address, over http or https".to_owned(),
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("  until 2998-12-31T23:00:00Z, in 97"), "{text}");
    let policy = run(
        in_folder(folder.path()).args(["sas", "table", "staff", "--policy", "p", "-o", "json"])
    )
    .text();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&policy).unwrap()["expires"],
        serde_json::Value::Null
    );
    let whole = run(in_folder(folder.path()).args([
        "sas",
        "account",
        "--endpoint",
        "https://a.table.test",
        "-o",
        "url",
    ]));
    assert!(whole.text().starts_with("https://a.table.test/?sv="));
    let warned =
        run(in_folder(folder.path()).args(["sas", "account", "--https-only", "-o", "url"]));
    assert!(
        warned.stderr.contains("plain http, over which this signature is refused"),
        "{warned:?}"
    );
}

#[test]
fn the_examples_of_the_help_work() {
    for command in [&["sas"][..], &["sas", "table"], &["sas", "account"]] {
        for line in examples(command) {
            let folder = tempfile::tempdir().unwrap();
            let text = in_shell(folder.path(), &line, |shell| shell).text();
            assert!(text.contains("sig="), "{line}: {text}");
        }
    }
}

/// Azurite takes whichever credential holds, and scripts rely on it; the service goes by the
/// header.
#[test]
fn a_header_that_does_not_hold_beside_a_signature_that_does() {
    let undated = format!("SharedKey {ACCOUNT}:AAAA");
    let (folder, server) = server();
    let good = sas(folder.path(), "table staff --permissions r");
    assert_eq!(status(&server, &good, None), 200);
    assert_eq!(status(&server, &good, Some(&undated)), 403);
    drop(server);

    let link = folder.path().join("azurite-table");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tavola"), &link).unwrap();
    let mut command = Command::new(link);
    command.env_remove("AZURITE_ACCOUNTS").current_dir(folder.path());
    let emulator =
        RunningServer::spawn(command.args(["--tablePort", "0", "--silent", "-l", "emulated"]));
    Client::connect(&emulator.table).unwrap().create_table("staff");
    assert_eq!(status(&emulator, &good, Some(&undated)), 200);
    assert_eq!(status(&emulator, &good, Some("nonsense")), 200);
    let signature_alone_decides = sas(folder.path(), "table staff --permissions a");
    assert_eq!(status(&emulator, &signature_alone_decides, Some(&undated)), 403);
    // Neither holds.
    assert_eq!(status(&emulator, &good.replace("sig=", "sig=x"), Some(&undated)), 403);
    assert_eq!(status(&emulator, "$top=1", Some(&undated)), 403);
}

/// The status of a query with these fields in its URL and this header.
fn status(server: &RunningServer, query: &str, authorization: Option<&str>) -> u16 {
    let request = http::Request::get(format!("/{ACCOUNT}/staff()?{query}"));
    let request = match authorization {
        Some(value) => request.header("authorization", value),
        None => request,
    };
    let request = request.body(bytes::Bytes::new()).unwrap();
    Client::connect(&server.table).unwrap().exchange(&request).unwrap().status().as_u16()
}
