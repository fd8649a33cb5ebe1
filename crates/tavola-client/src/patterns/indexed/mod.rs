//! Entities that are found by other properties too, in one partition.

mod drift;
#[cfg(feature = "json")]
mod eventually;
mod find;
mod rows;
mod write;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "json")]
pub use eventually::IndexedEventually;
pub use find::{IndexRange, IndexRow};

use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, Modified, TableClient};
use crate::engine::CallSettings;
use crate::entity::{Entity, Stored};
use crate::error::{Error, Outcome, Rule};
use crate::key::{EntityKey, PointKey};
use crate::patterns::housekeeping::whole;
use crate::written::Written;
use rows::Image;
use write::{Attach, Base, CopyWrite, FarKeys};

/// A transaction has 100 operations; a change of an indexed property costs two, the entity one.
const INDEXES_MAX: usize = 49;

/// Entities with index rows beside them in their partition, as `#[entity(index(..))]` declares them.
///
/// An index row has the index's key, the RowKey of its entity in `tv_base`, and copies of some
/// properties or of all. An entity without the value has no row.
///
/// **Guarantee.** An entity and its index rows are written in one transaction, the entity under its
/// version, so that nobody sees one without the other. Two entities never get one value of a unique
/// index: the second write fails with [`crate::ErrorKind::Duplicate`] and names the holder. Each write
/// has an id (`tv_ver`), by which a lost reply is decided; only a delete whose entity is found gone
/// afterwards stays unknown.
///
/// **Drift** comes from those who write the rows by other means. A write that meets it mends it in
/// the same transaction and counts it ([`Indexed::mended`]); a read never returns an entity that has
/// not the value; [`Indexed::verify`] and [`Indexed::rebuild`] look for all of it.
///
/// **Cost** in requests: insert, replace, delete 1; modify 2; `row` 1; `find` 2.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// #[entity(index(email, row = "email_{email:lower}", unique, copy(last)))]
/// struct Employee {
///     dept: String,
///     id: u32,
///     last: String,
///     email: String,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// let staff = table.indexed::<Employee>();
/// let employee = |id, email: &str| Employee {
///     dept: "Sales".into(),
///     id,
///     last: "Jones".into(),
///     email: email.into(),
/// };
/// staff.insert(&employee(223, "cai@example.org")).await?;
///
/// let by_email = || Employee::by_email().dept("Sales").email("CAI@example.org");
/// assert_eq!(staff.find(by_email()).await?.map(|found| found.id), Some(223));
/// // What was copied into the index row needs no second request.
/// let row = staff.row(by_email()).await?;
/// assert_eq!(row.map(|row| row.get::<String>("last")).transpose()?.as_deref(), Some("Jones"));
///
/// let taken = staff.insert(&employee(224, "Cai@Example.org")).await.unwrap_err();
/// assert!(taken.to_string().contains("('Sales', 'empid_000223') has this value"), "{taken}");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct Indexed<E> {
    table: TableClient,
    mended: Arc<AtomicU64>,
    false_hits: Arc<AtomicU64>,
    /// For index rows in other partitions.
    attach: Option<Arc<dyn Attach>>,
    of: PhantomData<fn() -> E>,
}

impl<E> Clone for Indexed<E> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            mended: Arc::clone(&self.mended),
            false_hits: Arc::clone(&self.false_hits),
            attach: self.attach.clone(),
            of: PhantomData,
        }
    }
}

impl<E> fmt::Debug for Indexed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexed").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

/// What must hold of the indexes of a type; a mistake is one of compilation.
const fn check_indexes<E: Entity>() {
    let indexes = E::INDEXES;
    assert!(!indexes.is_empty(), "the entity has no index: write #[entity(index(..))]");
    assert!(indexes.len() <= INDEXES_MAX, "a transaction has room for 49 indexes");
    let mut at = 0;
    while at < indexes.len() {
        let is_here = indexes[at].same_partition;
        assert!(is_here, "an index in another partition cannot be written in one transaction");
        at += 1;
    }
}

impl TableClient {
    /// Entities of this table with the index rows that their type declares.
    #[must_use]
    pub fn indexed<E: Entity>(&self) -> Indexed<E> {
        const { check_indexes::<E>() };
        Indexed::new(self, None)
    }
}

