//! Index rows that others broke: found, and mended beside writers.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;

use super::Indexed;
use super::rows::{self, CopyRow};
use super::write::{base_of, has_row};
use crate::call::Call;
use crate::client::ATTEMPTS_MAX;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, ErrorKind};
use crate::filter::prop;
use crate::key::EntityKey;
use crate::patterns::drift::{DriftReport, applied};
use crate::patterns::housekeeping::core;
use crate::prepare::WRITE_ID;
use crate::unknown::Claim;
use crate::written::{IfMatch, Mode};

/// What a scan leaves to be looked at: a scan of several pages is no single moment.
#[derive(Default)]
struct Suspects {
    entities: BTreeSet<EntityKey>,
    orphans: BTreeSet<EntityKey>,
}

/// One look.
struct Look<'a, E> {
    indexed: &'a Indexed<E>,
    settings: CallSettings,
    mends: bool,
    report: DriftReport,
}

impl<E: Entity> Indexed<E> {
    /// Compares all index rows of a partition with their entities, beside writers. One request for
    /// each 1,000 rows, and a few for each row that seems wrong. It holds the rows in memory.
    pub fn verify(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), false)
    }

    /// The same, and mends what is wrong, each entity under its version.
    pub fn rebuild(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), true)
    }

    fn look(&self, partition: String, mends: bool) -> Call<'_, DriftReport> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let report = DriftReport::default();
            let mut look = Look { indexed: self, settings, mends, report };
            let suspects = look.scan(&partition).await?;
            for key in &suspects.orphans {
                look.settle_orphan(key).await?;
            }
            for key in &suspects.entities {
                look.settle_entity(key).await?;
            }
            Ok(look.report)
        })
    }
}

/// True if the row is one of an index.
fn is_index_row<E: Entity>(row: &str) -> bool {
    let mut here = E::INDEXES.iter().filter(|index| index.same_partition);
    here.any(|index| row.starts_with(index.row))
}

/// The index rows that an entity must have; `None` if the row is of another kind.
fn expected<E: Entity>(row: &DynEntity) -> Result<Option<Vec<CopyRow>>, Error> {
    let Some(entity) = entity_of::<E>(row)? else { return Ok(None) };
    rows::copies(&entity, row, &id_of::<E>(row)).map(Some)
}

/// The entity; `None` if the row is of another kind.
pub(super) fn entity_of<E: Entity>(row: &DynEntity) -> Result<Option<E>, Error> {
    match row.to() {
        Ok(entity) => Ok(Some(entity)),
        Err(error) => match error.kind() {
            ErrorKind::Kind { .. } | ErrorKind::Invalid { .. } => Ok(None),
            _ => Err(error),
        },
    }
}

/// The id of an entity's last write.
pub(super) fn id_of<E: Entity>(row: &DynEntity) -> String {
    let id = row.get::<Option<String>>(E::WRITE_ID.unwrap_or(WRITE_ID)).ok().flatten();
    id.unwrap_or_default()
}

