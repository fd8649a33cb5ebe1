//! Entities that are written together: each under its version, with the id of the write.

use futures_util::TryStreamExt as _;

use super::housekeeping::{core, next_id, whole};
use crate::client::{TableClient, Transaction};
use crate::engine::{CallSettings, Operation};
use crate::entity::{DynEntity, Entity, Stored, encode_properties};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::filter::prop;
use crate::key::{EntityKey, after_text};
use crate::prepare::{Prepared, WRITE_ID};
use crate::unknown::Claim;
use crate::value::Value;
use crate::written::{IfMatch, Mode, Written};

/// One entity of a transaction, ready to be sent.
pub(super) struct Stamped {
    name: &'static str,
    key: EntityKey,
    operation: Operation,
    id: String,
}

impl Stamped {
    /// A new entity.
    pub(super) fn insert<E: Entity>(entity: &E, random: u64) -> Result<Self, Error> {
        let (key, prepared, id) = prepare::<E>(DynEntity::from_entity(entity)?, random)?;
        Ok(Self { name: "insert", key, operation: prepared.insert(Claim::Insert), id })
    }

    /// An entity in place of the version that was read.
    pub(super) fn replace<E: Entity>(stored: &Stored<E>, random: u64) -> Result<Self, Error> {
        let (key, prepared, id) = prepare::<E>(whole(&**stored, stored.rest())?, random)?;
        if key != *stored.key() {
            let text = "the entity has another key than the one that was read; insert it and \
                        delete the old one";
            return Err(Error::invalid(Rule::Request, text));
        }
        let if_match = IfMatch::Version(stored.etag().clone());
        let operation = prepared.update(Mode::Replace, &if_match)?;
        Ok(Self { name: "replace", key, operation, id })
    }

    pub(super) fn partition(&self) -> &str {
        self.key.partition()
    }

    /// The id of the write.
    #[cfg(feature = "json")]
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn add_to(&self, all: &mut Transaction<'_>) -> Result<(), Error> {
        all.add(self.name, core(&self.key), self.operation.clone()).map(drop)
    }

    /// Takes over the version that the write gave to the entity.
    pub(super) fn accept<E: Entity>(&self, stored: &mut Stored<E>, written: &Written) {
        if let (Some(etag), Some(timestamp)) = (written.etag.clone(), written.timestamp) {
            stored.set_version(etag, timestamp);
            if E::WRITE_ID.is_none() {
                stored.set_rest(WRITE_ID, Value::from(self.id.as_str()));
            }
        }
    }
}

fn prepare<E: Entity>(
    entity: DynEntity,
    random: u64,
) -> Result<(EntityKey, Prepared, String), Error> {
    let key = EntityKey::new(entity.partition(), entity.row())?;
    let id = next_id(&entity, random);
    let name = E::WRITE_ID.unwrap_or(WRITE_ID).to_owned();
    let properties = encode_properties(&entity, &[])?;
    let prepared = Prepared::with_write_id(core(&key), properties, Some((name, id.clone())))?;
    Ok((key, prepared, id))
}

/// Which operation of a transaction was refused because its row is not as it was read; nothing was
/// applied.
pub(super) fn refused_at(error: &Error) -> Option<usize> {
    let ErrorKind::Transaction { index } = *error.kind() else { return None };
    let is_conflict = matches!(error.status(), Some(404 | 409 | 412));
    index.filter(|_| is_conflict && error.outcome() == Outcome::NotApplied)
}

/// What the first operation of a transaction came to.
pub(super) fn first(written: Vec<Written>) -> Result<Written, Error> {
    let lost = || Error::new(ErrorKind::Pattern, Outcome::Unknown, "the transaction has no reply");
    written.into_iter().next().ok_or_else(lost)
}

/// What the RowKeys of all entities of a type begin with.
pub(super) fn beginning<E: Entity>() -> &'static str {
    E::KEYS.map_or("", |keys| keys.row)
}

/// The row as an entity of a type; `None` if it is of another kind, or a helper's.
pub(super) fn of_kind<E: Entity>(row: &Stored<DynEntity>) -> Result<Option<Stored<E>>, Error> {
    if row.key().row().starts_with('!') || !row.key().row().starts_with(beginning::<E>()) {
        return Ok(None);
    }
    match row.to_stored() {
        Ok(entity) => Ok(Some(entity)),
        Err(error) => match error.kind() {
            ErrorKind::Kind { .. } | ErrorKind::Invalid { .. } => Ok(None),
            _ => Err(error),
        },
    }
}

/// All entities of a type in a partition, and in how many requests they were read.
pub(super) async fn all_of<E: Entity>(
    table: &TableClient,
    partition: &str,
    settings: &CallSettings,
) -> Result<(Vec<Stored<E>>, usize), Error> {
    let mut filter = prop("PartitionKey").eq(partition);
    let from = beginning::<E>();
    if !from.is_empty() {
        filter = filter.and(prop("RowKey").ge(from));
        if let Some(end) = after_text(from) {
            filter = filter.and(prop("RowKey").lt(end.as_str()));
        }
    }
    let rows = table.filter::<DynEntity>(filter).allow_scan().with_settings(settings.clone());
    let (mut pages, mut found, mut requests) = (rows.pages(), Vec::new(), 0);
    while let Some(page) = pages.try_next().await? {
        requests += 1;
        for row in page.items {
            found.extend(of_kind(&row)?);
        }
    }
    Ok((found, requests))
}
