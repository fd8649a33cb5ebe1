//! Order, ranges, bounds, and going on where a page ended.

use std::sync::Arc;
use std::time::Instant;

use tavola_core::filter::Comparison;
use tavola_core::{
    CompiledFilter, Cut, EdmValue, EntityKey, Filter, KeyRange, Precondition, TableId,
};
use tavola_store::{Scan, StopToken};

use super::fixture::{
    Subject, TABLE, delete, insert, key, key_of, number, number_of, partition, properties, rest,
    scan_all,
};

/// Texts around everything that is special about order: prefixes, case, the smallest character,
/// two-byte letters, both sides of the surrogates.
const TRICKY: [&str; 12] =
    ["", " ", "!", "A", "a", "a ", "aa", "b", "é", "\u{d7ff}", "\u{10000}", "\u{e000}"];

async fn store_tricky_keys(store: &Subject) -> Vec<EntityKey> {
    let mut keys = Vec::new();
    for partition_key in TRICKY {
        let inserts = TRICKY.iter().map(|row_key| insert(row_key, number(1))).collect();
        store.commit(partition_key, inserts).await.expect("they are new");
        keys.extend(TRICKY.iter().map(|row_key| key(partition_key, row_key)));
    }
    // The order by its definition: code units of UTF-16.
    let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    keys.sort_by_key(|key| (units(key.partition_key.as_str()), units(key.row_key.as_str())));
    keys
}

pub async fn a_scan_is_in_the_order_of_code_units(store: Subject) {
    let expected = store_tricky_keys(&store).await;
    assert_eq!(store.keys(KeyRange::ALL).await, expected);
}

pub async fn a_scan_returns_exactly_its_range(store: Subject) {
    let keys = store_tricky_keys(&store).await;
    let mut cuts = vec![Cut::Start, Cut::End];
    for place in keys.iter().step_by(7).cloned().chain([
        key("aaa", "x"),
        key("a", "zz"),
        key("\u{e000}", "\u{ffff}"),
    ]) {
        cuts.push(Cut::AfterPartition(place.partition_key.clone()));
        cuts.push(Cut::Before(place.clone()));
        cuts.push(Cut::After(place));
    }
    for start in &cuts {
        for end in &cuts {
            let range = KeyRange { start: start.clone(), end: end.clone() };
            let expected: Vec<EntityKey> =
                keys.iter().filter(|key| range.contains(key)).cloned().collect();
            assert_eq!(store.keys(range.clone()).await, expected, "{range:?}");
        }
    }
}

pub async fn a_scan_stays_in_its_table(store: Subject) {
    for table in [999, 1000, 1001] {
        store.put_in(TableId::new(table), "p", "r", number(table as i32)).await;
    }
    let rows = store.rows(TABLE, KeyRange::ALL).await;
    assert_eq!(rows.iter().map(number_of).collect::<Vec<i32>>(), [1000]);
    assert!(store.rows(TableId::new(1002), KeyRange::ALL).await.is_empty());
    assert!(store.rows(TableId::new(u64::MAX), KeyRange::ALL).await.is_empty());
}

/// Follows pages to the end; checks that every page keeps the bounds of `scan`, and returns the
/// keys and the pages.
async fn follow(store: &Subject, scan: Scan) -> (Vec<EntityKey>, usize) {
    let (mut keys, mut pages, mut scan) = (Vec::new(), 0, scan);
    loop {
        let page = store.page(&scan).await;
        pages += 1;
        assert!(page.rows.len() <= scan.rows_max && page.rows_read as usize <= scan.read_max);
        assert!(page.rows.len() <= page.rows_read as usize);
        let bytes: usize = page.rows.iter().rev().skip(1).map(|row| row.size_bytes()).sum();
        assert!(bytes < scan.bytes_max, "without its last row the page was below its bytes");
        keys.extend(page.rows.iter().map(key_of));
        let Some(next) = page.next else { return (keys, pages) };
        scan.range = rest(&scan.range, next);
        assert!(pages < 1000, "the pages get on");
    }
}

pub async fn pages_bounded_by_rows_go_on_exactly(store: Subject) {
    let expected = store_tricky_keys(&store).await;
    for rows_max in [1, 2, 7, 144, 1000] {
        let (keys, pages) = follow(&store, Scan { rows_max, ..scan_all() }).await;
        assert_eq!(keys, expected, "{rows_max}");
        assert!(pages >= 144_usize.div_ceil(rows_max) && pages <= 144 / rows_max + 1);
    }
}

pub async fn pages_bounded_by_bytes_go_on_exactly(store: Subject) {
    let expected = store_tricky_keys(&store).await;
    for bytes_max in [1, 100, 1000] {
        assert_eq!(
            follow(&store, Scan { bytes_max, ..scan_all() }).await.0,
            expected,
            "{bytes_max}"
        );
    }
}

