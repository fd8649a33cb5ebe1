//! Entities whose properties are known only at run time.

use std::collections::BTreeSet;
use std::fmt;

use time::OffsetDateTime;

use super::kind::{KIND_PROPERTY, split_kind};
use super::{Decoded, Decoder, Entity, KeyBeginning, Kind, Name, PropertySink, RowHead, sealed};
use crate::crypt::{self, ENVELOPE};
use crate::error::Error;
use crate::etag::ETag;
use crate::key::EntityKey;
use crate::value::{InPlace, PropertyType, Value, ValueRef};

/// An entity without a Rust type of its own: a key, and properties that keep their exact types.
///
/// ```
/// use tavola_client::{DynEntity, Entity};
///
/// let mut department = DynEntity::new("Sales", "dept");
/// department.set("EntityType", "department");
/// department.set("EmployeeCount", 53_i64);
/// *department.get_mut::<i64>("EmployeeCount")? += 1;
/// assert_eq!(department.get::<i64>("EmployeeCount")?, 54);
/// assert_eq!(department.get::<Option<String>>("Manager")?, None);
/// assert_eq!(department.kind(), Some("department"));
/// # Ok::<(), tavola_client::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct DynEntity {
    partition: String,
    row: String,
    properties: Vec<(String, Value)>,
}

impl DynEntity {
    /// An entity without properties. Its key is checked when it is used.
    #[must_use]
    pub fn new(partition: impl Into<String>, row: impl Into<String>) -> Self {
        Self { partition: partition.into(), row: row.into(), properties: Vec::new() }
    }

    pub(crate) fn with_properties(head: &RowHead<'_>, properties: Vec<(String, Value)>) -> Self {
        Self { partition: head.partition.to_owned(), row: head.row.to_owned(), properties }
    }

    /// The PartitionKey.
    #[must_use]
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The RowKey.
    #[must_use]
    pub fn row(&self) -> &str {
        &self.row
    }

    /// A property by name, in a Rust type; an `Option` for one that may be absent.
    ///
    /// # Errors
    /// If it has another type, or is absent.
    pub fn get<T: PropertyType>(&self, name: &str) -> Result<T, Error> {
        match self.value(name) {
            Some(value) => T::from_property(value.as_ref())
                .ok_or_else(|| Error::property(name, T::EDM, Some(value.edm_type()))),
            None => T::from_absent().ok_or_else(|| Error::property(name, T::EDM, None)),
        }
    }

    /// A property, to be changed in place.
    ///
    /// # Errors
    /// If it has another type, or is absent.
    pub fn get_mut<T: InPlace>(&mut self, name: &str) -> Result<&mut T, Error> {
        let found = self.properties.iter_mut().find(|(own, _)| own == name);
        let Some((_, value)) = found else { return Err(Error::property(name, T::EDM, None)) };
        let edm = value.edm_type();
        T::in_place(value).ok_or_else(|| Error::property(name, T::EDM, Some(edm)))
    }

