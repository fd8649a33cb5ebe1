//! What is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tavola_cassandra::yardstick::Yardstick;
use tavola_cassandra::{CassandraStore, Options, Reads, Risk};
use tavola_core::{
    Cut, DateTime, EdmValue, EntityAddress, EntityGroupTransaction, EntityKey, EntityOperation,
    KeyRange, NewEntity, PartitionKey, Precondition, Properties, PropertyName, RowKey, TableId,
    Timestamp,
};
use tavola_store::encoding::encode_value;
use tavola_store::{Blocking, Scan, Store};

use crate::Args;
use crate::report::{Goal, keep, print};
use crate::round::{Round, measure};
use crate::scale::scale;

/// Rows have about so many bytes.
const TEXT_BYTES: usize = 400;
/// Partitions that writes and reads are spread over.
const PARTITIONS: u64 = 256;
const WRITERS: usize = 16;
const READERS: usize = 32;
pub(crate) const HOT_WRITERS: usize = 64;
const PAGE_ROWS: usize = 1000;
/// The small table of `directory`.
const FEW_PARTITIONS: usize = 1000;

const ROWS: TableId = TableId::new(1000);
pub(crate) const HOT: TableId = TableId::new(1001);
const PAGE: TableId = TableId::new(1002);
const FEW: TableId = TableId::new(1003);
const MANY: TableId = TableId::new(1004);

/// The targets of all workloads.
pub(crate) struct Field {
    driver: Arc<Yardstick>,
    /// Nodes, each with a session and queues of its own.
    pub(crate) stores: Vec<Arc<CassandraStore>>,
    fast: Arc<CassandraStore>,
    seconds: f64,
    pub(crate) rounds: usize,
}

pub(crate) async fn run(args: &Args) -> Result<(), String> {
    const ALL: [&str; 7] = ["spread", "strict", "fast", "hot", "page", "directory", "scale"];
    if let Some(unknown) = args.workloads.iter().find(|name| !ALL.contains(&name.as_str())) {
        return Err(format!("no workload {unknown}; there are {}", ALL.join(", ")));
    }
    let is_wanted = |name: &str| {
        args.workloads.is_empty() || args.workloads.iter().any(|wanted| wanted == name)
    };
    let field = open(args).await?;
    let mut all = Vec::new();
    for name in ALL.into_iter().filter(|name| is_wanted(name)) {
        let rounds = match name {
            "spread" => field.spread().await?,
            "strict" => field.reads(true).await?,
            "fast" => field.reads(false).await?,
            "hot" => field.hot().await?,
            "page" => field.page().await?,
            "directory" => field.directory(args.partitions).await?,
            _ => scale(&field).await?,
        };
        all.extend(rounds);
    }
    args.json.as_ref().map_or(Ok(()), |file| keep(file, &all))
}

async fn open(args: &Args) -> Result<Field, String> {
    let options = Options {
        contact_points: args.contact_points.clone(),
        keyspace: "bench".to_owned(),
        replication: args.replication,
        create: true,
        accepted_risks: Risk::ALL.to_vec(),
        ..Options::default()
    };
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(Arc::new(
            CassandraStore::open(options.clone()).await.map_err(|error| error.to_string())?,
        ));
    }
    let driver = Yardstick::open(&options).await.map_err(|error| error.to_string())?;
    let fast = Options { reads: Reads::Fast, ..options };
    let fast = CassandraStore::open(fast).await.map_err(|error| error.to_string())?;
    let field = Field {
        driver: Arc::new(driver),
        stores,
        fast: Arc::new(fast),
        seconds: args.seconds,
        rounds: args.rounds,
    };
    println!("Filling {PARTITIONS} partitions");
    for number in 0..PARTITIONS {
        upsert(&*field.stores[0], ROWS, &spread_key(number), "row").await?;
    }
    Ok(field)
}

