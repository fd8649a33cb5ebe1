//! The Rust types that a property can have.

use bytes::Bytes;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{EdmType, Value, ValueRef};

/// A Rust type that is the type of a table property. One that is not is a compile error, never a
/// guess.
///
/// | Rust | EDM | Rust | EDM |
/// | --- | --- | --- | --- |
/// | `String` | String | `bool` | Boolean |
/// | `i32` | Int32 | `i64` | Int64 |
/// | `f64` | Double | `Uuid` | Guid |
/// | `OffsetDateTime` (cut to 100 ns) | DateTime | `Bytes`, `Vec<u8>` | Binary |
/// | `Option` of these | absent when `None` | | |
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the type of a table property",
    note = "a property is String, i32, i64, f64, bool, OffsetDateTime, Uuid, Bytes, Vec<u8>, or an Option of these",
    note = "u64 and other types with a text: `#[entity(as = \"string\")]`; nested data: `#[entity(json)]`; \
            its fields as own properties: `#[entity(flatten)]`"
)]
pub trait PropertyType: Sized + sealed::Sealed {
    /// The type on the wire.
    const EDM: EdmType;

    /// The value to write; `None` if the property is absent.
    #[doc(hidden)]
    fn to_property(&self) -> Option<ValueRef<'_>>;

    /// The value that was read; `None` if it has another type.
    #[doc(hidden)]
    fn from_property(value: ValueRef<'_>) -> Option<Self>;

    /// The value of a property that is absent; `None` if it must not be.
    #[doc(hidden)]
    fn from_absent() -> Option<Self> {
        None
    }
}

pub(crate) mod sealed {
    /// Nobody else can say what the type of a property is.
    pub trait Sealed {}
}

macro_rules! property_type {
    ($($rust:ty: $edm:ident, $self_:ident => $to:expr, $value:ident => $from:expr;)+) => {$(
        impl sealed::Sealed for $rust {}

        impl PropertyType for $rust {
            const EDM: EdmType = EdmType::$edm;

            fn to_property(&self) -> Option<ValueRef<'_>> {
                let $self_ = self;
                Some(ValueRef::$edm($to))
            }

            fn from_property(value: ValueRef<'_>) -> Option<Self> {
                match value {
                    ValueRef::$edm($value) => Some($from),
                    _ => None,
                }
            }
        }
    )+};
}

property_type! {
    String: String, text => text, text => text.to_owned();
    i32: Int32, number => *number, number => number;
    i64: Int64, number => *number, number => number;
    f64: Double, number => *number, number => number;
    bool: Boolean, truth => *truth, truth => truth;
    OffsetDateTime: DateTime, at => *at, at => at;
    Uuid: Guid, id => *id, id => id;
    Bytes: Binary, bytes => bytes, bytes => Bytes::copy_from_slice(bytes);
    Vec<u8>: Binary, bytes => bytes, bytes => bytes.to_vec();
}

impl<T: sealed::Sealed> sealed::Sealed for Option<T> {}

impl<T: PropertyType> PropertyType for Option<T> {
    const EDM: EdmType = T::EDM;

    fn to_property(&self) -> Option<ValueRef<'_>> {
        self.as_ref().and_then(T::to_property)
    }

    fn from_property(value: ValueRef<'_>) -> Option<Self> {
        T::from_property(value).map(Some)
    }

    fn from_absent() -> Option<Self> {
        Some(None)
    }
}

/// A property type that can be changed where it lies.
pub trait InPlace: PropertyType {
    /// The place; `None` if the value has another type.
    #[doc(hidden)]
    fn in_place(value: &mut Value) -> Option<&mut Self>;
}

macro_rules! in_place {
    ($($rust:ty: $edm:ident;)+) => {$(
        impl InPlace for $rust {
            fn in_place(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$edm(value) => Some(value),
                    _ => None,
                }
            }
        }
    )+};
}

in_place! {
    String: String;
    i32: Int32;
    i64: Int64;
    f64: Double;
    bool: Boolean;
    OffsetDateTime: DateTime;
    Uuid: Guid;
    Bytes: Binary;
}
