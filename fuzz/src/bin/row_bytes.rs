//! Any bytes as the stored value of a row; and any entity that JSON can say, written as a row and
//! read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tavola_core::{Entity, EntityKey, EntityView, Properties, Timestamp};
use tavola_protocol::table::entity_json::read_entity;
use tavola_store::encoding::{encode_value, encode_value_into};
use tavola_store::{Row, RowRef};

fuzz_target!(|data: &[u8]| {
    if let Ok(row) = RowRef::new("p", "r", data) {
        check_foreign(&row, data);
    }
    if let Ok(body) = read_entity(data) {
        let (partition_key, row_key) =
            (body.partition_key.unwrap_or_default(), body.row_key.unwrap_or_default());
        check_written(EntityKey::new(partition_key, row_key), body.properties);
    }
});

/// Reads all there is to read of bytes that somebody else may have written.
fn check_foreign(row: &RowRef<'_>, data: &[u8]) {
    let _ = format!("{row:?}");
    let mut names = Vec::new();
    row.visit(&mut |name, value| {
        // Damage can leave a name twice; the first counts.
        if !names.contains(&name.to_string()) {
            assert_eq!(row.property(name.as_str()), Some(value), "{name:?}");
            names.push(name.to_string());
        }
    });
    let owned = row.to_row();
    assert_eq!((owned.as_row_ref(), owned.value()), (*row, data));
    assert_eq!(Row::new("p", "r", data).as_ref().ok(), Some(&owned));
    // There is one encoding: what is an entity is what that entity encodes to, and no part of it is
    // another one.
    if let Ok(entity) = Entity::from_view(row) {
        assert_eq!(encode_value(&entity.properties, entity.timestamp), data);
    }
    let cut = usize::from(data[data.len() - 1]) % data.len();
    assert!(RowRef::new("p", "r", &data[..cut]).is_err(), "cut to {cut} bytes");
}

/// An entity that may be written is what is read.
fn check_written(key: EntityKey, properties: Properties) {
    let timestamp =
        Timestamp::from_ticks(0x0123_4567_89ab_cdef >> 5).expect("before the year 9999");
    let row = Row::encode(&key.partition_key, &key.row_key, &properties, timestamp);
    let mut value = b"before".to_vec();
    encode_value_into(&properties, timestamp, &mut value);
    assert_eq!(&value[6..], row.value());
    let read = Row::new(key.partition_key.as_str(), key.row_key.as_str(), row.value())
        .expect("what we wrote");
    assert_eq!(read, row);
    assert_eq!(read.key().as_ref().ok(), Some(&key));
    for (name, value) in properties.iter() {
        assert_eq!(read.property(name), Some(value), "{name}");
    }
    assert_eq!(Entity::from_view(&read), Ok(Entity { key, timestamp, properties }));
}
