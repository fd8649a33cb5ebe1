//! Entities that are found by other properties too, by rows in other partitions.

mod drift;
mod settle;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::find::{IndexRange, IndexRow};
use super::write::{Attach, FarKeys};
use super::{INDEXES_MAX, Indexed};
use crate::call::Call;
use crate::client::{Modified, TableClient, Transaction};
use crate::entity::{Entity, Stored};
use crate::error::Error;
use crate::key::{EntityKey, IndexOf, KeyRange, PointKey};
use crate::patterns::drift::DriftReport;
use crate::patterns::outbox::{Outbox, Progress, Step, StepError, Work};
use crate::runtime::BoxFuture;
use crate::written::Written;
use settle::Settling;

/// Entities with index rows in other partitions, as `#[entity(index(.., partition = ".."))]` declares
/// them; those that are declared in the entity's partition are kept as [`Indexed`] keeps them.
///
/// An index row has the index's key, the key of its entity (`tv_base_pk`, `tv_base`), the id of the
/// write of which it is (`tv_ver`), and copies of some properties or of all. A write adds work to the
/// [`Outbox`] in the same transaction; this is the [`Step`] that does it.
///
/// **Guarantee.** A read never returns an entity that has not the value, whatever the index says.
/// Once the work is done, every entity is found. A worker derives the rows from the entity as it is
/// now, so that order and repetition do not matter: a lower version never replaces a higher one, and
/// a row is deleted only if it still belongs to this entity. `unique` is not kept here: no transaction
/// covers two partitions. Of two entities with one row the first one is found, and
/// [`IndexedEventually::verify`] tells of the other ([`DriftReport::duplicate`]).
///
/// **Cost** in requests: insert, replace, delete 1 (and a hint); modify 2; a worker 5 to 7 for each
/// write with one index; `row` 1; `find` 2.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::Outbox;
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(kind = "employee", partition = "empid_{dept}", row = "{id:06}")]
/// #[entity(index(last, partition = "last_{dept}!{last}", row = "{id:06}"))]
/// struct Employee {
///     dept: String,
///     id: u32,
///     last: String,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// let outbox = Outbox::new(&table);
/// let staff = table.indexed_eventually::<Employee>(&outbox);
/// staff.insert(&Employee { dept: "Sales".into(), id: 223, last: "Jones".into() }).await?;
///
/// outbox.worker().step(staff.clone()).drain().await?;
/// let jones = staff.range(Employee::by_last().dept("Sales").last("Jones")).checked().await?;
/// assert_eq!(jones.iter().map(|one| one.id).collect::<Vec<_>>(), [223]);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct IndexedEventually<E> {
    indexed: Indexed<E>,
    name: Arc<str>,
}

impl<E> Clone for IndexedEventually<E> {
    fn clone(&self) -> Self {
        Self { indexed: self.indexed.clone(), name: Arc::clone(&self.name) }
    }
}

impl<E> fmt::Debug for IndexedEventually<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedEventually")
            .field("table", &self.indexed.table.name())
            .field("step", &self.name)
            .finish_non_exhaustive()
    }
}

/// What must hold of the indexes of a type; a mistake is one of compilation.
const fn check_indexes<E: Entity>() {
    let indexes = E::INDEXES;
    assert!(indexes.len() < INDEXES_MAX, "a transaction has room for 48 indexes and the work");
    let mut at = 0;
    let mut has_far = false;
    while at < indexes.len() {
        has_far = has_far || !indexes[at].same_partition;
        at += 1;
    }
    assert!(has_far, "all indexes are in the entity's partition: use `indexed`");
}

impl TableClient {
    /// Entities of this table with the index rows that their type declares in other partitions, by
    /// the outbox of the table. The result is also the step for a worker.
    #[must_use]
    pub fn indexed_eventually<E: Entity>(&self, outbox: &Outbox) -> IndexedEventually<E> {
        const { check_indexes::<E>() };
        let name: Arc<str> = step_name::<E>().into();
        // A row that has nothing but keys says the same as long as these are the same.
        let mut far = E::INDEXES.iter().filter(|index| !index.same_partition);
        let has_copies = far.any(|index| index.full || !index.copy.is_empty());
        let attach = WithOutbox { outbox: outbox.clone(), name: Arc::clone(&name), has_copies };
        IndexedEventually { indexed: Indexed::new(self, Some(Arc::new(attach))), name }
    }
}

