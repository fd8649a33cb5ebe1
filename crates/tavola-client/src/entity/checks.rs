//! What the derive checks at compile time, about types that it does not see.

use super::{KeyBeginning, Kind};
use crate::value::EdmType;

const fn begins_with(text: &str, prefix: &str) -> bool {
    let (text, prefix) = (text.as_bytes(), prefix.as_bytes());
    if prefix.len() > text.len() {
        return false;
    }
    let mut at = 0;
    while at < prefix.len() {
        if text[at] != prefix[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// True if keys with these beginnings can begin alike.
#[must_use]
pub const fn overlap(left: &str, right: &str) -> bool {
    begins_with(left, right) || begins_with(right, left)
}

/// True if rows of both types can be in one partition and begin alike.
#[must_use]
pub const fn rows_alike(left: Option<KeyBeginning>, right: Option<KeyBeginning>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            overlap(left.partition, right.partition) && overlap(left.row, right.row)
        }
        _ => false,
    }
}

/// True if the kinds of both types have one name.
#[must_use]
pub const fn kinds_alike(left: Option<Kind>, right: Option<Kind>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            left.name.len() == right.name.len() && begins_with(left.name, right.name)
        }
        _ => false,
    }
}

/// True if rows of the type can be told from others.
#[must_use]
pub const fn has_kind(kind: Option<Kind>, keys: Option<KeyBeginning>) -> bool {
    kind.is_some() || matches!(keys, Some(keys) if keys.is_kind)
}

/// True if a property of this type can hold the id of a write.
#[must_use]
pub const fn holds_write_id(edm: EdmType) -> bool {
    matches!(edm, EdmType::String | EdmType::Guid)
}

#[cfg(test)]
mod tests {
    use super::overlap;

    /// G79.
    #[test]
    fn beginnings_overlap_if_one_begins_the_other() {
        for (left, right, expected) in [
            ("emp_", "emp_mail_", true),
            ("emp_", "dept", false),
            ("", "dept", true),
            ("a", "a", true),
            ("ab", "ac", false),
        ] {
            assert_eq!(overlap(left, right), expected);
            assert_eq!(overlap(right, left), expected);
        }
    }
}
