//! Work that failed too often: parked until somebody looks at it.

use futures_util::TryStreamExt as _;
use time::OffsetDateTime;

use super::Outbox;
use super::rows::{self, ATTEMPTS, ERROR, JOB, NewWork, STEP, WorkRow};
use crate::call::Call;
use crate::client::TableClient;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Stored};
use crate::error::{Error, Outcome};
use crate::etag::ETag;
use crate::filter::prop;
use crate::key::EntityKey;
use crate::patterns::drift::applied;
use crate::written::{IfMatch, Mode};

/// The partition of all parked work of a table.
const PARTITION: &str = "!poison!";
/// The partition of the change.
const OF: &str = "partition";

/// Work that was parked because it failed too often.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Poisoned {
    /// The row that it was, in the partition of the change.
    pub id: EntityKey,
    /// Its step.
    pub step: String,
    /// Its job, as JSON.
    pub job: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it failed the last time, if a worker lived to say it.
    pub error: Option<String>,
    /// When it was added, by the clock of the writer.
    pub added: OffsetDateTime,
    key: EntityKey,
    etag: ETag,
}

impl Poisoned {
    fn read(row: &Stored<DynEntity>) -> Result<Self, Error> {
        Ok(Self {
            id: EntityKey::new(row.get::<String>(OF)?, row.row())?,
            step: row.get(STEP)?,
            job: row.get(JOB)?,
            attempts: u32::try_from(row.get::<i32>(ATTEMPTS)?).unwrap_or_default(),
            error: row.get(ERROR)?,
            added: rows::added(row.row())?,
            key: row.key().clone(),
            etag: row.etag().clone(),
        })
    }
}

impl Outbox {
    /// The parked work, the oldest first: one request for each 1,000.
    pub fn poisoned(&self) -> Call<'_, Vec<Poisoned>> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let rows = self.table.filter::<DynEntity>(prop("PartitionKey").eq(PARTITION));
            let rows = rows.allow_scan().with_settings(settings);
            rows.resolve(|row| Poisoned::read(&row)).stream().try_collect().await
        })
    }

    /// Gives parked work back to the workers, as if it had never been tried: three requests. If it
    /// is cut in the middle, the work is done, and is still parked; do it again.
    pub fn replay<'a>(&'a self, poisoned: &'a Poisoned) -> Call<'a, ()> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let partition = poisoned.id.partition();
            self.forget_hinted();
            self.hint(partition, &settings).await?;
            let Poisoned { id, step, job, .. } = poisoned;
            let random = self.table.engine().runtime.random();
            let row = NewWork::again(id.clone(), step, job, rows::now(&self.table), random)?;
            let (key, operation) = row.upsert()?;
            self.table.send_one("upsert", key, operation, &settings).await?;
            self.notify(partition).await;
            unpark(&self.table, &poisoned.key, &poisoned.etag, &settings).await
        })
    }

    /// Parks work: first it is written there, then it is deleted here, as it was read.
    pub(super) async fn park(
        &self,
        work: &WorkRow,
        error: Option<&str>,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let Some(etag) = &work.etag else { return Ok(false) };
        let mut row = DynEntity::new(PARTITION, work.key.row());
        row.set(OF, work.key.partition());
        row.set(STEP, work.step.as_str());
        row.set(JOB, work.job.as_str());
        row.set(ATTEMPTS, i32::try_from(work.attempts).unwrap_or(i32::MAX));
        if let Some(error) = error {
            row.set(ERROR, rows::shortened(error));
        }
        let parked = self.table.upsert(&row, Mode::Merge).with_settings(settings.clone()).await?;
        let version = IfMatch::Version(etag.clone());
        let delete = self.table.delete_at::<DynEntity>(&work.key, version);
        match applied(delete.with_settings(settings.clone()).await) {
            Ok(true) => {
                tracing::warn!(key = %work.key, step = work.step, "work is parked");
                return Ok(true);
            }
            // It may be gone; if not, it is parked again.
            Err(error) if error.outcome() == Outcome::Unknown => return Ok(true),
            Err(error) => return Err(error),
            Ok(false) => {}
        }
        // Another worker ended it, or somebody replayed it: it is not parked.
        if let Some(etag) = &parked.etag {
            let key = EntityKey::new(PARTITION, work.key.row())?;
            unpark(&self.table, &key, etag, settings).await?;
        }
        Ok(false)
    }
}

/// Deletes a parked row as it was read; if somebody changed it meanwhile, it stays.
async fn unpark(
    table: &TableClient,
    key: &EntityKey,
    etag: &ETag,
    settings: &CallSettings,
) -> Result<(), Error> {
    let delete = table.delete_at::<DynEntity>(key, IfMatch::Version(etag.clone()));
    match applied(delete.with_settings(settings.clone()).await) {
        Err(error) if error.outcome() == Outcome::Unknown => Ok(()),
        done => done.map(drop),
    }
}
