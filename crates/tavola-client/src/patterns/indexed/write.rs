//! An entity and its index rows in one transaction, and what to do when a row is not as expected.

use std::sync::atomic::Ordering;

use super::Indexed;
use super::rows::{CopyRow, Image};
use crate::client::Transaction;
use crate::engine::{CallSettings, Operation};
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome};
use crate::etag::ETag;
use crate::key::EntityKey;
use crate::patterns::housekeeping::{BASE, BASE_PARTITION, core};
use crate::prepare;
use crate::unknown::Claim;
use crate::written::{IfMatch, Mode, Written};

/// How often rows are found otherwise than expected before a write gives up.
const SURPRISES_MAX: usize = 20;

/// What to do with the entity.
pub(super) struct Base {
    name: &'static str,
    operation: Operation,
}

impl Base {
    pub(super) fn insert(image: &Image) -> Result<Self, Error> {
        let operation = image.prepared()?.insert(Claim::Insert);
        Ok(Self { name: "insert", operation })
    }

    pub(super) fn replace(image: &Image, etag: &ETag) -> Result<Self, Error> {
        let if_match = IfMatch::Version(etag.clone());
        let operation = image.prepared()?.update(Mode::Replace, &if_match)?;
        Ok(Self { name: "replace", operation })
    }

    pub(super) fn delete<E: Entity>(stored: &Stored<E>) -> Result<Self, Error> {
        let if_match = IfMatch::Version(stored.etag().clone());
        let operation = prepare::delete(&core(stored.key()), &if_match)?;
        Ok(Self { name: "delete", operation })
    }
}

/// What to do with an index row.
pub(super) enum CopyWrite {
    Insert(CopyRow),
    Replace(CopyRow),
    /// Takes the place of a row that is nobody's.
    TakeOver(CopyRow, ETag),
    Delete(EntityKey),
}

impl CopyWrite {
    pub(super) fn insert(row: &CopyRow) -> Self {
        Self::Insert(row.clone())
    }

    fn operation(&self) -> Result<(&'static str, &EntityKey, Operation), Error> {
        Ok(match self {
            Self::Insert(row) => ("insert", &row.key, row.prepared()?.insert(Claim::Insert)),
            Self::Replace(row) => {
                let operation = row.prepared()?.update(Mode::Replace, &IfMatch::Any)?;
                ("replace", &row.key, operation)
            }
            Self::TakeOver(row, etag) => {
                let if_match = IfMatch::Version(etag.clone());
                ("replace", &row.key, row.prepared()?.update(Mode::Replace, &if_match)?)
            }
            Self::Delete(key) => ("delete", key, prepare::delete(&core(key), &IfMatch::Any)?),
        })
    }
}

/// The keys of an entity's index rows in other partitions, before a write and after it.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "json"), allow(dead_code, reason = "the outbox needs it"))]
pub(super) struct FarKeys {
    pub(super) old: Vec<EntityKey>,
    pub(super) new: Vec<EntityKey>,
}

impl FarKeys {
    pub(super) fn new<E: Entity>(old: &[Option<EntityKey>], new: Vec<EntityKey>) -> Self {
        let far = E::INDEXES.iter().zip(old).filter(|(index, _)| !index.same_partition);
        Self { old: far.filter_map(|(_, key)| key.clone()).collect(), new }
    }
}

/// What a write brings with it because of the index rows in other partitions.
pub(super) trait Attach: Send + Sync {
    fn attach(
        &self,
        transaction: &mut Transaction<'_>,
        key: &EntityKey,
        far: &FarKeys,
    ) -> Result<(), Error>;
}

/// From the index rows that an entity had to those that it must have.
pub(super) fn changes<E: Entity>(old: &[Option<EntityKey>], new: &[CopyRow]) -> Vec<CopyWrite> {
    let is_kept = |key: &EntityKey| new.iter().any(|row| row.key == *key);
    let here = E::INDEXES.iter().zip(old).filter(|(index, _)| index.same_partition);
    let gone = here.filter_map(|(_, key)| key.as_ref()).filter(|key| !is_kept(key));
    let written = new.iter().map(|row| match old.get(row.index) {
        Some(Some(key)) if *key == row.key => CopyWrite::Replace(row.clone()),
        _ => CopyWrite::Insert(row.clone()),
    });
    gone.cloned().map(CopyWrite::Delete).chain(written).collect()
}

