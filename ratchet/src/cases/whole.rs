//! Whole requests: from the handler, over the service, to the embedded store and back. Only sockets are missing.

use std::mem;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tavola_embedded::{EmbeddedStore, Options};
use tavola_server::config::{Layers, Origin, Personality};
use tavola_server::connection::{Connection, Scheme};
use tavola_server::node::AlwaysReady;
use tavola_server::telemetry::Telemetry;
use tavola_server::{Config, Node, handler};
use tavola_service::{SystemClock, TableService};
use tokio::runtime::Runtime;

use super::input;
use crate::counted::{CALLS, count_all};
use crate::failure::Result;

/// Rows that a GET searches among: some hundred blocks of the engine.
const LOADED_ENTITIES: usize = 2_000;
const BATCH_ENTITIES: usize = 100;
/// From one key that is read to the next, so that none lies in the block of the one before.
const KEY_STEP: usize = LOADED_ENTITIES / CALLS;

/// The two numbers of inserts whose difference is counted. Opening a store differs a little from run to run: there must
/// be enough inserts between them to make that small.
pub(super) const INSERTS_MIN: usize = 200;
pub(super) const INSERTS_MAX: usize = 2_200;

/// A server without sockets, on the embedded store.
struct Server {
    runtime: Runtime,
    store: Arc<EmbeddedStore>,
    node: Arc<Node>,
}

impl Server {
    fn open(folder: &Path) -> Result<Self> {
        let store = Arc::new(EmbeddedStore::open(folder.join("data"), Options::default())?);
        let mut layers = Layers::default();
        for (field, key) in [("key1", input::KEY), ("key2", input::OTHER_KEY)] {
            layers.set(&format!("accounts.{}.{field}", input::ACCOUNT), key, Origin::Flag("--key".to_owned()));
        }
        let config = Config::resolve(&layers, Personality::Server)?;
        let tables = TableService::new(Arc::clone(&store) as _, Arc::new(SystemClock));
        let node = Node::new(&config, tables, Arc::new(AlwaysReady), Telemetry::new(None))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self { runtime, store, node: Arc::new(node) })
    }

    /// Answers requests one after another, as one connection does; says how many got the expected status.
    fn answer_all(&self, requests: impl Iterator<Item = Request<Bytes>>, expected: StatusCode) -> usize {
        let connection = Connection { peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000)), scheme: Scheme::Http };
        self.runtime.block_on(async {
            let mut good = 0;
            for request in requests {
                let answer = handler::handle(Arc::clone(&self.node), connection, request.map(Full::new)).await;
                good += usize::from(answer.is_ok_and(|answer| answer.status() == expected));
            }
            good
        })
    }

    fn answer_as_expected(&self, requests: Vec<Request<Bytes>>, expected: StatusCode) -> Result {
        let all = requests.len();
        let good = self.answer_all(requests.into_iter(), expected);
        if good == all { Ok(()) } else { Err(format!("{good} of {all} answers were {expected}").into()) }
    }

    fn create_table(&self) -> Result {
        self.answer_as_expected(vec![input::create_table(SystemTime::now())?], StatusCode::CREATED)
    }

    fn load(&self) -> Result {
        self.create_table()?;
        let batches = (0..LOADED_ENTITIES).step_by(BATCH_ENTITIES);
        let batches = batches.map(|first| input::batch(first..first + BATCH_ENTITIES, SystemTime::now()));
        self.answer_as_expected(batches.collect::<Result<_>>()?, StatusCode::ACCEPTED)
    }
}

/// Point GETs of rows that lie in a file of the engine, whose blocks are in its cache: nothing leaves this thread.
pub(super) fn get(folder: &Path) -> Result {
    let loading = Server::open(folder)?;
    loading.load()?;
    loading.store.close()?;
    drop(loading);
    let server = Server::open(folder)?;
    let indexes = || (0..CALLS).map(|call| call * KEY_STEP);
    let requests = || indexes().map(|index| input::get(index, input::MINIMAL_METADATA, SystemTime::now()));
    // Once to bring the blocks into the cache, once more to do all as it will be counted.
    server.answer_as_expected(requests().collect::<Result<_>>()?, StatusCode::OK)?;
    server.answer_as_expected(requests().collect::<Result<_>>()?, StatusCode::OK)?;
    let mut counted = requests().collect::<Result<Vec<_>>>()?.into_iter();
    let mut good = 0;
    count_all(|| good = server.answer_all(counted.by_ref(), StatusCode::OK));
    if good == CALLS { Ok(()) } else { Err(format!("{good} of {CALLS} point GETs were answered with 200").into()) }
}

/// Inserts one after another, each with its own sync, on this thread and those of the group commit.
pub(super) fn insert(folder: &Path, inserts: usize) -> Result {
    let server = Server::open(folder)?;
    server.create_table()?;
    // As many as ever, so that making and signing them is in no difference.
    let requests = (0..INSERTS_MAX).map(|index| input::insert(index, SystemTime::now()));
    let mut requests = requests.collect::<Result<Vec<_>>>()?.into_iter();
    let good = server.answer_all(requests.by_ref().take(inserts), StatusCode::CREATED);
    // Nor must what is done at the end depend on the number.
    mem::forget((requests, server));
    if good == inserts { Ok(()) } else { Err(format!("{good} of {inserts} inserts were answered with 201").into()) }
}
