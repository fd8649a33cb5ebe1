//! The planner against its definition: a full scan with the plain evaluator.

use proptest::prelude::*;

use crate::edm::EdmValue;
use crate::entity::{Entity, Properties, PropertyName};
use crate::etag::Timestamp;
use crate::filter::eval::matches;
use crate::filter::plan::{AccessClass, Plan, plan};
use crate::filter::testing::trees;
use crate::filter::{Comparison, Filter};
use crate::key::{EntityKey, PartitionKey, RowKey};
use crate::limits::PLAN_RANGES_MAX;

/// Keys that are near each other, near the places where encodings disagree, and near the longest
/// ones.
fn key_texts() -> Vec<String> {
    let short = ["", " ", "!", "$", "0", ".", "a", "a ", "a.", "a0", "aa", "b", "~", "\u{a0}"];
    let wide =
        ["\u{d7ff}", "\u{10000}", "\u{10ffff}", "\u{e000}", "\u{ffff}", "a\u{10000}", "a\u{e000}"];
    let mut texts: Vec<String> = short.iter().chain(&wide).map(|&text| text.to_owned()).collect();
    texts.push("a".repeat(511));
    texts.push("a".repeat(512));
    texts.push(format!("{}\u{d7ff}", "a".repeat(511)));
    texts.push(format!("{}\u{e000}", "a".repeat(511)));
    texts.push(format!("{}b", "a".repeat(511)));
    texts
}

/// Keys, and texts that are none.
fn constant_texts() -> Vec<String> {
    let illegal = [
        "/",
        "a/",
        "a/b",
        "a\u{0}",
        "\u{1f}",
        "#",
        "?",
        "a?",
        "\\",
        "\u{7f}",
        "a\u{9f}z",
        "\u{10000}/",
    ];
    let mut texts = key_texts();
    texts.extend(illegal.map(str::to_owned));
    texts.push("a".repeat(513));
    texts.push(format!("{}\u{10000}", "a".repeat(511)));
    texts.push(format!("{}\u{10000}z", "a".repeat(511)));
    texts.push(format!("{}/", "a".repeat(511)));
    texts.push(format!("{}/", "a".repeat(512)));
    texts
}

/// Most keys are drawn from few texts, so that conditions meet.
fn key_text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["a".to_owned(), "b".to_owned(), String::new()]),
        prop::sample::select(key_texts()),
    ]
}

fn constant_text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["a".to_owned(), "b".to_owned(), String::new()]),
        prop::sample::select(constant_texts()),
    ]
}

fn small_value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        (0..3).prop_map(EdmValue::Int32),
        (0..3_i64).prop_map(EdmValue::Int64),
        prop::sample::select(vec![0.0, 1.0, f64::NAN]).prop_map(EdmValue::Double),
        any::<bool>().prop_map(EdmValue::Boolean),
        prop::sample::select(vec!["", "a"]).prop_map(|text| EdmValue::String(text.to_owned())),
    ]
}

fn compare(property: &str, comparison: Comparison, constant: EdmValue) -> Filter {
    Filter::Compare { property: property.to_owned(), comparison, constant }
}

fn term() -> impl Strategy<Value = Filter> {
    let comparison = || prop::sample::select(Comparison::ALL.to_vec());
    let key = || prop::sample::select(vec!["PartitionKey", "RowKey"]);
    let property = || prop::sample::select(vec!["A", "B", "C"]);
    prop_oneof![
        12 => (key(), comparison(), constant_text())
            .prop_map(|(key, comparison, text)| compare(key, comparison, EdmValue::String(text))),
        4 => (prop::sample::select(vec!["PartitionKey", "RowKey"]), constant_text())
            .prop_map(|(key, text)| compare(key, Comparison::Equal, EdmValue::String(text))),
        1 => (key(), comparison(), small_value()).prop_map(|(key, comparison, value)| compare(key, comparison, value)),
        4 => (property(), comparison(), small_value())
            .prop_map(|(property, comparison, value)| compare(property, comparison, value)),
        1 => property().prop_map(|name| Filter::Property(name.to_owned())),
        1 => key().prop_map(|name| Filter::Property(name.to_owned())),
        1 => any::<bool>().prop_map(Filter::Constant),
    ]
}

fn entity() -> impl Strategy<Value = Entity> {
    let properties =
        prop::collection::vec((prop::sample::select(vec!["A", "B"]), small_value()), 0..2);
    (key_text(), key_text(), properties).prop_map(|(partition, row, properties)| {
        let properties = properties
            .into_iter()
            .map(|(name, value)| (PropertyName::new(name).unwrap(), value))
            .collect();
        Entity {
            key: EntityKey::new(PartitionKey::new(partition).unwrap(), RowKey::new(row).unwrap()),
            timestamp: Timestamp::MIN,
            properties: Properties::new(properties).unwrap(),
        }
    })
}

