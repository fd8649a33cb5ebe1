//! PartitionKey and RowKey: their rules and their order.
//!
//! A key that exists is legal. Keys order by UTF-16 code unit, as the service (.NET ordinal
//! comparison) orders them; that differs from UTF-8 byte order only where a character beyond U+FFFF
//! meets one of U+E000–U+FFFF.

use std::cmp::Ordering;
use std::fmt;

use crate::limits::{KEY_UTF16_UNITS_MAX, STORED_KEY_UTF16_UNITS_MAX};

/// Why a text cannot be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// More than 1 KiB of UTF-16 for a table's key, twice that for any.
    #[error("the key is longer than {KEY_UTF16_UNITS_MAX} UTF-16 code units")]
    TooLong,
    /// `/`, `\`, `#`, `?` or a control character.
    #[error("the key contains the forbidden character {0:?}")]
    Forbidden(char),
}

/// True for the characters that no key may contain.
#[must_use]
pub fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?' | '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

/// True for the first byte of every forbidden character; the last of these begins U+0080 to U+00BF.
fn begins_forbidden(byte: u8) -> bool {
    (byte < 0x20)
        | (byte == b'/')
        | (byte == b'\\')
        | (byte == b'#')
        | (byte == b'?')
        | (byte == 0x7f)
        | (byte == 0xc2)
}

fn check(text: &str) -> Result<(), KeyError> {
    // A loop without a branch goes by whole registers, and hardly any key has such a byte.
    let may_be_forbidden = text.bytes().fold(false, |any, byte| any | begins_forbidden(byte));
    if may_be_forbidden
        && let Some(character) = text.chars().find(|&character| is_forbidden(character))
    {
        return Err(KeyError::Forbidden(character));
    }
    // A UTF-8 text never has fewer bytes than UTF-16 code units, so short texts need no count.
    if text.len() > KEY_UTF16_UNITS_MAX && utf16_units(text) > KEY_UTF16_UNITS_MAX {
        return Err(KeyError::TooLong);
    }
    Ok(())
}

fn check_stored(text: &str) -> Result<(), KeyError> {
    if let Some(character) = text.chars().find(|character| *character < ' ') {
        return Err(KeyError::Forbidden(character));
    }
    if text.len() > STORED_KEY_UTF16_UNITS_MAX && utf16_units(text) > STORED_KEY_UTF16_UNITS_MAX {
        return Err(KeyError::TooLong);
    }
    Ok(())
}

/// The length of `text` in UTF-16 code units, the unit of every length rule of the service.
#[must_use]
pub fn utf16_units(text: &str) -> usize {
    bytes_in_utf16_units(text.as_bytes())
}

/// The same of the bytes of a text.
pub(crate) fn bytes_in_utf16_units(text: &[u8]) -> usize {
    // Most texts, and found out by whole registers.
    if text.is_ascii() {
        return text.len();
    }
    // A unit for the first byte of each character, and one more if it begins four: those are two
    // surrogates.
    let units = |byte: u8| usize::from(byte & 0xc0 != 0x80) + usize::from(byte >= 0xf0);
    text.iter().copied().map(units).sum()
}

/// Compares two texts by UTF-16 code unit without converting them.
///
/// In UTF-8 only the lead bytes EE and EF (U+E000–U+FFFF) and F0–F4 (beyond U+FFFF, surrogates in
/// UTF-16) stand in the other order; ranking the former above the latter makes byte order equal to
/// code unit order.
#[must_use]
pub fn utf16_order(left: &str, right: &str) -> Ordering {
    bytes_in_utf16_order(left.as_bytes(), right.as_bytes())
}

/// The same of the bytes of two texts.
pub(crate) fn bytes_in_utf16_order(left: &[u8], right: &[u8]) -> Ordering {
    let common = left.iter().zip(right).position(|(l, r)| l != r);
    match common {
        Some(at) => lead_rank(left[at]).cmp(&lead_rank(right[at])),
        None => left.len().cmp(&right.len()),
    }
}

/// The rank of a UTF-8 byte in code unit order; stores use the same mapping for their key bytes.
#[must_use]
pub const fn lead_rank(byte: u8) -> u8 {
    match byte {
        0xEE => 0xF5,
        0xEF => 0xF6,
        other => other,
    }
}

