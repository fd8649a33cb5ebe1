//! Entities with more properties than a row has.

mod parts;
mod set;

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use self::parts::{Generation, Parts, part_key};
use super::housekeeping::core;
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, TableClient};
use crate::engine::CallSettings;
use crate::entity::{WideEntity, names};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::etag::ETag;
use crate::key::{EntityKey, PointKey};
use crate::prepare;
use crate::unknown::Claim;
use crate::value::Value;
use crate::written::{IfMatch, Mode};

/// Entities of up to 100 rows, `{row}!w00`, `{row}!w01` and so on: for more than 252 properties, or
/// more than 1 MiB.
///
/// Each row has 251 properties of the entity at most, and the generation (`tv_gen`): a number that
/// every write of the whole raises, an id of that write, and how many parts there are. A property
/// is in one part for ever: by the order of the fields, 251 a part (add new fields at the end), or
/// in the part that `#[entity(part = 1)]` begins.
///
/// **Guarantee.** All parts are written in one transaction, each under its version. A read returns
/// parts of one generation only, however it meets writers; a part that is missing is an error,
/// never a default. [`Wide::set`] writes one property and nothing else, without a version.
///
/// **Cost** in requests: read 1 a page, insert, replace, delete, set 1.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::Wide;
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{user:06}", row = "{year:04}")]
/// struct Year {
///     user: u32,
///     year: u16,
///     january: Option<i64>,
///     // .. hundreds of them
///     #[entity(part = 1)]
///     july: Option<i64>,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("years");
/// table.create().await?;
/// let years = Wide::<Year>::new(&table);
/// years.insert(&Year { user: 123, year: 2014, january: Some(3), july: Some(7) }).await?;
/// years.set(Year::key().user(123).year(2014), Year::JULY, Some(8)).await?;
///
/// let Some(mut year) = years.read(Year::key().user(123).year(2014)).await? else { return Ok(()) };
/// assert_eq!((year.january, year.july, year.parts()), (Some(3), Some(8), 2));
/// year.july = None;
/// years.replace(&mut year).await?;
/// assert_eq!(year.parts(), 1);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct Wide<E> {
    table: TableClient,
    /// In which part each property is.
    parts: Arc<HashMap<String, usize>>,
    page_size: usize,
    of: PhantomData<fn() -> E>,
}

impl<E> Clone for Wide<E> {
    fn clone(&self) -> Self {
        let (table, parts) = (self.table.clone(), Arc::clone(&self.parts));
        Self { table, parts, page_size: self.page_size, of: PhantomData }
    }
}

impl<E> fmt::Debug for Wide<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wide").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

/// A wide entity with the versions in which its parts were read. Writing it back checks them all,
/// and keeps the properties that its type does not know.
#[derive(Debug, Clone)]
pub struct WideStored<E> {
    entity: E,
    key: EntityKey,
    /// How many writes of the whole there were.
    counter: u64,
    versions: Vec<ETag>,
    /// What the type does not know, with its part.
    rest: Vec<(usize, String, Value)>,
}

impl<E> WideStored<E> {
    /// The key of the whole; its rows have `!w00` and so on behind the RowKey.
    #[must_use]
    pub fn key(&self) -> &EntityKey {
        &self.key
    }

    /// How many rows it has.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.versions.len()
    }

    /// The entity alone.
    #[must_use]
    pub fn into_inner(self) -> E {
        self.entity
    }
}

impl<E> Deref for WideStored<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.entity
    }
}

impl<E> DerefMut for WideStored<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.entity
    }
}

impl<E> Wide<E> {
    /// Wide entities in this table.
    #[must_use]
    pub fn new(table: &TableClient) -> Self
    where
        E: WideEntity,
    {
        const {
            assert!(names::count(E::ENCRYPTED) == 0, "a wide entity cannot have encrypted fields");
        }
        let parts = names::in_parts(E::NAMES.unwrap_or_default(), E::PARTS);
        let (table, parts) = (table.clone(), Arc::new(parts));
        Self { table, parts, page_size: names::PARTS_MAX, of: PhantomData }
    }

    /// So many parts in a request of a read; all unless said. A part can have 1 MiB.
    #[must_use]
    pub fn page_size(self, parts: usize) -> Self {
        Self { page_size: parts, ..self }
    }
}

