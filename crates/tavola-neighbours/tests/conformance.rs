//! The contract of stores, where about half of the writes take the way over a neighbour.

mod common;

use common::Place;
use tavola_neighbours::NeighbourlyStore;

/// One front end that is asked; the one that it sends writes to lives as long as the test.
async fn one_of_two() -> NeighbourlyStore {
    let (asked, other) = Place::default().two().await;
    tokio::spawn(async move {
        let _kept = other;
        std::future::pending::<()>().await;
    });
    asked
}

tavola_testkit::store_conformance!(one_of_two().await);
