//! A second service, as small as one can be, in the same pipeline: it shows that the pipeline knows
//! nothing of tables, and that bodies stream in both directions.
//!
//! It is a *tap*: `PUT /ACCOUNT/drain` counts the bytes that it is sent, `GET /ACCOUNT/tap/N` sends
//! N zeros, and `GET /ACCOUNT/leak/N` fails after half of them. In a process of its own, because it
//! measures the memory of the process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use tavola_core::grant::{AccessError, Demand, Letters, Resource, Role};
use tavola_core::reply::Cost;
use tavola_core::{AccessPolicy, AccountName, ServiceKind, ServiceProperties};
use tavola_protocol::api_error::ErrorParts;
use tavola_protocol::response::add_advice;
use tavola_protocol::{
    Address, ApiError, ResponseContext, ResponseHead, ServiceApiError, error_body,
};
use tavola_server::config::{Layers, Origin, Personality};
use tavola_server::response_body::ResponseBody;
use tavola_server::service::{BodyPlan, Call, Description, ExecuteError, Executed, Service};
use tavola_server::telemetry::{EventReader, RequestEvent, Telemetry};
use tavola_server::throttle::Work;
use tavola_server::{Config, Node, listener};
use tavola_store::{MemoryStore, StoreError};
use tavola_testkit::client::Client;
use tavola_testkit::raw::RawConnection;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

const ACCOUNT: &str = "plumber";
const KEY: &str =
    "YW4gZXhhbXBsZSB0aGF0IGV2ZXJ5Ym9keSBrbm93czogbWFrZSBhIGtleSBvZiB5b3VyIG93biwgcGxlYXNlIQ==";
const GIGABYTE: u64 = 1 << 30;
const DRAIN_MAX: u64 = 2 * GIGABYTE;
/// What the service sends at a time.
const CHUNK: usize = 64 * 1024;
/// No step of a test takes longer on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(120);
/// What streaming may take beyond what the process had before.
const MEMORY_MAX: u64 = 16 << 20;

#[derive(Debug)]
struct Taps;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TapRequest {
    Drain,
    Tap(u64),
    Leak(u64),
    Burst,
}

#[derive(Debug)]
enum TapReply {
    Drained(u64),
    Running { bytes: u64, leaks: bool },
}

/// The service's own errors beside the common ones.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TapError {
    Common(ApiError),
    NoSuchTap,
}

impl From<ApiError> for TapError {
    fn from(api_error: ApiError) -> Self {
        Self::Common(api_error)
    }
}

impl ServiceApiError for TapError {
    fn parts(&self) -> ErrorParts {
        match self {
            Self::Common(api_error) => api_error.parts(),
            Self::NoSuchTap => ErrorParts {
                status: StatusCode::IM_A_TEAPOT,
                code: "NoSuchTap",
                text: "There is no tap of that name.".into(),
            },
        }
    }

    fn common(&self) -> Option<&ApiError> {
        match self {
            Self::Common(api_error) => Some(api_error),
            Self::NoSuchTap => None,
        }
    }
}

impl Service for Taps {
    type Context = ResponseContext;
    type Request = TapRequest;
    type Reply = TapReply;
    type Error = TapError;

    const KIND: ServiceKind = ServiceKind::Queue;
    const PREFLIGHT: &'static str = "PreflightTapRequest";

    fn context(&self, parts: &Parts, _address: Option<&Arc<Address>>) -> ResponseContext {
        ResponseContext::of(Self::KIND, parts)
    }

    fn body_plan(&self, parts: &Parts, _address: &Address) -> BodyPlan {
        match parts.method {
            Method::PUT => BodyPlan::Streamed { bytes_max: DRAIN_MAX },
            _ => BodyPlan::Whole { bytes_max: 0 },
        }
    }

