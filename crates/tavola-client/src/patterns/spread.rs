//! One partition, as the program sees it, in several of the service.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tavola_core::PartitionKey;
use tavola_protocol::table::entity_json::DecodedEntity;

use super::drift::applied;
use super::housekeeping::core;
use super::merged::{Merged, Order, Plan, Source, check_order};
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, TableClient};
use crate::continuation::query_hash;
use crate::crypt::Policy;
use crate::engine::{CallSettings, Engine, Operation};
use crate::entity::{DynEntity, Entity, Stored, encode_properties};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::key::{EntityKey, KeyRange, PointKey, Span, Spans};
use crate::prepare::{Prepared, decode, with_head};
use crate::unknown::Claim;
use crate::written::{Created, IfMatch, Mode, Written};

/// Two digits in the key.
const BUCKETS_MAX: u32 = 100;
/// How long a client goes by the number of buckets that it read.
const LEASE: Duration = Duration::from_secs(5);
/// The numbers of buckets so far, joined by commas; the last is that of writers.
const NUMBERS: &str = "n";
/// The number to come, which readers go by already.
const NEXT: &str = "next";

/// Entities of one partition in `n` partitions of the service, `{partition}!00`, `{partition}!01`
/// and so on, by a hash of the RowKey: against keys that grow, which send all inserts to one place.
///
/// The number of buckets is kept in the row `!meta` of the table, and can grow while others write
/// and read.
///
/// **Guarantee.** Every entity whose insert succeeded before a query began is read by it once, in
/// the order of the RowKeys, also while the number of buckets grows: readers go by the new number a
/// lease (5 s) before any writer does. Two entities never have one key as long as the number does
/// not grow between their inserts; after that, only keys that are unique by themselves are.
///
/// **Cost** in requests: insert 1; query 1 for each bucket and each 1,000 rows of it; get 1 for
/// each number of buckets there was; and 1 more for the first call in 5 s.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::patterns::Spread;
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{hour}", row = "{second:04}!{id:08}")]
/// struct Event {
///     hour: String,
///     second: u16,
///     id: u32,
///     text: String,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("events");
/// table.create().await?;
/// let events = Spread::<Event>::open(&table, 8).await?;
/// for second in 0..20 {
///     let (hour, text) = ("2014082218".to_owned(), "login".to_owned());
///     events.insert(&Event { hour, second, id: 7, text }).await?;
/// }
///
/// let some = Event::key().hour("2014082218").second_in(5..=9);
/// let seconds = events.query(some).stream().map_ok(|event| event.second);
/// assert_eq!(seconds.try_collect::<Vec<_>>().await?, [5, 6, 7, 8, 9]);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct Spread<E> {
    table: TableClient,
    /// What was read of the number of buckets, and when.
    layout: Arc<Mutex<Option<(Duration, Layout)>>>,
    of: PhantomData<fn() -> E>,
}

impl<E> Clone for Spread<E> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), layout: Arc::clone(&self.layout), of: PhantomData }
    }
}

impl<E> fmt::Debug for Spread<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spread").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

/// How many buckets there are and were.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layout {
    numbers: Vec<u32>,
    next: Option<u32>,
}

impl Layout {
    fn of(row: &DynEntity) -> Result<Self, Error> {
        let numbers = row.get::<String>(NUMBERS)?;
        let next = row.get::<Option<i32>>(NEXT)?;
        let legal = |number: u32| (1..=BUCKETS_MAX).contains(&number).then_some(number);
        let parse = |text: &str| text.parse().ok().and_then(legal);
        let numbers: Option<Vec<u32>> = numbers.split(',').map(parse).collect();
        match (numbers, next.map(|next| u32::try_from(next).ok().and_then(legal))) {
            (Some(numbers), None) => Ok(Self { numbers, next: None }),
            (Some(numbers), Some(Some(next))) => Ok(Self { numbers, next: Some(next) }),
            _ => {
                let text = "the row `!meta` is not as this library writes it";
                Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text))
            }
        }
    }

    fn write(&self, row: &mut DynEntity) -> Result<(), Error> {
        let numbers: Vec<_> = self.numbers.iter().map(ToString::to_string).collect();
        row.set(NUMBERS, numbers.join(","));
        row.remove(NEXT);
        if let Some(next) = self.next {
            let invalid = |_| Error::invalid(Rule::Request, "too many buckets");
            row.set(NEXT, i32::try_from(next).map_err(invalid)?);
        }
        Ok(())
    }

    /// The number by which writers go.
    fn current(&self) -> u32 {
        self.numbers.last().copied().unwrap_or(1)
    }

    /// How many buckets can have rows.
    fn buckets(&self) -> u32 {
        self.numbers.iter().copied().chain(self.next).max().unwrap_or(1)
    }

    /// The buckets in which a row can be, the likeliest first.
    fn candidates(&self, row: &str) -> Vec<u32> {
        let numbers = self.numbers.iter().rev().copied().chain(self.next);
        let mut seen = BTreeSet::new();
        numbers.map(|number| bucket(row, number)).filter(|bucket| seen.insert(*bucket)).collect()
    }
}

