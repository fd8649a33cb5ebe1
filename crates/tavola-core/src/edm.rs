//! The eight property types, their ranges and their texts.

use std::cmp::Ordering;
use std::fmt;

use crate::domain_error::DomainError;
use crate::key::{bytes_in_utf16_order, bytes_in_utf16_units, utf16_units};
use crate::limits::{BINARY_BYTES_MAX, STRING_UTF16_UNITS_MAX};
use crate::text::Text;
use crate::time::{DateTime, DateTimeError};

/// A property's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EdmType {
    /// `Edm.String`
    String,
    /// `Edm.Int32`
    Int32,
    /// `Edm.Int64`
    Int64,
    /// `Edm.Double`
    Double,
    /// `Edm.Boolean`
    Boolean,
    /// `Edm.DateTime`
    DateTime,
    /// `Edm.Guid`
    Guid,
    /// `Edm.Binary`
    Binary,
}

impl EdmType {
    /// Every type.
    pub const ALL: [Self; 8] = [
        Self::String,
        Self::Int32,
        Self::Int64,
        Self::Double,
        Self::Boolean,
        Self::DateTime,
        Self::Guid,
        Self::Binary,
    ];

    /// The type's name on the wire.
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

    /// The type of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|edm| edm.name() == name)
    }
}

/// A 128-bit identifier, ordered as its text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid([u8; 16]);

impl Guid {
    /// Characters of the text.
    pub const TEXT_BYTES: usize = uuid::fmt::Hyphenated::LENGTH;

    /// The identifier with these bytes, in the order of its text.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, in the order of the text.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Reads `8-4-4-4-12` hexadecimal digits of either case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hyphenated = text.len() == Self::TEXT_BYTES;
        hyphenated
            .then(|| uuid::Uuid::try_parse(text).ok())
            .flatten()
            .map(|uuid| Self(uuid.into_bytes()))
    }

    /// The text in lower case.
    #[must_use]
    pub fn text(&self) -> [u8; Self::TEXT_BYTES] {
        let mut text = [0; Self::TEXT_BYTES];
        uuid::Uuid::from_bytes(self.0).hyphenated().encode_lower(&mut text);
        text
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&uuid::Uuid::from_bytes(self.0).hyphenated(), f)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A property's value, owned.
#[derive(Debug, Clone)]
pub enum EdmValue {
    /// Unicode text.
    String(String),
    /// A 32-bit integer.
    Int32(i32),
    /// A 64-bit integer.
    Int64(i64),
    /// An IEEE 754 double, with NaN and infinities.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// A point in time.
    DateTime(DateTime),
    /// An identifier.
    Guid(Guid),
    /// Bytes.
    Binary(Vec<u8>),
}

/// A property's value, borrowed from wherever it lies: an [`EdmValue`], or a row's bytes.
#[derive(Debug, Clone, Copy)]
pub enum EdmRef<'a> {
    /// Unicode text.
    String(Text<'a>),
    /// A 32-bit integer.
    Int32(i32),
    /// A 64-bit integer.
    Int64(i64),
    /// An IEEE 754 double, with NaN and infinities.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// A point in time.
    DateTime(DateTime),
    /// An identifier.
    Guid(Guid),
    /// Bytes.
    Binary(&'a [u8]),
}

/// Why a text is not a value of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdmTextError {
    /// It does not parse.
    Malformed,
    /// It is a date that the service cannot hold; the date as the service prints it.
    DateOutOfRange(String),
}

