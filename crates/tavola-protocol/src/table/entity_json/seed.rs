//! The shapes that JSON bodies are made of, each read without recursion and without a tree in
//! between.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Reads an object for one of its members; the others are ignored.
#[derive(Debug, Clone, Copy)]
pub(in crate::table) struct MemberSeed<S>(
    pub(in crate::table) &'static str,
    pub(in crate::table) S,
);

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for MemberSeed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for MemberSeed<S> {
    type Value = S::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the member {}", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut value = None;
        while let Some(name) = map.next_key_seed(TextSeed)? {
            if name != self.0 {
                map.next_value::<IgnoredAny>()?;
            } else if value.replace(map.next_value_seed(self.1)?).is_some() {
                return Err(Error::duplicate_field(self.0));
            }
        }
        value.ok_or_else(|| Error::missing_field(self.0))
    }
}

/// Reads an array whose elements have one shape.
#[derive(Debug, Clone, Copy)]
pub(in crate::table) struct ArraySeed<S>(pub(in crate::table) S);

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for ArraySeed<S> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for ArraySeed<S> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = array.next_element_seed(self.0)? {
            elements.push(element);
        }
        Ok(elements)
    }
}

/// Reads a text, borrowed from the body where it has no escapes.
#[derive(Debug, Clone, Copy)]
pub(in crate::table) struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A value as JSON knows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Boolean(bool),
    /// No decimal point, no exponent, and within 64 bits.
    Integer(i64),
    Decimal(f64),
    Text(Cow<'a, str>),
    /// An array or an object, which no property can be. Its content is not kept.
    Nested,
}

/// Reads any value; of an array or an object nothing but that it is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScalarSeed;

impl<'de> DeserializeSeed<'de> for ScalarSeed {
    type Value = Scalar<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ScalarSeed {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Boolean(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Integer(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(number).map_or(Scalar::Decimal(number as f64), Scalar::Integer))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Decimal(number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }
}
