//! The contract of stores, where about half of the writes are forwarded to a peer.

mod common;

use common::Place;
use tavola_peers::ForwardingStore;

/// One node that is asked; the one that it forwards writes to lives as long as the test.
async fn one_of_two() -> ForwardingStore {
    let (asked, other) = Place::default().two().await;
    tokio::spawn(async move {
        let _kept = other;
        std::future::pending::<()>().await;
    });
    asked
}

tavola_conformance::store_conformance!(one_of_two().await);
