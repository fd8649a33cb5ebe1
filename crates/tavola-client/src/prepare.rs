//! From entities to operations, and back.

use tavola_core::entity::PropertyName;
use tavola_core::{
    EdmValue, EntityKey as CoreKey, EntityOperation, NewEntity, Precondition, Properties,
};
use tavola_protocol::table::entity_json::DecodedEntity;

use crate::crypt::{self, Policy};
use crate::engine::{Engine, Operation};
use crate::entity::names::expand;
use crate::entity::{Decoder as _, Entity, RowHead, Stored, encode_properties};
use crate::error::{Error, Rule};
use crate::etag::ETag;
use crate::key::EntityKey;
use crate::unknown::Claim;
use crate::value::{Value, ValueRef, date_time_from, edm_to_ref};
use crate::written::{IfMatch, Mode};

/// Where the client stores its write ids if the type has no property of its own for them.
pub(crate) const WRITE_ID: &str = "tv_ver";

/// An entity that is ready to be sent.
pub(crate) struct Prepared {
    pub(crate) key: CoreKey,
    new: NewEntity,
    write_id: Option<(String, String)>,
}

impl Prepared {
    /// The entity, with an id of this write if its type or the client wants one.
    pub(crate) fn new<E: Entity>(
        engine: &Engine,
        entity: &E,
        rest: &[(String, Value)],
    ) -> Result<Self, Error> {
        let key = entity.entity_key()?.as_core().clone();
        let properties = encode_properties(entity, rest)?;
        Self::of_properties::<E>(engine, key, properties)
    }

    pub(crate) fn of_properties<E: Entity>(
        engine: &Engine,
        key: CoreKey,
        properties: Properties,
    ) -> Result<Self, Error> {
        let name = E::WRITE_ID.or(engine.options.write_ids.then_some(WRITE_ID));
        let write_id = name.map(|name| {
            let (counter, write) = (0, engine.runtime.random());
            (name.to_owned(), write_id(counter, write))
        });
        Self::with_write_id(key, properties, write_id)
    }

    /// Properties with the id of a write that may write other rows too.
    pub(crate) fn with_write_id(
        key: CoreKey,
        properties: Properties,
        write_id: Option<(String, String)>,
    ) -> Result<Self, Error> {
        let properties = match &write_id {
            Some((name, id)) => stamped(&properties, name, id)?,
            None => properties,
        };
        let (_, new) = NewEntity::new(key.clone(), properties)
            .map_err(|_| Error::invalid(Rule::EntitySize, "the entity is larger than 1 MiB"))?;
        Ok(Self { key, new, write_id })
    }

    fn operation(
        self,
        claim: Claim,
        operation: impl FnOnce(NewEntity) -> EntityOperation,
    ) -> Operation {
        Operation { claim, operation: operation(self.new), write_id: self.write_id }
    }

    pub(crate) fn insert(self, claim: Claim) -> Operation {
        self.operation(claim, EntityOperation::Insert)
    }

    pub(crate) fn upsert(self, mode: Mode) -> Operation {
        self.operation(Claim::Upsert, |new| written(new, mode, Precondition::None))
    }

    pub(crate) fn update(self, mode: Mode, if_match: &IfMatch) -> Result<Operation, Error> {
        let (claim, precondition) = condition(if_match)?;
        Ok(self.operation(claim, |new| written(new, mode, precondition)))
    }
}

/// The text of a write id: how many writes there were before, and which one it is.
pub(crate) fn write_id(counter: u64, write: u64) -> String {
    format!("{counter:016x}-{write:016x}")
}

fn written(new: NewEntity, mode: Mode, precondition: Precondition) -> EntityOperation {
    match mode {
        Mode::Replace => EntityOperation::Replace(new, precondition),
        Mode::Merge => EntityOperation::Merge(new, precondition),
    }
}

fn condition(if_match: &IfMatch) -> Result<(Claim, Precondition), Error> {
    Ok(match if_match {
        IfMatch::Any => (Claim::UpdateAny, Precondition::Exists),
        IfMatch::Version(tag) => (Claim::Version, Precondition::Version(core_tag(tag)?)),
    })
}

