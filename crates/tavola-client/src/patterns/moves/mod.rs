//! Entities that go from one table to another place.

mod file;
mod table;
mod target;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use file::FileTarget;
pub use table::TableTarget;
pub use target::{Copied, Target, Version};

use super::outbox::{Outbox, Progress, Step, StepError, Work};
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, TableClient};
use crate::crypt::ENVELOPE;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome};
use crate::key::{EntityKey, PointKey};
use crate::runtime::BoxFuture;
use crate::value::Value;
use crate::written::{IfMatch, Mode};

/// Which life of an entity it is: one that is deleted and created again has another one.
const INCARNATION: &str = "tv_inc";

/// Entities that go from a table to a [`Target`]: another partition, table or account, or a file. It
/// is a [`Step`] of the outbox of the source.
///
/// [`Move::start`] marks the entity with an id of this life (`tv_inc`) and adds the work, in one
/// transaction. A worker then copies it and deletes the original as it was copied.
///
/// **Guarantee.** The entity is never in neither place, and in the end in exactly one. A change that is
/// made while it moves is moved as well. An older copy never replaces a newer one. An entity that was
/// deleted and created again stays. There is no isolation: for a while it is in both places, and
/// [`Move::get`], which reads the source first, finds the one that counts.
///
/// **Cost** in requests: start 2 (and a hint); a worker 5, and 1 more if the target had a copy; get 1
/// or 2.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::{Located, Move, Outbox, TableTarget};
/// use tavola_client::{DynEntity, TableServiceClient};
///
/// let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// let (current, archive) = (service.table_client("current"), service.table_client("archive"));
/// current.create().await?;
/// archive.create().await?;
/// current.insert(&DynEntity::new("Sales", "000456")).await?;
///
/// let outbox = Outbox::new(&current);
/// let moves = Move::<DynEntity>::new(&outbox, "archive", TableTarget::new(&archive));
/// moves.start(("Sales", "000456")).await?;
/// outbox.worker().step(moves.clone()).drain().await?;
///
/// let found = moves.get(("Sales", "000456")).await?;
/// assert!(matches!(found, Some(Located::Target(_))));
/// # Ok(())
/// # }
/// ```
pub struct Move<E> {
    outbox: Outbox,
    name: Arc<str>,
    target: Arc<dyn Target>,
    of: PhantomData<fn() -> E>,
}

impl<E> Clone for Move<E> {
    fn clone(&self) -> Self {
        let (outbox, name) = (self.outbox.clone(), Arc::clone(&self.name));
        Self { outbox, name, target: Arc::clone(&self.target), of: PhantomData }
    }
}

impl<E> fmt::Debug for Move<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Move")
            .field("outbox", &self.outbox)
            .field("name", &self.name)
            .field("target", &self.target)
            .finish()
    }
}

/// Where an entity was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Located<E> {
    /// Still where it was; it can be changed there.
    Source(Stored<E>),
    /// Where it was moved to.
    Target(E),
}

impl<E> Deref for Located<E> {
    type Target = E;

    fn deref(&self) -> &E {
        match self {
            Self::Source(stored) => stored,
            Self::Target(entity) => entity,
        }
    }
}

/// What the outbox holds.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    /// The RowKey of the entity; its partition is that of the work.
    row: String,
    incarnation: String,
    /// Its key in the target, if it is another one.
    to: Option<(String, String)>,
}

impl<E: Entity> Move<E> {
    /// Moves from the table of the outbox to a target. The name is stored with the work: each kind of
    /// move has its own.
    pub fn new(outbox: &Outbox, name: impl Into<String>, target: impl Target) -> Self {
        let name = Arc::from(name.into());
        Self { outbox: outbox.clone(), name, target: Arc::new(target), of: PhantomData }
    }

