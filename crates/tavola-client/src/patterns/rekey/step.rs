//! From phase to phase.

use futures_util::TryStreamExt as _;
use futures_util::stream::{self, StreamExt as _};

use super::sync::{Image, base_of};
use super::{PHASE, Rekey, RekeyPhase};
use crate::call::Call;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, Outcome};
use crate::key::EntityKey;
use crate::patterns::drift::{DriftReport, applied};
use crate::written::{IfMatch, Mode};

/// Rows that are copied or compared at a time.
const PARALLEL: usize = 8;

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RekeyStep {
    /// The phase that was reached; the same as before if another client was faster.
    pub phase: RekeyPhase,
    /// How many entities this step copied.
    pub copied: usize,
    /// What the comparison found and mended: `missing` and `stale` rows under new keys, and
    /// `orphan` ones whose entity is gone.
    pub drift: DriftReport,
}

impl<A, B> Rekey<A, B>
where
    A: Entity,
    B: Entity + for<'a> From<&'a A>,
{
    /// Waits a lease, does what the phase is for, and goes to the next one. Several clients may do
    /// it, and one may go on where another one died.
    pub fn step(&self) -> Call<'_, RekeyStep> {
        Call::new(self.old.engine().settings(), move |settings: CallSettings| async move {
            let (phase, row) = self.read_control(&settings).await?;
            let (mut copied, mut drift) = (0, DriftReport::default());
            if phase.writes_both() {
                // The row was written before this read: after a lease no client uses an older one.
                self.old.engine().runtime.sleep(self.lease).await;
            }
            match phase {
                RekeyPhase::Done => return Ok(RekeyStep { phase, copied, drift }),
                RekeyPhase::Backfill => copied = self.backfill(&settings).await?,
                RekeyPhase::Verify => self.compare(&mut drift, &settings).await?,
                _ => {}
            }
            let reached = self.advance(phase.next(), row.as_ref(), &settings).await?;
            Ok(RekeyStep { phase: reached, copied, drift })
        })
    }

    async fn advance(
        &self,
        next: RekeyPhase,
        row: Option<&Stored<DynEntity>>,
        settings: &CallSettings,
    ) -> Result<RekeyPhase, Error> {
        let key = self.control_key()?;
        let mut control = DynEntity::new(key.partition(), key.row());
        control.set(PHASE, next.text());
        let write = match row {
            Some(row) => {
                let if_match = IfMatch::Version(row.etag().clone());
                self.new.update(&control, Mode::Replace, if_match)
            }
            None => self.new.insert(&control),
        };
        match applied(write.with_settings(settings.clone()).await) {
            Ok(true) => Ok(next),
            Ok(false) => self.read_control(settings).await.map(|(phase, _)| phase),
            Err(error) if error.outcome() == Outcome::Unknown => {
                self.read_control(settings).await.map(|(phase, _)| phase)
            }
            Err(error) => Err(error),
        }
    }

    /// Inserts what has no row under its new key. What has one is left alone: writers keep it.
    async fn backfill(&self, settings: &CallSettings) -> Result<usize, Error> {
        let mut copied = 0;
        let mut pages = self.old.scan::<DynEntity>().with_settings(settings.clone()).pages();
        while let Some(page) = pages.try_next().await? {
            let copies = page.items.into_iter().map(|row| self.copy(row, settings));
            let copies: Vec<_> = copies.collect();
            let mut copies = stream::iter(copies).buffered(PARALLEL);
            while let Some(is_copied) = copies.next().await {
                copied += usize::from(is_copied?);
            }
        }
        Ok(copied)
    }

    /// Inserts one row under its new key; false if there is one, or none is wanted.
    async fn copy(&self, row: Stored<DynEntity>, settings: &CallSettings) -> Result<bool, Error> {
        let Some(image) = self.image_of(&row)? else { return Ok(false) };
        // A copy that comes after the comparison could bring back what was deleted.
        let held = self.hold(settings).await?;
        if held.phase > RekeyPhase::Backfill {
            return Ok(false);
        }
        let settings = self.within(held, settings)?;
        applied(self.new.insert(&image.row).with_settings(settings).await)
    }

    /// Compares all rows of both, and makes the new ones what the old ones are.
    async fn compare(&self, drift: &mut DriftReport, settings: &CallSettings) -> Result<(), Error> {
        let mut pages = self.old.scan::<DynEntity>().with_settings(settings.clone()).pages();
        while let Some(page) = pages.try_next().await? {
            drift.requests += 1;
            for row in &page.items {
                let Some(image) = self.image_of(row)? else { continue };
                drift.read += 1;
                self.compare_one(row.key(), &image, drift, settings).await?;
            }
        }
        let mut pages = self.new.scan::<DynEntity>().with_settings(settings.clone()).pages();
        while let Some(page) = pages.try_next().await? {
            drift.requests += 1;
            for row in &page.items {
                let Some(base) = base_of(row)? else { continue };
                drift.read += 1;
                self.check_orphan(&base, row.key(), drift, settings).await?;
            }
        }
        Ok(())
    }

    async fn compare_one(
        &self,
        old: &EntityKey,
        image: &Image,
        drift: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let new = image.row.entity_key()?;
        let stored = self.new.get::<DynEntity>(&new).with_settings(settings.clone()).await?;
        drift.requests += 1;
        match &stored {
            Some(stored) if image.is_in(stored)? => return Ok(()),
            Some(_) => drift.stale += 1,
            None => drift.missing += 1,
        }
        self.mend(old, &new, drift, settings).await
    }

    async fn check_orphan(
        &self,
        old: &EntityKey,
        new: &EntityKey,
        drift: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let image = self.read_image(old, settings).await?;
        drift.requests += 1;
        match image.map(|image| image.row.entity_key()).transpose()? {
            Some(own) if own == *new => Ok(()),
            _ => {
                drift.orphan += 1;
                self.mend(old, new, drift, settings).await
            }
        }
    }

    async fn mend(
        &self,
        old: &EntityKey,
        new: &EntityKey,
        drift: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let held = self.hold(settings).await?;
        if held.phase == RekeyPhase::Done {
            // Another client has ended it; the old rows are no longer the true ones.
            return Ok(());
        }
        let image = self.read_image(old, settings).await?;
        self.settle(old, new, image, held, settings).await?;
        drift.mended += 1;
        drift.requests += 4;
        Ok(())
    }
}