    fn parse(
        &self,
        _parts: &Parts,
        _body: &Bytes,
        address: &Address,
        _context: &mut ResponseContext,
    ) -> Result<TapRequest, TapError> {
        let path = address.resource_path.trim_start_matches('/');
        let (name, bytes) = path.split_once('/').unwrap_or((path, "0"));
        let bytes = bytes.parse().map_err(|_| ApiError::InvalidUri)?;
        match name {
            "drain" => Ok(TapRequest::Drain),
            "tap" => Ok(TapRequest::Tap(bytes)),
            "leak" => Ok(TapRequest::Leak(bytes)),
            "burst" => Ok(TapRequest::Burst),
            _ => Err(TapError::NoSuchTap),
        }
    }

    fn describe(&self, request: &TapRequest, _with_target: bool) -> Description {
        let is_write = *request == TapRequest::Drain;
        let operation = if is_write { "Drain" } else { "Tap" };
        Description { operation, is_write, ..Description::default() }
    }

    fn demands(
        &self,
        request: &TapRequest,
        check: &mut dyn FnMut(&Demand<'_>) -> Result<(), AccessError>,
    ) -> Result<(), TapError> {
        let letters = Letters::All(if *request == TapRequest::Drain { "a" } else { "r" });
        let (resource_types, role) = (Some("o"), Some(Role::Reader));
        let (service, resource) = (Self::KIND, Resource::Objects("taps"));
        let demand = Demand { service, resource, letters, resource_types, role, key: None };
        Ok(check(&demand).map_err(ApiError::Access)?)
    }

    fn work(&self, request: &TapRequest, body_bytes: u64) -> Work {
        if *request == TapRequest::Drain { Work::Write { body_bytes } } else { Work::Point }
    }

    async fn execute<'a>(
        &'a self,
        mut call: Call<'a>,
        request: TapRequest,
    ) -> Result<Executed<TapReply>, ExecuteError<TapError>> {
        let reply = match request {
            TapRequest::Drain => {
                let mut drained = 0;
                while let Some(bytes) = call.body.next().await? {
                    drained += bytes.len() as u64;
                }
                TapReply::Drained(drained)
            }
            TapRequest::Tap(bytes) => TapReply::Running { bytes, leaks: false },
            TapRequest::Leak(bytes) => TapReply::Running { bytes, leaks: true },
            TapRequest::Burst => panic!("a pipe burst"),
        };
        Ok(Executed { reply, cost: Cost::default() })
    }

    fn render(
        &self,
        reply: TapReply,
        head: &ResponseHead<'_, ResponseContext>,
    ) -> Response<ResponseBody> {
        let (bytes, leaks) = match reply {
            TapReply::Drained(bytes) => {
                let body = Bytes::from(bytes.to_string());
                let response = head.respond(StatusCode::OK, HeaderMap::new(), body);
                return response.map(ResponseBody::full);
            }
            TapReply::Running { bytes, leaks } => (bytes, leaks),
        };
        let end = if leaks { bytes / 2 } else { bytes };
        let chunks = stream::unfold(0, move |sent| async move {
            if sent == end && leaks {
                return Some((Err(std::io::Error::other("the tap leaks")), sent + 1));
            }
            let left = usize::try_from(end.checked_sub(sent)?).unwrap_or(usize::MAX);
            let length = left.min(CHUNK);
            (length > 0).then(|| (Ok(Bytes::from(vec![0; length])), sent + length as u64))
        });
        let mut response = Response::new(ResponseBody::stream(Some(bytes), chunks));
        head.add_common_headers(response.headers_mut());
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
        response
    }

    fn render_error(
        &self,
        error: &TapError,
        head: &ResponseHead<'_, ResponseContext>,
    ) -> Response<Bytes> {
        let parts = error.parts();
        let body = error_body::storage_xml(&parts, error.common(), head.request_id, head.now);
        let mut response = head.respond(parts.status, HeaderMap::new(), body.into());
        if let Some(api_error) = error.common() {
            add_advice(api_error, response.headers_mut());
        }
        response
    }

    async fn properties(&self, _: &AccountName) -> Result<Arc<ServiceProperties>, StoreError> {
        Ok(Arc::default())
    }

