//! The content key of an entity, and what it does: one key for the values, one for the envelope.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac;
use tavola_core::{DateTime, EdmRef, EdmValue, Guid};
use zeroize::Zeroizing;

use super::keys::random;

/// Bytes of a nonce, which is before the ciphertext.
const NONCE_BYTES: usize = 12;
/// What a value takes more than its bytes: nonce and tag.
pub(super) const OVERHEAD_BYTES: usize = NONCE_BYTES + 16;
/// The version of the associated data.
const ASSOCIATED_VERSION: u8 = 1;
/// For what a key is derived.
const FOR_VALUES: &[u8] = b"tavola enc 1";
const FOR_ENVELOPE: &[u8] = b"tavola mac 1";

/// Where a value is: it opens nowhere else.
pub(super) struct Place<'a> {
    pub(super) partition: &'a str,
    pub(super) row: &'a str,
}

impl Place<'_> {
    /// Both keys, each after its length.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + self.partition.len() + self.row.len());
        push(&mut bytes, self.partition.as_bytes());
        push(&mut bytes, self.row.as_bytes());
        bytes
    }

    fn associated(&self, name: &str, edm: u8) -> Vec<u8> {
        let mut bytes = vec![ASSOCIATED_VERSION];
        bytes.extend(self.bytes());
        push(&mut bytes, name.as_bytes());
        bytes.push(edm);
        bytes
    }
}

/// A length in four bytes, big-endian, and the bytes.
fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend(length.to_be_bytes());
    out.extend(bytes);
}

/// The keys that are derived from a content key.
pub(super) struct Content {
    values: LessSafeKey,
    envelope: hmac::Key,
}

impl Content {
    /// `None` if the cryptographic library refuses, which it never does.
    pub(super) fn new(content_key: &[u8; 32]) -> Option<Self> {
        let derive = |purpose: &[u8]| {
            let mut key = Zeroizing::new([0; 32]);
            let extracted = Salt::new(HKDF_SHA256, &[]).extract(content_key);
            extracted.expand(&[purpose], HKDF_SHA256).ok()?.fill(&mut *key).ok()?;
            Some(key)
        };
        let values = UnboundKey::new(&AES_256_GCM, &*derive(FOR_VALUES)?).ok()?;
        let envelope = hmac::Key::new(hmac::HMAC_SHA256, &*derive(FOR_ENVELOPE)?);
        Some(Self { values: LessSafeKey::new(values), envelope })
    }

    /// Nonce, ciphertext and tag of a value, and the number of its type.
    pub(super) fn seal(
        &self,
        place: &Place<'_>,
        name: &str,
        value: EdmRef<'_>,
    ) -> Option<(u8, Vec<u8>)> {
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce)?;
        self.seal_with(nonce, place, name, value)
    }

    pub(super) fn seal_with(
        &self,
        nonce: [u8; NONCE_BYTES],
        place: &Place<'_>,
        name: &str,
        value: EdmRef<'_>,
    ) -> Option<(u8, Vec<u8>)> {
        let (edm, mut bytes) = to_bytes(value);
        let associated = Aad::from(place.associated(name, edm));
        let unique = Nonce::assume_unique_for_key(nonce);
        let tag = self.values.seal_in_place_separate_tag(unique, associated, &mut bytes).ok()?;
        let sealed = [&nonce, bytes.as_slice(), tag.as_ref()].concat();
        Some((edm, sealed))
    }

    /// The value; `None` if it was altered, or sealed for another place, name or type.
    pub(super) fn open(
        &self,
        place: &Place<'_>,
        name: &str,
        edm: u8,
        sealed: &[u8],
    ) -> Option<EdmValue> {
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let associated = Aad::from(place.associated(name, edm));
        let mut bytes = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        from_bytes(edm, self.values.open_in_place(nonce, associated, &mut bytes).ok()?)
    }

    /// The authentication code of an envelope's head and its place.
    pub(super) fn sign(&self, head: &[u8], place: &Place<'_>) -> hmac::Tag {
        hmac::sign(&self.envelope, &[head, &place.bytes()].concat())
    }

    /// True if it is the code of this head at this place, under this key.
    pub(super) fn verifies(&self, head: &[u8], place: &Place<'_>, code: &[u8]) -> bool {
        hmac::verify(&self.envelope, &[head, &place.bytes()].concat(), code).is_ok()
    }
}

/// The number of a value's type, and its bytes. Numbers are big-endian.
fn to_bytes(value: EdmRef<'_>) -> (u8, Vec<u8>) {
    match value {
        EdmRef::String(text) => (1, text.as_str().as_bytes().to_vec()),
        EdmRef::Int32(number) => (2, number.to_be_bytes().to_vec()),
        EdmRef::Int64(number) => (3, number.to_be_bytes().to_vec()),
        EdmRef::Double(number) => (4, number.to_bits().to_be_bytes().to_vec()),
        EdmRef::Boolean(truth) => (5, vec![u8::from(truth)]),
        EdmRef::DateTime(at) => (6, at.ticks().to_be_bytes().to_vec()),
        EdmRef::Guid(id) => (7, id.as_bytes().to_vec()),
        EdmRef::Binary(bytes) => (8, bytes.to_vec()),
    }
}

fn from_bytes(edm: u8, bytes: &[u8]) -> Option<EdmValue> {
    Some(match edm {
        1 => EdmValue::String(String::from_utf8(bytes.to_vec()).ok()?),
        2 => EdmValue::Int32(i32::from_be_bytes(bytes.try_into().ok()?)),
        3 => EdmValue::Int64(i64::from_be_bytes(bytes.try_into().ok()?)),
        4 => EdmValue::double(f64::from_bits(u64::from_be_bytes(bytes.try_into().ok()?))),
        5 => EdmValue::Boolean(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        6 => EdmValue::DateTime(DateTime::from_ticks(u64::from_be_bytes(bytes.try_into().ok()?))?),
        7 => EdmValue::Guid(Guid::from_bytes(bytes.try_into().ok()?)),
        8 => EdmValue::Binary(bytes.to_vec()),
        _ => return None,
    })
}