    /// A property in whatever type it has.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Sets a property, whatever type it had, and returns what it was.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (name, value) = (name.into(), value.into());
        match self.properties.iter_mut().find(|(own, _)| *own == name) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.properties.push((name, value));
                None
            }
        }
    }

    /// Removes a property and returns it. Only a replace removes it in the table: a merge leaves it.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.properties.iter().position(|(own, _)| own == name)?;
        Some(self.properties.remove(at).1)
    }

    /// The properties in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The kind in `EntityType`, without its version.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        match self.value(KIND_PROPERTY)? {
            Value::String(text) => Some(split_kind(text).0),
            _ => None,
        }
    }

    /// The entity as another type reads it.
    ///
    /// # Errors
    /// If it is of another kind, or a property or key is not what that type expects.
    pub fn to<E: Entity>(&self) -> Result<E, Error> {
        // Only mirrors would show that this is no version of the service's.
        let (etag, timestamp) = (ETag::new(""), OffsetDateTime::UNIX_EPOCH);
        let head = RowHead { partition: &self.partition, row: &self.row, etag: &etag, timestamp };
        let mut decoder = E::decoder();
        for (name, value) in &self.properties {
            decoder.property(name, value.as_ref());
        }
        decoder.finish(&head).map(|decoded| decoded.value)
    }

    /// The entity without its type. Nothing is lost: kind, version and key are in it.
    ///
    /// # Errors
    /// If the entity's key or a property cannot be written.
    pub fn from_entity<E: Entity>(entity: &E) -> Result<Self, Error> {
        let key = entity.entity_key()?;
        let mut dynamic = Self::new(key.partition(), key.row());
        entity.encode(&mut dynamic)?;
        Ok(dynamic)
    }

    /// Sets a property that is stored encrypted, and returns what it was. It stays encrypted
    /// whatever it is set to later. An entity that was read with its keys says the same of what was
    /// encrypted.
    ///
    /// # Errors
    /// If the entity was read without its keys: it is encrypted already.
    #[cfg(feature = "encrypt")]
    pub fn set_encrypted(
        &mut self,
        name: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<Option<Value>, Error> {
        let name = name.into();
        self.mark_encrypted(&name)?;
        Ok(self.set(name, value))
    }

    /// True if the property is stored encrypted.
    #[must_use]
    pub fn is_encrypted(&self, name: &str) -> bool {
        self.encrypted_names().any(|own| own == name)
    }

    fn encrypted_names(&self) -> impl Iterator<Item = &str> {
        let text = match self.value(ENVELOPE) {
            Some(Value::String(text)) => text.as_str(),
            _ => "",
        };
        crypt::names(text)
    }

    /// Notes in `tv_enc` that a property is to be encrypted.
    pub(crate) fn mark_encrypted(&mut self, name: &str) -> Result<(), Error> {
        if let Some(Value::Binary(_)) = self.value(ENVELOPE) {
            return Err(crypt::encrypted_already());
        }
        let mut names: BTreeSet<String> = self.encrypted_names().map(str::to_owned).collect();
        if names.insert(name.to_owned()) {
            self.set(ENVELOPE, crypt::joined(&names));
        }
        Ok(())
    }
}

/// Values that are stored encrypted are not shown.
impl fmt::Debug for DynEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynEntity")
            .field("partition", &self.partition)
            .field("row", &self.row)
            .field("properties", &Shown(&self.properties))
            .finish()
    }
}

impl PropertySink for DynEntity {
    fn property(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), Error> {
        match value {
            // Of several groups of properties each says its own.
            ValueRef::String(text) if name == ENVELOPE => {
                crypt::names(text).try_for_each(|name| self.mark_encrypted(name))
            }
            _ => {
                self.set(name, value.to_value());
                Ok(())
            }
        }
    }

    fn encrypted(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), Error> {
        self.mark_encrypted(name)?;
        self.property(name, value)
    }
}

/// Properties for people: without the values of those that are encrypted.
pub(super) struct Shown<'a>(pub(super) &'a [(String, Value)]);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.0.iter().find_map(|(name, value)| match value {
            Value::String(text) if name == ENVELOPE => Some(text.as_str()),
            _ => None,
        });
        let encrypted: Vec<&str> = crypt::names(said.unwrap_or_default()).collect();
        let mut list = f.debug_list();
        for (name, value) in self.0 {
            match encrypted.contains(&name.as_str()) {
                true => list.entry(&(name, "***")),
                false => list.entry(&(name, value)),
            };
        }
        list.finish()
    }
}

impl sealed::Derived for DynEntity {}

impl Entity for DynEntity {
    const KIND: Option<Kind> = None;
    const NAMES: Option<&'static [Name]> = None;
    const KEYS: Option<KeyBeginning> = None;
    const WRITE_ID: Option<&'static str> = None;

    type Decoder = DynDecoder;

    fn entity_key(&self) -> Result<EntityKey, Error> {
        EntityKey::new(self.partition.as_str(), self.row.as_str())
    }

    fn encode(&self, sink: &mut dyn PropertySink) -> Result<(), Error> {
        self.properties.iter().try_for_each(|(name, value)| sink.property(name, value.as_ref()))
    }

    fn decoder() -> Self::Decoder {
        DynDecoder::default()
    }

    fn owns(&self, _name: &str) -> bool {
        true
    }

    fn accepts_kind(_name: &str, _version: u32) -> bool {
        true
    }

    fn mirror(&mut self, _etag: &ETag, _timestamp: OffsetDateTime) {}
}

/// Reads any row.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct DynDecoder(Vec<(String, Value)>);

impl Decoder for DynDecoder {
    type Out = DynEntity;

    fn property(&mut self, name: &str, value: ValueRef<'_>) {
        self.0.push((name.to_owned(), value.to_value()));
    }

    fn finish(self, head: &RowHead<'_>) -> Result<Decoded<DynEntity>, Error> {
        Ok(Decoded { value: DynEntity::with_properties(head, self.0), rest: Vec::new() })
    }
}
