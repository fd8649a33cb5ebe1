//! Clients that mean harm: what one connection, one address or one account can make the server hold
//! is bounded, and others are served meanwhile.

mod raw_http2;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::common::client::{Client, entity_key, insert, name};
use crate::common::{ACCOUNT, RunningServer};
use crate::tls::client::{Files, SecureClient, eventually, signed};
use raw_http2::{Frame, Head, RawHttp2};
use tavola_core::TableRequest;
use tavola_core::request::EntityQuery;
use tavola_protocol::table::entity_json::MetadataLevel;
use tempfile::TempDir;

/// The memory that hostile clients may cost.
const MEMORY_KB_MAX: u64 = 128 * 1024;
/// `TAVOLA_HOSTILE_CONNECTIONS=1000` for the whole attack; the handshakes of so many take a minute
/// in a debug build.
const CONNECTIONS: usize = 200;
const STREAMS: usize = 100;
/// As many fields as are allowed, and nearly as many bytes.
const FIELDS: usize = 85;
const FIELD_BYTES: usize = 300;

struct Server {
    server: RunningServer,
    files: Files,
    _folder: TempDir,
}

impl Server {
    fn start(with: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::make(&folder.path().join("certificates"));
        let server = RunningServer::start_with(&folder.path().join("data"), |command| {
            with(
                command
                    .arg("--tls-cert")
                    .arg(files.path("cert.pem"))
                    .arg("--tls-key")
                    .arg(files.path("key.pem")),
            );
            command
        });
        Self { server, files, _folder: folder }
    }

    async fn client(&self) -> SecureClient {
        SecureClient::connect(&self.server.table, &self.files.trust_h2()).await.unwrap()
    }

    async fn raw(&self, window: u32) -> RawHttp2 {
        RawHttp2::connect(&self.server.table, &self.files.trust_h2(), window).await.unwrap()
    }

