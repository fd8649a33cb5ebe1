//! Work that belongs to a change: G143 poison, G144 workers in parallel, G146 the sweeper, G171 workers
//! that own shards; and what every pattern must show: G129 cuts, G130 races, G131 costs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tavola_client::patterns::{Notifier, Outbox, Progress, Step, Work, Worker, step};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    BoxFuture, DynEntity, IfMatch, Mode, Outcome, TableClient, TableServiceClient,
};

/// Announces an order in another table.
fn announce(news: TableClient) -> impl Step {
    step("announce", move |work: Work| {
        let news = news.clone();
        async move {
            let row = DynEntity::new("announced", work.job::<String>()?);
            news.upsert(&row, Mode::Replace).await?;
            Ok(Progress::Done)
        }
    })
}

fn failing() -> impl Step {
    step("announce", |_| async { Err("no paper".into()) })
}

fn outbox(sim: &Sim) -> Outbox {
    Outbox::new(&sim.table("orders"))
}

fn worker(sim: &Sim) -> Worker {
    outbox(sim).worker().step(announce(sim.table("news")))
}

async fn seed(sim: Sim) -> Checked {
    sim.table("orders").create().await?;
    sim.table("news").create().await?;
    Ok(())
}

async fn order(outbox: &Outbox, partition: &str, id: &str) -> Result<(), tavola_client::Error> {
    let mut order = outbox.table().transaction(partition);
    order.insert(&DynEntity::new(partition, id))?;
    outbox.add(&mut order, "announce", id)?;
    order.commit().await?;
    Ok(())
}

async fn seed_order(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    order(&outbox(&sim), "Sales", "1").await?;
    Ok(())
}

async fn is_ordered(sim: &Sim, id: &str) -> Result<bool, tavola_client::Error> {
    Ok(sim.table("orders").get::<DynEntity>(("Sales", id)).await?.is_some())
}

async fn is_announced(sim: &Sim, id: &str) -> Result<bool, tavola_client::Error> {
    Ok(sim.table("news").get::<DynEntity>(("announced", id)).await?.is_some())
}

/// What holds always: an order has its work, done or waiting or parked; no other order is announced.
async fn nothing_is_lost(sim: Sim) -> Checked {
    let status = outbox(&sim).status().await?;
    for id in ["1", "2"] {
        let (ordered, announced) = (is_ordered(&sim, id).await?, is_announced(&sim, id).await?);
        if ordered && !announced && status.waiting + status.poisoned == 0 {
            return Err(format!("the work of order {id} is lost").into());
        }
        if announced && !ordered {
            return Err(format!("order {id} was announced and is not there").into());
        }
    }
    Ok(())
}

async fn all_is_done(sim: Sim) -> Checked {
    for id in ["1", "2"] {
        if is_ordered(&sim, id).await? != is_announced(&sim, id).await? {
            return Err(format!("order {id} and its news differ").into());
        }
    }
    match outbox(&sim).status().await? {
        status if status.waiting + status.poisoned == 0 => Ok(()),
        status => Err(format!("{status:?}").into()),
    }
}

async fn drain(sim: Sim) -> Checked {
    worker(&sim).drain().await?;
    Ok(())
}

/// The gap: two writes one after the other, in either order, are not one.
#[tokio::test]
async fn without_an_outbox_work_is_lost_or_made_up() {
    let after = |sim: Sim| async move {
        sim.table("orders").insert(&DynEntity::new("Sales", "1")).await?;
        sim.table("news").insert(&DynEntity::new("announced", "1")).await?;
        Ok(())
    };
    let before = |sim: Sim| async move {
        sim.table("news").insert(&DynEntity::new("announced", "1")).await?;
        sim.table("orders").insert(&DynEntity::new("Sales", "1")).await?;
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, after).seed(seed).recover(drain);
    let broken = cuts.finally(nothing_is_lost).run().await.unwrap_err();
    assert_eq!(broken.reason(), "the work of order 1 is lost");
    let cuts = every_cut(tavola_local::in_memory, before).seed(seed).recover(drain);
    let broken = cuts.finally(nothing_is_lost).run().await.unwrap_err();
    assert_eq!(broken.reason(), "order 1 was announced and is not there");
}

