//! Filters and their plans, as tables.

use time::OffsetDateTime;
use uuid::Uuid;

use super::{AnyFilter, Column, Filter, prop};
use crate::entity::DynEntity;
use crate::error::{ErrorKind, Rule};
use crate::explain::{Access, Dialect};
use crate::key::{Cursor, KeyRange};
use crate::value::Value;

const LAST: Column<DynEntity, String> = Column::new("Last");
const VISITS: Column<DynEntity, i64> = Column::new("Visits");

/// G66.
#[test]
fn constants_have_exactly_their_type() {
    let epoch = OffsetDateTime::UNIX_EPOCH;
    for (value, text) in [
        (Value::from("O'Brien"), "P eq 'O''Brien'"),
        (Value::from(5_i32), "P eq 5"),
        (Value::from(5_i64), "P eq 5L"),
        (Value::from(5.0), "P eq 5.0"),
        (Value::from(f64::NAN), "P eq NaN"),
        (Value::from(true), "P eq true"),
        (Value::from(epoch), "P eq datetime'1970-01-01T00:00:00Z'"),
        (Value::from(Uuid::from_u128(1)), "P eq guid'00000000-0000-0000-0000-000000000001'"),
        (Value::from(vec![0, 255]), "P eq X'00FF'"),
    ] {
        let filter = prop("P").eq(value);
        assert_eq!(filter.to_string(), text);
        let read = tavola_core::filter::parse::parse(text).unwrap();
        assert_eq!(read.as_ref(), filter.as_core().ok());
    }
}

/// G65, G66.
#[test]
fn columns_and_names_nest() {
    let filter = LAST.eq("Jones").and(VISITS.gt(0)).and(prop("Age").le(30).into_filter());
    assert_eq!(filter.to_string(), "Last eq 'Jones' and Visits gt 0L and Age le 30");
    let filter = LAST.starts_with("B").or(LAST.ne("C").not());
    assert_eq!(filter.to_string(), "Last ge 'B' and Last lt 'C' or not (Last ne 'C')");
    let filter = prop("A").lt(1).or(prop("A").gt(2)).and(prop("B").ge(3).or(prop("B").le(4)));
    assert_eq!(filter.to_string(), "(A lt 1 or A gt 2) and (B ge 3 or B le 4)");
}

impl AnyFilter {
    fn into_filter(self) -> Filter<DynEntity> {
        self.into()
    }
}

#[test]
fn names_and_constants_are_checked() {
    let rule = |filter: AnyFilter| match filter.as_core().unwrap_err().kind() {
        ErrorKind::Invalid { rule, .. } => *rule,
        other => panic!("{other:?}"),
    };
    assert_eq!(rule(prop("a eq 1 or b").eq(1)), Rule::PropertyName);
    let early = time::Date::from_calendar_date(1600, time::Month::December, 31).unwrap();
    let filter = prop("A").eq(1).and(prop("At").gt(early.midnight().assume_utc()));
    assert_eq!(rule(filter.or(prop("B").eq(2))), Rule::DateRange);
}

fn pk() -> AnyFilter {
    prop("PartitionKey").eq("Sales")
}

fn row(key: &str) -> AnyFilter {
    prop("RowKey").eq(key)
}

/// G44, G46, G47, G48, G188.
#[test]
fn both_planners() {
    use Access::{PartitionRange, PartitionScan, Point, RowRange, TableScan};
    let rows = |from: &str, to: &str| prop("RowKey").ge(from).and(prop("RowKey").lt(to));
    for (filter, here, azure, plan) in [
        (pk().and(row("2")), Point, Point, "point Sales/2"),
        (pk().and(rows("1", "3")), RowRange, RowRange, "scan Sales/[1..3)"),
        (pk().and(prop("RowKey").gt("1")), RowRange, RowRange, "scan Sales/(1..*)"),
        (
            pk().and(prop("Last").eq("Smith")),
            PartitionScan,
            PartitionScan,
            "scan Sales/* where Last eq 'Smith'",
        ),
        (prop("Last").eq("Jones"), TableScan, TableScan, "scan * where Last eq 'Jones'"),
        (row("7"), TableScan, TableScan, "scan * where RowKey eq '7'"),
        (pk().and(row("1").or(row("2"))), Point, PartitionScan, "point Sales/1, Sales/2"),
        (pk().and(row("1")).or(pk().and(row("2"))), Point, TableScan, "point Sales/1, Sales/2"),
        (
            pk().and(prop("RowKey").ne("5")),
            RowRange,
            PartitionScan,
            "scan Sales/(*..5), Sales/(5..*)",
        ),
        (prop("PartitionKey").starts_with("S"), PartitionRange, PartitionRange, "scan [S..T)"),
        (pk().not(), PartitionRange, TableScan, "scan (*..Sales), (Sales..*)"),
    ] {
        let explain = filter.explain().unwrap();
        assert_eq!((explain.here, explain.azure), (here, azure), "{filter}");
        assert_eq!(explain.plan, plan, "{filter}");
        assert_eq!(explain.filter, Some(filter.to_string()));
        let lints: Vec<_> = explain.advice.iter().map(|advice| advice.lint).collect();
        assert_eq!(lints.contains(&"or-of-keys"), here < azure, "{filter}");
        assert_eq!(lints.contains(&"scan"), here >= PartitionScan, "{filter}");
        for (dialect, access) in [(Dialect::Tavola, here), (Dialect::Azure, azure)] {
            let denied = explain.deny_scans(dialect).map_err(|error| error.kind().clone());
            let scan = access >= PartitionScan;
            let expected = if scan { Err(ErrorKind::ScanDenied { access }) } else { Ok(()) };
            assert_eq!(denied, expected, "{filter}");
        }
    }
}

#[test]
fn ranges_of_keys_are_filters() {
    let text = |range: KeyRange<DynEntity>| range.to_filter().unwrap().to_string();
    let sales = || Cursor::default().literal("Sales").row();
    assert_eq!(
        text(sales().literal("empid_").range()),
        "PartitionKey eq 'Sales' and RowKey ge 'empid_' and RowKey lt 'empid`'"
    );
    assert_eq!(text(sales().range()), "PartitionKey eq 'Sales' and RowKey ge '\"'");
    assert_eq!(
        text(sales().literal("dept").point().into()),
        "PartitionKey eq 'Sales' and RowKey eq 'dept'"
    );
    assert_eq!(
        text(Cursor::default().literal("d_").range()),
        "PartitionKey ge 'd_' and PartitionKey lt 'd`'"
    );
}

#[test]
fn many_comparisons_are_advised_against() {
    let filter = (0..16).map(|n| prop("A").eq(n)).reduce(AnyFilter::or).unwrap();
    let explain = pk().and(row("1")).and(filter).explain().unwrap();
    assert_eq!(
        explain.advice.iter().map(|advice| advice.lint).collect::<Vec<_>>(),
        ["comparisons"]
    );
}
