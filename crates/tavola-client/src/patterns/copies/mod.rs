//! Properties of one entity repeated in others.

#[cfg(feature = "json")]
mod chunks;
mod drift;
mod write;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

#[cfg(feature = "json")]
pub use chunks::ChunkedCopies;

use crate::client::TableClient;
use crate::entity::{Entity, Stored};
use crate::error::Error;
use crate::key::{EntityKey, PointKey};

/// A transaction has 100 operations, and one is the source's.
const COPIES_MAX: usize = 99;

type LinkOf<S, D> = Arc<dyn Fn(&D) -> Option<PointKey<S>> + Send + Sync>;
type CopyTo<S, D> = Arc<dyn Fn(&S, &mut D) + Send + Sync>;

/// What becomes of the copies of a source that is deleted.
enum OnDelete<D> {
    /// A source that has copies is not deleted.
    Refuse,
    /// They are written as the closure leaves them.
    Clear(Arc<dyn Fn(&mut D) + Send + Sync>),
    /// They are deleted with it.
    DeleteCopies,
}

/// Entities `D` that repeat properties of an entity `S` of their partition, for example a
/// department with the name and address of its manager.
///
/// **Guarantee.** Source and copies are written in one transaction, each under its version; a copy
/// that gets another source is written with a guard on that source (an empty merge under its
/// version). So a copy says what its source says, at every moment, for all that is written through
/// `Copies`.
/// A source with copies is not deleted, unless you say what becomes of them.
///
/// **Cost** in requests: read a copy 1; `source` 2; `replace_source` 1; `modify_source` 3; `insert`
/// and `repoint` 2. At most 99 copies of one source; more in
/// chunks, by the outbox: `Copies::chunked`.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::Copies;
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
///     email: String,
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "dept")]
/// struct Department {
///     dept: String,
///     manager: Option<i32>,
///     manager_email: Option<String>,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// let managers = Copies::<Employee, Department>::new(
///     &table,
///     |one| Some(Employee::key().dept(&one.dept).id(one.manager?.unsigned_abs())),
///     |source, one| one.manager_email = Some(source.email.clone()),
/// );
/// let (dept, email) = ("Sales".to_owned(), "cai@example.org".to_owned());
/// table.insert(&Employee { dept: dept.clone(), id: 104, email }).await?;
/// let mut sales = Department { dept, manager: Some(104), manager_email: None };
/// managers.insert(&mut sales).await?;
///
/// let key = || Employee::key().dept("Sales").id(104);
/// managers.modify_source(key(), |cai| cai.email = "cai@example.com".into()).await?;
/// let sales = table.get(Department::key().dept("Sales")).await?.ok_or("none").unwrap();
/// assert_eq!(sales.manager_email.as_deref(), Some("cai@example.com"));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct Copies<S, D> {
    table: TableClient,
    link: LinkOf<S, D>,
    copy: CopyTo<S, D>,
    on_delete: Arc<OnDelete<D>>,
}

impl<S, D> Clone for Copies<S, D> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            link: Arc::clone(&self.link),
            copy: Arc::clone(&self.copy),
            on_delete: Arc::clone(&self.on_delete),
        }
    }
}

impl<S, D> fmt::Debug for Copies<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

/// A source with all its copies, as they were read: what [`Copies::replace_source`] writes, so that
/// none is forgotten.
#[derive(Debug)]
pub struct Sourced<S, D> {
    source: Stored<S>,
    copies: Vec<Stored<D>>,
}

impl<S, D> Sourced<S, D> {
    /// The source with its version.
    #[must_use]
    pub fn source(&self) -> &Stored<S> {
        &self.source
    }

    /// Its copies.
    #[must_use]
    pub fn copies(&self) -> &[Stored<D>] {
        &self.copies
    }
}

impl<S, D> Deref for Sourced<S, D> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.source
    }
}

impl<S, D> DerefMut for Sourced<S, D> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.source
    }
}

impl<S: Entity, D: Entity> Copies<S, D> {
    /// Copies in this table: `link` names the source of an entity, if it has one, and `copy`
    /// repeats what is repeated.
    #[must_use]
    pub fn new(
        table: &TableClient,
        link: impl Fn(&D) -> Option<PointKey<S>> + Send + Sync + 'static,
        copy: impl Fn(&S, &mut D) + Send + Sync + 'static,
    ) -> Self {
        let (link, copy) = (Arc::new(link), Arc::new(copy));
        Self { table: table.clone(), link, copy, on_delete: Arc::new(OnDelete::Refuse) }
    }

    /// When a source is deleted, its copies stay, as `clear` leaves them: without a link.
    #[must_use]
    pub fn clearing(self, clear: impl Fn(&mut D) + Send + Sync + 'static) -> Self {
        Self { on_delete: Arc::new(OnDelete::Clear(Arc::new(clear))), ..self }
    }

    /// When a source is deleted, its copies are deleted too.
    #[must_use]
    pub fn deleting_copies(self) -> Self {
        Self { on_delete: Arc::new(OnDelete::DeleteCopies), ..self }
    }

    /// The key of the source of a copy.
    fn source_of(&self, copy: &D) -> Result<Option<EntityKey>, Error> {
        (self.link)(copy).map(PointKey::into_key).transpose()
    }
}