/// G129: each request of the writer, and of the worker that comes after it, cut in each way.
#[tokio::test]
async fn every_cut_of_the_writer_keeps_change_and_work_together() {
    let scenario = |sim: Sim| async move {
        let outbox = outbox(&sim);
        order(&outbox, "Sales", "1").await?;
        order(&outbox, "Sales", "2").await?;
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).recover(drain).depth(2);
    let report = cuts.always(nothing_is_lost).finally(drained).run().await.unwrap();
    assert_eq!(report.requests, 1 + 2, "one hint for both");
}

/// The uncut run has no recovery.
async fn drained(sim: Sim) -> Checked {
    drain(sim.clone()).await?;
    all_is_done(sim).await
}

/// G129: a worker that is cut anywhere, and the next one that is cut as well.
#[tokio::test]
async fn every_cut_of_the_worker_is_made_good() {
    let cuts = every_cut(tavola_local::in_memory, drain).seed(seed_order).recover(drain).depth(2);
    let report = cuts.always(nothing_is_lost).finally(drained).run().await.unwrap();
    // Not due by this clock, then: hints, rows, claim, step, delete; and nothing is left.
    assert_eq!(report.requests, 2 + (2 + 3) + 2);
}

/// G130, G144: writers and workers at the same time, with double delivery: a worker whose clock runs
/// ahead takes what another one has.
#[tokio::test]
async fn writers_and_workers_race() {
    let writer = |id: &'static str| {
        move |sim: Sim| async move {
            order(&outbox(&sim), "Sales", id).await?;
            Ok(())
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(writer("1")).writer(writer("2"));
    let race = race.writer(drain).writer(drain).at_most(300, 150);
    race.always(nothing_is_lost).finally(drained).run().await.unwrap();
}

/// G130: a worker that is stalled in its step, and another that does the work meanwhile.
#[tokio::test]
async fn a_stalled_worker_does_no_harm() {
    let race = race(tavola_local::in_memory).seed(seed_order).writer(drain).writer(drain);
    race.at_most(400, 100).always(nothing_is_lost).finally(all_is_done).run().await.unwrap();
}

/// G143: parked after n attempts, never run an (n+1)th time, and replayed.
#[tokio::test]
async fn poison_is_parked_and_replayed() {
    let scenario = |sim: Sim| async move {
        let runs = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&runs);
        let failing = step("announce", move |work: Work| {
            assert_eq!(work.attempts(), seen.fetch_add(1, Ordering::Relaxed) + 1);
            async { Err("no paper".into()) }
        });
        let outbox = outbox(&sim);
        let report = outbox.worker().step(failing).poison_after(3).drain().await?;
        assert_eq!((report.failed, report.poisoned, report.attempts_max), (3, 1, 3));
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        let status = outbox.status().await?;
        assert_eq!((status.waiting, status.poisoned), (0, 1));
        let [parked] = &outbox.poisoned().await?[..] else { return Err("not one".into()) };
        assert_eq!((parked.step.as_str(), parked.job.as_str()), ("announce", "\"1\""));
        assert_eq!((parked.attempts, parked.error.as_deref()), (3, Some("no paper")));
        assert_eq!(parked.id.partition(), "Sales");

        let report = worker(&sim).drain().await?;
        assert_eq!((report.done, is_announced(&sim, "1").await?), (0, false));
        outbox.replay(parked).await?;
        let report = worker(&sim).drain().await?;
        assert_eq!((report.done, report.attempts_max), (1, 1));
        Ok(())
    };
    let alone = race(tavola_local::in_memory).seed(seed_order).writer(scenario);
    alone.finally(all_is_done).run().await.unwrap();
}

