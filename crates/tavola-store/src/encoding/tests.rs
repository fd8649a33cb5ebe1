use proptest::collection::vec;
use proptest::prelude::*;
use tavola_core::{
    DateTime, EdmRef, EdmValue, Entity, EntityKey, EntityView, Guid, PartitionKey, Properties,
    PropertyName, RowKey, Timestamp,
};

use super::{Row, RowRef, encode_value};
use crate::error::StoreError;

fn properties(list: Vec<(&str, EdmValue)>) -> Properties {
    let named = |(name, value)| (PropertyName::new(name).unwrap(), value);
    Properties::new(list.into_iter().map(named).collect()).unwrap()
}

fn one_of_each() -> Properties {
    properties(vec![
        ("Text", EdmValue::String("héllo".to_owned())),
        ("Small", EdmValue::Int32(-2)),
        ("Large", EdmValue::Int64(1 << 40)),
        ("Real", EdmValue::Double(1.5)),
        ("No", EdmValue::Boolean(false)),
        ("Yes", EdmValue::Boolean(true)),
        ("At", EdmValue::DateTime(DateTime::from_ticks(0x0102_0304_0506_0708).unwrap())),
        ("Id", EdmValue::Guid(Guid::parse("00112233-4455-6677-8899-aabbccddeeff").unwrap())),
        ("Bytes", EdmValue::Binary(vec![0, 255])),
    ])
}

/// The bytes of version 1. They must never change: files with them exist.
#[rustfmt::skip]
const VERSION_1: &[u8] = &[
    1,                                              // format version
    0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0x00, // ticks
    9,                                              // properties
    1, 4, b'T', b'e', b'x', b't', 6, b'h', 0xc3, 0xa9, b'l', b'l', b'o',
    2, 5, b'S', b'm', b'a', b'l', b'l', 0xfe, 0xff, 0xff, 0xff,
    3, 5, b'L', b'a', b'r', b'g', b'e', 0, 0, 0, 0, 0, 1, 0, 0,
    4, 4, b'R', b'e', b'a', b'l', 0, 0, 0, 0, 0, 0, 0xf8, 0x3f,
    5, 2, b'N', b'o',
    6, 3, b'Y', b'e', b's',
    7, 2, b'A', b't', 8, 7, 6, 5, 4, 3, 2, 1,
    8, 2, b'I', b'd', 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
    9, 5, b'B', b'y', b't', b'e', b's', 2, 0, 255,
];

fn version_1_timestamp() -> Timestamp {
    Timestamp::from_ticks(0x00dc_ba98_7654_3210).unwrap()
}

fn key() -> EntityKey {
    EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("rr").unwrap())
}

fn refusal(value: &[u8]) -> String {
    match RowRef::new("p", "r", value) {
        Err(StoreError::Corrupt(message)) => message,
        other => panic!("expected Corrupt, got {other:?}"),
    }
}

#[test]
fn version_1_opens_forever() {
    let row = Row::new("p", "rr", VERSION_1).unwrap();
    let expected =
        Entity { key: key(), timestamp: version_1_timestamp(), properties: one_of_each() };
    assert_eq!(Entity::from_view(&row), Ok(expected));
}

#[test]
fn version_1_is_what_we_write() {
    assert_eq!(encode_value(&one_of_each(), version_1_timestamp()), VERSION_1);
}

#[test]
fn single_properties_are_found_by_name() {
    let row = Row::new("p", "rr", VERSION_1).unwrap();
    assert_eq!(row.property("Text"), Some(EdmRef::String("héllo".into())));
    assert_eq!(row.property("No"), Some(EdmRef::Boolean(false)));
    assert_eq!(row.property("Bytes"), Some(EdmRef::Binary(&[0, 255])));
    assert_eq!(row.property("bytes"), None);
    assert_eq!(row.property(""), None);
    assert_eq!(row.property("PartitionKey"), None);
}

#[test]
fn an_entity_without_properties_is_ten_bytes() {
    let row =
        Row::encode(&key().partition_key, &key().row_key, &Properties::default(), Timestamp::MIN);
    assert_eq!(row.value().len(), 10);
    assert_eq!(row.size_bytes(), 13);
    assert_eq!((row.partition_key().as_str(), row.row_key().as_str()), ("p", "rr"));
    assert_eq!(row.key().unwrap(), key());
}

