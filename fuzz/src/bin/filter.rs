//! Any `$filter`: printing and parsing are inverse, and a plan finds what a scan of the whole table finds.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use tavola_core::filter::eval::matches;
use tavola_core::filter::parse::parse;
use tavola_core::filter::plan::{Plan, plan};
use tavola_core::limits::PLAN_RANGES_MAX;
use tavola_core::{
    EdmValue, Entity, EntityKey, Filter, PartitionKey, Properties, PropertyName, Refusal, RowKey, Timestamp,
};

/// Bounds the table: this many keys squared.
const KEY_TEXTS_MAX: usize = 10;

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(Some(filter)) => {
            assert_eq!(parse(&filter.to_string()), Ok(Some(filter.clone())), "printed as {filter}");
            check_plan(&filter);
        }
        Ok(None) => assert!(text.trim().is_empty()),
        Err(Refusal::FilterSyntax { position, .. }) => assert!(position <= text.chars().count()),
        Err(_) => {}
    }
});

fn check_plan(filter: &Filter) {
    let plan = plan(Some(filter));
    assert!(plan.ranges.len() <= PLAN_RANGES_MAX && plan.ranges.iter().all(|range| !range.is_empty()), "{plan}");
    assert!(plan.ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{plan}");
    for entity in table(filter) {
        let key = &entity.key;
        assert_eq!(finds(&plan, &entity), matches(filter, &entity), "{key:?} with {filter} planned as {plan}");
    }
}

fn finds(plan: &Plan, entity: &Entity) -> bool {
    let in_range = plan.ranges.iter().any(|range| range.contains(&entity.key));
    in_range && plan.residual.as_ref().is_none_or(|residual| matches(residual, entity))
}

/// Entities at and around the keys that the filter speaks of; every other one has the properties that it speaks of.
fn table(filter: &Filter) -> Vec<Entity> {
    let mut mentioned = Mentioned::default();
    mentioned.visit(filter);
    let texts = mentioned.key_texts();
    let named =
        mentioned.properties.into_iter().filter_map(|(name, value)| Some((PropertyName::new(name).ok()?, value)));
    let properties = Properties::new(named.collect()).unwrap_or_default();
    let mut entities = Vec::new();
    for partition in &texts {
        for row in &texts {
            let (Ok(partition_key), Ok(row_key)) = (PartitionKey::new(partition), RowKey::new(row)) else { continue };
            let properties = if entities.len() % 2 == 0 { properties.clone() } else { Properties::default() };
            let key = EntityKey::new(partition_key, row_key);
            entities.push(Entity { key, timestamp: Timestamp::MIN, properties });
        }
    }
    entities
}

/// The constants of a filter: of the keys, and the first one of each property.
#[derive(Debug, Default)]
struct Mentioned {
    keys: Vec<String>,
    properties: BTreeMap<String, EdmValue>,
}

impl Mentioned {
    fn visit(&mut self, filter: &Filter) {
        match filter {
            Filter::Constant(_) => {}
            Filter::Property(name) => drop(self.properties.insert(name.clone(), EdmValue::Boolean(true))),
            Filter::Compare { property, constant, .. } => match constant {
                EdmValue::String(text) if property == "PartitionKey" || property == "RowKey" => {
                    self.keys.push(text.clone());
                }
                _ => drop(self.properties.entry(property.clone()).or_insert_with(|| constant.clone())),
            },
            Filter::And(terms) | Filter::Or(terms) => terms.iter().for_each(|term| self.visit(term)),
            Filter::Not(term) => self.visit(term),
        }
    }

    /// Each key, one right after it, and the least of all.
    fn key_texts(&self) -> Vec<String> {
        let around = self.keys.iter().flat_map(|text| [text.clone(), format!("{text} ")]);
        let mut texts: Vec<String> = std::iter::once(String::new()).chain(around).collect();
        texts.sort_unstable();
        texts.dedup();
        texts.truncate(KEY_TEXTS_MAX);
        texts
    }
}
