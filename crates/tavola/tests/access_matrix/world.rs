//! A server with real sockets on a watched store, and the three accounts that the cases are about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tavola_core::{ServiceKind, TableId};
use tavola_server::config::{Layers, Origin, Personality};
use tavola_server::telemetry::Telemetry;
use tavola_server::{Config, Node, Server};
use tavola_service::{SystemClock, TableService};
use tavola_store::{MemoryStore, Store};
use tavola_testkit::watched_store::{Watch, WatchedStore};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::credentials::{Credential, FROZEN, KEY1, KEY2, PLAIN, WALLED};
use crate::http::{Answer, Connection, Request};
use crate::operations::{self, CONTINUATIONS, OLD_TABLE, OTHER_TABLE, Step, TABLE};
use crate::rows::{Key, stored};
use crate::tokens;

const ACCOUNTS: [&str; 3] = [PLAIN, FROZEN, WALLED];
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// A running server whose accounts hold the same rows.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) watch: Watch,
    connection: Connection,
    /// The id of `Orders` in each account.
    pub(crate) orders: BTreeMap<&'static str, TableId>,
    /// Query strings that go on from a row, as the server gave them to the owner.
    pub(crate) continuations: BTreeMap<Key, String>,
    stop: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

impl World {
    pub(crate) fn start(store: impl Store) -> Self {
        let store = WatchedStore::new(store);
        let watch = store.watch();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime can be had");
        // Nobody could fill an account that takes no writes, so accounts are shut after they are
        // filled.
        let (open, shut) = (
            config(&[]),
            config(&[("frozen.read_only", "true"), ("walled.allowed_ips", "10.0.0.0/8")]),
        );
        let server = runtime.block_on(Server::bind(&open, None)).expect("loopback has free ports");
        let authority = server.address(ServiceKind::Table).expect("the port is known").to_string();
        let tables = TableService::new(Arc::new(store), Arc::new(SystemClock));
        let node = Node::new(&open, Arc::new(MemoryStore::new()), Telemetry::new(None));
        let node = node.expect("the configuration names no files").with_configuration(shut);
        let node = Arc::new(node);
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(server.run(Arc::clone(&node), vec![Arc::new(tables)], stopped));
        set_background_aside(&watch);
        let connection = Connection::open(&authority);
        let (orders, continuations) = (BTreeMap::new(), BTreeMap::new());
        let mut world =
            Self { watch, connection, orders, continuations, stop, runtime: Some(runtime) };
        for account in ACCOUNTS {
            world.fill(account);
        }
        world.continuations =
            CONTINUATIONS.into_iter().map(|key| (key, world.continuation(key))).collect();
        node.reload().expect("the second configuration is well formed");
        world
    }

    /// Sends a request with a credential to the account, or to its secondary.
    pub(crate) fn ask(
        &mut self,
        credential: &Credential,
        mut request: Request,
        secondary: bool,
    ) -> Answer {
        let segment =
            format!("{}{}", credential.account, if secondary { "-secondary" } else { "" });
        credential.sign(&mut request, &segment);
        self.connection.ask(&segment, &request)
    }

    /// The same by the owner, at the front door.
    pub(crate) fn ask_as_owner(&mut self, account: &'static str, request: Request) -> Answer {
        self.ask(&Credential::owner(account), request, false)
    }

    fn fill(&mut self, account: &'static str) {
        let mut requests = [TABLE, OTHER_TABLE, OLD_TABLE].map(operations::create_table).to_vec();
        requests.push(operations::set_properties());
        requests.extend(["a", "b", "c", "d"].map(operations::seed));
        for request in requests {
            let answer = self.ask_as_owner(account, request);
            assert!(answer.status < 300 && answer.code().is_empty(), "{answer:?}");
        }
        let _of_filling = self.watch.take();
        let first = stored().next().expect("there are rows");
        let answer = self.ask_as_owner(account, Step { name: "get", key: first }.request());
        assert!(answer.body.contains(&first.marker()), "{answer:?}");
        let mut user_tables =
            self.watch.take().into_keys().filter(|table| table.number() >= TableId::FIRST_USER);
        self.orders.insert(account, user_tables.next().expect("a row was read"));
        assert_eq!(user_tables.next(), None, "one table was read");
    }

    /// What the owner is told to go on with after all rows before `key`.
    fn continuation(&mut self, key: Key) -> String {
        let top = stored().position(|stored| stored == key).expect("the row exists");
        let request = Request::new("GET", format!("/{TABLE}()")).query(format!("$top={top}"));
        let answer = self.ask_as_owner(PLAIN, request);
        let token = |name: &str| {
            answer.header(&format!("x-ms-continuation-{name}")).expect("there is more").to_owned()
        };
        format!("NextPartitionKey={}&NextRowKey={}", token("NextPartitionKey"), token("NextRowKey"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _server_gone = self.stop.send(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }
}

/// Ports that are free, and the three accounts with the same keys.
fn config(more: &[(&str, &str)]) -> Config {
    let mut layers = Layers::default();
    let mut set = |path: &str, value: &str| layers.set(path, value, Origin::Flag(path.to_owned()));
    for port in ["table.port", "server.admin_port"] {
        set(port, "0");
    }
    for account in ACCOUNTS {
        set(&format!("accounts.{account}.key1"), KEY1);
        set(&format!("accounts.{account}.key2"), KEY2);
    }
    for (path, value) in tokens::settings() {
        set(&path, &value);
    }
    for (path, value) in more {
        set(&format!("accounts.{path}"), value);
    }
    Config::resolve(&layers, Personality::Server).expect("the configuration is well formed")
}

/// What reclaims dropped tables looks at the catalogue before anybody connects, and again whenever
/// it likes.
fn set_background_aside(watch: &Watch) {
    let deadline = Instant::now() + START_TIME_MAX;
    while watch.take().is_empty() {
        assert!(Instant::now() < deadline, "the server does not start");
        thread::yield_now();
    }
    watch.set_callers_aside();
}
