use std::collections::BTreeMap;

use tavola_core::{ETag, EdmValue, Timestamp};

use super::{Intent, Key, Ledger, Rows, Values, Version};

fn key(row: &str) -> Key {
    ("p".to_owned(), row.to_owned())
}

fn values(number: i64) -> Values {
    BTreeMap::from([("Op".to_owned(), EdmValue::Int64(number))])
}

fn at(ticks: u64) -> Timestamp {
    Timestamp::from_ticks(ticks).unwrap()
}

fn write(rows: &[(&str, Option<i64>)]) -> Intent {
    let after = rows.iter().map(|(row, number)| (key(row), number.map(values))).collect();
    Intent::Write { table: "t".to_owned(), after }
}

fn shown(rows: &[(&str, i64, u64)]) -> Rows {
    let row = |(row, number, ticks): &(&str, i64, u64)| {
        (key(row), Version { values: values(*number), timestamp: at(*ticks) })
    };
    rows.iter().map(row).collect()
}

/// A ledger whose row `a` was acknowledged as number 1 at tick 10.
fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.intend(Intent::Create("t".to_owned()));
    ledger.acknowledged(&[]).unwrap();
    ledger.intend(write(&[("a", Some(1))]));
    ledger.acknowledged(&[ETag::of(at(10))]).unwrap();
    ledger
}

#[test]
fn what_was_acknowledged_must_be_there_and_nothing_else() {
    for (rows, word) in [
        (&[("a", 1, 10)][..], ""),
        (&[], "is missing"),
        (&[("a", 2, 10)], "was acknowledged as"),
        (&[("a", 1, 9)], "was acknowledged as"),
        (&[("a", 1, 10), ("b", 2, 11)], "and is there"),
    ] {
        let said =
            ledger().compare("t", Some(&shown(rows))).map_err(|violation| violation.to_string());
        match word {
            "" => said.unwrap(),
            word => assert!(said.unwrap_err().contains(word), "{rows:?}"),
        }
    }
    assert!(ledger().compare("t", None).is_err());
    assert!(ledger().compare("other", Some(&Rows::new())).is_err());
}

#[test]
fn a_write_without_an_answer_is_decided_once() {
    for (rows, is_done) in [(&[("a", 1, 10)][..], false), (&[("b", 3, 12)], true)] {
        let mut ledger = ledger();
        ledger.intend(write(&[("a", None), ("b", Some(3))]));
        ledger.compare("t", Some(&shown(rows))).unwrap();
        assert!(!ledger.is_in_doubt());
        // What it was decided to be, it stays.
        ledger.compare("t", Some(&shown(rows))).unwrap();
        let other: &[_] = if is_done { &[("a", 1, 10)] } else { &[("b", 3, 12)] };
        assert!(ledger.compare("t", Some(&shown(other))).is_err());
    }
}

#[test]
fn half_a_batch_is_a_violation() {
    let mut ledger = ledger();
    ledger.intend(write(&[("b", Some(2)), ("c", Some(2))]));
    let said =
        ledger.compare("t", Some(&shown(&[("a", 1, 10), ("b", 2, 11)]))).unwrap_err().to_string();
    assert!(said.contains("by half: 1 of 2"), "{said}");
}

#[test]
fn versions_go_up_and_never_come_twice() {
    for ticks in [9, 10] {
        let mut ledger = ledger();
        ledger.intend(write(&[("b", Some(2))]));
        assert!(ledger.acknowledged(&[ETag::of(at(ticks))]).is_err(), "{ticks}");
    }
    let mut ledger = ledger();
    ledger.intend(write(&[("b", Some(2)), ("a", Some(2))]));
    ledger.acknowledged(&[ETag::of(at(11)), ETag::of(at(11))]).unwrap();
}

#[test]
fn a_drop_without_an_answer_took_all_or_nothing() {
    for (is_there, rows) in [(true, &[("a", 1, 10)][..]), (false, &[])] {
        let mut ledger = ledger();
        ledger.intend(Intent::Drop("t".to_owned()));
        ledger.compare("t", is_there.then(|| shown(rows)).as_ref()).unwrap();
        assert_eq!(ledger.has_table("t"), is_there);
    }
    let mut ledger = ledger();
    ledger.intend(Intent::Drop("t".to_owned()));
    assert!(ledger.compare("t", Some(&Rows::new())).is_err(), "a table without its rows");
}
