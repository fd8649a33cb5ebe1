//! Copies that others broke: found, and mended beside writers.

use super::{Copies, OnDelete};
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, Transaction};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::Error;
use crate::key::EntityKey;
use crate::patterns::drift::{DriftReport, applied};
use crate::patterns::stamped::{Stamped, all_of};

/// What is wrong with a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Stale,
    Orphan,
}

impl<S: Entity, D: Entity> Copies<S, D> {
    /// Compares all copies of a partition with their sources, beside writers. One request for each
    /// 1,000 copies and one for each source; two more for each copy that seems wrong.
    pub fn verify(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), false)
    }

    /// The same, and mends what is wrong: what is stale is copied again; what has no source is
    /// cleared or deleted as it would have been with its source, and stays if nobody said how.
    pub fn rebuild(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), true)
    }

    fn look(&self, partition: String, mends: bool) -> Call<'_, DriftReport> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let (copies, requests) = all_of::<D>(&self.table, &partition, &settings).await?;
            let mut report = DriftReport { read: copies.len(), requests, ..DriftReport::default() };
            for mut copy in copies {
                if self.examine(&mut copy, &mut report, &settings).await?.is_some() {
                    self.settle(copy.key(), mends, &mut report, &settings).await?;
                }
            }
            Ok(report)
        })
    }

    /// Compares a copy with its source, and repeats in it what that says.
    async fn examine(
        &self,
        copy: &mut Stored<D>,
        report: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<Option<(Fault, Option<Stored<S>>)>, Error> {
        let Some(key) = self.source_of(copy)? else { return Ok(None) };
        report.requests += 1;
        let get = self.table.get::<S>(&key).with_settings(settings.clone());
        let Some(source) = get.await? else { return Ok(Some((Fault::Orphan, None))) };
        let before = DynEntity::from_entity(&**copy)?;
        (self.copy)(&source, copy);
        let is_stale = DynEntity::from_entity(&**copy)? != before;
        Ok(is_stale.then_some((Fault::Stale, Some(source))))
    }

    async fn settle(
        &self,
        key: &EntityKey,
        mends: bool,
        report: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        for attempt in 0..ATTEMPTS_MAX {
            report.requests += 1;
            let get = self.table.get::<D>(key).with_settings(settings.clone());
            let Some(mut copy) = get.await? else { return Ok(()) };
            let Some((fault, source)) = self.examine(&mut copy, report, settings).await? else {
                return Ok(());
            };
            let mut all = self.table.transaction(key.partition());
            let is_mended = mends && self.mend(&mut copy, fault, &mut all)?;
            if let Some(source) = &source {
                all.guard(source)?;
            }
            report.requests += 1;
            let is_settled = if is_mended {
                applied(all.send(settings.clone()).await)?
            } else {
                // It was wrong at one moment if it is still the same.
                let again = self.table.get::<D>(key).with_settings(settings.clone()).await?;
                again.is_some_and(|again| again.etag() == copy.etag())
            };
            if is_settled {
                match fault {
                    Fault::Stale => report.stale += 1,
                    Fault::Orphan => report.orphan += 1,
                }
                report.mended += usize::from(is_mended);
                return Ok(());
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.table.contended(key))
    }

    /// Adds to a transaction what mends a copy; false if nobody said how.
    fn mend(
        &self,
        copy: &mut Stored<D>,
        fault: Fault,
        all: &mut Transaction<'_>,
    ) -> Result<bool, Error> {
        match (fault, &*self.on_delete) {
            (Fault::Orphan, OnDelete::Refuse) => return Ok(false),
            (Fault::Orphan, OnDelete::DeleteCopies) => {
                all.delete(copy)?;
                return Ok(true);
            }
            (Fault::Orphan, OnDelete::Clear(clear)) => clear(copy),
            (Fault::Stale, _) => {}
        }
        Stamped::replace(copy, self.table.engine().runtime.random())?.add_to(all)?;
        Ok(true)
    }
}
