//! The newest entries first.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use futures_util::TryStreamExt as _;
use time::OffsetDateTime;

use crate::call::Call;
use crate::client::TableClient;
use crate::crypt::{self, Policy};
use crate::engine::CallSettings;
use crate::entity::names::{count, expand};
use crate::entity::{DynEntity, Properties, PropertiesDecoder as _, Stored, encode_properties};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::filter::{AnyFilter, prop};
use crate::key::{EntityKey, TicksDesc};
use crate::query::Query;

/// Entries of one writer in one tick of 100 ns; the next goes to the next tick.
const SEQUENCE_MAX: u32 = 99_999;
/// How often an entry is given another place because somebody has it.
const PLACES_MAX: u32 = 3;
/// Rows that one transaction deletes.
const DELETED_AT_ONCE: usize = 100;

/// Logs whose newest entries are read first: a stream is a partition, and the RowKey of an entry is
/// the time that is left until the year 10000, so that the last entry sorts first.
///
/// RowKey: 19 digits of inverted ticks, 5 digits of an inverted sequence number, and 8 hexadecimal
/// digits of the writer, `25199363216799999999999951f0c3a7`.
///
/// **Guarantee.** Every entry whose append succeeded is there once; entries of one tick all survive.
/// The entries of one `LogTail` and its clones are in the order of their appends, also if the clock
/// goes back; entries of several are in the order of their clocks. An entry never moves, so that
/// pages neither repeat nor skip one while others append.
///
/// **Cost.** An append is one request, `latest(n)` one for each 1,000, `trim_before` one for each
/// 1,000 rows that it finds and one for each 100 that it deletes.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::LogTail;
/// use tavola_client::{Properties, TableServiceClient};
///
/// #[derive(Properties)]
/// struct Claim {
///     amount: f64,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("claims");
/// table.create().await?;
/// let claims = LogTail::<Claim>::new(&table).stream("000123");
/// for amount in [9.5, 20.0, 7.25] {
///     claims.append(&Claim { amount }).await?;
/// }
/// let newest = claims.latest(2).await?;
/// assert_eq!(newest.iter().map(|entry| entry.value.amount).collect::<Vec<_>>(), [7.25, 20.0]);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct LogTail<P> {
    table: TableClient,
    writer: Arc<Mutex<Writer>>,
    of: PhantomData<fn() -> P>,
}

/// Who appends, and where it last did.
#[derive(Debug)]
struct Writer {
    id: u32,
    /// The ticks that were left, and how many entries there are in that tick.
    last: Option<(u64, u32)>,
}

impl Writer {
    /// The place behind the last one, whatever the clock says.
    fn next(&mut self, left: u64) -> Option<(u64, u32)> {
        let next = match self.last {
            Some((last, sequence)) if left >= last => match sequence {
                SEQUENCE_MAX => (last.checked_sub(1)?, 0),
                _ => (last, sequence + 1),
            },
            _ => (left, 0),
        };
        self.last = Some(next);
        Some(next)
    }
}

impl<P> Clone for LogTail<P> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), writer: Arc::clone(&self.writer), of: PhantomData }
    }
}

impl<P> fmt::Debug for LogTail<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogTail").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

/// One log: a partition.
pub struct LogStream<P> {
    tail: LogTail<P>,
    partition: String,
}

impl<P> Clone for LogStream<P> {
    fn clone(&self) -> Self {
        Self { tail: self.tail.clone(), partition: self.partition.clone() }
    }
}

impl<P> fmt::Debug for LogStream<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogStream").field("partition", &self.partition).finish_non_exhaustive()
    }
}

/// An entry of a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogEntry<P> {
    /// When it was appended, by its writer's clock, in ticks of 100 ns.
    pub at: OffsetDateTime,
    /// Where it is.
    pub key: EntityKey,
    /// What was appended.
    pub value: P,
}

/// The place of an entry that may not be written yet. Who keeps it can append again after a crash
/// without making a second entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogPlace(EntityKey);

impl LogPlace {
    /// The place with this key, as [`LogPlace::key`] gave it.
    #[must_use]
    pub fn at(key: EntityKey) -> Self {
        Self(key)
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &EntityKey {
        &self.0
    }
}

/// What a trim did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Trimmed {
    /// The entries that it deleted.
    pub deleted: usize,
}

