//! Lists in a partition of their own, kept by the outbox.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use super::held::load_list;
use super::list::{List, codes_of, row_number};
use super::{Listed, PARALLEL, ValueOf};
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, TableClient, Transaction};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::filter::prop;
use crate::key::{EntityKey, PointKey, escape_text, unescape_text};
use crate::patterns::drift::{DriftReport, applied};
use crate::patterns::outbox::{FnStep, Outbox, Progress, Step, Work, step};
use crate::patterns::stamped::all_of;
use crate::written::Written;

/// Lists of the entities of *all* partitions that share a value, in a partition or table of their
/// own.
///
/// The list of a value is the row `{value}!00` of the partition `partition`, with the keys of its
/// members, `{PartitionKey}!{RowKey}` each, in `m00` to `m14`.
///
/// **Guarantee.** Eventually consistent: the change has a row in the outbox, in one transaction,
/// and a worker ([`IndexListElsewhere::step`]) brings each list in line with the entity as it is
/// then, so that neither order nor repetition of the work matters. Once the outbox is empty, the
/// lists name exactly the entities with their values. Until then a list may name too many or too
/// few; [`IndexListElsewhere::entities`] reads the entities and never returns one with another
/// value.
///
/// **Cost** in requests: a change 1, and 1 more in each minute and partition; the worker 4 for each
/// list, 2 if it is right already; members 1; entities 1 + n.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::{IndexListElsewhere, Outbox};
/// use tavola_client::{Entity, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
///     last: String,
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// let outbox = Outbox::new(&table);
/// let last = |one: &Employee| Some(one.last.clone());
/// let names = IndexListElsewhere::new(&outbox, &table, "lastname", last);
/// for dept in ["Sales", "Support"] {
///     let employee = Employee { dept: dept.into(), id: 104, last: "Jones".into() };
///     let mut change = table.transaction(dept);
///     change.insert(&employee)?;
///     names.add_with(change, "Jones", employee.entity_key()?).await?;
/// }
/// outbox.worker().step(names.step()).drain().await?;
/// let found = names.entities("Jones").await?;
/// let depts: Vec<_> = found.entities.iter().map(|one| &*one.dept).collect();
/// assert_eq!(depts, ["Sales", "Support"]);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct IndexListElsewhere<E> {
    outbox: Outbox,
    lists: TableClient,
    partition: String,
    parallel: usize,
    value_of: ValueOf<E>,
}

/// What the worker is told: whose lists to look at. It reads the entity itself.
#[derive(Serialize, Deserialize)]
struct Job {
    partition: String,
    row: String,
    values: Vec<String>,
}

impl<E> Clone for IndexListElsewhere<E> {
    fn clone(&self) -> Self {
        Self {
            outbox: self.outbox.clone(),
            lists: self.lists.clone(),
            partition: self.partition.clone(),
            parallel: self.parallel,
            value_of: Arc::clone(&self.value_of),
        }
    }
}

impl<E> fmt::Debug for IndexListElsewhere<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexListElsewhere")
            .field("table", &self.lists.name())
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

impl<E: Entity> IndexListElsewhere<E> {
    /// Lists in the partition `partition` of the table `lists`, of entities in the table of
    /// `outbox`, by the value that `value_of` gives.
    #[must_use]
    pub fn new(
        outbox: &Outbox,
        lists: &TableClient,
        partition: impl Into<String>,
        value_of: impl Fn(&E) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let (partition, value_of) = (partition.into(), Arc::new(value_of));
        let (outbox, lists) = (outbox.clone(), lists.clone());
        Self { outbox, lists, partition, parallel: PARALLEL, value_of }
    }

    /// So many entities are read at a time.
    #[must_use]
    pub fn parallel(self, parallel: usize) -> Self {
        Self { parallel: parallel.max(1), ..self }
    }

