//! The binary as people and tools meet it: flags, files, start-up lines, exit codes, health and
//! bounds.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use crate::common::client::{Client, insert, name};
use crate::common::{ACCOUNT, KEY, OTHER_KEY, RunningServer, tavola};
use bytes::Bytes;
use http::{Request, StatusCode};
use tavola_core::{AccountName, TableRequest};
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tavola_testkit::raw::RawConnection;

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn get(authority: &str, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Bytes::new()).unwrap();
    let response = Client::connect(authority).unwrap().exchange(&request).unwrap();
    (response.status(), String::from_utf8(response.body().to_vec()).unwrap())
}

#[test]
fn serve_announces_its_ports_and_the_string_to_paste() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let expected = [
        format!("Table service is listening at http://{}", server.table),
        format!(
            "No account is configured, so the development account is served: DefaultEndpointsProtocol=http;\
             AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=http://{}/{ACCOUNT};",
            server.table
        ),
        format!("Health and metrics: http://{0}/ready and http://{0}/metrics", server.admin),
    ];
    assert_eq!(server.start_up, expected);
    assert_ne!(server.table, "127.0.0.1:0");
    Client::connect(&server.table).unwrap().create_table("table");
    assert!(server.terminate().success());
}

#[test]
fn beyond_loopback_accounts_are_needed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = tavola();
    command
        .args(["serve", "--host", "0.0.0.0", "--table-port", "0", "--location"])
        .arg(folder.path());
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(
        stderr.starts_with("tavola: refusing to listen on 0.0.0.0 without accounts"),
        "{stderr}"
    );
    let server = RunningServer::start_with(folder.path(), |command| {
        command.env("TAVOLA_ACCOUNTS__SHOP__KEY1", KEY).args(["--host", "0.0.0.0"])
    });
    assert_eq!(server.start_up.len(), 2, "no development account: {:?}", server.start_up);
}

#[test]
fn configuration_is_checked_and_shown_with_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tavola.toml");
    let toml = format!("[table]\nport = 4711\n[accounts.shop]\nkey1 = \"{OTHER_KEY}\"\n");
    std::fs::write(&file, toml).unwrap();
    let config = |arguments: &[&str]| {
        run(tavola()
            .args(["config"])
            .args(arguments)
            .arg("--config")
            .arg(&file)
            .env("TAVOLA_LOG__LEVEL", "warn"))
    };
    let (code, stdout, _) = config(&["check"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "the configuration is valid: 1 account(s), tables at 127.0.0.1:4711\n")
    );
    let (_, stdout, _) = config(&["show", "--origin", "--admin-port", "5"]);
    for line in [
        format!("table.port = \"4711\"  # file {}, line 2", file.display()),
        "server.admin_port = \"5\"  # flag --admin-port".to_owned(),
        "log.level = \"warn\"  # variable TAVOLA_LOG__LEVEL".to_owned(),
        "store.kind = \"embedded\"  # default".to_owned(),
        "server.host = \"127.0.0.1\"  # default".to_owned(),
        format!("# accounts.shop.key1 = \"***\"  # file {}, line 4", file.display()),
    ] {
        assert!(stdout.lines().any(|shown| shown == line), "{line} is not in\n{stdout}");
    }
    assert!(!stdout.contains(OTHER_KEY));
    std::fs::write(&file, "[server]\ntabel_port = 1\n").unwrap();
    let (code, _, stderr) = config(&["check"]);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("unknown setting server.tabel_port; did you mean table.port?"),
        "{stderr}"
    );
}

#[test]
fn help_has_examples_and_says_where_each_setting_can_stand() {
    let (code, stdout, _) = run(tavola().args(["serve", "--help"]));
    assert_eq!(code, Some(0));
    for words in
        ["Examples:", "Exit codes:", "--table-port", "[env: TAVOLA_TABLE__PORT]", "table.port"]
    {
        assert!(stdout.contains(words), "{words} is not in\n{stdout}");
    }
    let (code, stdout, _) = run(tavola().arg("--version"));
    assert_eq!((code, stdout), (Some(0), format!("tavola {}\n", env!("CARGO_PKG_VERSION"))));
    assert_eq!(run(tavola().args(["serve", "--nonsense"])).0, Some(2));
}

#[test]
fn a_folder_serves_one_process_only() {
    let folder = tempfile::tempdir().unwrap();
    let _first = RunningServer::start(folder.path());
    let mut second = tavola();
    second
        .args(["serve", "--table-port", "0", "--admin-port", "0", "--location"])
        .arg(folder.path());
    let (code, stdout, stderr) = run(&mut second);
    assert_eq!((code, stdout.as_str()), (Some(3), ""));
    assert!(stderr.contains("is in use by another process"), "{stderr}");
}