impl EdmValue {
    /// The value, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> EdmRef<'_> {
        match self {
            Self::String(text) => EdmRef::String(text.as_str().into()),
            Self::Int32(number) => EdmRef::Int32(*number),
            Self::Int64(number) => EdmRef::Int64(*number),
            Self::Double(number) => EdmRef::Double(*number),
            Self::Boolean(truth) => EdmRef::Boolean(*truth),
            Self::DateTime(at) => EdmRef::DateTime(*at),
            Self::Guid(guid) => EdmRef::Guid(*guid),
            Self::Binary(bytes) => EdmRef::Binary(bytes),
        }
    }

    /// The value that a wire text stands for. `Edm.Binary` is not among them: its text is base64, a
    /// wire format.
    ///
    /// # Errors
    /// If the text is not one of the type.
    pub fn from_text(edm: EdmType, text: &str) -> Result<Self, EdmTextError> {
        let value = match edm {
            EdmType::String => Some(Self::String(text.to_owned())),
            EdmType::Int32 => text.parse().ok().map(Self::Int32),
            EdmType::Int64 => text.parse().ok().map(Self::Int64),
            EdmType::Double => parse_double(text).map(Self::double),
            EdmType::Boolean => parse_boolean(text).map(Self::Boolean),
            EdmType::Guid => Guid::parse(text).map(Self::Guid),
            EdmType::DateTime => match DateTime::parse(text) {
                Ok(at) => Some(Self::DateTime(at)),
                Err(DateTimeError::OutOfRange(printed)) => {
                    return Err(EdmTextError::DateOutOfRange(printed));
                }
                Err(DateTimeError::Malformed) => None,
            },
            EdmType::Binary => None,
        };
        value.ok_or(EdmTextError::Malformed)
    }

    /// A double as the service stores it: zero has no sign, and there is one NaN.
    #[must_use]
    pub fn double(number: f64) -> Self {
        if number.is_nan() {
            return Self::Double(f64::NAN);
        }
        Self::Double(if number == 0.0 { 0.0 } else { number })
    }

    /// Checks the limits of one value.
    ///
    /// # Errors
    /// [`DomainError::PropertyValueTooLarge`] if it is a text or binary beyond 64 KiB.
    pub fn check_size(&self) -> Result<(), DomainError> {
        let fits = match self {
            Self::String(text) => {
                text.len() <= STRING_UTF16_UNITS_MAX || utf16_units(text) <= STRING_UTF16_UNITS_MAX
            }
            Self::Binary(bytes) => bytes.len() <= BINARY_BYTES_MAX,
            _ => true,
        };
        if fits { Ok(()) } else { Err(DomainError::PropertyValueTooLarge) }
    }
}

/// Same type and same value. NaN equals itself here, which is what storing and reading back means;
/// filters compare by IEEE rules instead ([`EdmRef::compare`]).
impl PartialEq for EdmValue {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl PartialEq for EdmRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Double(left), Self::Double(right)) => left.to_bits() == right.to_bits(),
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }
}

impl EdmRef<'_> {
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
    pub fn to_owned(&self) -> EdmValue {
        match *self {
            Self::String(text) => EdmValue::String(text.as_str().to_owned()),
            Self::Int32(number) => EdmValue::Int32(number),
            Self::Int64(number) => EdmValue::Int64(number),
            Self::Double(number) => EdmValue::Double(number),
            Self::Boolean(truth) => EdmValue::Boolean(truth),
            Self::DateTime(at) => EdmValue::DateTime(at),
            Self::Guid(guid) => EdmValue::Guid(guid),
            Self::Binary(bytes) => EdmValue::Binary(bytes.to_vec()),
        }
    }

    /// The order of two values of one type; `None` if the types differ or one is NaN.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::String(left), Self::String(right)) => {
                Some(bytes_in_utf16_order(left.as_bytes(), right.as_bytes()))
            }
            (Self::Int32(left), Self::Int32(right)) => Some(left.cmp(right)),
            (Self::Int64(left), Self::Int64(right)) => Some(left.cmp(right)),
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(right),
            (Self::Boolean(left), Self::Boolean(right)) => Some(left.cmp(right)),
            (Self::DateTime(left), Self::DateTime(right)) => Some(left.cmp(right)),
            (Self::Guid(left), Self::Guid(right)) => Some(left.cmp(right)),
            (Self::Binary(left), Self::Binary(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }

    /// Bytes of the value in the service's size formula.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::String(text) => 2 * bytes_in_utf16_units(text.as_bytes()) + 4,
            Self::Binary(bytes) => bytes.len() + 4,
            Self::Int32(_) => 4,
            Self::Int64(_) | Self::Double(_) | Self::DateTime(_) => 8,
            Self::Boolean(_) => 1,
            Self::Guid(_) => 16,
        }
    }
}

