//! Any `$filter`: printing and parsing are inverse, and a plan finds exactly what the plain
//! evaluator finds in a table whose keys and values lie at and around all that the filter speaks
//! of.

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tavola_core::filter::eval::matches;
use tavola_core::filter::parse::parse;
use tavola_core::filter::plan::{AccessClass, Plan, plan};
use tavola_core::key::is_forbidden;
use tavola_core::limits::PLAN_RANGES_MAX;
use tavola_core::{
    CompiledFilter, DateTime, DomainError, EdmValue, Entity, EntityKey, Filter, KeyRange,
    PartitionKey, Properties, PropertyName, RowKey, Timestamp,
};
use tavola_store::{Row, RowFilter};

/// Bounds the table.
const PARTITIONS_MAX: usize = 12;
const ROWS_MAX: usize = 8;

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(Some(filter)) => {
            assert_eq!(parse(&filter.to_string()), Ok(Some(filter.clone())), "printed as {filter}");
            check_plan(&filter);
        }
        Ok(None) => assert!(text.trim().is_empty()),
        Err(DomainError::FilterSyntax { position, .. }) => {
            assert!(position <= text.chars().count())
        }
        Err(_) => {}
    }
});

fn check_plan(filter: &Filter) {
    let plan = plan(Some(filter));
    check_shape(&plan);
    let table = table(filter);
    // What a grant leaves of the table: one of its partitions.
    let granted = KeyRange::partition(table[table.len() / 2].key.partition_key.clone());
    let within = plan.clone().within(&granted);
    check_shape(&within);
    let mut compiled = RowFilter::new(Arc::new(CompiledFilter::new(filter)));
    for entity in table {
        let key = &entity.key;
        let wanted = matches(filter, &entity);
        assert_eq!(finds(&plan, &entity), wanted, "{entity:?} with {filter} planned as {plan}");
        assert_eq!(
            finds(&within, &entity),
            wanted && granted.contains(key),
            "{entity:?} with {filter} in {within}"
        );
        // Stores evaluate on bytes in place, and compile the filter first.
        let row =
            Row::encode(&key.partition_key, &key.row_key, &entity.properties, entity.timestamp);
        assert_eq!(matches(filter, &row), wanted, "{row:?} with {filter}");
        assert_eq!(compiled.accepts(&row), wanted, "{row:?} with {filter}, compiled");
    }
}

/// What a store relies on: ranges in ascending order, apart from each other, none empty, and not
/// too many.
fn check_shape(plan: &Plan) {
    assert!(
        plan.ranges.len() <= PLAN_RANGES_MAX && plan.ranges.iter().all(|range| !range.is_empty()),
        "{plan}"
    );
    assert!(plan.ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{plan}");
    let dearest = plan.ranges.iter().map(AccessClass::of).max();
    assert_eq!(plan.class, dearest.unwrap_or(AccessClass::Point), "{plan}");
}

fn finds(plan: &Plan, entity: &Entity) -> bool {
    let in_range = plan.ranges.iter().any(|range| range.contains(&entity.key));
    in_range && plan.residual.as_ref().is_none_or(|residual| matches(residual, entity))
}

/// Entities at and around the keys that the filter speaks of, each with other values of the
/// properties that it speaks of.
fn table(filter: &Filter) -> Vec<Entity> {
    let mut mentioned = Mentioned::default();
    mentioned.visit(filter);
    let partitions = key_texts(&mentioned.partition_keys, PARTITIONS_MAX);
    let rows = key_texts(&mentioned.row_keys, ROWS_MAX);
    let keys = partitions.iter().flat_map(|partition| rows.iter().map(move |row| (partition, row)));
    let entity = |(index, (partition, row)): (usize, (&String, &String))| {
        let key = EntityKey::new(PartitionKey::new(partition).ok()?, RowKey::new(row).ok()?);
        Some(Entity {
            key,
            timestamp: mentioned.timestamp(index),
            properties: mentioned.properties(index),
        })
    };
    keys.enumerate().filter_map(entity).collect()
}

/// The constants of a filter.
#[derive(Debug, Default)]
struct Mentioned {
    partition_keys: Vec<String>,
    row_keys: Vec<String>,
    /// All that each property is held against.
    properties: BTreeMap<String, Vec<EdmValue>>,
}

impl Mentioned {
    fn visit(&mut self, filter: &Filter) {
        match filter {
            Filter::Constant(_) => {}
            Filter::Property(name) => self.value(name, EdmValue::Boolean(true)),
            Filter::Compare { property, constant, .. } => match (property.as_str(), constant) {
                ("PartitionKey", EdmValue::String(text)) => self.partition_keys.push(text.clone()),
                ("RowKey", EdmValue::String(text)) => self.row_keys.push(text.clone()),
                (name, constant) => self.value(name, constant.clone()),
            },
            Filter::And(terms) | Filter::Or(terms) => {
                terms.iter().for_each(|term| self.visit(term))
            }
            Filter::Not(term) => self.visit(term),
        }
    }

    fn value(&mut self, name: &str, value: EdmValue) {
        self.properties.entry(name.to_owned()).or_default().push(value);
    }

    /// The properties of one of the entities: most have each property, with one of its constants or
    /// a value near it.
    fn properties(&self, index: usize) -> Properties {
        let value = |(at, (name, values)): (usize, (&String, &Vec<EdmValue>))| {
            let choice = index * 7 + at * 3;
            let constant = &values[choice % values.len()];
            let value = near(constant, choice / values.len() % 6)?;
            Some((PropertyName::new(name.clone()).ok()?, value))
        };
        Properties::new(self.properties.iter().enumerate().filter_map(value).collect())
            .unwrap_or_default()
    }

    /// The times that the filter speaks of, and that before all.
    fn timestamp(&self, index: usize) -> Timestamp {
        let times = self.properties.get("Timestamp").into_iter().flatten();
        let times: Vec<&EdmValue> =
            times.filter(|time| matches!(time, EdmValue::DateTime(_))).collect();
        match times.get(index % (times.len() + 1)) {
            Some(EdmValue::DateTime(at)) => {
                Timestamp::from_ticks(at.ticks() + index as u64 % 3).unwrap_or(Timestamp::MIN)
            }
            _ => Timestamp::MIN,
        }
    }
}

/// The constant itself, the values next to it, one of another type, or none.
fn near(constant: &EdmValue, which: usize) -> Option<EdmValue> {
    let next = |up: bool| match constant {
        EdmValue::String(text) if up => EdmValue::String(format!("{text}\u{0}")),
        EdmValue::String(text) => {
            EdmValue::String(text.chars().rev().skip(1).collect::<Vec<_>>().iter().rev().collect())
        }
        EdmValue::Int32(number) => EdmValue::Int32(number.wrapping_add(if up { 1 } else { -1 })),
        EdmValue::Int64(number) => EdmValue::Int64(number.wrapping_add(if up { 1 } else { -1 })),
        EdmValue::Double(number) => {
            EdmValue::double(if up { number.next_up() } else { number.next_down() })
        }
        EdmValue::Boolean(truth) => EdmValue::Boolean(!truth),
        EdmValue::DateTime(at) => {
            let ticks =
                if up { at.ticks().saturating_add(1) } else { at.ticks().saturating_sub(1) };
            EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap_or(*at))
        }
        EdmValue::Guid(_) => {
            EdmValue::Guid(tavola_core::Guid::from_bytes([if up { 0xff } else { 0 }; 16]))
        }
        EdmValue::Binary(bytes) if up => EdmValue::Binary([&bytes[..], &[0]].concat()),
        EdmValue::Binary(bytes) => {
            EdmValue::Binary(bytes[..bytes.len().saturating_sub(1)].to_vec())
        }
    };
    match which {
        0 | 1 => Some(constant.clone()),
        2 => Some(next(true)),
        3 => Some(next(false)),
        4 => Some(foreign(constant)),
        _ => None,
    }
}

