//! Many writes: parallel over partitions, ordered within one, resumable. G38, G169.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tavola_client::__store::Runtime;
use tavola_client::{
    BoxFuture, Checkpoint, DynEntity, Failure, Mode, Reply, Request, StoreTraits,
    TableServiceClient, TableStore,
};
use tavola_core::TableRequest;
use tavola_local::LocalStore;

use super::common::table;

/// A service that answers after a while, and notes which partitions it was busy with.
#[derive(Debug)]
struct Busy {
    inner: Arc<LocalStore>,
    state: Mutex<BusyState>,
}

#[derive(Debug, Default)]
struct BusyState {
    /// Transactions under way, by partition.
    under_way: HashMap<String, usize>,
    most: usize,
    overlaps: usize,
    /// After so many transactions it never answers again.
    hangs_after: Option<usize>,
    /// Transactions of these partitions fail.
    refuses: Vec<String>,
    done: usize,
}

impl Busy {
    fn new(inner: &Arc<LocalStore>) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), state: Mutex::default() })
    }
}

impl TableStore for Busy {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        let TableRequest::Transaction(_, group) = request.operation() else {
            return self.inner.execute(request);
        };
        let partition = group.partition_key().as_str().to_owned();
        Box::pin(async move {
            {
                let mut state = self.state.lock().unwrap();
                let count = state.under_way.entry(partition.clone()).or_default();
                *count += 1;
                state.overlaps += usize::from(*count > 1);
                let under_way = state.under_way.values().sum();
                state.most = state.most.max(under_way);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            let (hangs, refuses) = {
                let mut state = self.state.lock().unwrap();
                state.done += 1;
                let hangs = state.hangs_after.is_some_and(|after| state.done > after);
                (hangs, state.refuses.contains(&partition))
            };
            if hangs {
                return std::future::pending().await;
            }
            let reply = match refuses {
                true => Err(Failure::lost("connection reset")),
                false => self.inner.execute(request).await,
            };
            *self.state.lock().unwrap().under_way.get_mut(&partition).unwrap() -= 1;
            reply
        })
    }

    fn traits(&self) -> StoreTraits {
        self.inner.traits()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
}

fn of(partition: usize, row: usize, age: i32) -> DynEntity {
    let mut one = DynEntity::new(format!("p{partition}"), format!("{row:03}"));
    one.set("Age", age);
    one
}

/// G38, G169: bulk writes go to several partitions at a time, to one in the order of the input, and
/// never two transactions are under way in one.
#[tokio::test(start_paused = true)]
async fn bulk_is_parallel_over_partitions_and_ordered_within_one() {
    let (store, plain) = table().await;
    let busy = Busy::new(&store);
    let t = TableServiceClient::on(busy.clone(), None).table_client("people");
    // Five partitions, 150 rows each, and then each row again with a newer value.
    let input = || (0..2).flat_map(|age| (0..750).map(move |at| of(at % 5, at / 5, age)));
    let report = t.bulk().parallel(3).upsert_all(input(), Mode::Replace).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (1500, 0));
    assert_eq!(format!("{:?}", report.checkpoint), "[0..1500]");
    {
        let state = busy.state.lock().unwrap();
        assert_eq!((state.overlaps, state.most), (0, 3));
    }
    for partition in 0..5 {
        let row = plain.get::<DynEntity>((format!("p{partition}"), "149")).await.unwrap().unwrap();
        assert_eq!(row.get::<i32>("Age").unwrap(), 1, "the newer one came last");
    }
}

/// G38: a run that is dropped goes on from its checkpoint: what is finished is not sent again.
#[tokio::test(start_paused = true)]
async fn a_bulk_write_resumes_from_its_checkpoint() {
    let (store, plain) = table().await;
    let input = || (0..1000).map(|at| of(at % 5, at / 5, 1));
    let mut kept = String::new();
    for hangs_after in [2, 3, 2] {
        let busy = Busy::new(&store);
        busy.state.lock().unwrap().hangs_after = Some(hangs_after);
        let t = TableServiceClient::on(busy, None).table_client("people");
        let before: Checkpoint = serde_json::from_str(&kept).unwrap_or_default();
        let bulk = t.bulk().parallel(2).resume(before).watch(|report| {
            kept = serde_json::to_string(&report.checkpoint).unwrap();
        });
        let call = bulk.upsert_all(input(), Mode::Replace).into_future();
        assert!(tokio::time::timeout(Duration::from_secs(5), call).await.is_err(), "it hangs");
    }
    let checkpoint: Checkpoint = serde_json::from_str(&kept).unwrap();
    assert_eq!(checkpoint.len(), 700, "{kept}");
    assert!(checkpoint.contains(0) && !checkpoint.contains(999));
    let report = plain.bulk().resume(checkpoint).upsert_all(input(), Mode::Replace).await.unwrap();
    assert_eq!((report.written, report.requests, report.checkpoint.len()), (300, 3, 1000));
    let again = plain.bulk().resume(report.checkpoint).upsert_all(input(), Mode::Replace).await;
    assert_eq!(again.unwrap().requests, 0);
}

/// G38, G169: a newer write of an entity does not overtake one that failed, so that a run that
/// resumes does not end with the older value.
#[tokio::test(start_paused = true)]
async fn a_newer_write_does_not_overtake_one_that_failed() {
    let (store, plain) = table().await;
    let busy = Busy::new(&store);
    busy.state.lock().unwrap().refuses = vec!["p1".to_owned()];
    let t = TableServiceClient::on(busy.clone(), None).table_client("people");
    let input = || [of(0, 1, 1), of(1, 1, 1), of(1, 2, 1), of(1, 1, 2), of(0, 1, 2)];
    let report = t.bulk().upsert_all(input(), Mode::Replace).await.unwrap();
    assert_eq!(report.written, 2);
    assert_eq!(
        report.failed.iter().map(|one| one.inputs.as_slice()).collect::<Vec<_>>(),
        [[1, 2].as_slice(), &[3]]
    );
    assert!(report.failed[1].error.to_string().contains("overtake"));
    let report = plain.bulk().resume(report.checkpoint).upsert_all(input(), Mode::Replace).await;
    assert_eq!(report.unwrap().written, 3);
    let row = plain.get::<DynEntity>(("p1", "001")).await.unwrap().unwrap();
    assert_eq!(row.get::<i32>("Age").unwrap(), 2);
}

/// A stream is written as it comes, not only at its end.
#[tokio::test(start_paused = true)]
async fn a_stream_is_written_as_it_comes() {
    let (_, t) = table().await;
    let slow = futures_util::stream::unfold(0, |number| {
        let t = t.clone();
        async move {
            if number > 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let before =
                    t.get::<DynEntity>(("p0", format!("{:03}", number - 1))).await.unwrap();
                assert!(before.is_some(), "{number}");
            }
            (number < 3).then(|| (of(0, number, 1), number + 1))
        }
    });
    let report = t.bulk().upsert_stream(slow, Mode::Merge).await.unwrap();
    assert_eq!((report.written, report.requests), (3, 3));
    let ready = futures_util::stream::iter((0..250).map(|row| of(0, row, 2)));
    let report = t.bulk().upsert_stream(ready, Mode::Merge).await.unwrap();
    assert_eq!((report.written, report.requests), (250, 3));
}
