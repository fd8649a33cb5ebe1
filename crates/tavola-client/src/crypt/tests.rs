//! The format, byte by byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use tavola_core::entity::PropertyName;
use tavola_core::request::Select;
use tavola_core::{
    DateTime, EdmValue, EntityOperation, Guid, NewEntity, PartitionKey, Properties, RowKey,
    Timestamp,
};
use tavola_protocol::table::entity_json::DecodedEntity;

use super::content::{Content, Place};
use super::envelope;
use super::keys::{KeyWrap as _, LocalKeys};
use super::policy::{Encryption, Policy};
use crate::engine::Operation;
use crate::error::{EncryptionFault, Error, ErrorKind};
use crate::unknown::Claim;

const PLACE: Place<'_> = Place { partition: "Sales", row: "empid_000212" };

/// Written by tests/vectors/envelope.py, with another cryptographic library.
const VECTOR: [(&str, &str); 9] = [
    ("Text", "0000000000000000000000008c6f72c0ca43237392e48a9046c15df2a81edf5d584ceb"),
    ("Int32", "01010101010101010101010171793932ecbfd1da2061fdab01f3d88e78dddd12"),
    ("Int64", "020202020202020202020202211df95c0b6309318e3a0fb27b9623740aefe27dccf592e7"),
    ("Double", "030303030303030303030303e30c11f8b7af68f9517ab666c47add5c0772602d43837bf8"),
    ("Boolean", "040404040404040404040404dd4b878b0f46120fa8acb7be562e56f971"),
    ("DateTime", "0505050505050505050505057009ee16d105c4a94c9d4a8701b0ef540ad734525621e00c"),
    (
        "Guid",
        "0606060606060606060606064040eb73fb0547d05d9105a3bd79ed1abd017b6d0c1e2a102626ffdf50bd7c73",
    ),
    ("Binary", "0707070707070707070707078f14640630fa5a0136324771b929814cee24"),
    (
        "tv_enc",
        "01010107323032362d31310028026115d00cb6ace96d9e2c074ef78f464aa18a532bc68cecfb5117109910dedd\
         924b6e9142333c0f0801000454657874020005496e743332030005496e743634040006446f75626c6505000742\
         6f6f6c65616e0600084461746554696d650700044775696408000642696e6172794d0bef09f5a758a869de7804\
         28cbfe1aefe3d598fc10b4a5729df4f3af56d702",
    ),
];

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// The values of the vector.
fn plain() -> Vec<(&'static str, EdmValue)> {
    let ticks = (1_408_668_632 + 11_644_473_600) * 10_000_000;
    let guid = hex("c9da6455213d42c99a793e9149a57833");
    vec![
        ("Text", EdmValue::String("Grüße".to_owned())),
        ("Int32", EdmValue::Int32(-2)),
        ("Int64", EdmValue::Int64(1 << 40)),
        ("Double", EdmValue::double(1.5)),
        ("Boolean", EdmValue::Boolean(true)),
        ("DateTime", EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap())),
        ("Guid", EdmValue::Guid(Guid::from_bytes(guid.try_into().unwrap()))),
        ("Binary", EdmValue::Binary(vec![0, 0xff])),
    ]
}

fn keys() -> LocalKeys {
    LocalKeys::new("2026-11", &std::array::from_fn(|at| at as u8))
}

fn policy() -> Policy {
    Policy::new(Encryption::new(keys()))
}

fn properties(all: &[(&str, EdmValue)]) -> Properties {
    let named = all.iter().map(|(name, value)| (PropertyName::new(*name).unwrap(), value.clone()));
    Properties::new(named.collect()).unwrap()
}

fn entity(place: &Place<'_>, all: &[(&str, EdmValue)]) -> DecodedEntity {
    DecodedEntity {
        partition_key: Some(PartitionKey::new(place.partition).unwrap()),
        row_key: Some(RowKey::new(place.row).unwrap()),
        timestamp: None::<Timestamp>,
        etag: None,
        properties: properties(all),
    }
}

/// The vector as it is stored.
fn stored() -> Vec<(&'static str, EdmValue)> {
    VECTOR.iter().map(|(name, bytes)| (*name, EdmValue::Binary(hex(bytes)))).collect()
}

async fn open(all: &[(&str, EdmValue)]) -> Result<DecodedEntity, Error> {
    policy().open(entity(&PLACE, all), &Select::All).await
}

fn fault(error: &Error) -> EncryptionFault {
    match error.kind() {
        ErrorKind::Encryption { fault } => *fault,
        other => panic!("{other:?}: {error}"),
    }
}

