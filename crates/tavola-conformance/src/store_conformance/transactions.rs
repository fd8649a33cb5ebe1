//! All or nothing.

use tavola_core::{
    DomainError, EdmValue, FailedOperation, KeyRange, Outcome, Precondition, TableId,
};

use super::fixture::{
    Subject, at, delete, insert, merge, now, number, number_of, partition, properties, replace,
    version, written_at,
};

pub async fn a_transaction_is_applied_whole(store: Subject) {
    store.put("p", "old", number(1)).await;
    store.put("p", "gone", number(2)).await;
    let operations = vec![
        insert("new", number(3)),
        replace("old", number(4), Precondition::Exists),
        delete("gone", Precondition::Exists),
        merge("merged", number(5), Precondition::None),
    ];
    let outcomes = store.commit("p", operations).await.expect("nothing is refused");
    assert!(matches!(
        outcomes[..],
        [Outcome::Written(_), Outcome::Written(_), Outcome::Deleted, Outcome::Written(_)]
    ));
    assert_eq!(store.number("p", "new").await, Some(3));
    assert_eq!(store.number("p", "old").await, Some(4));
    assert_eq!(store.number("p", "gone").await, None);
    assert_eq!(store.number("p", "merged").await, Some(5));
}

pub async fn a_refusal_leaves_nothing(store: Subject) {
    let before = store.put("p", "old", number(1)).await;
    let operations = vec![
        insert("new", number(2)),
        replace("old", number(3), Precondition::None),
        delete("absent", Precondition::None),
        insert("newer", number(4)),
    ];
    let failed = store.commit("p", operations).await;
    assert_eq!(
        failed,
        Err(FailedOperation { index: 2, domain_error: DomainError::EntityNotFound })
    );
    assert_eq!(store.rows(super::fixture::TABLE, KeyRange::ALL).await.len(), 1);
    assert_eq!(store.number("p", "old").await, Some(1));
    assert!(
        store.commit("p", vec![replace("old", number(5), version(before))]).await.is_ok(),
        "its version is unchanged"
    );
}

pub async fn the_first_failing_operation_is_named(store: Subject) {
    let version_1 = store.put("p", "a", number(1)).await;
    store.put("p", "a", number(2)).await;
    let operations = vec![
        insert("b", number(1)),
        replace("a", number(3), version(version_1)),
        insert("a2", number(1)),
        delete("absent", Precondition::None),
    ];
    let failed = store.commit("p", operations).await;
    assert_eq!(
        failed,
        Err(FailedOperation { index: 1, domain_error: DomainError::ConditionNotMet })
    );
}

pub async fn a_transaction_has_one_version(store: Subject) {
    let operations = vec![insert("a", number(1)), merge("b", number(1), Precondition::None)];
    let outcomes = store.commit("p", operations).await.expect("nothing is refused");
    assert_eq!(outcomes[0], outcomes[1]);
    let rows = store.rows(super::fixture::TABLE, KeyRange::partition(partition("p"))).await;
    assert!(
        rows.iter()
            .all(|row| Outcome::Written(tavola_core::EntityView::timestamp(row)) == outcomes[0])
    );
}

pub async fn a_hundred_large_operations_are_one_transaction(store: Subject) {
    let large = |n: i32| {
        properties([("N", EdmValue::Int32(n)), ("Bytes", EdmValue::Binary(vec![n as u8; 40_000]))])
    };
    let operations = (0..100).map(|n| insert(&format!("{n:03}"), large(n))).collect();
    assert_eq!(store.commit("p", operations).await.map(|outcomes| outcomes.len()), Ok(100));
    let rows = store.rows(super::fixture::TABLE, KeyRange::partition(partition("p"))).await;
    assert_eq!(rows.iter().map(number_of).collect::<Vec<i32>>(), (0..100).collect::<Vec<i32>>());
    let deletes = (0..100).map(|n| delete(&format!("{n:03}"), Precondition::Exists)).collect();
    assert!(store.commit("p", deletes).await.is_ok());
    assert!(store.rows(super::fixture::TABLE, KeyRange::ALL).await.is_empty());
}

pub async fn partitions_and_tables_are_apart(store: Subject) {
    let (one, other) = (TableId::new(500), TableId::new(501));
    store.put_in(one, "p", "r", number(1)).await;
    store.put_in(one, "q", "r", number(2)).await;
    store.put_in(other, "p", "r", number(3)).await;
    assert!(store.commit_at(one, "p", vec![delete("r", Precondition::None)], now()).await.is_ok());
    assert!(store.row_in(one, "p", "r").await.is_none());
    assert_eq!(store.row_in(one, "q", "r").await.as_ref().map(number_of), Some(2));
    assert_eq!(store.row_in(other, "p", "r").await.as_ref().map(number_of), Some(3));
}

pub async fn versions_rise_while_the_clock_stands(store: Subject) {
    let first = store.put("p", "r", number(1)).await;
    assert!(first >= now(), "a version is not below the clock");
    let second = store.put("p", "r", number(2)).await;
    assert!(second > first);
    assert!(store.put("p", "other", number(3)).await > second, "in the whole partition");
}

pub async fn versions_rise_while_the_clock_goes_back(store: Subject) {
    let mut last = at(0);
    for ticks in [1_000_000, 2_000_000, 500, 0, 2_000_000, 3_000_000] {
        let operation = replace("r", number(1), Precondition::None);
        let written = written_at(
            &store.commit_at(super::fixture::TABLE, "p", vec![operation], at(ticks)).await,
        );
        assert!(
            written > last && written >= at(ticks),
            "{written:?} after {last:?} with the clock at {ticks}"
        );
        last = written;
    }
}

pub async fn a_version_never_comes_back_with_the_entity(store: Subject) {
    let first = store.put("p", "r", number(1)).await;
    assert!(store.commit("p", vec![delete("r", Precondition::None)]).await.is_ok());
    let insert = insert("r", number(1));
    let again = written_at(&store.commit_at(super::fixture::TABLE, "p", vec![insert], at(5)).await);
    assert!(again > first, "whatever the clock says");
    assert_eq!(
        store.domain_error("p", delete("r", version(first))).await,
        DomainError::ConditionNotMet
    );
}

pub async fn a_later_clock_is_followed(store: Subject) {
    store.put("p", "r", number(1)).await;
    let later = at(now().ticks() + 10_000_000);
    let operation = replace("r", number(2), Precondition::None);
    let written =
        written_at(&store.commit_at(super::fixture::TABLE, "p", vec![operation], later).await);
    assert!(written >= later);
}
