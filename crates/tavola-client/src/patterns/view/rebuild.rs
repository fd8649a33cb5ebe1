//! A view computed anew beside the one that is read, and compared with its changes.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;

use super::apply::Caught;
use super::rows::{Control, Snapshot, is_position};
use super::{Applied, Project, View};
use crate::call::Call;
use crate::client::ATTEMPTS_MAX;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity};
use crate::error::{Error, Outcome};
use crate::filter::prop;
use crate::patterns::drift::{DriftReport, applied};
use crate::query::Query;
use crate::written::{IfMatch, Mode};

/// Rows that one transaction deletes.
const DELETED_AT_ONCE: usize = 100;

impl<S: Entity, P: Project<S>> View<S, P> {
    /// Computes the view anew from all changes, beside the one that is read and written, then lets
    /// readers read the new one, and deletes the rows of older ones. For a [`Project`] that
    /// changed, and for rows that somebody else broke. Of two rebuilds the one that began last
    /// counts.
    pub fn rebuild(&self) -> Call<'_, Applied> {
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            let generation = self.begin(&settings).await?;
            let mut done = Applied::default();
            if let Some(before) = self.build(generation, &mut done, &settings).await? {
                self.retire(before, &settings).await?;
                self.clean(generation, &settings).await?;
            }
            Ok(done)
        })
    }

    /// A generation that nobody else builds.
    async fn begin(&self, settings: &CallSettings) -> Result<i64, Error> {
        for attempt in 0..ATTEMPTS_MAX {
            let mut control = self.control(settings).await?;
            control.last += 1;
            if self.write_control(&control, settings).await? {
                return Ok(control.last);
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.contended())
    }

    /// True if it was written; after an unknown outcome it is read again.
    async fn write_control(
        &self,
        control: &Control,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let row = control.row(&self.name)?;
        let write = match &control.version {
            Some(version) => {
                self.table.update(&row, Mode::Replace, IfMatch::Version(version.clone()))
            }
            None => self.table.insert(&row),
        };
        match write.with_settings(settings.clone()).await {
            Err(error) if error.outcome() == Outcome::Unknown => Ok(false),
            written => applied(written),
        }
    }

    /// Brings the generation up to date and lets it be read. Returns the one that was read before;
    /// `None` if a newer one is read already.
    async fn build(
        &self,
        generation: i64,
        done: &mut Applied,
        settings: &CallSettings,
    ) -> Result<Option<i64>, Error> {
        let mut before = None;
        for attempt in 0..ATTEMPTS_MAX {
            let (caught, progress) = self.catch_up(generation, done, settings).await?;
            let mut control = self.control(settings).await?;
            if control.live >= generation || matches!(caught, Caught::Retired) {
                // Its own, if the reply to the switch was lost.
                return Ok(before.filter(|_| control.live == generation));
            }
            // Readers must not lose a change that they have seen.
            let live = self.position(control.live, settings).await?;
            let is_behind = live.is_some_and(|live| live.at > progress.at && !live.is_retired);
            if !is_behind {
                before = Some(control.live);
                control.live = generation;
                if self.write_control(&control, settings).await? {
                    return Ok(before);
                }
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.contended())
    }

    /// Tells those who still write to a generation that it is no longer read.
    async fn retire(&self, generation: i64, settings: &CallSettings) -> Result<(), Error> {
        let retired = self.retired(generation)?;
        let retire = self.table.upsert(&retired, Mode::Replace);
        retire.with_settings(settings.clone()).await.map(drop)
    }

    /// Deletes the rows of all generations before this one; their positions remain.
    async fn clean(&self, generation: i64, settings: &CallSettings) -> Result<(), Error> {
        let older = prop("PartitionKey")
            .ge(self.partition(0))
            .and(prop("PartitionKey").lt(self.partition(generation)));
        let keys = Query::keys(&self.table, older.as_core().cloned()?);
        let keys = keys.with_settings(settings.clone());
        let keys: Vec<_> = keys.stream().try_collect().await?;
        let mut generations: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (key, _) in keys.iter().filter(|(key, _)| !is_position(key.row_key.as_str())) {
            let rows = generations.entry(key.partition_key.as_str()).or_default();
            rows.push(key.row_key.as_str());
        }
        for (partition, rows) in generations {
            for rows in rows.chunks(DELETED_AT_ONCE) {
                self.delete(partition, rows, settings).await?;
            }
        }
        Ok(())
    }

    async fn delete(
        &self,
        partition: &str,
        rows: &[&str],
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let mut all = self.table.transaction(partition);
        for row in rows {
            all.delete_row(*row)?;
        }
        match all.send(settings.clone()).await {
            Err(error) if error.is_not_found() => {}
            sent => return sent.map(drop),
        }
        // Somebody else cleans too.
        for row in rows {
            let delete = self.table.delete_if_exists::<DynEntity>((partition, *row));
            delete.with_settings(settings.clone()).await?;
        }
        Ok(())
    }

    pub(super) async fn compare(&self, settings: &CallSettings) -> Result<DriftReport, Error> {
        let mut report = DriftReport::default();
        for attempt in 0..ATTEMPTS_MAX {
            let live = self.control(settings).await?.live;
            let found = Snapshot::<P::Row>::read(self, live, settings).await?;
            let again = self.position(live, settings).await?;
            report.requests += found.pages + 2;
            let version = |position: &Option<super::rows::Position>| {
                position.as_ref().map(|position| (position.version.clone(), position.is_retired))
            };
            let (before, after) = (version(&found.position), version(&again));
            if before != after || after.is_some_and(|(_, is_retired)| is_retired) {
                self.table.pause_after_conflict(attempt).await;
                continue;
            }
            let at = again.map(|position| position.at).unwrap_or_default();
            let expected = self.fold_all(&at, &mut report, settings).await?;
            report.read += found.rows.len();
            let keys: BTreeSet<_> = expected.keys().chain(found.rows.keys()).collect();
            for key in keys {
                match (expected.get(key), found.rows.get(key)) {
                    (Some(_), None) => report.missing += 1,
                    (None, Some(_)) => report.orphan += 1,
                    (Some(expected), Some(found)) if expected != found => report.stale += 1,
                    _ => {}
                }
            }
            return Ok(report);
        }
        Err(self.contended())
    }

    /// What the changes up to a position come to.
    async fn fold_all(
        &self,
        at: &str,
        report: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<BTreeMap<String, P::Row>, Error> {
        let changes = self.behind("").and(prop("RowKey").le(at)).allow_scan();
        let mut pages = changes.with_settings(settings.clone()).pages();
        let mut rows = BTreeMap::new();
        while let Some(page) = pages.try_next().await? {
            report.requests += 1;
            report.read += page.items.len();
            for change in &page.items {
                for key in self.project.keys(change) {
                    let row = self.project.fold(&key, rows.remove(&key), change);
                    rows.extend(row.map(|row| (key, row)));
                }
            }
        }
        Ok(rows)
    }
}
