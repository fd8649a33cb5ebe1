//! Where there may be work.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use time::{OffsetDateTime, Time};

use super::Outbox;
use super::rows::{self, WorkRow, now};
use crate::call::Call;
use crate::client::{Accompany, TableClient};
use crate::engine::CallSettings;
use crate::entity::DynEntity;
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::etag::ETag;
use crate::filter::prop;
use crate::key::EntityKey;
use crate::patterns::drift::applied;
use crate::runtime::BoxFuture;
use crate::written::{IfMatch, Mode};

const PARTITION: &str = "!hint!";
const PARTITIONS_END: &str = "!hint\"";
/// `yyyymmddhhmm!`
const MINUTE_CHARS: usize = 13;
/// A key has 512 UTF-16 units.
const PARTITION_UNITS_MAX: usize = 512 - MINUTE_CHARS;
const MINUTE: Duration = Duration::from_secs(60);
/// Partitions that a process remembers to have hinted at in one minute.
const REMEMBERED_MAX: usize = 100_000;

/// What wakes workers sooner than their next look: a queue, for example. A notice that is lost
/// costs time, never work, because the hints remain.
pub trait Notifier: fmt::Debug + Send + Sync + 'static {
    /// There is new work in a partition. It is called after the transaction.
    fn notify<'a>(&'a self, table: &'a str, partition: &'a str) -> BoxFuture<'a, ()>;

    /// Ready with a partition of the table in which there is work.
    fn next<'a>(&'a self, table: &'a str) -> BoxFuture<'a, String>;
}

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// Hints that were read.
    pub hints: usize,
    /// Hints that were deleted: no work is left where they point, and none can come.
    pub deleted: usize,
    /// Partitions whose work is older than the grace; workers were notified of them.
    pub overdue: usize,
    /// Partitions with work and without a hint, which have one now.
    pub restored: usize,
}

/// The partitions that were hinted at in one minute.
#[derive(Debug, Default)]
pub(super) struct Hinted {
    minute: String,
    partitions: HashSet<String>,
}

/// A hint as it was read.
#[derive(Debug, Clone)]
pub(super) struct Hint {
    key: EntityKey,
    etag: ETag,
    /// When its minute is over.
    end: OffsetDateTime,
}

impl Hint {
    /// True if every write that it speaks of has ended.
    pub(super) fn is_over(&self, now: OffsetDateTime, grace: Duration) -> bool {
        self.end + grace < now
    }

    pub(super) async fn delete(
        &self,
        table: &TableClient,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let version = IfMatch::Version(self.etag.clone());
        let delete = table.delete_at::<DynEntity>(&self.key, version);
        match applied(delete.with_settings(settings.clone()).await) {
            Err(error) if error.outcome() == Outcome::Unknown => Ok(false),
            done => done,
        }
    }
}

/// Hints by the partition that they point at.
pub(super) type Hints = BTreeMap<String, Vec<Hint>>;

/// Writes the hint before a transaction with work, and notifies after it.
pub(super) struct Companion {
    outbox: Outbox,
    partition: String,
}

impl Companion {
    pub(super) fn new(outbox: Outbox, partition: String) -> Self {
        Self { outbox, partition }
    }
}

impl Accompany for Companion {
    fn before<'a>(&'a self, settings: &'a CallSettings) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.outbox.hint(&self.partition, settings).await.map_err(|error| {
                let text = "the hint of the outbox could not be written, so that the transaction \
                            was not sent";
                let status = error.status().map(|status| (status, error.code().map(str::to_owned)));
                let unhinted = Error::new(ErrorKind::Pattern, Outcome::NotApplied, text);
                let unhinted = unhinted.with_source(error);
                match status {
                    Some((status, code)) => unhinted.with_answer(status, code),
                    None => unhinted,
                }
            })
        })
    }

    fn after(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.outbox.notify(&self.partition))
    }
}

pub(super) fn check_partition(partition: &str) -> Result<(), Error> {
    let found = partition.encode_utf16().count();
    if found <= PARTITION_UNITS_MAX {
        return Ok(());
    }
    let text = format!(
        "the PartitionKey has {found} UTF-16 units; with an outbox it has at most \
         {PARTITION_UNITS_MAX}"
    );
    Err(Error::beyond(Rule::KeyLength, PARTITION_UNITS_MAX, found, text))
}

fn minute(at: OffsetDateTime) -> String {
    let (date, hour, minute) = (at.date(), at.hour(), at.minute());
    let (year, month, day) = date.to_calendar_date();
    format!("{year:04}{:02}{day:02}{hour:02}{minute:02}", u8::from(month))
}

/// The end of the minute in a hint's key.
fn end_of_minute(row: &str) -> Option<OffsetDateTime> {
    let number = |from: usize, to: usize| row.get(from..to)?.parse::<u16>().ok();
    let part = |from: usize| u8::try_from(number(from, from + 2)?).ok();
    let month = time::Month::try_from(part(4)?).ok()?;
    let date = time::Date::from_calendar_date(number(0, 4)?.into(), month, part(6)?).ok()?;
    let begin = date.with_time(Time::from_hms(part(8)?, part(10)?, 0).ok()?).assume_utc();
    begin.checked_add(time::Duration::MINUTE)
}