    /// Starts to move an entity; it has the same key afterwards. To start twice does no harm.
    pub fn start(&self, key: impl Into<PointKey<E>>) -> Call<'_, ()> {
        let key = key.into().into_key();
        Call::new(self.source().engine().settings(), move |settings| async move {
            self.start_one(&key?, None, &settings).await
        })
    }

    /// Starts to move an entity to another key, for example into another partition.
    pub fn start_to(
        &self,
        key: impl Into<PointKey<E>>,
        to: impl Into<PointKey<E>>,
    ) -> Call<'_, ()> {
        let (key, to) = (key.into().into_key(), to.into().into_key());
        Call::new(self.source().engine().settings(), move |settings| async move {
            self.start_one(&key?, Some(to?), &settings).await
        })
    }

    /// Finds an entity: in the source, and if it is not there, in the target. In the other order one
    /// could miss it in both.
    pub fn get(&self, key: impl Into<PointKey<E>>) -> Call<'_, Option<Located<E>>> {
        let key = key.into().into_key();
        Call::new(self.source().engine().settings(), move |settings| async move {
            let key = key?;
            self.locate(&key, &key, &settings).await
        })
    }

    /// The same if it has another key in the target.
    pub fn get_either(
        &self,
        key: impl Into<PointKey<E>>,
        to: impl Into<PointKey<E>>,
    ) -> Call<'_, Option<Located<E>>> {
        let (key, to) = (key.into().into_key(), to.into().into_key());
        Call::new(self.source().engine().settings(), move |settings| async move {
            self.locate(&key?, &to?, &settings).await
        })
    }

    fn source(&self) -> &TableClient {
        self.outbox.table()
    }

    async fn locate(
        &self,
        key: &EntityKey,
        to: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<Located<E>>, Error> {
        let source = self.source().get::<E>(key).with_settings(settings.clone()).await?;
        if let Some(stored) = source {
            return Ok(Some(Located::Source(stored)));
        }
        let copied = self.target.get(to).await.map_err(|error| unreadable(to, error))?;
        copied.map(|copied| copied.entity.to().map(Located::Target)).transpose()
    }

    async fn start_one(
        &self,
        key: &EntityKey,
        to: Option<EntityKey>,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let source = self.source();
        for attempt in 0..ATTEMPTS_MAX {
            let found = source.get::<DynEntity>(key).with_settings(settings.clone()).await?;
            let found = found.ok_or_else(|| source.missing(key))?;
            let incarnation = found.get::<Option<String>>(INCARNATION)?;
            let incarnation =
                incarnation.unwrap_or_else(|| format!("{:016x}", source.engine().runtime.random()));
            let to = to.as_ref().map(|to| (to.partition().to_owned(), to.row().to_owned()));
            let job = Job { row: key.row().to_owned(), incarnation, to };
            let mut both = source.transaction(key.partition());
            // The row of the work has an id, by which a lost reply is decided.
            self.outbox.add(&mut both, &self.name, &job)?;
            let mut mark = DynEntity::new(key.partition(), key.row());
            mark.set(INCARNATION, job.incarnation);
            both.update(&mark, Mode::Merge, &IfMatch::Version(found.etag().clone()))?;
            match both.send(settings.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_changed() && error.outcome() == Outcome::NotApplied => {}
                Err(error) => return Err(error),
            }
            source.pause_after_conflict(attempt).await;
        }
        Err(source.contended(key))
    }

    /// Copies, then deletes what was copied; begins anew if it was changed in between.
    async fn carry_out(&self, partition: &str, job: Job) -> Result<Progress, StepError> {
        let source = self.source();
        let key = EntityKey::new(partition, job.row)?;
        let to = match job.to {
            Some((partition, row)) => EntityKey::new(partition, row)?,
            None => key.clone(),
        };
        for attempt in 0..ATTEMPTS_MAX {
            let Some(found) = source.get::<DynEntity>(&key).await? else {
                return Ok(match self.target.get(&to).await? {
                    Some(_) => Progress::Done,
                    None => Progress::Skipped(format!("{key} is in neither place")),
                });
            };
            let incarnation = found.get::<Option<String>>(INCARNATION)?;
            if incarnation.as_deref() != Some(job.incarnation.as_str()) {
                return Ok(Progress::Skipped(format!("{key} was created again")));
            }
            let is_sealed = matches!(found.value(ENVELOPE), Some(Value::Binary(_)));
            if is_sealed && to != key {
                let text = format!(
                    "{key} is encrypted for its key and cannot have another one; give the worker \
                     the keys of the encryption"
                );
                return Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text).into());
            }
            let version = Version::of::<E>(&found, &job.incarnation)?;
            let copied = Copied::new(&to, &found, version);
            let held = self.target.put(&copied).await?;
            if held != copied.version {
                // What was read is old by now; or else only a person can say which one counts.
                let again = source.get::<DynEntity>(&key).await?;
                if again.is_some_and(|again| again.etag() == found.etag()) {
                    let text = format!("the target has a newer entity at {to} than the source");
                    return Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text).into());
                }
                continue;
            }
            match source.delete(&found).await {
                Ok(_) => return Ok(Progress::Done),
                // It was changed, or another worker did it, or nobody knows: look again.
                Err(error) if matches!(error.status(), Some(404 | 412)) => {}
                Err(error) if error.outcome() == Outcome::Unknown => {}
                Err(error) => return Err(error.into()),
            }
            source.pause_after_conflict(attempt).await;
        }
        Err(source.contended(&key).into())
    }
}

impl<E: Entity> Step for Move<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, work: Work) -> BoxFuture<'_, Result<Progress, StepError>> {
        Box::pin(async move { self.carry_out(work.partition(), work.job()?).await })
    }
}

fn unreadable(key: &EntityKey, error: StepError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => {
            let text = format!("the target of a move cannot be read at {key}: {error}");
            Error::new(ErrorKind::Pattern, Outcome::NotApplied, text).with_source(error)
        }
    }
}