async fn drain_failing(sim: Sim) -> Checked {
    outbox(&sim).worker().step(failing()).poison_after(1).drain().await?;
    Ok(())
}

async fn replay_all(sim: Sim) -> Checked {
    let outbox = outbox(&sim);
    for parked in outbox.poisoned().await? {
        outbox.replay(&parked).await?;
    }
    Ok(())
}

/// G143, G129: parking and replaying are cut anywhere, and the work is there all the time.
#[tokio::test]
async fn every_cut_of_parking_and_replaying_keeps_the_work() {
    let parked = |sim: Sim| async move {
        drain_failing(sim.clone()).await?;
        match outbox(&sim).status().await? {
            status if (status.waiting, status.poisoned) == (0, 1) => Ok(()),
            status => Err(format!("{status:?}").into()),
        }
    };
    let cuts = every_cut(tavola_local::in_memory, drain_failing).seed(seed_order);
    let cuts = cuts.recover(drain_failing).depth(2);
    cuts.always(nothing_is_lost).finally(parked).run().await.unwrap();

    let seed_parked = |sim: Sim| async move {
        seed_order(sim.clone()).await?;
        drain_failing(sim).await
    };
    let cuts = every_cut(tavola_local::in_memory, replay_all).seed(seed_parked);
    let cuts = cuts.recover(replay_all).depth(2);
    cuts.always(nothing_is_lost).finally(drained).run().await.unwrap();
}

/// G143, G130: one parks, another replays, a third does the work.
#[tokio::test]
async fn parking_replaying_and_working_race() {
    let race = race(tavola_local::in_memory).seed(seed_order).writer(drain_failing);
    let race = race.writer(replay_all).writer(drain).at_most(300, 150);
    let finally = |sim: Sim| async move {
        replay_all(sim.clone()).await?;
        drained(sim).await
    };
    race.always(nothing_is_lost).finally(finally).run().await.unwrap();
}

async fn tables() -> (TableClient, TableClient) {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let (orders, news) = (service.table_client("orders"), service.table_client("news"));
    orders.create().await.unwrap();
    news.create().await.unwrap();
    (orders, news)
}

/// G143: work that kills its worker is parked too; the last worker could not say why.
#[tokio::test]
async fn work_that_kills_workers_is_parked() {
    let (orders, _) = tables().await;
    let outbox = Outbox::new(&orders);
    order(&outbox, "Sales", "1").await.unwrap();
    let (lease, runs) = (Duration::from_millis(500), Arc::new(AtomicU32::new(0)));
    let seen = Arc::clone(&runs);
    let deadly = step("announce", move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        std::future::pending()
    });
    let worker = outbox.worker().step(deadly).lease(lease).poison_after(2);
    for _ in 0..2 {
        tokio::time::timeout(lease, worker.run_once()).await.unwrap_err();
        let held = worker.run_once().await.unwrap();
        assert_eq!((held.waiting, held.contended), (1, 0), "the work was kept while the step ran");
        tokio::time::sleep(lease * 2).await;
    }
    assert_eq!(worker.run_once().await.unwrap().poisoned, 1);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(outbox.poisoned().await.unwrap()[0].error, None);
}

