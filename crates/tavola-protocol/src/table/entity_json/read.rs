//! From JSON to an entity's keys and typed properties.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeSeed;
use tavola_core::edm::EdmTextError;
use tavola_core::entity::{Properties, PropertyName};
use tavola_core::key::{KeyError, utf16_units};
use tavola_core::limits::KEY_UTF16_UNITS_MAX;
use tavola_core::{
    DateTime, DomainError, ETag, EdmType, EdmValue, PartitionKey, RowKey, Timestamp,
};

use super::members::{Members, MembersSeed, Sender};
use super::seed::{ArraySeed, MemberSeed, Scalar};
use super::{BodyError, DecodedEntity, EntityBody, fault};

/// Reads the body of an insert, replace or merge.
///
/// # Errors
/// If it is not an entity, or one that the service refuses.
pub fn read_entity(body: &[u8]) -> Result<EntityBody, BodyError> {
    let mut members = parse(body, MembersSeed(Sender::Client))?;
    members.check()?;
    Ok(EntityBody {
        partition_key: key("PartitionKey", members.partition_key.take(), |text| {
            PartitionKey::new(text)
        })?,
        row_key: key("RowKey", members.row_key.take(), |text| RowKey::new(text))?,
        properties: members.into_properties()?,
    })
}

/// Reads one entity of an answer.
///
/// # Errors
/// If it is not an entity.
pub fn decode_entity(body: &[u8]) -> Result<DecodedEntity, BodyError> {
    decoded(parse(body, MembersSeed(Sender::Service))?)
}

/// Reads a page of entities.
///
/// # Errors
/// If it is not a set of entities.
pub fn decode_entity_set(body: &[u8]) -> Result<Vec<DecodedEntity>, BodyError> {
    let page = MemberSeed("value", ArraySeed(MembersSeed(Sender::Service)));
    parse(body, page)?.into_iter().map(decoded).collect()
}

fn decoded(mut members: Members<'_>) -> Result<DecodedEntity, BodyError> {
    members.check()?;
    let not_a_time = || fault::wrong_value("Timestamp", Some(EdmType::DateTime));
    let not_a_tag = || BodyError::Malformed("The entity tag is not one.".to_owned());
    let timestamp = match text(members.timestamp.take(), not_a_time)? {
        Some(text) => Some(Timestamp::new(DateTime::parse(&text).map_err(|_| not_a_time())?)),
        None => None,
    };
    let etag = match text(members.etag.take(), not_a_tag)? {
        Some(text) => Some(ETag::parse(&text).ok_or_else(not_a_tag)?),
        None => None,
    };
    Ok(DecodedEntity {
        partition_key: key("PartitionKey", members.partition_key.take(), |text| {
            PartitionKey::new(text)
        })?,
        row_key: key("RowKey", members.row_key.take(), |text| RowKey::new(text))?,
        timestamp,
        etag,
        properties: members.into_properties()?,
    })
}

/// Reads the whole of a body; what follows the value is an error like any other.
pub(in crate::table) fn parse<'de, S: DeserializeSeed<'de>>(
    body: &'de [u8],
    seed: S,
) -> Result<S::Value, BodyError> {
    let text = std::str::from_utf8(body).map_err(|_| fault::not_utf8())?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut deserializer).map_err(|error| fault::not_json(&error))?;
    deserializer.end().map_err(|error| fault::not_json(&error))?;
    Ok(value)
}

