//! Where point reads are answered from, and what commits cost.

use crate::common::{open, put_numbers, read_numbers, runtime};
use tavola_conformance::store_conformance::fixture::{
    TABLE, delete, group, key, now, number_of, scan_all,
};
use tavola_core::{Cut, EntityAddress, Precondition};
use tavola_embedded::{EmbeddedStore, Options};
use tavola_store::{Blocking, Scan, Store};
use tempfile::TempDir;

fn get(store: &EmbeddedStore, value: i32) -> Option<i32> {
    let address = EntityAddress { table: TABLE, key: key("p", &format!("{value:05}")) };
    runtime()
        .block_on(store.get(&address, Blocking::Forbidden))
        .expect("the store reads")
        .as_ref()
        .map(number_of)
}

#[test]
fn a_cold_row_comes_from_the_disk_and_then_from_memory() {
    let folder = TempDir::new().unwrap();
    let open = |folder| {
        EmbeddedStore::open(folder, Options { reads_in_place: false, ..Options::default() })
            .expect("the folder opens")
    };
    let store = open(folder.path());
    // Several blocks: the first one is read at every open, for the last version.
    put_numbers(&store, 0..1500);
    assert_eq!(get(&store, 1400), Some(1400));
    assert_eq!(
        (store.stats().gets_cached, store.stats().gets_from_disk),
        (1, 0),
        "fresh rows are in memory"
    );
    assert!(store.stats().row_cache_bytes > 0, "from now on it is kept");
    store.close().unwrap();
    drop(store);

    let store = open(folder.path());
    assert_eq!(get(&store, 1400), Some(1400));
    assert_eq!((store.stats().gets_cached, store.stats().gets_from_disk), (0, 1));
    assert_eq!(get(&store, 1400), Some(1400));
    assert_eq!(get(&store, 9999), None);
    assert_eq!((store.stats().gets_cached, store.stats().gets_from_disk), (2, 1));
}

/// Whether or not they are handed over to threads that may wait.
#[test]
fn cold_rows_are_read_and_replaced() {
    for reads_in_place in [false, true] {
        let folder = TempDir::new().unwrap();
        let open = || {
            EmbeddedStore::open(folder.path(), Options { reads_in_place, ..Options::default() })
                .unwrap()
        };
        let store = open();
        put_numbers(&store, 0..200);
        store.close().unwrap();
        drop(store);
        let store = open();
        put_numbers(&store, 50..60);
        assert_eq!(get(&store, 70), Some(70));
        assert_eq!(get(&store, 200), None);
        assert_eq!(read_numbers(&store), (0..200).collect::<Vec<i32>>());
    }
}

/// Requests behind a scan of a few rows must not wait until it has stepped over thousands
/// that are gone.
#[test]
fn a_short_scan_is_done_in_place_unless_deleted_rows_are_in_its_way() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    put_numbers(&store, 0..1000);
    runtime().block_on(async {
        for rows in (0..500).collect::<Vec<i32>>().chunks(100) {
            let gone =
                rows.iter().map(|row| delete(&format!("{row:05}"), Precondition::Exists)).collect();
            store.commit(TABLE, &group("p", gone), now()).await.unwrap().unwrap();
        }
    });
    let ten = |from: Option<i32>| {
        let mut scan = Scan { rows_max: 10, ..scan_all() };
        if let Some(from) = from {
            scan.range.start = Cut::Before(key("p", &format!("{from:05}")));
        }
        let page = runtime().block_on(store.scan(&scan)).unwrap();
        (page.rows.iter().map(number_of).collect::<Vec<i32>>(), store.stats().scans_in_place)
    };
    assert_eq!(ten(Some(700)), ((700..710).collect(), 1));
    assert_eq!(ten(None), ((500..510).collect(), 1), "it was handed over");
    assert_eq!(ten(Some(450)), ((500..510).collect(), 2), "fifty are stepped over");
    assert_eq!(read_numbers(&store).len(), 500);
    assert_eq!(store.stats().scans_in_place, 2, "a long one is not done in place");
}

#[test]
fn a_commit_alone_is_one_sync() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    put_numbers(&store, 0..50);
    let stats = store.stats();
    assert_eq!((stats.commits, stats.syncs, stats.group_sizes[0]), (50, 50, 50));
    assert!(stats.bytes_written > 50 * 40 && stats.memtable_bytes > 0);
    assert!(store.health().is_ok());
}
