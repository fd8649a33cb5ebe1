//! `tavola table`, `entity`, `query`, `explain`, `count` and `delete-where` against a real server.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::common::cli::{Done, examples, in_folder, in_shell, run, shows_nothing_secret};
use crate::common::{ACCOUNT, KEY, RunningServer, free_port};
use crate::tls::client::Files;
use serde_json::{Value, json};
use tavola_client::{Account, Credential, DynEntity, Mode, TableClient};

/// A server, and a folder to run commands in.
struct House {
    folder: tempfile::TempDir,
    server: RunningServer,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RunningServer::start(&folder.path().join("data"));
        Self { folder, server }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = in_folder(self.folder.path());
        command.args(arguments).args(["--endpoint", &self.server.endpoint()]);
        command
    }

    fn run(&self, arguments: &[&str]) -> Done {
        let done = run(&mut self.command(arguments));
        shows_nothing_secret(&done);
        done
    }

    /// What a command prints that must succeed.
    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        self.run(arguments).text()
    }

    /// The message and code of a command that must fail.
    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let done = self.run(arguments);
        assert!(done.stdout.is_empty() && done.code != Some(0), "{done:?}");
        (done.code.unwrap(), done.stderr)
    }

    fn put(&self, table: &str, entity: &Value) {
        self.text(&["entity", "put", table, &entity.to_string()]);
    }

    fn client(&self, table: &str) -> TableClient {
        let credential = Some(Credential::key(ACCOUNT, KEY));
        let account = Account::new(&self.server.endpoint(), credential).unwrap();
        account.tables().unwrap().table_client(table)
    }

    /// A table with so many entities, fifty of a partition.
    fn fill(&self, table: &str, entities: u32) {
        let client = self.client(table);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            client.create().await.unwrap();
            let entity = |number: u32| {
                let row = format!("{number:05}");
                let mut entity = DynEntity::new(format!("p{:03}", number / 50), row);
                entity.set("Number", i32::try_from(number).unwrap());
                entity
            };
            let report =
                client.bulk().upsert_all((0..entities).map(entity), Mode::Replace).await.unwrap();
            assert_eq!(report.written, entities as usize);
        });
    }
}

/// Every type, and texts that formats have to quote.
fn every_type() -> Value {
    json!({
        "PartitionKey": "it's, \"so\"", "RowKey": "ü 1",
        "Text": "a,b \"c\"\nd", "Empty": "", "Truth": true, "Int": -7,
        "Long@odata.type": "Edm.Int64", "Long": "9007199254740993",
        "Whole": 5.0, "Real": 0.1,
        "NaN@odata.type": "Edm.Double", "NaN": "NaN",
        "At@odata.type": "Edm.DateTime", "At": "2026-11-18T06:00:00.1234567Z",
        "Id@odata.type": "Edm.Guid", "Id": "00000000-0000-0000-0000-00000000002a",
        "Bytes@odata.type": "Edm.Binary", "Bytes": "AP8=",
    })
}

