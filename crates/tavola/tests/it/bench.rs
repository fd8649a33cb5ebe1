//! `tavola bench` against real servers: what it prints, and that its table is gone whatever
//! happens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use crate::common::cli::{Done, examples, in_folder, in_shell, run, shows_nothing_secret};
use crate::common::client::Client;
use crate::common::{ACCOUNT, KEY, OTHER_KEY, RunningServer, free_port, tavola};
use serde_json::Value;
use tavola_core::TableRequest;
use tavola_core::request::TablesQuery;
use tavola_protocol::table::decode::Decoded;
use tavola_testkit::record;

const SMALL: &str = "--entities 1000 --connections 4 --seconds 0.2";
/// Of an account that is not the development account.
/// A server, and a folder to run commands in.
struct House {
    folder: tempfile::TempDir,
    server: RunningServer,
}

impl House {
    fn new() -> Self {
        Self::with(|command| command)
    }

    fn with(with: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RunningServer::start_with(&folder.path().join("data"), with);
        Self { folder, server }
    }

    /// A command for the server's development account, with flags by spaces.
    fn command(&self, flags: &str) -> Command {
        let mut command = in_folder(self.folder.path());
        command
            .arg("bench")
            .args(flags.split_whitespace())
            .args(["--endpoint", &self.server.endpoint()]);
        command
    }

    fn bench(&self, flags: &str) -> Done {
        run(&mut self.command(flags))
    }

    fn tables(&self) -> Vec<String> {
        tables_of(&self.server, ACCOUNT, KEY)
    }
}

fn tables_of(server: &RunningServer, account: &str, key: &str) -> Vec<String> {
    let request = TableRequest::QueryTables(TablesQuery::default());
    let answer =
        Client::connect_as(&server.table, account, key).unwrap().ask(&request).unwrap().unwrap();
    let Decoded::Tables(tables, None) = answer else { panic!("{answer:?}") };
    tables
}

/// Runs a command until it says on standard error that `workload` has begun; gives the rest of what
/// it says there.
fn until(command: &mut Command, workload: &str) -> (Child, BufReader<impl Read + use<>>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with(workload) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before {workload}");
    }
    (child, lines)
}

fn rest(mut child: Child, mut lines: impl Read) -> Done {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    lines.read_to_string(&mut stderr).unwrap();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut stdout).unwrap();
    }
    Done { code: child.wait().unwrap().code(), stdout, stderr }
}

fn interrupt(child: &Child) {
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
}

#[test]
fn every_workload_is_measured_and_nothing_is_left() {
    let house = House::new();
    Client::connect(&house.server.table).unwrap().create_table("staff");
    let done = house.bench(&format!("batch insert mixed filter scan get {SMALL}"));
    shows_nothing_secret(&done);
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(
        lines[0].ends_with(": 1,000 entities of 500 bytes, up to 4 connections, 0.2 s each"),
        "{}",
        done.stdout
    );
    let heads = ["workload", "rate", "p50", "p99", "p99.9", "generator"];
    assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), heads);
    let expected = [
        ("get", "requests/s"),
        ("scan", "entities/s"),
        ("filter", "rows/s"),
        ("mixed", "requests/s"),
        ("insert", "requests/s"),
        ("batch", "entities/s"),
    ];
    assert_eq!(lines.len(), 3 + expected.len(), "{}", done.stdout);
    for (line, (workload, unit)) in lines[3..].iter().zip(expected) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[0], words[2], words.last()), (workload, unit, Some(&"%")), "{line}");
    }
    assert!(
        done.stderr.contains("filling: 1000 rows") && done.stderr.contains("batch: 0.2 s"),
        "{}",
        done.stderr
    );
    assert_eq!(house.tables(), ["staff"]);
}

#[test]
fn figures_for_scripts() {
    let house = House::new();
    let done = house.bench(&format!("get scan --rate 50 {SMALL} -o json"));
    shows_nothing_secret(&done);
    let json: Value = serde_json::from_str(&done.text()).unwrap();
    assert_eq!(
        (&json["endpoint"], &json["account"]),
        (&house.server.endpoint().into(), &ACCOUNT.into())
    );
    assert_eq!(
        (&json["entities"], &json["rate"], &json["seconds"]),
        (&1_000.into(), &50.0.into(), &0.2.into())
    );
    let [get, scan] = json["workloads"].as_array().unwrap() as &[Value] else { panic!("{json}") };
    // Ten are due in 0.2 s at 50 in a second, whoever answers them and when.
    let counted =
        |of: &Value| (of["requests"].clone(), of["entities"].clone(), of["connections"].clone());
    assert_eq!(counted(get), (10.into(), 10.into(), 4.into()));
    assert_eq!(counted(scan), (10.into(), 10_000.into(), 1.into()));
    for figure in ["per_second", "p50_us", "p99_us", "p999_us", "generator_cpu_share"] {
        assert!(get[figure].as_f64().unwrap() > 0.0, "{figure}: {get}");
    }
    assert!(house.tables().is_empty());
}