/// The name is stored, and says of which type the work is.
fn step_name<E: Entity>() -> String {
    match (E::KIND, E::KEYS) {
        (Some(kind), _) => format!("index {}", kind.name),
        (None, Some(keys)) => format!("index ({}, {})", keys.partition, keys.row),
        (None, None) => "index".to_owned(),
    }
}

/// What the outbox holds: keys only, because the worker reads the entity.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    /// The RowKey of the entity; its partition is that of the work.
    row: String,
    old: Vec<(String, String)>,
    new: Vec<(String, String)>,
}

struct WithOutbox {
    outbox: Outbox,
    name: Arc<str>,
    has_copies: bool,
}

impl Attach for WithOutbox {
    fn attach(
        &self,
        transaction: &mut Transaction<'_>,
        key: &EntityKey,
        far: &FarKeys,
    ) -> Result<(), Error> {
        if far.old == far.new && !self.has_copies {
            return Ok(());
        }
        let texts = |keys: &[EntityKey]| {
            keys.iter().map(|key| (key.partition().to_owned(), key.row().to_owned())).collect()
        };
        let job = Job { row: key.row().to_owned(), old: texts(&far.old), new: texts(&far.new) };
        self.outbox.add(transaction, &self.name, &job)
    }
}

impl<E: Entity> IndexedEventually<E> {
    /// Adds an entity, with the work to index it.
    pub fn insert<'a>(&'a self, entity: &'a E) -> Call<'a, Written> {
        self.indexed.insert(entity)
    }

    /// Writes an entity back, with the work to index it, if nobody changed it since it was read. The
    /// new version is left in `stored`.
    pub fn replace<'a>(&'a self, stored: &'a mut Stored<E>) -> Call<'a, Written> {
        self.indexed.replace(stored)
    }

    /// Reads an entity, lets `change` change it, and writes it with the work to index it, if nobody
    /// else wrote it meanwhile; else it begins anew, ten times at most.
    pub fn modify<'a>(
        &'a self,
        key: impl Into<PointKey<E>>,
        change: impl FnMut(&mut E) + Send + 'a,
    ) -> Call<'a, Modified<E>> {
        self.indexed.modify(key, change)
    }

    /// Deletes an entity, with the work to delete its index rows, if nobody changed it since it was
    /// read.
    pub fn delete<'a>(&'a self, stored: &'a Stored<E>) -> Call<'a, Written> {
        self.indexed.delete(stored)
    }

    /// The row of an index with this key, with what is copied there: one request. It may be old.
    pub fn row(&self, key: impl Into<PointKey<IndexOf<E>>>) -> Call<'_, Option<IndexRow<E>>> {
        self.indexed.row(key)
    }

    /// The entity that has this value: two requests. It has it, whatever the index says; one that
    /// was given it just now may not be found yet.
    pub fn find(&self, key: impl Into<PointKey<IndexOf<E>>>) -> Call<'_, Option<Stored<E>>> {
        self.indexed.find(key)
    }

    /// The entities with values in a range, in the order of the index: `.checked()`, or `.stale()` for
    /// the rows as they are.
    pub fn range(&self, keys: impl Into<KeyRange<IndexOf<E>>>) -> IndexRange<'_, E> {
        self.indexed.range(keys)
    }

    /// How often a read met an index row whose entity has not the value, and passed over it.
    #[must_use]
    pub fn false_hits(&self) -> u64 {
        self.indexed.false_hits()
    }

    /// Compares the index rows that are in a partition of entities: see [`Indexed::verify`].
    pub fn verify_partition(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.indexed.verify(partition)
    }

    /// The same, and mends what is wrong.
    pub fn rebuild_partition(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.indexed.rebuild(partition)
    }
}

fn read_keys(texts: Vec<(String, String)>) -> Result<BTreeSet<EntityKey>, Error> {
    texts.into_iter().map(|(partition, row)| EntityKey::new(partition, row)).collect()
}

impl<E: Entity> Step for IndexedEventually<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, work: Work) -> BoxFuture<'_, Result<Progress, StepError>> {
        Box::pin(async move {
            let Job { row, old, new } = work.job()?;
            let key = EntityKey::new(work.partition(), row)?;
            let (old, new) = (read_keys(old)?, read_keys(new)?);
            let all = old.union(&new).cloned().collect();
            let new = new.difference(&old).cloned().collect();
            let settings = self.indexed.table.engine().settings();
            Settling::new(&self.indexed.table, &key, &settings).run::<E>(&all, &new).await?;
            Ok(Progress::Done)
        })
    }
}
