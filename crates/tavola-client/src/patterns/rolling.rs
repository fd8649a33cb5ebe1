//! A table for each day or month, so that old rows go by the table.

mod period;

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use time::OffsetDateTime;

use self::period::Period;
use super::housekeeping::now;
use super::merged::{Merged, Order, Plan, Source, check_order};
use crate::call::Call;
use crate::client::{TableClient, TableServiceClient};
use crate::continuation::query_hash;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::filter::{AnyFilter, prop};
use crate::key::{KeyRange, Span};
use crate::prepare::decode;
use crate::written::Written;

/// How often a write creates the table that it finds missing.
const CREATIONS_MAX: u32 = 3;

/// Rows in a table for each day or month, `Logins20140822` or `Logins201408`: what is too old is
/// dropped by the table, one request however many rows there are.
///
/// The **window** is the period of today, as many before it as are kept, and as many after it as
/// are created ahead. Times are in UTC, by the clock of the client.
///
/// **Guarantee.** A row whose insert succeeded is in the table of its time until that is dropped. A
/// write outside the window is refused, and a table is dropped one whole period after it left the
/// window, so that no dropped period comes back unless a clock is wrong by a period. Only tables
/// whose name is the prefix and a date are dropped. A read goes over the tables of the window in
/// one order; one that is missing, or dropped meanwhile, has no rows.
///
/// **Cost** in requests: insert 1, and 2 more if the table is missing; `query` 1 for each table and
/// each 1,000 rows of it; `newest_first` 1 for each table that it comes to; `create_ahead` 1 for
/// each table; `drop_expired` 1 for each 1,000 tables listed and 1 for each table dropped.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::patterns::Rolling;
/// use tavola_client::{Entity, TableServiceClient};
/// use time::{Duration, OffsetDateTime};
///
/// #[derive(Entity)]
/// #[entity(partition = "{user:06}", row = "{at:desc}")]
/// struct Login {
///     user: u32,
///     at: OffsetDateTime,
///     device: String,
/// }
///
/// let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// let logins = Rolling::daily(&service, "Logins", 60)?;
/// logins.create_ahead().await?;
/// # let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
/// let now = /* the time of the row */ OffsetDateTime::UNIX_EPOCH + since;
/// for (days, device) in [(2, "phone"), (0, "desk"), (1, "phone")] {
///     let at = now - Duration::days(days);
///     logins.insert(at, &Login { user: 123, at, device: device.into() }).await?;
/// }
///
/// let last = logins.newest_first(.., Login::key().user(123)).take(2).stream();
/// let last: Vec<_> = last.map_ok(|login| login.device.clone()).try_collect().await?;
/// assert_eq!(last, ["desk", "phone"]);
///
/// // Each day; with `true` it only says what it would drop.
/// assert!(logins.drop_expired(true).await?.expired.is_empty());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
#[derive(Debug, Clone)]
pub struct Rolling {
    service: TableServiceClient,
    prefix: String,
    period: Period,
    keep: i32,
    ahead: i32,
}

/// What `drop_expired` found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DropReport {
    /// The tables that are too old, the oldest first.
    pub expired: Vec<String>,
    /// How many of them this call dropped; others may have been faster.
    pub dropped: usize,
}

impl Rolling {
    /// A table for each day, kept for so many days beside today's.
    ///
    /// # Errors
    /// If the prefix cannot begin the name of a table, or ends with a digit.
    pub fn daily(
        service: &TableServiceClient,
        prefix: impl Into<String>,
        keep: u16,
    ) -> Result<Self, Error> {
        Self::new(service, prefix.into(), Period::Day, keep)
    }

    /// A table for each month, kept for so many months beside this one's.
    ///
    /// # Errors
    /// If the prefix cannot begin the name of a table, or ends with a digit.
    pub fn monthly(
        service: &TableServiceClient,
        prefix: impl Into<String>,
        keep: u16,
    ) -> Result<Self, Error> {
        Self::new(service, prefix.into(), Period::Month, keep)
    }