/// Without what the service adds.
fn own(mut entity: Value) -> Value {
    let members = entity.as_object_mut().unwrap();
    assert!(members.remove("odata.etag").unwrap().as_str().unwrap().starts_with("W/\""));
    assert!(members.remove("Timestamp").unwrap().as_str().unwrap().ends_with('Z'));
    members.retain(|name, _| !name.starts_with("Timestamp@"));
    entity
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn tables_are_created_listed_and_deleted() {
    let house = House::new();
    assert_eq!(house.text(&["table", "ls"]), "");
    assert_eq!(house.text(&["table", "create", "one", "two"]), "one created\ntwo created");
    let (code, words) = house.refused(&["table", "create", "one"]);
    assert_eq!(code, 1);
    assert!(words.contains("a table of this name exists (409 TableAlreadyExists"), "{words}");
    assert_eq!(house.text(&["table", "create", "one", "--if-missing"]), "one was there");
    assert_eq!(house.text(&["table", "ls"]), "one\ntwo");
    assert_eq!(parsed(&house.text(&["table", "ls", "-o", "json"])), json!(["one", "two"]));
    let dry = house.text(&["table", "rm", "one", "--dry-run"]);
    assert_eq!(dry, "one would be deleted with all its entities; nothing was");
    assert_eq!(house.text(&["table", "ls"]), "one\ntwo");
    assert_eq!(house.text(&["table", "rm", "one"]), "one deleted");
    for flags in [&["--dry-run"][..], &[]] {
        let (code, words) = house.refused(&[&["table", "rm", "one"], flags].concat());
        assert_eq!((code, words.contains("there is no table one")), (1, true), "{words}");
    }
    assert_eq!(house.text(&["table", "rm", "one", "--if-exists"]), "one was not there");
    let (code, words) = house.refused(&["table", "create", "1st"]);
    assert_eq!((code, words.contains("`1st` cannot name a table")), (2, true), "{words}");
}

#[test]
fn every_type_comes_back_as_it_was_written() {
    let house = House::new();
    house.text(&["table", "create", "types", "copies"]);
    let entity = every_type();
    house.put("types", &entity);
    let key = ["it's, \"so\"", "ü 1"];
    let read = house.text(&["entity", "get", "types", key[0], key[1]]);
    assert_eq!(own(parsed(&read)), entity);
    // What is printed can be put, from standard input as well, and is the same again.
    let mut put = house.command(&["entity", "put", "copies", "-"]);
    put.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = put.spawn().unwrap();
    child.stdin.take().unwrap().write_all(read.as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let copy = house.text(&["entity", "get", "copies", key[0], key[1]]);
    assert_eq!(own(parsed(&copy)), entity);
    let page = house.text(&["query", "copies", "-o", "json"]);
    assert_eq!(parsed(&page), json!([parsed(&copy)]));
    assert_eq!(house.text(&["query", "copies", "-o", "ndjson"]), copy);
}

#[test]
fn entities_are_written_and_deleted_by_version() {
    let house = House::new();
    house.text(&["table", "create", "people"]);
    let put = |entity: Value, flags: &[&str]| {
        let text = entity.to_string();
        house.run(&[&["entity", "put", "people", &text], flags].concat())
    };
    let ann = |more: Value| {
        let mut entity = json!({ "PartitionKey": "a", "RowKey": "1" });
        entity.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entity
    };
    let first = put(ann(json!({ "Age": 1, "Name": "Ann" })), &["--insert"]).text();
    let again = put(ann(json!({})), &["--insert"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("an entity with this key exists"), "{again:?}");
    let second = put(ann(json!({ "Age": 2 })), &["--merge", "--if-match", &first]).text();
    let late = put(ann(json!({ "Age": 3 })), &["--if-match", &first]);
    assert_eq!(late.code, Some(1));
    assert!(late.stderr.contains("changed since it was read"), "{late:?}");
    let read = parsed(&house.text(&["entity", "get", "people", "a", "1"]));
    assert_eq!((&read["Age"], &read["Name"]), (&json!(2), &json!("Ann")));
    assert_eq!(read["odata.etag"], second.as_str());
    put(ann(json!({ "Age": 4 })), &[]).text();
    let read = parsed(&house.text(&["entity", "get", "people", "a", "1"]));
    assert_eq!((&read["Age"], &read["Name"]), (&json!(4), &Value::Null));

    let rm = ["entity", "rm", "people", "a", "1"];
    let dry = house.text(&[&rm[..], &["--dry-run"]].concat());
    assert_eq!(dry, "('a', '1') would be deleted; nothing was");
    assert_eq!(house.refused(&[&rm[..], &["--if-match", &first]].concat()).0, 1);
    assert_eq!(house.text(&rm), "1 deleted");
    assert_eq!(house.refused(&rm).0, 1);
    let (code, words) = house.refused(&["entity", "get", "people", "a", "1"]);
    assert_eq!((code, words.as_str()), (1, "tavola: people has no entity ('a', '1')\n"));
    let (code, words) = house.refused(&["entity", "put", "people", "{\"Age\": 1}"]);
    assert_eq!((code, words.contains("PartitionKey and RowKey")), (2, true), "{words}");
}

#[test]
fn columns_and_quotes() {
    let house = House::new();
    house.text(&["table", "create", "types"]);
    assert_eq!(house.text(&["query", "types", "-o", "json"]), "[]");
    assert_eq!(house.text(&["query", "types", "-o", "csv"]), "PartitionKey,RowKey,Timestamp");
    house.put("types", &every_type());
    house.put("types", &json!({ "PartitionKey": "a", "RowKey": "1", "Int": 3 }));
    let select = ["--select", "Text,Empty,Long,NaN,At,Id,Bytes,Int"];
    let csv = house.text(&[&["query", "types", "-o", "csv"], &select[..]].concat());
    let (head, rest) = csv.split_once('\n').unwrap();
    assert_eq!(head, "PartitionKey,RowKey,Timestamp,Text,Empty,Long,NaN,At,Id,Bytes,Int");
    let (first, rest) = rest.split_once('\n').unwrap();
    assert!(first.starts_with("a,1,20") && first.ends_with("Z,,,,,,,,3"), "{first}");
    assert!(rest.starts_with("\"it's, \"\"so\"\"\",ü 1,20"), "{rest}");
    let cells = "Z,\"a,b \"\"c\"\"\nd\",\"\",9007199254740993,NaN,2026-11-18T06:00:00.1234567Z,\
                 00000000-0000-0000-0000-00000000002a,AP8=,-7";
    assert!(rest.ends_with(cells), "{rest}");
    let table = house.text(&["query", "types", "--select", "Text,Int"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("PartitionKey  RowKey  Timestamp"), "{table}");
    assert!(lines[1].ends_with("-           3"), "{table}");
    assert!(lines[2].ends_with(r#"a,b "c"\nd  -7"#), "{table}");
    let one = house.text(&["entity", "get", "types", "a", "1", "-o", "csv"]);
    assert!(one.starts_with("PartitionKey,RowKey,Timestamp,Int\na,1,"), "{one}");
}

#[test]
fn more_than_a_page() {
    let house = House::new();
    house.fill("many", 2_500);
    let lines = house.text(&["query", "many", "-o", "ndjson"]);
    let numbers: Vec<Value> = lines.lines().map(|line| parsed(line)["Number"].clone()).collect();
    assert_eq!(numbers, (0..2_500).map(Value::from).collect::<Vec<_>>());
    let all = parsed(&house.text(&["query", "many", "-o", "json"]));
    assert_eq!(all.as_array().unwrap().len(), 2_500);
    assert_eq!(house.text(&["query", "many", "-o", "csv"]).lines().count(), 2_501);
    assert_eq!(house.text(&["query", "many"]).lines().count(), 2_501);
    let top = house.text(&["query", "many", "--top", "1001", "-o", "ndjson"]);
    assert_eq!(top.lines().count(), 1_001);
    assert_eq!(house.text(&["count", "many"]), "2500");
    assert_eq!(house.text(&["count", "many", "--filter", "Number ge 1400"]), "1100");

    let stats = parsed(&house.text(&["table", "stats", "many", "-o", "json"]));
    assert_eq!((&stats["entities"], &stats["partitions"]), (&json!(2_500), &json!(50)));
    assert_eq!(stats["largest_partition"], json!({ "key": "p000", "entities": 50 }));
    let number = json!({ "name": "Number", "type": "Edm.Int32", "entities": 2_500 });
    assert_eq!(stats["properties"], json!([number]));
    assert!(house.text(&["table", "stats", "many"]).contains("Number (Edm.Int32), 2500 entities"));

    // A property that comes after the first page: never lost quietly.
    house.put("many", &json!({ "PartitionKey": "z", "RowKey": "1", "Late": 1 }));
    let csv = house.run(&["query", "many", "-o", "csv"]);
    assert_eq!(csv.code, Some(1));
    assert!(csv.stderr.contains("('z', '1') has the property Late"), "{}", csv.stderr);
    let table = house.run(&["query", "many"]);
    assert_eq!(table.code, Some(0));
    assert!(table.stderr.contains("has them: Late;"), "{}", table.stderr);

    delete_some(&house);
}

fn delete_some(house: &House) {
    let filter = ["delete-where", "many", "--filter", "Number lt 1200"];
    let dry = house.text(&[&filter[..], &["--dry-run"]].concat());
    assert_eq!(dry, "1200 would be deleted; nothing was");
    assert_eq!(house.text(&["count", "many"]), "2501");
    let some = house.run(&[&filter[..], &["--at-most", "70"]].concat());
    assert_eq!((some.code, some.stdout.as_str()), (Some(0), "70 deleted\n"));
    assert!(some.stderr.contains("there may be more"), "{some:?}");
    assert_eq!(house.text(&["count", "many"]), "2431");
    let rest = parsed(&house.text(&[&filter[..], &["-o", "json"]].concat()));
    let expected = json!({ "found": 1130, "deleted": 1130, "spared": 0, "dry_run": false });
    assert_eq!(rest, expected);
    assert_eq!(house.text(&["count", "many"]), "1301");
    let (code, words) = house.refused(&["delete-where", "many", "--filter", ""]);
    assert_eq!((code, words.contains("an empty filter")), (2, true), "{words}");
    assert_eq!(house.refused(&["delete-where", "many"]).0, 2);
}

#[test]
fn mistakes_are_explained() {
    let house = House::new();
    house.text(&["table", "create", "people"]);
    for command in ["query", "count", "delete-where"] {
        let (code, words) = house.refused(&[command, "people", "--filter", "Age > 30"]);
        assert_eq!(code, 2);
        assert!(words.contains("cannot be read at character 5, after `Age >`"), "{words}");
    }
    let missing: [&[&str]; 5] = [
        &["query", "nobody", "-o", "json"],
        &["count", "nobody"],
        &["table", "stats", "nobody"],
        &["delete-where", "nobody", "--filter", "Age gt 1"],
        &["entity", "put", "nobody", r#"{"PartitionKey":"a","RowKey":"b"}"#],
    ];
    for arguments in missing {
        let (code, words) = house.refused(arguments);
        assert_eq!(code, 1, "{arguments:?}");
        assert!(words.contains("`tavola table ls` lists the tables"), "{arguments:?}: {words}");
    }
    let at = |arguments: &[&str]| {
        let done = run(in_folder(house.folder.path()).args(arguments));
        shows_nothing_secret(&done);
        done
    };
    let nobody = format!("http://127.0.0.1:{}/{ACCOUNT}", free_port());
    let done = at(&["table", "ls", "--endpoint", &nobody]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("start a server with `tavola serve`"), "{done:?}");
    let done = at(&["table", "ls", "--endpoint", "http://192.0.2.1:10002/devstoreaccount1"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("use https, or --allow-http"), "{done:?}");
    let done = at(&["table", "ls", "--key", "AAAA", "--endpoint", &house.server.endpoint()]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("`tavola doctor --connection-string` says why"), "{done:?}");
}

#[test]
fn a_signature_opens_what_it_says() {
    let house = House::new();
    house.text(&["table", "create", "people"]);
    house.put("people", &json!({ "PartitionKey": "a", "RowKey": "1" }));
    let sas = ["sas", "table", "people", "--permissions", "r", "-o", "connection-string"];
    let string = run(&mut house.command(&sas)).text();
    let with = |arguments: &[&str]| {
        let mut command = in_folder(house.folder.path());
        run(command.args(arguments).env("AZURE_STORAGE_CONNECTION_STRING", &string))
    };
    assert_eq!(with(&["count", "people"]).text(), "1");
    let done = with(&["entity", "rm", "people", "a", "1"]);
    shows_nothing_secret(&done);
    assert_eq!((done.code, done.stderr.contains("403")), (Some(1), true), "{done:?}");
}

#[test]
fn over_https() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(&folder.path().join("certificates"));
    let server = RunningServer::start_with(&folder.path().join("data"), |command| {
        command.arg("--tls-cert").arg(files.path("cert.pem"));
        command.arg("--tls-key").arg(files.path("key.pem"))
    });
    let url = server.endpoint().replace("http:", "https:");
    let create = || {
        let mut command = in_folder(folder.path());
        command.args(["table", "create", "people", "--endpoint", &url]);
        command
    };
    let stranger = run(&mut create());
    assert_eq!((stranger.code, stranger.stderr.contains("no connection to")), (Some(1), true));
    let done = run(create().arg("--ca-file").arg(files.path("ca.pem")));
    assert_eq!(done.text(), "people created");
    let missing = run(create().args(["--ca-file", "nowhere.pem"]));
    assert_eq!((missing.code, missing.stderr.contains("cannot read nowhere.pem")), (Some(2), true));
}

#[test]
fn explain_needs_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let explain = |arguments: &[&str]| {
        run(in_folder(folder.path()).args(["explain", "people", "--filter"]).args(arguments))
    };
    let keys = "PartitionKey eq 'Sales' and (RowKey eq '1' or RowKey eq '2')";
    let text = explain(&[keys]).text();
    for line in ["here    point", "azure   partition scan", "plan    point Sales/1, Sales/2"] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    assert!(text.contains("advice  a point here is a partition scan on Azure: ask for"), "{text}");
    let scan = parsed(&explain(&["Age gt 30", "-o", "json"]).text());
    assert_eq!((&scan["here"], &scan["azure"]), (&json!("table scan"), &json!("table scan")));
    assert_eq!(scan["advice"][0]["lint"], "scan");
    assert_eq!(explain(&["Age gt"]).code, Some(2));
}

#[test]
fn advice_on_stored_keys() {
    let house = House::new();
    house.fill("good", 60);
    assert_eq!(house.text(&["advise"]), "nothing to say about the keys of 1 table");
    house.text(&["table", "create", "orders"]);
    for row in ["9", "10"] {
        house.put("orders", &json!({ "PartitionKey": "sales", "RowKey": row }));
    }
    let text = house.text(&["advise", "orders"]);
    assert!(text.starts_with("unpadded-numbers\n  orders: RowKey '10' sorts below '9'"), "{text}");
    assert!(text.contains("\n  cure  write numbers with leading zeros"), "{text}");
    let all = parsed(&house.text(&["advise", "-o", "json"]));
    assert_eq!(all.as_array().map(Vec::len), Some(1));
    assert_eq!((&all[0]["table"], &all[0]["lint"]), (&json!("orders"), &json!("unpadded-numbers")));
    assert_eq!(house.refused(&["advise", "nobody"]).0, 1);
}

/// In a real shell: commands, flags, and the tables of the server that the flags name.
#[test]
fn bash_completes_names_of_tables() {
    let house = House::new();
    for table in ["employees", "Empty", "orders"] {
        house.text(&["table", "create", table]);
    }
    let complete = |words: &str| {
        let script = format!(
            "source <(tavola completions bash); COMP_WORDS=({words}); \
             COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); COMP_TYPE=9; \
             _clap_complete_tavola tavola \"${{COMP_WORDS[-1]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        std::fs::write(house.folder.path().join("complete.sh"), script).unwrap();
        let done = in_shell(house.folder.path(), "bash complete.sh", |command| command);
        done.text().lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let endpoint = format!("--endpoint {}", house.server.endpoint());
    assert_eq!(complete(&format!("tavola count {endpoint} em")), ["employees", "Empty"]);
    assert_eq!(complete(&format!("tavola query {endpoint} o")), ["orders"]);
    assert_eq!(complete("tavola coun"), ["count"]);
    let nobody = format!("--endpoint http://127.0.0.1:{}/{ACCOUNT}", free_port());
    assert!(complete(&format!("tavola count {nobody} em")).is_empty());
}

/// As behind `| head -1`.
#[test]
fn a_reader_who_leaves_is_no_failure() {
    let house = House::new();
    house.fill("many", 2_500);
    for format in ["table", "json", "ndjson", "csv"] {
        let mut query = house.command(&["query", "many", "-o", format]);
        let mut child = query.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!((child.wait().unwrap().code(), words.as_str()), (Some(0), ""), "{format}");
        assert!(!line.is_empty());
    }
}

#[test]
fn help_has_examples_that_work() {
    let house = House::new();
    house.fill("employees", 10);
    house.fill("logs", 10);
    let string =
        format!("AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={}", house.server.endpoint());
    let commands = ["query", "explain", "count", "delete-where", "table", "entity", "advise"];
    let lines = commands.iter().flat_map(|command| examples(&[command]));
    for line in lines.filter(|line| !line.contains("UseDevelopmentStorage")) {
        if line.contains("entity get") {
            house.put("employees", &json!({ "PartitionKey": "sales", "RowKey": "000123" }));
        }
        let done = in_shell(house.folder.path(), &line, |command| {
            command.env("AZURE_STORAGE_CONNECTION_STRING", &string)
        });
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
        shows_nothing_secret(&done);
    }
}