impl<E: Entity> Look<'_, E> {
    async fn scan(&mut self, partition: &str) -> Result<Suspects, Error> {
        let beginning = E::KEYS.map_or("", |keys| keys.row);
        let rows = self.indexed.table.filter::<DynEntity>(prop("PartitionKey").eq(partition));
        let mut pages = rows.allow_scan().with_settings(self.settings.clone()).pages();
        let mut wanted = BTreeMap::new();
        let mut found = BTreeMap::new();
        while let Some(page) = pages.try_next().await? {
            self.report.requests += 1;
            for row in page.items {
                let key = row.key().clone();
                if is_index_row::<E>(key.row()) {
                    found.insert(key, row);
                } else if key.row().starts_with(beginning) && !key.row().starts_with('!') {
                    let Some(copies) = expected::<E>(&row)? else { continue };
                    self.report.read += 1;
                    for copy in copies {
                        let others: &mut Vec<_> = wanted.entry(copy.key.clone()).or_default();
                        others.push((key.clone(), copy));
                    }
                }
            }
        }
        self.report.read += found.len();
        let mut suspects = Suspects::default();
        for (key, wanted) in &wanted {
            for (base, copy) in wanted {
                if !found.get(key).is_some_and(|row| copy.is_said_by(row)) {
                    suspects.entities.insert(base.clone());
                }
            }
        }
        suspects.orphans = found.into_keys().filter(|key| !wanted.contains_key(key)).collect();
        Ok(suspects)
    }

    async fn get(&mut self, key: &EntityKey) -> Result<Option<Stored<DynEntity>>, Error> {
        self.report.requests += 1;
        self.indexed.table.get::<DynEntity>(key).with_settings(self.settings.clone()).await
    }

    async fn get_entity(&mut self, key: &EntityKey) -> Result<Option<Stored<E>>, Error> {
        self.report.requests += 1;
        self.indexed.table.get::<E>(key).with_settings(self.settings.clone()).await
    }

    /// An index row that no entity of the scan asked for.
    async fn settle_orphan(&mut self, key: &EntityKey) -> Result<(), Error> {
        for attempt in 0..ATTEMPTS_MAX {
            let Some(row) = self.get(key).await? else { return Ok(()) };
            if let Some(base) = base_of(&row)?
                && self.get_entity(&base).await?.is_some_and(|base| has_row(&base, key))
            {
                return Ok(());
            }
            if !self.mends {
                let is_same = self.get(key).await?.is_some_and(|again| again.etag() == row.etag());
                self.report.orphan += usize::from(is_same);
                return Ok(());
            }
            // A writer that takes the value rewrites this row, so that its version speaks for all.
            self.report.requests += 1;
            let delete = self.indexed.table.delete(&row).with_settings(self.settings.clone());
            if applied(delete.await)? {
                self.report.orphan += 1;
                self.report.mended += 1;
                return Ok(());
            }
            self.indexed.table.pause_after_conflict(attempt).await;
        }
        Err(self.indexed.table.contended(key))
    }

    /// An entity of which an index row is missing or says something else.
    async fn settle_entity(&mut self, key: &EntityKey) -> Result<(), Error> {
        for attempt in 0..ATTEMPTS_MAX {
            let Some(base) = self.get(key).await? else { return Ok(()) };
            let Some(copies) = expected::<E>(&base)? else { return Ok(()) };
            let mut all = self.indexed.table.transaction(key.partition());
            all.guard(&base)?;
            let mut drift = DriftReport::default();
            for copy in copies {
                let Some(row) = self.get(&copy.key).await? else {
                    drift.missing += 1;
                    all.add("insert", core(&copy.key), copy.prepared()?.insert(Claim::Insert))?;
                    continue;
                };
                if copy.is_said_by(&row) {
                    continue;
                }
                if self.is_held_by_another(&row, key).await? {
                    drift.duplicate += 1;
                    continue;
                }
                drift.stale += 1;
                let if_match = IfMatch::Version(row.etag().clone());
                let operation = copy.prepared()?.update(Mode::Replace, &if_match)?;
                all.add("replace", core(&copy.key), operation)?;
            }
            drift.mended = all.len() - 1;
            let is_settled = if self.mends && drift.mended > 0 {
                self.report.requests += 1;
                applied(all.send(self.settings.clone()).await)?
            } else {
                drift.mended = 0;
                self.get(key).await?.is_some_and(|again| again.etag() == base.etag())
            };
            if is_settled {
                self.report.missing += drift.missing;
                self.report.stale += drift.stale;
                self.report.duplicate += drift.duplicate;
                self.report.mended += drift.mended;
                return Ok(());
            }
            self.indexed.table.pause_after_conflict(attempt).await;
        }
        Err(self.indexed.table.contended(key))
    }

    async fn is_held_by_another(
        &mut self,
        row: &Stored<DynEntity>,
        key: &EntityKey,
    ) -> Result<bool, Error> {
        match base_of(row)? {
            Some(base) if base != *key => {
                let base = self.get_entity(&base).await?;
                Ok(base.is_some_and(|base| has_row(&base, row.key())))
            }
            _ => Ok(false),
        }
    }
}
