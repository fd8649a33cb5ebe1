//! Joins in the program: G72, the cache with a lifetime and a bound; G131, its requests.

use std::sync::Arc;
use std::time::Duration;

use tavola_client::patterns::JoinCache;
use tavola_client::testing::{Checked, Counted, Sim, counting, every_cut, race};
use tavola_client::{Entity, PointKey, TableClient, TableServiceClient};

use crate::common::{Fate, Faulty};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition = "dept", row = "{name}")]
struct Department {
    name: String,
    city: String,
}

const LIFETIME: Duration = Duration::from_secs(60);

fn of(name: &str) -> PointKey<Department> {
    Department::key().name(name)
}

async fn table(names: &[&str]) -> (Arc<Counted>, TableClient) {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("depts");
    table.create().await.unwrap();
    for name in names {
        let (name, city) = ((*name).to_owned(), "Rome".to_owned());
        table.insert(&Department { name, city }).await.unwrap();
    }
    let _ = counted.take();
    (counted, table)
}

/// G72, G131: one request for each key, also for one that has no entity; then none.
#[tokio::test]
async fn a_key_is_read_once() {
    let (counted, table) = table(&["a", "b"]).await;
    let cache = JoinCache::<Department>::new(&table, LIFETIME, 10);
    for _ in 0..3 {
        let found = cache.get_many(["a", "none", "b", "a"].map(of)).await.unwrap();
        let names: Vec<_> = found.iter().map(|one| one.as_ref().map(|one| &*one.name)).collect();
        assert_eq!(names, [Some("a"), None, Some("b"), Some("a")]);
    }
    assert_eq!((counted.take().len(), cache.requests(), cache.len()), (3, 3, 3));
    // What was written is read again if it is forgotten.
    table.modify(of("a"), |one: &mut Department| one.city = "Oslo".to_owned()).await.unwrap();
    assert_eq!(cache.get(of("a")).await.unwrap().unwrap().city, "Rome");
    cache.forget(of("a")).unwrap();
    assert_eq!(cache.clone().get(of("a")).await.unwrap().unwrap().city, "Oslo");
}

/// G72: what is older than the lifetime is read again.
#[tokio::test(start_paused = true)]
async fn entries_have_a_lifetime() {
    let (counted, table) = table(&["a"]).await;
    let cache = JoinCache::<Department>::new(&table, LIFETIME, 10);
    for (seconds, requests) in [(0, 1), (59, 0), (1, 1), (30, 0)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        cache.get(of("a")).await.unwrap();
        assert_eq!(counted.take().len(), requests, "after {seconds} s more");
    }
}

/// G72: the one that was not used for the longest time goes.
#[tokio::test]
async fn entries_have_a_bound() {
    let (counted, table) = table(&["a", "b", "c"]).await;
    let cache = JoinCache::<Department>::new(&table, LIFETIME, 2);
    for name in ["a", "b", "a", "c"] {
        cache.get(of(name)).await.unwrap();
    }
    assert_eq!((cache.len(), counted.take().len()), (2, 3));
    cache.get(of("a")).await.unwrap();
    assert_eq!(counted.take().len(), 0, "it was used after b");
    cache.get(of("b")).await.unwrap();
    assert_eq!(counted.take().len(), 1);
}

/// G72: however many ask for a key, one request is in flight; one whose reader goes away is taken
/// over by another.
#[tokio::test]
async fn one_request_is_in_flight() {
    let (counted, table) = table(&["a"]).await;
    let cache = JoinCache::<Department>::new(&table, LIFETIME, 2);
    let found = cache.get_many(std::iter::repeat_with(|| of("a")).take(50)).await.unwrap();
    assert!(found.iter().all(|one| one.as_ref().is_some_and(|one| one.name == "a")));
    assert_eq!(counted.take().len(), 1);

    let local = tavola_local::in_memory();
    let first = TableServiceClient::on(local.clone(), None).table_client("depts");
    first.create().await.unwrap();
    let hanging = Faulty::without_reads(local, &[Fate::Hangs]);
    let broken = TableServiceClient::on(hanging, None).table_client("depts");
    let cache = JoinCache::<Department>::new(&broken, LIFETIME, 2);
    let retry = tavola_client::Retry::none();
    let both = [cache.get(of("a")).retry(retry), cache.get(of("a")).retry(retry)];
    let [left, right] = both.map(IntoFuture::into_future);
    let (left, right) = tokio::join!(left, right);
    assert!(left.is_err() && right.is_err(), "a failure is told to each, and not kept");
    assert_eq!((cache.requests(), cache.len()), (2, 0));
}

/// G129, G130: a reader that is cut leaves nothing behind; two readers and a writer race.
#[tokio::test]
async fn cuts_and_races() {
    async fn seed(sim: Sim) -> Checked {
        let table = sim.table("depts");
        table.create().await?;
        table.insert(&Department { name: "a".to_owned(), city: "Rome".to_owned() }).await?;
        Ok(())
    }
    async fn read(sim: Sim) -> Checked {
        let cache = JoinCache::<Department>::new(&sim.table("depts"), LIFETIME, 2);
        let found = cache.get_many(["a", "a", "b", "a"].map(of)).await?;
        let city = |at: usize| found[at].as_ref().map(|one| one.city.clone());
        let is_same = city(0) == city(1) && city(1) == city(3) && found[2].is_none();
        if is_same && cache.requests() == 2 { Ok(()) } else { Err(format!("{found:?}").into()) }
    }
    async fn write(sim: Sim) -> Checked {
        let change = |one: &mut Department| one.city = "Oslo".to_owned();
        sim.table("depts").modify(of("a"), change).await?;
        Ok(())
    }
    let cuts = every_cut(tavola_local::in_memory, read).seed(seed).recover(read);
    assert_eq!(cuts.run().await.unwrap().requests, 2);
    let race = race(tavola_local::in_memory).seed(seed).writer(read).writer(read).writer(write);
    race.at_most(500, 50).run().await.unwrap();
}
