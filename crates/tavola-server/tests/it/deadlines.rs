//! The most expensive query that there is, over a table without an end: 500 comparisons over rows
//! of 250 properties. Whatever it asks for, it ends when its page, its client's `timeout`, or its
//! client's patience does.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tavola_core::limits::PAGE_SECONDS_MAX;
use tavola_protocol::table::continuation;
use tavola_server::config::{Layers, Origin, Personality};
use tavola_server::telemetry::Telemetry;
use tavola_server::{Config, Node, listener};
use tavola_service::{SystemClock, TableService};
use tavola_store::MemoryStore;
use tavola_testkit::client::Client;
use tavola_testkit::endless_store::EndlessStore;
use tavola_testkit::server_process::{ACCOUNT, KEY};
use tavola_testkit::wide;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

const PROPERTIES: usize = 250;
const COMPARISONS: usize = 500;
const TABLE: &str = "endless";
/// Nobody waits longer; a busy machine needs far less.
const PATIENCE: Duration = Duration::from_secs(60);
/// Work that does not grow for so long has ended.
const QUIET: Duration = Duration::from_secs(1);

/// A server on a real socket that carries out one query at a time.
struct Server {
    authority: String,
    rows_read: Arc<AtomicU64>,
    _stop: watch::Sender<bool>,
    _runtime: Runtime,
}

impl Server {
    fn start() -> Self {
        let store = EndlessStore::new(PROPERTIES);
        let rows_read = store.rows_read();
        let mut layers = Layers::default();
        for (setting, value) in
            [(format!("accounts.{ACCOUNT}.key1"), KEY), ("limits.queries".to_owned(), "1")]
        {
            layers.set(&setting, value, Origin::Flag("--test".to_owned()));
        }
        let config = Config::resolve(&layers, Personality::Server).unwrap();
        let tables = TableService::new(Arc::new(store), Arc::new(SystemClock));
        let backend = Arc::new(MemoryStore::new());
        let node = Arc::new(Node::new(&config, backend, Telemetry::new(None)).unwrap());
        let runtime = Runtime::new().unwrap();
        let socket = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let authority = socket.local_addr().unwrap().to_string();
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(listener::serve(socket, None, node, Arc::new(tables), stopped));
        let server = Self { authority, rows_read, _stop: stop, _runtime: runtime };
        server.client(PATIENCE).create_table(TABLE);
        server
    }

    fn client(&self, patience: Duration) -> Client {
        Client::connect_with_timeout(&self.authority, patience).unwrap()
    }

    /// Asks for a page; `None` if the client has lost its patience before, and left.
    fn query(&self, options: &str, patience: Duration) -> Option<Response<Bytes>> {
        let filter = wide::filter(COMPARISONS, PROPERTIES).replace(' ', "%20");
        let uri =
            format!("http://{}/{ACCOUNT}/{TABLE}()?$filter={filter}{options}", self.authority);
        let request = Request::get(uri)
            .header("x-ms-version", "2019-02-02")
            .header("accept", "application/json");
        self.client(patience).exchange_signed(request.body(Bytes::new()).unwrap()).ok()
    }

    fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// How long rows are still read, from now on.
    fn time_until_quiet(&self) -> Duration {
        let begun = Instant::now();
        let (mut seen, mut grown) = (self.rows_read(), begun);
        while grown.elapsed() < QUIET {
            assert!(begun.elapsed() < PATIENCE, "work goes on and on");
            thread::sleep(Duration::from_millis(5));
            let now = self.rows_read();
            if now != seen {
                (seen, grown) = (now, Instant::now());
            }
        }
        grown - begun
    }
}

fn code(response: &Response<Bytes>) -> &str {
    response.headers().get("x-ms-error-code").map_or("", |code| code.to_str().unwrap())
}

#[test]
fn a_timeout_of_the_client_is_honoured() {
    let server = Server::start();
    let response = server.query("&timeout=1", PATIENCE).expect("an answer");
    assert_eq!(
        (response.status(), code(&response)),
        (StatusCode::INTERNAL_SERVER_ERROR, "OperationTimedOut")
    );
    assert!(server.rows_read() > 0);
    assert!(
        server.time_until_quiet() < Duration::from_secs(1),
        "nothing is left to do for an answer that has left"
    );
}

#[test]
fn a_page_ends_with_its_time_and_the_next_goes_on_there() {
    let server = Server::start();
    let mut options = String::new();
    for _ in 0..2 {
        let begun = Instant::now();
        let response = server.query(&options, PATIENCE).expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "{response:?}");
        assert!(
            begun.elapsed() >= Duration::from_secs(PAGE_SECONDS_MAX),
            "a page has all of its time"
        );
        let next = |name: &str| {
            response.headers().get(name).expect("there is more").to_str().unwrap().to_owned()
        };
        let partition = next("x-ms-continuation-NextPartitionKey");
        let row = next("x-ms-continuation-NextRowKey");
        let first_unread = format!("{:012}", server.rows_read());
        assert_eq!(
            continuation::decode(&row),
            Some(first_unread),
            "the next page begins where this one ended"
        );
        options = format!("&NextPartitionKey={partition}&NextRowKey={row}");
    }
}

#[test]
fn work_ends_with_its_client_and_its_place_is_free() {
    let server = Server::start();
    assert!(
        server.query("", Duration::from_millis(500)).is_none(),
        "a page takes longer than this client waits"
    );
    assert!(server.rows_read() > 0, "the query was under way");
    let went_on = server.time_until_quiet();
    assert!(
        went_on < Duration::from_secs(4),
        "a page would have gone on for four seconds and a half: {went_on:?}"
    );
    let response = server.query("&timeout=1", PATIENCE).expect("an answer");
    assert_eq!(code(&response), "OperationTimedOut", "the only place for a query is free again");
}
