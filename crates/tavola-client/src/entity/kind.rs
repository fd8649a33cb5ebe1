//! Kinds: what tells entities of several types in one table apart.

use crate::filter::{AnyFilter, prop};
use crate::value::ValueRef;

/// The kind of an entity as it is stored: `employee@2`, or `employee` for version 1.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The property that holds it.
    pub property: &'static str,
    pub name: &'static str,
    pub version: u32,
    /// The stored text.
    pub text: &'static str,
}

/// The property that holds the kind unless the type says another.
pub(crate) const KIND_PROPERTY: &str = "EntityType";

/// Name and version of a stored kind. What is no version belongs to the name.
#[doc(hidden)]
#[must_use]
pub fn split_kind(text: &str) -> (&str, u32) {
    text.rsplit_once('@')
        .and_then(|(name, version)| {
            let canonical = version.starts_with(|first: char| matches!(first, '1'..='9'));
            Some((name, version.parse().ok().filter(|_| canonical)?))
        })
        .unwrap_or((text, 1))
}

impl Kind {
    /// The rows of this kind, in all versions.
    pub(crate) fn to_filter(self) -> AnyFilter {
        // `@` begins a version, and `A` is behind it.
        let later = prop(self.property).ge(format!("{}@", self.name));
        let later = later.and(prop(self.property).lt(format!("{}A", self.name)));
        prop(self.property).eq(self.name).or(later)
    }

    /// The kind in a property, if it is the one that holds kinds.
    #[doc(hidden)]
    #[must_use]
    pub fn of_property<'v>(&self, name: &str, value: ValueRef<'v>) -> Option<(&'v str, u32)> {
        match value {
            ValueRef::String(text) if name == self.property => Some(split_kind(text)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split_kind;

    #[test]
    fn a_version_follows_the_last_at_sign() {
        for (text, name, version) in [
            ("employee", "employee", 1),
            ("employee@2", "employee", 2),
            ("a@b@12", "a@b", 12),
            ("employee@", "employee@", 1),
            ("employee@x", "employee@x", 1),
            ("employee@02", "employee@02", 1),
            ("employee@0", "employee@0", 1),
            ("employee@99999999999", "employee@99999999999", 1),
            ("", "", 1),
        ] {
            assert_eq!(split_kind(text), (name, version), "{text}");
        }
    }
}