/// A value of a type that the constant may or may not be widened to.
fn foreign(constant: &EdmValue) -> EdmValue {
    match constant {
        EdmValue::Int32(number) => EdmValue::Int64(i64::from(*number)),
        EdmValue::Int64(number) => EdmValue::double(*number as f64),
        EdmValue::Double(number) => EdmValue::Int32(*number as i32),
        EdmValue::String(_) => EdmValue::double(f64::NAN),
        other => EdmValue::String(format!("{other:?}")),
    }
}

/// Legal keys at and around these texts, and at both ends of all keys; at most so many, from all
/// over the order.
fn key_texts(mentioned: &[String], most: usize) -> Vec<String> {
    let ends = [String::new(), "\u{ffff}\u{ffff}".to_owned(), "\u{10ffff}".to_owned()];
    let mut texts: Vec<String> =
        mentioned.iter().flat_map(|text| neighbours(text)).chain(ends).collect();
    texts.retain(|text| PartitionKey::new(text).is_ok());
    texts.sort_unstable();
    texts.dedup();
    let step = texts.len().div_ceil(most);
    // Which of them are left out depends on the filter, so that all have their turn.
    let first = texts.iter().map(String::len).sum::<usize>() % step;
    texts.into_iter().skip(first).step_by(step).collect()
}

/// Keys right before and right after a text, whether or not it is a key itself.
fn neighbours(text: &str) -> Vec<String> {
    // What begins with a character that no key has lies between those that have its neighbours
    // instead.
    let legal: String =
        text.chars().take_while(|character| !is_forbidden(*character)).take(512).collect();
    let odd =
        text[legal.len()..].chars().next().or_else(|| legal.chars().next_back()).unwrap_or('a');
    let mut parent = legal.clone();
    if legal.len() == text.len() {
        parent.pop();
    }
    let below = (0..odd as u32)
        .rev()
        .filter_map(char::from_u32)
        .find(|character| !is_forbidden(*character));
    let above = (odd as u32 + 1..0x11_0000)
        .filter_map(char::from_u32)
        .find(|character| !is_forbidden(*character));
    let mut keys =
        vec![text.to_owned(), format!("{text} "), format!("{text}\u{ffff}"), legal, parent.clone()];
    keys.extend(
        below
            .into_iter()
            .flat_map(|below| [format!("{parent}{below}"), format!("{parent}{below}\u{ffff}")]),
    );
    keys.extend(above.map(|above| format!("{parent}{above}")));
    keys
}