/// G146: old hints without work go; without their hints orders are found by a search.
#[tokio::test]
async fn the_sweeper_deletes_old_hints_and_restores_lost_ones() {
    let (orders, news) = tables().await;
    let outbox = Outbox::new(&orders);
    order(&outbox, "Sales", "1").await.unwrap();
    let grace = Duration::from_secs(300);
    let swept = outbox.sweep(grace).await.unwrap();
    assert_eq!((swept.hints, swept.deleted, swept.overdue), (1, 0, 0));

    // A hint of long ago, where there is work, and one where there is none.
    let shard = all_hints(&orders).await[0].partition().to_owned();
    for partition in ["Sales", "Support"] {
        let hint = DynEntity::new(shard.clone(), format!("201408220050!{partition}"));
        orders.insert(&hint).await.unwrap();
    }
    let swept = outbox.sweep(grace).await.unwrap();
    assert_eq!((swept.hints, swept.deleted), (3, 1));
    assert_eq!(outbox.sweep(Duration::ZERO).await.unwrap().overdue, 1);

    for hint in all_hints(&orders).await {
        orders.delete_at::<DynEntity>(hint.key(), IfMatch::Any).await.unwrap();
    }
    let worker = outbox.worker().step(announce(news.clone()));
    assert_eq!(worker.drain().await.unwrap().done, 0, "nobody knows of the work");
    let restored = outbox.restore_hints().await.unwrap();
    assert_eq!((restored.hints, restored.restored), (0, 1));
    assert_eq!(outbox.restore_hints().await.unwrap().restored, 0);
    assert_eq!(worker.drain().await.unwrap().done, 1);

    // A worker deletes hints as well: their minute and the grace are over.
    let hint = DynEntity::new(shard, "201408220050!Sales");
    orders.insert(&hint).await.unwrap();
    assert_eq!(worker.run_once().await.unwrap().swept, 1);
    assert_eq!(all_hints(&orders).await.len(), 1, "the one of this minute is kept");
}

async fn all_hints(orders: &TableClient) -> Vec<tavola_client::Stored<DynEntity>> {
    use futures_util::TryStreamExt as _;
    use tavola_client::prop;
    let all = prop("PartitionKey").ge("!hint!").and(prop("PartitionKey").lt("!hint\""));
    orders.filter::<DynEntity>(all).stream().try_collect().await.unwrap()
}

/// G171, G144: two workers own disjoint shards, and together do all of it.
#[tokio::test]
async fn workers_own_shards() {
    let (orders, news) = tables().await;
    let outbox = Outbox::new(&orders).shards(8);
    for id in 0..40 {
        order(&outbox, &format!("dept{id}"), &format!("{id}")).await.unwrap();
    }
    let worker = || outbox.worker().step(announce(news.clone())).parallel(8);
    let (even, odd) = (worker().shards([0, 2, 4, 6]), worker().shards([1, 3, 5, 7]));
    let (even, odd) = tokio::join!(even.drain(), odd.drain());
    let (even, odd) = (even.unwrap(), odd.unwrap());
    assert_eq!((even.done + odd.done, even.contended + odd.contended), (40, 0));
    assert!(even.done >= 8 && odd.done >= 8, "{even:?} {odd:?}");
}

/// G131: requests of a write and of a worker.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let service = TableServiceClient::on(counted.clone(), None);
    let (orders, news) = (service.table_client("orders"), service.table_client("news"));
    orders.create().await.unwrap();
    news.create().await.unwrap();
    let outbox = Outbox::new(&orders);
    let _ = counted.take();
    order(&outbox, "Sales", "1").await.unwrap();
    assert_eq!(counted.take().len(), 2, "hint and transaction");
    // Unless the minute just ended, the second needs no hint.
    let before = all_hints(&orders).await.len();
    let _ = counted.take();
    order(&outbox, "Sales", "2").await.unwrap();
    let cost = counted.take().len();
    assert_eq!(cost, all_hints(&orders).await.len() - before + 1);
    let worker = outbox.worker().step(announce(news.clone()));
    let _ = counted.take();
    assert_eq!(worker.run_once().await.unwrap().done, 2);
    assert_eq!(counted.take().len(), 2 + 2 * 3, "hints, rows, and of each: claim, step, delete");
    assert_eq!(worker.run_once().await.unwrap().waiting, 0);
    assert_eq!(counted.take().len(), 2);
    let status = outbox.status().await.unwrap();
    assert_eq!((status.waiting, status.oldest, status.lag), (0, None, Duration::ZERO));
    assert_eq!(counted.take().len(), 3);
}

