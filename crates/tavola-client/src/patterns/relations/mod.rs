//! Relationships: parents and children, links, and joins in the program.

mod drift;
mod join_cache;
mod link;
#[cfg(feature = "json")]
mod moves;
mod write;

use std::fmt;
use std::sync::Arc;

pub use join_cache::JoinCache;
pub use link::{Link, LinksTo};
#[cfg(feature = "json")]
pub use moves::Moves;

use crate::client::TableClient;
use crate::entity::Entity;
use crate::error::{Error, Rule};
use crate::key::{EntityKey, PointKey};

type ParentOf<P, C> = Arc<dyn Fn(&C) -> PointKey<P> + Send + Sync>;
type Slot<P> = Arc<dyn Fn(&mut P) -> &mut i64 + Send + Sync>;
type Amount<C> = Arc<dyn Fn(&C) -> i64 + Send + Sync>;

/// A number in the parent: where it is, and what a child adds to it.
struct Counter<P, C> {
    slot: Slot<P>,
    amount: Amount<C>,
}

impl<P, C> Clone for Counter<P, C> {
    fn clone(&self) -> Self {
        Self { slot: Arc::clone(&self.slot), amount: Arc::clone(&self.amount) }
    }
}

/// A parent with children in its partition, for example a department with its employees. The parent
/// has the number of its children, and sums over them: it is their summary.
///
/// **Guarantee.** A child is written in one transaction with the numbers of its parent, which is
/// written under its version: they are exact at every moment, and no change is lost however many
/// write. A child has a parent when it is inserted. Other properties of the parent may be written
/// by anybody, under its version.
///
/// **Cost** in requests: insert and delete 2; modify 3, or 2 if no number changes; and as many
/// again for each time that somebody was faster. Reading the numbers is reading the parent: 1.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::OneToMany;
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "dept")]
/// struct Department {
///     dept: String,
///     employees: i64,
///     salaries: i64,
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
///     salary: i64,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// let staff = OneToMany::<Department, Employee>::new(&table, |one| {
///     Department::key().dept(&one.dept)
/// })
/// .count(|dept| &mut dept.employees)
/// .sum(|dept| &mut dept.salaries, |one| one.salary);
///
/// table.insert(&Department { dept: "Sales".into(), employees: 0, salaries: 0 }).await?;
/// for id in 1..=3 {
///     staff.insert(&Employee { dept: "Sales".into(), id, salary: 1000 }).await?;
/// }
/// staff.modify(Employee::key().dept("Sales").id(1), |one| one.salary += 500).await?;
/// let sales = table.get(Department::key().dept("Sales")).await?.ok_or("none").unwrap();
/// assert_eq!((sales.employees, sales.salaries), (3, 3500));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct OneToMany<P, C> {
    table: TableClient,
    parent: ParentOf<P, C>,
    counters: Vec<Counter<P, C>>,
}

impl<P, C> Clone for OneToMany<P, C> {
    fn clone(&self) -> Self {
        let (table, counters) = (self.table.clone(), self.counters.clone());
        Self { table, parent: Arc::clone(&self.parent), counters }
    }
}

impl<P, C> fmt::Debug for OneToMany<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneToMany").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

impl<P: Entity, C: Entity> OneToMany<P, C> {
    /// Parents and children in this table; `parent` names the parent of a child, which is in its
    /// partition.
    #[must_use]
    pub fn new(
        table: &TableClient,
        parent: impl Fn(&C) -> PointKey<P> + Send + Sync + 'static,
    ) -> Self {
        Self { table: table.clone(), parent: Arc::new(parent), counters: Vec::new() }
    }

    /// Keeps the number of children in the parent.
    #[must_use]
    pub fn count(self, slot: impl Fn(&mut P) -> &mut i64 + Send + Sync + 'static) -> Self {
        self.sum(slot, |_| 1)
    }

    /// Keeps a sum over the children in the parent.
    #[must_use]
    pub fn sum(
        mut self,
        slot: impl Fn(&mut P) -> &mut i64 + Send + Sync + 'static,
        amount: impl Fn(&C) -> i64 + Send + Sync + 'static,
    ) -> Self {
        self.counters.push(Counter { slot: Arc::new(slot), amount: Arc::new(amount) });
        self
    }

    /// What a child adds to each number of its parent.
    fn amounts(&self, child: &C) -> Vec<i64> {
        self.counters.iter().map(|counter| (counter.amount)(child)).collect()
    }

    /// The numbers of a parent.
    fn numbers(&self, parent: &mut P) -> Vec<i64> {
        self.counters.iter().map(|counter| *(counter.slot)(parent)).collect()
    }

    fn set_numbers(&self, parent: &mut P, numbers: &[i64]) {
        for (counter, number) in self.counters.iter().zip(numbers) {
            *(counter.slot)(parent) = *number;
        }
    }

    fn parent_of(&self, child: &C) -> Result<EntityKey, Error> {
        (self.parent)(child).into_key()
    }

    /// The parent's key, if it is in the child's partition.
    fn parent_beside(&self, child: &C) -> Result<EntityKey, Error> {
        let (parent, key) = (self.parent_of(child)?, child.entity_key()?);
        if parent.partition() == key.partition() {
            return Ok(parent);
        }
        let text = format!("the parent {parent} is not in the partition of its child {key}");
        Err(Error::invalid(Rule::Transaction, text))
    }
}
