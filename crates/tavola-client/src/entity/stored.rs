//! Entities as they were read.

use std::fmt;
use std::ops::{Deref, DerefMut};

use time::OffsetDateTime;

use super::dynamic::Shown;
use super::{Decoded, Decoder as _, DynEntity, Entity, RowHead};
use crate::error::Error;
use crate::etag::ETag;
use crate::key::EntityKey;
use crate::value::Value;
use crate::written::Written;

/// An entity with the version in which it was read. Writing it back checks that version, and keeps
/// the properties that its type does not know.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, Stored, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let written = table.insert(&DynEntity::new("Smith", "1")).await?;
/// let ann: Option<Stored<DynEntity>> = table.get(("Smith", "1")).await?;
/// let ann = ann.expect("it was inserted");
/// assert_eq!(Some(ann.etag()), written.etag.as_ref());
/// assert_eq!(ann.row(), "1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stored<E> {
    entity: E,
    key: EntityKey,
    etag: ETag,
    timestamp: OffsetDateTime,
    rest: Vec<(String, Value)>,
    index_keys: Vec<Option<EntityKey>>,
}

/// Values that are stored encrypted are not shown among the rest.
impl<E: fmt::Debug> fmt::Debug for Stored<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("entity", &self.entity)
            .field("key", &self.key)
            .field("etag", &self.etag)
            .field("timestamp", &self.timestamp)
            .field("rest", &Shown(&self.rest))
            .finish_non_exhaustive()
    }
}

impl<E> Stored<E> {
    fn of_row(head: &RowHead<'_>, decoded: Decoded<E>) -> Result<Self, Error> {
        Ok(Self {
            entity: decoded.value,
            key: EntityKey::new(head.partition, head.row)?,
            etag: head.etag.clone(),
            timestamp: head.timestamp,
            rest: decoded.rest,
            index_keys: Vec::new(),
        })
    }

    /// The key under which it was read.
    #[must_use]
    pub fn key(&self) -> &EntityKey {
        &self.key
    }

    /// The version in which it was read.
    #[must_use]
    pub fn etag(&self) -> &ETag {
        &self.etag
    }

    /// When that version was written.
    #[must_use]
    pub fn timestamp(&self) -> OffsetDateTime {
        self.timestamp
    }

    /// The properties that `E` does not know. They survive a `replace`.
    #[must_use]
    pub fn rest(&self) -> &[(String, Value)] {
        &self.rest
    }

    /// The entity alone.
    #[must_use]
    pub fn into_inner(self) -> E {
        self.entity
    }
}

impl<E: Entity> Stored<E> {
    pub(crate) fn new(head: &RowHead<'_>, decoded: Decoded<E>) -> Result<Self, Error> {
        let mut stored = Self::of_row(head, decoded)?;
        // An entity of an older version did not know that the newer one mirrors them.
        stored.set_version(head.etag.clone(), head.timestamp);
        Ok(stored)
    }

    /// Takes over the version that a read or a write gave to the entity.
    pub(crate) fn set_version(&mut self, etag: ETag, timestamp: OffsetDateTime) {
        self.entity.mirror(&etag, timestamp);
        self.etag = etag;
        self.timestamp = timestamp;
        // An entity that has no place in an index, because a part does not fit, has no row there.
        let key = |at| self.entity.index_key(at).unwrap_or_default();
        self.index_keys = (0..E::INDEXES.len()).map(key).collect();
    }

    /// Takes over what a write said. A version need not tell its time: the old one is kept then.
    pub(crate) fn set_written(&mut self, written: &Written) {
        if let Some(etag) = &written.etag {
            self.set_version(etag.clone(), written.timestamp.unwrap_or(self.timestamp));
        }
    }

    /// The same entity in the row of another key than its own.
    pub(crate) fn with_key(self, key: EntityKey) -> Self {
        Self { key, ..self }
    }

    /// Takes over the value that a write gave to a property that `E` does not know.
    pub(crate) fn set_rest(&mut self, name: &str, value: Value) {
        match self.rest.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.rest.push((name.to_owned(), value)),
        }
    }

    /// The keys of its rows in the indexes, as they were when it was read or written.
    pub(crate) fn index_keys(&self) -> &[Option<EntityKey>] {
        &self.index_keys
    }
}

impl Stored<DynEntity> {
    /// The same version of the entity as another type reads it.
    pub(crate) fn to_stored<E: Entity>(&self) -> Result<Stored<E>, Error> {
        let (key, etag, timestamp) = (self.key(), self.etag(), self.timestamp());
        let head = RowHead { partition: key.partition(), row: key.row(), etag, timestamp };
        let mut decoder = E::decoder();
        for (name, value) in self.iter() {
            decoder.property(name, value.as_ref());
        }
        Stored::new(&head, decoder.finish(&head)?)
    }
}

impl<E> Deref for Stored<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.entity
    }
}

impl<E> DerefMut for Stored<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.entity
    }
}

impl<E: fmt::Display> fmt::Display for Stored<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.entity, f)
    }
}

/// Some properties of an entity as they were read. It cannot be written back: what was not read
/// would be lost.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::{DynEntity, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// # table.insert(&DynEntity::new("Smith", "1")).await?;
/// // Keys, ETag and Timestamp are there, whatever is selected.
/// let mut rows = table.scan::<DynEntity>().select(vec!["Age".to_owned()]).stream();
/// let row = rows.try_next().await?.expect("there is one");
/// assert_eq!(row.key().row(), "1");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Projected<P> {
    row: Stored<P>,
}

impl<P> Projected<P> {
    #[allow(dead_code, reason = "the half of the library that sends uses it")]
    pub(crate) fn new(head: &RowHead<'_>, decoded: Decoded<P>) -> Result<Self, Error> {
        Stored::of_row(head, decoded).map(|row| Self { row })
    }

    /// The key under which it was read.
    #[must_use]
    pub fn key(&self) -> &EntityKey {
        self.row.key()
    }

    /// The version in which it was read.
    #[must_use]
    pub fn etag(&self) -> &ETag {
        self.row.etag()
    }

    /// When that version was written.
    #[must_use]
    pub fn timestamp(&self) -> OffsetDateTime {
        self.row.timestamp()
    }

    /// The properties alone.
    #[must_use]
    pub fn into_inner(self) -> P {
        self.row.into_inner()
    }
}

impl<P> Deref for Projected<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.row
    }
}