    fn new(
        service: &TableServiceClient,
        prefix: String,
        period: Period,
        keep: u16,
    ) -> Result<Self, Error> {
        if prefix.ends_with(|last: char| last.is_ascii_digit()) {
            let text = format!(
                "the prefix `{prefix}` ends with a digit, so that its tables could be those of a \
                 shorter prefix"
            );
            return Err(Error::invalid(Rule::Request, text));
        }
        let rolling =
            Self { service: service.clone(), prefix, period, keep: keep.into(), ahead: 1 };
        let today = rolling.current();
        rolling.table(today).table()?;
        Ok(rolling)
    }

    /// Accepts rows of so many periods to come, and creates their tables ahead; 1 unless said.
    #[must_use]
    pub fn ahead(self, periods: u16) -> Self {
        Self { ahead: periods.into(), ..self }
    }

    /// The table of a time, for reads and writes of other kinds.
    ///
    /// # Errors
    /// If the time is outside the window.
    pub fn table_at(&self, at: OffsetDateTime) -> Result<TableClient, Error> {
        self.number_of(at).map(|number| self.table(number))
    }

    /// Adds an entity to the table of a time, which is created if it is missing.
    pub fn insert<'a, E: Entity>(&'a self, at: OffsetDateTime, entity: &'a E) -> Call<'a, Written> {
        Call::new(self.service.engine.settings(), move |settings| async move {
            let mut creations = 0;
            loop {
                // Again before each attempt: the window goes on.
                let table = self.table_at(at)?;
                let error = match table.insert(entity).with_settings(settings.clone()).await {
                    Ok(written) => return Ok(written),
                    Err(error) => error,
                };
                let is_last = creations == CREATIONS_MAX;
                if is_last || !is_missing(&table, entity, &error, &settings).await? {
                    return Err(error);
                }
                creations += 1;
                table.create_table_if_missing().with_settings(settings.clone()).await?;
            }
        })
    }

