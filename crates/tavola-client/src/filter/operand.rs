//! What a column can be compared with.

use bytes::Bytes;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::value::Value;

/// A value that a property of type `T` can be compared with.
#[diagnostic::on_unimplemented(
    message = "a property of type `{T}` cannot be compared with a `{Self}`",
    note = "the service does not convert between types: a comparison with another type finds nothing, or everything"
)]
pub trait Operand<T> {
    #[doc(hidden)]
    fn into_value(self) -> Value;
}

macro_rules! operands {
    ($($operand:ty => $property:ty;)+) => {$(
        impl Operand<$property> for $operand {
            fn into_value(self) -> Value {
                <$property>::from(self).into()
            }
        }
    )+};
}

operands! {
    String => String;
    &str => String;
    &String => String;
    i32 => i32;
    i64 => i64;
    f64 => f64;
    bool => bool;
    OffsetDateTime => OffsetDateTime;
    Uuid => Uuid;
    Bytes => Bytes;
    &'static [u8] => Bytes;
    Vec<u8> => Vec<u8>;
    &[u8] => Vec<u8>;
}

/// An optional property is compared with what it holds; where it is absent no comparison holds.
impl<T, V: Operand<T>> Operand<Option<T>> for V {
    fn into_value(self) -> Value {
        Operand::<T>::into_value(self)
    }
}

/// The least text above every one that begins so, in the order of the service, which is that of
/// UTF-16 units; `None` if there is none.
pub(super) fn after_prefix(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // In UTF-16 the characters beyond U+FFFF are surrogates, which lie before U+E000.
        let next = match last {
            '\u{d7ff}' => Some('\u{10000}'),
            '\u{10ffff}' => Some('\u{e000}'),
            '\u{ffff}' => None,
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::after_prefix;

    proptest! {
        /// G65.
        #[test]
        fn exactly_what_begins_so_lies_between(
            prefix in "[a\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{1,3}",
            other in "[ab\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
        ) {
            let above = |low: &str, text: &str| text.encode_utf16().ge(low.encode_utf16());
            let inside = above(&prefix, &other)
                && after_prefix(&prefix).is_none_or(|end| !above(&end, &other));
            prop_assert_eq!(inside, other.starts_with(&prefix));
        }
    }
}
