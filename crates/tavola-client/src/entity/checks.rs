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
            let is_meant = left.is_family && right.is_family;
            !is_meant && overlap(left.partition, right.partition) && overlap(left.row, right.row)
        }
        _ => false,
    }
}

/// True if rows of the one template are behind those of the other: the same partition, and more in
/// the row.
#[must_use]
pub const fn is_behind(own: (&str, &str), parent: (&str, &str)) -> bool {
    let is_same_partition = own.0.len() == parent.0.len() && begins_with(own.0, parent.0);
    is_same_partition && own.1.len() > parent.1.len() && begins_with(own.1, parent.1)
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