/// A rate far above the server's had to be worked off to the last request: minutes for a run of a
/// second.
#[test]
fn a_rate_that_nobody_can_follow_ends_in_time() {
    let house = House::new();
    let done =
        house.bench("get --rate 1000000 --entities 1000 --connections 1 --seconds 0.3 -o json");
    let json: Value = serde_json::from_str(&done.text()).unwrap();
    let get = &json["workloads"][0];
    assert!(get["requests"].as_u64().unwrap() < 300_000, "{get}");
    assert!(
        get["notes"][0].as_str().unwrap().contains("on one connection, did not keep up"),
        "{get}"
    );
    assert!(house.tables().is_empty());
}

#[test]
fn another_account_over_https() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(tavola().args(["cert", "--authority", "--out"]).arg(folder.path()));
    assert_eq!(made.code, Some(0), "{made:?}");
    record::secret(OTHER_KEY);
    let server = RunningServer::start_with(&folder.path().join("data"), |command| {
        let [cert, key] = ["cert.pem", "key.pem"].map(|file| folder.path().join(file));
        command
            .env("TAVOLA_ACCOUNTS__SHOP__KEY1", OTHER_KEY)
            .arg("--tls-cert")
            .arg(cert)
            .arg("--tls-key")
            .arg(key)
    });
    std::fs::write(folder.path().join("secret"), format!("{OTHER_KEY}\n")).unwrap();
    let endpoint = format!("https://localhost:{}/shop", server.table.rsplit(':').next().unwrap());
    let bench = |flags: &str| {
        let flags =
            format!("{flags} {SMALL} --account shop --key-file secret --endpoint {endpoint}");
        run(in_folder(folder.path()).arg("bench").args(flags.split_whitespace()))
    };
    let done = bench("get insert --ca-file ca.pem");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains(&format!("{endpoint}: 1,000 entities")), "{}", done.stdout);
    assert!(!format!("{done:?}").contains(OTHER_KEY));
    let untrusted = bench("get");
    assert_eq!((untrusted.code, untrusted.stdout.as_str()), (Some(1), ""), "{untrusted:?}");
    assert!(
        untrusted.stderr.contains("certificate") || untrusted.stderr.contains("trusts no issuer"),
        "{untrusted:?}"
    );
    let plain = run(in_folder(folder.path())
        .args(["bench", "get", "--account", "shop", "--key-file", "secret", "--endpoint"])
        .arg(endpoint.replace("https", "http")));
    assert_eq!(plain.code, Some(1), "{plain:?}");
    assert!(plain.stderr.contains("is it meant to be https?"), "{plain:?}");
}

#[test]
fn a_wrong_key_is_told_before_anything_is_made() {
    let house = House::new();
    std::fs::write(house.folder.path().join("secret"), OTHER_KEY).unwrap();
    let done = house.bench(&format!("get {SMALL} --key-file secret"));
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    assert!(
        done.stderr.contains("rejects the key of devstoreaccount1 with 403 AuthenticationFailed"),
        "{done:?}"
    );
    shows_nothing_secret(&done);
    assert!(house.tables().is_empty());
}

#[test]
fn a_budget_ends_it_and_the_table_is_dropped() {
    record::secret(OTHER_KEY);
    let house = House::with(|command| {
        command
            .env("TAVOLA_ACCOUNTS__SHOP__KEY1", OTHER_KEY)
            .env("TAVOLA_ACCOUNTS__SHOP__REQUESTS_PER_SECOND", "40")
    });
    let string = format!(
        "AccountName=shop;AccountKey={OTHER_KEY};TableEndpoint={}",
        house.server.endpoint().replace(ACCOUNT, "shop")
    );
    let arguments = ["bench", "get", "--entities", "1000", "--seconds", "600"];
    let done = run(in_folder(house.folder.path())
        .args(arguments)
        .env("AZURE_STORAGE_CONNECTION_STRING", string));
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("get: status 503 instead of 200"), "{done:?}");
    assert!(
        done.stderr.contains("measure below it with --rate")
            && done.stderr.contains("The table was dropped")
    );
    assert!(!format!("{done:?}").contains(OTHER_KEY));
    assert!(tables_of(&house.server, "shop", OTHER_KEY).is_empty());
}

