//! Entities under other keys, while programs go on writing and reading them.

mod step;
mod sync;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use step::RekeyStep;

use crate::call::Call;
use crate::client::TableClient;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome};
use crate::key::{EntityKey, PointKey};
use crate::written::Mode;

/// How long a client goes by the phase that it read.
const LEASE: Duration = Duration::from_secs(5);
const PHASE: &str = "phase";

/// Moves entities of type `A` to the keys of type `B`, in the same table or another one, while
/// programs write and read them through it.
///
/// The phase is in a row of the new table. [`Rekey::step`] goes to the next one, a lease (5 s)
/// after the one before was reached, so that every client has heard of that:
///
/// | phase | writes go to | reads come from | the step to the next one |
/// | --- | --- | --- | --- |
/// | `Old` | `A` | `A` | |
/// | `DualWrite` | `A`, then `B` | `A` | |
/// | `Backfill` | `A`, then `B` | `A` | inserts what `B` has not |
/// | `Verify` | `A`, then `B` | `A` | compares all, and mends `B` |
/// | `Switched` | `A`, then `B` | `B` | |
/// | `Done` | `B` | `B` | |
///
/// **Guarantee.** What a write acknowledged is read by every read that begins later, in all phases,
/// and a deleted entity stays deleted, whatever is cut and however many write and step. A row of
/// `B` has the time of the row of `A` that it was made of (`tv_ver`), and an older one never
/// replaces a newer one; a write ends when it has seen that both agree. A write whose client dies
/// midway may be read before the switch and not after it.
///
/// **Cost** in requests: upsert and delete 1 in `Old` and `Done`, 4 between; get 1; one more for
/// the first call in 2.5 s. A step reads all rows of `A` in `Backfill` (and inserts each) and all
/// of both in `Verify` (and reads each of the other).
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use std::time::Duration;
/// use tavola_client::patterns::{Rekey, RekeyPhase};
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "{id:04}")]
/// struct Old {
///     dept: String,
///     id: u32,
///     name: String,
/// }
///
/// // More digits, and by id.
/// #[derive(Entity)]
/// #[entity(partition = "{id:08}", row = "employee")]
/// struct New {
///     id: u32,
///     dept: String,
///     name: String,
/// }
///
/// impl From<&Old> for New {
///     fn from(old: &Old) -> Self {
///         Self { id: old.id, dept: old.dept.clone(), name: old.name.clone() }
///     }
/// }
///
/// let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// let (old, new) = (service.table_client("staff"), service.table_client("staff2"));
/// old.create().await?;
/// new.create().await?;
/// // A short lease is for this example only.
/// let staff = Rekey::<Old, New>::new(&old, &new, "staff").lease(Duration::from_millis(10));
/// staff.upsert(&Old { dept: "Sales".into(), id: 7, name: "Ann".into() }).await?;
/// while staff.step().await?.phase != RekeyPhase::Done {}
/// let ann = staff.get(Old::key().dept("Sales").id(7), New::key().id(7)).await?;
/// assert_eq!(ann.map(|ann| ann.name).as_deref(), Some("Ann"));
/// assert!(new.get::<New>(New::key().id(7)).await?.is_some());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct Rekey<A, B> {
    old: TableClient,
    new: TableClient,
    name: String,
    lease: Duration,
    /// The phase, and when it was asked for.
    known: Arc<Mutex<Option<(Duration, RekeyPhase)>>>,
    of: PhantomData<fn() -> (A, B)>,
}

impl<A, B> Clone for Rekey<A, B> {
    fn clone(&self) -> Self {
        Self {
            old: self.old.clone(),
            new: self.new.clone(),
            name: self.name.clone(),
            lease: self.lease,
            known: Arc::clone(&self.known),
            of: PhantomData,
        }
    }
}

impl<A, B> fmt::Debug for Rekey<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rekey")
            .field("name", &self.name)
            .field("old", &self.old.name())
            .field("new", &self.new.name())
            .finish_non_exhaustive()
    }
}

/// Where a re-keying stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RekeyPhase {
    /// It has not begun.
    Old,
    /// Both keys are written.
    DualWrite,
    /// What was there before is copied.
    Backfill,
    /// Both are compared.
    Verify,
    /// The new keys are read, both are written.
    Switched,
    /// The old keys are no longer used; their rows can be deleted.
    Done,
}

impl RekeyPhase {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Old, "old"),
        (Self::DualWrite, "dual write"),
        (Self::Backfill, "backfill"),
        (Self::Verify, "verify"),
        (Self::Switched, "switched"),
        (Self::Done, "done"),
    ];

    fn text(self) -> &'static str {
        Self::ALL.iter().find(|(phase, _)| *phase == self).map_or("", |(_, text)| text)
    }

    fn next(self) -> Self {
        let later = Self::ALL.iter().map(|(phase, _)| *phase).find(|phase| *phase > self);
        later.unwrap_or(Self::Done)
    }

    fn writes_both(self) -> bool {
        !matches!(self, Self::Old | Self::Done)
    }

    fn reads_new(self) -> bool {
        matches!(self, Self::Switched | Self::Done)
    }
}

/// A phase that may be gone by until a moment.
#[derive(Debug, Clone, Copy)]
struct Held {
    phase: RekeyPhase,
    until: Duration,
}