/// A delete of one row.
pub(crate) fn delete(key: &CoreKey, if_match: &IfMatch) -> Result<Operation, Error> {
    let (claim, precondition) = match condition(if_match)? {
        (Claim::Version, precondition) => (Claim::DeleteVersion, precondition),
        (_, precondition) => (Claim::DeleteAny, precondition),
    };
    let operation = EntityOperation::Delete(key.row_key.clone(), precondition);
    Ok(Operation { claim, operation, write_id: None })
}

/// A write that changes nothing but the version, if that is still this one.
pub(crate) fn guard(key: &CoreKey, tag: &ETag) -> Result<Operation, Error> {
    let (_, new) = NewEntity::new(key.clone(), Properties::default())
        .map_err(|_| Error::invalid(Rule::EntitySize, "the entity is larger than 1 MiB"))?;
    let operation = EntityOperation::Merge(new, version(tag)?);
    Ok(Operation { claim: Claim::Version, operation, write_id: None })
}

/// The condition that an entity still has this version.
pub(crate) fn version(tag: &ETag) -> Result<Precondition, Error> {
    Ok(Precondition::Version(core_tag(tag)?))
}

fn core_tag(tag: &ETag) -> Result<tavola_core::ETag, Error> {
    tavola_core::ETag::parse(tag.as_str())
        .ok_or_else(|| Error::invalid(Rule::Request, "an entity tag is written W/\"…\""))
}

fn stamped(properties: &Properties, name: &str, id: &str) -> Result<Properties, Error> {
    let invalid =
        |_| Error::invalid(Rule::PropertyName, format!("`{name}` cannot hold a write id"));
    let mut all = Vec::with_capacity(properties.len() + 1);
    for (known, value) in properties.iter().filter(|(known, _)| *known != name) {
        all.push((PropertyName::new(known).map_err(invalid)?, value.to_owned()));
    }
    all.push((PropertyName::new(name).map_err(invalid)?, EdmValue::String(id.to_owned())));
    Properties::new(all).map_err(invalid)
}

/// Reads an entity of an answer. What its type encrypts must have been encrypted, unless the policy
/// says otherwise.
pub(crate) fn decode<E: Entity>(
    entity: DecodedEntity,
    policy: &Policy,
) -> Result<Stored<E>, Error> {
    with_head(&entity, |head| {
        let at_key = |error: Error| {
            let key = EntityKey::new(head.partition, head.row).ok();
            error.at(|context| context.key = key)
        };
        crypt::check(&expand(E::ENCRYPTED), &entity.properties, policy).map_err(at_key)?;
        let mut decoder = E::decoder();
        visit(&entity, |name, value| decoder.property(name, value));
        let explain = |error| crypt::explain(error, &entity.properties);
        let decoded = decoder.finish(head).map_err(explain)?;
        let encrypted = decoded.value.encrypted();
        crypt::check(&encrypted, &entity.properties, policy).map_err(at_key)?;
        Stored::new(head, decoded)
    })
}

/// Shows each property of an entity.
pub(crate) fn visit(entity: &DecodedEntity, mut show: impl FnMut(&str, ValueRef<'_>)) {
    for (name, value) in entity.properties.iter() {
        show(name, edm_to_ref(value));
    }
}

/// Calls `read` with the system properties of an entity.
pub(crate) fn with_head<T>(
    entity: &DecodedEntity,
    read: impl FnOnce(&RowHead<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (Some(partition), Some(row), Some(timestamp)) =
        (&entity.partition_key, &entity.row_key, entity.timestamp)
    else {
        let text = "the service sent an entity without its keys or its Timestamp";
        return Err(Error::invalid(Rule::Request, text));
    };
    let tag = entity.etag.clone().unwrap_or_else(|| tavola_core::ETag::of(timestamp));
    let etag = ETag::new(tag.into_string());
    read(&RowHead {
        partition: partition.as_str(),
        row: row.as_str(),
        etag: &etag,
        timestamp: date_time_from(timestamp.date_time()),
    })
}
