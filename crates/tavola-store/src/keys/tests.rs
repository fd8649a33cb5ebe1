use std::cmp::Ordering;

use proptest::collection::vec;
use proptest::prelude::*;
use tavola_core::{Cut, EntityAddress, EntityKey, PartitionKey, RowKey, TableId};

use super::{decode_key, encode_address, encode_cut, encode_key, encode_partition};

fn key(partition_key: &str, row_key: &str) -> EntityKey {
    EntityKey::new(PartitionKey::new(partition_key).unwrap(), RowKey::new(row_key).unwrap())
}

fn bytes(table: u64, key: &EntityKey) -> Vec<u8> {
    encode_address(&EntityAddress { table: TableId::new(table), key: key.clone() })
}

/// The order of the service, by its definition and not by our mapping.
fn order_by_definition(left: &EntityKey, right: &EntityKey) -> Ordering {
    let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    let partition = units(left.partition_key.as_str()).cmp(&units(right.partition_key.as_str()));
    partition.then_with(|| units(left.row_key.as_str()).cmp(&units(right.row_key.as_str())))
}

/// Version 1 of the key bytes. They must never change: files with them exist.
#[test]
fn the_bytes_of_a_key() {
    assert_eq!(
        bytes(0x0102_0304_0506_0708, &key("eu", "7")),
        b"\x01\x02\x03\x04\x05\x06\x07\x08eu\x007"
    );
    assert_eq!(bytes(1, &key("", "")), b"\0\0\0\0\0\0\0\x01\0");
    // U+E000 is EE 80 80 and U+FFFF is EF BF BF; U+1F600 stays F0 9F 98 80, below both.
    let tricky = key("\u{e000}\u{ffff}", "\u{1f600}");
    assert_eq!(bytes(1, &tricky), b"\0\0\0\0\0\0\0\x01\xf5\x80\x80\xf6\xbf\xbf\0\xf0\x9f\x98\x80");
}

#[test]
fn bounds_of_a_table() {
    let bound = |table, cut| encode_cut(TableId::new(table), &cut);
    assert_eq!(bound(7, Cut::Start), b"\0\0\0\0\0\0\0\x07");
    assert_eq!(bound(7, Cut::End), b"\0\0\0\0\0\0\0\x07\xff");
    assert!(bound(7, Cut::End) < bound(8, Cut::Start));
    let last = key("\u{ffff}", "\u{ffff}");
    assert!(bytes(u64::MAX, &last) < bound(u64::MAX, Cut::End));
}

#[test]
fn what_no_one_wrote_is_corrupt() {
    let table = [0, 0, 0, 0, 0, 0, 0, 1];
    let cases: [&[u8]; 8] = [
        b"a",
        b"a\0b\0",
        b"a\x01\0b",
        b"\xee\x80\x80\0",
        b"\xff\0",
        b"\xf7\0",
        b"a\0\xc3",
        b"\xf5\x80\0",
    ];
    for tail in cases {
        assert!(decode_key(&[&table, tail].concat()).is_err(), "{tail:02x?}");
    }
    assert!(decode_key(&table[..7]).is_err());
}

/// Letters that meet every special case: prefixes, the smallest legal byte, one to four bytes of
/// UTF-8, both sides of the surrogates.
fn any_key() -> impl Strategy<Value = EntityKey> {
    let tricky = "[ !ab~é\u{7ff}\u{800}\u{d7ff}\u{e000}\u{efff}\u{f000}\u{fffd}\u{ffff}\u{10000}\u{1f600}\u{10ffff}]{0,4}";
    let letters = prop_oneof![tricky, "[^/\\\\#?\u{0}-\u{1f}\u{7f}-\u{9f}]{0,8}"];
    (letters.clone(), letters).prop_map(|(partition_key, row_key)| key(&partition_key, &row_key))
}

fn any_cut() -> impl Strategy<Value = Cut> {
    prop_oneof![
        Just(Cut::Start),
        Just(Cut::End),
        any_key().prop_map(Cut::Before),
        any_key().prop_map(Cut::After),
        any_key().prop_map(|key| Cut::AfterPartition(key.partition_key)),
    ]
}

proptest! {
    #[test]
    fn byte_order_is_the_order_of_the_service(left in any_key(), right in any_key()) {
        prop_assert_eq!(bytes(9, &left).cmp(&bytes(9, &right)), order_by_definition(&left, &right));
        prop_assert_eq!(left.cmp(&right), order_by_definition(&left, &right));
    }

    #[test]
    fn tables_do_not_mix(left in any_key(), right in any_key(), table in 0..u64::MAX) {
        prop_assert!(bytes(table, &left) < bytes(table + 1, &right));
    }

    #[test]
    fn a_key_comes_back(key in any_key(), table in any::<u64>()) {
        let bytes = bytes(table, &key);
        let decoded = decode_key(&bytes).unwrap();
        prop_assert_eq!(decoded.table, TableId::new(table));
        prop_assert_eq!(&*decoded.partition_key, key.partition_key.as_str());
        prop_assert_eq!(&*decoded.row_key, key.row_key.as_str());
    }

    #[test]
    fn a_bound_parts_keys_as_its_cut_does(cut in any_cut(), key in any_key()) {
        let bound = encode_cut(TableId::new(9), &cut);
        prop_assert_eq!(bytes(9, &key) >= bound, cut.is_before(&key));
    }

    #[test]
    fn bounds_are_in_the_order_of_cuts(left in any_cut(), right in any_cut()) {
        let (low, high) = (encode_cut(TableId::new(9), &left), encode_cut(TableId::new(9), &right));
        if low < high {
            prop_assert!(left < right);
        }
        if left < right {
            prop_assert!(low <= high);
        }
    }

    #[test]
    fn a_partition_is_a_prefix(left in any_key(), right in any_key()) {
        let prefix = encode_partition(TableId::new(9), &left.partition_key);
        let same = left.partition_key == right.partition_key;
        prop_assert_eq!(bytes(9, &right).starts_with(&prefix), same);
        prop_assert_eq!(encode_key(TableId::new(9), &left.partition_key, &left.row_key), bytes(9, &left));
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..40)) {
        if let Ok(decoded) = decode_key(&bytes) {
            // There is one encoding: what decodes is what the decoded key encodes to, if it is a
            // legal key at all.
            if let Ok(key) = super::entity_key(&decoded.partition_key, &decoded.row_key) {
                prop_assert_eq!(encode_key(decoded.table, &key.partition_key, &key.row_key), bytes);
            }
        }
    }
}
