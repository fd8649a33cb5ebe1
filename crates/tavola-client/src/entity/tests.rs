//! Entities on their way to the core and back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tavola_core::{
    EdmValue, Entity as CoreEntity, EntityView, Properties, PropertyName, Timestamp,
};
use time::OffsetDateTime;

use super::names::expand;
use super::projection::Selection;
use super::{
    Decoder, DynEntity, Entity, Projected, RowHead, Stored, decode_view, encode_properties, only,
};
use crate::error::{ErrorKind, Rule};
use crate::etag::ETag;
use crate::value::{Value, ValueRef};

#[derive(Debug, Clone, PartialEq, tavola_derive::Entity)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
#[entity(index(last, row = "last_{last}!{id:06}"))]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    age: Option<i32>,
    #[entity(timestamp)]
    at: Option<OffsetDateTime>,
}

#[derive(Debug, PartialEq, tavola_derive::Projection)]
#[projection(of = Employee)]
struct Card {
    last: String,
    age: Option<i32>,
}

fn stored_row(properties: &[(&str, EdmValue)]) -> CoreEntity {
    let named =
        |(name, value): &(&str, EdmValue)| (PropertyName::new(*name).unwrap(), value.clone());
    CoreEntity {
        key: super::EntityKey::new("Sales", "empid_000001").unwrap().as_core().clone(),
        timestamp: Timestamp::from_ticks(10_000_000).unwrap(),
        properties: Properties::new(properties.iter().map(named).collect()).unwrap(),
    }
}

fn text(text: &str) -> EdmValue {
    EdmValue::String(text.to_owned())
}

/// G96.
#[test]
fn a_row_keeps_its_version_and_what_is_not_known() {
    let row = stored_row(&[
        ("colour", text("red")),
        ("last", text("Jones")),
        ("EntityType", text("employee")),
    ]);
    let mut stored: Stored<Employee> = decode_view(&row).unwrap();
    assert_eq!(stored.key().to_string(), "('Sales', 'empid_000001')");
    assert_eq!(stored.etag().as_str(), "W/\"datetime'1601-01-01T00%3A00%3A01Z'\"");
    assert_eq!(stored.etag().timestamp(), Some(stored.timestamp()));
    assert_eq!(stored.at, Some(stored.timestamp()));
    assert_eq!(stored.rest(), [("colour".to_owned(), Value::from("red"))]);
    let last = |stored: &Stored<Employee>| match stored.index_keys() {
        [Some(key)] => key.row().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(last(&stored), "last_Jones!000001");
    stored.age = Some(7);
    stored.last = "Hall".to_owned();
    assert_eq!(last(&stored), "last_Jones!000001");
    let written = encode_properties(&*stored, stored.rest()).unwrap();
    let names: Vec<_> = written.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["EntityType", "last", "age", "colour"]);
    let later = ETag::new("W/\"datetime'1601-01-01T00%3A00%3A02Z'\"");
    stored.set_version(later.clone(), later.timestamp().unwrap());
    assert_eq!((stored.etag(), stored.at), (&later, later.timestamp()));
    assert_eq!(last(&stored), "last_Hall!000001");
}

#[test]
fn what_the_type_knows_is_not_taken_from_the_rest() {
    let mut row = stored_row(&[("last", text("Jones")), ("EntityType", text("employee"))]);
    row.timestamp = Timestamp::MIN;
    let stored: Stored<Employee> = decode_view(&row).unwrap();
    // `age` was removed, whatever another version of the type left in the rest.
    let rest = [("age".to_owned(), Value::from(9)), ("EntityType".to_owned(), Value::from("x"))];
    let written = encode_properties(&*stored, &rest).unwrap();
    assert!(written.get("age").is_none());
    assert_eq!(written.len(), 2);
    assert_eq!(row.property("last"), written.get("last"));
}

/// G14.
#[test]
fn limits_are_checked_before_anything_is_sent() {
    let rule = |entity: &DynEntity| match encode_properties(entity, &[]).unwrap_err().kind() {
        ErrorKind::Invalid { rule, limit, found } => (*rule, *limit, *found),
        other => panic!("{other:?}"),
    };
    let with = |name: &str, value: Value| {
        let mut entity = DynEntity::new("p", "r");
        entity.set(name, value);
        entity
    };
    let long = "é".repeat(32_769);
    assert_eq!(rule(&with("a", long.into())), (Rule::PropertySize, Some(32_768), Some(32_769)));
    assert_eq!(
        rule(&with("a", vec![0; 65_537].into())),
        (Rule::PropertySize, Some(65_536), Some(65_537))
    );
    assert_eq!(rule(&with("a b", 1.into())).0, Rule::PropertyName);
    assert_eq!(rule(&with("Timestamp", 1.into())).0, Rule::PropertyName);
    let mut many = DynEntity::new("p", "r");
    for at in 0..253 {
        many.set(format!("p{at}"), at);
    }
    assert_eq!(rule(&many), (Rule::PropertyCount, Some(252), Some(253)));
    let mut large = DynEntity::new("p", "r");
    for at in 0..17 {
        large.set(format!("p{at}"), vec![0; 65_536]);
    }
    assert_eq!(rule(&large).0, Rule::EntitySize);
    assert_eq!(rule(&DynEntity::new("p/", "r")).0, Rule::KeyCharacter);
}

fn select<S: Selection<Employee>>(
    selection: &S,
    properties: &[(&str, ValueRef<'_>)],
) -> Result<Projected<S::Out>, crate::Error> {
    let etag = ETag::new("W/\"x\"");
    let head = RowHead {
        partition: "Sales",
        row: "empid_000001",
        etag: &etag,
        timestamp: OffsetDateTime::UNIX_EPOCH,
    };
    let mut decoder = selection.decoder();
    properties.iter().for_each(|(name, value)| decoder.property(name, *value));
    Projected::new(&head, decoder.finish(&head)?)
}

/// G58.
#[test]
fn projections_and_tuples_read_what_they_ask_for() {
    let row = [("last", ValueRef::String("Jones")), ("age", ValueRef::Int32(7))];
    let card = select(&only::<Card>(), &row).unwrap();
    assert_eq!(*card, Card { last: "Jones".to_owned(), age: Some(7) });
    assert_eq!((card.key().row(), card.etag().as_str()), ("empid_000001", "W/\"x\""));
    let pair = select(&(Employee::AGE, Employee::LAST), &row).unwrap();
    assert_eq!(pair.into_inner(), (Some(7), "Jones".to_owned()));
    let alone = select(&(Employee::LAST, Employee::AGE), &row[..1]).unwrap();
    assert_eq!(*alone, ("Jones".to_owned(), None));
    assert!(select(&(Employee::LAST,), &row[1..]).is_err());
    assert!(select(&only::<Card>(), &row[1..]).is_err());
    let wrong = [("last", ValueRef::Int32(7))];
    assert!(select(&(Employee::LAST,), &wrong).is_err());
    assert!(select(&only::<Card>(), &wrong).is_err());
}

#[test]
fn the_names_of_a_type_are_those_that_it_writes() {
    let names = Employee::NAMES.map(expand).unwrap();
    assert_eq!(names, ["EntityType", "last", "age"]);
}