    async fn policies(&self, _: &AccountName, _: &str) -> Result<Vec<AccessPolicy>, StoreError> {
        Ok(Vec::new())
    }
}

/// Keeps what telemetry hears.
#[derive(Debug, Default)]
struct Events(Mutex<Vec<RequestEvent>>);

impl EventReader for Events {
    fn record(&self, event: &RequestEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Events {
    fn wait_for(&self, what: impl Fn(&RequestEvent) -> bool) -> RequestEvent {
        let begun = std::time::Instant::now();
        loop {
            if let Some(event) = self.0.lock().unwrap().iter().find(|event| what(event)) {
                return event.clone();
            }
            assert!(begun.elapsed() < TIME_MAX, "no such event");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A server on a real socket.
struct Server {
    address: SocketAddr,
    events: Arc<Events>,
    node: Arc<Node>,
    _stop: watch::Sender<bool>,
    _runtime: Runtime,
}

impl Server {
    fn start() -> Self {
        let mut layers = Layers::default();
        let key = format!("accounts.{ACCOUNT}.key1");
        layers.set(&key, KEY, Origin::Flag("--test".to_owned()));
        let config = Config::resolve(&layers, Personality::Server).unwrap();
        let events = Arc::new(Events::default());
        let telemetry = Telemetry::new(None).with_reader(Arc::clone(&events) as _);
        let node = Node::new(&config, Arc::new(MemoryStore::new()), telemetry).unwrap();
        let node = Arc::new(node);
        let runtime = Runtime::new().unwrap();
        let socket = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(listener::serve(socket, None, Arc::clone(&node), Arc::new(Taps), stopped));
        Self { address, events, node, _stop: stop, _runtime: runtime }
    }

    /// Sends the head of a signed request.
    fn send(&self, method: &str, path: &str, length: u64) -> RawConnection {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let length_line = if length == 0 { String::new() } else { length.to_string() };
        let signed = format!(
            "{method}\n\n\n{length_line}\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-12-02\n\
             /{ACCOUNT}/{ACCOUNT}/{path}"
        );
        let key = tavola_protocol::AccountKey::parse(KEY).unwrap();
        let signature = key.sign(&signed);
        let head = format!(
            "{method} /{ACCOUNT}/{path} HTTP/1.1\r\nHost: {}\r\nx-ms-date: {date}\r\n\
             x-ms-version: 2021-12-02\r\nContent-Length: {length}\r\n\
             Authorization: SharedKey {ACCOUNT}:{signature}\r\n\r\n",
            self.address
        );
        let mut connection = RawConnection::open(&self.address.to_string()).unwrap();
        connection.write_all(head.as_bytes()).unwrap();
        connection
    }

    /// Status and body of the whole answer.
    fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self.send("GET", path, 0).send(b"").unwrap();
        (response.status(), String::from_utf8(response.body().to_vec()).unwrap())
    }
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// The most that the process has beyond `before` while `work` runs.
fn growth_during(before: u64, work: impl FnOnce(&mut dyn FnMut())) -> u64 {
    let mut highest = 0;
    work(&mut || highest = highest.max(resident().saturating_sub(before)));
    highest
}

/// One test, so that nothing else changes the memory of the process meanwhile.
#[test]
fn a_second_service_goes_through_the_same_pipeline() {
    let server = Server::start();
    errors_are_the_services_own(&server);
    a_gigabyte_streams_in_both_directions(&server);
    a_stream_that_fails_is_cut(&server);
    an_upload_that_is_cut_is_not_carried_out(&server);
    bodies_beyond_the_operations_limit_are_refused(&server);
}

fn errors_are_the_services_own(server: &Server) {
    let (status, body) = server.get("sink/1");
    assert_eq!(status, StatusCode::IM_A_TEAPOT);
    assert!(body.contains("<Error><Code>NoSuchTap</Code><Message>There is no tap"), "{body}");
    let (status, body) = server.get("tap/much");
    assert!(status == 400 && body.contains("<Code>InvalidUri</Code>"), "{status} {body}");
    // A defect of the service costs the client one answer.
    let (status, body) = server.get("burst");
    assert!(status == 500 && body.contains("InternalError"), "{status} {body}");
    assert_eq!(server.node.telemetry.panics(), 1);
    // Without a signature nothing is told.
    let mut client = Client::connect(&server.address.to_string()).unwrap();
    let refused = client.get(&format!("/{ACCOUNT}/tap/1")).unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(refused.headers().contains_key("www-authenticate"), "{refused:?}");
    let name = refused.headers()["server"].to_str().unwrap();
    assert!(name.starts_with("Tavola-Queue/"), "{name}");
    let event = server.events.wait_for(|event| event.subject.error_code == Some("NoSuchTap"));
    assert_eq!((event.service, event.status), (ServiceKind::Queue, StatusCode::IM_A_TEAPOT));
    assert_eq!(event.account.unwrap().as_str(), ACCOUNT);
}

fn a_gigabyte_streams_in_both_directions(server: &Server) {
    let piece = vec![7; CHUNK];
    // Once in small, so that what is set up once does not count.
    let (_, body) = server.get("tap/100000");
    assert_eq!(body.len(), 100_000);
    let before = resident();
    let grown = growth_during(before, |look| {
        let mut stream = server.send("PUT", "drain", GIGABYTE);
        for _ in 0..GIGABYTE / CHUNK as u64 {
            stream.write_all(&piece).unwrap();
            look();
        }
        assert_eq!(stream.read_head().unwrap().status(), StatusCode::OK);
        let mut told = [0; 10];
        stream.read_exact(&mut told).unwrap();
        assert_eq!(std::str::from_utf8(&told).unwrap(), GIGABYTE.to_string());
        let mut stream = server.send("GET", &format!("tap/{GIGABYTE}"), 0);
        stream.read_head().unwrap();
        let mut bytes = vec![1; CHUNK];
        for _ in 0..GIGABYTE / CHUNK as u64 {
            stream.read_exact(&mut bytes).unwrap();
            look();
        }
    });
    assert!(grown < MEMORY_MAX, "{grown} bytes more");
    let event = server.events.wait_for(|event| event.subject.request_bytes == GIGABYTE);
    assert!(event.subject.is_write && event.end_to_end >= event.duration);
    let event = server.events.wait_for(|event| event.response_bytes == GIGABYTE);
    assert!(!event.is_cut);
}

/// The client must not take half of an answer for all of it.
fn a_stream_that_fails_is_cut(server: &Server) {
    let mut stream = server.send("GET", "leak/1000000", 0);
    assert_eq!(stream.read_head().unwrap().headers()["content-length"], "1000000");
    let mut got = Vec::new();
    let _reset_or_end = stream.read_to_end(&mut got);
    assert!(got.len() <= 500_000, "the connection ends where the stream failed");
    let event = server.events.wait_for(|event| event.is_cut);
    assert_eq!((event.status, event.response_bytes), (StatusCode::OK, 500_000));
}

fn an_upload_that_is_cut_is_not_carried_out(server: &Server) {
    let carried_out = || {
        let events = server.events.0.lock().unwrap();
        events.iter().filter(|event| event.subject.operation == "Drain").count()
    };
    let before = carried_out();
    let mut stream = server.send("PUT", "drain", 1_000_000);
    stream.write_all(&[1; 1000]).unwrap();
    drop(stream);
    // The server serves on.
    assert_eq!(server.get("tap/3").1.len(), 3);
    assert_eq!(carried_out(), before, "there is nobody to answer to");
}

fn bodies_beyond_the_operations_limit_are_refused(server: &Server) {
    let mut stream = server.send("PUT", "drain", DRAIN_MAX + 1);
    stream.write_all(&[1; 1000]).unwrap();
    assert_eq!(stream.read_head().unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
}
