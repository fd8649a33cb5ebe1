//! What the tests of the filter language share.

use proptest::prelude::*;

use crate::edm::{EdmValue, Guid};
use crate::entity::{Entity, Properties, PropertyName};
use crate::etag::Timestamp;
use crate::filter::parse::parse;
use crate::filter::{Comparison, Filter};
use crate::key::{EntityKey, PartitionKey, RowKey};
use crate::time::DateTime;

/// A filter that must parse.
pub(super) fn filter(text: &str) -> Filter {
    parse(text)
        .unwrap_or_else(|domain_error| panic!("{text}: {domain_error:?}"))
        .unwrap_or_else(|| panic!("no filter"))
}

/// A constant in the spelling of filters.
pub(super) fn constant(literal: &str) -> EdmValue {
    match filter(&format!("P eq {literal}")) {
        Filter::Compare { constant, .. } => constant,
        other => panic!("{literal} parsed as {other}"),
    }
}

/// A key, `partition/row`.
pub(super) fn key(text: &str) -> EntityKey {
    let (partition, row) = text.split_once('/').unwrap();
    EntityKey::new(PartitionKey::new(partition).unwrap(), RowKey::new(row).unwrap())
}

/// An entity, `partition/row Name=literal Name=literal`. It was written at the start of 2024.
pub(super) fn entity(text: &str) -> Entity {
    let mut words = text.split_whitespace();
    let key = key(words.next().unwrap());
    let property = |word: &str| {
        let (name, literal) = word.split_once('=').unwrap();
        (PropertyName::new(name).unwrap(), constant(literal))
    };
    let properties = Properties::new(words.map(property).collect()).unwrap();
    Entity {
        key,
        timestamp: Timestamp::new(DateTime::parse("2024-01-01T00:00:00Z").unwrap()),
        properties,
    }
}

/// The columns of a table of cases: one case per line, columns between bars, blank lines and `#`
/// lines left out.
pub(super) fn cases<const COLUMNS: usize>(table: &str) -> Vec<[&str; COLUMNS]> {
    let lines =
        table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            columns.try_into().unwrap_or_else(|_| panic!("{line}: wrong number of columns"))
        })
        .collect()
}

/// Constants of every type, the odd ones included.
pub(super) fn any_constant() -> impl Strategy<Value = EdmValue> {
    let date_time =
        (0..=DateTime::MAX.ticks()).prop_map(|ticks| DateTime::from_ticks(ticks).unwrap());
    prop_oneof![
        any::<String>().prop_map(EdmValue::String),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        prop::num::f64::ANY.prop_map(EdmValue::double),
        any::<bool>().prop_map(EdmValue::Boolean),
        date_time.prop_map(EdmValue::DateTime),
        any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(Guid::from_bytes(bytes))),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(EdmValue::Binary),
    ]
}

/// Trees over these terms. Lists have at least two parts, as in every tree that was parsed.
pub(super) fn trees(
    terms: impl Strategy<Value = Filter> + 'static,
) -> impl Strategy<Value = Filter> {
    terms.prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            3 => list.clone().prop_map(Filter::And),
            3 => list.prop_map(Filter::Or),
            1 => inner.prop_map(|term| Filter::Not(Box::new(term))),
        ]
    })
}

/// Any tree that has a text.
pub(super) fn filter_tree() -> impl Strategy<Value = Filter> {
    let name =
        || prop::sample::select(vec!["a", "_b", "PartitionKey", "Größe", "X", "mod", "true1"]);
    let comparison = prop::sample::select(Comparison::ALL.to_vec());
    let compare =
        (name(), comparison, any_constant()).prop_map(|(property, comparison, constant)| {
            Filter::Compare { property: property.to_owned(), comparison, constant }
        });
    trees(prop_oneof![
        6 => compare,
        1 => name().prop_map(|name| Filter::Property(name.to_owned())),
        1 => any::<bool>().prop_map(Filter::Constant),
    ])
}
