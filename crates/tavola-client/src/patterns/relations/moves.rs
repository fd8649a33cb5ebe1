//! Children that go to a parent in another partition.

use std::fmt;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use super::OneToMany;
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, Transaction};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::filter::prop;
use crate::key::{EntityKey, after_text};
use crate::patterns::drift::applied;
use crate::patterns::housekeeping::{count_of, whole};
use crate::patterns::outbox::{Outbox, Progress, Step, StepError, Work, step};
use crate::patterns::stamped::{Stamped, refused_at};
use crate::prepare::WRITE_ID;
use crate::value::Value;
use crate::written::IfMatch;

/// The rows that say which moves have arrived: `!mv!{id}`.
const MARKERS: &str = "!mv!";
/// Where the child comes from.
const FROM: (&str, &str) = ("partition", "row");
/// What a row beside a child that arrived says of the child's old version.
const SOURCE: &str = "source";
/// And of the child as it arrived.
const COPY: &str = "copy";

/// Gives a child the key that it has at another parent.
type Relocate<C> = Arc<dyn Fn(&mut C, &str) + Send + Sync>;

/// Moves children between partitions, with the numbers of both parents.
///
/// **Guarantee.** A move is a row in the outbox, written with a guard on the child; a worker
/// ([`Moves::step`]) inserts the child at its new place, with the numbers of its new parent, in one
/// transaction, and then deletes it at its old one, with the numbers of its old parent and the row
/// of the outbox, in another. So the child is never in neither place, the numbers of each parent
/// are exact at every moment, and in the end it is in one place. Read the old place first, then the
/// new one: in between it is in both. A change at the old place while it moves is taken along; one
/// at both places parks the work. A child that was deleted and inserted again is not moved.
///
/// **Cost** in requests: `move_to` 1, and 1 more in each minute and partition; the worker 7.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::{OneToMany, Outbox};
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "dept")]
/// struct Department {
///     dept: String,
///     employees: i64,
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// let parent = |one: &Employee| Department::key().dept(&one.dept);
/// let staff = OneToMany::new(&table, parent).count(|dept: &mut Department| &mut dept.employees);
/// for dept in ["Sales", "Support"] {
///     table.insert(&Department { dept: dept.into(), employees: 0 }).await?;
/// }
/// staff.insert(&Employee { dept: "Sales".into(), id: 104 }).await?;
///
/// let outbox = Outbox::new(&table);
/// let moves = staff.moving(&outbox, "move", |one, to| one.dept = to.to_owned());
/// let one = table.get(Employee::key().dept("Sales").id(104)).await?.ok_or("none").unwrap();
/// moves.move_to(&one, "Support").await?;
/// // Elsewhere, later.
/// outbox.worker().step(moves.step()).drain().await?;
/// let support = table.get(Department::key().dept("Support")).await?.ok_or("none").unwrap();
/// assert_eq!(support.employees, 1);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct Moves<P, C> {
    family: OneToMany<P, C>,
    outbox: Outbox,
    name: String,
    relocate: Relocate<C>,
}

#[derive(Serialize, Deserialize)]
struct Job {
    /// Names the move at its new place, whichever row of the outbox it has.
    id: String,
    row: String,
    to: String,
    /// The id of the write that the move was ordered for.
    version: Option<String>,
}

impl<P, C> Clone for Moves<P, C> {
    fn clone(&self) -> Self {
        Self {
            family: self.family.clone(),
            outbox: self.outbox.clone(),
            name: self.name.clone(),
            relocate: Arc::clone(&self.relocate),
        }
    }
}

impl<P, C> fmt::Debug for Moves<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moves").field("step", &self.name).finish_non_exhaustive()
    }
}

impl<P: Entity, C: Entity> OneToMany<P, C> {
    /// Moves of children, done by the worker of an outbox of the same table. `name` names its step;
    /// `relocate` gives a child the key that it has at the parent `to`.
    #[must_use]
    pub fn moving(
        &self,
        outbox: &Outbox,
        name: impl Into<String>,
        relocate: impl Fn(&mut C, &str) + Send + Sync + 'static,
    ) -> Moves<P, C> {
        let (family, outbox) = (self.clone(), outbox.clone());
        Moves { family, outbox, name: name.into(), relocate: Arc::new(relocate) }
    }
}