/// The bucket of a row. The hash never changes, because rows are stored by it.
fn bucket(row: &str, number: u32) -> u32 {
    (query_hash(&[row]) % u64::from(number)) as u32
}

fn partition(logical: &str, bucket: u32) -> String {
    format!("{logical}!{bucket:02}")
}

impl<E: Entity> Spread<E> {
    /// Entities of this table in `buckets` partitions, at most 100. If the table has a number
    /// already, that one counts: [`Spread::grow`] raises it.
    pub fn open(table: &TableClient, buckets: u32) -> Call<'_, Self> {
        Call::new(table.engine().settings(), move |settings| async move {
            check_number(buckets)?;
            let spread = Self { table: table.clone(), layout: Arc::default(), of: PhantomData };
            let since = table.engine().runtime.now();
            let layout = Layout { numbers: vec![buckets], next: None };
            let mut row = meta::<E>();
            layout.write(&mut row)?;
            let layout = match table.create_if_missing(&row).with_settings(settings).await? {
                Created::New(_) => layout,
                Created::Existing(row) => Layout::of(&row)?,
            };
            spread.remember(since, layout);
            Ok(spread)
        })
    }

    /// Raises the number of buckets, while others write and read. It takes a lease, 5 s. Entities
    /// stay where they are.
    pub fn grow(&self, buckets: u32) -> Call<'_, ()> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            check_number(buckets)?;
            let runtime = &*self.table.engine().runtime;
            for attempt in 0..ATTEMPTS_MAX {
                let since = runtime.now();
                let mut row = self.read_meta(&settings).await?;
                let mut layout = Layout::of(&row)?;
                match layout.next {
                    None if layout.current() >= buckets => {
                        self.remember(since, layout);
                        return Ok(());
                    }
                    Some(next) if next >= buckets => {
                        // A client without the next number read the row before it was set.
                        runtime.sleep(LEASE).await;
                        layout.numbers.push(next);
                        layout.next = None;
                    }
                    _ => layout.next = Some(buckets),
                }
                layout.write(&mut row)?;
                let if_match = IfMatch::Version(row.etag().clone());
                let write = self.table.update(&*row, Mode::Replace, if_match);
                match applied(write.with_settings(settings.clone()).await) {
                    Ok(true) => {}
                    Ok(false) => self.table.pause_after_conflict(attempt).await,
                    // The row says what became of it.
                    Err(error) if error.outcome() == Outcome::Unknown => {}
                    Err(error) => return Err(error),
                }
            }
            Err(self.table.contended(&meta::<E>().entity_key()?))
        })
    }

    /// Adds an entity; there must be none with its key.
    pub fn insert<'a>(&'a self, entity: &'a E) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            let key = entity.entity_key()?;
            let layout = self.layout(&settings).await?;
            let bucket = bucket(key.row(), layout.current());
            let key = EntityKey::new(partition(key.partition(), bucket), key.row())?;
            let properties = encode_properties(entity, &[])?;
            let prepared = Prepared::of_properties::<E>(self.engine(), core(&key), properties)?;
            let claim = if settings.claims { Claim::InsertOnce } else { Claim::Insert };
            self.send("insert", &key, prepared.insert(claim), &settings).await
        })
    }

    /// Writes an entity back, if nobody changed it since it was read. The plain client deletes one
    /// that was read here; it cannot replace it, because its key is another one.
    pub fn replace<'a>(&'a self, stored: &'a mut Stored<E>) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            let key = stored.key().clone();
            let (own, logical) = (stored.entity_key()?, logical(key.partition())?);
            if own.partition() != logical || own.row() != key.row() {
                let text = "the entity has another key than the one that was read; insert it and \
                            delete the old one";
                return Err(Error::invalid(Rule::Request, text));
            }
            let properties = encode_properties(&**stored, stored.rest())?;
            let prepared = Prepared::of_properties::<E>(self.engine(), core(&key), properties)?;
            let if_match = IfMatch::Version(stored.etag().clone());
            let operation = prepared.update(Mode::Replace, &if_match)?;
            let written = self.send("replace", &key, operation, &settings).await?;
            if let (Some(etag), Some(timestamp)) = (written.etag.clone(), written.timestamp) {
                stored.set_version(etag, timestamp);
            }
            Ok(written)
        })
    }

    /// One entity; `None` if there is none. [`Stored::key`] is the key of its row.
    pub fn get(&self, key: impl Into<PointKey<E>>) -> Call<'_, Option<Stored<E>>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            let key = key?;
            let table = self.table.table()?;
            for bucket in self.layout(&settings).await?.candidates(key.row()) {
                let row = EntityKey::new(partition(key.partition(), bucket), key.row())?;
                if let Some(row) = self.engine().get(&table, row.as_core(), &settings).await? {
                    return read(row, &settings.encryption).map(Some);
                }
            }
            Ok(None)
        })
    }

    /// The entities in a range of keys of one partition, in the order of their RowKeys.
    pub fn query(&self, keys: impl Into<KeyRange<E>>) -> Merged<'_, E> {
        let keys = keys.into();
        let text = keys.to_filter().map(|filter| filter.to_string()).unwrap_or_default();
        let settings = self.table.engine().settings();
        let plan = Plan {
            order: Order::Keys,
            is_single: true,
            allows_missing: false,
            hash: query_hash(&["spread", &self.table.name().to_ascii_lowercase(), &text]),
            decode: Arc::new(read),
            settings: settings.clone(),
        };
        Merged::new(plan, async move {
            check_order(self.engine())?;
            let Spans { partition: Span::One(logical), row } = keys.spans()? else {
                let text = "a query over spread entities is of one partition";
                return Err(Error::invalid(Rule::Request, text));
            };
            let layout = self.layout(&settings).await?;
            let source = |bucket| {
                let spans =
                    Spans { partition: Span::One(partition(logical, bucket)), row: row.clone() };
                Ok(Source {
                    label: format!("{bucket:02}"),
                    table: self.table.clone(),
                    filter: KeyRange::<E>::new(Ok(spans)).to_filter()?.into_any(),
                })
            };
            (0..layout.buckets()).map(source).collect()
        })
    }

    fn engine(&self) -> &Engine {
        self.table.engine()
    }

    async fn send(
        &self,
        name: &'static str,
        key: &EntityKey,
        operation: Operation,
        settings: &CallSettings,
    ) -> Result<Written, Error> {
        self.table.send_one(name, core(key), operation, settings).await.map(Written::one)
    }

    fn remember(&self, since: Duration, layout: Layout) {
        *self.layout.lock().unwrap_or_else(PoisonError::into_inner) = Some((since, layout));
    }

    /// The number of buckets, read again when it is as old as a lease.
    async fn layout(&self, settings: &CallSettings) -> Result<Layout, Error> {
        let now = self.engine().runtime.now();
        let known = self.layout.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((since, layout)) = known
            && now.saturating_sub(since) < LEASE
        {
            return Ok(layout);
        }
        let row = self.read_meta(settings).await?;
        let layout = Layout::of(&row)?;
        self.remember(now, layout.clone());
        Ok(layout)
    }

    async fn read_meta(&self, settings: &CallSettings) -> Result<Stored<DynEntity>, Error> {
        let key = meta::<E>().entity_key()?;
        let found = self.table.get::<DynEntity>(&key).with_settings(settings.clone()).await?;
        found.ok_or_else(|| {
            let text = format!("the row {key} with the number of buckets is gone");
            Error::new(ErrorKind::Pattern, Outcome::NotApplied, text)
        })
    }
}