#[test]
fn a_key_that_changes_midway_leaves_the_table_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let account = |arguments: &[&str]| {
        let key = run(tavola().current_dir(folder.path()).arg("account").args(arguments)).text();
        record::secret(&key);
        key
    };
    let first = account(&["add", "shop", "--accounts-folder", "accounts"]);
    let server = RunningServer::start_with(&folder.path().join("data"), |command| {
        command.arg("--accounts-folder").arg(folder.path().join("accounts"))
    });
    std::fs::write(folder.path().join("secret"), &first).unwrap();
    let mut command = in_folder(folder.path());
    command.args(
        "bench insert --entities 1000 --seconds 600 --account shop --key-file secret".split(' '),
    );
    command.args(["--endpoint", &server.endpoint().replace(ACCOUNT, "shop")]);
    let (child, lines) = until(&mut command, "insert");
    let second = account(&["rotate", "shop", "--key", "1", "--accounts-folder", "accounts"]);
    server.signal("-HUP");
    let done = rest(child, lines);
    assert_eq!(done.code, Some(1), "{done:?}");
    let tables = tables_of(&server, "shop", &second);
    let [table] = &tables[..] else { panic!("{tables:?}") };
    for words in [
        "insert: status 403 instead of 204: AuthenticationFailed; the key was valid before",
        &format!("The table {table} could not be dropped and remains; delete it with any client"),
    ] {
        assert!(done.stderr.contains(words), "{words}: {done:?}");
    }
    shows_nothing_secret(&done);
}

#[test]
fn ctrl_c_drops_the_table() {
    for (workload, flags) in
        [("filling", "--entities 1000000"), ("mixed", "mixed --entities 1000 --seconds 600")]
    {
        let house = House::new();
        let (child, lines) = until(&mut house.command(flags), workload);
        interrupt(&child);
        let done = rest(child, lines);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(
            done.stderr.ends_with("tavola: stopped by a signal. The table was dropped\n"),
            "{done:?}"
        );
        assert!(house.tables().is_empty());
    }
}

/// A pipe into `head -1` closes early: a program that panics on its next line would leave its table
/// behind.
#[test]
fn a_reader_who_goes_early_does_not_keep_the_table() {
    let house = House::new();
    let (mut child, lines) = until(&mut house.command(&format!("get insert {SMALL}")), "filling");
    drop(child.stdout.take());
    let done = rest(child, lines);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(house.tables().is_empty());
}

/// A server that takes tables; to a batch it says 204, which is no answer to one, or nothing at
/// all. Tells what it was asked.
fn careless_server(answers_batches: bool) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (asked, questions) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = asked.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let _hung_up = answer_all(&mut lines, stream, &asked, answers_batches);
            });
        }
    });
    (address, questions)
}

fn answer_all(
    lines: &mut impl BufRead,
    mut stream: impl Write,
    asked: &mpsc::Sender<String>,
    answers_batches: bool,
) -> std::io::Result<()> {
    loop {
        let (mut first, mut line, mut body_bytes) = (String::new(), String::new(), 0);
        if lines.read_line(&mut first)? == 0 {
            return Ok(());
        }
        while line != "\r\n" {
            line.clear();
            lines.read_line(&mut line)?;
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                body_bytes = length.trim().parse().unwrap();
            }
        }
        lines.read_exact(&mut vec![0; body_bytes])?;
        let is_list = first.starts_with("GET ");
        let list = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"value\":[]}";
        let is_answered = answers_batches || !first.contains("$batch");
        asked.send(first).unwrap();
        if !is_answered {
            continue;
        }
        stream.write_all(if is_list {
            list.as_bytes()
        } else {
            b"HTTP/1.1 204 No Content\r\n\r\n"
        })?;
    }
}

