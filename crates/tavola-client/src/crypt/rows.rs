//! Rows: encrypted before they are sent, decrypted after they were read.

use std::collections::BTreeSet;

use tavola_core::entity::PropertyName;
use tavola_core::limits::BINARY_BYTES_MAX;
use tavola_core::request::Select;
use tavola_core::{
    EdmRef, EdmValue, EntityKey as CoreKey, EntityOperation, NewEntity, PartitionKey, Properties,
};
use tavola_protocol::table::entity_json::DecodedEntity;
use zeroize::Zeroizing;

use super::content::{Content, OVERHEAD_BYTES, Place};
use super::envelope::{self, Envelope, NotEnvelope};
use super::keys::{KeyWrap, fresh_key};
use super::policy::{Encryption, Policy, properties};
use super::{ENVELOPE, OLD_NET_METADATA, fault, joined, not_encrypted, old_net};
use crate::credential::SourceError;
use crate::engine::Operation;
use crate::error::{EncryptionFault, Error, Outcome, Rule};
use crate::key::EntityKey;

/// The operation with these properties encrypted, under a content key of its own.
pub(super) async fn seal(
    encryption: &Encryption,
    partition: &PartitionKey,
    operation: Operation,
    names: &BTreeSet<String>,
) -> Result<Operation, Error> {
    let row = operation.operation.row_key().clone();
    let key = CoreKey::new(partition.clone(), row);
    let Some(plain) = properties(&operation) else { return Ok(operation) };
    let sealed = if names.is_empty() {
        without_envelope(plain)?
    } else {
        let content_key = fresh_key()?;
        let wrapped = encryption.keys.wrap(&content_key).await.map_err(not_wrapped)?;
        let content = Content::new(&content_key).ok_or_else(no_cipher)?;
        let place = Place { partition: key.partition_key.as_str(), row: key.row_key.as_str() };
        let (mut all, list) = encrypted(plain, names, &content, &place)?;
        let too_long = || {
            let text = "the envelope has no room: a key id has at most 255 bytes, a wrapped key \
                        65,535, and all names together about 64 KiB";
            Error::invalid(Rule::PropertySize, text)
        };
        let envelope = envelope::write(&wrapped, &list, &content, &place).ok_or_else(too_long)?;
        if envelope.len() > BINARY_BYTES_MAX {
            return Err(too_long());
        }
        all.push((property_name(ENVELOPE)?, EdmValue::Binary(envelope)));
        collect(all)?
    };
    let (_, new) = NewEntity::new(key, sealed).map_err(|_| {
        Error::invalid(Rule::EntitySize, "the encrypted entity is larger than 1 MiB")
    })?;
    let Operation { claim, operation, write_id } = operation;
    let operation = match operation {
        EntityOperation::Insert(_) => EntityOperation::Insert(new),
        EntityOperation::Replace(_, precondition) => EntityOperation::Replace(new, precondition),
        EntityOperation::Merge(_, precondition) => EntityOperation::Merge(new, precondition),
        other @ EntityOperation::Delete(..) => other,
    };
    Ok(Operation { claim, operation, write_id })
}

type Named = (PropertyName, EdmValue);
/// The number of a type, and the name of a property that is encrypted.
type Listed = (u8, String);

/// All properties, some of them encrypted, and what the envelope says about those.
fn encrypted(
    plain: &Properties,
    names: &BTreeSet<String>,
    content: &Content,
    place: &Place<'_>,
) -> Result<(Vec<Named>, Vec<Listed>), Error> {
    let (mut all, mut list) = (Vec::with_capacity(plain.len() + 1), Vec::new());
    for (name, value) in plain.iter().filter(|(name, _)| *name != ENVELOPE) {
        if !names.contains(name) {
            all.push((property_name(name)?, value.to_owned()));
            continue;
        }
        check_size(name, value)?;
        let (edm, sealed) = content.seal(place, name, value).ok_or_else(no_cipher)?;
        list.push((edm, name.to_owned()));
        all.push((property_name(name)?, EdmValue::Binary(sealed)));
    }
    Ok((all, list))
}

/// A text within the limit of texts, which counts UTF-16, can be beyond the limit of bytes.
fn check_size(name: &str, value: EdmRef<'_>) -> Result<(), Error> {
    let found = match value {
        EdmRef::String(text) => text.as_str().len(),
        EdmRef::Binary(bytes) => bytes.len(),
        _ => return Ok(()),
    };
    let limit = BINARY_BYTES_MAX - OVERHEAD_BYTES;
    if found <= limit {
        return Ok(());
    }
    let text = format!(
        "property `{name}` has {found} bytes (a text in UTF-8); an encrypted property has at most \
         {limit}"
    );
    Err(Error::beyond(Rule::PropertySize, limit, found, text))
}

/// The properties of an entity that encrypts none of those that it has.
fn without_envelope(plain: &Properties) -> Result<Properties, Error> {
    let kept = plain.iter().filter(|(name, _)| *name != ENVELOPE);
    let kept = kept.map(|(name, value)| Ok((property_name(name)?, value.to_owned())));
    collect(kept.collect::<Result<_, Error>>()?)
}

fn property_name(name: &str) -> Result<PropertyName, Error> {
    let invalid = |_| Error::invalid(Rule::PropertyName, "a property has an illegal name");
    PropertyName::new(name).map_err(invalid)
}

