use std::collections::HashMap;

use tavola_core::{
    DomainError, ETag, EdmValue, EntityGroupTransaction, EntityKey, EntityOperation, NewEntity,
    PartitionKey, Precondition, Properties, PropertyName, RowKey, Timestamp,
};
use tavola_store::Row;
use tavola_store::keys::encode_text;

use super::{AfterRefusal, Condition, evaluate, needs_rows, plan_blind, plan_on};

fn partition() -> PartitionKey {
    PartitionKey::new("p").unwrap()
}

fn at(ticks: u64) -> Timestamp {
    Timestamp::from_ticks(ticks).unwrap()
}

fn properties(name: &str) -> Properties {
    Properties::new(vec![(PropertyName::new(name).unwrap(), EdmValue::Int32(1))]).unwrap()
}

fn entity(row: &str) -> NewEntity {
    NewEntity::new(EntityKey::new(partition(), RowKey::new(row).unwrap()), properties("New"))
        .unwrap()
        .1
}

fn tag(ticks: u64) -> Precondition {
    Precondition::Version(ETag::of(at(ticks)))
}

fn group(operations: Vec<EntityOperation>) -> EntityGroupTransaction {
    EntityGroupTransaction::new(
        operations.into_iter().map(|operation| (partition(), operation)).collect(),
    )
    .unwrap()
}

#[test]
fn conditions_say_what_is_assumed() {
    let row = || RowKey::new("r").unwrap();
    for (operation, condition) in [
        (EntityOperation::Insert(entity("r")), Condition::Absent),
        (EntityOperation::Replace(entity("r"), Precondition::None), Condition::None),
        (EntityOperation::Replace(entity("r"), Precondition::Exists), Condition::Present),
        (EntityOperation::Replace(entity("r"), tag(7)), Condition::At(7)),
        (EntityOperation::Delete(row(), Precondition::None), Condition::Present),
        (EntityOperation::Delete(row(), Precondition::Exists), Condition::Present),
        (EntityOperation::Delete(row(), tag(7)), Condition::At(7)),
    ] {
        let transaction = group(vec![operation]);
        assert!(!needs_rows(&transaction, at(100)), "{transaction:?}");
        let planned = plan_blind(&transaction, at(100)).unwrap();
        assert_eq!(planned[0].condition, condition, "{transaction:?}");
        assert!(!planned[0].depends_on_read);
    }
}

/// A tag from a clock ahead of ours may be real; one of the year 9999 must not move our versions.
#[test]
fn strange_tags_and_merges_need_their_rows() {
    let strange = Precondition::Version(ETag::parse("W/\"no date\"").unwrap());
    for operation in [
        EntityOperation::Merge(entity("r"), Precondition::None),
        EntityOperation::Replace(entity("r"), tag(100)),
        EntityOperation::Replace(entity("r"), tag(10_000)),
        EntityOperation::Replace(entity("r"), strange.clone()),
        EntityOperation::Delete(RowKey::new("r").unwrap(), strange),
    ] {
        assert!(needs_rows(&group(vec![operation]), at(100)));
    }
}

#[test]
fn a_merge_rests_on_the_row_that_was_read() {
    let transaction = group(vec![EntityOperation::Merge(entity("r"), Precondition::None)]);
    let row = Row::encode(&partition(), &RowKey::new("r").unwrap(), &properties("Old"), at(7));
    let rows = HashMap::from([(encode_text("r"), row)]);
    let planned = plan_on(&transaction, at(100), at(50), &rows).unwrap();
    assert_eq!((planned[0].condition, planned[0].depends_on_read), (Condition::At(7), true));
    let planned = plan_on(&transaction, at(100), at(50), &HashMap::new()).unwrap();
    assert_eq!(planned[0].condition, Condition::Absent);
    let wants_other = group(vec![EntityOperation::Merge(entity("r"), tag(8))]);
    let failed = plan_on(&wants_other, at(100), at(50), &rows).unwrap_err();
    assert_eq!((failed.index, failed.domain_error), (0, DomainError::ConditionNotMet));
}

#[test]
fn a_refused_batch_names_the_first_that_failed() {
    let transaction = group(vec![
        EntityOperation::Insert(entity("a")),
        EntityOperation::Replace(entity("b"), Precondition::Exists),
        EntityOperation::Delete(RowKey::new("c").unwrap(), tag(7)),
    ]);
    let planned = plan_blind(&transaction, at(100)).unwrap();
    let after = |rows: &[(&str, u64)]| {
        let versions = rows.iter().map(|(row, version)| (encode_text(row), *version)).collect();
        evaluate(&partition(), &transaction, &planned, &versions).unwrap()
    };
    let refused = |index, domain_error| {
        AfterRefusal::Refused(tavola_core::FailedOperation { index, domain_error })
    };
    assert_eq!(after(&[("b", 1), ("c", 7)]), AfterRefusal::Retry);
    assert_eq!(
        after(&[("a", 1), ("b", 1), ("c", 7)]),
        refused(0, DomainError::EntityAlreadyExists)
    );
    assert_eq!(after(&[]), refused(1, DomainError::EntityNotFound));
    assert_eq!(after(&[("b", 1)]), refused(2, DomainError::EntityNotFound));
    assert_eq!(after(&[("b", 1), ("c", 8)]), refused(2, DomainError::ConditionNotMet));
    // Versions above our own proposal are no reason to panic.
    assert_eq!(after(&[("a", 1_000_000), ("b", 1)]), refused(0, DomainError::EntityAlreadyExists));
}

/// A transaction that depends on a row that was read and has changed must read it again: only then
/// is it known which operation fails, and why.
#[test]
fn a_lost_race_is_run_again() {
    let transaction = group(vec![
        EntityOperation::Merge(entity("a"), Precondition::None),
        EntityOperation::Insert(entity("b")),
    ]);
    let planned = plan_on(&transaction, at(100), at(50), &HashMap::new()).unwrap();
    let versions = HashMap::from([(encode_text("a"), 3), (encode_text("b"), 3)]);
    assert_eq!(
        evaluate(&partition(), &transaction, &planned, &versions).unwrap(),
        AfterRefusal::Retry
    );
}
