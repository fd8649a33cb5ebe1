//! Index rows in other partitions that are not as their entities say: found, and mended.

use std::collections::BTreeSet;

use futures_util::TryStreamExt as _;

use super::IndexedEventually;
use super::settle::Settling;
use crate::call::Call;
use crate::continuation::Continuation;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::Error;
use crate::key::EntityKey;
use crate::patterns::drift::DriftReport;
use crate::patterns::housekeeping::{BASE, BASE_PARTITION};
use crate::patterns::indexed::drift::{entity_of, id_of};
use crate::patterns::indexed::rows::{self, CopyRow};
use crate::patterns::indexed::write::{base_of, has_row};

/// One look.
struct Look<'a, E> {
    staff: &'a IndexedEventually<E>,
    settings: CallSettings,
    mends: bool,
    report: DriftReport,
}

impl<E: Entity> IndexedEventually<E> {
    /// Compares all index rows in other partitions with their entities, beside writers: a scan of the
    /// table, one request for each index row in either direction, and a few for each that seems wrong.
    /// What still waits in the outbox is not there yet, and counts.
    pub fn verify(&self) -> Call<'_, DriftReport> {
        Call::new(self.indexed.table.engine().settings(), move |settings| async move {
            self.look_at_all(false, settings).await
        })
    }

    /// The same, and mends what is wrong.
    pub fn rebuild(&self) -> Call<'_, DriftReport> {
        Call::new(self.indexed.table.engine().settings(), move |settings| async move {
            self.look_at_all(true, settings).await
        })
    }

    /// A part of a rebuild: one page of the table, of up to 1,000 rows, from where an earlier part
    /// ended. The token can be kept, and is `None` in the end.
    pub fn rebuild_from(
        &self,
        from: Option<Continuation>,
    ) -> Call<'_, (DriftReport, Option<Continuation>)> {
        Call::new(self.indexed.table.engine().settings(), move |settings| async move {
            self.look_from(from, true, settings).await
        })
    }

    async fn look_at_all(&self, mends: bool, settings: CallSettings) -> Result<DriftReport, Error> {
        let mut all = DriftReport::default();
        let mut from = None;
        loop {
            let (one, next) = self.look_from(from, mends, settings.clone()).await?;
            all.add(&one);
            from = next;
            if from.is_none() {
                return Ok(all);
            }
        }
    }

    async fn look_from(
        &self,
        from: Option<Continuation>,
        mends: bool,
        settings: CallSettings,
    ) -> Result<(DriftReport, Option<Continuation>), Error> {
        let rows = self.indexed.table.scan::<DynEntity>().resume(from);
        let mut pages = rows.with_settings(settings.clone()).pages();
        let report = DriftReport { requests: 1, ..DriftReport::default() };
        let mut look = Look { staff: self, settings, mends, report };
        let Some(page) = pages.try_next().await? else { return Ok((look.report, None)) };
        for row in &page.items {
            look.at(row).await?;
        }
        Ok((look.report, page.next))
    }
}

impl<E: Entity> Look<'_, E> {
    async fn at(&mut self, row: &Stored<DynEntity>) -> Result<(), Error> {
        if row.partition().starts_with('!') || row.row().starts_with('!') {
            return Ok(());
        }
        if row.value(BASE_PARTITION).is_some() {
            self.report.read += 1;
            return self.at_index_row(row).await;
        }
        let begins = E::KEYS.is_none_or(|keys| {
            row.partition().starts_with(keys.partition) && row.row().starts_with(keys.row)
        });
        if !begins || row.value(BASE).is_some() {
            return Ok(());
        }
        let Some(entity) = entity_of::<E>(row)? else { return Ok(()) };
        self.report.read += 1;
        let wanted = rows::far_copies(&entity, row, &id_of::<E>(row))?;
        self.at_entity(row, &wanted).await
    }

    async fn get<T: Entity>(&mut self, key: &EntityKey) -> Result<Option<Stored<T>>, Error> {
        self.report.requests += 1;
        self.staff.indexed.table.get::<T>(key).with_settings(self.settings.clone()).await
    }

    /// An index row, of whatever type it is: its entity must have it.
    async fn at_index_row(&mut self, row: &Stored<DynEntity>) -> Result<(), Error> {
        let Some(key) = base_of(row)? else { return Ok(()) };
        if !self.is_one_of_ours(row.key(), &key) {
            return Ok(());
        }
        if self.get::<E>(&key).await?.is_some_and(|base| has_row(&base, row.key())) {
            return Ok(());
        }
        if self.mends {
            let keys = BTreeSet::from([row.key().clone()]);
            let deleted = self.settle(&key, &keys).await?;
            self.report.orphan += deleted;
            return Ok(());
        }
        // The entity may have been given the value since the scan, and a worker the row.
        let again = self.get::<DynEntity>(row.key()).await?;
        let is_same = again.is_some_and(|again| again.etag() == row.etag());
        if is_same && !self.get::<E>(&key).await?.is_some_and(|base| has_row(&base, row.key())) {
            self.report.orphan += 1;
        }
        Ok(())
    }

    /// True if this type can have such a row: others of the table have indexes too.
    fn is_one_of_ours(&self, row: &EntityKey, base: &EntityKey) -> bool {
        let is_base = E::KEYS.is_none_or(|keys| {
            base.partition().starts_with(keys.partition) && base.row().starts_with(keys.row)
        });
        let mut far = E::INDEXES.iter().filter(|index| !index.same_partition);
        is_base && far.any(|index| row.row().starts_with(index.row))
    }

    async fn at_entity(
        &mut self,
        base: &Stored<DynEntity>,
        wanted: &[CopyRow],
    ) -> Result<(), Error> {
        let mut drift = DriftReport::default();
        for copy in wanted {
            match self.get::<DynEntity>(&copy.key).await? {
                None => drift.missing += 1,
                Some(row) if copy.is_said_by(&row) => {}
                Some(row) => match base_of(&row)? {
                    Some(holder)
                        if holder != *base.key() && self.is_held(&holder, copy).await? =>
                    {
                        drift.duplicate += 1;
                    }
                    _ => drift.stale += 1,
                },
            }
        }
        if drift.is_clean() {
            return Ok(());
        }
        if self.mends && drift.missing + drift.stale > 0 {
            let (missing, stale) = (self.report.missing, self.report.stale);
            self.settle(base.key(), &BTreeSet::new()).await?;
            drift.missing = self.report.missing - missing;
            drift.stale = self.report.stale - stale;
            self.report.duplicate += drift.duplicate;
            return Ok(());
        }
        let again = self.get::<DynEntity>(base.key()).await?;
        if again.is_some_and(|again| again.etag() == base.etag()) {
            self.report.add(&drift);
        }
        Ok(())
    }

    async fn is_held(&mut self, holder: &EntityKey, copy: &CopyRow) -> Result<bool, Error> {
        Ok(self.get::<E>(holder).await?.is_some_and(|holder| has_row(&holder, &copy.key)))
    }

    /// Mends the rows of an entity, counts what was done, and returns how many were deleted.
    async fn settle(
        &mut self,
        key: &EntityKey,
        keys: &BTreeSet<EntityKey>,
    ) -> Result<usize, Error> {
        let table = &self.staff.indexed.table;
        let mut settling = Settling::new(table, key, &self.settings);
        settling.run::<E>(keys, &BTreeSet::new()).await?;
        let tally = settling.tally;
        self.report.requests += tally.requests;
        self.report.missing += tally.inserted;
        self.report.stale += tally.replaced;
        self.report.mended += tally.inserted + tally.replaced + tally.deleted;
        Ok(tally.deleted)
    }
}
