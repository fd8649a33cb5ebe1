//! Entities that share a value, listed under it.

mod change;
mod drift;
#[cfg(feature = "json")]
mod elsewhere;
mod held;
mod list;
mod read;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "json")]
pub use elsewhere::IndexListElsewhere;
pub use read::Listed;

use crate::client::TableClient;
use crate::entity::Entity;
use crate::error::{Error, Rule};
use crate::patterns::stamped::beginning;

/// How many entities are read at a time.
const PARALLEL: usize = 16;

/// The value under which an entity is listed; `None` if it is in no list.
type ValueOf<E> = Arc<dyn Fn(&E) -> Option<String> + Send + Sync>;

/// The form in which members are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Place {
    /// One list for each value, in the entities' partition: one read gives all members, and all
    /// writers of its members contend for it.
    #[default]
    List,
    /// One row for each member, in the entities' partition: no limit, no contention, and nothing
    /// to read before a change.
    Rows,
}

/// Lists of the entities of a partition that share a value, for example all employees with one last
/// name.
///
/// The list of a value is the row `{prefix}{value}!00`, with the ids of its members in `m00` to
/// `m14`, then `!01` and so on. An id is the RowKey without what all keys of `E` begin with.
///
/// **Guarantee.** A list is written in the transaction that changes the entity, under its version:
/// it names exactly the entities with its value, at every moment, and no change is lost however
/// many write. Additions and removals are those of a set. The first member makes the list, the last
/// one's removal deletes it. An entity that is read through a list has the list's value.
///
/// **Cost** in requests: add and remove 2, rename 3, and as many again for each time that somebody
/// was faster; members 1; entities 1 + n. With [`Place::Rows`]: add, remove, rename 1; members 1.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::IndexList;
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
///     last: String,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// let names = IndexList::<Employee>::new(&table, "lastname_", |one| Some(one.last.clone()))?;
/// for id in [152, 104] {
///     let employee = Employee { dept: "Sales".into(), id, last: "Jones".into() };
///     let mut change = table.transaction("Sales");
///     change.insert(&employee)?;
///     names.add_with(change, "Jones", employee.entity_key()?).await?;
/// }
/// let found = names.entities("Sales", "Jones").await?;
/// assert_eq!(found.entities.iter().map(|one| one.id).collect::<Vec<_>>(), [104, 152]);
/// assert_eq!(found.requests, 3);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct IndexList<E> {
    table: TableClient,
    prefix: String,
    place: Place,
    parallel: usize,
    value_of: ValueOf<E>,
}

impl<E> Clone for IndexList<E> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            prefix: self.prefix.clone(),
            place: self.place,
            parallel: self.parallel,
            value_of: Arc::clone(&self.value_of),
        }
    }
}

impl<E> fmt::Debug for IndexList<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexList")
            .field("table", &self.table.name())
            .field("prefix", &self.prefix)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl<E: Entity> IndexList<E> {
    /// Lists whose rows begin with `prefix`, of entities by the value that `value_of` gives.
    ///
    /// # Errors
    /// If rows of the lists and rows of the entities would begin alike.
    pub fn new(
        table: &TableClient,
        prefix: impl Into<String>,
        value_of: impl Fn(&E) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let (prefix, entity) = (prefix.into(), beginning::<E>());
        let is_alike = prefix.starts_with(entity) || entity.starts_with(&prefix);
        if prefix.is_empty() || (!entity.is_empty() && is_alike) {
            let text = format!(
                "rows of the lists begin with '{prefix}', those of the entities with '{entity}': a \
                 range over one would return the other; give each a prefix of its own"
            );
            return Err(Error::invalid(Rule::KeyTemplate, text));
        }
        let (table, value_of) = (table.clone(), Arc::new(value_of));
        Ok(Self { table, prefix, place: Place::List, parallel: PARALLEL, value_of })
    }

    /// The form of the lists. One form is not read as the other: change the prefix with it.
    #[must_use]
    pub fn place(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// So many entities are read at a time.
    #[must_use]
    pub fn parallel(self, parallel: usize) -> Self {
        Self { parallel: parallel.max(1), ..self }
    }
}
