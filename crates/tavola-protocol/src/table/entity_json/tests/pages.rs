//! A page remembers what its last entities looked like; that must never show in the answer.

use proptest::prelude::*;
use tavola_core::request::Select;
use tavola_core::{DateTime, EdmRef, EdmValue, EntityView, Guid, Text, Timestamp};

use super::{LINKS, names};
use crate::table::entity_json::{MetadataLevel, write_entity_set};

/// Few, so that they meet at the same places; the last ones are no names of properties, as only
/// damage can leave them.
const NAMES: [&str; 8] = ["A", "B", "Count", "CountX", "Größe", "a\"", "a\\\"", "\\\""];

/// An entity of any shape.
#[derive(Debug, Clone)]
struct Shape {
    ticks: u64,
    properties: Vec<(&'static str, EdmValue)>,
}

impl EntityView for Shape {
    fn partition_key(&self) -> Text<'_> {
        "p".into()
    }

    fn row_key(&self) -> Text<'_> {
        "r\"".into()
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_ticks(self.ticks).unwrap()
    }

    fn property(&self, name: &str) -> Option<EdmRef<'_>> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_ref())
    }

    fn visit(&self, visit: &mut dyn FnMut(Text<'_>, EdmRef<'_>)) {
        self.properties.iter().for_each(|(name, value)| visit((*name).into(), value.as_ref()));
    }
}

fn any_value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        any::<bool>().prop_map(EdmValue::Boolean),
        any::<f64>().prop_map(EdmValue::double),
        (0..3_u64)
            .prop_map(|ticks| EdmValue::DateTime(DateTime::from_ticks(ticks * 5_000_000).unwrap())),
        any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(Guid::from_bytes(bytes))),
        "[a-z\"\\\\é]{0,40}".prop_map(EdmValue::String),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(EdmValue::Binary),
    ]
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let property = (proptest::sample::select(&NAMES[..]), any_value());
    let ticks =
        (0..3_u64, 0..10_000_000_u64).prop_map(|(second, fraction)| second * 10_000_000 + fraction);
    (ticks, proptest::collection::vec(property, 0..6))
        .prop_map(|(ticks, properties)| Shape { ticks, properties })
}

/// The entities of a page, without what stands around them.
fn members(shapes: &[Shape], level: MetadataLevel, select: &Select) -> String {
    let boxed: Vec<_> = shapes.iter().map(|shape| Box::new(shape.clone()) as _).collect();
    let mut out = Vec::new();
    write_entity_set(&mut out, &boxed, level, select, &LINKS);
    let text = String::from_utf8(out).unwrap();
    let start = text.find("\"value\":[").unwrap() + "\"value\":[".len();
    text[start..text.len() - "]}".len()].to_owned()
}

proptest! {
    #[test]
    fn each_entity_is_written_as_if_it_were_alone(shapes in proptest::collection::vec(any_shape(), 0..8)) {
        for level in [MetadataLevel::None, MetadataLevel::Minimal, MetadataLevel::Full] {
            for select in [Select::All, names(&["B", "Count", "Timestamp", "A", "Größe"])] {
                let alone: Vec<String> =
                    shapes.iter().map(|shape| members(std::slice::from_ref(shape), level, &select)).collect();
                prop_assert_eq!(members(&shapes, level, &select), alone.join(","));
            }
        }
    }
}
