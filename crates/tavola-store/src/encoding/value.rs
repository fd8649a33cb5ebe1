//! The layout of an encoded value, version 1:
//!
//! ```text
//! version   1 byte   0x01
//! ticks     8 bytes  little endian, the entity's Timestamp
//! count     1 byte   properties
//! per property, in the order in which they were written:
//!   tag     1 byte   the type, see `tag`
//!   name    varint length, UTF-8
//!   value   none for a Boolean; 4, 8 or 16 bytes little endian; or a varint length and bytes
//! ```
//!
//! Every value has exactly one encoding: lengths are minimal LEB128, and nothing follows the last
//! property.

use std::num::NonZeroU32;

use tavola_core::limits::PROPERTIES_MAX;
use tavola_core::{DateTime, EdmRef, Guid, Properties, Text, Timestamp};

/// The first byte of every value that this code writes.
pub const FORMAT_VERSION: u8 = 1;

const TICKS_AT: usize = 1;
const COUNT_AT: usize = 9;
const PROPERTIES_AT: usize = 10;

// The count is one byte.
const _: () = assert!(PROPERTIES_MAX <= u8::MAX as usize);

/// Type tags. Zero is none, so that a run of zeros is never a property.
mod tag {
    pub(super) const STRING: u8 = 1;
    pub(super) const INT32: u8 = 2;
    pub(super) const INT64: u8 = 3;
    pub(super) const DOUBLE: u8 = 4;
    pub(super) const FALSE: u8 = 5;
    pub(super) const TRUE: u8 = 6;
    pub(super) const DATE_TIME: u8 = 7;
    pub(super) const GUID: u8 = 8;
    pub(super) const BINARY: u8 = 9;
}

/// Encodes what a store keeps under an entity's key.
#[must_use]
pub fn encode_value(properties: &Properties, timestamp: Timestamp) -> Vec<u8> {
    let mut out = Vec::new();
    encode_value_into(properties, timestamp, &mut out);
    out
}

/// Appends to a buffer what [`encode_value`] returns.
pub fn encode_value_into(properties: &Properties, timestamp: Timestamp, out: &mut Vec<u8>) {
    let count = u8::try_from(properties.len()).expect("Properties holds at most PROPERTIES_MAX");
    let payload: usize =
        properties.iter().map(|(name, value)| encoded_bytes_max(name, value)).sum();
    out.reserve(PROPERTIES_AT + payload);
    out.push(FORMAT_VERSION);
    out.extend_from_slice(&timestamp.ticks().to_le_bytes());
    out.push(count);
    for (name, value) in properties.iter() {
        out.push(tag_of(value));
        put_bytes(out, name.as_bytes());
        put_value(out, value);
    }
}

/// Changes the Timestamp of an encoded value.
pub(super) fn set_timestamp(value: &mut [u8], timestamp: Timestamp) {
    value[TICKS_AT..COUNT_AT].copy_from_slice(&timestamp.ticks().to_le_bytes());
}

/// Enough room for one property: a tag, two lengths of at most three bytes, the name and the value.
fn encoded_bytes_max(name: &str, value: EdmRef<'_>) -> usize {
    let value_bytes = match value {
        EdmRef::String(text) => text.as_bytes().len(),
        EdmRef::Binary(bytes) => bytes.len(),
        _ => 16,
    };
    7 + name.len() + value_bytes
}

fn tag_of(value: EdmRef<'_>) -> u8 {
    match value {
        EdmRef::String(_) => tag::STRING,
        EdmRef::Int32(_) => tag::INT32,
        EdmRef::Int64(_) => tag::INT64,
        EdmRef::Double(_) => tag::DOUBLE,
        EdmRef::Boolean(false) => tag::FALSE,
        EdmRef::Boolean(true) => tag::TRUE,
        EdmRef::DateTime(_) => tag::DATE_TIME,
        EdmRef::Guid(_) => tag::GUID,
        EdmRef::Binary(_) => tag::BINARY,
    }
}