#[test]
fn a_newer_or_foreign_folder_is_left_alone() {
    for (file, content, words) in [
        ("TAVOLA", "tavola-format: 99\n", "format 99"),
        ("notes.txt", "somebody's own\n", "is not a data folder"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), content).unwrap();
        let mut command = tavola();
        command
            .args(["serve", "--table-port", "0", "--admin-port", "0", "--location"])
            .arg(folder.path());
        let (code, _, stderr) = run(&mut command);
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
        let files: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files, [folder.path().join(file)]);
        assert_eq!(std::fs::read_to_string(folder.path().join(file)).unwrap(), content);
    }
}

#[test]
fn a_damaged_folder_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let mut client = Client::connect(&server.table).unwrap();
    (0..20).for_each(|number| client.create_table(&format!("table{number}")));
    server.kill();
    let files =
        std::fs::read_dir(folder.path().join("store")).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "log");
    let log = files.filter(is_log).max_by_key(|log| std::fs::metadata(log).unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let mut command = tavola();
    command
        .args(["serve", "--table-port", "0", "--admin-port", "0", "--location"])
        .arg(folder.path());
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!((code, stdout.as_str()), (Some(3), ""), "{stderr}");
    let file = log.file_name().unwrap().to_string_lossy();
    assert!(stderr.contains("is damaged") && stderr.contains(&*file), "{stderr}");
    assert!(std::fs::read(&log).unwrap() == bytes, "the log was changed");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut command = tavola();
    command
        .args(["serve", "--table-port", &port, "--admin-port", "0", "--location"])
        .arg(folder.path());
    let (code, _, stderr) = run(&mut command);
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains(&format!("cannot listen on 127.0.0.1:{port} for the Table service")),
        "{stderr}"
    );
}

/// The binary under another name, as an installation links it.
fn azurite(folder: &Path, called: &str) -> Command {
    let link: PathBuf = folder.join(called);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tavola"), &link).unwrap();
    let mut command = Command::new(link);
    command.env_remove("AZURITE_ACCOUNTS").current_dir(folder);
    command
}

#[test]
fn called_as_azurite_it_prints_those_start_up_lines() {
    for called in ["azurite", "azurite-table"] {
        let folder = tempfile::tempdir().unwrap();
        let server = RunningServer::spawn(azurite(folder.path(), called).args([
            "--tablePort",
            "0",
            "--silent",
        ]));
        let table = &server.table;
        let expected = match called {
            "azurite" => ["is starting at http://", "is successfully listening at http://"],
            _ => ["is starting on ", "successfully started on "],
        };
        let expected = expected.map(|state| format!("Azurite Table service {state}{table}"));
        assert_eq!(server.start_up, expected);
        Client::connect(&server.table).unwrap().create_table("table");
        assert!(folder.path().join("__tavola_table__").is_dir(), "data lies in the current folder");
        assert!(server.terminate().success());
    }
}

#[test]
fn every_flag_of_azurite_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = azurite(folder.path(), "azurite");
    command.args(["--blobHost", "0.0.0.0", "--queueHost", "0.0.0.0", "--tableHost", "127.0.0.1"]);
    command.args(["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"]);
    command.args([
        "--blobKeepAliveTimeout",
        "5",
        "--queueKeepAliveTimeout",
        "5",
        "--tableKeepAliveTimeout",
        "5",
    ]);
    command.args([
        "-l",
        "data",
        "-s",
        "-d",
        "debug.log",
        "-L",
        "--skipApiVersionCheck",
        "--disableProductStyleUrl",
    ]);
    command.args(["--extentMemoryLimit", "100"]);
    command
        .arg("--disableTelemetry")
        .env("AZURITE_DB", "sqlite:x")
        .env("AZURITE_SKIP_API_VERSION_CHECK", "true");
    command.stderr(std::process::Stdio::from(
        std::fs::File::create(folder.path().join("stderr")).unwrap(),
    ));
    let server = RunningServer::spawn(&mut command);
    assert!(folder.path().join("data/__tavola_table__").is_dir());
    assert!(folder.path().join("debug.log").is_file());
    assert!(server.terminate().success());
    let stderr = std::fs::read_to_string(folder.path().join("stderr")).unwrap();
    assert_eq!(stderr.lines().filter(|line| line.starts_with("warning:")).count(), 1, "{stderr}");
    assert!(
        stderr.contains("--blobHost")
            && stderr.contains("--extentMemoryLimit")
            && stderr.contains("AZURITE_DB"),
        "{stderr}"
    );
}

