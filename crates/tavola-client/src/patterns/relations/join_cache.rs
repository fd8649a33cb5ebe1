//! Entities that are read once and joined in the program.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt as _;

use crate::call::Call;
use crate::client::TableClient;
use crate::engine::CallSettings;
use crate::entity::{Entity, Stored};
use crate::error::Error;
use crate::key::{EntityKey, PointKey};

/// How many entities `get_many` reads at a time.
const PARALLEL: usize = 16;

/// Entities of a small table that rarely changes, kept in memory for a while, so that others are
/// joined with them in the program.
///
/// **Guarantee.** What it returns was stored at most `lifetime` ago, counted from the moment when
/// the request was sent. It holds at most `entries` entities, keys without an entity included; the
/// one that was not used for the longest time goes first. However many ask for one key, one request
/// is in flight for it; one that fails is told to its caller and not kept.
///
/// **Cost** in requests: 1 for a key that is not there or too old, otherwise none.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use std::time::Duration;
/// use tavola_client::patterns::JoinCache;
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "dept", row = "{name}")]
/// struct Department {
///     name: String,
///     city: String,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("depts");
/// table.create().await?;
/// table.insert(&Department { name: "Sales".into(), city: "Rome".into() }).await?;
///
/// let departments = JoinCache::<Department>::new(&table, Duration::from_secs(60), 1000);
/// for _employee in 0..100 {
///     let department = departments.get(Department::key().name("Sales")).await?;
///     assert_eq!(department.map(|one| one.city.clone()).as_deref(), Some("Rome"));
/// }
/// assert_eq!(departments.requests(), 1);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct JoinCache<E> {
    table: TableClient,
    lifetime: Duration,
    entries: usize,
    state: Arc<Mutex<State<E>>>,
}

struct State<E> {
    entries: HashMap<EntityKey, Entry<E>>,
    /// The keys by their last use.
    uses: BTreeMap<u64, EntityKey>,
    last_use: u64,
    /// The requests in flight, and the wakers of the tasks that wait for each.
    flights: HashMap<EntityKey, Vec<Waker>>,
    requests: u64,
    /// Counts invalidations: what was asked for before one is not kept after it.
    generation: u64,
}

struct Entry<E> {
    found: Option<Arc<Stored<E>>>,
    /// When the request was sent.
    read_at: Duration,
    used: u64,
}

impl<E> Clone for JoinCache<E> {
    fn clone(&self) -> Self {
        let (table, state) = (self.table.clone(), Arc::clone(&self.state));
        Self { table, lifetime: self.lifetime, entries: self.entries, state }
    }
}

impl<E> fmt::Debug for JoinCache<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinCache")
            .field("table", &self.table.name())
            .field("lifetime", &self.lifetime)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

/// The request for a key. However it ends, the tasks that wait for it are woken.
struct Flight<'a, E> {
    cache: &'a JoinCache<E>,
    key: &'a EntityKey,
}

impl<E> Drop for Flight<'_, E> {
    fn drop(&mut self) {
        let wakers = self.cache.state().flights.remove(self.key);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl<E> JoinCache<E> {
    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests that it sent so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// How many keys it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// True if it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets an entity, for example after a write to it; a request under way is not kept.
    ///
    /// # Errors
    /// If the key is none.
    pub fn forget(&self, key: impl Into<PointKey<E>>) -> Result<(), Error> {
        let key = key.into().into_key()?;
        let mut state = self.state();
        state.generation += 1;
        if let Some(entry) = state.entries.remove(&key) {
            state.uses.remove(&entry.used);
        }
        Ok(())
    }
}

impl<E: Entity> JoinCache<E> {
    /// A cache of `entries` entities of this table, each for `lifetime`.
    #[must_use]
    pub fn new(table: &TableClient, lifetime: Duration, entries: usize) -> Self {
        let state = State {
            entries: HashMap::new(),
            uses: BTreeMap::new(),
            last_use: 0,
            flights: HashMap::new(),
            requests: 0,
            generation: 0,
        };
        let state = Arc::new(Mutex::new(state));
        Self { table: table.clone(), lifetime, entries: entries.max(1), state }
    }

    /// An entity, from memory if it is young enough; `None` if there is none.
    pub fn get(&self, key: impl Into<PointKey<E>>) -> Call<'_, Option<Arc<Stored<E>>>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            self.get_one(&key?, &settings).await
        })
    }

    /// Many entities, in the order of the keys. Those that are not in memory are read some at a
    /// time, each key once.
    pub fn get_many<K: Into<PointKey<E>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Call<'_, Vec<Option<Arc<Stored<E>>>>> {
        let keys: Vec<_> = keys.into_iter().map(|key| key.into().into_key()).collect();
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            let settings = &settings;
            let reads =
                keys.into_iter().map(|key| async move { self.get_one(&key?, settings).await });
            let mut reads = futures_util::stream::iter(reads).buffered(PARALLEL);
            let mut all = Vec::new();
            while let Some(found) = reads.next().await {
                all.push(found?);
            }
            Ok(all)
        })
    }

    async fn get_one(
        &self,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<Arc<Stored<E>>>, Error> {
        loop {
            if let Some(found) = self.state().young(key, self.now(), self.lifetime) {
                return Ok(found);
            }
            let is_first = {
                let mut state = self.state();
                let is_first = !state.flights.contains_key(key);
                if is_first {
                    state.flights.insert(key.clone(), Vec::new());
                    state.requests += 1;
                }
                is_first
            };
            if is_first {
                return self.read(key, settings).await;
            }
            self.landed(key).await;
        }
    }

    fn now(&self) -> Duration {
        self.table.engine().runtime.now()
    }

    async fn read(
        &self,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<Arc<Stored<E>>>, Error> {
        let flight = Flight { cache: self, key };
        let (read_at, generation) = (self.now(), self.state().generation);
        let found = self.table.get::<E>(key).with_settings(settings.clone()).await?;
        let found = found.map(Arc::new);
        let mut state = self.state();
        if state.generation == generation {
            state.keep(key, found.clone(), read_at, self.entries);
        }
        drop(state);
        drop(flight);
        Ok(found)
    }

    /// Waits until the request for a key has ended, in whatever way.
    async fn landed(&self, key: &EntityKey) {
        std::future::poll_fn(|context| match self.state().flights.get_mut(key) {
            Some(wakers) => {
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
    }
}

impl<E> State<E> {
    /// What is known of a key, if it was read not too long ago.
    fn young(
        &mut self,
        key: &EntityKey,
        now: Duration,
        lifetime: Duration,
    ) -> Option<Option<Arc<Stored<E>>>> {
        let entry = self.entries.get_mut(key)?;
        if now.saturating_sub(entry.read_at) >= lifetime {
            return None;
        }
        self.last_use += 1;
        self.uses.remove(&entry.used);
        entry.used = self.last_use;
        self.uses.insert(entry.used, key.clone());
        Some(entry.found.clone())
    }

    fn keep(
        &mut self,
        key: &EntityKey,
        found: Option<Arc<Stored<E>>>,
        read_at: Duration,
        entries_max: usize,
    ) {
        self.last_use += 1;
        let entry = Entry { found, read_at, used: self.last_use };
        if let Some(old) = self.entries.insert(key.clone(), entry) {
            self.uses.remove(&old.used);
        }
        self.uses.insert(self.last_use, key.clone());
        while self.entries.len() > entries_max
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }
}
