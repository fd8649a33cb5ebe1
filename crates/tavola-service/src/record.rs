//! System entities: reading and writing the rows that the service keeps for itself.

use tavola_core::{
    Cut, DomainError, EdmRef, EdmValue, EntityKey, EntityView, KeyRange, NewEntity, PartitionKey,
    Properties, PropertyName, RowKey,
};
use tavola_store::StoreError;

/// Collects the properties of a system entity.
#[derive(Debug, Default)]
pub struct Record(Vec<(PropertyName, EdmValue)>);

impl Record {
    /// Adds a property.
    ///
    /// # Panics
    /// If the name is not one that a property can have: names are the service's own.
    pub fn set(&mut self, name: &str, value: EdmValue) -> &mut Self {
        let name =
            PropertyName::new(name).expect("the service's own property names are identifiers");
        self.0.push((name, value));
        self
    }

    /// Adds a property that is a text.
    ///
    /// # Panics
    /// As [`Record::set`].
    pub fn set_text(&mut self, name: &str, text: &str) -> &mut Self {
        self.set(name, EdmValue::String(text.to_owned()))
    }

    /// The row to write.
    ///
    /// # Errors
    /// If a client's text (an access policy, a CORS rule) is too large for a property.
    pub(crate) fn into_entity(self, key: EntityKey) -> Result<NewEntity, DomainError> {
        let properties = Properties::new(self.0)?;
        NewEntity::new(key, properties).map(|(_, entity)| entity)
    }
}

/// Names of a row's properties that writing again what was read from it would not give.
pub(crate) fn unread(row: &dyn EntityView, written: &Record) -> Vec<String> {
    let mut unread = Vec::new();
    row.visit(&mut |name, value| {
        let same = |(written, kept): &(PropertyName, EdmValue)| {
            name == *written.as_str() && kept.as_ref() == value
        };
        if !written.0.iter().any(same) {
            unread.push(name.to_string());
        }
    });
    unread
}

/// A key that the service makes from checked parts.
pub(crate) fn row_key(text: impl Into<String>) -> RowKey {
    RowKey::new(text).expect("the service's own row keys are legal")
}

/// An account's partition in a system table.
pub(crate) fn partition_key(account: &tavola_core::AccountName) -> PartitionKey {
    PartitionKey::new(account.as_str()).expect("an account name is a legal key")
}

/// A property that a system entity must have.
///
/// # Errors
/// [`StoreError::Corrupt`] if it is missing or of another type: somebody else wrote the row, or it
/// is damaged.
pub fn require<'a, T>(
    row: &'a dyn EntityView,
    name: &str,
    read: impl FnOnce(EdmRef<'a>) -> Option<T>,
) -> Result<T, StoreError> {
    row.property(name).and_then(read).ok_or_else(|| corrupt(row, name))
}

/// A system entity whose property is not as it was written.
pub(crate) fn corrupt(row: &dyn EntityView, name: &str) -> StoreError {
    let key = format!("{}/{}", row.partition_key(), row.row_key());
    StoreError::Corrupt(format!("system entity {key} has no usable property {name}"))
}

/// The rows of a partition whose keys begin with `prefix`, as long as no `~` follows it; none if no
/// key can begin so.
pub(crate) fn rows_with_prefix(partition_key: &PartitionKey, prefix: &str) -> Option<KeyRange> {
    let before = |text: String| {
        let row_key = RowKey::stored(text).ok()?;
        Some(Cut::Before(EntityKey::new(partition_key.clone(), row_key)))
    };
    let (start, end) = (before(prefix.to_owned())?, before(format!("{prefix}~"))?);
    Some(KeyRange { start, end })
}

/// The value of a text.
#[must_use]
pub fn text(value: EdmRef<'_>) -> Option<&str> {
    match value {
        EdmRef::String(text) => Some(text.as_str()),
        _ => None,
    }
}

/// The value of a number.
#[must_use]
pub fn int64(value: EdmRef<'_>) -> Option<i64> {
    match value {
        EdmRef::Int64(number) => Some(number),
        _ => None,
    }
}

/// The value of a point in time.
#[must_use]
pub fn date_time(value: EdmRef<'_>) -> Option<tavola_core::DateTime> {
    match value {
        EdmRef::DateTime(at) => Some(at),
        _ => None,
    }
}
