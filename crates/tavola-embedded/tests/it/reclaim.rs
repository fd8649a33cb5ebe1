//! A dropped table gives its space back while the store serves.

use crate::common::open;
use tavola_conformance::store_conformance::fixture::{
    group, insert, now, number, number_of, properties, scan_all,
};
use tavola_core::{EdmValue, KeyRange, TableId};
use tavola_embedded::EmbeddedStore;
use tavola_store::{Scan, Store};
use tempfile::TempDir;

const DROPPED: TableId = TableId::new(700);
const NEIGHBOURS: [TableId; 2] = [TableId::new(699), TableId::new(701)];

/// Fills a table with rows that do not compress.
async fn fill(store: &EmbeddedStore, table: TableId, rows: usize) {
    let mut noise: u64 = table.number();
    for from in (0..rows).step_by(100) {
        let row = |row: usize| {
            let bytes = std::iter::repeat_with(|| {
                noise = noise
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (noise >> 56) as u8
            });
            let bytes = bytes.take(400).collect();
            insert(
                &format!("{row:06}"),
                properties([("N", EdmValue::Int32(row as i32)), ("B", EdmValue::Binary(bytes))]),
            )
        };
        let inserts = (from..from + 100).map(row).collect();
        store
            .commit(table, &group("p", inserts), now())
            .await
            .expect("it commits")
            .expect("they are new");
    }
}

async fn count(store: &EmbeddedStore, table: TableId) -> usize {
    store
        .scan(&Scan { table, range: KeyRange::ALL, ..scan_all() })
        .await
        .expect("the store scans")
        .rows
        .len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_table_gives_its_space_back() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    fill(&store, DROPPED, 15_000).await;
    for neighbour in NEIGHBOURS {
        fill(&store, neighbour, 1000).await;
    }
    store.close().unwrap();
    drop(store);
    let store = open(folder.path());
    let before = store.stats().table_file_bytes;
    assert!(before > 6_000_000, "{before}");

    let purge = store.purge(DROPPED);
    let serve = async {
        // Others read and write meanwhile, the names of the dropped table's rows included.
        for round in 0..50 {
            let transaction = group("q", vec![insert(&format!("{round}"), number(round))]);
            store.commit(NEIGHBOURS[0], &transaction, now()).await.unwrap().unwrap();
            let page = store
                .scan(&Scan { table: NEIGHBOURS[1], rows_max: 10, ..scan_all() })
                .await
                .unwrap();
            assert_eq!(
                page.rows.iter().map(number_of).collect::<Vec<i32>>(),
                (0..10).collect::<Vec<i32>>()
            );
        }
    };
    let (purged, ()) = tokio::join!(purge, serve);
    purged.unwrap();

    assert_eq!(count(&store, DROPPED).await, 0);
    assert_eq!(count(&store, NEIGHBOURS[0]).await, 1050);
    assert_eq!(count(&store, NEIGHBOURS[1]).await, 1000);
    let after = store.stats().table_file_bytes;
    assert!(after < before / 4, "{after} of {before} bytes are left");
    drop(store);
    assert_eq!(count(&open(folder.path()), DROPPED).await, 0, "it stays away");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_that_was_cut_short_is_finished_by_the_next() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    fill(&store, DROPPED, 2000).await;
    // The caller has gone; the work goes on or not, and asking again does the rest.
    drop(tokio::time::timeout(std::time::Duration::from_millis(1), store.purge(DROPPED)).await);
    store.purge(DROPPED).await.unwrap();
    assert_eq!(count(&store, DROPPED).await, 0);
}