/// Reads a truth value in any case: exports write `True`, and the service takes it.
#[must_use]
pub fn parse_boolean(text: &str) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    is("true").then_some(true).or_else(|| is("false").then_some(false))
}

/// Reads a double's text, the names of its special values included.
#[must_use]
pub fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        // Rust also reads "inf", "nan" and "infinity" in any case; the service does not.
        _ if text
            .bytes()
            .any(|byte| byte.is_ascii_alphabetic() && !byte.eq_ignore_ascii_case(&b'e')) =>
        {
            None
        }
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::{EdmRef, EdmTextError, EdmType, EdmValue, Guid, parse_double};
    use crate::domain_error::DomainError;
    use crate::limits::{BINARY_BYTES_MAX, STRING_UTF16_UNITS_MAX};

    #[test]
    fn texts_of_each_type() {
        let read = |edm, text| EdmValue::from_text(edm, text);
        assert_eq!(read(EdmType::Int32, "-2147483648"), Ok(EdmValue::Int32(i32::MIN)));
        assert_eq!(read(EdmType::Int32, "2147483648"), Err(EdmTextError::Malformed));
        assert_eq!(read(EdmType::Int64, "9223372036854775807"), Ok(EdmValue::Int64(i64::MAX)));
        assert_eq!(read(EdmType::Int64, "1.0"), Err(EdmTextError::Malformed));
        assert_eq!(read(EdmType::Double, "NaN"), Ok(EdmValue::Double(f64::NAN)));
        assert_eq!(read(EdmType::Double, "1e+30"), Ok(EdmValue::Double(1e30)));
        assert_eq!(read(EdmType::Double, "-0.0"), Ok(EdmValue::Double(0.0)));
        for (text, truth) in [("true", true), ("True", true), ("FALSE", false)] {
            assert_eq!(read(EdmType::Boolean, text), Ok(EdmValue::Boolean(truth)));
        }
        for text in ["", "1", "yes", "true ", "ｔrue"] {
            assert_eq!(read(EdmType::Boolean, text), Err(EdmTextError::Malformed), "{text}");
        }
        assert_eq!(
            read(EdmType::DateTime, "0001-01-01T00:00:00Z"),
            Err(EdmTextError::DateOutOfRange("01/01/0001 00:00:00".to_owned()))
        );
        assert_eq!(
            read(EdmType::Guid, "c9da6455213d42c99a793e9149a57833"),
            Err(EdmTextError::Malformed)
        );
        for edm in EdmType::ALL {
            assert_eq!(EdmType::from_name(edm.name()), Some(edm));
        }
        assert_eq!(EdmType::from_name("Edm.Decimal"), None);
    }

    #[test]
    fn doubles() {
        assert_eq!(parse_double("INF"), Some(f64::INFINITY));
        for bad in ["inf", "nan", "infinity", "1e999", "", "0x10", "1_0"] {
            assert_eq!(parse_double(bad), None, "{bad}");
        }
    }

    #[test]
    fn guids_print_in_lower_case() {
        let guid = Guid::parse("C9DA6455-213D-42C9-9A79-3E9149A57833").unwrap();
        assert_eq!(guid.to_string(), "c9da6455-213d-42c9-9a79-3e9149a57833");
    }

    #[test]
    fn sizes() {
        let string = |units| EdmValue::String("é".repeat(units)).check_size();
        assert_eq!(string(STRING_UTF16_UNITS_MAX), Ok(()));
        assert_eq!(string(STRING_UTF16_UNITS_MAX + 1), Err(DomainError::PropertyValueTooLarge));
        let emoji = |count| EdmValue::String("😀".repeat(count)).check_size();
        assert_eq!(emoji(STRING_UTF16_UNITS_MAX / 2), Ok(()));
        assert_eq!(emoji(STRING_UTF16_UNITS_MAX / 2 + 1), Err(DomainError::PropertyValueTooLarge));
        let binary = |bytes| EdmValue::Binary(vec![0; bytes]).check_size();
        assert_eq!(binary(BINARY_BYTES_MAX), Ok(()));
        assert_eq!(binary(BINARY_BYTES_MAX + 1), Err(DomainError::PropertyValueTooLarge));
        assert_eq!(EdmRef::String("a😀".into()).size_bytes(), 10);
    }
}
