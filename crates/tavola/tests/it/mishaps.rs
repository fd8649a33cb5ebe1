//! What operators and their tools do to a running or starting server: signals, clocks, slow
//! clients, damaged files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::cli::{in_folder, run};
use crate::common::client::{Client, insert, name, shifted};
use crate::common::folder::{TABLE, content, copy, differences, engine_files, make, put};
use crate::common::{ACCOUNT, BINARY, RunningServer, tavola};
use bytes::Bytes;
use http::Request;
use tavola_core::TableRequest;
use tavola_testkit::raw::RawConnection;
use tavola_testkit::server_process::{ServerProcess, Watchdog, serve_command};
use tavola_torture::{Arena, ShiftedClock};

const DAY: i64 = 24 * 60 * 60;
const YEAR: i64 = 365 * DAY;

fn get(authority: &str, path: &str) -> (u16, String) {
    let request = Request::get(format!("http://{authority}{path}")).body(Bytes::new()).unwrap();
    let response = Client::connect(authority).unwrap().exchange(&request).unwrap();
    (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned())
}

#[test]
fn signals_of_log_tools_do_not_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    for signal in ["-USR1", "-USR2", "-HUP"] {
        server.signal(signal);
        thread::sleep(Duration::from_millis(200));
        assert_eq!(get(&server.admin, "/ready"), (200, "ready\n".to_owned()), "{signal}");
    }
    assert!(server.terminate().success());
}

/// At whatever moment of the start it comes, the process ends well.
#[test]
fn a_signal_during_the_start_ends_it_well() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    make(&data);
    for millis in [40, 80, 150, 300, 600] {
        let mut command = serve_command(BINARY, &data);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let _watchdog = Watchdog::new(child.id(), Duration::from_secs(120));
        wait_for_handlers(child.id());
        thread::sleep(Duration::from_millis(millis - 40));
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "after {millis} ms: {status}");
    }
    assert_eq!(
        Client::connect(&RunningServer::start(&data).table).unwrap().read_all(TABLE).len(),
        360
    );
}

/// Until the process catches SIGTERM: before its first instruction it can catch nothing.
fn wait_for_handlers(pid: u32) {
    const TERM: u64 = 1 << 14;
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        if caught
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & TERM != 0)
        {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("the process never listens for SIGTERM");
}