fn put_value(out: &mut Vec<u8>, value: EdmRef<'_>) {
    match value {
        EdmRef::String(text) => put_bytes(out, text.as_bytes()),
        EdmRef::Int32(number) => out.extend_from_slice(&number.to_le_bytes()),
        EdmRef::Int64(number) => out.extend_from_slice(&number.to_le_bytes()),
        EdmRef::Double(number) => out.extend_from_slice(&number.to_bits().to_le_bytes()),
        EdmRef::Boolean(_) => {}
        EdmRef::DateTime(at) => out.extend_from_slice(&at.ticks().to_le_bytes()),
        EdmRef::Guid(guid) => out.extend_from_slice(guid.as_bytes()),
        EdmRef::Binary(bytes) => put_bytes(out, bytes),
    }
}

/// A length and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}

/// Where a property's value is within an encoded value, and of which type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Never zero, as the head comes first: an absent place takes no more memory than one.
    at: NonZeroU32,
    tag: u8,
}

impl Place {
    /// The position of `reader` within the encoded value that it reads.
    #[inline]
    pub(super) fn of(bytes: &[u8], reader: &Reader<'_>, tag: u8) -> Option<Self> {
        NonZeroU32::new((bytes.len() - reader.rest.len()) as u32).map(|at| Self { at, tag })
    }
}

/// A value whose bytes were checked whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueRef<'a>(&'a [u8]);

impl<'a> ValueRef<'a> {
    /// Checks bounds, texts, tags and ranges; says what is wrong.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, &'static str> {
        Self::checked(bytes, |reader, _tag| Text::from_utf8(reader.bytes()?).map(|_| ()))
    }

    /// The same for a caller that looks at the properties on the way: `check_name` takes each name
    /// from the reader, which is then before a value with this tag, and gives `None` if the name
    /// is no text.
    #[inline]
    pub(super) fn checked(
        bytes: &'a [u8],
        mut check_name: impl FnMut(&mut Reader<'a>, u8) -> Option<()>,
    ) -> Result<Self, &'static str> {
        match bytes.first() {
            None => return Err("the value is empty"),
            Some(&FORMAT_VERSION) => {}
            Some(_) => return Err("the value has an unknown format version"),
        }
        let ticks = bytes.get(TICKS_AT..COUNT_AT).ok_or("the value ends early")?;
        Timestamp::from_ticks(u64_from(ticks)).ok_or("the Timestamp is beyond the year 9999")?;
        let count = *bytes.get(COUNT_AT).ok_or("the value ends early")?;
        if usize::from(count) > PROPERTIES_MAX {
            return Err("the value has too many properties");
        }
        let mut reader = Reader { rest: &bytes[PROPERTIES_AT..] };
        for _ in 0..count {
            let mut check = || {
                let tag = reader.byte()?;
                check_name(&mut reader, tag)?;
                reader.check_value(tag)
            };
            check().ok_or("a property is malformed")?;
        }
        if reader.rest.is_empty() { Ok(Self(bytes)) } else { Err("bytes follow the last property") }
    }

    /// A value that went through [`ValueRef::new`], or came out of [`encode_value_into`].
    pub(super) fn checked_before(bytes: &'a [u8]) -> Self {
        debug_assert!(Self::new(bytes).is_ok());
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The value at a place that was noted while this value was checked.
    #[inline]
    pub(super) fn at(&self, place: Place) -> EdmRef<'a> {
        let mut reader = Reader { rest: &self.0[place.at.get() as usize..] };
        reader.value(place.tag).expect("the value was checked")
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        Timestamp::from_ticks(u64_from(&self.0[TICKS_AT..COUNT_AT])).expect("the value was checked")
    }

    pub(super) fn properties(&self) -> impl Iterator<Item = (Text<'a>, EdmRef<'a>)> + use<'a> {
        let mut reader = Reader { rest: &self.0[PROPERTIES_AT..] };
        std::iter::from_fn(move || {
            (!reader.rest.is_empty()).then(|| reader.property().expect("the value was checked"))
        })
    }

    /// Walks over the properties before the wanted one by their lengths alone.
    pub(super) fn property(&self, name: &str) -> Option<EdmRef<'a>> {
        let mut reader = Reader { rest: &self.0[PROPERTIES_AT..] };
        while let Some(tag) = reader.byte() {
            let candidate = reader.bytes()?;
            if candidate == name.as_bytes() {
                return reader.value(tag);
            }
            reader.skip_value(tag)?;
        }
        None
    }
}

fn u64_from(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("the caller takes eight bytes"))
}

