//! Entities to what the core stores, and back.

use std::collections::BTreeSet;

use tavola_core::entity::PropertyName;
use tavola_core::limits::{
    BINARY_BYTES_MAX, ENTITY_BYTES_MAX, PROPERTIES_MAX, PROPERTY_NAME_UTF16_UNITS_MAX,
    STRING_UTF16_UNITS_MAX,
};
use tavola_core::{DomainError, EdmValue, EntityView, Properties};

use super::{Decoder, Entity, PropertySink, RowHead, Stored};
use crate::crypt::{self, ENVELOPE};
use crate::error::{Error, Rule};
use crate::etag::ETag;
use crate::value::{Value, ValueRef, date_time_from, edm_to_ref, value_to_edm};

/// The properties of an entity, and of `rest` those that its type does not know, with every limit
/// checked.
#[allow(dead_code, reason = "the half of the library that sends uses it")]
pub(crate) fn encode_properties<E: Entity>(
    entity: &E,
    rest: &[(String, Value)],
) -> Result<Properties, Error> {
    let mut encoded = Encoded::default();
    entity.encode(&mut encoded)?;
    for (name, value) in rest.iter().filter(|(name, _)| !entity.owns(name)) {
        encoded.property(name, value.as_ref())?;
    }
    encoded.encrypts |= !entity.encrypted().is_empty();
    let properties = encoded.finish()?;
    let found = properties.len();
    let properties = Properties::new(properties).map_err(|error| refused(error, found))?;
    check_size(entity, &properties)?;
    Ok(properties)
}

/// The properties of an entity, and which of them are to be encrypted.
#[derive(Default)]
struct Encoded {
    properties: Vec<(PropertyName, EdmValue)>,
    encrypted: BTreeSet<String>,
    /// The entity has properties that are encrypted, present or not.
    encrypts: bool,
}

impl PropertySink for Encoded {
    fn property(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), Error> {
        match value {
            ValueRef::String(text) if name == ENVELOPE => {
                self.encrypted.extend(crypt::names(text).map(str::to_owned));
            }
            _ => self.properties.push(checked(name, value)?),
        }
        Ok(())
    }

    fn encrypted(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), Error> {
        self.encrypted.insert(name.to_owned());
        self.property(name, value)
    }
}

impl Encoded {
    fn finish(mut self) -> Result<Vec<(PropertyName, EdmValue)>, Error> {
        let has = |name: &String| self.properties.iter().any(|(own, _)| own.as_str() == name);
        self.encrypted.retain(has);
        if self.encrypts || !self.encrypted.is_empty() {
            let names = crypt::joined(&self.encrypted);
            self.properties.push(checked(ENVELOPE, ValueRef::String(&names))?);
        }
        Ok(self.properties)
    }
}

fn checked(name: &str, value: ValueRef<'_>) -> Result<(PropertyName, EdmValue), Error> {
    let name_error = |_| {
        let text = format!(
            "`{name}` cannot name a property: a letter or `_` first, then letters, digits and `_`, \
             at most {PROPERTY_NAME_UTF16_UNITS_MAX}, and not a name of the service"
        );
        Error::invalid(Rule::PropertyName, text)
    };
    let edm = value_to_edm(name, value)?;
    let (limit, found) = match &edm {
        EdmValue::String(text) => (STRING_UTF16_UNITS_MAX, text.encode_utf16().count()),
        EdmValue::Binary(bytes) => (BINARY_BYTES_MAX, bytes.len()),
        _ => (0, 0),
    };
    if found > limit {
        let text = format!("property `{name}` has {found} units; a property has at most {limit}");
        return Err(Error::beyond(Rule::PropertySize, limit, found, text));
    }
    Ok((PropertyName::new(name).map_err(name_error)?, edm))
}

fn refused(error: DomainError, found: usize) -> Error {
    match error {
        DomainError::TooManyProperties => {
            let text = format!(
                "the entity has {found} properties; an entity has at most {PROPERTIES_MAX}"
            );
            Error::beyond(Rule::PropertyCount, PROPERTIES_MAX, found, text)
        }
        DomainError::DuplicateProperty => {
            Error::invalid(Rule::PropertyName, "the entity has a property twice")
        }
        _ => Error::invalid(
            Rule::PropertyName,
            "PartitionKey, RowKey and Timestamp are names of the service's own properties",
        ),
    }
}

fn check_size<E: Entity>(entity: &E, properties: &Properties) -> Result<(), Error> {
    // Most entities are far below the limit, whatever their key.
    let key = entity.entity_key()?;
    let found = tavola_core::entity::entity_bytes(key.as_core(), properties);
    if found <= ENTITY_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the entity has {found} bytes; an entity has at most {ENTITY_BYTES_MAX}");
    Err(Error::beyond(Rule::EntitySize, ENTITY_BYTES_MAX, found, text))
}

/// Reads a row where it lies.
#[allow(dead_code, reason = "the half of the library that sends uses it")]
pub(crate) fn decode_view<E: Entity>(view: &dyn EntityView) -> Result<Stored<E>, Error> {
    let mut decoder = E::decoder();
    view.visit(&mut |name, value| decoder.property(name.as_str(), edm_to_ref(value)));
    let timestamp = view.timestamp();
    let etag = ETag::new(tavola_core::ETag::of(timestamp).into_string());
    let head = RowHead {
        partition: view.partition_key().as_str(),
        row: view.row_key().as_str(),
        etag: &etag,
        timestamp: date_time_from(timestamp.date_time()),
    };
    Stored::new(&head, decoder.finish(&head)?)
}