/// A table: its entities in the order of their keys, each key once.
fn table() -> impl Strategy<Value = Vec<Entity>> {
    prop::collection::vec(entity(), 0..40).prop_map(|mut entities| {
        entities.sort_by(|left, right| left.key.cmp(&right.key));
        entities.dedup_by(|right, left| left.key == right.key);
        entities
    })
}

/// What a store returns that reads range after range.
fn read<'e>(plan: &'e Plan, table: &'e [Entity]) -> Vec<&'e Entity> {
    let in_range = |range| {
        table.iter().filter(move |entity| crate::range::KeyRange::contains(range, &entity.key))
    };
    let wanted =
        |entity: &&Entity| plan.residual.as_ref().is_none_or(|residual| matches(residual, *entity));
    plan.ranges.iter().flat_map(in_range).filter(wanted).collect()
}

fn check_ranges(plan: &Plan) -> Result<(), TestCaseError> {
    prop_assert!(plan.ranges.len() <= PLAN_RANGES_MAX);
    prop_assert!(plan.ranges.iter().all(|range| !range.is_empty()), "{}", plan);
    prop_assert!(plan.ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{}", plan);
    let dearest = plan.ranges.iter().map(AccessClass::of).max().unwrap_or(AccessClass::Point);
    prop_assert_eq!(plan.class, dearest);
    prop_assert!(
        plan.residual.is_none() || !plan.ranges.is_empty(),
        "nothing to check in {}",
        plan
    );
    Ok(())
}

fn check(filter: &Filter, table: &[Entity]) -> Result<(), TestCaseError> {
    let plan = plan(Some(filter));
    check_ranges(&plan)?;
    let scanned: Vec<&Entity> = table.iter().filter(|entity| matches(filter, *entity)).collect();
    prop_assert_eq!(read(&plan, table), scanned, "{} planned as {}", filter, plan);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_returns_what_a_full_scan_returns(filter in trees(term()), table in table()) {
        check(&filter, &table)?;
    }

    #[test]
    fn one_key_comparison_is_planned_exactly(
        comparison in prop::sample::select(Comparison::ALL.to_vec()),
        text in constant_text(),
        table in table(),
    ) {
        let on_rows = compare("RowKey", comparison, EdmValue::String(text.clone()));
        let in_partition = Filter::And(vec![compare("PartitionKey", Comparison::Equal, EdmValue::String("a".into())), on_rows]);
        let on_partitions = compare("PartitionKey", comparison, EdmValue::String(text));
        for filter in [in_partition, on_partitions] {
            check(&filter, &table)?;
            prop_assert_eq!(plan(Some(&filter)).residual, None);
        }
    }
}

/// Many points, so that plans have more ranges than they may, with and without their rows.
fn points(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0..200_u8, 0..6_u8), count)
}

fn grid_text(number: u8) -> String {
    format!("k{number:03}")
}

fn grid_table(points: Vec<(u8, u8)>) -> Vec<Entity> {
    let sorted: std::collections::BTreeSet<(u8, u8)> = points.into_iter().collect();
    let entity = |(partition, row)| Entity {
        key: EntityKey::new(
            PartitionKey::new(grid_text(partition)).unwrap(),
            RowKey::new(grid_text(row)).unwrap(),
        ),
        timestamp: Timestamp::MIN,
        properties: Properties::default(),
    };
    sorted.into_iter().map(entity).collect()
}

/// The entities at these points, or all others.
fn grid_filter(points: &[(u8, u8)], others: bool) -> Filter {
    let equal =
        |key: &str, number| compare(key, Comparison::Equal, EdmValue::String(grid_text(number)));
    let point = |&(partition, row): &(u8, u8)| {
        Filter::And(vec![equal("PartitionKey", partition), equal("RowKey", row)])
    };
    let any = Filter::Or(points.iter().map(point).collect());
    if others { Filter::Not(Box::new(any)) } else { any }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn wide_filters_stay_bounded(
        groups in prop::collection::vec(prop::collection::vec(trees(term()), 1..60), 1..6),
        table in table(),
    ) {
        let all_of_any = Filter::And(groups.iter().cloned().map(Filter::Or).collect());
        check(&all_of_any, &table)?;
        let any_of_all = Filter::Or(groups.into_iter().map(Filter::And).collect());
        check(&any_of_all, &table)?;
    }

    #[test]
    fn many_points_are_found_whether_or_not_they_fit(
        table in points(0..100),
        wanted in points(1..250),
        unwanted in points(1..120),
    ) {
        let table = grid_table(table);
        let (wanted, unwanted) = (grid_filter(&wanted, false), grid_filter(&unwanted, true));
        check(&wanted, &table)?;
        check(&unwanted, &table)?;
        check(&Filter::And(vec![wanted.clone(), unwanted.clone()]), &table)?;
        check(&Filter::Or(vec![wanted, Filter::Not(Box::new(unwanted))]), &table)?;
    }
}