impl Field {
    async fn spread(&self) -> Result<Vec<Round>, String> {
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            let driver = Arc::clone(&self.driver);
            let versions = Arc::new(AtomicU64::new(now().ticks()));
            rounds.push(
                measure(("spread", "driver"), self.seconds, WRITERS, move |task, number| {
                    let (driver, versions) = (Arc::clone(&driver), Arc::clone(&versions));
                    async move {
                        let version =
                            Timestamp::from_ticks(versions.fetch_add(1, Ordering::Relaxed));
                        let version = version.ok_or("no version")?;
                        let document = encode_value(&properties(), version);
                        driver
                            .write(ROWS, &own_key(task, number), "row", version, document)
                            .await
                            .map(|()| 1)
                    }
                })
                .await?,
            );
            rounds.push(self.spread_over(self.apart(1), "store", WRITERS).await?);
        }
        let goals = [Goal { target: "store", against: "driver", at_least: 0.8 }];
        print("Upserts spread over partitions, 16 writers", &rounds, &goals);
        Ok(rounds)
    }

    /// The first nodes, each for itself.
    pub(crate) fn apart(&self, nodes: usize) -> Vec<Arc<dyn Store>> {
        self.stores[..nodes].iter().map(|store| Arc::clone(store) as _).collect()
    }

    /// Writers, each with partitions of its own, so that no writer waits for another. The nodes
    /// take turns, as behind a load balancer that knows nothing.
    pub(crate) async fn spread_over(
        &self,
        stores: Vec<Arc<dyn Store>>,
        name: &str,
        writers: usize,
    ) -> Result<Round, String> {
        measure(("spread", name), self.seconds, writers, move |task, number| {
            let store = Arc::clone(&stores[(task + number as usize) % stores.len()]);
            async move { upsert(&*store, ROWS, &own_key(task, number), "row").await }
        })
        .await
    }

    async fn reads(&self, is_strict: bool) -> Result<Vec<Round>, String> {
        let workload = if is_strict { "strict" } else { "fast" };
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            let driver = Arc::clone(&self.driver);
            rounds.push(
                measure((workload, "driver"), self.seconds, READERS, move |_, number| {
                    let driver = Arc::clone(&driver);
                    async move {
                        let found = driver.get(ROWS, &spread_key(number), "row", is_strict).await?;
                        found.map(|_| 1).ok_or_else(|| "the row is not there".to_owned())
                    }
                })
                .await?,
            );
            let store = self.store(is_strict);
            rounds.push(
                measure((workload, "store"), self.seconds, READERS, move |_, number| {
                    let store = Arc::clone(&store);
                    async move { get(&*store, ROWS, &spread_key(number), "row").await }
                })
                .await?,
            );
        }
        let goals = [Goal { target: "store", against: "driver", at_least: 0.8 }];
        print(&format!("Point reads, {workload}, {READERS} readers"), &rounds, &goals);
        Ok(rounds)
    }

    async fn hot(&self) -> Result<Vec<Round>, String> {
        let key = partition("hot".to_owned());
        upsert(&*self.stores[0], HOT, &key, "first").await?;
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            let (driver, one) = (Arc::clone(&self.driver), key.clone());
            rounds.push(
                measure(("hot", "one after the other"), self.seconds, 1, move |_, _| {
                    let (driver, one) = (Arc::clone(&driver), one.clone());
                    async move {
                        let document = encode_value(&properties(), now());
                        driver.write(HOT, &one, "alone", now(), document).await.map(|()| 1)
                    }
                })
                .await?,
            );
            rounds.push(self.hot_through(self.apart(1), "store, 64 writers", &key).await?);
            // The driver's versions come from the clock and must not meet those of stores, which
            // may be ahead of it.
            tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        }
        let goals =
            [Goal { target: "store, 64 writers", against: "one after the other", at_least: 15.0 }];
        print("Upserts of one partition", &rounds, &goals);
        Ok(rounds)
    }

    pub(crate) async fn hot_through(
        &self,
        stores: Vec<Arc<dyn Store>>,
        name: &str,
        key: &PartitionKey,
    ) -> Result<Round, String> {
        let key = key.clone();
        measure(("hot", name), self.seconds, HOT_WRITERS, move |task, _| {
            let (store, key) = (Arc::clone(&stores[task % stores.len()]), key.clone());
            async move { upsert(&*store, HOT, &key, &format!("{task:02}")).await }
        })
        .await
    }

    async fn page(&self) -> Result<Vec<Round>, String> {
        let key = partition("page".to_owned());
        for group in 0..PAGE_ROWS.div_ceil(100) + 1 {
            let rows = (0..100).map(|row| format!("{:06}", group * 100 + row));
            let upserts =
                rows.map(|row| EntityOperation::Replace(entity(&key, &row), Precondition::None));
            let upserts = upserts.map(|operation| (key.clone(), operation)).collect();
            let group =
                EntityGroupTransaction::new(upserts).map_err(|failed| format!("{failed:?}"))?;
            commit(&*self.stores[0], PAGE, &group).await?;
        }
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            for (is_strict, by_driver, by_store) in
                [(true, "driver, strict", "store, strict"), (false, "driver, fast", "store, fast")]
            {
                let (driver, one) = (Arc::clone(&self.driver), key.clone());
                rounds.push(
                    measure(("page", by_driver), self.seconds, 1, move |_, _| {
                        let (driver, one) = (Arc::clone(&driver), one.clone());
                        async move {
                            let slice = driver.slice(PAGE, &one, PAGE_ROWS as i32, is_strict).await;
                            slice.map(|(rows, _)| rows as u64)
                        }
                    })
                    .await?,
                );
                let (store, one) = (self.store(is_strict), key.clone());
                rounds.push(
                    measure(("page", by_store), self.seconds, 1, move |_, _| {
                        let (store, one) = (Arc::clone(&store), one.clone());
                        async move { page(&*store, PAGE, KeyRange::partition(one)).await }
                    })
                    .await?,
                );
            }
        }
        let goals = [
            Goal { target: "store, strict", against: "driver, strict", at_least: 0.5 },
            Goal { target: "store, fast", against: "driver, fast", at_least: 0.5 },
            Goal { target: "store, strict", against: "store, fast", at_least: 0.5 },
        ];
        print(
            "Pages of 1,000 entities of one partition, one at a time, in entities",
            &rounds,
            &goals,
        );
        Ok(rounds)
    }

    fn store(&self, is_strict: bool) -> Arc<CassandraStore> {
        Arc::clone(if is_strict { &self.stores[0] } else { &self.fast })
    }

    async fn directory(&self, many: usize) -> Result<Vec<Round>, String> {
        for (table, count) in [(FEW, FEW_PARTITIONS), (MANY, many)] {
            println!("Filling {count} partitions with an entity each");
            self.fill(table, count).await?;
        }
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            // What the nodes themselves make of it: the same partitions, without a directory and an
            // order.
            for (table, name, count) in
                [(FEW, "few, driver", FEW_PARTITIONS), (MANY, "many, driver", many)]
            {
                let driver = Arc::clone(&self.driver);
                rounds.push(
                    measure(("directory", name), self.seconds, READERS, move |_, number| {
                        let driver = Arc::clone(&driver);
                        let key = many_key(
                            page_start(number / PAGE_ROWS as u64, count)
                                + number % PAGE_ROWS as u64,
                        );
                        async move {
                            driver.slice(table, &key, 2, false).await.map(|(rows, _)| rows as u64)
                        }
                    })
                    .await?,
                );
            }
            for (table, name, count, is_strict) in [
                (FEW, "few, strict", FEW_PARTITIONS, true),
                (MANY, "many, strict", many, true),
                (FEW, "few, fast", FEW_PARTITIONS, false),
                (MANY, "many, fast", many, false),
            ] {
                let store = self.store(is_strict);
                rounds.push(
                    measure(("directory", name), self.seconds, 1, move |_, number| {
                        let store = Arc::clone(&store);
                        let from = many_key(page_start(number, count));
                        let range = KeyRange { start: Cut::before_partition(from), end: Cut::End };
                        async move { page(&*store, table, range).await }
                    })
                    .await?,
                );
            }
        }
        let goals = [
            Goal { target: "many, strict", against: "few, strict", at_least: 0.8 },
            Goal { target: "many, fast", against: "few, fast", at_least: 0.8 },
            Goal { target: "many, driver", against: "few, driver", at_least: 0.8 },
        ];
        print(
            &format!("Pages of 1,000 over as many partitions, of 1,000 and {many}, in entities"),
            &rounds,
            &goals,
        );
        Ok(rounds)
    }

    async fn fill(&self, table: TableId, count: usize) -> Result<(), String> {
        let (next, count) = (Arc::new(AtomicU64::new(0)), count as u64);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..READERS {
            let (driver, next) = (Arc::clone(&self.driver), Arc::clone(&next));
            tasks.spawn(async move {
                let document = encode_value(&properties(), now());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<(), String>(());
                    }
                    driver.fill(table, &many_key(number), "row", now(), &document).await?;
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(|error| error.to_string())??;
        }
        Ok(())
    }
}

