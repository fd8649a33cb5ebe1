//! Any bytes as the stored key of an entity; and any two keys, whose bytes must stand in the order
//! of the service.

#![no_main]

use std::cmp::Ordering;

use libfuzzer_sys::fuzz_target;
use tavola_core::{Cut, EntityKey, PartitionKey, RowKey, TableId};
use tavola_store::keys::{decode_key, encode_cut, encode_key, encode_partition, entity_key};

fuzz_target!(|data: &[u8]| {
    check_foreign(data);
    // One byte for two tables that may be neighbours, then four lines.
    let Some((&table, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut lines = text.split('\n').chain(std::iter::repeat(""));
    let mut key = || {
        let partition_key = PartitionKey::new(lines.next()?).ok()?;
        Some(EntityKey::new(partition_key, RowKey::new(lines.next()?).ok()?))
    };
    let (Some(left), Some(right)) = (key(), key()) else { return };
    let tables = [table / 16, table % 16]
        .map(|number| TableId::new(u64::from(number) << 60 | u64::from(number)));
    for table in tables {
        check_decoded(table, &left);
        check_cuts(table, &left, &right);
    }
    check_order(tables, &left, &right);
});

/// There is one encoding: what decodes to a legal key is what that key encodes to.
fn check_foreign(data: &[u8]) {
    let Ok(decoded) = decode_key(data) else { return };
    if let Ok(key) = entity_key(&decoded.partition_key, &decoded.row_key) {
        assert_eq!(encode(decoded.table, &key), data);
    }
}

fn encode(table: TableId, key: &EntityKey) -> Vec<u8> {
    encode_key(table, &key.partition_key, &key.row_key)
}

fn check_decoded(table: TableId, key: &EntityKey) {
    let bytes = encode(table, key);
    let decoded = decode_key(&bytes).expect("what we wrote");
    assert_eq!(decoded.table, table);
    assert_eq!(entity_key(&decoded.partition_key, &decoded.row_key).as_ref().ok(), Some(key));
}

fn check_order(tables: [TableId; 2], left: &EntityKey, right: &EntityKey) {
    assert_eq!(left.cmp(right), order_by_definition(left, right));
    let [first, second] = tables;
    let by_bytes = encode(first, left).cmp(&encode(second, right));
    let by_definition = first.number().cmp(&second.number()).then(order_by_definition(left, right));
    assert_eq!(by_bytes, by_definition, "{first:?} {left:?}, {second:?} {right:?}");
    let is_in_partition =
        encode(first, right).starts_with(&encode_partition(first, &left.partition_key));
    assert_eq!(is_in_partition, left.partition_key == right.partition_key);
}

/// The order of .NET's ordinal comparison, by its definition and not by our mapping.
fn order_by_definition(left: &EntityKey, right: &EntityKey) -> Ordering {
    let partition =
        left.partition_key.as_str().encode_utf16().cmp(right.partition_key.as_str().encode_utf16());
    partition.then_with(|| {
        left.row_key.as_str().encode_utf16().cmp(right.row_key.as_str().encode_utf16())
    })
}

/// A bound parts the keys as its cut does, and stays inside its table.
fn check_cuts(table: TableId, at: &EntityKey, key: &EntityKey) {
    let bytes = encode(table, key);
    let cuts = [
        Cut::Start,
        Cut::before_partition(at.partition_key.clone()),
        Cut::Before(at.clone()),
        Cut::After(at.clone()),
        Cut::AfterPartition(at.partition_key.clone()),
        Cut::End,
    ];
    let bounds = cuts.each_ref().map(|cut| encode_cut(table, cut));
    assert!(bounds.is_sorted(), "{at:?}");
    for (cut, bound) in cuts.iter().zip(&bounds) {
        assert!(bound.starts_with(&table.number().to_be_bytes()));
        assert_eq!(bytes >= *bound, cut.is_before(key), "{key:?} and {cut:?}");
    }
}