#[test]
fn a_wrong_reply_ends_it_and_the_table_is_dropped() {
    let (address, questions) = careless_server(true);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("http://{address}/{ACCOUNT}");
    let done = run(in_folder(folder.path()).args(["bench", "get", "--endpoint", &endpoint]));
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("filling: status 204 instead of 202"), "{done:?}");
    assert!(done.stderr.contains("The table was dropped"), "{done:?}");
    let asked: Vec<String> = questions.try_iter().collect();
    assert!(asked[0].starts_with("GET /devstoreaccount1/Tables?$top=1"), "{asked:?}");
    assert!(asked[1].starts_with("POST /devstoreaccount1/Tables "), "{asked:?}");
    let dropped =
        asked.iter().any(|line| line.starts_with("DELETE /devstoreaccount1/Tables('tavolabench"));
    assert!(dropped, "{asked:?}");
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let (address, questions) = careless_server(false);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("http://{address}/{ACCOUNT}");
    let (child, mut lines) =
        until(in_folder(folder.path()).args(["bench", "get", "--endpoint", &endpoint]), "filling");
    // Now it waits for an answer that does not come.
    assert!(questions.iter().any(|line| line.contains("$batch")));
    interrupt(&child);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(
        line.starts_with("stopping: ") && line.contains("press again to end at once"),
        "{line}"
    );
    interrupt(&child);
    let done = rest(child, lines);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.starts_with("tavola: stopped; the table tavolabench"), "{done:?}");
}

#[test]
fn nobody_there() {
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("http://127.0.0.1:{port}/{ACCOUNT}");
    let done = run(in_folder(folder.path()).args(["bench", "--endpoint", &endpoint]));
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    assert!(
        done.stderr.contains(&format!("nothing listens at 127.0.0.1:{port}; start it with")),
        "{done:?}"
    );
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str], words: &str) {
    let done = run(in_folder(folder).arg("bench").args(arguments));
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{done:?}");
    assert!(done.stderr.contains(words), "{words}: {done:?}");
    shows_nothing_secret(&done);
}

#[test]
fn what_is_refused_without_asking_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], words: &str| refused(folder.path(), arguments, words);
    // An address that documents use: nothing was sent there, or this would not end with these
    // words.
    for endpoint in ["http://203.0.113.7/shop", "https://[2001:db8::7]:1/shop"] {
        refused(&["get", "--endpoint", endpoint], "is neither this machine nor a private network");
    }
    let cloud = format!("AccountName=shop;AccountKey={KEY};TableEndpoint=https://203.0.113.7/");
    refused(&["--connection-string", &cloud], "to run it nevertheless, add --allow-public");
    let sas = "TableEndpoint=http://127.0.0.1:1/shop;SharedAccessSignature=sv=2019-02-02&sig=c2lnbmF0dXJl";
    refused(&["--connection-string", sas], "an account key is required");
    for (flags, words) in [
        (["--entities", "1500"], "a multiple of 1000, up to 1000000"),
        (["--entities", "0"], "a multiple of 1000, up to 1000000"),
        (["--entities", "2000000"], "a multiple of 1000, up to 1000000"),
        (["--entities", "many"], "not a number"),
        (["--connections", "0"], "1..=1000"),
        (["--connections", "1001"], "1..=1000"),
        (["--seconds", "0"], "between 0.1 and 600"),
        (["--seconds", "601"], "between 0.1 and 600"),
        (["--seconds", "NaN"], "between 0.1 and 600"),
        (["--rate", "0"], "1..=1000000"),
        (["get", "drop"], "invalid value 'drop'"),
        (["--endpoint", "127.0.0.1:10002"], "it must begin with http:// or https://"),
    ] {
        refused(&flags, words);
    }
}

#[test]
fn the_examples_of_the_help_work() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        run(tavola().args(["cert", "--authority", "--out"]).arg(folder.path())).code,
        Some(0)
    );
    let plain = RunningServer::start(&folder.path().join("plain"));
    let secure = RunningServer::start_with(&folder.path().join("secure"), |command| {
        let [cert, key] = ["cert.pem", "key.pem"].map(|file| folder.path().join(file));
        command
            .env("TAVOLA_ACCOUNTS__SHOP__KEY1", KEY)
            .arg("--tls-cert")
            .arg(cert)
            .arg("--tls-key")
            .arg(key)
    });
    std::fs::write(folder.path().join("key"), KEY).unwrap();
    for line in examples(&["bench"]) {
        let line = line.replace("10.0.0.7", &secure.table).replace(" --seconds 30", "");
        let line = format!("{line} {SMALL}");
        let string =
            format!("AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={}", plain.endpoint());
        let done = in_shell(folder.path(), &line, |shell| {
            shell.env("AZURE_STORAGE_CONNECTION_STRING", string)
        });
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
        shows_nothing_secret(&done);
    }
    assert!(tables_of(&plain, ACCOUNT, KEY).is_empty());
}
