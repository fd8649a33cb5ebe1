//! Rows of another store are taken over as they are, and never over others.

use std::sync::Arc;

use tavola_core::{EdmValue, EntityView, KeyRange, Precondition, TableId, Timestamp};
use tavola_store::{Import, ImportError, Row};

use super::fixture::{
    Subject, TABLE, at, key, key_of, now, number, partition, properties, replace, scan_all,
    written_at,
};

/// A row as another store would give it.
fn row(partition_key: &str, row_key: &str, value: i32, version: Timestamp) -> Row {
    Row::encode(&partition(partition_key), &key("", row_key).row_key, &number(value), version)
}

/// So many 100 ns after the cases' clock.
fn later(ticks: u64) -> Timestamp {
    at(now().ticks() + ticks)
}

fn subject(store: &Arc<dyn Import>) -> Subject {
    Subject(Arc::clone(store) as _)
}

async fn import(store: &Arc<dyn Import>, rows: &[Row]) {
    store.import(TABLE, rows).await.expect("the store takes rows over");
}

async fn all(store: &Arc<dyn Import>) -> Vec<Row> {
    subject(store).rows(TABLE, KeyRange::ALL).await
}

/// Every byte, and so the version and the ETag, is as it was.
pub async fn rows_are_taken_over_as_they_are(store: Arc<dyn Import>) {
    import(&store, &[]).await;
    assert_eq!(all(&store).await, []);
    // Versions in any order, long past and still to come, keys of every kind.
    let mut rows = vec![
        row("", "", 1, at(5)),
        row("a", "x", 2, later(900)),
        row("a", "y", 3, at(7)),
        row("\u{e000}é", "\u{10000}", 4, now()),
    ];
    rows.sort_by_key(key_of);
    import(&store, &rows).await;
    assert_eq!(all(&store).await, rows);
    let read = subject(&store).row("a", "x").await.expect("it is there");
    assert_eq!((&read, read.timestamp()), (&rows[1], later(900)));
    assert_eq!(subject(&store).rows(TableId::new(TABLE.number() + 1), KeyRange::ALL).await, []);
}

/// After a failure everything is brought again; only what is missing is written.
pub async fn an_import_may_be_repeated(store: Arc<dyn Import>) {
    let rows: Vec<Row> =
        (0..30).map(|n| row(&format!("p{}", n / 10), &format!("{n:03}"), n, later(1))).collect();
    import(&store, &rows[5..17]).await;
    import(&store, &rows).await;
    import(&store, &rows).await;
    assert_eq!(all(&store).await, rows);
}

/// Another content, or only another version, under the same key.
pub async fn nothing_is_overwritten(store: Arc<dyn Import>) {
    let existing = row("p", "b", 1, later(10));
    import(&store, std::slice::from_ref(&existing)).await;
    for other in [row("p", "b", 2, later(10)), row("p", "b", 1, later(11))] {
        let brought = [row("p", "a", 9, later(1)), other, row("p", "c", 9, later(1))];
        match store.import(TABLE, &brought).await {
            Err(ImportError::Occupied(at)) => assert_eq!(at, key("p", "b")),
            other => panic!("the import is refused, not {other:?}"),
        }
        assert_eq!(subject(&store).row("p", "b").await.as_ref(), Some(&existing));
    }
    let written = subject(&store).put("q", "r", number(1)).await;
    let brought = row("q", "r", 2, later(99));
    assert!(matches!(store.import(TABLE, &[brought]).await, Err(ImportError::Occupied(_))));
    let kept = subject(&store).row("q", "r").await.expect("it stays");
    assert_eq!((kept.timestamp(), super::fixture::number_of(&kept)), (written, 1));
}

/// Whatever the clock says.
pub async fn versions_go_on_above_what_was_brought(store: Arc<dyn Import>) {
    import(
        &store,
        &[row("p", "a", 1, later(5_000)), row("p", "b", 2, later(9_000)), row("p", "c", 3, at(1))],
    )
    .await;
    let store = subject(&store);
    let written = store.put("p", "a", number(4)).await;
    assert!(written > later(9_000), "{written:?} is above the highest of its partition");
    let condition = super::fixture::version(later(9_000));
    let result = store.commit("p", vec![replace("b", number(5), condition)]).await;
    assert!(
        written_at(&result) > written,
        "the ETag that was brought counts, and the next version is higher"
    );
    let result = store.commit("p", vec![replace("c", number(6), Precondition::Exists)]).await;
    assert!(written_at(&result) > written);
}

/// More rows than fit into one transaction, and many partitions at once.
pub async fn any_number_of_rows_is_taken_over(store: Arc<dyn Import>) {
    let one = (0..350).map(|n| row("m", &format!("{n:04}"), n, later(1_000 - n as u64)));
    let before = (0..60).map(|n| row(&format!("a{n:03}"), "r", n, later(n as u64)));
    let after = (0..60).map(|n| row(&format!("z{n:03}"), "r", n, later(n as u64)));
    let rows: Vec<Row> = before.chain(one).chain(after).collect();
    import(&store, &rows).await;
    assert_eq!(all(&store).await, rows);
}

/// More bytes than fit into one transaction.
pub async fn large_rows_are_taken_over(store: Arc<dyn Import>) {
    const PART: usize = 60_000;
    let names = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O"];
    let large = properties(names.map(|name| (name, EdmValue::Binary(vec![7; PART]))));
    let encode =
        |n: u64| Row::encode(&partition("p"), &key("", &format!("{n}")).row_key, &large, later(n));
    let rows: Vec<Row> = (0..8).map(encode).collect();
    import(&store, &rows).await;
    let page = subject(&store).page(&scan_all()).await;
    assert_eq!(page.rows, rows);
}
