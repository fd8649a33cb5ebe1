//! Nodes that come, go, and are not what they say.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{PLACES, Place, SECRET, TABLE, open, until, upsert, write};
use tavola_core::Timestamp;
use tavola_peers::{Affinity, ForwardingStore};
use tavola_store::{Peer, Store as _, StoreError};
use tokio::net::TcpListener;

/// Enough of them that each of two nodes is preferred for some.
const PARTITIONS: usize = 64;

#[tokio::test]
async fn both_agree_who_writes_a_partition() {
    let (one, other) = Place::default().two().await;
    for partition in 0..PARTITIONS {
        let before = (one.stats(), other.stats());
        write(&one, partition).await.unwrap().unwrap();
        write(&other, partition).await.unwrap().unwrap();
        let sent = (one.stats().sent - before.0.sent, other.stats().sent - before.1.sent);
        assert!(matches!(sent, (1, 0) | (0, 1)), "partition {partition} was sent {sent:?}");
    }
    let (one, other) = (one.stats(), other.stats());
    assert_eq!((one.received, other.received), (other.sent, one.sent));
    assert!(one.sent > 0 && other.sent > 0, "{one:?} {other:?}");
    assert_eq!(one.unanswered + one.declined + other.unanswered + other.declined, 0);
}

#[tokio::test]
async fn writes_without_conflict_stay() {
    let place = Place::default();
    let view = place.view(SECRET);
    let one = open(view.clone(), Affinity::Contended).await;
    let other = place.node().await;
    until(|| one.stats().present == 1).await;
    view.is_contended.store(false, Ordering::Relaxed);
    for partition in 0..PARTITIONS {
        write(&one, partition).await.unwrap().unwrap();
    }
    assert_eq!(one.stats().sent, 0);
    view.is_contended.store(true, Ordering::Relaxed);
    for partition in 0..PARTITIONS {
        write(&one, partition).await.unwrap().unwrap();
    }
    assert_eq!(one.stats().sent, other.stats().received);
    assert!(one.stats().sent > 0);
}

#[tokio::test]
async fn a_node_that_left_is_forwarded_nothing_more() {
    let (one, other) = Place::default().two().await;
    other.close().await;
    until(|| one.stats().present == 0).await;
    for partition in 0..PARTITIONS {
        write(&one, partition).await.unwrap().unwrap();
    }
    assert_eq!(one.stats().sent, 0);
}

