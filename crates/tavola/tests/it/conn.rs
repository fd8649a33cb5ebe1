//! `tavola conn`: strings and lines to paste.

use crate::common::cli::{ask, examples, in_folder, in_shell, request, run};
use crate::common::client::Client;
use crate::common::{ACCOUNT, KEY, OTHER_KEY, RunningServer};
use tavola_core::ServiceKind;
use tavola_protocol::ConnectionString;
use tavola_protocol::connection_string::Secret;

const SDKS: [&str; 7] = ["python", "javascript", "go", "java", "dotnet", "rust", "curl"];

#[test]
fn the_string_opens_the_account_and_says_that_it_is_secret() {
    let folder = tempfile::tempdir().unwrap();
    let done = run(in_folder(folder.path()).arg("conn"));
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert!(
        done.stderr.contains("contains a key of the account devstoreaccount1")
            && !done.stderr.contains(KEY)
    );
    let text = done.text();
    assert_eq!(text.lines().count(), 1);
    let string = ConnectionString::parse(&text).unwrap();
    assert_eq!(string, ConnectionString::parse(&string.to_text()).unwrap());
    assert_eq!(string.secret(), &Secret::Key(KEY.to_owned().into()));
    assert_eq!(
        string.endpoint(ServiceKind::Table).unwrap().as_str(),
        format!("http://127.0.0.1:10002/{ACCOUNT}")
    );
}

#[test]
fn accounts_keys_and_endpoints_are_those_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = "[server]\nhost = \"0.0.0.0\"\n[table]\nport = 4711\n";
    let toml = format!("{server}[accounts.shop]\nkey1 = \"{OTHER_KEY}\"\nkey2 = \"{KEY}\"\n");
    std::fs::write(folder.path().join("own.toml"), toml).unwrap();
    let conn = |arguments: &[&str]| {
        let done =
            run(in_folder(folder.path()).args(["conn", "--config", "own.toml"]).args(arguments));
        ConnectionString::parse(&done.text()).unwrap().to_text().to_string()
    };
    let expected = |key: &str, endpoint: &str| {
        let scheme = endpoint.split(':').next().unwrap();
        format!(
            "DefaultEndpointsProtocol={scheme};AccountName=shop;AccountKey={key};TableEndpoint={endpoint}"
        )
    };
    assert_eq!(conn(&[]), expected(OTHER_KEY, "http://127.0.0.1:4711/shop"));
    assert_eq!(
        conn(&["--account", "shop", "--key", "2"]),
        expected(KEY, "http://127.0.0.1:4711/shop")
    );
    assert_eq!(
        conn(&["--endpoint", "https://t.test/shop/"]),
        expected(OTHER_KEY, "https://t.test/shop")
    );
    let unknown = run(in_folder(folder.path()).args(["conn", "--account", "nobody"]));
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""));
}

#[test]
fn every_library_has_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let whole = run(in_folder(folder.path()).args(["conn", "--sdk", "all", "-o", "json"])).text();
    let json: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let string = json["connection_string"].as_str().unwrap();
    for sdk in SDKS {
        let lines = run(in_folder(folder.path()).args(["conn", "--sdk", sdk])).text();
        assert!((3..=6).contains(&lines.lines().count()), "{sdk}:\n{lines}");
        let has_key = lines.contains(string);
        assert_eq!(has_key, !["rust", "curl"].contains(&sdk), "{sdk}:\n{lines}");
        assert!(
            !lines.contains("{string}")
                && !lines.contains("{url}")
                && !lines.contains("{insecure}"),
            "{lines}"
        );
        let in_json = json["snippets"][sdk].as_str().unwrap();
        if has_key {
            assert_eq!(in_json.trim_end(), lines);
        }
    }
    let https = |sdk: &str| {
        run(in_folder(folder.path()).args([
            "conn",
            "--endpoint",
            "https://a.table.test",
            "--sdk",
            sdk,
        ]))
        .text()
    };
    assert!(!https("javascript").contains("allowInsecureConnection"), "only plain http needs it");
    assert!(https("curl").contains("url='https://a.table.test/Tables?sv="));
}

#[test]
fn the_lines_without_a_library_list_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(&folder.path().join("data"));
    Client::connect(&server.table).unwrap().create_table("staff");
    for (sdk, quote) in [("curl", '\''), ("rust", '"')] {
        let lines = run(in_folder(folder.path()).args([
            "conn",
            "--sdk",
            sdk,
            "--endpoint",
            &server.endpoint(),
        ]))
        .text();
        let url = lines.split(quote).find(|text| text.starts_with("http://")).unwrap();
        let (base, query) = url.split_once("/Tables?").unwrap();
        assert_eq!(ask(&server.table, base, &request("list-tables", "staff", "p/r"), query), "200");
        assert_eq!(
            ask(&server.table, base, &request("insert", "staff", "p/r"), query),
            "403 AuthorizationPermissionMismatch"
        );
    }
    let lines = run(in_folder(folder.path()).args([
        "conn",
        "--sdk",
        "curl",
        "--endpoint",
        &server.endpoint(),
    ]))
    .text();
    let listed = in_shell(folder.path(), &lines, |shell| shell).text();
    assert!(listed.contains("staff"), "{listed}");
}

#[test]
fn the_examples_of_the_help_work() {
    for line in examples(&["conn"]) {
        let folder = tempfile::tempdir().unwrap();
        let text = in_shell(folder.path(), &line, |shell| shell).text();
        assert!(text.contains("AccountKey="), "{line}: {text}");
    }
}
