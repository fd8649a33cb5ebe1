//! Reads by an index.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use futures_util::TryStreamExt as _;

use super::Indexed;
use super::write::{base_of, has_row};
use crate::call::Call;
use crate::client::ATTEMPTS_MAX;
use crate::crypt::{self, Policy};
use crate::engine::CallSettings;
use crate::entity::names::{count, expand};
use crate::entity::{DynEntity, Entity, Stored, encode_properties};
use crate::error::{Error, ErrorKind, Outcome};
use crate::etag::ETag;
use crate::key::{EntityKey, IndexOf, KeyRange, PointKey};
use crate::query::Query;
use crate::value::PropertyType;

/// Entities that are read at a time.
const PARALLEL: usize = 8;

/// A row of an index: the key of its entity, and what was copied.
pub struct IndexRow<E> {
    base: EntityKey,
    row: Stored<DynEntity>,
    of: PhantomData<fn() -> E>,
}

impl<E> fmt::Debug for IndexRow<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexRow").field("key", self.row.key()).field("base", &self.base).finish()
    }
}

impl<E: Entity> IndexRow<E> {
    fn new(row: Stored<DynEntity>, policy: &Policy) -> Result<Self, Error> {
        if count(E::ENCRYPTED) > 0 {
            crypt::check(&expand(E::ENCRYPTED), &encode_properties(&*row, &[])?, policy)?;
        }
        let base = base_of(&row)?.ok_or_else(|| {
            let text = format!("{} is no index row: it names no entity", row.key());
            Error::new(ErrorKind::Pattern, Outcome::NotApplied, text)
        })?;
        Ok(Self { base, row, of: PhantomData })
    }

    /// The key of the entity.
    #[must_use]
    pub fn base(&self) -> &EntityKey {
        &self.base
    }

    /// The key of the row.
    #[must_use]
    pub fn key(&self) -> &EntityKey {
        self.row.key()
    }

    /// The version of the row.
    #[must_use]
    pub fn etag(&self) -> &ETag {
        self.row.etag()
    }

    /// A property that the index copies.
    ///
    /// # Errors
    /// If it has another type, or is not copied.
    pub fn get<T: PropertyType>(&self, name: &str) -> Result<T, Error> {
        self.row.get(name)
    }

    /// The whole entity, of an index that copies all properties (`full`).
    ///
    /// # Errors
    /// If the index copies some only.
    pub fn entity(&self) -> Result<E, Error> {
        let mut entity = DynEntity::new(self.base.partition(), self.base.row());
        for (name, value) in self.row.iter() {
            entity.set(name, value.clone());
        }
        if let Some(kind) = E::KIND {
            entity.set(kind.property, kind.text);
        }
        entity.to()
    }
}

/// The rows of an index in a range of its keys.
#[must_use = "a range does nothing until it is read"]
pub struct IndexRange<'a, E> {
    indexed: &'a Indexed<E>,
    keys: KeyRange<IndexOf<E>>,
}

impl<E> fmt::Debug for IndexRange<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexRange").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl<E: Entity> Indexed<E> {
    /// The row of an index with this key, with what is copied there: one request.
    pub fn row(&self, key: impl Into<PointKey<IndexOf<E>>>) -> Call<'_, Option<IndexRow<E>>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            self.read_row(&key?, &settings).await
        })
    }

    /// The entity that has this value: two requests. It has it, whatever the index says.
    pub fn find(&self, key: impl Into<PointKey<IndexOf<E>>>) -> Call<'_, Option<Stored<E>>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            self.find_one(&key?, &settings).await
        })
    }

    /// The entities with values in a range, in the order of the values.
    pub fn range(&self, keys: impl Into<KeyRange<IndexOf<E>>>) -> IndexRange<'_, E> {
        IndexRange { indexed: self, keys: keys.into() }
    }

    async fn read_row(
        &self,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<IndexRow<E>>, Error> {
        let found = self.table.get::<DynEntity>(key).with_settings(settings.clone()).await?;
        found.map(|row| IndexRow::new(row, &settings.encryption)).transpose()
    }

    async fn find_one(
        &self,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<Stored<E>>, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(row) = self.read_row(key, settings).await? else { return Ok(None) };
            let base = self.table.get::<E>(row.base()).with_settings(settings.clone()).await?;
            if let Some(base) = base.filter(|base| has_row(base, key)) {
                return Ok(Some(base));
            }
            // Either it was changed between the two reads, and the row with it, or the row is wrong.
            let again = self.read_row(key, settings).await?;
            if again.is_some_and(|again| again.etag() == row.etag()) {
                self.note_false_hit();
                return Ok(None);
            }
        }
        Err(self.table.contended(key))
    }
}

impl<E: Entity> Indexed<E> {
    fn note_false_hit(&self) {
        self.false_hits.fetch_add(1, Ordering::Relaxed);
        // In other partitions that is so until a worker comes.
        if self.attach.is_none() {
            tracing::warn!(table = self.table.name(), "an index row is nobody's");
        }
    }
}

impl<'a, E: Entity> IndexRange<'a, E> {
    /// The entities: one request for each page of the index and one for each entity. Each has the
    /// value under which it is listed.
    pub fn checked(self) -> Call<'a, Vec<Stored<E>>> {
        let indexed = self.indexed;
        Call::new(indexed.table.engine().settings(), move |settings: CallSettings| async move {
            let rows = self.read(&settings).await?;
            let bases = rows.iter().map(|row| row.base());
            let reads = indexed.table.get_many::<E, _>(bases, PARALLEL);
            let bases = reads.with_settings(settings.clone()).await?;
            let mut all = Vec::with_capacity(rows.len());
            for (row, base) in rows.iter().zip(bases) {
                let base = match base.filter(|base| has_row(base, row.key())) {
                    Some(base) => Some(base),
                    None => indexed.find_one(row.key(), &settings).await?,
                };
                all.extend(base);
            }
            Ok(all)
        })
    }

    /// The rows of the index alone, with what is copied there: one request for each page. A row that
    /// others broke is among them.
    pub fn stale(self) -> Call<'a, Vec<IndexRow<E>>> {
        let settings = self.indexed.table.engine().settings();
        Call::new(settings, move |settings| async move { self.read(&settings).await })
    }

    async fn read(&self, settings: &CallSettings) -> Result<Vec<IndexRow<E>>, Error> {
        let filter = self.keys.to_filter()?.as_core().cloned();
        let rows = Query::<DynEntity>::new(&self.indexed.table, filter.map(Some));
        let policy = settings.encryption.clone();
        let rows = rows.with_settings(settings.clone());
        let rows = rows.resolve(move |row| IndexRow::new(row, &policy));
        rows.stream().try_collect().await
    }
}
