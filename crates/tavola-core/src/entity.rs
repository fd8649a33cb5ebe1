//! Entities: a key, a timestamp and up to 252 typed properties; and the view through which
//! everything reads them.

use std::fmt;

use crate::domain_error::DomainError;
use crate::edm::{EdmRef, EdmValue};
use crate::etag::Timestamp;
use crate::key::{EntityKey, utf16_units};
use crate::limits::{ENTITY_BYTES_MAX, PROPERTIES_MAX, PROPERTY_NAME_UTF16_UNITS_MAX};
use crate::text::Text;

/// So few names are compared each with each, which most often ends at their lengths; more of them
/// are sorted first.
const COMPARED_PAIRWISE_MAX: usize = 16;

/// An entity that can be read, wherever its bytes lie. Filters, projection and rendering go through
/// this view, so that a store can hand out rows that are never turned into a map of properties.
pub trait EntityView: fmt::Debug + Send + Sync {
    /// The partition's key.
    fn partition_key(&self) -> Text<'_>;
    /// The row's key.
    fn row_key(&self) -> Text<'_>;
    /// When the entity was last written.
    fn timestamp(&self) -> Timestamp;
    /// One of the entity's own properties; never a system property.
    fn property(&self, name: &str) -> Option<EdmRef<'_>>;
    /// Calls `visit` with each of the entity's own properties, in stored order.
    fn visit(&self, visit: &mut dyn FnMut(Text<'_>, EdmRef<'_>));
}

/// The name of a property: an identifier by the rules of C#, at most 255 characters,
/// case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PropertyName(String);

impl PropertyName {
    /// Checks every rule of a name.
    ///
    /// # Errors
    /// The refusal that the service answers with.
    pub fn new(name: impl Into<String>) -> Result<Self, DomainError> {
        let name = name.into();
        if name.len() > PROPERTY_NAME_UTF16_UNITS_MAX
            && utf16_units(&name) > PROPERTY_NAME_UTF16_UNITS_MAX
        {
            return Err(DomainError::PropertyNameTooLong);
        }
        if !is_identifier(&name) {
            return Err(DomainError::PropertyNameInvalid);
        }
        Ok(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// True for a C# identifier: a letter or `_` first, then letters, digits and `_`. Combining marks
/// and connectors are alphabetic or listed explicitly; the service's exact Unicode version is not
/// published.
#[must_use]
pub fn is_identifier(name: &str) -> bool {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return name.as_bytes().first().is_some_and(|first| !first.is_ascii_digit());
    }
    let mut characters = name.chars();
    let starts = characters.next().is_some_and(|first| first.is_alphabetic() || first == '_');
    let continues = |character: char| {
        character.is_alphanumeric()
            || matches!(
                character,
                '_' | '\u{203f}' | '\u{2040}' | '\u{2054}' | '\u{fe33}' | '\u{fe34}' | '\u{ff3f}'
            )
            || matches!(character, '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{ad}')
    };
    starts && characters.all(continues)
}

/// Names that an entity's own properties cannot have.
#[must_use]
pub fn is_system_property(name: &str) -> bool {
    matches!(name, "PartitionKey" | "RowKey" | "Timestamp")
}

/// An entity's own properties in the order in which they were written. No name twice, none of the
/// system's, at most 252, and no value beyond its limit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Properties(Vec<(PropertyName, EdmValue)>);

impl Properties {
    /// Collects checked properties.
    ///
    /// # Errors
    /// The refusal of the first broken rule.
    pub fn new(properties: Vec<(PropertyName, EdmValue)>) -> Result<Self, DomainError> {
        if properties.len() > PROPERTIES_MAX {
            return Err(DomainError::TooManyProperties);
        }
        if repeats(&properties) {
            return Err(DomainError::DuplicateProperty);
        }
        if properties.iter().any(|(name, _)| is_system_property(name.as_str())) {
            return Err(DomainError::PropertyNameInvalid);
        }
        properties.iter().try_for_each(|(_, value)| value.check_size())?;
        Ok(Self(properties))
    }

    /// The properties in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, EdmRef<'_>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The property of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<EdmRef<'_>> {
        self.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| value)
    }