#[test]
fn combinations_that_azurite_refuses_are_refused() {
    for arguments in [
        &["--inMemoryPersistence", "--location", "x"][..],
        &["-d"],
        &["--tablePort", "x"],
        &["--oauth", "basic"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (code, _, stderr) = run(azurite(folder.path(), "azurite").args(arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
    }
}

#[test]
fn accounts_of_azurite_replace_the_development_account() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = azurite(folder.path(), "azurite-table");
    command.args(["--tablePort", "0", "--silent", "--inMemoryPersistence"]);
    command.env("AZURITE_ACCOUNTS", format!("one:{KEY};two:{KEY}:{KEY}"));
    let server = RunningServer::spawn(&mut command);
    let (status, body) = get(&server.table, &format!("/{ACCOUNT}/Tables"));
    assert_eq!(status, StatusCode::NOT_FOUND, "{body}");
    assert_eq!(get(&server.table, "/two/Tables").0, StatusCode::UNAUTHORIZED);
    assert!(!folder.path().join("__tavola_table__").exists(), "nothing on disk");
}

#[test]
fn health_and_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let mut client = Client::connect(&server.table).unwrap();
    client.create_table("table");
    let (partition_key, operation) = insert("p/r", 1);
    client.ask(&TableRequest::Write(name("table"), partition_key, operation)).unwrap().unwrap();
    client.read_all("table");
    assert_eq!(get(&server.table, "/-/ready"), (StatusCode::OK, "ready\n".to_owned()));
    for path in ["/alive", "/ready", "/readyz", "/healthz"] {
        assert_eq!(get(&server.admin, path).0, StatusCode::OK, "{path}");
    }
    assert!(get(&server.admin, "/status").1.contains("\"ready\":true"));
    assert_eq!(get(&server.admin, "/nothing").0, StatusCode::NOT_FOUND);
    let (_, metrics) = get(&server.admin, "/metrics");
    for line in [
        "tavola_requests_total{operation=\"InsertEntity\",status=\"204\",code=\"Success\"} 1",
        "tavola_queries_total{class=\"table scan\"} 1",
        "tavola_rows_read_total 1",
        "tavola_rows_returned_total 1",
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains("table\"") || !metrics.contains("\"p\""), "no keys in labels");
}

/// Statement G13: a table is a row of the catalogue and nothing in memory.
#[test]
fn tables_cost_no_memory_each() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let mut client = Client::connect(&server.table).unwrap();
    let mut create = |range: std::ops::Range<usize>| {
        range.for_each(|number| client.create_table(&format!("table{number}")));
        server.resident_kilobytes()
    };
    let few = create(0..500);
    let many = create(500..2500);
    // Two thousand rows in a memtable are well below this; two thousand tables with anything of
    // their own are not.
    assert!(many < few + 6 * 1024, "500 tables: {few} kB resident, 2,500 tables: {many} kB");
}

/// Statement G22: over a bound the answer is 503 with a hint when to try again.
#[test]
fn beyond_the_connections_the_answer_is_server_busy() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(folder.path(), |command| {
        command.env("TAVOLA_LIMITS__CONNECTIONS", "1")
    });
    let mut first = Client::connect(&server.table).unwrap();
    first.create_table("table");
    let request = Request::get(format!("/{ACCOUNT}/Tables")).body(Bytes::new()).unwrap();
    let response = Client::connect(&server.table).unwrap().exchange(&request).unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(response.headers()["x-ms-error-code"], "ServerBusy");
    first.create_table("other");
}

/// `POST /account/Tables` with its headers, but for what says how long the body is.
fn signed_head() -> String {
    let mut request = Request::post(format!("/{ACCOUNT}/Tables")).body(()).unwrap();
    let (account, key) = (AccountName::parse(ACCOUNT).unwrap(), AccountKey::parse(KEY).unwrap());
    sign_request(&mut request, Scheme::SharedKey, &account, &key, SystemTime::now());
    let mut head = format!("POST /{ACCOUNT}/Tables HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    head
}

/// Once the answer to a body without end was written down and then lost, for one of three clients:
/// hyper kept it back because of the unread bytes (`pipeline_flush`), or the system threw it away
/// when we closed over them.
#[test]
fn whoever_sends_too_much_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    for _ in 0..10 {
        let mut endless = std::net::TcpStream::connect(&server.table).unwrap();
        endless
            .write_all(format!("{}Transfer-Encoding: chunked\r\n\r\n", signed_head()).as_bytes())
            .unwrap();
        let mut sending = endless.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let chunk = [b"10000\r\n", vec![b'x'; 65536].as_slice(), b"\r\n"].concat();
            while sending.write_all(&chunk).is_ok() {}
        });
        let mut answer = [0; 12];
        endless.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 413");
        // The server may have closed the connection already: then there is nothing left to shut
        // down.
        endless.shutdown(std::net::Shutdown::Both).ok();
        sender.join().unwrap();
    }
}