/// Lag and attempts can be read while work waits.
#[tokio::test]
async fn lag_and_attempts_are_seen() {
    let scenario = |sim: Sim| async move {
        let outbox = outbox(&sim);
        order(&outbox, "Sales", "1").await?;
        let worker = outbox.worker().step(failing());
        let report = worker.run_once().await?;
        assert_eq!((report.failed, report.waiting, report.attempts_max), (1, 1, 1));
        let report = worker.run_once().await?;
        assert_eq!((report.failed, report.waiting), (0, 1), "it is not due");
        let status = outbox.status().await?;
        assert_eq!((status.waiting, status.attempts_max), (1, 1));
        // Nine more attempts with pauses of 0.5 to 256 seconds.
        let report = worker.drain().await?;
        assert_eq!((report.failed, report.poisoned), (9, 1));
        assert!(report.lag > Duration::from_secs(200), "{report:?}");
        Ok(())
    };
    race(tavola_local::in_memory).seed(seed).writer(scenario).run().await.unwrap();
}

/// A notifier in the process.
#[derive(Debug, Default)]
struct Bell {
    partitions: Mutex<Vec<String>>,
    rung: tokio::sync::Notify,
}

impl Notifier for Bell {
    fn notify<'a>(&'a self, table: &'a str, partition: &'a str) -> BoxFuture<'a, ()> {
        assert_eq!(table, "orders");
        self.partitions.lock().unwrap().push(partition.to_owned());
        self.rung.notify_one();
        Box::pin(std::future::ready(()))
    }

    fn next<'a>(&'a self, _table: &'a str) -> BoxFuture<'a, String> {
        Box::pin(async move {
            loop {
                if let Some(partition) = self.partitions.lock().unwrap().pop() {
                    return partition;
                }
                self.rung.notified().await;
            }
        })
    }
}

/// A notifier wakes a worker that would look in an hour; a stopped worker ends.
#[tokio::test]
async fn a_notifier_wakes_a_worker() {
    let (orders, news) = tables().await;
    let outbox = Outbox::new(&orders).notifier(Arc::new(Bell::default()));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let announced = news.clone();
    let worker = outbox.worker().step(announce(news)).poll_every(Duration::from_secs(3600));
    let run = worker.run_until(async move { drop(stopped.await) });
    let write = async {
        tokio::task::yield_now().await;
        order(&outbox, "Sales", "1").await.unwrap();
        while announced.get::<DynEntity>(("announced", "1")).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        stop.send(()).unwrap();
    };
    let both = async { tokio::join!(run, write) };
    let (report, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    assert_eq!((report.done, report.failed), (1, 0));
}

/// Work of other steps is left alone, and refusals come before anything is sent.
#[tokio::test]
async fn other_refusals() {
    let (orders, news) = tables().await;
    let outbox = Outbox::new(&orders);
    order(&outbox, "Sales", "1").await.unwrap();
    let other = outbox.worker().step(step("archive", |_| async { Ok(Progress::Done) }));
    let report = other.drain().await.unwrap();
    assert_eq!((report.done, other.run_once().await.unwrap().foreign), (0, 1));

    let mut elsewhere = news.transaction("Sales");
    let error = outbox.add(&mut elsewhere, "announce", "1").unwrap_err();
    assert!(error.to_string().contains("the outbox of `orders`"), "{error}");
    let mut long = orders.transaction("x".repeat(500));
    let error = outbox.add(&mut long, "announce", "1").unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert!(error.to_string().contains("at most 499"), "{error}");
    let skipped = step("announce", |_| async { Ok(Progress::Skipped("gone".to_owned())) });
    let report = outbox.worker().step(skipped).drain().await.unwrap();
    assert_eq!((report.done, report.skipped), (0, 1));
}
