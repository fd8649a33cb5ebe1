//! Each side reads what the other wrote, and neither falls over what nobody wrote.

use proptest::prelude::*;
use tavola_core::entity::{EntityView as _, Properties, PropertyName};
use tavola_core::request::Select;
use tavola_core::{
    DateTime, ETag, EdmValue, Entity, EntityKey, Guid, PartitionKey, RowKey, Timestamp,
};

use super::{written, written_set};
use crate::table::entity_json::{
    DecodedEntity, EntityBody, MetadataLevel, decode_entity, decode_entity_set, encode_entity_body,
    read_entity,
};

fn any_value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        any::<String>().prop_map(EdmValue::String),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        any::<f64>().prop_map(EdmValue::double),
        prop::num::f64::ANY.prop_map(EdmValue::double),
        prop::sample::select(vec![
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            3.0,
            1e16,
            1e-7,
            f64::MAX,
            f64::MIN_POSITIVE
        ])
        .prop_map(EdmValue::double),
        any::<bool>().prop_map(EdmValue::Boolean),
        (0..=DateTime::MAX.ticks())
            .prop_map(|ticks| EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(Guid::from_bytes(bytes))),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(EdmValue::Binary),
    ]
}

prop_compose! {
    fn any_entity()(
        partition_key in "[^/\\\\#?\\p{Cc}]{0,12}",
        row_key in "[^/\\\\#?\\p{Cc}]{0,12}",
        ticks in 0..=DateTime::MAX.ticks(),
        named in prop::collection::btree_map("[_a-zA-Zé数][_a-zA-Z0-9é数]{0,6}", any_value(), 0..12),
    ) -> Entity {
        let own = named.into_iter().map(|(name, value)| (PropertyName::new(name).unwrap(), value)).collect();
        Entity {
            key: EntityKey::new(PartitionKey::new(partition_key).unwrap(), RowKey::new(row_key).unwrap()),
            timestamp: Timestamp::from_ticks(ticks).unwrap(),
            properties: Properties::new(own).unwrap(),
        }
    }
}

/// What a reader may meet: a valid body with a byte changed, removed or added, or its end cut off.
fn damaged(mut body: Vec<u8>, at: prop::sample::Index, byte: u8, how: u8) -> Vec<u8> {
    let at = at.index(body.len().max(1)).min(body.len().saturating_sub(1));
    match how % 4 {
        _ if body.is_empty() => {}
        0 => body[at] = byte,
        1 => body.truncate(at),
        2 => body.insert(at, byte),
        _ => drop(body.remove(at)),
    }
    body
}

proptest! {
    #[test]
    fn the_service_reads_what_a_client_wrote(entity in any_entity()) {
        let body = encode_entity_body(&entity.key, &entity.properties);
        let expected = EntityBody {
            partition_key: Some(entity.key.partition_key),
            row_key: Some(entity.key.row_key),
            properties: entity.properties,
        };
        prop_assert_eq!(read_entity(&body), Ok(expected));
    }

    #[test]
    fn a_client_reads_what_the_service_wrote(entities in prop::collection::vec(any_entity(), 0..4)) {
        for level in [MetadataLevel::Minimal, MetadataLevel::Full] {
            let body = written_set(entities.clone(), level, &Select::All);
            let decoded = decode_entity_set(body.as_bytes()).unwrap();
            let tags: Vec<_> = entities.iter().map(|entity| Some(ETag::of(entity.timestamp()))).collect();
            prop_assert_eq!(decoded.iter().map(|entity| entity.etag.clone()).collect::<Vec<_>>(), tags);
            let whole: Vec<_> = decoded.into_iter().filter_map(DecodedEntity::into_entity).collect();
            prop_assert_eq!(&whole, &entities);
            for entity in &entities {
                let body = written(entity, level, &Select::All);
                prop_assert_eq!(decode_entity(body.as_bytes()).unwrap().into_entity(), Some(entity.clone()));
            }
        }
    }

    #[test]
    fn without_metadata_it_is_the_same_json_less_the_annotations(entity in any_entity()) {
        let parse = |level| serde_json::from_str::<serde_json::Value>(&written(&entity, level, &Select::All)).unwrap();
        let mut minimal = parse(MetadataLevel::Minimal);
        minimal.as_object_mut().unwrap().retain(|name, _| !name.contains(['@', '.']));
        prop_assert_eq!(parse(MetadataLevel::None), minimal);
    }

    #[test]
    fn no_panic_on_any_bytes(body in prop::collection::vec(any::<u8>(), 0..200), text in "[{}\\[\\]\",:a@.0-9eE+\\\\-]{0,60}") {
        for body in [&body[..], text.as_bytes()] {
            let _ = (read_entity(body), decode_entity(body), decode_entity_set(body));
        }
    }

    #[test]
    fn no_panic_on_damaged_bodies(entity in any_entity(), at in any::<prop::sample::Index>(), byte in any::<u8>(), how in any::<u8>()) {
        let body = damaged(encode_entity_body(&entity.key, &entity.properties), at, byte, how);
        let _ = (read_entity(&body), decode_entity(&body));
        let page = damaged(written_set(vec![entity], MetadataLevel::Full, &Select::All).into_bytes(), at, byte, how);
        let _ = decode_entity_set(&page);
    }
}
