//! A whole server on a store in memory, without its sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tavola_core::request::Select;
use tavola_core::{AccountName, DateTime, TableRequest, Timestamp};
use tavola_protocol::auth::{Scheme, sign_request};
use tavola_protocol::table::ResponseFormat;
use tavola_protocol::table::decode::{DecodeError, Decoded};
use tavola_protocol::table::encode::{NextPage, Style};
use tavola_protocol::table::entity_json::MetadataLevel;
use tavola_protocol::table::{decode_reply, encode_request};
use tavola_server::config::{Layers, Origin, Personality};
use tavola_server::connection::{self, Connection};
use tavola_server::telemetry::Telemetry;
use tavola_server::{Config, Node, pipeline};
use tavola_service::TableService;
use tavola_service::clock::Clock;
use tavola_store::MemoryStore;
use tokio::runtime::Runtime;

use crate::credentials::{NOW, account_key, key_text};
use crate::requests::{ACCOUNT, PRIMARY};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime of one thread")
});

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let mut layers = Layers::default();
    layers.set(&format!("accounts.{ACCOUNT}.key1"), key_text(), Origin::Flag("--fuzz".to_owned()));
    Config::resolve(&layers, Personality::Server).expect("a configuration with one account")
});

static ACCOUNT_NAME: LazyLock<AccountName> =
    LazyLock::new(|| AccountName::parse(ACCOUNT).expect("an account's name"));

/// Stands still, so that versions and their tags are the same in every run.
#[derive(Debug)]
struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::new(DateTime::from_unix(NOW))
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// A server with nothing in it.
#[derive(Debug)]
pub struct Server {
    node: Arc<Node>,
    tables: Arc<TableService>,
}

impl Server {
    /// A new one.
    ///
    /// # Panics
    /// If the configuration above is wrong.
    #[must_use]
    pub fn new() -> Self {
        let tables = TableService::new(Arc::new(MemoryStore::new()), Arc::new(StandingClock));
        let node = Node::new(&CONFIG, Arc::new(MemoryStore::new()), Telemetry::new(None))
            .expect("it names no files");
        Self { node: Arc::new(node), tables: Arc::new(tables) }
    }

    /// What the handler answers.
    ///
    /// # Panics
    /// If it takes the connection for broken, which it cannot be, or if it had to catch a panic of
    /// its own.
    #[must_use]
    pub fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000));
        let connection = Connection::new(peer, connection::Scheme::Http);
        let (node, tables) = (Arc::clone(&self.node), Arc::clone(&self.tables));
        let answer = pipeline::handle(node, tables, connection, request.map(Full::new));
        let answer = RUNTIME.block_on(async {
            let (parts, body) = answer.await.expect("there is no connection to break").into_parts();
            let body = body.collect().await.expect("no body of tables fails").to_bytes();
            Response::from_parts(parts, body)
        });
        // libFuzzer ends the process at a panic, caught or not. This holds too where its hook does
        // not.
        assert_eq!(self.node.telemetry.panics(), 0, "the handler caught a panic: {answer:?}");
        answer
    }

    /// What a client of ours is told, with the account's key; `None` if the request is too long for
    /// a URL.
    pub(crate) fn ask(
        &self,
        asked: &TableRequest,
        page: Option<&NextPage>,
    ) -> Option<Result<Decoded, DecodeError>> {
        let format =
            ResponseFormat { level: MetadataLevel::Minimal, prefer: None, select: Select::All };
        let style = Style { base: PRIMARY, format: &format, page, boundary_ids: ["b", "c"] };
        let mut request = encode_request(asked, &style).ok()?;
        sign(&mut request);
        Some(decode_reply(asked, &self.answer(request)))
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

/// Signs a request with the account's key.
pub fn sign(request: &mut Request<Bytes>) {
    sign_request(request, Scheme::SharedKey, account_name(), account_key(), SystemTime::now());
}

/// The account's name, checked.
#[must_use]
pub fn account_name() -> &'static AccountName {
    &ACCOUNT_NAME
}