impl<P: Entity, C: Entity> Moves<P, C> {
    /// Orders the move of a child, if nobody changed it since it was read. It is done later.
    pub fn move_to<'a>(&'a self, child: &'a Stored<C>, to: impl Into<String>) -> Call<'a, ()> {
        let (table, to) = (&self.family.table, to.into());
        Call::new(table.engine().settings(), move |settings| async move {
            let moved = self.moved(child, &to)?;
            if moved.partition() == child.key().partition() {
                let text = "the child stays in its partition; modify it";
                return Err(Error::invalid(Rule::Request, text));
            }
            let mut all = table.transaction(child.key().partition());
            all.guard(child)?;
            let version = id_of(&whole(&**child, child.rest())?);
            let id = format!("{:016x}", table.engine().runtime.random());
            let job = Job { id, row: child.key().row().to_owned(), to, version };
            self.outbox.add(&mut all, &self.name, &job)?;
            all.send(settings).await.map(drop)
        })
    }

    /// What a worker of the outbox does to move children.
    pub fn step(&self) -> impl Step + use<P, C> {
        let moves = self.clone();
        step(self.name.clone(), move |work: Work| {
            let moves = moves.clone();
            async move { moves.run(&work).await }
        })
    }

    /// Deletes what moves left behind in a partition when a worker stopped at its last request, and
    /// says how many rows that were.
    pub fn sweep(&self, partition: impl Into<String>) -> Call<'_, usize> {
        let (table, partition) = (&self.family.table, partition.into());
        Call::new(table.engine().settings(), move |settings| async move {
            let end = after_text(MARKERS).unwrap_or_default();
            let range = prop("RowKey").ge(MARKERS).and(prop("RowKey").lt(end.as_str()));
            let rows = prop("PartitionKey").eq(partition.as_str()).and(range);
            let rows = table.filter::<DynEntity>(rows).with_settings(settings.clone());
            let (mut rows, mut swept) = (rows.stream(), 0);
            while let Some(row) = rows.try_next().await? {
                let from = EntityKey::new(row.get::<String>(FROM.0)?, row.get::<String>(FROM.1)?)?;
                let get = table.get::<DynEntity>(&from).with_settings(settings.clone());
                // Without the child at its old place no worker looks at the row again.
                if get.await?.is_none() {
                    let delete = table.delete(&row).with_settings(settings.clone());
                    swept += usize::from(applied(delete.await)?);
                }
            }
            Ok(swept)
        })
    }

    /// The child as it is at its new place.
    fn moved(&self, child: &Stored<C>, to: &str) -> Result<DynEntity, Error> {
        let mut moved: C = DynEntity::from_entity(&**child)?.to()?;
        (self.relocate)(&mut moved, to);
        whole(&moved, child.rest())
    }

    async fn run(&self, work: &Work) -> Result<Progress, StepError> {
        let (table, job) = (&self.family.table, work.job::<Job>()?);
        let settings = table.engine().settings();
        let key = EntityKey::new(work.partition(), job.row.as_str())?;
        for attempt in 0..ATTEMPTS_MAX {
            let get = table.get::<C>(&key).with_settings(settings.clone());
            let Some(child) = get.await? else {
                return Ok(Progress::Skipped(format!("{key} is gone")));
            };
            if !is_same(job.version.as_deref(), id_of(&whole(&*child, child.rest())?).as_deref()) {
                return Ok(Progress::Skipped(format!("{key} was deleted and inserted again")));
            }
            let moved = self.moved(&child, &job.to)?;
            let marker = EntityKey::new(moved.partition(), format!("{MARKERS}{}", job.id))?;
            if self.arrive(&child, &moved, &marker, &settings).await?
                && self.leave(&child, work, &settings).await?
            {
                // Nobody needs it any more: the work is gone.
                table.delete_if_exists::<DynEntity>(&marker).with_settings(settings).await?;
                return Ok(Progress::Done);
            }
            table.pause_after_conflict(attempt).await;
        }
        Err(table.contended(&key).into())
    }

    /// Inserts the child at its new place, or takes along what changed at the old one. False if a
    /// row was not as it was read.
    async fn arrive(
        &self,
        child: &Stored<C>,
        moved: &DynEntity,
        marker: &EntityKey,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let (table, random) = (&self.family.table, self.family.table.engine().runtime.random());
        let get = table.get::<DynEntity>(marker).with_settings(settings.clone());
        let Some(mut arrived) = get.await? else {
            let typed: C = moved.to()?;
            let new = Stamped::insert(moved, random)?;
            let mut all = table.transaction(moved.partition());
            let mut row = DynEntity::new(marker.partition(), marker.row());
            row.set(FROM.0, child.key().partition());
            row.set(FROM.1, child.key().row());
            row.set(SOURCE, child.etag().as_str());
            row.set(COPY, new.id());
            all.insert(&row)?;
            new.add_to(&mut all)?;
            let more = self.family.amounts(&typed);
            return self.send(all, &typed, &more, settings).await;
        };
        if arrived.get::<String>(SOURCE)? == child.etag().as_str() {
            return Ok(true);
        }
        let key = moved.entity_key()?;
        let get = table.get::<DynEntity>(&key).with_settings(settings.clone());
        // It arrived and was deleted there: that is what holds.
        let Some(mut there) = get.await? else { return Ok(true) };
        if id_of(&there) != Some(arrived.get::<String>(COPY)?) {
            let text = format!("{} was changed at both places while it moved", child.key());
            return Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text));
        }
        let (before, after): (C, C) = (there.to()?, moved.to()?);
        let version = there.value(WRITE_ID).cloned();
        *there = moved.clone();
        version.into_iter().for_each(|id| drop(there.set(WRITE_ID, id)));
        let new = Stamped::replace(&there, random)?;
        arrived.set(SOURCE, child.etag().as_str());
        arrived.set(COPY, new.id());
        let mut all = table.transaction(moved.partition());
        all.replace(&arrived)?;
        new.add_to(&mut all)?;
        let (before, after_sums) = (self.family.amounts(&before), self.family.amounts(&after));
        let more: Vec<i64> = after_sums.iter().zip(&before).map(|(new, old)| new - old).collect();
        self.send(all, &after, &more, settings).await
    }

    /// Deletes the child at its old place, with the work itself, so that nobody does it again.
    /// False if a row was not as it was read.
    async fn leave(
        &self,
        child: &Stored<C>,
        work: &Work,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let mut all = self.family.table.transaction(child.key().partition());
        all.delete(child)?;
        all.delete_at::<DynEntity>(work.id(), &IfMatch::Any)?;
        let less: Vec<i64> = self.family.amounts(child).iter().map(|amount| -amount).collect();
        self.send(all, child, &less, settings).await
    }

    /// Sends two operations with what they add to the numbers of the parent.
    async fn send(
        &self,
        mut all: Transaction<'_>,
        child: &C,
        more: &[i64],
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let parent = self.family.parent_beside(child)?;
        self.family.add_numbers(&mut all, &parent, more, settings).await?;
        match all.send(settings.clone()).await {
            Ok(_) => Ok(true),
            // Another entity has the key at the new place.
            Err(error) if refused_at(&error) == Some(1) && error.is_conflict() => Err(error),
            Err(error) if refused_at(&error).is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn id_of(row: &DynEntity) -> Option<String> {
    match row.value(WRITE_ID) {
        Some(Value::String(id)) => Some(id.clone()),
        _ => None,
    }
}

/// True unless the ids say that the entity was deleted and inserted again: a new one counts its
/// writes from 1.
fn is_same(ordered: Option<&str>, found: Option<&str>) -> bool {
    match (ordered, found) {
        (Some(ordered), Some(found)) => ordered == found || count_of(found) > count_of(ordered),
        _ => true,
    }
}
