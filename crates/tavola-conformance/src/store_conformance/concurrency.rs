//! Many at once.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tavola_core::{DomainError, KeyRange, Precondition};
use tokio::task::JoinSet;

use super::fixture::{
    Subject, TABLE, group, insert, now, number, number_of, partition, replace, version,
};

const TASKS: usize = 8;
const ROUNDS: usize = 25;

/// Runs `work` in several tasks and waits for all; a panic in one is a panic here.
async fn at_once<F: Future<Output = ()> + Send + 'static>(
    store: &Subject,
    work: impl Fn(Subject, usize) -> F,
) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(work(store.clone(), task));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no task panics");
    }
}

/// Adds one, again and again until no other writer was faster.
async fn increment(store: &Subject, row_key: &str) {
    loop {
        let row = store.row("p", row_key).await.expect("the counter exists");
        let next = number(number_of(&row) + 1);
        let wanted = version(tavola_core::EntityView::timestamp(&row));
        match store.commit("p", vec![replace(row_key, next, wanted)]).await {
            Ok(_) => return,
            Err(failed) => assert_eq!(failed.domain_error, DomainError::ConditionNotMet),
        }
    }
}

pub async fn no_increment_is_lost(store: Subject) {
    store.put("p", "counter", number(0)).await;
    at_once(&store, |store, _| async move {
        for _ in 0..ROUNDS {
            increment(&store, "counter").await;
        }
    })
    .await;
    assert_eq!(store.number("p", "counter").await, Some((TASKS * ROUNDS) as i32));
}

pub async fn one_of_many_inserts_wins(store: Subject) {
    at_once(&store, |store, task| async move {
        for round in 0..ROUNDS {
            let result =
                store.commit("p", vec![insert(&format!("{round}"), number(task as i32))]).await;
            if result.is_ok() {
                // The writer that wins finds its own row, and writes what no other writer can.
                assert_eq!(store.number("p", &format!("{round}")).await, Some(task as i32));
                store
                    .commit("winners", vec![insert(&format!("{round}"), number(1))])
                    .await
                    .expect("there is one winner");
            }
        }
    })
    .await;
    assert_eq!(store.rows(TABLE, KeyRange::partition(partition("winners"))).await.len(), ROUNDS);
}

pub async fn a_page_sees_transactions_whole(store: Subject) {
    let write_all = |value: i32| {
        (0..20)
            .map(|row| replace(&format!("{row:02}"), number(value), Precondition::None))
            .collect::<Vec<_>>()
    };
    store.commit("p", write_all(0)).await.expect("nothing is refused");
    at_once(&store, move |store, task| async move {
        for round in 0..ROUNDS {
            if task % 2 == 0 {
                store
                    .commit("p", write_all((task * ROUNDS + round) as i32))
                    .await
                    .expect("nothing is refused");
                continue;
            }
            let rows = store.rows(TABLE, KeyRange::partition(partition("p"))).await;
            assert_eq!(rows.len(), 20);
            assert!(
                rows.iter().all(|row| number_of(row) == number_of(&rows[0])),
                "a page shows one transaction"
            );
        }
    })
    .await;
}

pub async fn point_reads_see_transactions_whole(store: Subject) {
    let both = |value: i32| {
        vec![
            replace("a", number(value), Precondition::None),
            replace("b", number(value), Precondition::None),
        ]
    };
    store.commit("p", both(0)).await.expect("nothing is refused");
    at_once(&store, move |store, task| async move {
        for round in 1..=ROUNDS {
            if task == 0 {
                store.commit("p", both(round as i32)).await.expect("nothing is refused");
                continue;
            }
            // The first read may be older than the second, never newer.
            let first = store.number("p", "a").await;
            assert!(store.number("p", "b").await >= first);
        }
    })
    .await;
}

pub async fn versions_of_a_partition_are_all_different(store: Subject) {
    at_once(&store, |store, task| async move {
        for round in 0..ROUNDS {
            store.put("p", &format!("{task} {round}"), number(1)).await;
        }
    })
    .await;
    let rows = store.rows(TABLE, KeyRange::ALL).await;
    let mut versions: Vec<_> = rows.iter().map(tavola_core::EntityView::timestamp).collect();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), TASKS * ROUNDS);
}

/// A client that hangs up drops the future of its commit at any point.
pub async fn a_dropped_commit_is_whole_or_absent(store: Subject) {
    for round in 0..ROUNDS {
        let partition_key = format!("{round}");
        let transaction =
            group(&partition_key, vec![insert("a", number(1)), insert("b", number(1))]);
        {
            let mut commit = pin!(store.0.commit(TABLE, &transaction, now()));
            let polled = commit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending | Poll::Ready(Ok(_))));
        }
        // Whatever was left behind is queued before this one.
        store.put(&partition_key, "c", number(1)).await;
        let rows = store.rows(TABLE, KeyRange::partition(partition(&partition_key))).await.len();
        assert!(rows == 1 || rows == 3, "{rows} rows");
    }
}
