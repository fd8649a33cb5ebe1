//! An entity as rows: itself, and one for each index.

use crate::client::TableClient;
use crate::crypt::ENVELOPE;
use crate::entity::{DynEntity, Entity, Index, encode_properties};
use crate::error::Error;
use crate::key::EntityKey;
use crate::patterns::housekeeping::{BASE, BASE_PARTITION, core, counter, whole};
use crate::prepare::{Prepared, WRITE_ID, write_id};
use crate::value::Value;

/// The rows of an entity that is about to be written.
pub(super) struct Image {
    pub(super) key: EntityKey,
    entity: DynEntity,
    pub(super) copies: Vec<CopyRow>,
    /// The keys of its index rows in other partitions.
    pub(super) far: Vec<EntityKey>,
    /// The property that holds the id of the write in the entity, and the id, which all rows have.
    pub(super) write_id: (String, String),
}

/// An index row.
#[derive(Debug, Clone)]
pub(super) struct CopyRow {
    /// Which index.
    pub(super) index: usize,
    pub(super) key: EntityKey,
    pub(super) row: DynEntity,
    /// The id of the write.
    pub(super) id: String,
}

impl Image {
    pub(super) fn new<E: Entity>(
        table: &TableClient,
        entity: &E,
        rest: &[(String, Value)],
    ) -> Result<Self, Error> {
        let key = entity.entity_key()?;
        let mut whole = whole(entity, rest)?;
        // A rule that looks at keys chooses by the entity's key for its copies too.
        let policy = &table.engine().options.encryption;
        let sent = encode_properties(&whole, &[])?;
        for name in policy.chosen(key.partition(), key.row(), &sent) {
            whole.mark_encrypted(&name)?;
        }
        let name = E::WRITE_ID.unwrap_or(WRITE_ID);
        let counter = encode_properties(&whole, &[])?.get(name).map_or(0, counter);
        let id = write_id(counter + 1, table.engine().runtime.random());
        let copies = copies(entity, &whole, &id)?;
        let far = far_copies(entity, &whole, &id)?.into_iter().map(|copy| copy.key).collect();
        Ok(Self { key, entity: whole, copies, far, write_id: (name.to_owned(), id) })
    }

    /// The entity, ready to be sent.
    pub(super) fn prepared(&self) -> Result<Prepared, Error> {
        let properties = encode_properties(&self.entity, &[])?;
        Prepared::with_write_id(core(&self.key), properties, Some(self.write_id.clone()))
    }
}

impl CopyRow {
    /// The row, ready to be sent.
    pub(super) fn prepared(&self) -> Result<Prepared, Error> {
        let properties = encode_properties(&self.row, &[])?;
        let id = (WRITE_ID.to_owned(), self.id.clone());
        Prepared::with_write_id(core(&self.key), properties, Some(id))
    }

    /// True if the stored row says the same; which write it was does not count.
    pub(super) fn is_said_by(&self, stored: &DynEntity) -> bool {
        let count = stored.iter().filter(|(name, _)| *name != WRITE_ID).count();
        count == self.row.iter().len()
            && self.row.iter().all(|(name, value)| stored.value(name) == Some(value))
    }
}

/// The index rows that an entity must have in its partition.
pub(super) fn copies<E: Entity>(
    entity: &E,
    whole: &DynEntity,
    id: &str,
) -> Result<Vec<CopyRow>, Error> {
    copies_of(entity, whole, id, |index| index.same_partition)
}

/// The index rows that an entity must have in other partitions.
pub(super) fn far_copies<E: Entity>(
    entity: &E,
    whole: &DynEntity,
    id: &str,
) -> Result<Vec<CopyRow>, Error> {
    copies_of(entity, whole, id, |index| !index.same_partition)
}

fn copies_of<E: Entity>(
    entity: &E,
    whole: &DynEntity,
    id: &str,
    is_meant: fn(&Index) -> bool,
) -> Result<Vec<CopyRow>, Error> {
    let mut copies = Vec::with_capacity(E::INDEXES.len());
    for (at, index) in E::INDEXES.iter().enumerate().filter(|(_, index)| is_meant(index)) {
        if let Some(key) = entity.index_key(at)? {
            let row = copy::<E>(index, &key, whole, &entity.encrypted())?;
            copies.push(CopyRow { index: at, key, row, id: id.to_owned() });
        }
    }
    Ok(copies)
}

/// A copy of an encrypted property is encrypted too, with the key of its own row.
fn copy<E: Entity>(
    index: &Index,
    key: &EntityKey,
    whole: &DynEntity,
    encrypted: &[String],
) -> Result<DynEntity, Error> {
    let mut row = DynEntity::new(key.partition(), key.row());
    row.set(BASE, whole.row());
    if !index.same_partition {
        row.set(BASE_PARTITION, whole.partition());
    }
    for (name, value) in whole.iter().filter(|(name, _)| *name != ENVELOPE) {
        // An index row is not of the entity's kind, and its id is that of its own write.
        let is_kind = E::KIND.is_some_and(|kind| kind.property == name);
        let is_id = name == WRITE_ID || E::WRITE_ID == Some(name);
        let is_copied = index.full || index.copy.contains(&name);
        if is_copied && !is_kind && !is_id {
            row.set(name, value.clone());
            if whole.is_encrypted(name) || encrypted.iter().any(|own| own == name) {
                row.mark_encrypted(name)?;
            }
        }
    }
    Ok(row)
}
