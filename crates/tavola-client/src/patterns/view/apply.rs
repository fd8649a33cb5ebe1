//! Changes, folded into the rows of a view.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;

use super::{Applied, Project, View, rows};
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, Transaction};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::etag::ETag;
use crate::patterns::drift::applied;
use crate::patterns::housekeeping::core;
use crate::written::Mode;

/// Rows that one transaction writes beside the position.
const ROWS_MAX: usize = 99;
/// Changes that are read at a time.
const CHANGES_MAX: usize = 1000;
/// Rows that are read at a time.
const PARALLEL: usize = 8;

/// Where a generation stands while changes are applied to it.
pub(super) struct Progress {
    pub(super) generation: i64,
    pub(super) at: String,
    version: Option<ETag>,
}

/// What became of an attempt to bring a generation up to date.
pub(super) enum Caught {
    /// It has all changes.
    Up,
    /// Another generation is read now.
    Retired,
}

/// Some rows of the view: as they were, and as they will be.
type Folded<R> = BTreeMap<String, (bool, Option<R>)>;

impl<S: Entity, P: Project<S>> View<S, P> {
    /// Brings all changes into the view that it does not have yet. Any number of clients may do it
    /// at once; each change counts once.
    pub fn apply(&self) -> Call<'_, Applied> {
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            let mut done = Applied::default();
            for _ in 0..ATTEMPTS_MAX {
                let live = self.control(&settings).await?.live;
                match self.catch_up(live, &mut done, &settings).await? {
                    (Caught::Up, _) => return Ok(done),
                    (Caught::Retired, _) => {}
                }
            }
            Err(self.contended())
        })
    }

    /// Brings all changes into one generation.
    pub(super) async fn catch_up(
        &self,
        generation: i64,
        done: &mut Applied,
        settings: &CallSettings,
    ) -> Result<(Caught, Progress), Error> {
        let mut conflicts = 0;
        let mut progress = None;
        loop {
            let mut current = match progress.take() {
                Some(current) => current,
                None => match self.position(generation, settings).await? {
                    Some(position) => {
                        let (at, version) = (position.at, Some(position.version));
                        let current = Progress { generation, at, version };
                        if position.is_retired {
                            return Ok((Caught::Retired, current));
                        }
                        current
                    }
                    None => Progress { generation, at: String::new(), version: None },
                },
            };
            let query = self.behind(&current.at).take(CHANGES_MAX).with_settings(settings.clone());
            let changes: Vec<_> = query.stream().try_collect().await?;
            let is_last = changes.len() < CHANGES_MAX;
            // A generation without changes has a position too, so that it is known to be one.
            if changes.is_empty() && current.version.is_some() {
                return Ok((Caught::Up, current));
            }
            let before = done.changes;
            if self.apply_all(&mut current, &changes, done, settings).await? {
                if is_last {
                    return Ok((Caught::Up, current));
                }
                progress = current.version.is_some().then_some(current);
                continue;
            }
            conflicts = if done.changes > before { 0 } else { conflicts + 1 };
            if conflicts == ATTEMPTS_MAX {
                return Err(self.contended());
            }
            self.table.pause_after_conflict(conflicts).await;
        }
    }

    /// Applies some changes, in as many transactions as it takes; false if somebody was faster.
    async fn apply_all(
        &self,
        progress: &mut Progress,
        mut changes: &[Stored<S>],
        done: &mut Applied,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let mut most = changes.len();
        loop {
            let taken = self.fitting(&changes[..most.min(changes.len())])?;
            let (now, later) = changes.split_at(taken);
            let folded = self.fold(progress.generation, now, settings).await?;
            let at = now.last().map_or(progress.at.as_str(), |last| last.key().row()).to_owned();
            let all = match self.transaction(progress, &at, &folded) {
                Err(error) if taken > 1 && is_too_large(&error) => {
                    most = taken / 2;
                    continue;
                }
                all => all?,
            };
            let version = match all.send(settings.clone()).await {
                Ok(written) => written.into_iter().next().and_then(|written| written.etag),
                Err(error) => return applied::<()>(Err(error)),
            };
            done.changes += taken;
            done.transactions += 1;
            (progress.at, progress.version) = (at, version);
            changes = later;
            if changes.is_empty() {
                return Ok(true);
            }
            if progress.version.is_none() {
                return Ok(false);
            }
        }
    }

    /// How many of the changes are about no more rows than a transaction writes.
    fn fitting(&self, changes: &[Stored<S>]) -> Result<usize, Error> {
        let mut keys = std::collections::BTreeSet::new();
        for (at, change) in changes.iter().enumerate() {
            keys.extend(self.project.keys(change));
            if keys.len() > ROWS_MAX {
                if at > 0 {
                    return Ok(at);
                }
                let (found, key) = (keys.len(), change.key());
                let text = format!(
                    "the change {key} is about {found} rows of the view; a transaction writes \
                     {ROWS_MAX}"
                );
                return Err(Error::beyond(Rule::Transaction, ROWS_MAX, found, text));
            }
        }
        Ok(changes.len())
    }

    async fn fold(
        &self,
        generation: i64,
        changes: &[Stored<S>],
        settings: &CallSettings,
    ) -> Result<Folded<P::Row>, Error> {
        let keys = changes.iter().flat_map(|change| self.project.keys(change));
        let keys: std::collections::BTreeSet<String> = keys.collect();
        let rows = keys.iter().map(|key| self.row_key(generation, key));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let found = self.table.get_many::<DynEntity, _>(&rows, PARALLEL);
        let found = found.with_settings(settings.clone()).await?;
        let mut folded = Folded::new();
        for (key, row) in keys.into_iter().zip(found) {
            let row = row.map(|row| rows::decode::<P::Row>(&row)).transpose()?;
            folded.insert(key, (row.is_some(), row));
        }
        for change in changes {
            for key in self.project.keys(change) {
                if let Some((_, row)) = folded.get_mut(&key) {
                    *row = self.project.fold(&key, row.take(), change);
                }
            }
        }
        Ok(folded)
    }

    /// Rows and position; the version of the position speaks for all.
    fn transaction(
        &self,
        progress: &Progress,
        at: &str,
        folded: &Folded<P::Row>,
    ) -> Result<Transaction<'_>, Error> {
        let generation = progress.generation;
        let mut all = self.table.transaction(self.partition(generation));
        let (key, operation) = self.moved(generation, at, progress.version.as_ref())?;
        all.add("move", core(&key), operation)?;
        for (key, (was_there, row)) in folded {
            let row_key = self.row_key(generation, key)?;
            match row {
                Some(row) => {
                    all.upsert(&rows::encode(&row_key, row)?, Mode::Replace)?;
                }
                None if *was_there => {
                    all.delete_row(row_key.row())?;
                }
                None => {}
            }
        }
        Ok(all)
    }
}

fn is_too_large(error: &Error) -> bool {
    let is_rule = matches!(error.kind(), ErrorKind::Invalid { rule: Rule::Transaction, .. });
    is_rule && error.outcome() == Outcome::NotSent
}
