//! The index rows of one entity, brought to what the entity is now.

use std::collections::BTreeSet;

use crate::client::{ATTEMPTS_MAX, TableClient};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome};
use crate::etag::ETag;
use crate::key::EntityKey;
use crate::patterns::housekeeping::{core, count_of};
use crate::patterns::indexed::drift::{entity_of, id_of};
use crate::patterns::indexed::rows::{self, CopyRow};
use crate::patterns::indexed::write::{base_of, has_row};
use crate::prepare::WRITE_ID;
use crate::unknown::Claim;
use crate::written::{IfMatch, Mode};

/// What was done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) inserted: usize,
    pub(super) replaced: usize,
    pub(super) deleted: usize,
    /// Rows that belong to another entity that has the value.
    pub(super) duplicate: usize,
    pub(super) requests: usize,
}

/// One entity, and the table that it and its rows are in.
pub(super) struct Settling<'a> {
    pub(super) table: &'a TableClient,
    pub(super) key: &'a EntityKey,
    pub(super) settings: &'a CallSettings,
    pub(super) tally: Tally,
}

/// Where a row stands after one look.
enum Row {
    Settled,
    /// The entity is no longer as it was read.
    Moved,
}

impl<'a> Settling<'a> {
    pub(super) fn new(
        table: &'a TableClient,
        key: &'a EntityKey,
        settings: &'a CallSettings,
    ) -> Self {
        Self { table, key, settings, tally: Tally::default() }
    }