#[test]
fn damage_is_named() {
    let with = |at: usize, byte: u8| {
        let mut value = VERSION_1.to_vec();
        value[at] = byte;
        value
    };
    assert!(refusal(&[]).contains("empty"));
    assert!(refusal(&with(0, 2)).contains("unknown format version"));
    assert!(refusal(&with(8, 0xff)).contains("beyond the year 9999"));
    assert!(refusal(&VERSION_1[..9]).contains("ends early"));
    assert!(refusal(&with(9, 253)).contains("too many"));
    assert!(refusal(&with(9, 8)).contains("follow the last"));
    assert!(refusal(&with(9, 10)).contains("malformed"));
    assert!(refusal(&with(10, 0)).contains("malformed"), "tag zero");
    assert!(refusal(&with(10, 10)).contains("malformed"), "a tag that does not exist");
    assert!(refusal(&with(18, 0xff)).contains("malformed"), "text that is not UTF-8");
    assert!(refusal(&VERSION_1[..VERSION_1.len() - 1]).contains("malformed"));
    let message = refusal(&[]);
    assert!(message.contains("\"p\"") && message.contains("\"r\""), "it says which row: {message}");
}

#[test]
fn lengths_have_one_encoding() {
    let header = [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9, 1, b'a'];
    let value = |length: &[u8], bytes: usize| [&header, length, &vec![7; bytes][..]].concat();
    assert!(RowRef::new("p", "r", &value(&[3], 3)).is_ok());
    assert!(RowRef::new("p", "r", &value(&[0], 0)).is_ok());
    assert!(RowRef::new("p", "r", &value(&[0x80, 1], 128)).is_ok());
    assert!(refusal(&value(&[0x83, 0], 3)).contains("malformed"), "a longer way to write 3");
    assert!(
        refusal(&value(&[0xff, 0xff, 0xff, 0xff, 1], 3)).contains("malformed"),
        "beyond four bytes"
    );
}

fn any_value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        ".{0,40}".prop_map(EdmValue::String),
        vec(any::<char>(), 120..140).prop_map(|text| EdmValue::String(text.into_iter().collect())),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        any::<u64>().prop_map(|bits| EdmValue::Double(f64::from_bits(bits))),
        any::<bool>().prop_map(EdmValue::Boolean),
        (0..=DateTime::MAX.ticks())
            .prop_map(|ticks| EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(Guid::from_bytes(bytes))),
        vec(any::<u8>(), 0..300).prop_map(EdmValue::Binary),
    ]
}

fn any_properties() -> impl Strategy<Value = Properties> {
    vec(("[a-zéß]{0,20}", any_value()), 0..12).prop_map(|list| {
        // The index makes names unique.
        let named =
            |(index, (name, value))| (PropertyName::new(format!("_{index}{name}")).unwrap(), value);
        Properties::new(list.into_iter().enumerate().map(named).collect()).unwrap()
    })
}

/// Reads everything there is to read: none of it may panic.
fn read_all(row: &RowRef<'_>) {
    let _ = format!("{row:?}");
    let mut count = 0;
    row.visit(&mut |name, value| {
        count += 1;
        let found = row.property(name.as_str()).map(|found| found.edm_type());
        // Bytes that we did not write may hold a name twice; the first is found.
        assert!(found.is_some(), "{name} {value:?}");
    });
    assert_eq!(row.to_row().as_row_ref(), *row);
    assert!(count <= 252);
}

proptest! {
    #[test]
    fn what_was_written_is_read(properties in any_properties(), ticks in 0..=DateTime::MAX.ticks()) {
        let timestamp = Timestamp::from_ticks(ticks).unwrap();
        let row = Row::encode(&key().partition_key, &key().row_key, &properties, timestamp);
        prop_assert_eq!(row.value(), &encode_value(&properties, timestamp)[..]);
        prop_assert_eq!(Row::new("p", "rr", row.value()).unwrap(), row.clone());
        for (name, value) in properties.iter() {
            prop_assert_eq!(row.property(name), Some(value));
        }
        prop_assert_eq!(row.property("_absent"), None);
        read_all(&row.as_row_ref());
        let entity = Entity { key: key(), timestamp, properties };
        prop_assert_eq!(Entity::from_view(&row), Ok(entity));
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in vec(any::<u8>(), 0..200), version in any::<bool>()) {
        if version && !bytes.is_empty() {
            // Let some of them come further than the first byte.
            bytes[0] = 1;
            if let Some(high) = bytes.get_mut(8) { *high = 0 }
            if let Some(count) = bytes.get_mut(9) { *count %= 4 }
        }
        if let Ok(row) = RowRef::new("p", "r", &bytes) {
            read_all(&row);
        }
    }

    #[test]
    fn mutated_values_never_panic(
        properties in any_properties(),
        mutations in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = encode_value(&properties, Timestamp::MIN);
        for (at, byte) in mutations {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(row) = RowRef::new("p", "r", &bytes) {
            read_all(&row);
        }
    }

    #[test]
    fn a_cut_value_is_refused(properties in any_properties(), cut in any::<prop::sample::Index>()) {
        let bytes = encode_value(&properties, Timestamp::MIN);
        prop_assert!(RowRef::new("p", "r", &bytes[..cut.index(bytes.len())]).is_err());
    }
}