impl<E: WideEntity> Wide<E> {
    /// One entity; `None` if there is none. Parts of two generations are read again, ten times at
    /// most.
    pub fn read(&self, key: impl Into<PointKey<E>>) -> Call<'_, Option<WideStored<E>>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            let key = key?;
            match self.read_parts(&key, &settings).await? {
                Some(parts) => self.decode(key, parts).map(Some),
                None => Ok(None),
            }
        })
    }

    /// Adds an entity; there must be none with its key.
    pub fn insert<'a>(&'a self, entity: &'a E) -> Call<'a, ()> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let key = entity.entity_key()?;
            let rows = self.rows(entity, &key, &[])?;
            let generation = self.generation(1, rows.len());
            let mut all = self.table.transaction(key.partition());
            for row in rows {
                let prepared = row.prepared(&generation)?;
                all.add("insert", core(&row.key), prepared.insert(Claim::Insert))?;
            }
            all.send(settings).await.map(drop)
        })
    }

    /// Writes an entity back, if nobody changed any part of it since it was read. Parts that it no
    /// longer needs are deleted. The new versions are left in `stored`.
    pub fn replace<'a>(&'a self, stored: &'a mut WideStored<E>) -> Call<'a, ()> {
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            let key = stored.key.clone();
            if stored.entity.entity_key()? != key {
                let text = "the entity has another key than the one that was read; insert it and \
                            delete the old one";
                return Err(Error::invalid(Rule::Request, text));
            }
            let rows = self.rows(&stored.entity, &key, &stored.rest)?;
            let generation = self.generation(stored.counter + 1, rows.len());
            let mut all = self.table.transaction(key.partition());
            for (row, version) in rows.iter().zip(&stored.versions) {
                let if_match = IfMatch::Version(version.clone());
                let operation = row.prepared(&generation)?.update(Mode::Replace, &if_match)?;
                all.add("replace", core(&row.key), operation)?;
            }
            for row in rows.iter().skip(stored.versions.len()) {
                let operation = row.prepared(&generation)?.insert(Claim::Insert);
                all.add("insert", core(&row.key), operation)?;
            }
            for (part, version) in stored.versions.iter().enumerate().skip(rows.len()) {
                let row = core(&part_key(&key, part)?);
                let if_match = IfMatch::Version(version.clone());
                all.add("delete", row.clone(), prepare::delete(&row, &if_match)?)?;
            }
            let written = all.send(settings.clone()).await?;
            let versions: Option<Vec<_>> =
                written.into_iter().take(rows.len()).map(|written| written.etag).collect();
            let versions = match versions {
                Some(versions) => Some(versions),
                // The reply was lost; the rows know their versions, unless somebody was here since.
                None => self.versions_of(&key, &generation, &settings).await?,
            };
            stored.counter += 1;
            stored.versions = versions.unwrap_or_else(|| vec![ETag::new("W/\"\""); rows.len()]);
            Ok(())
        })
    }

    /// Deletes an entity, if nobody changed any part of it since it was read.
    pub fn delete<'a>(&'a self, stored: &'a WideStored<E>) -> Call<'a, ()> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let mut all = self.table.transaction(stored.key.partition());
            for (part, version) in stored.versions.iter().enumerate() {
                let row = core(&part_key(&stored.key, part)?);
                let if_match = IfMatch::Version(version.clone());
                all.add("delete", row.clone(), prepare::delete(&row, &if_match)?)?;
            }
            all.send(settings).await.map(drop)
        })
    }

    fn generation(&self, counter: u64, parts: usize) -> Generation {
        Generation::new(counter, self.table.engine().runtime.random(), parts)
    }

    /// The parts of an entity, all of one generation.
    async fn read_parts(
        &self,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<Parts>, Error> {
        let mut before: Option<Parts> = None;
        for attempt in 0..ATTEMPTS_MAX {
            let parts = Parts::read(&self.table, key, self.page_size, settings).await?;
            if parts.rows.is_empty() {
                return Ok(None);
            }
            let Err(problem) = parts.check() else { return Ok(Some(parts)) };
            // What is the same twice is no write under way.
            if before.is_some_and(|before| before.has_versions_of(&parts)) {
                let text = format!("{key}: {problem}; somebody wrote its rows by other means");
                return Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text));
            }
            before = Some(parts);
            if attempt > 0 {
                self.table.pause_after_conflict(attempt).await;
            }
        }
        Err(self.table.contended(key))
    }

    async fn versions_of(
        &self,
        key: &EntityKey,
        generation: &Generation,
        settings: &CallSettings,
    ) -> Result<Option<Vec<ETag>>, Error> {
        let parts = self.read_parts(key, settings).await?;
        let own = parts.filter(|parts| parts.generation().is_ok_and(|found| found == *generation));
        Ok(own.map(|parts| parts.rows.iter().map(|row| row.etag().clone()).collect()))
    }
}