impl<P: Properties> LogTail<P> {
    /// Logs in this table. Each `LogTail` is a writer of its own; clones are the same writer.
    #[must_use]
    pub fn new(table: &TableClient) -> Self {
        let id = (table.engine().runtime.random() >> 32) as u32;
        let writer = Arc::new(Mutex::new(Writer { id, last: None }));
        Self { table: table.clone(), writer, of: PhantomData }
    }

    /// The log with this PartitionKey.
    #[must_use]
    pub fn stream(&self, partition: impl Into<String>) -> LogStream<P> {
        LogStream { tail: self.clone(), partition: partition.into() }
    }
}

impl<P: Properties> LogStream<P> {
    /// A place for the next entry.
    ///
    /// # Errors
    /// If the clock or the partition's key is beyond what a key can be, or the service has no order
    /// of keys.
    pub fn place(&self) -> Result<LogPlace, Error> {
        self.check_order()?;
        let now = self.table().engine().runtime.time_of_day();
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = i128::try_from(since.as_nanos())
            .ok()
            .and_then(|nanos| OffsetDateTime::from_unix_timestamp_nanos(nanos).ok())
            .ok_or_else(end_of_time)?;
        let left = ticks_left(at)?;
        let mut writer = self.tail.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, sequence) = writer.next(left).ok_or_else(end_of_time)?;
        let row = format!("{left:019}{:05}{:08x}", SEQUENCE_MAX - sequence, writer.id);
        EntityKey::new(self.partition.as_str(), row).map(LogPlace)
    }

    /// Appends an entry.
    pub fn append<'a>(&'a self, value: &'a P) -> Call<'a, LogPlace> {
        Call::new(self.table().engine().settings(), move |settings| async move {
            let mut attempt = 1;
            loop {
                let place = self.place()?;
                if self.write(&place, value, &settings).await? {
                    return Ok(place);
                }
                if attempt == PLACES_MAX {
                    let text = "others have the places of this writer; it is not alone in its id";
                    return Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text));
                }
                attempt += 1;
            }
        })
    }

    /// Appends an entry at a place of its own ([`LogStream::place`]). False if it is there already:
    /// an append that is repeated, by whom ever, makes no second entry.
    pub fn append_at<'a>(&'a self, place: &'a LogPlace, value: &'a P) -> Call<'a, bool> {
        Call::new(self.table().engine().settings(), move |settings| async move {
            if place.key().partition() != self.partition {
                let text = "the place is of another log";
                return Err(Error::invalid(Rule::Request, text));
            }
            self.write(place, value, &settings).await
        })
    }

    /// The newest `n` entries, newest first.
    pub fn latest(&self, n: usize) -> Call<'_, Vec<LogEntry<P>>> {
        Call::new(self.table().engine().settings(), move |settings| async move {
            self.check_order()?;
            let newest = self.rows("0".to_owned(), ":".to_owned()).with_settings(settings);
            newest.take(n).stream().try_collect().await
        })
    }

    /// The entries of all ticks before that of `at`, newest first.
    ///
    /// # Errors
    /// If `at` is not of the years 1 to 9999, or the service has no order of keys.
    pub fn older_than(
        &self,
        at: OffsetDateTime,
    ) -> Result<Query<'_, DynEntity, LogEntry<P>>, Error> {
        self.check_order()?;
        Ok(self.rows(first_before(at)?, ":".to_owned()))
    }

    /// The entries of all ticks after that of `at`, newest first.
    ///
    /// # Errors
    /// If `at` is not of the years 1 to 9999, or the service has no order of keys.
    pub fn newer_than(
        &self,
        at: OffsetDateTime,
    ) -> Result<Query<'_, DynEntity, LogEntry<P>>, Error> {
        self.check_order()?;
        Ok(self.rows("0".to_owned(), TicksDesc::encode(at, "at")?))
    }

    /// Deletes the entries of all ticks before that of `at`, the oldest first, so that what remains
    /// is always the newest part. It holds their keys in memory.
    pub fn trim_before(&self, at: OffsetDateTime) -> Call<'_, Trimmed> {
        Call::new(self.table().engine().settings(), move |settings| async move {
            self.check_order()?;
            let range = self.range(first_before(at)?, ":".to_owned());
            let old = Query::keys(self.table(), range.as_core().cloned()?);
            let old = old.with_settings(settings.clone());
            let old: Vec<_> = old.stream().try_collect().await?;
            let mut trimmed = Trimmed::default();
            let rows: Vec<_> = old.iter().rev().map(|(key, _)| key.row_key.as_str()).collect();
            for rows in rows.chunks(DELETED_AT_ONCE) {
                trimmed.deleted += self.delete(rows, &settings).await?;
            }
            Ok(trimmed)
        })
    }

    async fn delete(&self, rows: &[&str], settings: &CallSettings) -> Result<usize, Error> {
        let mut together = self.table().transaction(self.partition.as_str());
        for row in rows {
            together.delete_row(*row)?;
        }
        match together.send(settings.clone()).await {
            Ok(_) => return Ok(rows.len()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        // Somebody else trims too: what is left of these, one by one.
        let mut deleted = 0;
        for row in rows {
            let key = (self.partition.as_str(), *row);
            deleted += usize::from(self.table().delete_if_exists::<DynEntity>(key).await?);
        }
        Ok(deleted)
    }

    /// Writes an entry; false if its place is taken.
    async fn write(
        &self,
        place: &LogPlace,
        value: &P,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let key = place.key();
        let mut entity = DynEntity::new(key.partition(), key.row());
        value.encode(&mut entity)?;
        match self.table().insert(&entity).with_settings(settings.clone()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() && error.outcome() == Outcome::NotApplied => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn table(&self) -> &TableClient {
        &self.tail.table
    }

    fn check_order(&self) -> Result<(), Error> {
        if self.table().engine().traits.flavour.has_key_order() {
            return Ok(());
        }
        let text = "the service returns rows in no order, so that a log has no newest entry";
        Err(Error::new(ErrorKind::Pattern, Outcome::NotSent, text))
    }

    fn range(&self, from: String, to: String) -> AnyFilter {
        let of_stream = prop("PartitionKey").eq(self.partition.as_str());
        of_stream.and(prop("RowKey").ge(from)).and(prop("RowKey").lt(to))
    }

    fn rows(&self, from: String, to: String) -> Query<'_, DynEntity, LogEntry<P>> {
        let policy = self.table().engine().options.encryption.clone();
        let rows = self.table().filter::<DynEntity>(self.range(from, to));
        rows.resolve(move |row| entry(&row, &policy))
    }
}

fn entry<P: Properties>(row: &Stored<DynEntity>, policy: &Policy) -> Result<LogEntry<P>, Error> {
    if count(P::ENCRYPTED) > 0 {
        crypt::check(&expand(P::ENCRYPTED), &encode_properties(&**row, &[])?, policy)?;
    }
    let (at, _) = TicksDesc::decode(row.key().row(), "at")?;
    let mut decoder = P::decoder();
    for (name, value) in row.iter() {
        decoder.property(name, value.as_ref());
    }
    Ok(LogEntry { at, key: row.key().clone(), value: decoder.finish()? })
}

fn end_of_time() -> Error {
    Error::invalid(Rule::KeyPart, "the clock is beyond the year 9999")
}

fn ticks_left(at: OffsetDateTime) -> Result<u64, Error> {
    TicksDesc::encode(at, "at")?.parse().map_err(|_| end_of_time())
}

/// Where the entries of the tick before that of `at` begin.
fn first_before(at: OffsetDateTime) -> Result<String, Error> {
    Ok(format!("{:019}", ticks_left(at)? + 1))
}

#[cfg(test)]
mod tests {
    use super::{SEQUENCE_MAX, Writer};

    #[test]
    fn a_writer_never_goes_back() {
        let mut writer = Writer { id: 7, last: None };
        let mut places = Vec::new();
        // Less is left with each tick; the clock goes back by two and comes again.
        for left in [50, 50, 49, 51, 51, 49, 48] {
            places.push(writer.next(left).unwrap());
        }
        let expected = [(50, 0), (50, 1), (49, 0), (49, 1), (49, 2), (49, 3), (48, 0)];
        assert_eq!(places, expected);

        writer.last = Some((48, SEQUENCE_MAX));
        assert_eq!(writer.next(48), Some((47, 0)));
        writer.last = Some((0, SEQUENCE_MAX));
        assert_eq!(writer.next(0), None);
    }
}
