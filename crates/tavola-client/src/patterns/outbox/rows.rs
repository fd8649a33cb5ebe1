//! The rows of work.

use std::time::SystemTime;

use serde::Serialize;
use tavola_core::EntityKey as CoreKey;
use time::OffsetDateTime;

use super::Outbox;
use crate::client::TableClient;
use crate::engine::{CallSettings, Operation};
use crate::entity::{DynEntity, Stored, encode_properties};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::etag::ETag;
use crate::filter::{AnyFilter, prop};
use crate::key::EntityKey;
use crate::patterns::housekeeping::{core, from_ticks, ticks};
use crate::prepare::{Prepared, WRITE_ID, write_id};
use crate::query::Query;
use crate::unknown::Claim;
use crate::written::{IfMatch, Mode};

/// How the rows of work begin.
pub(super) const BEGIN: &str = "!ob!";
/// What follows all of them.
const END: &str = "!ob\"";

pub(super) const STEP: &str = "step";
pub(super) const JOB: &str = "job";
pub(super) const ATTEMPTS: &str = "attempts";
const DUE: &str = "due";
pub(super) const ERROR: &str = "error";

/// The most of an error's text that is kept, in bytes.
const ERROR_BYTES_MAX: usize = 1024;

/// Now, by the clock of a table's client.
pub(super) fn now(table: &TableClient) -> OffsetDateTime {
    let now = table.engine().runtime.time_of_day();
    OffsetDateTime::UNIX_EPOCH + now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Work that is about to be written.
pub(super) struct NewWork {
    key: EntityKey,
    row: DynEntity,
    id: String,
}

impl NewWork {
    pub(super) fn new<J: Serialize + ?Sized>(
        outbox: &Outbox,
        partition: &str,
        step: &str,
        job: &J,
    ) -> Result<Self, Error> {
        let job = serde_json::to_string(job).map_err(|error| {
            let text = format!("the job of the step `{step}` cannot be written as JSON");
            Error::invalid(Rule::PropertyText, text).with_source(error)
        })?;
        let (now, random) = (now(&outbox.table), outbox.table.engine().runtime.random());
        let row = format!("{BEGIN}{:019}!{random:016x}", ticks(now)?);
        Self::again(EntityKey::new(partition, row)?, step, &job, now, random)
    }

    /// Work under the key that it has or had.
    pub(super) fn again(
        key: EntityKey,
        step: &str,
        job: &str,
        due: OffsetDateTime,
        random: u64,
    ) -> Result<Self, Error> {
        let mut row = DynEntity::new(key.partition(), key.row());
        row.set(STEP, step);
        row.set(JOB, job);
        row.set(ATTEMPTS, 0);
        row.set(DUE, due);
        Ok(Self { key, row, id: write_id(0, random) })
    }

    fn prepared(&self) -> Result<Prepared, Error> {
        let properties = encode_properties(&self.row, &[])?;
        let id = (WRITE_ID.to_owned(), self.id.clone());
        Prepared::with_write_id(core(&self.key), properties, Some(id))
    }

    pub(super) fn insert(&self) -> Result<(CoreKey, Operation), Error> {
        Ok((core(&self.key), self.prepared()?.insert(Claim::Insert)))
    }

    pub(super) fn upsert(&self) -> Result<(CoreKey, Operation), Error> {
        Ok((core(&self.key), self.prepared()?.upsert(Mode::Replace)))
    }
}

/// Work as it was read.
#[derive(Debug, Clone)]
pub(super) struct WorkRow {
    pub(super) key: EntityKey,
    /// `None` if a lost reply would have said it.
    pub(super) etag: Option<ETag>,
    pub(super) step: String,
    pub(super) job: String,
    pub(super) attempts: u32,
    pub(super) due: OffsetDateTime,
    /// When it was added, by the writer's clock.
    pub(super) added: OffsetDateTime,
}

impl WorkRow {
    pub(super) fn read(row: &Stored<DynEntity>) -> Result<Self, Error> {
        Ok(Self {
            key: row.key().clone(),
            etag: Some(row.etag().clone()),
            step: row.get(STEP)?,
            job: row.get(JOB)?,
            attempts: u32::try_from(row.get::<i32>(ATTEMPTS)?).unwrap_or_default(),
            due: row.get(DUE)?,
            added: added(row.key().row())?,
        })
    }

    /// Takes the work until `until`, unless another worker did; then `None`.
    pub(super) async fn claim(
        &self,
        table: &TableClient,
        until: OffsetDateTime,
        settings: &CallSettings,
    ) -> Result<Option<Self>, Error> {
        let attempts = self.attempts + 1;
        let mut row = self.changed();
        row.set(ATTEMPTS, i32::try_from(attempts).unwrap_or(i32::MAX));
        row.set(DUE, until);
        let etag = self.write(table, &row, settings).await?;
        Ok(etag.map(|etag| Self { etag, attempts, due: until, ..self.clone() }))
    }

    /// Gives the work another time. Nothing happens if another worker took it.
    pub(super) async fn defer(
        &mut self,
        table: &TableClient,
        due: OffsetDateTime,
        error: Option<&str>,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let mut row = self.changed();
        row.set(DUE, due);
        if let Some(error) = error {
            row.set(ERROR, shortened(error));
        }
        if let Some(etag) = self.write(table, &row, settings).await? {
            (self.etag, self.due) = (etag, due);
        }
        Ok(())
    }

    fn changed(&self) -> DynEntity {
        DynEntity::new(self.key.partition(), self.key.row())
    }

    /// Merges a change if the row is as it was read. The id of the write decides a lost reply.
    async fn write(
        &self,
        table: &TableClient,
        row: &DynEntity,
        settings: &CallSettings,
    ) -> Result<Option<Option<ETag>>, Error> {
        let Some(etag) = &self.etag else { return Ok(None) };
        let id = write_id(u64::from(self.attempts) + 1, table.engine().runtime.random());
        let properties = encode_properties(row, &[])?;
        let id = Some((WRITE_ID.to_owned(), id));
        let prepared = Prepared::with_write_id(core(&self.key), properties, id)?;
        let operation = prepared.update(Mode::Merge, &IfMatch::Version(etag.clone()))?;
        match table.send_one("update", core(&self.key), operation, settings).await {
            Ok(finished) => Ok(Some(crate::written::Written::one(finished).etag)),
            // Another worker has it, or had it; if nobody knows, it is due again later.
            Err(error) if matches!(error.status(), Some(404 | 412)) => Ok(None),
            Err(error) if error.outcome() == Outcome::Unknown => Ok(None),
            Err(error) => Err(error),
        }
    }
}

pub(super) fn shortened(text: &str) -> &str {
    let mut end = text.len().min(ERROR_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The time in a key.
pub(super) fn added(row: &str) -> Result<OffsetDateTime, Error> {
    let ticks = row.strip_prefix(BEGIN).and_then(|row| row.get(..19)?.parse().ok());
    ticks.map_or_else(
        || {
            let text = format!("'{row}' is no row of an outbox");
            Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text))
        },
        from_ticks,
    )
}

/// The rows of work of all partitions, or of one.
pub(super) fn filter(partition: Option<&str>) -> AnyFilter {
    let rows = prop("RowKey").ge(BEGIN).and(prop("RowKey").lt(END));
    match partition {
        Some(partition) => prop("PartitionKey").eq(partition).and(rows),
        None => rows,
    }
}

/// The work of a partition, the oldest first.
pub(super) fn query<'a>(
    table: &'a TableClient,
    partition: &str,
    settings: &CallSettings,
) -> Query<'a, DynEntity> {
    let rows = table.filter::<DynEntity>(filter(Some(partition)));
    rows.allow_scan().with_settings(settings.clone())
}
