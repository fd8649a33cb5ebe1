//! More copies than one transaction can write: in chunks, by the outbox.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{COPIES_MAX, Copies, Sourced};
use crate::call::Call;
use crate::client::ATTEMPTS_MAX;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::Error;
use crate::key::{EntityKey, PointKey};
use crate::patterns::outbox::{Outbox, Progress, Step, Work, step};
use crate::patterns::stamped::{Stamped, refused_at};

/// Copies of sources that may have more than 99 of them.
///
/// **Guarantee.** Not atomic: a change writes the source, and in the same transaction a row in the
/// outbox; a worker ([`ChunkedCopies::step`]) then brings the copies in line, 99 at a time, each
/// chunk guarded by the source. So a copy never says what its source does not say at the moment of
/// the write, one that is stopped goes on where it was, and once the outbox is empty all copies say
/// what the source says. Until then some are older.
///
/// **Cost** in requests: a change 2, and 1 more in each minute and partition; the worker 1 for the
/// source, 1 for each 1,000 copies and 1 for each 99 that change.
///
/// Insert and repoint copies with [`Copies::insert`] and [`Copies::repoint`].
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::{Copies, Outbox};
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "dept")]
/// struct Department {
///     dept: String,
///     city: String,
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
///     city: String,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// let cities = Copies::<Department, Employee>::new(
///     &table,
///     |one| Some(Department::key().dept(&one.dept)),
///     |source, one| one.city = source.city.clone(),
/// );
/// table.insert(&Department { dept: "Sales".into(), city: "Rome".into() }).await?;
/// for id in 1..=120 {
///     cities.insert(&mut Employee { dept: "Sales".into(), id, city: String::new() }).await?;
/// }
/// let outbox = Outbox::new(&table);
/// let chunked = cities.chunked(&outbox, "cities");
/// let key = Department::key().dept("Sales");
/// chunked.modify_source(key, |sales| sales.city = "Oslo".into()).await?;
/// // Elsewhere, later.
/// outbox.worker().step(chunked.step()).drain().await?;
/// assert!(cities.verify("Sales").await?.is_clean());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct ChunkedCopies<S, D> {
    copies: Copies<S, D>,
    outbox: Outbox,
    name: String,
}

#[derive(Serialize, Deserialize)]
struct Job {
    row: String,
}

impl<S, D> Clone for ChunkedCopies<S, D> {
    fn clone(&self) -> Self {
        let (outbox, name) = (self.outbox.clone(), self.name.clone());
        Self { copies: self.copies.clone(), outbox, name }
    }
}

impl<S, D> fmt::Debug for ChunkedCopies<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkedCopies").field("step", &self.name).finish_non_exhaustive()
    }
}

impl<S: Entity, D: Entity> Copies<S, D> {
    /// The same copies, brought in line by the worker of an outbox of the same table. `name` names
    /// its step.
    #[must_use]
    pub fn chunked(&self, outbox: &Outbox, name: impl Into<String>) -> ChunkedCopies<S, D> {
        ChunkedCopies { copies: self.clone(), outbox: outbox.clone(), name: name.into() }
    }
}

impl<S: Entity, D: Entity> ChunkedCopies<S, D> {
    /// Reads a source, lets `change` change it, and writes it with the work that is left; begins
    /// anew if somebody else was faster, ten times at most.
    pub fn modify_source<'a>(
        &'a self,
        key: impl Into<PointKey<S>>,
        mut change: impl FnMut(&mut S) + Send + 'a,
    ) -> Call<'a, Stored<S>> {
        let key = key.into().into_key();
        let table = &self.copies.table;
        Call::new(table.engine().settings(), move |settings| async move {
            let key = key?;
            for attempt in 0..ATTEMPTS_MAX {
                let get = table.get::<S>(&key).with_settings(settings.clone());
                let mut source = get.await?.ok_or_else(|| table.missing(&key))?;
                change(&mut source);
                let new = Stamped::replace(&source, table.engine().runtime.random())?;
                let mut all = table.transaction(key.partition());
                new.add_to(&mut all)?;
                let job = Job { row: key.row().to_owned() };
                self.outbox.add(&mut all, &self.name, &job)?;
                match all.send(settings.clone()).await {
                    Ok(written) => {
                        written.first().into_iter().for_each(|one| new.accept(&mut source, one));
                        return Ok(source);
                    }
                    Err(error) if refused_at(&error) == Some(0) => {}
                    Err(error) => return Err(error),
                }
                table.pause_after_conflict(attempt).await;
            }
            Err(table.contended(&key))
        })
    }

    /// What a worker of the outbox does to bring the copies in line.
    pub fn step(&self) -> impl Step + use<S, D> {
        let chunked = self.clone();
        step(self.name.clone(), move |work: Work| {
            let chunked = chunked.clone();
            async move {
                let key = EntityKey::new(work.partition(), work.job::<Job>()?.row)?;
                let settings = chunked.copies.table.engine().settings();
                Ok(chunked.refresh(&key, &settings).await?)
            }
        })
    }

    async fn refresh(&self, key: &EntityKey, settings: &CallSettings) -> Result<Progress, Error> {
        let table = &self.copies.table;
        for attempt in 0..ATTEMPTS_MAX {
            let Some(mut sourced) = self.copies.read_source(key, settings).await? else {
                return Ok(Progress::Skipped(format!("the source {key} is gone")));
            };
            let mut stale = Vec::new();
            for mut copy in std::mem::take(&mut sourced.copies) {
                let before = DynEntity::from_entity(&*copy)?;
                (self.copies.copy)(&sourced.source, &mut copy);
                if DynEntity::from_entity(&*copy)? != before {
                    stale.push(copy);
                }
            }
            if self.write(&mut sourced, &stale, settings).await? {
                return Ok(Progress::Done);
            }
            table.pause_after_conflict(attempt).await;
        }
        Err(table.contended(key))
    }

    /// Writes copies in chunks; false if a row was not as it was read. What is written stays so.
    async fn write(
        &self,
        sourced: &mut Sourced<S, D>,
        stale: &[Stored<D>],
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let table = &self.copies.table;
        for chunk in stale.chunks(COPIES_MAX) {
            let mut all = table.transaction(sourced.source.key().partition());
            all.guard(&sourced.source)?;
            let random = table.engine().runtime.random();
            for copy in chunk {
                Stamped::replace(copy, random)?.add_to(&mut all)?;
            }
            let written = match all.send(settings.clone()).await {
                Ok(written) => written,
                Err(error) if refused_at(&error).is_some() => return Ok(false),
                Err(error) => return Err(error),
            };
            // The guard gave the source a new version, under which the next chunk is written.
            let version = written.first().map(|one| (one.etag.clone(), one.timestamp));
            let Some((Some(etag), Some(timestamp))) = version else { return Ok(false) };
            sourced.source.set_version(etag, timestamp);
        }
        Ok(true)
    }
}