    /// What a merge of `newer` onto `current` stores: given properties overwrite in place, others
    /// stay, new ones follow.
    ///
    /// # Errors
    /// If the result has too many properties.
    pub fn merged(current: &dyn EntityView, newer: &Self) -> Result<Self, DomainError> {
        let mut result = Vec::with_capacity(newer.len());
        current.visit(&mut |name, value| {
            let name = name.as_str();
            let value = newer.get(name).unwrap_or(value).to_owned();
            result.push((PropertyName(name.to_owned()), value));
        });
        let added = newer.0.iter().filter(|(name, _)| current.property(name.as_str()).is_none());
        result.extend(added.cloned());
        if result.len() > PROPERTIES_MAX {
            return Err(DomainError::TooManyProperties);
        }
        Ok(Self(result))
    }
}

/// True if a name comes twice.
fn repeats(properties: &[(PropertyName, EdmValue)]) -> bool {
    if properties.len() <= COMPARED_PAIRWISE_MAX {
        let came_before = |(at, (name, _)): (usize, &(PropertyName, _))| {
            properties[..at].iter().any(|(n, _)| n == name)
        };
        return properties.iter().enumerate().any(came_before);
    }
    let mut names: Vec<&str> = properties.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// The size that the 1 MiB limit is about, by the service's published formula, in UTF-16.
#[must_use]
pub fn entity_bytes(key: &EntityKey, properties: &Properties) -> usize {
    let keys = utf16_units(key.partition_key.as_str()) + utf16_units(key.row_key.as_str());
    let values: usize =
        properties.iter().map(|(name, value)| 8 + 2 * utf16_units(name) + value.size_bytes()).sum();
    4 + 2 * keys + values
}

/// Refuses an entity beyond 1 MiB.
///
/// # Errors
/// [`DomainError::EntityTooLarge`].
pub fn check_entity_bytes(key: &EntityKey, properties: &Properties) -> Result<(), DomainError> {
    if entity_bytes(key, properties) > ENTITY_BYTES_MAX {
        Err(DomainError::EntityTooLarge)
    } else {
        Ok(())
    }
}

/// A whole entity as a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// Which entity.
    pub key: EntityKey,
    /// When it was last written.
    pub timestamp: Timestamp,
    /// Its own properties.
    pub properties: Properties,
}

impl Entity {
    /// Copies an entity out of the place where it lies.
    ///
    /// # Errors
    /// If it breaks a rule of the domain, which a damaged or foreign row may.
    pub fn from_view(view: &dyn EntityView) -> Result<Self, DomainError> {
        let key = |_| DomainError::KeyTooLarge;
        let partition_key =
            crate::key::PartitionKey::stored(view.partition_key().as_str()).map_err(key)?;
        let row_key = crate::key::RowKey::stored(view.row_key().as_str()).map_err(key)?;
        let mut properties = Vec::new();
        view.visit(&mut |name, value| {
            properties.push((PropertyName(name.as_str().to_owned()), value.to_owned()))
        });
        let properties = Properties::new(properties)?;
        Ok(Self {
            key: EntityKey::new(partition_key, row_key),
            timestamp: view.timestamp(),
            properties,
        })
    }
}