    /// Writes the rows that the entity must have, and deletes those of `keys` that it must not have
    /// and that are still its own; again, until the entity is afterwards what it was before. Rows of
    /// `new` are probably not there yet.
    pub(super) async fn run<E: Entity>(
        &mut self,
        keys: &BTreeSet<EntityKey>,
        new: &BTreeSet<EntityKey>,
    ) -> Result<(), Error> {
        let mut keys = keys.clone();
        for attempt in 0..ATTEMPTS_MAX {
            let base = self.get(self.key).await?;
            let wanted = self.wanted::<E>(base.as_ref())?;
            // What is written now may have to be deleted the next time.
            keys.extend(wanted.iter().map(|copy| copy.key.clone()));
            let etag = base.as_ref().map(Stored::etag);
            if self.settle_rows::<E>(&keys, new, &wanted, base.as_ref()).await?
                && self.is_still(etag).await?
            {
                return Ok(());
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.table.contended(self.key))
    }

    fn wanted<E: Entity>(&self, base: Option<&Stored<DynEntity>>) -> Result<Vec<CopyRow>, Error> {
        let Some(base) = base else { return Ok(Vec::new()) };
        let Some(entity) = entity_of::<E>(base)? else { return Ok(Vec::new()) };
        rows::far_copies(&entity, base, &id_of::<E>(base))
    }

    /// True if all rows are as they must be, for the entity as it was read.
    async fn settle_rows<E: Entity>(
        &mut self,
        keys: &BTreeSet<EntityKey>,
        new: &BTreeSet<EntityKey>,
        wanted: &[CopyRow],
        base: Option<&Stored<DynEntity>>,
    ) -> Result<bool, Error> {
        for copy in wanted {
            let is_new = new.contains(&copy.key);
            if let Row::Moved = self.write::<E>(copy, base, is_new).await? {
                return Ok(false);
            }
        }
        for key in keys.iter().filter(|key| !wanted.iter().any(|copy| copy.key == **key)) {
            if let Row::Moved = self.delete::<E>(key, base).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn get(&mut self, key: &EntityKey) -> Result<Option<Stored<DynEntity>>, Error> {
        self.tally.requests += 1;
        self.table.get::<DynEntity>(key).with_settings(self.settings.clone()).await
    }

    async fn is_still(&mut self, etag: Option<&ETag>) -> Result<bool, Error> {
        Ok(self.get(self.key).await?.as_ref().map(Stored::etag) == etag)
    }

    async fn write<E: Entity>(
        &mut self,
        copy: &CopyRow,
        base: Option<&Stored<DynEntity>>,
        is_new: bool,
    ) -> Result<Row, Error> {
        let etag = base.map(Stored::etag);
        let mut is_new = is_new;
        for attempt in 0..ATTEMPTS_MAX {
            let found = if is_new { None } else { self.get(&copy.key).await? };
            is_new = false;
            let Some(found) = found else {
                if self.insert(copy).await? {
                    self.tally.inserted += 1;
                    return Ok(Row::Settled);
                }
                continue;
            };
            let Some(holder) = base_of(&found)? else { return Err(foreign(found.key())) };
            if holder != *self.key {
                if self.is_held::<E>(&holder, found.key()).await? {
                    self.tally.duplicate += 1;
                    tracing::warn!(key = %copy.key, %holder, "another entity has this index row");
                    return Ok(Row::Settled);
                }
            } else if id(&found) == copy.id {
                if copy.is_said_by(&found) {
                    return Ok(Row::Settled);
                }
            } else if count_of(&id(&found)) >= count_of(&copy.id) && !self.is_still(etag).await? {
                return Ok(Row::Moved);
            }
            // Lower; or of an earlier life of the entity, which counted further: the entity, read
            // after the row, is not newer than what is written here.
            if self.replace(copy, found.etag()).await? {
                self.tally.replaced += 1;
                return Ok(Row::Settled);
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.table.contended(&copy.key))
    }

    async fn delete<E: Entity>(
        &mut self,
        key: &EntityKey,
        base: Option<&Stored<DynEntity>>,
    ) -> Result<Row, Error> {
        let version = base.map(|base| count_of(&id_of::<E>(base)));
        for attempt in 0..ATTEMPTS_MAX {
            let Some(found) = self.get(key).await? else { return Ok(Row::Settled) };
            if base_of(&found)?.as_ref() != Some(self.key) {
                return Ok(Row::Settled);
            }
            let is_lower = version.is_some_and(|version| count_of(&id(&found)) < version);
            if !is_lower && !self.is_still(base.map(Stored::etag)).await? {
                return Ok(Row::Moved);
            }
            self.tally.requests += 1;
            let delete = self.table.delete(&found).with_settings(self.settings.clone());
            if done(delete.await.map(drop))? {
                self.tally.deleted += 1;
                return Ok(Row::Settled);
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.table.contended(key))
    }

    async fn is_held<E: Entity>(
        &mut self,
        holder: &EntityKey,
        row: &EntityKey,
    ) -> Result<bool, Error> {
        self.tally.requests += 1;
        let holder = self.table.get::<E>(holder).with_settings(self.settings.clone()).await?;
        Ok(holder.is_some_and(|holder| has_row(&holder, row)))
    }

    async fn insert(&mut self, copy: &CopyRow) -> Result<bool, Error> {
        self.tally.requests += 1;
        let operation = copy.prepared()?.insert(Claim::Insert);
        let key = core(&copy.key);
        done(self.table.send_one("insert", key, operation, self.settings).await.map(drop))
    }

    async fn replace(&mut self, copy: &CopyRow, etag: &ETag) -> Result<bool, Error> {
        self.tally.requests += 1;
        let operation = copy.prepared()?.update(Mode::Replace, &IfMatch::Version(etag.clone()))?;
        let key = core(&copy.key);
        done(self.table.send_one("replace", key, operation, self.settings).await.map(drop))
    }
}

/// False if the row is not as it was read, or nobody knows: then the next read says it.
fn done(result: Result<(), Error>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.status(), Some(404 | 409 | 412)) => Ok(false),
        Err(error) if error.outcome() == Outcome::Unknown => Ok(false),
        Err(error) => Err(error),
    }
}

fn id(row: &DynEntity) -> String {
    row.get::<Option<String>>(WRITE_ID).ok().flatten().unwrap_or_default()
}

fn foreign(key: &EntityKey) -> Error {
    let text = format!("{key} is the place of an index row, and holds a row that is none");
    Error::new(ErrorKind::Pattern, Outcome::NotApplied, text)
}