/// FNV-1a: the same in every process and version.
pub(super) fn shard(partition: &str, shards: u32) -> u32 {
    let hash = partition.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of the product are the worse ones.
    ((hash >> 32) % u64::from(shards.max(1))) as u32
}

impl Outbox {
    /// Writes the hint of a partition for this minute, unless this process did so already.
    pub(super) async fn hint(&self, partition: &str, settings: &CallSettings) -> Result<(), Error> {
        let minute = minute(now(&self.table));
        {
            let hinted = self.hinted.lock().unwrap_or_else(PoisonError::into_inner);
            if hinted.minute == minute && hinted.partitions.contains(partition) {
                return Ok(());
            }
        }
        let shard = shard(partition, self.shards);
        let row = format!("{minute}!{partition}");
        let hint = DynEntity::new(format!("{PARTITION}{shard:02}"), row);
        self.table.upsert(&hint, Mode::Replace).with_settings(settings.clone()).await?;
        let mut hinted = self.hinted.lock().unwrap_or_else(PoisonError::into_inner);
        if hinted.minute != minute {
            *hinted = Hinted { minute, partitions: HashSet::new() };
        }
        if hinted.partitions.len() < REMEMBERED_MAX {
            hinted.partitions.insert(partition.to_owned());
        }
        Ok(())
    }

    pub(super) async fn notify(&self, partition: &str) {
        if let Some(notifier) = &self.notifier {
            notifier.notify(self.table.name(), partition).await;
        }
    }

    /// The hints of all shards by one query, or of some by one each.
    pub(super) async fn hints(
        &self,
        shards: Option<&BTreeSet<u32>>,
        settings: &CallSettings,
    ) -> Result<Hints, Error> {
        let filters = match shards {
            None => {
                let all = prop("PartitionKey").ge(PARTITION);
                vec![all.and(prop("PartitionKey").lt(PARTITIONS_END))]
            }
            Some(shards) => {
                let one = |shard| prop("PartitionKey").eq(format!("{PARTITION}{shard:02}"));
                shards.iter().map(one).collect()
            }
        };
        let mut hints = Hints::new();
        for filter in filters {
            let rows = self.table.filter::<DynEntity>(filter).allow_scan();
            let mut rows = rows.with_settings(settings.clone()).stream();
            while let Some(row) = rows.try_next().await? {
                let Some(end) = end_of_minute(row.row()) else { continue };
                let Some(partition) = row.row().get(MINUTE_CHARS..) else { continue };
                let hint = Hint { key: row.key().clone(), etag: row.etag().clone(), end };
                hints.entry(partition.to_owned()).or_default().push(hint);
            }
        }
        Ok(hints)
    }

    /// Deletes the hints that are older than the grace and point at no work, and notifies of work
    /// that is older. The grace covers the longest write, its retries and the differences of clocks;
    /// less than five minutes is for tests.
    ///
    /// Workers delete such hints too, so that this is needed only where they wait for a
    /// [`Notifier`]. One request, and one or two for each partition.
    pub fn sweep(&self, grace: Duration) -> Call<'_, SweepReport> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let mut report = SweepReport::default();
            let hints = self.hints(None, &settings).await?;
            let now = now(&self.table);
            for (partition, hints) in hints {
                report.hints += hints.len();
                let rows = rows::query(&self.table, &partition, &settings).take(1);
                let oldest = rows.stream().try_next().await?;
                match oldest {
                    Some(row) if WorkRow::read(&row)?.added + grace < now => {
                        report.overdue += 1;
                        self.notify(&partition).await;
                    }
                    Some(_) => {}
                    None => {
                        for hint in hints.iter().filter(|hint| hint.is_over(now, grace)) {
                            let is_deleted = hint.delete(&self.table, &settings).await?;
                            report.deleted += usize::from(is_deleted);
                        }
                    }
                }
            }
            Ok(report)
        })
    }

    /// Searches the whole table for work without a hint, and hints at it: for what no writer of this
    /// library does, such as hints that somebody deleted, or clocks that were hours apart.
    pub fn restore_hints(&self) -> Call<'_, SweepReport> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let hints = self.hints(None, &settings).await?;
            let mut report =
                SweepReport { hints: hints.values().map(Vec::len).sum(), ..SweepReport::default() };
            let rows = self.table.filter::<DynEntity>(rows::filter(None)).allow_scan();
            let mut rows = rows.with_settings(settings.clone()).stream();
            let mut last = None;
            while let Some(row) = rows.try_next().await? {
                let partition = row.partition();
                if last.as_deref() == Some(partition) {
                    continue;
                }
                last = Some(partition.to_owned());
                if !hints.contains_key(partition) {
                    self.forget_hinted();
                    self.hint(partition, &settings).await?;
                    self.notify(partition).await;
                    report.restored += 1;
                }
            }
            Ok(report)
        })
    }

    /// Lets the next hint be written, whatever this process wrote in this minute.
    pub(super) fn forget_hinted(&self) {
        *self.hinted.lock().unwrap_or_else(PoisonError::into_inner) = Hinted::default();
    }
}

/// How long a hint lives at least.
pub(super) const GRACE: Duration = MINUTE.saturating_mul(5);
