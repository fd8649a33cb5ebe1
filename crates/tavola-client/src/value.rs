//! Values of properties and their types.

mod edm;
mod property;
mod text;

use std::fmt;

use bytes::Bytes;
use time::OffsetDateTime;
use uuid::Uuid;

pub use property::{InPlace, PropertyType};

pub(crate) use property::sealed::Sealed;

pub(crate) use edm::{date_time_from, date_time_to, edm_to_ref, value_to_edm};

/// The type of a property.
///
/// ```
/// use tavola_client::{EdmType, Value};
///
/// assert_eq!(Value::from(42_i64).edm_type(), EdmType::Int64);
/// assert_eq!(Value::from(42).edm_type(), EdmType::Int32);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdmType {
    /// Text of at most 64 KiB in UTF-16.
    String,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// An IEEE 754 double, with NaN and infinities.
    Double,
    /// A truth value.
    Boolean,
    /// A point in time from 1601 to 9999, in steps of 100 ns.
    DateTime,
    /// A 128-bit identifier.
    Guid,
    /// At most 64 KiB of bytes.
    Binary,
}

impl EdmType {
    /// The type's name on the wire.
    ///
    /// ```
    /// assert_eq!(tavola_client::EdmType::Int64.name(), "Edm.Int64");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "Edm.String",
            Self::Int32 => "Edm.Int32",
            Self::Int64 => "Edm.Int64",
            Self::Double => "Edm.Double",
            Self::Boolean => "Edm.Boolean",
            Self::DateTime => "Edm.DateTime",
            Self::Guid => "Edm.Guid",
            Self::Binary => "Edm.Binary",
        }
    }
}

impl fmt::Display for EdmType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of a property, with its exact type.
///
/// ```
/// use tavola_client::{EdmType, Value};
///
/// assert_eq!(Value::from(5_i64).edm_type(), EdmType::Int64);
/// assert_ne!(Value::from(5_i64), Value::from(5_i32));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value {
    /// Text.
    String(String),
    /// A 32-bit integer.
    Int32(i32),
    /// A 64-bit integer.
    Int64(i64),
    /// A double.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// A point in time.
    DateTime(OffsetDateTime),
    /// An identifier.
    Guid(Uuid),
    /// Bytes.
    Binary(Bytes),
}

/// A [`Value`] that is borrowed from wherever it lies.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ValueRef<'a> {
    /// Text.
    String(&'a str),
    /// A 32-bit integer.
    Int32(i32),
    /// A 64-bit integer.
    Int64(i64),
    /// A double.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// A point in time.
    DateTime(OffsetDateTime),
    /// An identifier.
    Guid(Uuid),
    /// Bytes.
    Binary(&'a [u8]),
}

impl Value {
    /// The value's type.
    #[must_use]
    pub fn edm_type(&self) -> EdmType {
        self.as_ref().edm_type()
    }

    /// The value, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::String(text) => ValueRef::String(text),
            Self::Int32(number) => ValueRef::Int32(*number),
            Self::Int64(number) => ValueRef::Int64(*number),
            Self::Double(number) => ValueRef::Double(*number),
            Self::Boolean(truth) => ValueRef::Boolean(*truth),
            Self::DateTime(at) => ValueRef::DateTime(*at),
            Self::Guid(id) => ValueRef::Guid(*id),
            Self::Binary(bytes) => ValueRef::Binary(bytes),
        }
    }
}

impl ValueRef<'_> {
    /// The value's type.
    #[must_use]
    pub const fn edm_type(&self) -> EdmType {
        match self {
            Self::String(_) => EdmType::String,
            Self::Int32(_) => EdmType::Int32,
            Self::Int64(_) => EdmType::Int64,
            Self::Double(_) => EdmType::Double,
            Self::Boolean(_) => EdmType::Boolean,
            Self::DateTime(_) => EdmType::DateTime,
            Self::Guid(_) => EdmType::Guid,
            Self::Binary(_) => EdmType::Binary,
        }
    }

    /// The value, owned.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match *self {
            Self::String(text) => Value::String(text.to_owned()),
            Self::Int32(number) => Value::Int32(number),
            Self::Int64(number) => Value::Int64(number),
            Self::Double(number) => Value::Double(number),
            Self::Boolean(truth) => Value::Boolean(truth),
            Self::DateTime(at) => Value::DateTime(at),
            Self::Guid(id) => Value::Guid(id),
            Self::Binary(bytes) => Value::Binary(Bytes::copy_from_slice(bytes)),
        }
    }
}

/// Same type and same value as the service stores it: NaN equals itself, and zero has no sign.
impl PartialEq for ValueRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::String(left), Self::String(right)) => left == right,
            (Self::Int32(left), Self::Int32(right)) => left == right,
            (Self::Int64(left), Self::Int64(right)) => left == right,
            (Self::Double(left), Self::Double(right)) => {
                left == right || left.is_nan() && right.is_nan()
            }
            (Self::Boolean(left), Self::Boolean(right)) => left == right,
            (Self::DateTime(left), Self::DateTime(right)) => left == right,
            (Self::Guid(left), Self::Guid(right)) => left == right,
            (Self::Binary(left), Self::Binary(right)) => left == right,
            _ => false,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

macro_rules! from {
    ($($rust:ty => $variant:ident),+) => {$(
        impl From<$rust> for Value {
            fn from(value: $rust) -> Self {
                Self::$variant(value.into())
            }
        }
    )+};
}

from!(
    &str => String,
    String => String,
    i32 => Int32,
    i64 => Int64,
    f64 => Double,
    bool => Boolean,
    OffsetDateTime => DateTime,
    Uuid => Guid,
    Bytes => Binary,
    Vec<u8> => Binary
);