fn check_number(buckets: u32) -> Result<(), Error> {
    if (1..=BUCKETS_MAX).contains(&buckets) {
        return Ok(());
    }
    let text = format!("a partition is spread over 1 to {BUCKETS_MAX} buckets");
    Err(Error::beyond(Rule::Request, BUCKETS_MAX as usize, buckets as usize, text))
}

/// The row that holds the number of buckets of a type.
fn meta<E: Entity>() -> DynEntity {
    let beginning = E::KEYS.map_or("", |keys| keys.partition);
    DynEntity::new(format!("!spread!{beginning}"), "!meta")
}

/// The partition as the program sees it.
fn logical(partition: &str) -> Result<&str, Error> {
    let suffix = |(logical, bucket): (_, &str)| (bucket.len() == 2).then_some(logical);
    partition.rsplit_once('!').and_then(suffix).ok_or_else(|| {
        let text = format!("the partition '{partition}' is not one of spread entities");
        Error::new(ErrorKind::Pattern, Outcome::NotApplied, text)
    })
}

/// An entity of a row, with the key of the row.
fn read<E: Entity>(mut row: DecodedEntity, policy: &Policy) -> Result<Stored<E>, Error> {
    let key = with_head(&row, |head| EntityKey::new(head.partition, head.row))?;
    let invalid = |_| Error::invalid(Rule::KeyCharacter, "the PartitionKey is not legal");
    row.partition_key = Some(PartitionKey::new(logical(key.partition())?).map_err(invalid)?);
    Ok(decode::<E>(row, policy)?.with_key(key))
}
