//! A series of values in one row.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Add;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, TableClient};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Stored};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::key::{EntityKey, PointKey};
use crate::value::{PropertyType, Value};
use crate::written::{IfMatch, Mode, Written};

/// Who added last, and which of its additions: `writer.number.minute`, joined by commas.
const SEQUENCES: &str = "tv_seq";
/// An entity has 252 properties, and one is for the sequence numbers.
const SLOTS_MAX: usize = 251;
const WRITERS_MAX: usize = 64;
/// An addition that is still repeated is younger than this.
const KEPT_MINUTES: u64 = 60;

/// Up to 251 values in one row, for example the 24 hours of a day: one request writes one, one reads
/// all.
///
/// **Guarantee.** A write of one slot leaves the others as they are, and two writers of different
/// slots never wait for each other. An addition is counted once, also if its reply is lost: the row
/// keeps the number of each writer's last addition for an hour. An absent slot is not zero.
///
/// **Cost** in requests: set 1, read 1, add 2.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::TableServiceClient;
/// use tavola_client::patterns::Series;
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("counts");
/// table.create().await?;
/// let hours = Series::<i64, 24>::new(&table, "H");
/// let day = || ("000123", "20140822");
/// hours.set(day(), 9, 5).await?;
/// hours.add(day(), 9, 2).await?;
/// let values = hours.read(day()).await?;
/// assert_eq!(values.map(|hours| (hours[9], hours[10])), Some((Some(7), None)));
/// # Ok(())
/// # }
/// ```
pub struct Series<V, const N: usize> {
    table: TableClient,
    prefix: &'static str,
    /// Writers that add nothing now: id, and the number of the last addition.
    idle: Arc<Mutex<Vec<(u64, u64)>>>,
    of: PhantomData<fn() -> V>,
}

impl<V, const N: usize> Clone for Series<V, N> {
    fn clone(&self) -> Self {
        let (table, idle) = (self.table.clone(), Arc::clone(&self.idle));
        Self { table, prefix: self.prefix, idle, of: PhantomData }
    }
}

impl<V, const N: usize> fmt::Debug for Series<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

impl<V, const N: usize> Series<V, N>
where
    V: PropertyType + Into<Value> + Copy + Send + Sync + 'static,
{
    /// Series in this table, with properties of this prefix: `H` and 24 slots are `H00` to `H23`.
    #[must_use]
    pub fn new(table: &TableClient, prefix: &'static str) -> Self {
        const { assert!(N >= 1 && N <= SLOTS_MAX, "a series has 1 to 251 slots") };
        Self { table: table.clone(), prefix, idle: Arc::default(), of: PhantomData }
    }

    /// Sets one slot, whether or not there is a row.
    pub fn set(
        &self,
        key: impl Into<PointKey<DynEntity>>,
        slot: usize,
        value: V,
    ) -> Call<'_, Written> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            let key = key?;
            let mut row = DynEntity::new(key.partition(), key.row());
            row.set(self.name(slot)?, value);
            self.table.upsert(&row, Mode::Merge).with_settings(settings).await
        })
    }

    /// All slots; `None` if there is no row.
    pub fn read(&self, key: impl Into<PointKey<DynEntity>>) -> Call<'_, Option<[Option<V>; N]>> {
        let key = key.into();
        Call::new(self.table.engine().settings(), move |settings| async move {
            let Some(row) = self.table.get(key).with_settings(settings).await? else {
                return Ok(None);
            };
            let mut slots = [None; N];
            for (slot, value) in slots.iter_mut().enumerate() {
                let name = self.name(slot)?;
                if row.value(&name).is_some() {
                    *value = Some(row.get::<V>(&name)?);
                }
            }
            Ok(Some(slots))
        })
    }

    fn name(&self, slot: usize) -> Result<String, Error> {
        let width = (N - 1).to_string().len();
        if slot < N {
            return Ok(format!("{}{slot:0width$}", self.prefix));
        }
        let text = format!("there is no slot {slot}; the series has {N}, from 0 on");
        Err(Error::beyond(Rule::Request, N - 1, slot, text))
    }
}