/// How many bytes are compared at once.
const HEAD_BYTES: usize = 16;

/// The first bytes of a text that is expected.
#[derive(Debug)]
pub(super) struct Head {
    bits: u128,
    mask: u128,
    /// Of the whole text.
    bytes: usize,
}

impl Head {
    pub(super) fn of(text: &[u8]) -> Self {
        let (mut bits, mut mask) = ([0; HEAD_BYTES], [0; HEAD_BYTES]);
        for ((bits, mask), byte) in bits.iter_mut().zip(&mut mask).zip(text) {
            (*bits, *mask) = (*byte, u8::MAX);
        }
        Self { bits: u128::from_le_bytes(bits), mask: u128::from_le_bytes(mask), bytes: text.len() }
    }
}

/// How long a value is, if its tag says so.
const fn fixed_bytes(tag: u8) -> Option<usize> {
    match tag {
        tag::INT32 => Some(4),
        tag::INT64 | tag::DOUBLE | tag::DATE_TIME => Some(8),
        tag::GUID => Some(16),
        tag::FALSE | tag::TRUE => Some(0),
        _ => None,
    }
}

/// Takes a value apart from its front; `None` as soon as something is not as it was written.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Walks over a value that was not checked before: beside its place, its text or its time
    /// must be right.
    #[inline]
    fn check_value(&mut self, tag: u8) -> Option<()> {
        match tag {
            tag::STRING => Text::from_utf8(self.bytes()?).map(|_| ()),
            tag::DATE_TIME => self.value(tag).map(|_| ()),
            _ => self.skip_value(tag),
        }
    }

    /// A property that was checked.
    fn property(&mut self) -> Option<(Text<'a>, EdmRef<'a>)> {
        let tag = self.byte()?;
        let name = Text::checked_before(self.bytes()?);
        Some((name, self.value(tag)?))
    }

    fn value(&mut self, tag: u8) -> Option<EdmRef<'a>> {
        Some(match tag {
            tag::STRING => EdmRef::String(Text::checked_before(self.bytes()?)),
            tag::INT32 => EdmRef::Int32(i32::from_le_bytes(self.array()?)),
            tag::INT64 => EdmRef::Int64(i64::from_le_bytes(self.array()?)),
            tag::DOUBLE => EdmRef::Double(f64::from_bits(u64::from_le_bytes(self.array()?))),
            tag::FALSE => EdmRef::Boolean(false),
            tag::TRUE => EdmRef::Boolean(true),
            tag::DATE_TIME => {
                EdmRef::DateTime(DateTime::from_ticks(u64::from_le_bytes(self.array()?))?)
            }
            tag::GUID => EdmRef::Guid(Guid::from_bytes(self.array()?)),
            tag::BINARY => EdmRef::Binary(self.bytes()?),
            _ => return None,
        })
    }

    #[inline]
    fn skip_value(&mut self, tag: u8) -> Option<()> {
        let skipped = match fixed_bytes(tag) {
            Some(count) => self.take(count),
            None if matches!(tag, tag::STRING | tag::BINARY) => self.bytes(),
            None => None,
        };
        skipped.map(|_| ())
    }

    /// Walks over a short text if it is next; `None` if that cannot be told this way.
    #[inline]
    pub(super) fn skip_head(&mut self, expected: &Head) -> Option<bool> {
        let next = self.rest.first_chunk().filter(|_| expected.bytes <= HEAD_BYTES)?;
        if (u128::from_le_bytes(*next) ^ expected.bits) & expected.mask != 0 {
            return Some(false);
        }
        self.rest = &self.rest[expected.bytes..];
        Some(true)
    }

    /// Walks over these bytes if they are next.
    #[inline]
    pub(super) fn skip_prefix(&mut self, expected: &[u8]) -> bool {
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// A minimal LEB128 of at most four bytes: 256 MiB, far above any value.
    fn length(&mut self) -> Option<usize> {
        const SHIFT_MAX: u32 = 21;
        // Most names and many texts are shorter than this.
        if let [length @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Some(usize::from(*length));
        }
        let mut length = 0;
        for shift in (0..=SHIFT_MAX).step_by(7) {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let minimal = byte != 0 || shift == 0;
                return minimal.then_some(length);
            }
        }
        None
    }
}
