//! Whole requests: from the handler, over the service, to the embedded store and back. Only sockets
//! are missing.

use std::future::poll_fn;
use std::mem;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tavola_embedded::{EmbeddedStore, Options};
use tavola_server::config::{Layers, Origin, Personality};
use tavola_server::connection::{Connection, Scheme};
use tavola_server::telemetry::Telemetry;
use tavola_server::{Config, Node, pipeline};
use tavola_service::{SystemClock, TableService};
use tavola_store::MemoryStore;
use tokio::runtime::Runtime;

use super::input;
use crate::counted::{Run, counted};
use crate::failure::{Failure, Result};

/// Rows that a GET searches among: some hundred blocks of the engine.
const LOADED_ENTITIES: usize = 2_000;
const BATCH_ENTITIES: usize = 100;
const WARM_UP_ROUNDS: usize = 3;

/// Opening a store differs a little from run to run: there must be enough inserts to make that
/// small.
pub(super) const INSERTS_MAX: usize = 2_200;

/// A server without sockets, on the embedded store.
struct Server {
    runtime: Runtime,
    store: Arc<EmbeddedStore>,
    node: Arc<Node>,
    tables: Arc<TableService>,
}

impl Server {
    fn open(folder: &Path) -> Result<Self> {
        let store = Arc::new(EmbeddedStore::open(folder.join("data"), Options::default())?);
        let mut layers = Layers::default();
        for (field, key) in [("key1", input::KEY), ("key2", input::OTHER_KEY)] {
            layers.set(
                &format!("accounts.{}.{field}", input::ACCOUNT),
                key,
                Origin::Flag("--key".to_owned()),
            );
        }
        let config = Config::resolve(&layers, Personality::Server)?;
        let tables = TableService::new(Arc::clone(&store) as _, Arc::new(SystemClock));
        let node = Node::new(&config, Arc::new(MemoryStore::new()), Telemetry::new(None))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self { runtime, store, node: Arc::new(node), tables: Arc::new(tables) })
    }

    async fn answer(&self, request: Request<Bytes>) -> Option<StatusCode> {
        let connection =
            Connection::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000)), Scheme::Http);
        let (node, tables) = (Arc::clone(&self.node), Arc::clone(&self.tables));
        let answer = pipeline::handle(node, tables, connection, request.map(Full::new)).await;
        answer.ok().map(|answer| answer.status())
    }

    /// The same, with what this thread does for it counted.
    async fn answer_counted(&self, request: Request<Bytes>) -> Option<StatusCode> {
        let mut answer = pin!(self.answer(request));
        poll_fn(|context| counted(|| answer.as_mut().poll(context))).await
    }

    fn expect(&self, request: Request<Bytes>, expected: StatusCode) -> Result {
        check(self.runtime.block_on(self.answer(request)), expected)
    }

    fn create_table(&self) -> Result {
        self.expect(input::create_table(SystemTime::now())?, StatusCode::CREATED)
    }
}

/// Fills a store and closes it.
fn load(folder: &Path) -> Result {
    let server = Server::open(folder)?;
    server.create_table()?;
    for first in (0..LOADED_ENTITIES).step_by(BATCH_ENTITIES) {
        let batch = input::batch(first..first + BATCH_ENTITIES, SystemTime::now())?;
        server.expect(batch, StatusCode::ACCEPTED)?;
    }
    Ok(server.store.close()?)
}

fn check(answered: Option<StatusCode>, expected: StatusCode) -> Result {
    if answered == Some(expected) {
        Ok(())
    } else {
        Err(format!("{answered:?} was answered instead of {expected}").into())
    }
}

/// Point GETs of rows that lie in a file of the engine, whose blocks are in its cache: nothing
/// leaves this thread. Each request is made right before it is answered, as a connection does, so
/// that its memory is as easily had and given back.
pub(super) fn get(run: &Run<'_>) -> Result {
    // The allocator keeps the threads' memory apart: what loading leaves of it must not be searched
    // by what is counted.
    thread::scope(|scope| scope.spawn(|| load(run.folder)).join())
        .map_err(|_panic| "loading panicked")??;
    let server = Server::open(run.folder)?;
    // Keys far from each other, so that none lies in the block of the one before.
    let request = |call: usize| {
        input::get(call * LOADED_ENTITIES / run.calls, input::MINIMAL_METADATA, SystemTime::now())
    };
    // Brings the blocks into the cache, and the allocator to the state in which it stays.
    for call in 0..WARM_UP_ROUNDS * run.calls {
        server.expect(request(call % run.calls)?, StatusCode::OK)?;
    }
    server.runtime.block_on(async {
        for call in 0..run.calls {
            check(server.answer_counted(request(call)?).await, StatusCode::OK)?;
        }
        Ok(())
    })
}

/// Inserts one after another, each with its own sync, on this thread and those of the group commit.
pub(super) fn insert(run: &Run<'_>) -> Result {
    let server = Server::open(run.folder)?;
    server.create_table()?;
    server.runtime.block_on(async {
        // As many requests as ever are made and signed, so that this is in no difference.
        for index in 0..INSERTS_MAX {
            let request = input::insert(index, SystemTime::now())?;
            if index < run.calls {
                check(server.answer(request).await, StatusCode::CREATED)?;
            }
        }
        Ok::<_, Failure>(())
    })?;
    // Nor must what is done at the end depend on the number.
    mem::forget(server);
    Ok(())
}