impl EntityView for Entity {
    fn partition_key(&self) -> Text<'_> {
        self.key.partition_key.as_str().into()
    }

    fn row_key(&self) -> Text<'_> {
        self.key.row_key.as_str().into()
    }

    fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    fn property(&self, name: &str) -> Option<EdmRef<'_>> {
        self.properties.get(name)
    }

    fn visit(&self, visit: &mut dyn FnMut(Text<'_>, EdmRef<'_>)) {
        for (name, value) in self.properties.iter() {
            visit(name.into(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entity, Properties, PropertyName, check_entity_bytes, entity_bytes};
    use crate::domain_error::DomainError;
    use crate::edm::EdmValue;
    use crate::etag::Timestamp;
    use crate::key::{EntityKey, PartitionKey, RowKey};
    use crate::limits::ENTITY_BYTES_MAX;

    fn properties(names: &[(&str, i32)]) -> Properties {
        let checked = |(name, value): &(&str, i32)| {
            (PropertyName::new(*name).unwrap(), EdmValue::Int32(*value))
        };
        Properties::new(names.iter().map(checked).collect()).unwrap()
    }

    fn key() -> EntityKey {
        EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap())
    }

    #[test]
    fn names() {
        for good in ["a", "_a", "Größe", "a1_", "数据"] {
            assert!(PropertyName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "1a", "a-b", "a b", "a.b", "a@b", "-"] {
            assert_eq!(PropertyName::new(bad), Err(DomainError::PropertyNameInvalid), "{bad}");
        }
        assert!(PropertyName::new("a".repeat(255)).is_ok());
        assert_eq!(PropertyName::new("a".repeat(256)), Err(DomainError::PropertyNameTooLong));
    }

    #[test]
    fn rules_of_a_set_of_properties() {
        let many = |count: usize| {
            let one =
                |n: usize| (PropertyName::new(format!("p{n}")).unwrap(), EdmValue::Boolean(true));
            Properties::new((0..count).map(one).collect()).map(|set| set.len())
        };
        assert_eq!(many(252), Ok(252));
        assert_eq!(many(253), Err(DomainError::TooManyProperties));
        let many_and_one_twice = |count: usize| {
            let names = (0..count).map(|n| format!("p{n}")).chain(["p1".to_owned()]);
            Properties::new(
                names.map(|name| (PropertyName::new(name).unwrap(), EdmValue::Int32(1))).collect(),
            )
        };
        for count in [2, 15, 16, 17, 40] {
            assert_eq!(many_and_one_twice(count), Err(DomainError::DuplicateProperty), "{count}");
        }
        let twice =
            ["a", "b", "a"].map(|name| (PropertyName::new(name).unwrap(), EdmValue::Int32(1)));
        assert_eq!(Properties::new(twice.to_vec()), Err(DomainError::DuplicateProperty));
        assert_eq!(properties(&[("a", 1), ("A", 2)]).len(), 2);
    }

    #[test]
    fn merge_overwrites_in_place_and_appends() {
        let current = Entity {
            key: key(),
            timestamp: Timestamp::MIN,
            properties: properties(&[("a", 1), ("b", 2)]),
        };
        let merged = Properties::merged(&current, &properties(&[("c", 3), ("a", 9)])).unwrap();
        assert_eq!(merged, properties(&[("a", 9), ("b", 2), ("c", 3)]));
    }

    #[test]
    fn size_by_the_services_formula() {
        // 4 + 2·(1+1) + (8 + 2·1 + 4)
        assert_eq!(entity_bytes(&key(), &properties(&[("a", 1)])), 22);
        let binary = |bytes: usize| {
            let chunk = |(n, size)| {
                (PropertyName::new(format!("p{n:03}")).unwrap(), EdmValue::Binary(vec![0; size]))
            };
            let sizes = std::iter::repeat_n(65_536, bytes / 65_536).chain([bytes % 65_536]);
            Properties::new(sizes.enumerate().map(chunk).collect()).unwrap()
        };
        // 16 properties of (8 + 2·4 + 4) and 8 for the keys are what remains beside the bytes.
        let room = ENTITY_BYTES_MAX - 8 - 16 * 20;
        assert_eq!(check_entity_bytes(&key(), &binary(room)), Ok(()));
        assert_eq!(check_entity_bytes(&key(), &binary(room + 1)), Err(DomainError::EntityTooLarge));
    }
}