    fn metric(&self, name: &str) -> f64 {
        let metrics = http_get(&self.server.admin, "/metrics");
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {metrics}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

fn http_get(authority: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn connections() -> usize {
    std::env::var("TAVOLA_HOSTILE_CONNECTIONS")
        .map_or(CONNECTIONS, |number| number.parse().unwrap())
}

/// Heads of a hundred requests whose bodies never come: large ones, for a byte a field.
fn bomb(first: Head) -> Vec<Head> {
    let value = "v".repeat(FIELD_BYTES);
    let mut heads = vec![first.clone().remembered("x-bomb", &value).repeated(FIELDS - 1)];
    heads.extend((1..STREAMS).map(|_| first.clone().repeated(FIELDS)));
    heads
}

/// The head of a request that is signed as it should be.
fn signed_head(server: &Server, request: &TableRequest) -> Head {
    let base = format!("https://{}/{ACCOUNT}", server.server.table);
    let http = signed(&base, request, MetadataLevel::None);
    let target = http.uri().path_and_query().unwrap().as_str();
    let head = Head::new(http.method().as_str(), &server.server.table, target);
    http.headers()
        .iter()
        .fold(head, |head, (name, value)| head.field(name.as_str(), value.to_str().unwrap()))
}

async fn is_served(client: &SecureClient) {
    client.ask(&TableRequest::QueryTables(Default::default())).await;
}

/// Memory beyond what it was, at its highest while the attack lasts.
async fn cost_of(server: &Server, head: &Head) -> u64 {
    let polite = server.client().await;
    is_served(&polite).await;
    let idle = server.server.resident_kilobytes();
    let (mut held, mut highest) = (Vec::new(), 0);
    for _ in 0..connections() {
        let mut connection = server.raw(65_535).await;
        // A server that has enough of it may well end the connection.
        let _refused = connection.open(&bomb(head.clone()), false).await;
        held.push(connection);
        highest = highest.max(server.server.resident_kilobytes());
    }
    for _ in 0..50 {
        is_served(&polite).await;
        is_served(&server.client().await).await;
        highest = highest.max(server.server.resident_kilobytes());
    }
    highest.saturating_sub(idle)
}

#[tokio::test]
async fn heads_without_a_credential_cost_little() {
    let server = Server::start(|_| {});
    let head = Head::new("POST", &server.server.table, &format!("/{ACCOUNT}/Tables"))
        .field("content-length", "100");
    let cost = cost_of(&server, &head).await;
    println!("{} connections with {STREAMS} streams each cost {} MB", connections(), cost / 1024);
    assert!(cost < MEMORY_KB_MAX, "{cost} kB");
}

#[tokio::test]
async fn heads_with_a_credential_are_held_in_a_budget() {
    let server = Server::start(|_| {});
    let (partition_key, operation) = insert("p/r", 1);
    let head = signed_head(&server, &TableRequest::Write(name("table"), partition_key, operation));
    let cost = cost_of(&server, &head).await;
    println!("{} connections with {STREAMS} streams each cost {} MB", connections(), cost / 1024);
    assert!(cost < MEMORY_KB_MAX, "{cost} kB");
}

#[tokio::test]
async fn a_refusal_does_not_wait_for_a_body() {
    let server = Server::start(|_| {});
    let mut connection = server.raw(65_535).await;
    let head = Head::new("POST", &server.server.table, &format!("/{ACCOUNT}/Tables"))
        .field("content-length", "100");
    let too_many = head.clone().remembered("x-bomb", "v").repeated(100);
    connection.open(&[head, too_many], false).await.unwrap();
    let mut answered = Vec::new();
    while answered.len() < 2 {
        match tokio::time::timeout(Duration::from_secs(30), connection.frame())
            .await
            .unwrap()
            .unwrap()
        {
            Frame::Headers(stream) => answered.push(stream),
            frame => assert!(
                !matches!(frame, Frame::Reset(stream) if !answered.contains(&stream)),
                "{frame:?}"
            ),
        }
    }
}

#[tokio::test]
async fn answers_that_nobody_takes_are_given_up() {
    let server = Server::start(|command| {
        command.env("TAVOLA_LIMITS__BODY_SECONDS", "2").env("TAVOLA_LIMITS__BODY_MB", "64");
    });
    let polite = server.client().await;
    polite.ask(&TableRequest::CreateTable(name("pages"))).await;
    for number in 0..60 {
        let (partition_key, operation) = large_insert(number);
        polite.ask(&TableRequest::Write(name("pages"), partition_key, operation)).await;
    }
    let query = TableRequest::QueryEntities(name("pages"), EntityQuery::default());
    let mut hostile = server.raw(0).await;
    let heads = vec![signed_head(&server, &query); STREAMS];
    hostile.open(&heads, true).await.unwrap();
    eventually("answers wait", async || (server.metric(BODY_BYTES) > 1e6).then_some(())).await;
    // One connection has its part of the memory and no more.
    assert!(server.metric(BODY_BYTES) <= (32 << 20) as f64, "{}", server.metric(BODY_BYTES));
    polite.ask(&query).await;
    let mut reset = 0;
    while reset == 0 {
        match tokio::time::timeout(Duration::from_secs(60), hostile.frame()).await.unwrap().unwrap()
        {
            Frame::Reset(_) => reset += 1,
            Frame::Data { bytes, .. } => assert_eq!(bytes, 0, "there is no window"),
            _ => {}
        }
    }
    eventually("nothing waits", async || (server.metric(BODY_BYTES) == 0.0).then_some(())).await;
}

const BODY_BYTES: &str =
    "tavola_account_used{account=\"devstoreaccount1\",resource=\"body_bytes\"}";

fn large_insert(number: usize) -> (tavola_core::PartitionKey, tavola_core::EntityOperation) {
    use tavola_core::{EdmValue, EntityOperation, NewEntity, Properties, PropertyName};
    let key = entity_key(&format!("p/{number:03}"));
    let text = (PropertyName::new("Text").unwrap(), EdmValue::String("x".repeat(30_000)));
    let (_, new) = NewEntity::new(key.clone(), Properties::new(vec![text]).unwrap()).unwrap();
    (key.partition_key, EntityOperation::Insert(new))
}

/// All that comes back after a whole request and the end of the client's side.
fn half_closed(authority: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A signed request as it goes over the wire.
fn bytes_of(authority: &str, request: &TableRequest) -> Vec<u8> {
    let http = signed(&format!("http://{authority}/{ACCOUNT}"), request, MetadataLevel::None);
    let target = http.uri().path_and_query().unwrap();
    let mut bytes =
        format!("{} {target} HTTP/1.1\r\nHost: {authority}\r\n", http.method()).into_bytes();
    for (name, value) in http.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", http.body().len()).as_bytes());
    bytes.extend_from_slice(http.body());
    bytes
}

#[test]
fn who_ends_its_side_after_a_request_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    Client::connect(&server.table).unwrap().create_table("half");
    for number in 0..300 {
        let key = format!("p/{number}");
        let (partition_key, operation) = insert(&key, 4711);
        let write = TableRequest::Write(name("half"), partition_key, operation);
        let answer = half_closed(&server.table, &bytes_of(&server.table, &write));
        assert!(answer.starts_with("HTTP/1.1 204"), "insert {number}: {answer:?}");
        let get = TableRequest::GetEntity(name("half"), entity_key(&key));
        let answer = half_closed(&server.table, &bytes_of(&server.table, &get));
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains("4711"),
            "GET {number}: {answer:?}"
        );
    }
}

#[test]
fn an_address_has_so_many_connections() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start_with(folder.path(), |command| {
        command
            .env("TAVOLA_LIMITS__CONNECTIONS", "20")
            .env("TAVOLA_LIMITS__CONNECTIONS_PER_ADDRESS", "10")
    });
    let ready = |from: &str| is_ready(&server.table, from);
    assert!(ready("127.0.0.2"));
    let mut held: Vec<_> = (0..10).map(|_| connect_from(&server.table, "127.0.0.2")).collect();
    // A connection counts when it was accepted: those before it were.
    held.iter_mut().for_each(|stream| assert!(asks_ready(stream, &server.table)));
    assert!(!ready("127.0.0.2"), "the address has its part");
    assert!(ready("127.0.0.3"));
    drop(held);
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !ready("127.0.0.2") {
        assert!(std::time::Instant::now() < deadline, "places come back");
    }
}

/// A connection from another address of this machine.
fn connect_from(authority: &str, from: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(socket.connect(authority.parse().unwrap())).unwrap();
    let stream = runtime.block_on(async { stream.into_std() }).unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn is_ready(authority: &str, from: &str) -> bool {
    asks_ready(&mut connect_from(authority, from), authority)
}

fn asks_ready(stream: &mut TcpStream, authority: &str) -> bool {
    let request = format!("GET /-/ready HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let mut answer = [0; 12];
    let asked = stream.write_all(request.as_bytes()).and_then(|()| stream.read_exact(&mut answer));
    // The rest of the answer fits the buffer of the socket.
    asked.is_ok() && &answer == b"HTTP/1.1 200"
}