impl<E: Entity> Indexed<E> {
    fn new(table: &TableClient, attach: Option<Arc<dyn Attach>>) -> Self {
        let (mended, false_hits) = (Arc::default(), Arc::default());
        Self { table: table.clone(), mended, false_hits, attach, of: PhantomData }
    }

    /// How often a read met an index row whose entity has not the value, and passed over it.
    #[must_use]
    pub fn false_hits(&self) -> u64 {
        self.false_hits.load(Ordering::Relaxed)
    }

    /// How many index rows that others had broken the writes of this handle and its clones mended.
    #[must_use]
    pub fn mended(&self) -> u64 {
        self.mended.load(Ordering::Relaxed)
    }

    /// Adds an entity with its index rows.
    pub fn insert<'a>(&'a self, entity: &'a E) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let image = Image::new(&self.table, entity, &[])?;
            let base = Base::insert(&image)?;
            let copies = image.copies.iter().map(CopyWrite::insert).collect();
            let far = FarKeys { old: Vec::new(), new: image.far };
            self.commit(&image.key, base, copies, &far, &settings).await
        })
    }

    /// Writes an entity back with its index rows, if nobody changed it since it was read. The new
    /// version is left in `stored`.
    pub fn replace<'a>(&'a self, stored: &'a mut Stored<E>) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            self.replace_one(stored, &settings).await
        })
    }

    async fn replace_one(
        &self,
        stored: &mut Stored<E>,
        settings: &CallSettings,
    ) -> Result<Written, Error> {
        let image = Image::new(&self.table, &**stored, stored.rest())?;
        if image.key != *stored.key() {
            let text = "the entity has another key than the one that was read; insert it and \
                        delete the old one";
            return Err(Error::invalid(Rule::Request, text));
        }
        let base = Base::replace(&image, stored.etag())?;
        let copies = write::changes::<E>(stored.index_keys(), &image.copies);
        let far = FarKeys::new::<E>(stored.index_keys(), image.far);
        let written = self.commit(&image.key, base, copies, &far, settings).await?;
        stored.set_written(&written);
        if written.etag.is_some() {
            let (name, id) = &image.write_id;
            if E::WRITE_ID.is_none() {
                stored.set_rest(name, id.as_str().into());
            }
        }
        Ok(written)
    }

    /// Reads an entity, lets `change` change it, and writes it with its index rows, if nobody else
    /// wrote it meanwhile; else it begins anew, ten times at most.
    pub fn modify<'a>(
        &'a self,
        key: impl Into<PointKey<E>>,
        mut change: impl FnMut(&mut E) + Send + 'a,
    ) -> Call<'a, Modified<E>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            let key = key?;
            for attempt in 0..ATTEMPTS_MAX {
                let mut entity = self.read(&key, &settings).await?;
                let before = whole(&*entity, entity.rest())?;
                change(&mut entity);
                if whole(&*entity, entity.rest())? == before {
                    return Ok(Modified { entity, written: None });
                }
                match self.replace_one(&mut entity, &settings).await {
                    Ok(written) => return Ok(Modified { entity, written: Some(written) }),
                    Err(error) if error.is_changed() && error.outcome() == Outcome::NotApplied => {}
                    Err(error) => return Err(error),
                }
                self.table.pause_after_conflict(attempt).await;
            }
            Err(self.table.contended(&key))
        })
    }

    async fn read(&self, key: &EntityKey, settings: &CallSettings) -> Result<Stored<E>, Error> {
        let found = self.table.get::<E>(key).with_settings(settings.clone()).await?;
        found.ok_or_else(|| self.table.missing(key))
    }

    /// Deletes an entity with its index rows, if nobody changed it since it was read.
    pub fn delete<'a>(&'a self, stored: &'a Stored<E>) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let base = Base::delete(stored)?;
            let copies = write::changes::<E>(stored.index_keys(), &[]);
            let far = FarKeys::new::<E>(stored.index_keys(), Vec::new());
            self.commit(stored.key(), base, copies, &far, &settings).await
        })
    }
}