impl<E: Entity> Indexed<E> {
    /// Writes all rows or none. What others broke is mended in the same transaction.
    pub(super) async fn commit(
        &self,
        key: &EntityKey,
        base: Base,
        mut copies: Vec<CopyWrite>,
        far: &FarKeys,
        settings: &CallSettings,
    ) -> Result<Written, Error> {
        let mut mends = 0;
        for _ in 0..SURPRISES_MAX {
            let mut all = self.table.transaction(key.partition());
            all.add(base.name, core(key), base.operation.clone())?;
            for copy in &copies {
                let (name, key, operation) = copy.operation()?;
                all.add(name, core(key), operation)?;
            }
            if let Some(attach) = &self.attach {
                attach.attach(&mut all, key, far)?;
            }
            let error = match all.send(settings.clone()).await {
                Ok(written) => {
                    self.note_mended(mends);
                    return first(written);
                }
                Err(error) => error,
            };
            let ErrorKind::Transaction { index: Some(at @ 1..) } = *error.kind() else {
                return Err(error);
            };
            if error.outcome() != Outcome::NotApplied || at > copies.len() {
                return Err(error);
            }
            let copy = copies.remove(at - 1);
            let status = error.status();
            let (copy, is_drift) = match (copy, status) {
                (CopyWrite::Insert(row), Some(409)) => self.take_over(row, error, settings).await?,
                // It was there: the entity says so, and nobody changed that.
                (CopyWrite::Replace(row), Some(404)) => (Some(CopyWrite::Insert(row)), true),
                (CopyWrite::Delete(_), Some(404)) => (None, true),
                (CopyWrite::TakeOver(row, _), Some(404 | 412)) => {
                    mends -= 1;
                    (Some(CopyWrite::Insert(row)), false)
                }
                _ => return Err(error),
            };
            mends += u64::from(is_drift);
            if let Some(copy) = copy {
                copies.insert(at - 1, copy);
            }
        }
        Err(self.table.contended(key))
    }

    /// The place of a new index row is taken: by another entity, or by a row that is nobody's.
    async fn take_over(
        &self,
        row: CopyRow,
        error: Error,
        settings: &CallSettings,
    ) -> Result<(Option<CopyWrite>, bool), Error> {
        let get = self.table.get::<DynEntity>(&row.key).with_settings(settings.clone());
        let Some(found) = get.await? else { return Ok((Some(CopyWrite::Insert(row)), false)) };
        let Some(holder) = base_of(&found)? else { return Err(error) };
        // Our own entity has no such row, by the version under which it is written.
        if found.get::<Option<String>>(BASE)? != row.row.get::<Option<String>>(BASE)? {
            let get = self.table.get::<E>(&holder).with_settings(settings.clone());
            let is_held = get.await?.is_some_and(|holder| has_row(&holder, &row.key));
            if is_held {
                return Err(duplicate::<E>(row.index, holder, error));
            }
        }
        Ok((Some(CopyWrite::TakeOver(row, found.etag().clone())), true))
    }

    fn note_mended(&self, rows: u64) {
        if rows > 0 {
            tracing::warn!(
                rows,
                table = self.table.name(),
                "index rows were broken and are mended"
            );
            self.mended.fetch_add(rows, Ordering::Relaxed);
        }
    }
}

fn first(written: Vec<Written>) -> Result<Written, Error> {
    let lost = || Error::new(ErrorKind::Pattern, Outcome::Unknown, "the transaction has no reply");
    written.into_iter().next().ok_or_else(lost)
}

/// The entity that an index row is for; `None` if it is no index row.
pub(super) fn base_of(row: &Stored<DynEntity>) -> Result<Option<EntityKey>, Error> {
    let Some(base) = row.get::<Option<String>>(BASE)? else { return Ok(None) };
    let partition = row.get::<Option<String>>(BASE_PARTITION)?;
    EntityKey::new(partition.as_deref().unwrap_or_else(|| row.partition()), base).map(Some)
}

/// True if the entity must have this index row.
pub(super) fn has_row<E: Entity>(entity: &Stored<E>, key: &EntityKey) -> bool {
    entity.index_keys().iter().flatten().any(|own| own == key)
}

fn duplicate<E: Entity>(index: usize, holder: EntityKey, error: Error) -> Error {
    let index = E::INDEXES.get(index).map_or("", |index| index.name);
    let text = format!("{holder} has this value of the index `{index}`; nothing was applied");
    let context = error.context().clone();
    let duplicate = Error::new(ErrorKind::Duplicate { index, holder }, Outcome::NotApplied, text);
    duplicate.with_answer(409, error.code().map(str::to_owned)).at(|place| *place = context)
}