#[tokio::test]
async fn a_node_that_vanished_is_done_without() {
    let place = Place::default();
    let (one, other) = place.two().await;
    // As if killed: still on the list, and nothing listens at its address.
    drop(other);
    until(|| one.stats().present == 0).await;
    for partition in 0..PARTITIONS {
        write(&one, partition).await.unwrap().unwrap();
    }
    assert_eq!(place.list.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_node_without_the_secret_is_left_out() {
    let place = Place::default();
    let one = place.node().await;
    let stranger = open(place.view(b"another store's"), Affinity::Always).await;
    let friend = place.node().await;
    // The friend came last: by the time it was connected, the stranger was tried.
    until(|| one.stats().present >= 1 && friend.stats().present >= 1).await;
    for partition in 0..PARTITIONS {
        write(&one, partition).await.unwrap().unwrap();
        write(&stranger, partition).await.unwrap().unwrap();
    }
    assert_eq!((one.stats().present, stranger.stats().present), (1, 0));
    assert_eq!((stranger.stats().sent, stranger.stats().received), (0, 0));
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_left_out() {
    let place = Place::default();
    // A stopped process: its system takes connections, and it says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    place.list.lock().unwrap().push(Peer { id: [9; 16], address });
    let one = place.node().await;
    let other = place.node().await;
    until(|| one.stats().present == 1 && other.stats().present == 1).await;
    for partition in 0..PARTITIONS {
        write(&one, partition).await.unwrap().unwrap();
    }
    assert_eq!(one.stats().unanswered, 0);
}

/// What a node answers for another is the store's answer, and where nothing was done the sender
/// does it itself.
#[tokio::test]
async fn trouble_of_the_other_is_told() {
    let place = Place::default();
    let view = place.view(SECRET);
    let troubled = open(view.clone(), Affinity::Always).await;
    let one = place.node().await;
    until(|| one.stats().present == 1).await;
    type Failure = fn() -> StoreError;
    let failures: [(Failure, &str); 5] = [
        (|| StoreError::Contended, "Err(Contended)"),
        (|| StoreError::UnknownOutcome, "Err(UnknownOutcome)"),
        (|| StoreError::Corrupt("bits".into()), "Err(Corrupt(\"bits\"))"),
        (|| StoreError::Full { reason: "full".into() }, "Err(Full { reason: \"full\" })"),
        (|| StoreError::Unavailable { reason: "away".into(), source: None }, "Ok(Ok"),
    ];
    let received = || troubled.stats().received;
    // One that the troubled node is preferred for.
    let mut partition = 0;
    while received() == 0 {
        partition += 1;
        write(&one, partition).await.unwrap().unwrap();
    }
    for (failure, expected) in failures {
        *view.failure.lock().unwrap() = Some(failure);
        let before = received();
        let answer = format!("{:?}", write(&one, partition).await);
        assert!(answer.starts_with(expected), "{answer}, not {expected}");
        assert_eq!(received(), before + 1);
    }
    assert_eq!((one.stats().unanswered, one.stats().declined), (1, 1));
}

/// One account of another node brings more writes than this one can carry out, and they do not end.
/// Another account's go on as if nothing were.
#[tokio::test]
async fn an_account_that_forwards_too_much_waits_behind_itself() {
    const FLOOD: usize = 4 * PLACES as usize;
    let place = Place::default();
    let view = place.view(SECRET);
    let other = open(view.clone(), Affinity::Always).await;
    let one = Arc::new(place.node().await);
    until(|| one.stats().present == 1).await;
    let preferred = partitions_of(&one, &other).await;
    let (hostile, polite) = (preferred[0], preferred[1]);
    view.stuck.0.lock().unwrap().push(upsert(hostile).partition_key().clone());
    let shared = Arc::clone(&one);
    let write_for = move |tenant: &'static str, partition: usize| {
        let one = Arc::clone(&shared);
        async move { one.commit_for(tenant, TABLE, &upsert(partition), Timestamp::MIN).await }
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let flood = (0..FLOOD).map(|_| {
        let (is_over, write_for) = (Arc::clone(&is_over), write_for.clone());
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                write_for("hostile", hostile).await.unwrap().unwrap();
            }
        })
    });
    let flood: Vec<_> = flood.collect();
    let refused = |tenant: &str| {
        let tenants = other.tenants();
        tenants.iter().find(|(name, _)| name == tenant).map_or(0, |(_, stats)| stats.refused)
    };
    until(|| refused("hostile") > 0).await;
    let used: u64 = other.tenants().iter().map(|(_, stats)| stats.used).sum();
    assert!((PLACES / 2..=PLACES).contains(&used), "{used} places of {PLACES} are taken");
    let before = one.stats();
    // One that comes too late on a busy machine is done by its own node; the others go where they
    // always do.
    let begun = Instant::now();
    while one.stats().sent < before.sent + 100 {
        write_for("polite", polite).await.unwrap().unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "they are not carried out by the other node any more"
        );
    }
    assert_eq!(refused("polite"), 0);
    is_over.store(true, Ordering::Relaxed);
    view.stuck.1.add_permits(FLOOD);
    for writer in flood {
        writer.await.unwrap();
    }
    assert!(other.tenants().iter().all(|(_, stats)| stats.used == 0), "{:?}", other.tenants());
}

/// Partitions that `other` is preferred for.
async fn partitions_of(one: &ForwardingStore, other: &ForwardingStore) -> Vec<usize> {
    let mut found = Vec::new();
    for partition in 0..PARTITIONS {
        let before = other.stats().received;
        write(one, partition).await.unwrap().unwrap();
        if other.stats().received > before {
            found.push(partition);
        }
    }
    found
}