fn collect(all: Vec<Named>) -> Result<Properties, Error> {
    let found = all.len();
    Properties::new(all).map_err(|_| {
        let limit = tavola_core::limits::PROPERTIES_MAX;
        let text = format!(
            "the entity has {found} properties with the one of its encryption; it may have {limit}"
        );
        Error::beyond(Rule::PropertyCount, limit, found, text)
    })
}

/// The entity with the values of its encrypted properties, and their names in `tv_enc`.
pub(super) async fn open(
    policy: &Policy,
    mut entity: DecodedEntity,
    select: &Select,
) -> Result<DecodedEntity, Error> {
    let (Some(partition), Some(row)) = (&entity.partition_key, &entity.row_key) else {
        return Ok(entity);
    };
    let place = Place { partition: partition.as_str(), row: row.as_str() };
    let opened = match policy.encryption() {
        Some(encryption) => opened(policy, encryption, &entity.properties, &place, select).await,
        None => Ok(None),
    };
    let key = EntityKey::from_core(CoreKey::new(partition.clone(), row.clone()));
    match opened {
        Ok(Some(properties)) => entity.properties = properties,
        Ok(None) => {}
        Err(error) => return Err(error.at(|context| context.key = Some(key))),
    }
    Ok(entity)
}

/// The properties with their values; `None` if they are as they are stored.
async fn opened(
    policy: &Policy,
    encryption: &Encryption,
    stored: &Properties,
    place: &Place<'_>,
    select: &Select,
) -> Result<Option<Properties>, Error> {
    if stored.get(OLD_NET_METADATA).is_some() {
        return Err(old_net());
    }
    let envelope = match stored.get(ENVELOPE) {
        None => {
            check_rule(policy, stored, &BTreeSet::new(), place)?;
            return Ok(None);
        }
        Some(EdmRef::Binary(bytes)) => envelope::read(bytes).map_err(not_read)?,
        Some(_) => return Err(altered(ENVELOPE)),
    };
    let content = unwrapped(&*encryption.keys, &envelope, place).await?.1;
    let mut names = BTreeSet::new();
    let mut all = Vec::with_capacity(stored.len());
    for (name, value) in stored.iter().filter(|(name, _)| *name != ENVELOPE) {
        let value = match envelope.properties.iter().find(|(_, listed)| listed == name) {
            None => value.to_owned(),
            Some((edm, _)) => {
                let EdmRef::Binary(sealed) = value else { return Err(altered(name)) };
                names.insert(name.to_owned());
                content.open(place, name, *edm, sealed).ok_or_else(|| altered(name))?
            }
        };
        all.push((property_name(name)?, value));
    }
    let is_missing = |name: &String| is_selected(select, name) && !names.contains(name);
    if let Some((_, name)) = envelope.properties.iter().find(|(_, name)| is_missing(name)) {
        let text = format!("property `{name}` is encrypted and somebody removed it");
        return Err(fault(EncryptionFault::Altered, Outcome::NotApplied, text));
    }
    check_rule(policy, stored, &names, place)?;
    all.push((property_name(ENVELOPE)?, EdmValue::String(joined(&names))));
    collect(all).map(Some)
}

/// The content key of an envelope, and what it does, once the envelope is known to be genuine.
pub(super) async fn unwrapped(
    keys: &dyn KeyWrap,
    envelope: &Envelope,
    place: &Place<'_>,
) -> Result<(Zeroizing<[u8; 32]>, Content), Error> {
    let content_key = keys.unwrap(&envelope.wrapped).await.map_err(|error| {
        let text = format!("its key cannot be had, so that it cannot be decrypted: {error}");
        fault(EncryptionFault::Key, Outcome::NotApplied, text).with_source(error)
    })?;
    let content = Content::new(&content_key).ok_or_else(no_cipher)?;
    if !envelope.verifies(&content, place) {
        return Err(altered(ENVELOPE));
    }
    Ok((content_key, content))
}

fn is_selected(select: &Select, name: &str) -> bool {
    match select {
        Select::All => true,
        Select::Names(names) => names.iter().any(|wanted| wanted == name),
    }
}

/// Refuses plain values where the rule says that they are encrypted.
fn check_rule(
    policy: &Policy,
    stored: &Properties,
    encrypted: &BTreeSet<String>,
    place: &Place<'_>,
) -> Result<(), Error> {
    let is_wrong =
        |name: &str| !encrypted.contains(name) && policy.chooses(place.partition, place.row, name);
    match stored.iter().find(|(name, _)| is_wrong(name)) {
        Some((name, _)) if !policy.is_lenient() => Err(not_encrypted(name)),
        _ => Ok(()),
    }
}

pub(super) fn not_wrapped(error: SourceError) -> Error {
    let text = format!("the content key could not be wrapped: {error}");
    fault(EncryptionFault::Key, Outcome::NotSent, text).with_source(error)
}

pub(super) fn not_read(error: NotEnvelope) -> Error {
    match error {
        NotEnvelope::Unknown => {
            let text = "`tv_enc` is of a format that this version of the library does not know";
            fault(EncryptionFault::UnknownFormat, Outcome::NotApplied, text)
        }
        NotEnvelope::Broken => altered(ENVELOPE),
    }
}

pub(super) fn altered(name: &str) -> Error {
    let text = format!(
        "property `{name}` was altered, or moved here from another property or entity; it is not \
         what was encrypted for this place"
    );
    fault(EncryptionFault::Altered, Outcome::NotApplied, text)
}

pub(super) fn no_cipher() -> Error {
    let text = "the cryptographic library refused";
    fault(EncryptionFault::Key, Outcome::NotSent, text)
}
