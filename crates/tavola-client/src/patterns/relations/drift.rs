//! Numbers of parents that others broke: found, and mended beside writers.

use std::collections::BTreeMap;

use super::OneToMany;
use crate::call::Call;
use crate::client::ATTEMPTS_MAX;
use crate::engine::CallSettings;
use crate::entity::{Entity, Stored};
use crate::error::Error;
use crate::key::EntityKey;
use crate::patterns::drift::{DriftReport, applied};
use crate::patterns::stamped::{Stamped, all_of};

impl<P: Entity, C: Entity> OneToMany<P, C> {
    /// Counts the children of a partition anew, beside writers: parents whose numbers are others
    /// are `stale`, children without a parent `orphan`. One request for each 1,000 children and
    /// 1,000 parents; for each parent that seems wrong it reads again.
    pub fn verify(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), false)
    }

    /// The same, and writes the right numbers. Children without a parent stay.
    pub fn rebuild(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), true)
    }

    fn look(&self, partition: String, mends: bool) -> Call<'_, DriftReport> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let mut report = DriftReport::default();
            let parents = self.parents(&partition, &mut report, &settings).await?;
            let mut sums = self.sums(&partition, &mut report, &settings).await?;
            report.read = parents.len() + sums.values().map(|(_, count)| count).sum::<usize>();
            for mut parent in parents {
                let numbers = self.numbers(&mut parent);
                let key = parent.key().clone();
                let wanted = sums.remove(&key).map(|(sums, _)| sums);
                if wanted.unwrap_or_else(|| vec![0; numbers.len()]) != numbers {
                    self.settle(&key, mends, &mut report, &settings).await?;
                }
            }
            for (parent, (_, children)) in sums {
                // It may have come since.
                report.requests += 1;
                let get = self.table.get::<P>(&parent).with_settings(settings.clone());
                report.orphan += if get.await?.is_none() { children } else { 0 };
            }
            Ok(report)
        })
    }

    async fn parents(
        &self,
        partition: &str,
        report: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<Vec<Stored<P>>, Error> {
        let (parents, requests) = all_of::<P>(&self.table, partition, settings).await?;
        report.requests += requests;
        Ok(parents)
    }

    /// What the children add up to, by parent, and how many they are.
    async fn sums(
        &self,
        partition: &str,
        report: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<BTreeMap<EntityKey, (Vec<i64>, usize)>, Error> {
        let (children, requests) = all_of::<C>(&self.table, partition, settings).await?;
        report.requests += requests;
        let mut sums = BTreeMap::new();
        for child in children {
            let none = || (vec![0; self.counters.len()], 0);
            let (sums, count) = sums.entry(self.parent_of(&child)?).or_insert_with(none);
            *count += 1;
            sums.iter_mut().zip(self.amounts(&child)).for_each(|(sum, amount)| *sum += amount);
        }
        Ok(sums)
    }

    /// Counts the children of one parent. Adding or removing one writes the parent, so that its
    /// version says that nobody did.
    async fn settle(
        &self,
        key: &EntityKey,
        mends: bool,
        report: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        for attempt in 0..ATTEMPTS_MAX {
            report.requests += 2;
            let get = self.table.get::<P>(key).with_settings(settings.clone());
            let Some(mut parent) = get.await? else { return Ok(()) };
            let mut sums = self.sums(key.partition(), report, settings).await?;
            let numbers = self.numbers(&mut parent);
            let wanted = sums.remove(key).map(|(sums, _)| sums);
            let wanted = wanted.unwrap_or_else(|| vec![0; numbers.len()]);
            let is_wrong = wanted != numbers;
            let is_settled = if is_wrong && mends {
                self.set_numbers(&mut parent, &wanted);
                let mut all = self.table.transaction(key.partition());
                let random = self.table.engine().runtime.random();
                Stamped::replace(&parent, random)?.add_to(&mut all)?;
                applied(all.send(settings.clone()).await)?
            } else {
                let again = self.table.get::<P>(key).with_settings(settings.clone()).await?;
                again.is_some_and(|again| again.etag() == parent.etag())
            };
            if is_settled {
                report.stale += usize::from(is_wrong);
                report.mended += usize::from(is_wrong && mends);
                return Ok(());
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.table.contended(key))
    }
}