impl<V, const N: usize> Series<V, N>
where
    V: PropertyType + Into<Value> + Copy + Add<Output = V> + Send + Sync + 'static,
{
    /// Adds to one slot, an absent one being nothing yet. It is counted once, whatever is lost.
    pub fn add(&self, key: impl Into<PointKey<DynEntity>>, slot: usize, more: V) -> Call<'_, ()> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            let (key, name) = (key?, self.name(slot)?);
            let (writer, last) =
                self.idle().pop().unwrap_or_else(|| (self.table.engine().runtime.random(), 0));
            let added = self.add_once(&key, &name, more, (writer, last + 1), &settings).await;
            // One whose outcome is unknown must not be mistaken for the next.
            if added.is_ok() {
                self.idle().push((writer, last + 1));
            }
            added
        })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(u64, u64)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn add_once(
        &self,
        key: &EntityKey,
        name: &str,
        more: V,
        sequence: (u64, u64),
        settings: &CallSettings,
    ) -> Result<(), Error> {
        // Once a reply was lost, only the row can say that the addition was not applied.
        let mut lost: Option<Error> = None;
        for attempt in 0..ATTEMPTS_MAX {
            let read = self.table.get::<DynEntity>(key).with_settings(settings.clone()).await;
            let stored = match read {
                Ok(stored) => stored,
                Err(error) => return Err(lost.unwrap_or(error)),
            };
            let mut sequences = Sequences::of(stored.as_ref())?;
            if sequences.has(sequence) {
                return Ok(());
            }
            sequences.note(sequence, self.minute())?;
            let mut row = DynEntity::new(key.partition(), key.row());
            row.set(SEQUENCES, sequences.to_string());
            let old = stored.as_ref().filter(|stored| stored.value(name).is_some());
            let old = old.map(|stored| stored.get::<V>(name)).transpose()?;
            row.set(name, old.map_or(more, |old| old + more));
            let write = match &stored {
                Some(stored) => {
                    let if_match = IfMatch::Version(stored.etag().clone());
                    self.table.update(&row, Mode::Merge, if_match)
                }
                None => self.table.insert(&row),
            };
            match write.with_settings(settings.clone()).await {
                Ok(_) => return Ok(()),
                // What the row says next decides; a late one has an old version.
                Err(error) if error.outcome() == Outcome::Unknown => lost = Some(error),
                Err(error) if error.is_changed() || error.is_conflict() => {}
                Err(error) => return Err(lost.unwrap_or(error)),
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(lost.unwrap_or_else(|| self.table.contended(key)))
    }

    fn minute(&self) -> u64 {
        let now = self.table.engine().runtime.time_of_day();
        now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / 60
    }
}

/// The last additions of the writers: id, number, minute.
struct Sequences(Vec<(u64, u64, u64)>);

impl Sequences {
    fn of(row: Option<&Stored<DynEntity>>) -> Result<Self, Error> {
        let text = row.map(|row| row.get::<Option<String>>(SEQUENCES)).transpose()?.flatten();
        let parse = |one: &str| {
            let mut numbers = one.split('.').map(|number| u64::from_str_radix(number, 16).ok());
            Some((numbers.next()??, numbers.next()??, numbers.next()??))
        };
        let all = text.as_deref().filter(|text| !text.is_empty()).map(|text| {
            text.split(',').map(parse).collect::<Option<Vec<_>>>().ok_or_else(|| {
                let text = format!("`{SEQUENCES}` is not as this library writes it");
                Error::new(ErrorKind::Pattern, Outcome::NotApplied, text)
            })
        });
        all.transpose().map(|all| Self(all.unwrap_or_default()))
    }

    fn has(&self, (writer, number): (u64, u64)) -> bool {
        self.0.iter().any(|(id, last, _)| (*id, *last) == (writer, number))
    }

    fn note(&mut self, (writer, number): (u64, u64), minute: u64) -> Result<(), Error> {
        self.0.retain(|(id, _, noted)| *id != writer && noted + KEPT_MINUTES >= minute);
        if self.0.len() == WRITERS_MAX {
            let text = format!(
                "more than {WRITERS_MAX} writers added to one row within an hour; give each a row \
                 of its own and sum them"
            );
            return Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text));
        }
        self.0.push((writer, number, minute));
        Ok(())
    }
}

impl fmt::Display for Sequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> =
            self.0.iter().map(|(id, last, minute)| format!("{id:x}.{last:x}.{minute:x}")).collect();
        f.write_str(&all.join(","))
    }
}
