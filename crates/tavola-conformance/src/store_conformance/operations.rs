//! Each operation, and each of its refusals.

use tavola_core::{
    DateTime, DomainError, EdmValue, Entity, EntityView, Guid, KeyRange, Outcome, Precondition,
    Properties, PropertyName,
};

use super::fixture::{
    Subject, delete, entity_of, insert, key, merge, now, number, partition as partition_key,
    properties, replace, version, written_at,
};

pub async fn an_absent_entity_is_none(store: Subject) {
    assert!(store.row("p", "r").await.is_none());
    store.put("p", "r", number(1)).await;
    assert!(store.row("p", "R").await.is_none());
    assert!(store.row("p", "").await.is_none());
    assert!(store.row("p", "rr").await.is_none());
    assert!(store.row("", "r").await.is_none());
    assert!(store.row("pr", "").await.is_none());
}

pub async fn every_type_is_read_back(store: Subject) {
    let written = properties([
        ("Text", EdmValue::String("a\u{0}é😀\u{fffe}".to_owned())),
        ("Empty", EdmValue::String(String::new())),
        ("Int32", EdmValue::Int32(i32::MIN)),
        ("Int64", EdmValue::Int64(i64::MIN)),
        ("Double", EdmValue::Double(-1.5e300)),
        ("Infinite", EdmValue::Double(f64::NEG_INFINITY)),
        ("NotANumber", EdmValue::double(f64::NAN)),
        ("Yes", EdmValue::Boolean(true)),
        ("No", EdmValue::Boolean(false)),
        ("First", EdmValue::DateTime(DateTime::MIN)),
        ("Last", EdmValue::DateTime(DateTime::MAX)),
        ("Guid", EdmValue::Guid(Guid::from_bytes([7; 16]))),
        ("Binary", EdmValue::Binary((0..=255).collect())),
    ]);
    let result = store.commit("p", vec![insert("r", written.clone())]).await;
    let expected =
        Entity { key: key("p", "r"), timestamp: written_at(&result), properties: written };
    assert_eq!(store.row("p", "r").await.as_ref().map(entity_of), Some(expected));
}

pub async fn an_entity_may_have_no_properties(store: Subject) {
    store.put("p", "r", Properties::default()).await;
    let row = store.row("p", "r").await.expect("it was written");
    assert!(entity_of(&row).properties.is_empty());
}

/// Other services than tables name their rows otherwise: a blob's name has 1,024 characters, and
/// slashes among them.
pub async fn the_longest_keys_are_carried(store: Subject) {
    let partition = "/\\#?é".repeat(204);
    let rows = ["a/".repeat(512), "a/".repeat(511), "\u{7f}😀".repeat(341)];
    for (value, row) in (1..).zip(&rows) {
        store.put(&partition, row, number(value)).await;
    }
    for (value, row) in (1..).zip(&rows) {
        assert_eq!(store.number(&partition, row).await, Some(value));
    }
    let mut expected: Vec<_> = rows.iter().map(|row| key(&partition, row)).collect();
    expected.sort();
    assert_eq!(store.keys(KeyRange::partition(partition_key(&partition))).await, expected);
}

pub async fn the_largest_entity_is_read_back(store: Subject) {
    let chunk = |n: usize| {
        (
            PropertyName::new(format!("P{n}")).expect("legal"),
            EdmValue::Binary(vec![n as u8; 65_536]),
        )
    };
    let large = Properties::new((0..15).map(chunk).collect()).expect("legal");
    store.put("p", "r", large.clone()).await;
    let row = store.row("p", "r").await.expect("it was written");
    assert_eq!(entity_of(&row).properties, large);
}

pub async fn insert_refuses_an_existing_entity(store: Subject) {
    store.put("p", "r", number(1)).await;
    assert_eq!(
        store.domain_error("p", insert("r", number(2))).await,
        DomainError::EntityAlreadyExists
    );
    assert_eq!(store.number("p", "r").await, Some(1));
}

pub async fn replace_writes_all_properties(store: Subject) {
    store.put("p", "r", properties([("A", EdmValue::Int32(1)), ("B", EdmValue::Int32(2))])).await;
    let result = store.commit("p", vec![replace("r", number(3), Precondition::Exists)]).await;
    let row = store.row("p", "r").await.expect("it was written");
    assert_eq!(row.timestamp(), written_at(&result));
    assert_eq!(entity_of(&row).properties, number(3));
}

pub async fn replace_without_a_condition_inserts(store: Subject) {
    store.put("p", "r", number(1)).await;
    assert_eq!(store.number("p", "r").await, Some(1));
}

pub async fn replace_checks_its_condition(store: Subject) {
    let absent = replace("r", number(1), Precondition::Exists);
    assert_eq!(store.domain_error("p", absent).await, DomainError::EntityNotFound);
    assert_eq!(
        store.domain_error("p", replace("r", number(1), version(now()))).await,
        DomainError::EntityNotFound
    );
    let first = store.put("p", "r", number(1)).await;
    let second =
        written_at(&store.commit("p", vec![replace("r", number(2), version(first))]).await);
    assert_eq!(
        store.domain_error("p", replace("r", number(3), version(first))).await,
        DomainError::ConditionNotMet
    );
    assert_eq!(store.number("p", "r").await, Some(2));
    assert!(store.commit("p", vec![replace("r", number(4), version(second))]).await.is_ok());
}

