//! A service in the process, and one that loses replies.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tavola_client::__store::Runtime;
use tavola_client::{
    BoxFuture, ClientOptions, DynEntity, Failure, Reply, Request, StoreTraits, TableClient,
    TableServiceClient, TableStore,
};
use tavola_local::LocalStore;
use tokio::sync::Notify;

/// What becomes of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out and answered.
    Answered,
    /// It is lost on the way to the service.
    LostRequest,
    /// It is carried out, and the reply is lost.
    LostReply,
    /// No connection.
    NotSent,
    /// It never ends.
    Hangs,
}

/// A service that loses requests and replies as it is told. Fates are for writes only; reads are
/// answered unless `reads_fail`.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<LocalStore>,
    fates: Mutex<VecDeque<Fate>>,
    /// The names of all requests.
    pub(crate) seen: Mutex<Vec<&'static str>>,
    reads_fail: bool,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<LocalStore>, fates: &[Fate]) -> Arc<Self> {
        let fates = Mutex::new(fates.iter().copied().collect());
        Arc::new(Self { inner, fates, seen: Mutex::default(), reads_fail: false })
    }

    pub(crate) fn without_reads(inner: Arc<LocalStore>, fates: &[Fate]) -> Arc<Self> {
        let fates = Mutex::new(fates.iter().copied().collect());
        Arc::new(Self { inner, fates, seen: Mutex::default(), reads_fail: true })
    }

    pub(crate) fn seen(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl TableStore for Faulty {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        let is_write = request.operation().is_write();
        self.seen.lock().unwrap().push(request.operation().name());
        let fate = if is_write {
            self.fates.lock().unwrap().pop_front().unwrap_or(Fate::Answered)
        } else if self.reads_fail {
            Fate::LostRequest
        } else {
            Fate::Answered
        };
        Box::pin(async move {
            match fate {
                Fate::Answered => self.inner.execute(request).await,
                Fate::LostRequest => Err(Failure::lost("connection reset")),
                Fate::LostReply => {
                    let _unheard = self.inner.execute(request).await;
                    Err(Failure::lost("connection reset"))
                }
                Fate::NotSent => Err(Failure::not_sent("connection refused")),
                Fate::Hangs => std::future::pending().await,
            }
        })
    }

    fn traits(&self) -> StoreTraits {
        self.inner.traits()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
}

/// A new table in memory.
pub(crate) async fn table() -> (Arc<LocalStore>, TableClient) {
    let store = tavola_local::in_memory();
    let client = TableServiceClient::on(store.clone(), None).table_client("people");
    client.create().await.unwrap();
    (store, client)
}

/// The same table behind a service that loses replies.
pub(crate) fn losing(
    store: &Arc<LocalStore>,
    fates: &[Fate],
    options: ClientOptions,
) -> (Arc<Faulty>, TableClient) {
    let faulty = Faulty::new(Arc::clone(store), fates);
    let client = TableServiceClient::on(faulty.clone(), Some(options)).table_client("people");
    (faulty, client)
}

pub(crate) fn person(row: &str, age: i32) -> DynEntity {
    let mut person = DynEntity::new("Smith", row);
    person.set("Age", age);
    person
}

pub(crate) async fn age(client: &TableClient, row: &str) -> Option<i32> {
    let found = client.get::<DynEntity>(("Smith", row)).await.unwrap();
    found.map(|person| person.get::<i32>("Age").unwrap())
}

/// A service that keeps one request until it is told to go on.
#[derive(Debug)]
struct Held {
    inner: Arc<LocalStore>,
    at: usize,
    seen: AtomicUsize,
    reached: Notify,
    go: Notify,
}

impl TableStore for Held {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            if self.seen.fetch_add(1, Ordering::Relaxed) == self.at {
                self.reached.notify_one();
                self.go.notified().await;
            }
            self.inner.execute(request).await
        })
    }

    fn traits(&self) -> StoreTraits {
        self.inner.traits()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
}

/// Stalls `work` before each of its requests, one after the other, each time on a new service: it is
/// not polled until `meanwhile` has ended. Returns how many requests it has.
pub(crate) async fn stall_everywhere<W: Future<Output = ()> + Send>(
    seed: impl AsyncFn(&TableServiceClient),
    work: impl Fn(TableServiceClient) -> W,
    meanwhile: impl AsyncFn(&TableServiceClient),
    check: impl AsyncFn(&TableServiceClient, usize),
) -> usize {
    for at in 0.. {
        let inner = tavola_local::in_memory();
        let service = TableServiceClient::on(inner.clone(), None);
        seed(&service).await;
        let (reached, go) = (Notify::new(), Notify::new());
        let held = Arc::new(Held { inner, at, seen: AtomicUsize::new(0), reached, go });
        let mut work = Box::pin(work(TableServiceClient::on(held.clone(), None)));
        let is_reached = tokio::select! {
            biased;
            () = held.reached.notified() => true,
            () = &mut work => false,
        };
        if !is_reached {
            return at;
        }
        meanwhile(&service).await;
        held.go.notify_one();
        work.await;
        check(&service, at).await;
    }
    unreachable!("work has an end")
}