pub(crate) async fn upsert(
    store: &dyn Store,
    table: TableId,
    key: &PartitionKey,
    row: &str,
) -> Result<u64, String> {
    let operation = EntityOperation::Replace(entity(key, row), Precondition::None);
    commit(store, table, &EntityGroupTransaction::single(key.clone(), operation)).await
}

async fn commit(
    store: &dyn Store,
    table: TableId,
    transaction: &EntityGroupTransaction,
) -> Result<u64, String> {
    let result =
        store.commit(table, transaction, now()).await.map_err(|error| error.to_string())?;
    result.map(|_| 1).map_err(|failed| format!("{failed:?}"))
}

async fn get(
    store: &dyn Store,
    table: TableId,
    key: &PartitionKey,
    row: &str,
) -> Result<u64, String> {
    let key = EntityKey::new(key.clone(), row_key(row));
    let row = store
        .get(&EntityAddress { table, key }, Blocking::Forbidden)
        .await
        .map_err(|error| error.to_string())?;
    row.map(|_| 1).ok_or_else(|| "the row is not there".to_owned())
}

async fn page(store: &dyn Store, table: TableId, range: KeyRange) -> Result<u64, String> {
    let (rows_max, bytes_max, read_max) = (PAGE_ROWS, 4 << 20, PAGE_ROWS);
    let scan = Scan { rows_max, bytes_max, read_max, ..Scan::all(table, range) };
    let page = store.scan(&scan).await.map_err(|error| error.to_string())?;
    Ok(page.rows.len() as u64)
}