pub async fn pages_bounded_by_reading_go_on_exactly(store: Subject) {
    let expected = store_tricky_keys(&store).await;
    for read_max in [1, 5, 143] {
        assert_eq!(follow(&store, Scan { read_max, ..scan_all() }).await.0, expected, "{read_max}");
    }
    // Rows that the residual leaves out count as read too: a page may be empty and still say where to go on.
    let nothing = Some(Arc::new(CompiledFilter::new(&Filter::Constant(false))));
    let page = store.page(&Scan { residual: nothing.clone(), read_max: 5, ..scan_all() }).await;
    assert_eq!((page.rows.len(), page.rows_read), (0, 5));
    assert!(page.next.is_some());
    let (keys, pages) = follow(&store, Scan { residual: nothing, read_max: 5, ..scan_all() }).await;
    assert!(keys.is_empty() && pages >= 144 / 5);
}

pub async fn bounds_of_zero_still_get_on(store: Subject) {
    let expected = store_tricky_keys(&store).await;
    let mut range = KeyRange::ALL;
    let mut keys = Vec::new();
    for _ in 0..1000 {
        let page = store
            .page(&Scan {
                range: range.clone(),
                rows_max: 0,
                bytes_max: 0,
                read_max: 0,
                ..scan_all()
            })
            .await;
        keys.extend(page.rows.iter().map(key_of));
        let Some(next) = page.next else { break };
        range = rest(&range, next);
    }
    assert_eq!(keys, expected);
}

pub async fn a_page_goes_on_whatever_happened_between(store: Subject) {
    for row_key in ["a", "b", "c", "d"] {
        store.put("p", row_key, number(1)).await;
    }
    let scan = Scan { rows_max: 2, ..scan_all() };
    let page = store.page(&scan).await;
    assert_eq!(page.rows.len(), 2);
    let next = page.next.expect("there is more");
    for gone in ["b", "c"] {
        assert!(store.commit("p", vec![delete(gone, Precondition::None)]).await.is_ok());
    }
    store.put("p", "e", number(1)).await;
    store.put("p", "A", number(1)).await;
    let range = rest(&scan.range, next);
    assert_eq!(store.keys(range).await, [key("p", "d"), key("p", "e")]);
}

pub async fn a_residual_leaves_rows_out(store: Subject) {
    for value in 0..20 {
        store.put("p", &format!("{value:02}"), number(value)).await;
    }
    store.put("p", "99", properties([("Other", EdmValue::Boolean(true))])).await;
    let compare = |property: &str, comparison, constant| Filter::Compare {
        property: property.to_owned(),
        comparison,
        constant,
    };
    let late = compare("N", Comparison::GreaterOrEqual, EdmValue::Int32(15));
    let by_key = compare("RowKey", Comparison::Less, EdmValue::String("18".to_owned()));
    let residual = Some(Arc::new(CompiledFilter::new(&Filter::And(vec![late, by_key]))));
    let page = store.page(&Scan { residual: residual.clone(), ..scan_all() }).await;
    assert_eq!(page.rows.iter().map(number_of).collect::<Vec<i32>>(), [15, 16, 17]);
    assert_eq!(page.rows_read, 21);
    // Bounds count what is returned, not what is left out.
    let page = store.page(&Scan { residual, rows_max: 2, ..scan_all() }).await;
    assert_eq!(page.rows.iter().map(number_of).collect::<Vec<i32>>(), [15, 16]);
}

/// A scan that has to stop looks at one row more and no further, whatever it was asked for, and
/// goes on exactly there.
pub async fn a_scan_that_has_to_stop_does(store: Subject) {
    let expected = store_tricky_keys(&store).await;
    let (abandoned, guard) = StopToken::default().guarded();
    drop(guard);
    for stop in [StopToken::at(Instant::now()), abandoned] {
        let residual = Some(Arc::new(CompiledFilter::new(&Filter::Constant(false))));
        let page = store.page(&Scan { residual, stop: stop.clone(), ..scan_all() }).await;
        assert_eq!((page.rows.len(), page.rows_read), (0, 1));
        assert!(page.next.is_some(), "more rows are left");
        let (keys, pages) = follow(&store, Scan { stop, ..scan_all() }).await;
        assert_eq!(keys, expected);
        assert!(pages >= expected.len(), "one row each");
    }
    let (keys, _) = follow(&store, Scan { yield_at: Some(Instant::now()), ..scan_all() }).await;
    assert_eq!(keys, expected, "whether or not the store heeds it");
    let (stop, _guard) = StopToken::default().guarded();
    assert_eq!(follow(&store, Scan { stop, ..scan_all() }).await, (expected, 1));
}

pub async fn the_cost_of_a_page_is_the_page(store: Subject) {
    for value in 0..200 {
        store.put(&format!("{:02}", value / 10), &format!("{value:03}"), number(value)).await;
    }
    let page = store
        .page(&Scan { rows_max: 3, range: KeyRange::partition(partition("07")), ..scan_all() })
        .await;
    assert_eq!(page.rows.iter().map(number_of).collect::<Vec<i32>>(), [70, 71, 72]);
    assert!(page.rows_read <= 4, "{} rows were read for a page of three", page.rows_read);
}

pub async fn a_scan_sees_what_was_committed_before(store: Subject) {
    for value in 0..50 {
        store.put("p", &format!("{value:02}"), number(value)).await;
        assert_eq!(store.keys(KeyRange::partition(partition("p"))).await.len(), value as usize + 1);
    }
}