macro_rules! key_type {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash, Default)]
        pub struct $name(String);

        impl $name {
            /// Checks every rule of a key.
            ///
            /// # Errors
            /// If the text is too long or contains a forbidden character.
            pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
                let text = text.into();
                check(&text)?;
                Ok(Self(text))
            }

            /// Checks what every store can carry: rows of other services than tables have keys of
            /// their own kind, a blob's name for example.
            ///
            /// # Errors
            /// If the text is longer than any store takes, or has a character below U+0020.
            pub fn stored(text: impl Into<String>) -> Result<Self, KeyError> {
                let text = text.into();
                check_stored(&text)?;
                Ok(Self(text))
            }

            /// The key's text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                utf16_order(&self.0, &other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

key_type! {
    /// The first half of an entity's key: all entities that share it are one partition.
    PartitionKey
}
key_type! {
    /// The second half of an entity's key, unique in its partition.
    RowKey
}

/// Names one entity of a table. Orders as queries return entities.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityKey {
    /// The partition.
    pub partition_key: PartitionKey,
    /// The row in it.
    pub row_key: RowKey,
}

impl EntityKey {
    /// Joins two keys that were checked already.
    #[must_use]
    pub fn new(partition_key: PartitionKey, row_key: RowKey) -> Self {
        Self { partition_key, row_key }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        KeyError, PartitionKey, RowKey, begins_forbidden, is_forbidden, utf16_order, utf16_units,
    };

    #[test]
    fn every_rule_of_a_key() {
        assert!(RowKey::new("").is_ok());
        assert!(RowKey::new("a'b\"%+:@&= é 😀").is_ok());
        assert!(RowKey::new("x".repeat(512)).is_ok());
        assert_eq!(RowKey::new("x".repeat(513)), Err(KeyError::TooLong));
        assert!(RowKey::new("😀".repeat(256)).is_ok());
        assert_eq!(RowKey::new("😀".repeat(257)), Err(KeyError::TooLong));
        for character in ['/', '\\', '#', '?', '\0', '\n', '\u{1f}', '\u{7f}', '\u{9f}'] {
            assert_eq!(
                PartitionKey::new(format!("a{character}b")),
                Err(KeyError::Forbidden(character))
            );
        }
        assert!(PartitionKey::new("\u{a0}").is_ok());
    }

    #[test]
    fn what_stores_carry_is_more_than_what_tables_take() {
        assert!(RowKey::stored("a/b\\c#d?e\u{7f}").is_ok());
        assert!(RowKey::stored("x".repeat(1024)).is_ok());
        assert!(PartitionKey::stored("😀".repeat(512)).is_ok());
        assert_eq!(RowKey::stored("x".repeat(1025)), Err(KeyError::TooLong));
        assert_eq!(RowKey::stored("a\u{1f}"), Err(KeyError::Forbidden('\u{1f}')));
    }

    #[test]
    fn upper_case_sorts_first_and_surrogates_before_the_private_area() {
        let mut keys =
            ["b", "B", "bB", "", "\u{e000}", "\u{10000}", "a"].map(|key| RowKey::new(key).unwrap());
        keys.sort();
        let sorted: Vec<&str> = keys.iter().map(RowKey::as_str).collect();
        assert_eq!(sorted, ["", "B", "a", "b", "bB", "\u{10000}", "\u{e000}"]);
    }

    #[test]
    fn every_forbidden_character_is_found_by_its_first_byte() {
        for character in '\0'..='\u{2ff}' {
            let first = character.to_string().as_bytes()[0];
            assert!(begins_forbidden(first) || !is_forbidden(character), "{character:?}");
            assert_eq!(
                RowKey::new(format!("a{character}")).is_err(),
                is_forbidden(character),
                "{character:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn order_is_the_order_of_utf16_code_units(left in ".{0,12}", right in ".{0,12}") {
            let definition = left.encode_utf16().cmp(right.encode_utf16());
            prop_assert_eq!(utf16_order(&left, &right), definition);
            prop_assert_eq!(utf16_units(&left), left.encode_utf16().count());
        }

        #[test]
        fn order_holds_where_the_encodings_disagree(
            left in "[a\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
            right in "[a\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
        ) {
            prop_assert_eq!(utf16_order(&left, &right), left.encode_utf16().cmp(right.encode_utf16()));
        }
    }
}