impl<A, B> Rekey<A, B>
where
    A: Entity,
    B: Entity + for<'a> From<&'a A>,
{
    /// The re-keying of this name from one table to another, or within one. Both must be there.
    #[must_use]
    pub fn new(old: &TableClient, new: &TableClient, name: impl Into<String>) -> Self {
        Self {
            old: old.clone(),
            new: new.clone(),
            name: name.into(),
            lease: LEASE,
            known: Arc::default(),
            of: PhantomData,
        }
    }

    /// How long a client goes by the phase that it read: all clients must have the same. No request
    /// may be under way for longer.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// The phase now.
    pub fn phase(&self) -> Call<'_, RekeyPhase> {
        Call::new(self.old.engine().settings(), move |settings: CallSettings| async move {
            self.read_control(&settings).await.map(|(phase, _)| phase)
        })
    }

    /// Writes an entity whether or not there is one with its key.
    pub fn upsert<'a>(&'a self, entity: &'a A) -> Call<'a, ()> {
        Call::new(self.old.engine().settings(), move |settings: CallSettings| async move {
            let held = self.hold(&settings).await?;
            let settings = self.within(held, &settings)?;
            if held.phase == RekeyPhase::Done {
                let new = B::from(entity);
                let write = self.new.upsert(&new, Mode::Replace);
                return write.with_settings(settings).await.map(drop);
            }
            let write = self.old.upsert(entity, Mode::Replace).with_settings(settings.clone());
            let written = write.await?;
            if !held.phase.writes_both() {
                return Ok(());
            }
            let key = entity.entity_key()?;
            // Without a reply the row itself says in which version it is.
            let image = match written.timestamp {
                Some(at) => Some(self.image(entity, &key, at)?),
                None => self.read_image(&key, &settings).await?,
            };
            let new = B::from(entity).entity_key()?;
            self.settle(&key, &new, image, held, &settings).await
        })
    }

    /// Deletes an entity if there is one.
    pub fn delete<'a>(&'a self, entity: &'a A) -> Call<'a, ()> {
        Call::new(self.old.engine().settings(), move |settings: CallSettings| async move {
            let held = self.hold(&settings).await?;
            let settings = self.within(held, &settings)?;
            let (old, new) = (entity.entity_key()?, B::from(entity).entity_key()?);
            if held.phase != RekeyPhase::Done {
                let delete = self.old.delete_if_exists::<A>(&old);
                delete.with_settings(settings.clone()).await?;
            }
            if held.phase != RekeyPhase::Old {
                let delete = self.new.delete_if_exists::<B>(&new);
                delete.with_settings(settings.clone()).await?;
            }
            match held.phase.writes_both() {
                true => self.settle(&old, &new, None, held, &settings).await,
                false => Ok(()),
            }
        })
    }

    /// One entity, by its old key or its new one, whichever the phase says.
    pub fn get(
        &self,
        old: impl Into<PointKey<A>>,
        new: impl Into<PointKey<B>>,
    ) -> Call<'_, Option<B>> {
        let (old, new) = (old.into(), new.into());
        Call::new(self.old.engine().settings(), move |settings: CallSettings| async move {
            let held = self.hold(&settings).await?;
            let settings = self.within(held, &settings)?;
            if held.phase.reads_new() {
                let found = self.new.get::<B>(new).with_settings(settings).await?;
                return Ok(found.map(Stored::into_inner));
            }
            let found = self.old.get::<A>(old).with_settings(settings).await?;
            Ok(found.map(|found| B::from(&*found)))
        })
    }

    fn control_key(&self) -> Result<EntityKey, Error> {
        EntityKey::new(format!("!rekey!{}", self.name), "!phase")
    }

    async fn read_control(
        &self,
        settings: &CallSettings,
    ) -> Result<(RekeyPhase, Option<Stored<DynEntity>>), Error> {
        let key = self.control_key()?;
        let row = self.new.get::<DynEntity>(&key).with_settings(settings.clone()).await?;
        let Some(row) = row else { return Ok((RekeyPhase::Old, None)) };
        let text = row.get::<String>(PHASE)?;
        match RekeyPhase::ALL.iter().find(|(_, known)| *known == text) {
            Some((phase, _)) => Ok((*phase, Some(row))),
            None => {
                let text = format!("the row {key} is not as this library writes it");
                Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text))
            }
        }
    }

    /// The phase, read again when it is as old as half a lease; the other half is for the requests.
    async fn hold(&self, settings: &CallSettings) -> Result<Held, Error> {
        let now = self.old.engine().runtime.now();
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, phase)) = known
            && now.saturating_sub(since) < self.lease / 2
        {
            return Ok(Held { phase, until: since + self.lease });
        }
        let (phase, _) = self.read_control(settings).await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, phase));
        Ok(Held { phase, until: now + self.lease })
    }

    /// Settings under which no request outlives the phase.
    fn within(&self, held: Held, settings: &CallSettings) -> Result<CallSettings, Error> {
        let left = held.until.saturating_sub(self.old.engine().runtime.now());
        if left.is_zero() {
            let text = "the lease of the phase ended before the write did; repeat it";
            return Err(Error::new(ErrorKind::Deadline, Outcome::Unknown, text));
        }
        let deadline = settings.deadline.map_or(left, |deadline| deadline.min(left));
        Ok(CallSettings { deadline: Some(deadline), ..settings.clone() })
    }
}