    /// Creates the tables of this period and of those to come, as many as [`Rolling::ahead`] says.
    /// Returns the names of those that this call created.
    pub fn create_ahead(&self) -> Call<'_, Vec<String>> {
        Call::new(self.service.engine.settings(), move |settings: CallSettings| async move {
            let today = self.current();
            let mut created = Vec::new();
            for number in today..=today + self.ahead {
                let table = self.table(number);
                if table.create_table_if_missing().with_settings(settings.clone()).await? {
                    created.push(table.name);
                }
            }
            Ok(created)
        })
    }

    /// The entities in a range of keys, from the tables of these times, in the order of their keys.
    /// The times choose tables, not rows: of the first and the last table it reads all.
    pub fn query<E: Entity>(
        &self,
        times: impl RangeBounds<OffsetDateTime>,
        keys: impl Into<KeyRange<E>>,
    ) -> Merged<'_, E> {
        self.read(Order::Keys, self.periods(&times), keys.into())
    }

    /// The same, the newest table first, each in the order of its keys: with keys of inverted
    /// times, as `{at:desc}` writes them, the newest row first. It reads no table before it comes
    /// to it.
    pub fn newest_first<E: Entity>(
        &self,
        times: impl RangeBounds<OffsetDateTime>,
        keys: impl Into<KeyRange<E>>,
    ) -> Merged<'_, E> {
        self.read(Order::LabelsDescending, self.periods(&times), keys.into())
    }

    /// Drops the tables that left the window at least one period ago; with `dry_run` it only names
    /// them. A table that is gone already is fine.
    pub fn drop_expired(&self, dry_run: bool) -> Call<'_, DropReport> {
        Call::new(self.service.engine.settings(), move |settings: CallSettings| async move {
            let first_kept = self.current() - self.keep - 1;
            let own: AnyFilter = prop("TableName").starts_with(&self.prefix);
            let mut names = self.service.tables_with(Some(own.as_core().cloned()?));
            let mut expired = Vec::new();
            while let Some(name) = names.try_next().await? {
                let digits = name.strip_prefix(&self.prefix);
                match digits.and_then(|digits| self.period.parse(digits)) {
                    Some(number) if number < first_kept => expired.push((number, name)),
                    _ => {}
                }
            }
            expired.sort();
            let mut report = DropReport::default();
            for (_, name) in expired {
                if !dry_run {
                    let drop = self.service.delete_table_if_exists(&name);
                    report.dropped += usize::from(drop.with_settings(settings.clone()).await?);
                }
                report.expired.push(name);
            }
            Ok(report)
        })
    }

    fn read<E: Entity>(
        &self,
        order: Order,
        periods: Result<Vec<i32>, Error>,
        keys: KeyRange<E>,
    ) -> Merged<'_, E> {
        let filter = keys.to_filter();
        let text = filter.as_ref().map(ToString::to_string).unwrap_or_default();
        let plan = Plan {
            order,
            is_single: keys.spans().is_ok_and(|spans| matches!(spans.partition, Span::One(_))),
            allows_missing: true,
            hash: query_hash(&[
                "rolling",
                &self.prefix,
                self.period.name(),
                &format!("{order:?}"),
                &text,
            ]),
            decode: Arc::new(decode),
            settings: self.service.engine.settings(),
        };
        Merged::new(plan, async move {
            check_order(&self.service.engine)?;
            let filter = filter?.into_any();
            let source = |number| Source {
                label: self.period.digits(number),
                table: self.table(number),
                filter: filter.clone(),
            };
            Ok(periods?.into_iter().map(source).collect())
        })
    }

    /// The periods of these times that are in the window.
    fn periods(&self, times: &impl RangeBounds<OffsetDateTime>) -> Result<Vec<i32>, Error> {
        let (first, last) = self.window();
        let number = |at: &OffsetDateTime| self.period.number(*at);
        let from = match times.start_bound() {
            Bound::Included(at) | Bound::Excluded(at) => number(at).max(first),
            Bound::Unbounded => first,
        };
        let to = match times.end_bound() {
            Bound::Included(at) => number(at).min(last),
            Bound::Excluded(at) => number(&(*at - time::Duration::NANOSECOND)).min(last),
            Bound::Unbounded => last,
        };
        Ok((from..=to).collect())
    }

    fn current(&self) -> i32 {
        self.period.number(now(&self.service.engine))
    }

    /// The first and the last period that a write may have.
    fn window(&self) -> (i32, i32) {
        let today = self.current();
        (today - self.keep, today + self.ahead)
    }

    fn number_of(&self, at: OffsetDateTime) -> Result<i32, Error> {
        let (first, last) = self.window();
        let number = self.period.number(at);
        if (first..=last).contains(&number) {
            return Ok(number);
        }
        let text = format!(
            "a row of {} is outside the window, which is from {} to {}",
            self.period.digits(number),
            self.period.digits(first),
            self.period.digits(last)
        );
        Err(Error::new(ErrorKind::Pattern, Outcome::NotSent, text))
    }

    fn table(&self, number: i32) -> TableClient {
        self.service.table_client(format!("{}{}", self.prefix, self.period.digits(number)))
    }
}

/// True if a write failed because its table is missing. After a lost reply a read says so: without
/// its table the row is not there either.
async fn is_missing<E: Entity>(
    table: &TableClient,
    entity: &E,
    error: &Error,
    settings: &CallSettings,
) -> Result<bool, Error> {
    let is_named = |error: &Error| error.code() == Some("TableNotFound");
    if is_named(error) || error.outcome() != Outcome::Unknown {
        return Ok(is_named(error));
    }
    let read = table.get::<DynEntity>(&entity.entity_key()?).with_settings(settings.clone());
    Ok(read.await.is_err_and(|error| is_named(&error)))
}