pub async fn merge_keeps_what_it_does_not_name(store: Subject) {
    let text = |text: &str| EdmValue::String(text.to_owned());
    store.put("p", "r", properties([("A", text("a")), ("B", text("b"))])).await;
    let result = store.commit(
        "p",
        vec![merge(
            "r",
            properties([("C", text("c")), ("A", EdmValue::Int32(1))]),
            Precondition::Exists,
        )],
    );
    let merged_at = written_at(&result.await);
    let row = store.row("p", "r").await.expect("it was written");
    assert_eq!(row.timestamp(), merged_at);
    let expected = properties([("A", EdmValue::Int32(1)), ("B", text("b")), ("C", text("c"))]);
    assert_eq!(entity_of(&row).properties, expected);
}

pub async fn merge_without_a_condition_inserts(store: Subject) {
    assert!(store.commit("p", vec![merge("r", number(1), Precondition::None)]).await.is_ok());
    assert_eq!(store.number("p", "r").await, Some(1));
}

pub async fn merge_checks_its_condition(store: Subject) {
    assert_eq!(
        store.domain_error("p", merge("r", number(1), Precondition::Exists)).await,
        DomainError::EntityNotFound
    );
    let first = store.put("p", "r", number(1)).await;
    store.put("p", "r", number(2)).await;
    assert_eq!(
        store.domain_error("p", merge("r", number(3), version(first))).await,
        DomainError::ConditionNotMet
    );
    assert_eq!(store.number("p", "r").await, Some(2));
}

pub async fn merge_refuses_to_grow_beyond_the_limits(store: Subject) {
    let named =
        |n: usize| (PropertyName::new(format!("P{n}")).expect("legal"), EdmValue::Boolean(true));
    let full = Properties::new((0..252).map(named).collect()).expect("legal");
    store.put("p", "many", full).await;
    assert_eq!(
        store.domain_error("p", merge("many", number(1), Precondition::None)).await,
        DomainError::TooManyProperties
    );

    let chunk = |n: usize| {
        (PropertyName::new(format!("P{n}")).expect("legal"), EdmValue::Binary(vec![0; 65_536]))
    };
    let half =
        |from: usize| Properties::new((from..from + 10).map(chunk).collect()).expect("legal");
    let before = store.put("p", "large", half(0)).await;
    assert_eq!(
        store.domain_error("p", merge("large", half(10), Precondition::None)).await,
        DomainError::EntityTooLarge
    );
    assert_eq!(store.row("p", "large").await.map(|row| row.timestamp()), Some(before));
}

pub async fn delete_removes_the_entity(store: Subject) {
    store.put("p", "r", number(1)).await;
    store.put("p", "rr", number(2)).await;
    let result = store.commit("p", vec![delete("r", Precondition::Exists)]).await;
    assert_eq!(result, Ok(vec![Outcome::Deleted]));
    assert!(store.row("p", "r").await.is_none());
    assert_eq!(store.number("p", "rr").await, Some(2));
}

pub async fn delete_checks_its_condition(store: Subject) {
    for wanted in [Precondition::None, Precondition::Exists, version(now())] {
        assert_eq!(store.domain_error("p", delete("r", wanted)).await, DomainError::EntityNotFound);
    }
    let first = store.put("p", "r", number(1)).await;
    let second = store.put("p", "r", number(2)).await;
    assert_eq!(
        store.domain_error("p", delete("r", version(first))).await,
        DomainError::ConditionNotMet
    );
    assert_eq!(store.number("p", "r").await, Some(2));
    assert!(store.commit("p", vec![delete("r", version(second))]).await.is_ok());
    assert!(store.row("p", "r").await.is_none());
}

pub async fn keys_may_be_empty(store: Subject) {
    for (partition_key, row_key, value) in [("", "", 1), ("", "r", 2), ("p", "", 3)] {
        store.put(partition_key, row_key, number(value)).await;
    }
    for (partition_key, row_key, value) in [("", "", 1), ("", "r", 2), ("p", "", 3)] {
        assert_eq!(
            store.number(partition_key, row_key).await,
            Some(value),
            "{partition_key:?} {row_key:?}"
        );
    }
}

pub async fn the_longest_keys_are_read_back(store: Subject) {
    for character in ["x", "é", "\u{e000}", "😀"] {
        let units: usize = character.chars().map(char::len_utf16).sum();
        let longest = character.repeat(512 / units);
        store.put(&longest, &longest, number(1)).await;
        assert_eq!(store.number(&longest, &longest).await, Some(1), "{character}");
        let shorter = character.repeat(512 / units - 1);
        assert!(store.row(&longest, &shorter).await.is_none());
    }
}
