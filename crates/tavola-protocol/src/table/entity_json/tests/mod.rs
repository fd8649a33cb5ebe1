//! The samples of the protocol reference to the byte, bad bodies, and round trips.

mod pages;
mod reading;
mod round_trips;
mod writing;

use tavola_core::entity::{Properties, PropertyName};
use tavola_core::reply::BoxedEntity;
use tavola_core::request::Select;
use tavola_core::{DateTime, EdmValue, Entity, EntityKey, Guid, PartitionKey, RowKey, Timestamp};

use super::{Links, MetadataLevel, write_entity, write_entity_set};

const LINKS: Links<'_> =
    Links { base: "https://acct.table.core.windows.net", account: "acct", table: "mytable" };

fn date(text: &str) -> DateTime {
    DateTime::parse(text).unwrap()
}

fn properties(list: &[(&str, EdmValue)]) -> Properties {
    let named =
        |(name, value): &(&str, EdmValue)| (PropertyName::new(*name).unwrap(), value.clone());
    Properties::new(list.iter().map(named).collect()).unwrap()
}

fn entity(
    partition_key: &str,
    row_key: &str,
    timestamp: &str,
    list: &[(&str, EdmValue)],
) -> Entity {
    let key =
        EntityKey::new(PartitionKey::new(partition_key).unwrap(), RowKey::new(row_key).unwrap());
    Entity { key, timestamp: Timestamp::new(date(timestamp)), properties: properties(list) }
}

fn string(text: &str) -> EdmValue {
    EdmValue::String(text.to_owned())
}

fn clsid() -> EdmValue {
    EdmValue::Guid(Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap())
}

fn names(list: &[&str]) -> Select {
    Select::Names(list.iter().map(|&name| name.to_owned()).collect())
}

fn written(entity: &Entity, level: MetadataLevel, select: &Select) -> String {
    let mut out = Vec::new();
    write_entity(&mut out, entity, level, select, &LINKS);
    String::from_utf8(out).unwrap()
}

fn written_set(entities: Vec<Entity>, level: MetadataLevel, select: &Select) -> String {
    let boxed: Vec<BoxedEntity> =
        entities.into_iter().map(|entity| Box::new(entity) as BoxedEntity).collect();
    let mut out = Vec::new();
    write_entity_set(&mut out, &boxed, level, select, &LINKS);
    String::from_utf8(out).unwrap()
}

fn sample() -> Entity {
    entity(
        "pk",
        "rk",
        "2020-07-24T14:34:24.0550534Z",
        &[
            ("age", EdmValue::Int64(39)),
            ("sex", string("male")),
            ("married", EdmValue::Boolean(true)),
            ("ratio", EdmValue::Double(3.1)),
            ("evenratio", EdmValue::Double(3.0)),
            ("Birthday", EdmValue::DateTime(date("1973-10-04T00:00:00Z"))),
            ("binary", EdmValue::Binary(b"binary".to_vec())),
            ("other", EdmValue::Int32(20)),
            ("clsid", clsid()),
        ],
    )
}
