//! Lists that others broke: found, and mended beside writers.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;

use super::list::{codes_of, row_number};
use super::{IndexList, Place};
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, Transaction};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity};
use crate::error::{Error, ErrorKind};
use crate::etag::ETag;
use crate::filter::prop;
use crate::key::{EntityKey, unescape_text};
use crate::patterns::drift::{DriftReport, applied};
use crate::patterns::stamped::beginning;

/// Members that are settled in one transaction: each can take two operations.
const SETTLED_AT_ONCE: usize = 45;

/// The escaped ids of the members of each value.
type Members = BTreeMap<String, BTreeSet<String>>;

/// One look at a partition.
struct Look<'a, E> {
    lists: &'a IndexList<E>,
    partition: &'a str,
    settings: CallSettings,
    mends: bool,
    report: DriftReport,
}

/// The members of one value that are not as they should be, and what was read of them.
struct Findings<'a> {
    mend: Transaction<'a>,
    drift: DriftReport,
    /// Id, version of the list, version of the entity.
    versions: Vec<(String, Option<ETag>, Option<ETag>)>,
}

impl<E: Entity> IndexList<E> {
    /// Compares the lists of a partition with its entities, beside writers. One request for each
    /// 1,000 rows, and a few for each member that seems wrong.
    pub fn verify(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), false)
    }

    /// The same, and mends what is wrong, under the versions of entities and lists.
    pub fn rebuild(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), true)
    }

    fn look(&self, partition: String, mends: bool) -> Call<'_, DriftReport> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let (partition, report) = (partition.as_str(), DriftReport::default());
            let mut look = Look { lists: self, partition, settings, mends, report };
            for (value, codes) in look.scan().await? {
                for codes in codes.chunks(SETTLED_AT_ONCE) {
                    look.settle(&value, codes).await?;
                }
            }
            Ok(look.report)
        })
    }

    /// The value of a row; `None` if it is of another kind.
    fn value_of_row(&self, row: &DynEntity) -> Result<Option<String>, Error> {
        match row.to::<E>() {
            Ok(entity) => Ok((self.value_of)(&entity)),
            Err(error) => match error.kind() {
                ErrorKind::Kind { .. } | ErrorKind::Invalid { .. } => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Notes the members that a row of a list names.
    fn note(&self, row: &DynEntity, own: &str, members: &mut Members) {
        let Some((value, rest)) = unescape_text(own) else { return };
        let Some(rest) = rest.strip_prefix('!') else { return };
        match self.place {
            Place::List if row_number(rest).is_some() => {
                let codes = codes_of(row).map(str::to_owned);
                members.entry(value).or_default().extend(codes);
            }
            Place::List => {}
            Place::Rows => drop(members.entry(value).or_default().insert(rest.to_owned())),
        }
    }
}

impl<'a, E: Entity> Look<'a, E> {
    /// The members that seem wrong, by value: a scan of several pages is no single moment.
    async fn scan(&mut self) -> Result<Vec<(String, Vec<String>)>, Error> {
        let rows = self.lists.table.filter::<DynEntity>(prop("PartitionKey").eq(self.partition));
        let mut pages = rows.allow_scan().with_settings(self.settings.clone()).pages();
        let (mut wanted, mut found) = (Members::new(), Members::new());
        while let Some(page) = pages.try_next().await? {
            self.report.requests += 1;
            for row in page.items {
                let key = row.key();
                if let Some(own) = key.row().strip_prefix(self.lists.prefix.as_str()) {
                    self.report.read += 1;
                    self.lists.note(&row, own, &mut found);
                } else if key.row().starts_with(beginning::<E>()) && !key.row().starts_with('!') {
                    self.report.read += 1;
                    let Some(value) = self.lists.value_of_row(&row)? else { continue };
                    wanted.entry(value).or_default().insert(IndexList::<E>::code(key)?);
                }
            }
        }
        let values: BTreeSet<String> = wanted.keys().chain(found.keys()).cloned().collect();
        let none = BTreeSet::new();
        let suspects = values.into_iter().map(|value| {
            let (wanted, found) = (wanted.get(&value), found.get(&value));
            let (wanted, found) = (wanted.unwrap_or(&none), found.unwrap_or(&none));
            let codes = wanted.symmetric_difference(found).cloned().collect::<Vec<_>>();
            (value, codes)
        });
        Ok(suspects.filter(|(_, codes)| !codes.is_empty()).collect())
    }

    async fn settle(&mut self, value: &str, codes: &[String]) -> Result<(), Error> {
        for attempt in 0..ATTEMPTS_MAX {
            let found = self.examine(value, codes).await?;
            if found.drift.is_clean() {
                return Ok(());
            }
            let is_settled = if self.mends {
                self.report.requests += 1;
                applied(found.mend.send(self.settings.clone()).await)?
            } else {
                let again = self.examine(value, codes).await?;
                again.versions == found.versions
            };
            if is_settled {
                let (missing, orphan) = (found.drift.missing, found.drift.orphan);
                self.report.missing += missing;
                self.report.orphan += orphan;
                self.report.mended += if self.mends { missing + orphan } else { 0 };
                return Ok(());
            }
            self.lists.table.pause_after_conflict(attempt).await;
        }
        let row = format!("{}00", self.lists.base(value));
        Err(self.lists.table.contended(&EntityKey::new(self.partition, row)?))
    }

    /// Looks at the list first, then at the entities: adding a member writes the list, so that
    /// its version says that nobody did.
    async fn examine(&mut self, value: &str, codes: &[String]) -> Result<Findings<'a>, Error> {
        let lists = self.lists;
        let (mut held, requests) = lists.load(self.partition, value, &self.settings).await?;
        self.report.requests += requests + codes.len();
        let keys = codes.iter().map(|code| IndexList::<E>::member(self.partition, code));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let reads = lists.table.get_many::<DynEntity, _>(keys, lists.parallel);
        let entities = reads.with_settings(self.settings.clone()).await?;
        let mut mend = lists.table.transaction(self.partition);
        let mut drift = DriftReport::default();
        let mut versions = Vec::new();
        for (code, entity) in codes.iter().zip(entities) {
            let own = entity.as_ref().map(|entity| lists.value_of_row(entity)).transpose()?;
            let is_wanted = own.flatten().as_deref() == Some(value);
            let is_named = held.has(code);
            if is_wanted == is_named {
                continue;
            }
            let version = held.version(code).cloned();
            versions.push((code.clone(), version, entity.as_ref().map(|one| one.etag().clone())));
            if let Some(entity) = &entity {
                mend.guard(entity)?;
            }
            if is_wanted {
                drift.missing += 1;
                held.add(code)?;
            } else {
                drift.orphan += 1;
                held.remove(code);
            }
        }
        if !drift.is_clean() {
            held.stage(&mut mend, lists.table.engine().runtime.random())?;
        }
        Ok(Findings { mend, drift, versions })
    }
}