fn properties() -> Properties {
    let name = PropertyName::new("Text").expect("a legal name");
    Properties::new(vec![(name, EdmValue::String("x".repeat(TEXT_BYTES)))]).expect("small enough")
}

fn entity(key: &PartitionKey, row: &str) -> NewEntity {
    NewEntity::new(EntityKey::new(key.clone(), row_key(row)), properties()).expect("small enough").1
}

fn row_key(row: &str) -> RowKey {
    RowKey::new(row).expect("a legal key")
}

pub(crate) fn partition(key: String) -> PartitionKey {
    PartitionKey::new(key).expect("a legal key")
}

fn spread_key(number: u64) -> PartitionKey {
    partition(format!("p{:04}", number % PARTITIONS))
}

/// One of those that belong to a task.
fn own_key(task: usize, number: u64) -> PartitionKey {
    let tasks = HOT_WRITERS as u64;
    let own = PARTITIONS / tasks;
    spread_key(task as u64 % tasks * own + number % own)
}

/// Places all over the table, each with a whole page behind it; of the few there is one.
fn page_start(page: u64, count: usize) -> u64 {
    page.wrapping_mul(7919) % (count.saturating_sub(PAGE_ROWS) as u64 + 1)
}

fn many_key(number: u64) -> PartitionKey {
    partition(format!("m{number:07}"))
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(DateTime::from_unix(since))
}