    /// Sends `change`, by which a member gets `value`.
    pub fn add_with<'a>(
        &'a self,
        change: Transaction<'a>,
        value: impl Into<String>,
        member: impl Into<PointKey<E>>,
    ) -> Call<'a, Vec<Written>> {
        self.change(change, member.into(), vec![value.into()])
    }

    /// Sends `change`, by which a member loses `value`.
    pub fn remove_with<'a>(
        &'a self,
        change: Transaction<'a>,
        value: impl Into<String>,
        member: impl Into<PointKey<E>>,
    ) -> Call<'a, Vec<Written>> {
        self.change(change, member.into(), vec![value.into()])
    }

    /// Sends `change`, by which a member gets `new` in place of `old`.
    pub fn rename_with<'a>(
        &'a self,
        change: Transaction<'a>,
        old: impl Into<String>,
        new: impl Into<String>,
        member: impl Into<PointKey<E>>,
    ) -> Call<'a, Vec<Written>> {
        self.change(change, member.into(), vec![new.into(), old.into()])
    }

    fn change<'a>(
        &'a self,
        mut change: Transaction<'a>,
        member: PointKey<E>,
        values: Vec<String>,
    ) -> Call<'a, Vec<Written>> {
        Call::new(self.lists.engine().settings(), move |settings| async move {
            let member = member.into_key()?;
            if member.partition() != change.partition() {
                let text = format!("{member} is not in the partition of the transaction");
                return Err(Error::invalid(Rule::Transaction, text));
            }
            let own = change.len();
            let (partition, row) = (member.partition().to_owned(), member.row().to_owned());
            self.outbox.add(&mut change, &self.step_name(), &Job { partition, row, values })?;
            let mut written = change.send(settings).await?;
            written.truncate(own);
            Ok(written)
        })
    }

    fn step_name(&self) -> String {
        format!("index list {}", self.partition)
    }

    /// What a worker of the outbox does to keep the lists.
    pub fn step(&self) -> impl Step + use<E> {
        let lists = self.clone();
        let run = move |work: Work| {
            let lists = lists.clone();
            async move {
                let job: Job = work.job()?;
                let member = EntityKey::new(job.partition, job.row)?;
                let settings = lists.lists.engine().settings();
                for value in &job.values {
                    let mut report = DriftReport::default();
                    lists.settle(value, &member, true, &mut report, &settings).await?;
                }
                Ok(Progress::Done)
            }
        };
        let step: FnStep<_> = step(self.step_name(), run);
        step
    }

    /// Brings one list in line with one entity: looks at the list, then at the entity, and after a
    /// write at the entity again, because another worker may have been slower or faster.
    async fn settle(
        &self,
        value: &str,
        member: &EntityKey,
        mends: bool,
        report: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let code = code(member);
        let base = format!("{}!", escape_text(value));
        for attempt in 0..ATTEMPTS_MAX {
            let (mut list, requests) =
                load_list(&self.lists, &self.partition, &base, settings).await?;
            let get = self.outbox.table().get::<E>(member).with_settings(settings.clone());
            let is_wanted =
                get.await?.is_some_and(|one| (self.value_of)(&one).as_deref() == Some(value));
            report.requests += requests + 1;
            if list.has(&code) == is_wanted {
                return Ok(());
            }
            match is_wanted {
                true => report.missing += 1,
                false => report.orphan += 1,
            }
            if !mends {
                return Ok(());
            }
            report.requests += 1;
            if self.write(&mut list, &code, is_wanted, settings).await? {
                report.mended += 1;
            } else {
                match is_wanted {
                    true => report.missing -= 1,
                    false => report.orphan -= 1,
                }
                self.lists.pause_after_conflict(attempt).await;
            }
        }
        Err(self.lists.contended(&EntityKey::new(self.partition.as_str(), format!("{base}00"))?))
    }

    /// False if somebody else changed the list.
    async fn write(
        &self,
        list: &mut List,
        code: &str,
        is_wanted: bool,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        match is_wanted {
            true => list.add(code)?,
            false => list.remove(code),
        }
        let mut all = self.lists.transaction(self.partition.as_str());
        list.stage(&mut all, self.lists.engine().runtime.random())?;
        match all.send(settings.clone()).await {
            // The next look at the list tells.
            Err(error) if error.outcome() == Outcome::Unknown => Ok(false),
            other => applied(other),
        }
    }

    /// The keys that the list of a value names, in their order.
    pub fn members(&self, value: impl Into<String>) -> Call<'_, Vec<EntityKey>> {
        let base = format!("{}!", escape_text(&value.into()));
        Call::new(self.lists.engine().settings(), move |settings| async move {
            let (list, _) = load_list(&self.lists, &self.partition, &base, &settings).await?;
            list.codes().into_iter().map(key_of).collect()
        })
    }

    /// The entities with this value that its list names, in the order of their keys. What the list
    /// names and has not the value is in `drift`, though it may only be late.
    pub fn entities(&self, value: impl Into<String>) -> Call<'_, Listed<E>> {
        let value = value.into();
        Call::new(self.lists.engine().settings(), move |settings| async move {
            let base = format!("{}!", escape_text(&value));
            let (list, requests) =
                load_list(&self.lists, &self.partition, &base, &settings).await?;
            let keys: Result<Vec<_>, _> = list.codes().into_iter().map(key_of).collect();
            let keys = keys?;
            let requests = requests + keys.len();
            let reads = self.outbox.table().get_many::<E, _>(keys.clone(), self.parallel);
            let found = reads.with_settings(settings).await?;
            let mut listed = Listed { entities: Vec::new(), drift: Vec::new(), requests };
            for (key, found) in keys.into_iter().zip(found) {
                match found {
                    Some(one) if (self.value_of)(&one).as_ref() == Some(&value) => {
                        listed.entities.push(one);
                    }
                    _ => listed.drift.push(key),
                }
            }
            Ok(listed)
        })
    }

    /// Compares the lists with the entities of one partition. What the outbox has still to do
    /// counts as drift: let it be empty first.
    pub fn verify(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), false)
    }

    /// The same, and mends what is wrong, beside writers and workers.
    pub fn rebuild(&self, partition: impl Into<String>) -> Call<'_, DriftReport> {
        self.look(partition.into(), true)
    }

    fn look(&self, partition: String, mends: bool) -> Call<'_, DriftReport> {
        Call::new(self.lists.engine().settings(), move |settings| async move {
            let table = self.outbox.table();
            let (entities, requests) = all_of::<E>(table, &partition, &settings).await?;
            let mut report = DriftReport { requests, ..DriftReport::default() };
            report.read = entities.len();
            let found = self.scan(&partition, &mut report, &settings).await?;
            let mut wanted = BTreeSet::new();
            for one in &entities {
                wanted.extend((self.value_of)(one).map(|value| (value, code(one.key()))));
            }
            for (value, code) in wanted.symmetric_difference(&found) {
                self.settle(value, &key_of(code)?, mends, &mut report, &settings).await?;
            }
            Ok(report)
        })
    }

    /// The members of all lists that are of one partition: value and code.
    async fn scan(
        &self,
        partition: &str,
        report: &mut DriftReport,
        settings: &CallSettings,
    ) -> Result<BTreeSet<(String, String)>, Error> {
        let rows = self.lists.filter::<DynEntity>(prop("PartitionKey").eq(self.partition.as_str()));
        let mut pages = rows.allow_scan().with_settings(settings.clone()).pages();
        let mut found = BTreeSet::new();
        let own = format!("{}!", escape_text(partition));
        while let Some(page) = pages.try_next().await? {
            report.requests += 1;
            report.read += page.items.len();
            for row in &page.items {
                let Some((value, rest)) = unescape_text(row.key().row()) else { continue };
                if rest.strip_prefix('!').and_then(row_number).is_some() {
                    let codes = codes_of(row).filter(|code| code.starts_with(&own));
                    found.extend(codes.map(|code| (value.clone(), code.to_owned())));
                }
            }
        }
        Ok(found)
    }
}

/// A key as a list has it.
fn code(key: &EntityKey) -> String {
    format!("{}!{}", escape_text(key.partition()), escape_text(key.row()))
}

fn key_of(code: &str) -> Result<EntityKey, Error> {
    let wrong = || {
        let text = format!("'{code}' in a list is not the keys of a member");
        Error::new(ErrorKind::Pattern, Outcome::NotApplied, text)
    };
    let (partition, rest) = unescape_text(code).ok_or_else(wrong)?;
    let row = rest.strip_prefix('!').and_then(unescape_text);
    match row {
        Some((row, "")) => EntityKey::new(partition, row),
        _ => Err(wrong()),
    }
}