/// It was 500, which says that the write may have been done.
#[test]
fn a_slow_body_is_the_clients_time_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(folder.path(), |command| {
        command.env("TAVOLA_LIMITS__BODY_SECONDS", "1")
    });
    Client::connect(&server.table).unwrap().create_table(TABLE);
    let body = Bytes::from_static(br#"{"PartitionKey":"p","RowKey":"r","Value":1}"#);
    let mut request = Request::post(format!("http://{}/{ACCOUNT}/{TABLE}", server.table))
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .header("x-ms-version", "2019-02-02")
        .body(body)
        .unwrap();
    sign(&mut request);
    let mut text = format!("POST /{ACCOUNT}/{TABLE} HTTP/1.1\r\nHost: {}\r\n", server.table);
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{{", request.body().len()));
    let answer = RawConnection::open(&server.table).unwrap().send(text.as_bytes()).unwrap();
    assert_eq!(answer.status(), 408, "{answer:?}");
    assert!(String::from_utf8_lossy(answer.body()).contains("RequestTimeout"), "{answer:?}");
    assert_eq!(Client::connect(&server.table).unwrap().read_all(TABLE), [], "nothing was done");
}

fn sign(request: &mut Request<Bytes>) {
    use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
    let account = tavola_core::AccountName::parse(ACCOUNT).unwrap();
    let key = AccountKey::parse(crate::common::KEY).unwrap();
    sign_request(request, Scheme::SharedKey, &account, &key, std::time::SystemTime::now());
}

/// A bad block that a read meets: the server goes on, and says what to do, also after a restart.
#[test]
fn a_damaged_file_is_told_on_ready() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    make(&data);
    let largest = engine_files(&data, ".sst")
        .into_iter()
        .max_by_key(|file| fs::metadata(file).unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    // Behind the rows of the catalogue, which come first.
    let at = bytes.len() / 2;
    bytes[at] ^= 0x10;
    fs::write(&largest, bytes).unwrap();
    let mut said = Vec::new();
    for life in 0..2 {
        let server = RunningServer::start(&data);
        if life == 0 {
            let request = Request::get(format!("http://{}/{ACCOUNT}/{TABLE}", server.table))
                .header("x-ms-version", "2019-02-02")
                .header("accept", "application/json")
                .body(Bytes::new())
                .unwrap();
            let response =
                Client::connect(&server.table).unwrap().exchange_signed(request).unwrap();
            assert_eq!(response.status(), 500, "its rows cannot be read");
        }
        put(&mut Client::connect(&server.table).unwrap(), 1000 + life);
        let (status, text) = get(&server.admin, "/ready");
        assert_eq!(status, 200, "writes are taken: {text}");
        let (file, folder) = (largest.file_name().unwrap().to_string_lossy(), data.display());
        for words in [
            format!("store/{file}"),
            format!("tavola check {folder}"),
            format!("tavola repair {folder}"),
        ] {
            assert!(text.contains(&words), "no «{words}» in {text}");
        }
        said.push(text);
        assert!(server.terminate().success());
    }
    assert_eq!(said[0], said[1], "the advice is the same after a restart");
}

/// Cutting the last bytes off a log after a kill under load once went unseen, with acknowledged
/// writes in them.
#[test]
fn a_log_that_loses_its_end_after_a_kill_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let server = RunningServer::start(&data);
    Client::connect(&server.table).unwrap().create_table(TABLE);
    let acknowledged = Mutex::new(Vec::new());
    let authority = server.table.clone();
    thread::scope(|scope| {
        for writer in 0..8 {
            let (authority, acknowledged) = (&authority, &acknowledged);
            scope.spawn(move || {
                let Ok(mut client) = Client::connect(authority) else { return };
                for row in 0..100_000 {
                    let key = format!("p{writer}/{row:06}");
                    let (partition_key, operation) = insert(&key, row);
                    match client.ask(&TableRequest::Write(name(TABLE), partition_key, operation)) {
                        Ok(Ok(_)) => acknowledged.lock().unwrap().push(key),
                        _ => return,
                    }
                }
            });
        }
        while acknowledged.lock().unwrap().len() < 2000 {
            thread::sleep(Duration::from_millis(1));
        }
        server.kill();
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    let mut refused = 0;
    for cut in [1, 40, 150, 400, 900, 1500] {
        let copied = home.path().join(format!("cut-{cut}"));
        copy(&data, &copied);
        let log = engine_files(&copied, ".log").pop().unwrap();
        let mut bytes = fs::read(&log).unwrap();
        bytes.truncate(bytes.len() - cut);
        fs::write(&log, bytes).unwrap();
        match ServerProcess::spawn(serve_command(BINARY, &copied).stderr(Stdio::null())) {
            Err(ended) => {
                assert_eq!(ended.status.code(), Some(3));
                refused += 1;
            }
            // What is gone was not acknowledged.
            Ok(server) => {
                let rows = Client::connect(&server.table).unwrap().read_all(TABLE);
                let rows: std::collections::HashSet<String> =
                    rows.into_iter().map(|(key, _)| key).collect();
                let lost = acknowledged.iter().filter(|key| !rows.contains(*key)).count();
                assert_eq!(lost, 0, "a cut of {cut} bytes went unseen");
            }
        }
    }
    assert!(refused > 0, "1,500 bytes are more than one group");
}

/// The Timestamp of a row, written now by a client whose clock is `seconds` ahead.
fn timestamp(server: &ServerProcess, row: i32, seconds: i64) -> String {
    let table = format!("http://{}/{ACCOUNT}/{TABLE}", server.table);
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row:05}","Value":{row}}}"#);
    let insert = Request::post(&table)
        .header("content-type", "application/json")
        .body(Bytes::from(body))
        .unwrap();
    let get = Request::get(format!("{table}(PartitionKey='p',RowKey='{row:05}')"))
        .body(Bytes::new())
        .unwrap();
    let mut client = Client::connect(&server.table).unwrap();
    let [inserted, found] = [insert, get].map(|mut request| {
        let headers = request.headers_mut();
        headers.insert("x-ms-version", http::HeaderValue::from_static("2019-02-02"));
        headers
            .insert("accept", http::HeaderValue::from_static("application/json;odata=nometadata"));
        client.exchange_signed_at(request, shifted(seconds)).unwrap()
    });
    assert_eq!(inserted.status(), 201, "{inserted:?}");
    let entity: serde_json::Value = serde_json::from_slice(found.body()).unwrap();
    entity["Timestamp"].as_str().unwrap_or_else(|| panic!("{entity}")).to_owned()
}

fn year(timestamp: &str) -> i32 {
    timestamp[..4].parse().unwrap()
}

/// One moment in a far year once marked all later Timestamps.
#[test]
fn a_clock_that_jumps_is_not_adopted_and_a_folder_that_was_is_not_served_unasked() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let arena = Arena {
        seed: 1,
        is_short: true,
        server: BINARY.into(),
        mutants: None,
        cluster: None,
        folder: home.path().to_owned(),
    };
    let clock = ShiftedClock::new(&arena).unwrap();
    let start = |with: &[&str]| {
        RunningServer::start_with(&data, |command| clock.attach(command).args(with))
    };
    let server = start(&[]);
    Client::connect(&server.table).unwrap().create_table(TABLE);
    let present = year(&timestamp(&server, 1, 0));
    clock.set(200 * YEAR);
    let during = timestamp(&server, 2, 200 * YEAR);
    assert!(year(&during) <= present + 1, "the jump was adopted: {during}");
    clock.set(0);
    assert!(year(&timestamp(&server, 3, 0)) <= present + 1);
    assert!(server.terminate().success());
    // A machine that starts with a wrong clock is believed.
    clock.set(200 * YEAR);
    let server = start(&[]);
    let far = timestamp(&server, 4, 200 * YEAR);
    assert!(year(&far) > present + 150, "{far}");
    assert!(server.terminate().success());
    clock.set(0);
    is_refused_and_found(home.path(), &data);
    let server = start(&["--allow-future-versions"]);
    let next = timestamp(&server, 5, 0);
    // As text without the Z, because zeros at the end are left out.
    assert!(
        next.trim_end_matches('Z') > far.trim_end_matches('Z'),
        "versions never fall: {next} after {far}"
    );
    assert!(server.terminate().success());
    is_copied_back(home.path(), present);
}

fn is_refused_and_found(home: &Path, data: &Path) {
    let before = content(data);
    let done = run(&mut serve_command(BINARY, data));
    assert_eq!(done.code, Some(3), "{done:?}");
    for words in [
        "more than a day ahead",
        "--rewrite-versions",
        "--allow-future-versions",
        &data.display().to_string(),
    ] {
        assert!(done.stderr.contains(words), "no «{words}» in {}", done.stderr);
    }
    assert_eq!(differences(&before, &content(data)), Vec::<std::path::PathBuf>::new());
    let mut doctor = in_folder(home);
    doctor.arg("doctor").env("TAVOLA_STORE__LOCATION", data);
    doctor.env("TAVOLA_TABLE__PORT", "0").env("TAVOLA_SERVER__ADMIN_PORT", "0");
    let done = run(&mut doctor);
    assert_eq!(done.code, Some(1), "{done:?}");
    let is_found = |line: &str| line.starts_with("fail") && line.contains("more than a day ahead");
    assert!(
        done.stdout.lines().any(is_found) && done.stdout.contains("--rewrite-versions"),
        "{}",
        done.stdout
    );
}

fn is_copied_back(home: &Path, present: i32) {
    let done = run(in_folder(home).args([
        "store",
        "copy",
        "--rewrite-versions",
        "--from",
        "embedded:data",
        "--to",
        "embedded:rewritten",
    ]));
    assert_eq!(done.code, Some(0), "{done:?}");
    let rewritten = home.join("rewritten");
    let server = RunningServer::start(&rewritten);
    assert_eq!(Client::connect(&server.table).unwrap().read_all(TABLE).len(), 5);
    assert!(year(&timestamp(&server, 6, 0)) <= present + 1);
    assert!(server.terminate().success());
    assert_eq!(run(tavola().arg("check").arg(&rewritten)).code, Some(0));
}