/// Once a request took its place before its body had arrived: slow senders could take all places,
/// and everybody else was refused for as long as they liked.
#[test]
fn a_body_on_its_way_holds_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(folder.path(), |command| {
        command.env("TAVOLA_LIMITS__REQUESTS_IN_FLIGHT", "1")
    });
    let mut slow: Vec<_> =
        (0..3).map(|_| std::net::TcpStream::connect(&server.table).unwrap()).collect();
    let head = format!("{}Content-Length: 2\r\n", signed_head());
    slow.iter_mut().for_each(|slow| slow.write_all(format!("{head}\r\n{{").as_bytes()).unwrap());
    // Asked before they have come, the others would prove nothing.
    while !get(&server.admin, "/status").1.contains("\"requests_in_flight\":3,") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut other = Client::connect(&server.table).unwrap();
    for number in 0..20 {
        other.create_table(&format!("table{number}"));
    }
    for slow in &mut slow {
        slow.write_all(b"}").unwrap();
        let mut answer = [0; 12];
        slow.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 400", "the slow ones are answered too");
    }
}

/// A body that never arrives ends in an answer, not in a stall.
#[test]
fn a_request_body_has_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(folder.path(), |command| {
        command.env("TAVOLA_LIMITS__BODY_SECONDS", "1")
    });
    let mut slow = RawConnection::open(&server.table).unwrap();
    let head = format!(
        "POST /{ACCOUNT}/Tables HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{"
    );
    let answer = slow.send(head.as_bytes()).expect("an answer although the body is missing");
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    Client::connect(&server.table).unwrap().create_table("table");
}

#[test]
fn a_request_head_has_its_time_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(folder.path(), |command| {
        command.env("TAVOLA_LIMITS__HEADER_SECONDS", "1").env("TAVOLA_LIMITS__HEADER_BYTES", "8192")
    });
    let mut slow = RawConnection::open(&server.table).unwrap();
    assert!(
        slow.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n").is_err(),
        "half a head is closed, not waited for"
    );
    let mut huge = RawConnection::open(&server.table).unwrap();
    let head =
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nx-filler: {}\r\n\r\n", "a".repeat(20_000));
    // The server closes with bytes unread, so the network may cut the answer off; it never waits,
    // and never serves it.
    if let Ok(response) = huge.send(head.as_bytes()) {
        assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    Client::connect(&server.table).unwrap().create_table("table");
}

/// Keys and signatures appear in nothing that the process writes about requests.
#[test]
fn no_secret_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let logs = tempfile::tempdir().unwrap();
    let (out, err) = (logs.path().join("out"), logs.path().join("err"));
    let mut command = tavola();
    command.args([
        "serve",
        "--table-port",
        "0",
        "--admin-port",
        "0",
        "--log-level",
        "trace",
        "--location",
    ]);
    command.arg(folder.path()).stdout(std::fs::File::create(&out).unwrap());
    command.stderr(std::fs::File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    let table = loop {
        let text = std::fs::read_to_string(&out).unwrap();
        if text.contains("/metrics\n") {
            break text
                .split("TableEndpoint=http://")
                .nth(1)
                .unwrap()
                .split('/')
                .next()
                .unwrap()
                .to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    Client::connect(&table).unwrap().create_table("table");
    let signed = Request::get(format!("/{ACCOUNT}/table()?sv=2019-02-02&sig=topsecretsignature"))
        .header("Authorization", format!("SharedKey {ACCOUNT}:bm90IHRoZSByaWdodCBvbmU="))
        .header("x-ms-date", "Mon, 16 Nov 2026 06:00:00 GMT")
        .body(Bytes::new())
        .unwrap();
    let response = Client::connect(&table).unwrap().exchange(&signed).unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(!String::from_utf8_lossy(response.body()).contains(KEY));
    // Politely: the access log is written by a thread of its own, which ends with the server.
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success() && child.wait().unwrap().success());
    let announced = std::fs::read_to_string(&out).unwrap();
    let (_, requests) = announced
        .split_once("/metrics\n")
        .expect("the line with the public key, then the access log");
    let written = format!("{requests}{}", std::fs::read_to_string(&err).unwrap());
    assert!(requests.contains("op=CreateTable"), "{requests}");
    for secret in [KEY, "topsecretsignature", "bm90IHRoZSByaWdodCBvbmU="] {
        assert!(!written.contains(secret), "{secret} was logged:\n{written}");
    }
}