/// G163, G177: the format is what docs/encryption.md says, and stays so.
#[tokio::test]
async fn the_format_never_changes() {
    let content_key: [u8; 32] = std::array::from_fn(|at| at as u8 + 100);
    let content = Content::new(&content_key).unwrap();
    let mut list = Vec::new();
    for (number, (name, value)) in plain().into_iter().enumerate() {
        let nonce = [number as u8; 12];
        let (edm, sealed) = content.seal_with(nonce, &PLACE, name, value.as_ref()).unwrap();
        assert_eq!(sealed, hex(VECTOR[number].1), "{name}");
        list.push((edm, name.to_owned()));
    }
    let wrapped = keys().wrap(&content_key).await.unwrap();
    let written = envelope::write(&wrapped, &list, &content, &PLACE).unwrap();
    assert_eq!(written, hex(VECTOR[8].1));
}

/// G163, G165: the vector opens to its values, with all types, and says what was encrypted.
#[tokio::test]
async fn the_vector_is_read() {
    let opened = open(&stored()).await.unwrap().properties;
    let mut expected = plain();
    let names = "Binary,Boolean,DateTime,Double,Guid,Int32,Int64,Text";
    expected.push(("tv_enc", EdmValue::String(names.to_owned())));
    assert_eq!(opened, properties(&expected));
}

/// Not one byte of an envelope or of a value can be changed, added or cut off.
#[tokio::test]
async fn every_byte_is_authenticated() {
    for at in 0..stored().len() {
        let EdmValue::Binary(bytes) = stored()[at].1.clone() else { panic!() };
        let mut altered: Vec<Vec<u8>> = Vec::new();
        for place in 0..bytes.len() {
            for bit in [0x01, 0x80] {
                let mut other = bytes.clone();
                other[place] ^= bit;
                altered.push(other);
            }
            altered.push(bytes[..place].to_vec());
        }
        altered.push([bytes.as_slice(), &[0]].concat());
        for other in altered {
            let mut all = stored();
            all[at].1 = EdmValue::Binary(other);
            let error = open(&all).await.unwrap_err();
            // In the head of the envelope it is an unknown format or another key.
            let is_head = at == 8;
            let expected = match fault(&error) {
                EncryptionFault::Altered => true,
                EncryptionFault::Key | EncryptionFault::UnknownFormat => is_head,
                _ => false,
            };
            assert!(expected, "{} {error}", all[at].0);
            assert!(error.to_string().contains("('Sales', 'empid_000212')"), "{error}");
        }
    }
}

/// What was encrypted for one place opens in no other; what is missing is missed.
#[tokio::test]
async fn values_stay_where_they_are() {
    let altered = |error: Error| assert_eq!(fault(&error), EncryptionFault::Altered, "{error}");
    for first in 0..8 {
        for second in 0..first {
            let mut all = stored();
            let moved = all[first].1.clone();
            all[first].1 = std::mem::replace(&mut all[second].1, moved);
            altered(open(&all).await.unwrap_err());
        }
        let mut all = stored();
        all.remove(first);
        altered(open(&all).await.unwrap_err());
        // A plain value in its place is none either.
        let mut all = stored();
        all[first].1 = plain()[first].1.clone();
        altered(open(&all).await.unwrap_err());
    }
    for place in [
        Place { partition: "Sales", row: "empid_000213" },
        Place { partition: "Sale", row: "empid_000212" },
        // The lengths of the keys count, not only their texts one after the other.
        Place { partition: "Salese", row: "mpid_000212" },
    ] {
        let moved = policy().open(entity(&place, &stored()), &Select::All).await;
        altered(moved.unwrap_err());
    }
    // A projection may leave some out.
    let some: Vec<_> = stored().into_iter().filter(|(name, _)| *name != "Text").collect();
    let select = Select::Names(vec!["Guid".to_owned(), "tv_enc".to_owned()]);
    assert!(policy().open(entity(&PLACE, &some), &select).await.is_ok());
    let select = Select::Names(vec!["Text".to_owned(), "tv_enc".to_owned()]);
    altered(policy().open(entity(&PLACE, &some), &select).await.unwrap_err());
}

/// Two writes of one value have nothing in common.
#[tokio::test]
async fn every_write_has_its_own_content_key() {
    let mut seen = BTreeSet::new();
    for _ in 0..50 {
        let said = ("tv_enc", EdmValue::String("Text".to_owned()));
        let all = properties(&[("Text", EdmValue::String("same".to_owned())), said]);
        let (partition, row) = (PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
        let key = tavola_core::EntityKey::new(partition.clone(), row);
        let (_, new) = NewEntity::new(key, all).unwrap();
        let operation = EntityOperation::Insert(new);
        let operation = Operation { claim: Claim::Insert, operation, write_id: None };
        let sealed = policy().seal(&partition, operation).await.unwrap();
        let sealed = super::policy::properties(&sealed).unwrap();
        for (_, value) in sealed.iter() {
            let EdmValue::Binary(bytes) = value.to_owned() else { panic!() };
            // Its nonce and its ciphertext; of the envelope the wrapped key.
            assert!(seen.insert(bytes[12..].to_vec()));
        }
    }
}