impl Members<'_> {
    fn check(&self) -> Result<(), BodyError> {
        if self.too_many {
            return Err(DomainError::TooManyProperties.into());
        }
        if self.repeated {
            return Err(DomainError::DuplicateProperty.into());
        }
        self.key_of_other_type.map_or(Ok(()), |name| Err(fault::key_of_other_type(name)))
    }

    fn into_properties(mut self) -> Result<Properties, BodyError> {
        self.types.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let null = |(_, scalar): &(_, Scalar<'_>)| *scalar == Scalar::Null;
        // Without nulls the set of properties itself finds a name that comes twice.
        let repeated = self.properties.iter().any(null) && repeats(&self.properties);
        if repeated || self.types.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(DomainError::DuplicateProperty.into());
        }
        let mut properties = Vec::with_capacity(self.properties.len());
        for (name, scalar) in self.properties {
            if scalar != Scalar::Null {
                let edm = declared_type(&self.types, &name)?;
                let value = value(edm, scalar).map_err(|error| match error {
                    EdmTextError::DateOutOfRange(value) => {
                        DomainError::ParameterOutOfRange { name: name.as_ref().to_owned(), value }
                            .into()
                    }
                    EdmTextError::Malformed => fault::wrong_value(&name, edm),
                })?;
                properties.push((PropertyName::new(name)?, value));
            }
        }
        Ok(Properties::new(properties)?)
    }
}

fn repeats(members: &[(Cow<'_, str>, Scalar<'_>)]) -> bool {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

fn declared_type(
    types: &[(Cow<'_, str>, Scalar<'_>)],
    name: &str,
) -> Result<Option<EdmType>, BodyError> {
    let Ok(at) = types.binary_search_by(|(candidate, _)| candidate.as_ref().cmp(name)) else {
        return Ok(None);
    };
    match &types[at].1 {
        Scalar::Text(edm) => {
            EdmType::from_name(edm).map(Some).ok_or_else(|| fault::unknown_type(name, edm))
        }
        _ => Err(fault::type_is_no_text(name)),
    }
}

fn text(
    scalar: Option<Scalar<'_>>,
    fault: impl FnOnce() -> BodyError,
) -> Result<Option<Cow<'_, str>>, BodyError> {
    match scalar {
        None | Some(Scalar::Null) => Ok(None),
        Some(Scalar::Text(text)) => Ok(Some(text)),
        Some(_) => Err(fault()),
    }
}

fn key<K>(
    name: &str,
    scalar: Option<Scalar<'_>>,
    new: impl FnOnce(&str) -> Result<K, KeyError>,
) -> Result<Option<K>, BodyError> {
    let Some(text) = text(scalar, || fault::key_is_no_text(name))? else { return Ok(None) };
    new(&text).map(Some).map_err(|error| match error {
        // The refusal repeats the key, so an endless one has to be refused for its length.
        KeyError::Forbidden(_) if utf16_units(&text) <= KEY_UTF16_UNITS_MAX => {
            DomainError::ParameterOutOfRange { name: name.to_owned(), value: text.into_owned() }
                .into()
        }
        _ => DomainError::KeyTooLarge.into(),
    })
}

/// The value of a property: by its declared type, else by its looks.
fn value(edm: Option<EdmType>, scalar: Scalar<'_>) -> Result<EdmValue, EdmTextError> {
    Ok(match (edm, scalar) {
        (None | Some(EdmType::String), Scalar::Text(text)) => EdmValue::String(text.into_owned()),
        (None | Some(EdmType::Boolean), Scalar::Boolean(truth)) => EdmValue::Boolean(truth),
        (None | Some(EdmType::Double), Scalar::Decimal(number)) => EdmValue::double(number),
        // Beyond 32 bits an integer without a type is a double, as the service's own reader has it.
        (None, Scalar::Integer(number)) => {
            i32::try_from(number).map_or_else(|_| EdmValue::double(number as f64), EdmValue::Int32)
        }
        (Some(EdmType::Int32), Scalar::Integer(number)) => {
            EdmValue::Int32(i32::try_from(number).map_err(|_| EdmTextError::Malformed)?)
        }
        (Some(EdmType::Int64), Scalar::Integer(number)) => EdmValue::Int64(number),
        (Some(EdmType::Double), Scalar::Integer(number)) => EdmValue::double(number as f64),
        (Some(EdmType::Binary), Scalar::Text(text)) => {
            EdmValue::Binary(STANDARD.decode(text.as_bytes()).map_err(|_| EdmTextError::Malformed)?)
        }
        (Some(edm), Scalar::Text(text)) => EdmValue::from_text(edm, &text)?,
        _ => return Err(EdmTextError::Malformed),
    })
}
