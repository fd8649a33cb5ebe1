//! Removing a whole table.

use tavola_core::{KeyRange, TableId};

use super::fixture::{Subject, insert, now, number};

async fn fill(store: &Subject, table: TableId, rows: usize) {
    for from in (0..rows).step_by(100) {
        let inserts = (from..rows.min(from + 100))
            .map(|row| insert(&format!("{row:06}"), number(1)))
            .collect();
        store
            .commit_at(table, &format!("p{}", from / 500), inserts, now())
            .await
            .expect("they are new");
    }
}

async fn count(store: &Subject, table: TableId) -> usize {
    store.rows(table, KeyRange::ALL).await.len()
}

pub async fn a_purge_removes_its_table_only(store: Subject) {
    let [before, table, after] = [699, 700, 701].map(TableId::new);
    for table in [before, table, after] {
        fill(&store, table, 1250).await;
    }
    store.0.purge(table).await.expect("the store purges");
    assert_eq!(count(&store, table).await, 0);
    assert!(store.row_in(table, "p0", "000000").await.is_none());
    assert_eq!(count(&store, before).await, 1250);
    assert_eq!(count(&store, after).await, 1250);
}

pub async fn a_purge_may_be_repeated(store: Subject) {
    let table = TableId::new(700);
    store.0.purge(table).await.expect("there is nothing to purge");
    fill(&store, table, 10).await;
    for _ in 0..2 {
        store.0.purge(table).await.expect("the store purges");
        assert_eq!(count(&store, table).await, 0);
    }
}

pub async fn a_purge_forgets_no_version(store: Subject) {
    let table = TableId::new(700);
    let before = store.put_in(table, "p", "r", number(1)).await;
    store.0.purge(table).await.expect("the store purges");
    assert!(store.put_in(table, "p", "r", number(1)).await > before);
}

pub async fn the_last_table_of_all_is_purged(store: Subject) {
    let table = TableId::new(u64::MAX);
    fill(&store, table, 10).await;
    assert_eq!(count(&store, table).await, 10);
    store.0.purge(table).await.expect("the store purges");
    assert_eq!(count(&store, table).await, 0);
}
